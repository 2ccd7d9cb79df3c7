"""The six verdicts, and how a check's result becomes one."""

from __future__ import annotations

from enum import Enum

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.rules import Level


class Verdict(str, Enum):
    """What a check says of a rule.

    ``UNDECIDED``: the check could not tell, as the harness or the toolchain could not run, or what
    the check rests on does not hold. It is never counted as a pass.
    """

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    KNOWN_DEVIATION = "known deviation"
    NOT_APPLICABLE = "not applicable"
    UNDECIDED = "undecided"


def broken_promise(level: Level, strict: bool, harm: Harm | None = None) -> Verdict:
    """The verdict of a check that found its promise broken, and saw this harm.

    Harm that fails (``Harm.fails``) fails whatever the level. Otherwise a broken *must* fails; a
    broken *should* warns, and fails under ``--ascend-strict``; an *info* rule has no wrong answer:
    what fits no reading of the document warns, and never fails.
    """
    if level is Level.MUST or (harm is not None and harm.fails):
        return Verdict.FAIL
    if level is Level.SHOULD and strict:
        return Verdict.FAIL
    return Verdict.WARN
