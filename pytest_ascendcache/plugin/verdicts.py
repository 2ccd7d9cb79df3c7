"""From a finished check to a verdict record: the one place a verdict is made."""

from __future__ import annotations

import errno
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import PACKAGE, module_of
from pytest_ascendcache.contract import Fate, Outcome, Rule, Verdict, rules_for
from pytest_ascendcache.contract.deviations import Fault
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.verdict import broken_promise
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.harm import is_looked_for, observed_harm
from pytest_ascendcache.plugin.collection import SuiteModule
from pytest_ascendcache.plugin.stash import EVIDENCE, GANG, ascend_session_of, settings_of
from pytest_ascendcache.ranks import GangAborted, RankLost
from pytest_ascendcache.reports.records import VerdictRecord
from pytest_ascendcache.toolchains import KernelRunError, ToolchainError
from pytest_ascendcache.words import instead, pytest_command

_STATUS = {
    Verdict.PASS: ("passed", ".", "PASSED"),
    Verdict.FAIL: ("failed", "F", "FAILED"),
    Verdict.WARN: ("warned", "w", ("WARN", {"yellow": True})),
    Verdict.KNOWN_DEVIATION: ("known deviation", "k", ("KNOWN DEVIATION", {"yellow": True})),
    Verdict.NOT_APPLICABLE: ("skipped", "s", "SKIPPED"),
    Verdict.UNDECIDED: ("undecided", "U", ("UNDECIDED", {"red": True})),
}

_PLAIN_WORDS = (
    AssertionError,
    pytest.fail.Exception,
    NotDecidable,
    ToolchainError,
    KernelRunError,
    GangAborted,
    RankLost,
)
"""Exceptions whose text is meant for the reader of a report."""


_MACHINE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.ENOMEM,
}
"""Errors that say something of the machine and nothing of the toolchain."""

_ROOM = 1 << 20
"""Bytes that have to be free for sandboxes while a check fails, or the disk may be why it does."""


def prepare_items(items: list[pytest.Item]) -> None:
    """Check the rule ids of collected checks and tell JUnit which rule each one judges.

    Raises:
        pytest.UsageError: for a rule that does not exist.
    """
    for item in items:
        rule = rule_of(item)
        item.user_properties += [
            ("rule", rule.id),
            ("level", rule.level.value),
            ("title", rule.title_en),
            ("document", rule.source.document),
            ("source", str(rule.source)),
        ]


def rule_of(item: pytest.Item) -> Rule:
    """The rule a check judges."""
    marker = item.get_closest_marker("ascend_rule")
    assert marker is not None
    name = str(marker.args[0]) if marker.args else ""
    judged_by = ascend_session_of(item.config).judged_by
    rules = rules_for(settings_of(item.config).toolchain, *judged_by.editions)
    if name not in rules:
        raise pytest.UsageError(
            f"{item.nodeid}: ascend_rule({name!r}) names no rule; "
            + instead(name, rules, "pytest --ascend-rules lists them.")
        )
    return rules[name]


