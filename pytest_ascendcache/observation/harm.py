"""Finds out what harm a broken promise did, in one place for all checks.

A check finds *that* a promise is broken. Its harm is not declared by the rule but observed:

1. what the check and its judges recorded (``Evidence.facts``, ``Evidence.saw``), and what its last
   runs show: a kernel that differs from a fresh compile, changed files outside the cache, a process
   that crashed or did not end;
2. what further runs show, made now in the check's directory, as a user would make them: whether
   all of them fail, or compile again what they should reuse.

``contract.harm`` says which harm a fact is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from pytest_ascendcache.contract.facts import Fact
from pytest_ascendcache.contract.harm import Harm, harm_in
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable
from pytest_ascendcache.toolchains import KernelRunError, ToolchainError

_WORST = (Harm.WRONG_RESULT, Harm.OUTSIDE_TOUCHED)
"""No further run can show anything worse."""

_SENTENCES = {
    Harm.STALE: "an old kernel is used; the next runs work",
    Harm.LOST_WORK: "work is done again; the next runs work",
    Harm.MISPLACED: "files remain that should not; the next runs work",
    Harm.MISLEADING: "only messages are wrong; the kernels are right",
    Harm.NOT_DETERMINED: "no kernel was wrong, and the next runs work",
}

_is_looked_for = True


def leave_out() -> None:
    """Do not look for harm, nor for a shorter history, in this process: that takes more runs than
    many checks do. ``ci/qualify`` calls this for defects that claim no harm."""
    global _is_looked_for
    _is_looked_for = False


def is_looked_for() -> bool:
    """Whether to determine harm that the verdict does not depend on."""
    return _is_looked_for


def observed_harm(evidence: Evidence) -> Fact | None:
    """The fact with the worst harm of a broken promise; None if nothing was run. Makes further
    runs."""
    witness = evidence.witness
    if witness is None:
        return _worst(fact for fact in (*evidence.facts, *evidence.seen) if _is_determined(fact))
    facts = list(evidence.seen)
    steps, starts, began = list(evidence.steps), evidence.starts, time.monotonic()
    evidence.look(True)
    try:
        facts += witness.seen()
        if not any(harm_in(each) in _WORST for each in facts):
            later = witness.afterwards()
            facts += [later] if later is not None else []
    except (NotDecidable, ToolchainError, KernelRunError, OSError) as error:
        evidence.notes.append(f"not all harm could be determined: {error}")
    finally:
        evidence.look(False)
        # The report shows the check's own steps; the extra runs are summarized in one line.
        evidence.harm_starts = evidence.starts - starts
        evidence.harm_seconds = round(time.monotonic() - began, 3)
        evidence.steps, evidence.starts = steps, starts
    return deciding(evidence.facts, facts)


def deciding(own: Iterable[Fact], seen: Iterable[Fact]) -> Fact | None:
    """The fact that decides the harm, of those a check found itself and those its runs show.

    The worst harm that fails a run counts, from either of the two. Of lesser harm the check's facts
    tell what the promise is about; what runs show counts where they do not tell.
    """
    own, seen = list(own), list(seen)
    failing = [each for each in (*own, *seen) if harm_in(each).fails]
    known = [each for each in own if _is_determined(each)]
    return _worst(failing) or _worst(known) or _worst(seen) or _worst(own)


def sentence(fact: Fact) -> str:
    """The harm of a fact in one sentence without a full stop, for people."""
    return fact.detail or _SENTENCES.get(harm_in(fact), "")


def _is_determined(fact: Fact) -> bool:
    return harm_in(fact) is not Harm.NOT_DETERMINED


def _worst(facts: Iterable[Fact]) -> Fact | None:
    return min(facts, key=lambda each: harm_in(each).rank, default=None)
