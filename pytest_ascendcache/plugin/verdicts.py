"""Turns a finished check into a verdict record. Verdicts are made here and nowhere else."""

from __future__ import annotations

import errno
import inspect
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.conformance.costs import is_elementary
from pytest_ascendcache.contract import Rule, Verdict, rules_for
from pytest_ascendcache.contract.deviations import BrokenPromise
from pytest_ascendcache.contract.facts import Aspect, Fact
from pytest_ascendcache.contract.harm import Harm, harm_in, harm_of
from pytest_ascendcache.contract.subjects import RUNS_END
from pytest_ascendcache.contract.verdict import broken_promise
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.harm import is_looked_for, observed_harm, sentence
from pytest_ascendcache.observation.health import Accident, health_of
from pytest_ascendcache.plugin.claims import facts_of, forget, open_facts
from pytest_ascendcache.plugin.collection import SuiteModule
from pytest_ascendcache.plugin.repeat import repeat_line
from pytest_ascendcache.plugin.stash import (
    EVIDENCE,
    GANG,
    RENDEZVOUS,
    as_known,
    ascend_session_of,
    settings_of,
)
from pytest_ascendcache.ranks import GangAborted, RankLost
from pytest_ascendcache.ranks.rank import any_rank
from pytest_ascendcache.reports.cause import worst_fact
from pytest_ascendcache.reports.records import VerdictRecord
from pytest_ascendcache.reports.script import plain_script
from pytest_ascendcache.toolchains import KernelRunError, ToolchainError
from pytest_ascendcache.words import instead

_STATUS = {
    Verdict.PASS: ("passed", ".", "PASSED"),
    Verdict.FAIL: ("failed", "F", "FAILED"),
    Verdict.WARN: ("warned", "w", ("WARN", {"yellow": True})),
    Verdict.KNOWN_DEVIATION: ("known deviation", "k", ("KNOWN DEVIATION", {"yellow": True})),
    Verdict.NOT_APPLICABLE: ("skipped", "s", "SKIPPED"),
    Verdict.UNDECIDED: ("undecided", "U", ("UNDECIDED", {"red": True})),
}

_FOR_READERS = (
    AssertionError,
    pytest.fail.Exception,
    NotDecidable,
    ToolchainError,
    KernelRunError,
    GangAborted,
    RankLost,
)
"""Exceptions whose text is meant for the reader of a report."""

_BROKEN = (AssertionError, pytest.fail.Exception)
"""Exceptions by which a check says that a promise is broken."""

_MACHINE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.ENOMEM,
}
"""Errors that are the machine's fault, not the toolchain's."""

_NOTHING = (
    "the check ran no toolchain, so it has judged nothing; use a fixture such as ascend_cache, or "
    "say in ascend_evidence.notes what else was judged"
)

_ROOM = 1 << 20
"""Bytes that must be free for sandboxes; with less, a full disk may be why a check fails."""


def prepare_items(items: list[pytest.Item]) -> None:
    """Give JUnit the rule that each check judges. Raises ``pytest.UsageError`` for a rule that does
    not exist."""
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
    """The rule that a check judges. Raises ``pytest.UsageError`` for a rule that does not exist."""
    marker = item.get_closest_marker("ascend_rule")
    assert marker is not None
    name = str(marker.args[0]) if marker.args else ""
    rules = _rules(item)
    if name not in rules:
        raise pytest.UsageError(
            f"{item.nodeid}: ascend_rule({name!r}) names no rule; "
            + instead(name, rules, "pytest --ascend-rules lists them.")
        )
    return rules[name]


def _rules(item: pytest.Item) -> Mapping[str, Rule]:
    """The rules that the run judges by."""
    judged_by = ascend_session_of(item.config).judged_by
    return rules_for(settings_of(item.config).toolchain, *judged_by.editions)