def judge(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, strict: bool
) -> None:
    """Attach a verdict record to the report of a finished phase, and the verdict's outcome.

    A check gets one record: from its call, or from the setup that kept it from being called;
    a teardown that fails says "could not tell" in addition.
    """
    if (report.when == "setup" and report.passed) or (report.when == "teardown" and report.passed):
        return
    rule = rule_of(item)
    evidence = item.stash.get(EVIDENCE, None) or Evidence()
    message = _message(call, report) if not report.passed else ""
    if unfit := _machine_is_unfit(item, call, report):
        message, harm, verdict = unfit, None, Verdict.UNDECIDED
    else:
        harm = _harm(item, call, report, evidence, message)
        verdict = _verdict(rule, call, report, strict, harm)
    if _is_later_promise(rule, verdict, harm):
        verdict = Verdict.NOT_APPLICABLE
        why = f"{rule.promised_by} promises this, the judged edition does not"
        if rule.unread:
            why = "what the judged edition says of this could not be read"
        message = f"{why}: {message}"
    evidence.observed, evidence.expected = _part(message, "observed"), _part(message, "expected")
    fault = Fault(rule.id, item.stash.get(GANG, item.nodeid), evidence.factors, message, harm)
    deviation = _deviation(item, fault, evidence.observed, verdict)
    if deviation is not None:
        verdict = Verdict.KNOWN_DEVIATION
    if verdict is not Verdict.PASS:
        evidence.explain()
    if verdict in (Verdict.WARN, Verdict.KNOWN_DEVIATION):
        report.outcome = "passed"
        report.longrepr = None
    elif verdict is Verdict.NOT_APPLICABLE and report.failed:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {message}")
    elif report.failed and item.getparent(SuiteModule) is not None:
        _shorten(item, call, report)
    record = VerdictRecord(
        rule=rule.id,
        check=item.nodeid,
        verdict=verdict,
        message=message,
        repeat=_repeat(item),
        seconds=round(report.duration, 4),
        evidence=evidence.as_dict(),
        deviation=deviation,
        harm=harm.value if harm is not None else None,
    )
    # JUnit reads the properties of the last phase, which is made from the item's.
    item.user_properties.append(("verdict", verdict.value))
    # Plain data, so that it survives the way from an xdist worker.
    report.ascend_record = record.as_dict()  # type: ignore[attr-defined]
    report.ascend_verdict = verdict.value  # type: ignore[attr-defined]


def _shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Replace the suite's tracebacks by their last line of code, unless ``--tb`` asks for more.

    The reader knows the document, not this package; the summary tells the whole story.
    """
    if call.excinfo is None or item.config.getoption("tbstyle") != "auto":
        return
    if not (text := _plain(call.excinfo.value)):
        return
    if entries := _entries(item, call):
        place = f"{item.location[0]}:{entries[-1].lineno + 1}"
        text = f"{place}\n>   {_statement(item, call)}\n{text}"
    report.longrepr = text


def _entries(item: pytest.Item, call: pytest.CallInfo[None]) -> list[Any]:
    """The lines of the check's own module that an exception came through."""
    if call.excinfo is None:
        return []
    return [each for each in call.excinfo.traceback if Path(each.path) == item.path]


