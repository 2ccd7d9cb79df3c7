"""Which harm a broken promise did: seen, in one place, for every check alike.

A check says *that* a promise is broken. Which harm that does to people is not declared by its
rule but observed, in this order, and the worst that was seen counts:

1. what the check itself noted where it looked (``Evidence.saw``), and what its last runs show: a
   kernel that is not the one a fresh compile gives, files outside the cache that changed, a
   process ended by a signal, one that did not end;
2. what the next runs show, which are made now, in the check's own directory, as a user would make
   them: does every one of them fail, or compile again what it should reuse?
3. where the cache works, what the failed comparison was about: words the toolchain said, files
   where they do not belong, or else work done again or a stale kernel used.
"""

from __future__ import annotations

import ast
import re
import time

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Sighting
from pytest_ascendcache.toolchains import KernelRunError, ToolchainError

_OBSERVED = re.compile(r"^\s*observed: (.*)$", re.MULTILINE)
_EXPECTED = re.compile(r"^\s*expected: (.*)$", re.MULTILINE)
_WORDS = ("output", "words", "said")
_NAMING = ("named", "_names")
"""Names the suite gives to what a toolchain printed, and to looking for names in it."""

_is_looked_for = True

_LOST = ("removed", "absent", "rewritten", "compiled")
_KEPT = ("kept", "stored", "reused")


def leave_out() -> None:
    """Have this process look for no harm of what is broken anyway, and for no shorter history:
    that takes more runs than many a check does.

    ``ci/qualify`` does, for a defect that claims no harm.
    """
    global _is_looked_for
    _is_looked_for = False


def is_looked_for() -> bool:
    """Whether the harm of a broken promise is told where the verdict does not need it."""
    return _is_looked_for


def observed_harm(evidence: Evidence, message: str, comparison: str = "") -> Sighting | None:
    """The worst harm that can be seen of a promise found broken.

    ``message`` says why; ``comparison`` is the source of the statement that failed. None where
    nothing was run: then nothing was observed. Makes runs of its own.
    """
    found = evidence.sightings
    witness = evidence.witness
    if witness is None:
        return _worst(found)
    steps, starts, began = list(evidence.steps), evidence.starts, time.monotonic()
    try:
        found += witness.seen()
        if not any(each.harm in (Harm.WRONG_RESULT, Harm.OUTSIDE_TOUCHED) for each in found):
            later = witness.afterwards()
            found += [later] if later is not None else []
    except (NotDecidable, ToolchainError, KernelRunError, OSError) as error:
        evidence.notes.append(f"not all harm could be told: {error}")
        return _worst(found)
    finally:
        # The story is that of the check; what was made to look at the harm is told in one line.
        evidence.harm_starts = evidence.starts - starts
        evidence.harm_seconds = round(time.monotonic() - began, 3)
        evidence.steps, evidence.starts = steps, starts
    worst = _worst(found)
    if worst is not None and worst.harm.rank < Harm.LOST_WORK.rank:
        return worst
    if _is_about_words(comparison):
        return Sighting(Harm.MISLEADING, "only what was said is wrong; kernels are right")
    return worst or _by_comparison(message)


def _worst(found: list[Sighting]) -> Sighting | None:
    return min(found, key=lambda each: each.harm.rank, default=None)


def _by_comparison(message: str) -> Sighting:
    """What a failed comparison says of a cache that works."""
    observed, expected = _named(_OBSERVED, message), _named(_EXPECTED, message)
    if "reused" in observed and "compiled" in expected:
        return Sighting(Harm.LOST_WORK, "an old kernel is used; the next runs work")
    if _any(_LOST, observed) and _any(_KEPT, expected):
        return Sighting(Harm.LOST_WORK, "work is done again; the next runs work")
    if _any(_KEPT, observed) and _any(("absent", "removed"), expected):
        return Sighting(Harm.MISPLACED, "files stay that should not; the next runs work")
    return Sighting(Harm.LOST_WORK, "no kernel was wrong, and the next runs work")


def _is_about_words(statement: str) -> bool:
    """Whether a statement looks for words in what a toolchain printed."""
    try:
        parsed = ast.parse(statement.strip())
    except SyntaxError:
        return False
    nodes = list(ast.walk(parsed))
    looked_in = [
        where
        for node in nodes
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn))
        for where in node.comparators
    ]
    alone = [node.test for node in nodes if isinstance(node, ast.Assert)]
    if any(isinstance(each, ast.Name) and each.id in _NAMING for each in alone):
        return True
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "output")
        or (isinstance(each, ast.Name) and each.id in _WORDS)
        for each in looked_in
    ) or any(isinstance(each, ast.Name) and each.id in _NAMING for each in called)


def _named(pattern: re.Pattern[str], message: str) -> str:
    match = pattern.search(message)
    return match[1] if match else ""


def _any(words: tuple[str, ...], text: str) -> bool:
    return any(word in text for word in words)
