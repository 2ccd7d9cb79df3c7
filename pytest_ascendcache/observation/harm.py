"""Determines the harm of a broken promise, in one place for all checks.

A check finds *that* a promise is broken. Its harm is not declared by the rule but observed, in this
order, and the worst counts:

1. What the check recorded (``Evidence.saw``) and what its last runs show: a kernel that differs
   from a fresh compile, changed files outside the cache, a process that crashed or did not end.
2. What further runs show, made now in the check's directory, as a user would make them: whether
   all of them fail, or compile again what they should reuse.
3. If the cache works, what the failed comparison was about: messages, misplaced files, repeated
   work or a stale kernel.
"""

from __future__ import annotations

import ast
import re
import time

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Sighting
from pytest_ascendcache.toolchains import KernelRunError, ToolchainError

_WORDS = ("output", "words", "said")
_NAMING = ("named", "_names")
"""Names that the suite uses for a toolchain's output, and for looking for names in it."""

_is_looked_for = True

_LOST = ("removed", "absent", "rewritten", "compiled")
_KEPT = ("kept", "stored", "reused")


def leave_out() -> None:
    """Do not look for harm, nor for a shorter history, in this process: that takes more runs than
    many checks do. ``ci/qualify`` calls this for defects that claim no harm."""
    global _is_looked_for
    _is_looked_for = False


def is_looked_for() -> bool:
    """Whether to determine harm that the verdict does not depend on."""
    return _is_looked_for


def observed_harm(evidence: Evidence, message: str, comparison: str = "") -> Sighting | None:
    """The worst harm of a broken promise; None if nothing was run. Makes further runs. ``message``
    says why the promise is broken; ``comparison`` is the source of the failed statement."""
    sightings = evidence.sightings
    witness = evidence.witness
    if witness is None:
        return _worst(sightings)
    steps, starts, began = list(evidence.steps), evidence.starts, time.monotonic()
    try:
        sightings += witness.seen()
        if not any(each.harm in (Harm.WRONG_RESULT, Harm.OUTSIDE_TOUCHED) for each in sightings):
            later = witness.afterwards()
            sightings += [later] if later is not None else []
    except (NotDecidable, ToolchainError, KernelRunError, OSError) as error:
        evidence.notes.append(f"not all harm could be determined: {error}")
        return _worst(sightings)
    finally:
        # The report shows the check's own steps; the extra runs are summarized in one line.
        evidence.harm_starts = evidence.starts - starts
        evidence.harm_seconds = round(time.monotonic() - began, 3)
        evidence.steps, evidence.starts = steps, starts
    worst = _worst(sightings)
    if worst is not None and worst.harm.rank < Harm.LOST_WORK.rank:
        return worst
    if _is_about_words(comparison):
        return Sighting(Harm.MISLEADING, "only messages are wrong; the kernels are right")
    return worst or _by_comparison(message)


def _worst(sightings: list[Sighting]) -> Sighting | None:
    return min(sightings, key=lambda each: each.harm.rank, default=None)


def _by_comparison(message: str) -> Sighting:
    """The harm that a failed comparison shows if the cache works."""
    observed, expected = _outcome("observed", message), _outcome("expected", message)
    if "reused" in observed and "compiled" in expected:
        return Sighting(Harm.LOST_WORK, "an old kernel is used; the next runs work")
    if _any(_LOST, observed) and _any(_KEPT, expected):
        return Sighting(Harm.LOST_WORK, "work is done again; the next runs work")
    if _any(_KEPT, observed) and _any(("absent", "removed"), expected):
        return Sighting(Harm.MISPLACED, "files remain that should not; the next runs work")
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
    named = [node.test for node in nodes if isinstance(node, ast.Assert)]
    named += [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(isinstance(each, ast.Name) and each.id in _NAMING for each in named) or any(
        (isinstance(each, ast.Attribute) and each.attr == "output")
        or (isinstance(each, ast.Name) and each.id in _WORDS)
        for each in looked_in
    )


def _outcome(which: str, message: str) -> str:
    match = re.search(rf"^\s*{which}: (.*)$", message, re.MULTILINE)
    return match[1] if match else ""


def _any(words: tuple[str, ...], text: str) -> bool:
    return any(word in text for word in words)
