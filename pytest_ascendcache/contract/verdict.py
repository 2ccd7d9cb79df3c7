"""The six verdicts, and how a check's result becomes one."""

from __future__ import annotations

from enum import Enum

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


def broken_promise(level: Level, strict: bool) -> Verdict:
    """The verdict of a check that found its promise broken.

    A broken *must* fails; a broken *should* warns, and fails under ``--ascend-strict``; an
    *info* rule has no wrong answer, so a check of one that finds fault could not tell.
    """
    if level is Level.MUST:
        return Verdict.FAIL
    if level is Level.SHOULD:
        return Verdict.FAIL if strict else Verdict.WARN
    return Verdict.UNDECIDED