def judge(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, strict: bool
) -> None:
    """Attach a verdict record to the report of a finished phase, and set the report's outcome.

    A check gets one record: from its call, or from a setup that failed or skipped it. A teardown
    that fails adds a record that says undecided.
    """
    if report.when != "call" and report.passed:
        forget(item.config)
        return
    expected = _take_xfail(item, call, report)
    evidence = item.stash.get(EVIDENCE, None) or Evidence()
    if report.when == "teardown":
        evidence = _uncounted(evidence, [])
    evidence.elementary = is_elementary(item.nodeid.removeprefix(SUITE_NODES))
    rule, verdict, harm, message = _decided(item, call, report, strict, evidence)
    evidence.observed, evidence.expected = _part(message, "observed"), _part(message, "expected")
    deviation = _deviation(item, _fault(item, rule, evidence, harm), verdict)
    if deviation is None and expected and verdict in (Verdict.FAIL, Verdict.WARN):
        deviation = {"entry": "xfail", "reason": expected, "link": "", "instead": verdict.value}
    if deviation is not None:
        verdict = Verdict.KNOWN_DEVIATION
    if verdict is not Verdict.PASS:
        evidence.explain()
    if verdict in (Verdict.FAIL, Verdict.WARN):
        data = {"rule": rule.id, "evidence": evidence.as_dict()}
        evidence.script = plain_script(data, worst_fact(data))
    if deviation is not None:
        as_known(report, deviation["reason"])
    elif verdict is Verdict.WARN:
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
        repeat=repeat_line(item),
        seconds=round(report.duration, 4),
        evidence=evidence.as_dict(),
        deviation=deviation,
        harm=harm.value if harm is not None else None,
    )
    # JUnit reads the properties of the last phase's report, which pytest copies from the item.
    item.user_properties.append(("verdict", verdict.value))
    # Plain data, which xdist can send from a worker to the controller.
    report.ascend_record = record.as_dict()  # type: ignore[attr-defined]
    report.ascend_verdict = verdict.value  # type: ignore[attr-defined]
    told = verdict is Verdict.FAIL or report.when == "teardown"
    besides = [] if told else list(_besides(item, record, evidence, strict))
    if verdict is Verdict.WARN:
        besides = [each for each in besides if each.verdict is Verdict.FAIL]
    report.ascend_besides = [each.as_dict() for each in besides]  # type: ignore[attr-defined]


def _fault(item: pytest.Item, rule: Rule, evidence: Evidence, harm: Harm | None) -> BrokenPromise:
    codes = tuple(dict.fromkeys(each.code for each in evidence.facts))
    check = item.stash.get(GANG, item.nodeid)
    return BrokenPromise(rule.id, check, evidence.factors, codes, harm)


def _besides(
    item: pytest.Item, record: VerdictRecord, evidence: Evidence, strict: bool
) -> Iterator[VerdictRecord]:
    """Verdicts on other rules that the runs of a check broke, which hold after every run. A check
    that is broken itself has told enough, unless it warns and they fail."""
    rules = _rules(item)
    for name, facts in evidence.besides.items():
        rule, harm = rules.get(name), harm_of(facts)
        if rule is None or _is_later_promise(rule, Verdict.WARN, harm):
            continue
        shown = _uncounted(evidence, facts)
        verdict = broken_promise(rule.level, strict, harm, rule.lowered)
        if _is_open(item, rule, verdict, harm):
            continue
        deviation = _deviation(item, _fault(item, rule, shown, harm), verdict)
        data = {"rule": rule.id, "evidence": shown.as_dict()}
        shown.script = plain_script(data, worst_fact(data))
        yield replace(
            record,
            rule=rule.id,
            verdict=verdict if deviation is None else Verdict.KNOWN_DEVIATION,
            message=facts[0].detail,
            evidence=shown.as_dict(),
            deviation=deviation,
            harm=harm.value if harm is not None else None,
        )


def _uncounted(evidence: Evidence, facts: list[Fact]) -> Evidence:
    """Evidence of other facts, whose runs the check has counted."""
    shown = replace(evidence, facts=facts, elementary=False, harm="")
    shown.starts = shown.compiles = shown.harm_starts = 0
    shown.harm_seconds = 0.0
    return shown


