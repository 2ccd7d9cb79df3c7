"""The terminal summary: one line a rule, all six totals, and the story of each broken rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import STALE, Deviation, Occurrence
from pytest_ascendcache.reports.baseline import News
from pytest_ascendcache.reports.records import (
    RuleResult,
    VerdictRecord,
    accuracy_rows,
    tally_text,
    totals_line,
)
from pytest_ascendcache.words import count

_COLOURS = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.UNDECIDED: {"red": True},
    Verdict.WARN: {"yellow": True},
    Verdict.KNOWN_DEVIATION: {"yellow": True},
    Verdict.NOT_APPLICABLE: {"purple": True},
}
_TOLD = (Verdict.FAIL, Verdict.UNDECIDED, Verdict.WARN)
_WIDTH = max(len(verdict.value) for verdict in Verdict)


def write_summary(
    reporter: pytest.TerminalReporter,
    results: Sequence[RuleResult],
    missing: int = 0,
    matrix: Sequence[str] = (),
    answers: Sequence[str] = (),
) -> None:
    """Write the summary of a run. It begins with ``answers``, what a run says of each release;
    ``missing`` checks were selected and gave no verdict, and
    ``matrix`` says which combinations were tried."""
    reporter.section("ascend cache contract")
    for answer in answers:
        reporter.line(answer, bold=True)
    checks = [record for result in results for record in result.records]
    for reason in dict.fromkeys(record.evidence["control"] for record in checks):
        if reason:
            reporter.line(f"POSITIVE CONTROL FAILED: {reason}", red=True)
            reporter.line("What depends on it is undecided below.")
    longest = max(len(result.rule.id) for result in results)
    widest = max(len(tally_text(result.tally)) - len(result.verdict.value) for result in results)
    for result in results:
        reporter.write(f"{result.verdict.value:>{_WIDTH}}", **_COLOURS[result.verdict])
        counts = tally_text(result.tally).removeprefix(result.verdict.value)
        reporter.line(f"{counts:<{widest}}  {result.rule.id:<{longest}} {result.rule.title_en}")
        for reading in result.readings:
            reporter.line(f"{'':>{_WIDTH}}          reading: {reading}")
        for note in (note for record in result.records for note in record.evidence["notes"]):
            reporter.line(f"{'':>{_WIDTH}}          {note}")
    _accuracy(reporter, accuracy_rows(checks))
    for line in matrix:
        reporter.line(line)
    reporter.line(totals_line("rules", [result.verdict for result in results]))
    reporter.line(totals_line("checks", [record.verdict for record in checks]))
    if missing:
        write_incomplete(reporter, missing)
    _inapplicable(reporter, checks)
    starts = sum(record.evidence["starts"] for record in checks)
    operators = sum(record.evidence["compiles"] for record in checks)
    reporter.line(f"{starts} runs of the compiler, {operators} operators delivered")
    _known(reporter, results)
    for result in results:
        if result.verdict in _TOLD:
            _tell(reporter, result)


def write_incomplete(reporter: pytest.TerminalReporter, missing: int) -> None:
    """Say that a run was cut short; it may have no verdict at all."""
    reporter.line(f"INCOMPLETE: {missing} more checks were selected and not run", red=True)


def _inapplicable(reporter: pytest.TerminalReporter, checks: Sequence[VerdictRecord]) -> None:
    """Why checks are not applicable: a line for each family of rules."""
    families: dict[str, Counter[str]] = {}
    for record in checks:
        if record.verdict is Verdict.NOT_APPLICABLE:
            family = record.rule.partition("/")[0]
            families.setdefault(family, Counter())[_first_line(record.message)] += 1
    for family, reasons in families.items():
        ((reason, _),) = reasons.most_common(1)
        others = f" (and {count(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
        total = count(sum(reasons.values()), "check")
        reporter.line(f"not applicable: {family}, {total}: {reason}{others}")


def _accuracy(reporter: pytest.TerminalReporter, rows: Sequence[Mapping[str, Any]]) -> None:
    """The table operator x mode, where kernels were measured."""
    if not rows:
        return
    columns = ("operator", "mode", "max_ulp", "mean_ulp", "inputs")
    layout = "{:<14} {:<18} {:>9} {:>9} {:>7}"
    reporter.line("accuracy of delivered kernels against float64:")
    reporter.line("  " + layout.format(*(each.replace("_", " ") for each in columns)))
    for row in rows:
        reporter.line("  " + layout.format(*(row[each] for each in columns)))


def _known(reporter: pytest.TerminalReporter, results: Sequence[RuleResult]) -> None:
    """Known deviations: by rule, each reason once with its link and how many checks it covers."""
    lines: Counter[tuple[str, str]] = Counter()
    for record in (record for result in results for record in result.records):
        if record.deviation is not None:
            link = record.deviation["link"]
            reason = record.deviation["reason"] + (f" ({link})" if link else "")
            lines[record.rule, reason] += 1
    if lines:
        reporter.section("known deviations", sep="-", yellow=True)
    for (rule, reason), checks in lines.items():
        reporter.line(f"{rule}, {checks} check{'s' if checks > 1 else ''}: {reason}")


def write_stale(
    reporter: pytest.TerminalReporter, entries: Sequence[tuple[Deviation, Occurrence]]
) -> None:
    """Name the entries of a list that are no longer true, for the list to be corrected."""
    stale = [(entry, occurrence) for entry, occurrence in entries if occurrence in STALE]
    if stale:
        reporter.section("listed deviations that are none", sep="-", yellow=True)
    for entry, occurrence in stale:
        cell = "".join(f" {factor}={'|'.join(values)}" for factor, values in entry.cell)
        reporter.line(f"{occurrence.value}: {entry.origin}: {entry.rule} {entry.check}{cell}")
        reporter.line(f"  it says: {entry.reason}")


def write_news(reporter: pytest.TerminalReporter, news: News) -> None:
    """What is new and what is fixed since the baseline."""
    reporter.section(f"against the baseline {news.baseline.path.name}", sep="-")
    reporter.line(f"which is of {news.baseline.toolchain}: {news.baseline.path}")
    for line in news.lines():
        reporter.line(line, red=line.startswith("new"), green=line.startswith("fixed"))


def _tell(reporter: pytest.TerminalReporter, result: RuleResult) -> None:
    rule = result.rule
    reporter.section(f"{result.verdict.value}: {rule.id}", sep="-", **_COLOURS[result.verdict])
    reporter.line(f"{rule.statement} ({rule.level.value}; {rule.source})")
    told = [record for record in result.records if record.verdict in _TOLD]
    _story(reporter, told[0])
    same_reason = [record for record in told[1:] if record.message == told[0].message]
    for record in told[1:]:
        if record not in same_reason:
            reporter.line(f"also {record.check}: {_first_line(record.message)}")
    if same_reason:
        reporter.line(f"and {len(same_reason)} more checks for the same reason")


def _story(reporter: pytest.TerminalReporter, record: VerdictRecord) -> None:
    reporter.line(f"check    {record.check}")
    for number, line in enumerate(record.message.splitlines()):
        reporter.line(f"{'' if number else 'why':<8} {line}")
    sandbox = record.evidence["sandbox"]
    if sandbox:
        reporter.line(f"sandbox  SANDBOX={sandbox}")
    for note in record.evidence["ranks"]:
        reporter.line(f"rank {note['rank']:<3} {note['ending']}")
        for line in note["output"].strip().splitlines()[-3:]:
            reporter.line("said     " + _printable(line))
    steps = record.evidence["steps"]
    for step in steps:
        _step(reporter, step, sandbox, is_last=step is steps[-1])
    reporter.line(f"repeat   {record.repeat}")


def _step(
    reporter: pytest.TerminalReporter, step: Mapping[str, Any], sandbox: str, is_last: bool
) -> None:
    command = step["command"].replace(sandbox, "$SANDBOX") if sandbox else step["command"]
    reporter.line(f"request  {command}")
    reporter.line(f"         {step['ending']}")
    for outcome in step["outcomes"]:
        reporter.line(f"observed {outcome}")
    for path, change in step["changes"].items() if is_last else ():
        reporter.line(f"changed  {path}: {change}")
    for line in step["output"].strip().splitlines()[-5:]:
        reporter.line("said     " + _printable(line))


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in line)


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