def _statement(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """The last of them, as it is written; empty where there is none."""
    entries = _entries(item, call)
    return str(entries[-1].statement).strip() if entries else ""


def _machine_is_unfit(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> str:
    """Why nothing can be blamed for a check that fails just now; empty where something can.

    On a full disk any toolchain stores nothing, and the suite's own tools note nothing.
    """
    blamed = (AssertionError, pytest.fail.Exception, ToolchainError)
    if report.when != "call" or call.excinfo is None or not isinstance(call.excinfo.value, blamed):
        return ""
    try:
        base = ascend_session_of(item.config).base
    except ToolchainError:
        return ""  # an audit needs no sandbox
    try:
        with tempfile.TemporaryFile(dir=base) as probe:
            probe.write(bytes(_ROOM))
    except OSError as error:
        error.filename = str(base)
        return _plain(error)
    return ""


def _harm(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    evidence: Evidence,
    message: str,
) -> Harm | None:
    """The harm a broken promise did, which may take runs of the toolchain to see.

    A toolchain that does not end, or ends badly, breaks a promise only where the cache is what
    it fails for: that is harm that fails, or the check is undecided.
    """
    exception = call.excinfo.value if call.excinfo is not None else None
    broken = isinstance(exception, (AssertionError, pytest.fail.Exception))
    if report.when != "call" or not (broken or isinstance(exception, ToolchainError)):
        return None
    if broken and not is_looked_for():
        return None
    seen = observed_harm(evidence, message, _statement(item, call))
    if seen is None or not (broken or seen.harm.fails):
        return None
    evidence.harm = seen.what
    return seen.harm


def _verdict(
    rule: Rule,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    strict: bool,
    harm: Harm | None,
) -> Verdict:
    if report.passed:
        return Verdict.PASS
    if report.skipped:
        return Verdict.NOT_APPLICABLE
    exception = call.excinfo.value if call.excinfo is not None else None
    if isinstance(exception, GangAborted) and exception.cause:
        # This rank saw nothing by itself: the gang's verdict is the other rank's.
        return Verdict(exception.cause)
    broken = isinstance(exception, (AssertionError, pytest.fail.Exception))
    if (broken and report.when == "call") or harm is not None:
        return broken_promise(rule.level, strict, harm)
    return Verdict.UNDECIDED


def _is_later_promise(rule: Rule, verdict: Verdict, harm: Harm | None) -> bool:
    """Whether what is broken is, for all that could be read, not a promise of the edition that
    is judged by, and did no harm that fails. What could not be told stays undecided."""
    broken = verdict in (Verdict.FAIL, Verdict.WARN)
    harmless = harm is None or not harm.fails
    return bool(rule.promised_by or rule.unread) and broken and harmless


def _deviation(
    item: pytest.Item, fault: Fault, observed: str, verdict: Verdict
) -> dict[str, str] | None:
    """What a list, or the baseline, says of a broken promise; only that can be known before."""
    if verdict not in (Verdict.FAIL, Verdict.WARN):
        return None
    settings = settings_of(item.config)
    editions = ascend_session_of(item.config).judged_by.editions
    for entry in settings.deviations:
        if entry.is_by(editions) and entry.matches(fault):
            return {
                "entry": entry.origin,
                "reason": entry.reason,
                "link": entry.link,
                "instead": verdict.value,
            }
    if settings.reports.baseline is None:
        return None
    return settings.reports.baseline.deviation(fault, verdict, observed)


def _message(call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    if call.excinfo is None:
        return ""
    if text := _plain(call.excinfo.value).strip():
        return text.removeprefix("assert ")
    return f"{call.excinfo.typename}: {str(call.excinfo.value).strip() or call.excinfo.typename}"


def _plain(error: BaseException) -> str:
    """The sentence for the reader of a report; empty where an exception has none."""
    if isinstance(error, OSError) and error.errno in _MACHINE:
        where = f" ({error.filename})" if error.filename else ""
        return f"this machine keeps the check from being done: {error.strerror}{where}"
    return str(error) if isinstance(error, _PLAIN_WORDS) else ""


def _part(message: str, name: str) -> str:
    """What a failed comparison said was observed, or expected."""
    lines = (line.strip() for line in message.splitlines())
    return next((line.partition(": ")[2] for line in lines if line.startswith(name)), "")


def _repeat(item: pytest.Item) -> str:
    """A command line that judges this check alone, wherever PATH leads."""
    arguments = settings_of(item.config).arguments
    check = item.stash.get(GANG, item.nodeid)  # of all ranks, where each is a test of a worker
    if item.getparent(SuiteModule) is not None:
        rest = check.partition("::")[2]
        place = f"{PACKAGE}.{module_of(check)}::{rest}"
        return shlex.join([*pytest_command(), *arguments, "--pyargs", place])
    # Node ids count from the root directory; what is typed counts from where pytest was started.
    file = os.path.relpath(item.path, item.config.invocation_params.dir)
    place = "::".join([file, *check.split("::")[1:]])
    return shlex.join([*pytest_command(), *arguments, place])


def status(verdict: str) -> Any:
    """Category, letter and word pytest shows for a verdict."""
    return _STATUS[Verdict(verdict)]


def compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison of outcomes in the documents' words."""
    if op == "==" and isinstance(left, Outcome) and isinstance(right, Outcome):
        return ["outcome differs", f"observed: {left}", f"expected: {right}"]
    if op in ("==", "is") and isinstance(left, Fate) and isinstance(right, Fate):
        return ["fate differs", f"observed: entry {left.value}", f"expected: entry {right.value}"]
    if op == "in" and isinstance(left, Fate) and isinstance(right, frozenset):
        allowed = " or ".join(sorted(each.value for each in right))
        return ["fate differs", f"observed: entry {left.value}", f"expected: entry {allowed}"]
    if op == "in" and isinstance(left, Outcome) and isinstance(right, frozenset):
        allowed = " or ".join(sorted(map(str, right)))
        return ["outcome differs", f"observed: {left}", f"expected: {allowed}"]
    return None