def _decided(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    strict: bool,
    evidence: Evidence,
) -> tuple[Rule, Verdict, Harm | None, str]:
    """The rule that a check has judged, its verdict regardless of known deviations, the harm, and
    the reason. The facts of the verdict are in ``evidence``."""
    rule, message = rule_of(item), _message(call, report) if not report.passed else ""
    if unfit := _machine_is_unfit(item, call, report):
        message, harm, verdict = unfit, None, Verdict.UNDECIDED
    else:
        harm = _harm(item, call, report, evidence)
        verdict = _verdict(rule, call, report, strict, harm, _was_called(item, call))
    toolchain = ascend_session_of(item.config).made_toolchain
    if toolchain is not None and (accidents := health_of(toolchain).take()):
        # An accident says nothing about the promise whose turn it was.
        evidence.facts, evidence.harm, evidence.elementary = accidents, "", True
        message = report.longrepr = accidents[-1].detail
        report.outcome = "failed"
        return _rules(item)[RUNS_END], Verdict.FAIL, harm_of(accidents), message
    if isinstance(_exception(call), Accident):
        evidence.needs = RUNS_END
    if verdict is Verdict.PASS and _has_judged_nothing(item, evidence):
        verdict, report.outcome, report.longrepr = Verdict.UNDECIDED, "failed", _NOTHING
        message = _NOTHING
    if _is_later_promise(rule, verdict, harm):
        verdict = Verdict.NOT_APPLICABLE
        why = f"{rule.promised_by} promises this, the judged edition does not"
        if rule.unread:
            why = "what the judged edition says of this could not be read"
        message = f"{why}: {message}"
    if unsure := _is_open(item, rule, verdict, harm):
        evidence.harm = ""
        return rule, Verdict.UNDECIDED, None, f"{unsure}: {message}"
    if verdict is Verdict.UNDECIDED:
        evidence.facts = open_facts(call)
    return rule, verdict, harm, message


def _shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Replace a traceback of the suite by its last line of code, unless ``--tb`` asks for more:
    users know the document, not this package."""
    if call.excinfo is None or item.config.getoption("tbstyle") != "auto":
        return
    if not (text := _plain(call.excinfo.value)):
        return
    number, source = _statement(item, call)
    if number:
        text = f"{item.location[0]}:{number}\n>   {source}\n{text}"
    report.longrepr = text


def _statement(item: pytest.Item, call: pytest.CallInfo[None]) -> tuple[int, str]:
    """Number and source of the check's line that raised the exception; 0 and empty if none did."""
    traceback: Any = call.excinfo.traceback if call.excinfo is not None else ()
    entries = [each for each in traceback if Path(each.path) == item.path]
    return (entries[-1].lineno + 1, str(entries[-1].statement).strip()) if entries else (0, "")


def _exception(call: pytest.CallInfo[None]) -> BaseException | None:
    return call.excinfo.value if call.excinfo is not None else None


def _machine_is_unfit(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> str:
    """Why the machine may be to blame for a failing check; empty if it is not. On a full disk
    nothing can be stored or recorded."""
    blamed = (*_BROKEN, ToolchainError)
    if report.when != "call" or not isinstance(_exception(call), blamed):
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
) -> Harm | None:
    """The harm that a broken promise did; it may take runs of the toolchain to find out.

    A toolchain that hangs or crashes breaks a promise only if the cache is the reason: that is
    harm that fails a run. Otherwise the check is undecided.
    """
    exception = _exception(call)
    broken = isinstance(exception, _BROKEN)
    if report.when != "call" or not (broken or isinstance(exception, ToolchainError)):
        return None
    if broken and not evidence.facts:
        evidence.facts += facts_of(item, call, evidence.steps)
    if broken and not is_looked_for():
        return None
    observed = observed_harm(evidence)
    if observed is None or not (broken or harm_in(observed).fails):
        return None
    if not broken:
        evidence.facts = [observed]
    elif observed.aspect is Aspect.ENDING and observed not in evidence.facts:
        evidence.facts.append(observed)  # whatever the check looked for: the run crashed or hung
    evidence.harm = sentence(observed)
    return harm_in(observed)


def _verdict(
    rule: Rule,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    strict: bool,
    harm: Harm | None,
    was_called: bool,
) -> Verdict:
    if report.passed:
        return Verdict.PASS
    if report.skipped:
        return Verdict.NOT_APPLICABLE
    exception = _exception(call)
    if isinstance(exception, GangAborted) and exception.cause:
        # This rank observed nothing itself: it takes over the verdict of the rank that failed.
        return Verdict(exception.cause)
    broken = isinstance(exception, _BROKEN) and was_called
    if (broken and report.when == "call") or harm is not None:
        return broken_promise(rule.level, strict, harm, rule.lowered)
    return Verdict.UNDECIDED


