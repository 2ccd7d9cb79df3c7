"""The six verdicts, and the verdict for a broken promise."""

from __future__ import annotations

from enum import Enum

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.rules import Level


class Verdict(str, Enum):
    """The result of a check of a rule.

    ``UNDECIDED``: the check could not tell, because the harness or the toolchain could not run, or
    because the check's preconditions do not hold. It never counts as a pass.
    """

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    KNOWN_DEVIATION = "known deviation"
    NOT_APPLICABLE = "not applicable"
    UNDECIDED = "undecided"


def broken_promise(
    level: Level, strict: bool, harm: Harm | None = None, lowered: bool = False
) -> Verdict:
    """The verdict of a check that found its promise broken, and observed this harm.

    A broken *must* fails. A broken *should* fails if the harm does (``Harm.fails``) or under
    ``--ascend-strict``, and warns otherwise. An *info* rule has no wrong answer: an observation
    that fits no reading of the document warns, and never fails. One that is *info* only for the
    judged edition or cache (``lowered``) fails too if the harm does; an old kernel is no harm
    there.
    """
    if level is Level.INFO:
        fails = lowered and harm is not None and harm.rank < Harm.STALE.rank
    else:
        fails = level is Level.MUST or strict or (harm is not None and harm.fails)
    return Verdict.FAIL if fails else Verdict.WARN