def _has_judged_nothing(item: pytest.Item, evidence: Evidence) -> bool:
    """Whether a user's check ran no toolchain and does not note what else it judged; of a gang,
    whether no rank did."""
    if item.getparent(SuiteModule) is not None:
        return False
    has_judged = bool(evidence.starts or evidence.notes or evidence.readings)
    if RENDEZVOUS in item.stash:
        has_judged = any_rank(item.stash[RENDEZVOUS], has_judged)
    return not has_judged


def _take_xfail(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> str | None:
    """The reason why a user expected this failure (``xfail``). The report becomes one of a failed
    check, or of a skipped one if the check left early or was not run."""
    reason: str | None = vars(report).pop("wasxfail", None)
    if reason is None or not report.skipped:
        return None
    if isinstance(_exception(call), pytest.xfail.Exception):
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {reason}")
        return None
    report.outcome = "failed"
    return reason or "marked with xfail"


def _was_called(item: pytest.Item, call: pytest.CallInfo[None]) -> bool:
    """Whether the check was called: pytest itself fails an ``async def`` that no plugin runs."""
    function = getattr(item, "obj", None)
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return not is_async or _statement(item, call)[0] > 0


def _is_later_promise(rule: Rule, verdict: Verdict, harm: Harm | None) -> bool:
    """Whether the broken promise is, as far as it could be read, not one of the judged edition.

    Harm that fails a run counts in any edition, and an undecided check stays undecided.
    """
    broken = verdict in (Verdict.FAIL, Verdict.WARN)
    harmless = harm is None or not harm.fails
    return bool(rule.promised_by or rule.unread) and broken and harmless


def _is_open(item: pytest.Item, rule: Rule, verdict: Verdict, harm: Harm | None) -> str:
    """Why a broken promise is undecided: the toolchain's edition is not known, and not every
    edition makes it. Empty if it is decided. An old kernel is no harm where none was promised to
    be new; worse harm counts in any edition."""
    if verdict not in (Verdict.FAIL, Verdict.WARN) or not rule.differs:
        return ""
    if harm is not None and harm.rank < Harm.STALE.rank:
        return ""
    marker = item.get_closest_marker("ascend_elementary")
    if marker is not None and marker.kwargs.get("every_edition"):
        return ""
    return ascend_session_of(item.config).judged_by.unsure(rule)


def _deviation(item: pytest.Item, fault: BrokenPromise, verdict: Verdict) -> dict[str, str] | None:
    """The entry of a list or of the baseline that knows of a broken promise, if one does."""
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
    if settings.baseline is None:
        return None
    return settings.baseline.deviation(fault, verdict)


def _message(call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    if call.excinfo is None:
        # A strict xfail that passes; pytest begins its text with [XPASS(strict)].
        return f"passed although a failure was expected: {report.longreprtext.partition('] ')[2]}"
    if text := _plain(call.excinfo.value).strip():
        return text.removeprefix("assert ")
    return f"{call.excinfo.typename}: {str(call.excinfo.value).strip() or call.excinfo.typename}"


def _plain(error: BaseException) -> str:
    """The exception's text, if it is meant for the reader of a report; otherwise empty."""
    if isinstance(error, OSError) and error.errno in _MACHINE:
        where = f" ({error.filename})" if error.filename else ""
        return f"this machine prevents the check: {error.strerror}{where}"
    if isinstance(error, pytest.FixtureLookupError):
        return f"there is no fixture {error.argname!r} for this check"
    return str(error) if isinstance(error, _FOR_READERS) else ""


def _part(message: str, name: str) -> str:
    """What the message of a failed comparison has as ``observed`` or ``expected``."""
    lines = (line.strip() for line in message.splitlines())
    return next((line.partition(": ")[2] for line in lines if line.startswith(name)), "")


def status(verdict: str) -> Any:
    """The category, letter and word that pytest shows for a verdict."""
    return _STATUS[Verdict(verdict)]
