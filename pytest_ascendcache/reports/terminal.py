"""The terminal report: a line for each rule, a block for each cause, and the answer on a last
screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from pytest_ascendcache.contract import Level, Verdict
from pytest_ascendcache.contract.deviations import STALE, Occurrence
from pytest_ascendcache.contract.facts import Aspect
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.reports.answer import (
    accounted,
    answer,
    counted,
    harm_of,
    judged_by,
    promise,
    promising,
)
from pytest_ascendcache.reports.baseline import News
from pytest_ascendcache.reports.cause import UNDECIDED, Cause, Check
from pytest_ascendcache.reports.causes import causes_of
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.reasons import UNEXPLAINED, shortened
from pytest_ascendcache.reports.records import tally, tally_text
from pytest_ascendcache.reports.requests import asks_a_cache, request_of
from pytest_ascendcache.words import count
from pytest_ascendcache.words.layout import columns, cut, wrapped

_COLOURS: Mapping[str, Mapping[str, bool]] = {
    "pass": {"green": True},
    "fail": {"red": True},
    "undecided": {"red": True},
    "warn": {"yellow": True},
    "known deviation": {"yellow": True},
    "not applicable": {"purple": True},
}
_ANSWERS: Mapping[str, Mapping[str, bool]] = {
    "no": {"red": True, "bold": True},
    "open": {"yellow": True, "bold": True},
    "warned": {"yellow": True, "bold": True},
    "yes": {"green": True, "bold": True},
}
_SCREEN = 16
"""Lines for causes on a terminal of 24. The others hold totals, editions, the answer, pytest's own
line, what was judged, and the prompt."""
_LINES = 24
"""Lines of a terminal; a log shows twice as many of causes."""
_NARROWEST, _WIDEST = 60, 110
_EVIDENCE, _FINDINGS = 3, 10
"""How many ranks and lines of output, and how many findings of an audit, a block shows; the other
reports have all."""
_RULES = 3
"""How many further rules a block names."""
_ALSO = 2
"""Further reasons shown for what could not be told."""
_NOT_APPLICABLE = Verdict.NOT_APPLICABLE.value
_LABEL = 9
"""Columns of the labels in a block."""
_LITTLE = 12
"""Columns that a title needs to be shown in its line."""
_ROWS = 25
"""From this many rules on, they have no line each, unless pytest is asked to be verbose."""
_FEW = 8
"""From this many rules on, those that passed have no line each if another is broken."""
_FINE = (Verdict.PASS.value, Verdict.NOT_APPLICABLE.value)

_JudgedRule = tuple[Mapping[str, Any], Sequence[Check]]
"""A rule of the report with its checks, the worst first."""


@dataclass(frozen=True)
class TerminalReport:
    """Writes the report of one run to the terminal.

    The collector calls ``write``, adds its own lines, and calls ``write_answer`` last. ``report``
    is the JSON report.
    """

    reporter: pytest.TerminalReporter
    report: Document
    language: Language

    @cached_property
    def causes(self) -> list[Cause]:
        """The causes of broken checks, the worst first."""
        return causes_of(self.report)

    @cached_property
    def rules(self) -> list[_JudgedRule]:
        """The rules that were judged, with their checks."""
        checks: dict[str, list[Check]] = {}
        for check in self.report["checks"]:
            checks.setdefault(check["rule"], []).append(check)
        return [(rule, checks[rule["id"]]) for rule in self.report["rules"]]

    def write(self) -> None:
        """Write rules, measurements, known deviations and the block of each cause."""
        self.section("section")
        evidence = [check["evidence"] for check in self.report["checks"]]
        for reason in dict.fromkeys(each.reason for each in self.causes if each.is_control):
            reason = translated(reason, self.language)
            self.paragraph(self.say("control_failed", reason=reason), red=True)
            self.paragraph(self.say("control_means"))
        self._rules()
        _accuracy(self)
        for line in self.report.get("matrix", ()):
            self.paragraph(translated(line, self.language))
        if not self.is_short:
            _inapplicable(self)
        starts = sum(each["starts"] for each in evidence)
        operators = sum(each["compiles"] for each in evidence)
        later = sum(each.get("harm_starts", 0) for each in evidence)
        key = "t_starts_with_harm" if later else "t_starts"
        self.paragraph(self.say(key, starts=starts, operators=operators, later=later))
        _known(self)
        for number, cause in enumerate(self.causes, 1):
            _block(self, number, cause)
        _stale(self)

    def write_answer(self) -> None:
        """Write the last screen: totals, harm and reason of each cause, and the answer."""
        self.section("section_answer")
        decided = answer(self.report, self.causes)
        for part in ("rules", "checks"):
            self._totals(part)
        self._editions()
        self.write_incomplete()
        room = _SCREEN if self.reporter.isatty else 2 * _LINES
        room -= len(self.report.get("edition_notices", ()))
        blocks = [_short(self, number, each) for number, each in enumerate(self.causes, 1)]
        shown = 0
        for number, block in enumerate(blocks, 1):
            room -= len(block)
            if room < (number < len(blocks)) and shown:
                break
            shown = number
            for line in block:
                self.reporter.line(line, **_COLOURS[self.causes[number - 1].verdict])
        if rest := self.causes[shown:]:
            checks = sum(len(each.checks) for each in rest)
            self.paragraph(
                self.say(
                    "t_and_more_causes",
                    causes=counted("causes", len(rest), self.language),
                    checks=counted("checks", checks, self.language),
                )
            )
        for line in accounted(self.report, self.language):
            self.paragraph(line)
        if self.causes:
            self.paragraph(self.say("t_words"))
        releases = [translated(each, self.language) for each in self.report.get("answers", ())]
        for sentence in releases or [decided.sentence(self.language)]:
            self.paragraph(sentence, **_ANSWERS[decided.kind])

    def _editions(self) -> None:
        """Write the editions that the run judged by, and notices about them."""
        if editions := judged_by(self.report, self.language):
            self.paragraph(editions)
        for notice in (*self.report.get("edition_notices", ()), *self.report.get("notices", ())):
            self.paragraph(translated(notice, self.language), yellow=True)

    def write_incomplete(self) -> None:
        """Write how many checks did not run because the run was cut short."""
        if missing := self.report.get("checks_without_verdict"):
            self.paragraph(self.say("t_incomplete", count=missing), red=True)

    @property
    def is_short(self) -> bool:
        """Whether the report leaves to other reports what is not broken: it has many rules, some
        are broken, and pytest is not asked to be verbose."""
        many = len(self.rules) >= _ROWS and self.reporter.verbosity <= 0
        return many and bool(self.causes)

    @property
    def width(self) -> int:
        """Columns of a line."""
        return max(_NARROWEST, min(self.reporter._tw.fullwidth - 1, _WIDEST))

    def say(self, key: str, /, **values: object) -> str:
        """A fixed text in the user's language."""
        return text(key, self.language, **values)

    def verdict(self, verdict: str) -> str:
        """The name of a verdict in the user's language."""
        return self.say(f"v_{verdict}")

    def section(self, key: str, /, sep: str = "=", **values: object) -> None:
        """Write a heading as wide as the terminal, where Chinese characters take two columns."""
        title, writer = self.say(key, **values), self.reporter._tw
        writer.sep(sep, title, fullwidth=writer.fullwidth - (columns(title) - len(title)))

    def paragraph(self, text: str, indent: int = 0, **markup: bool) -> None:
        """Write a text as lines of whole words."""
        for line in self.lines(text, indent):
            self.reporter.line(" " * indent + line, **markup)

    def lines(self, text: str, indent: int) -> list[str]:
        """Lines that fit a terminal; in files and logs a single line, so that tools find it."""
        return wrapped(text, width=self.width - indent) if self.reporter.isatty else [text]

    def labelled(self, key: str, text: str, lines: int | None = None) -> None:
        """Write a text behind a label, at most ``lines`` of it."""
        self.table(key, wrapped(text, width=self.width - _LABEL)[:lines])

    def whole(self, key: str, text: str) -> None:
        """Write a text behind a label; in logs on one line, so that tools find it."""
        self.table(key, self.lines(text, _LABEL))

    def table(self, key: str, rows: Sequence[str]) -> None:
        """Write rows behind a label, which is on the first."""
        label = self.say(key) if key else ""
        for row in rows:
            self.reporter.line(f"{label}{' ' * (_LABEL - columns(label))}{row}")
            label = ""

    def _rules(self) -> None:
        """Write a line for each rule. Of many rules only how many passed of each family is written:
        what is broken follows with its cause."""
        if self.is_short:
            return
        if len(self.rules) >= _ROWS and self.reporter.verbosity <= 0:
            passed = Counter(
                rule["id"].partition("/")[0]
                for rule, _ in self.rules
                if rule["verdict"] == Verdict.PASS.value
            )
            families = self.say("t_between").join(f"{each} {passed[each]}" for each in passed)
            if passed:
                self.paragraph(self.say("t_passed", families=families))
            for rule, checks in self.rules:  # what a release was compared with, passed or not
                of_release = checks if rule["id"].startswith("release/") else ()
                for note in (each for check in of_release for each in check["evidence"]["notes"]):
                    self.paragraph(translated(note, self.language), indent=4)
            return
        shown = self.rules
        if self.causes and len(shown) >= _FEW and self.reporter.verbosity <= 0:
            shown = [each for each in shown if each[0]["verdict"] not in _FINE]
        rows = [_row_of(self, *judged) for judged in shown]
        widths = max(columns(row[1]) for row in rows), max(columns(row[2]) for row in rows)
        for verdict, counts, name, title, below in rows:
            word = self.verdict(verdict)
            self.reporter.write(word, **_COLOURS[verdict])
            padded = counts[len(word) :] + " " * (widths[0] - columns(counts))
            head = f"{padded}  {name:<{widths[1]}}  "
            room = self.width - columns(word + head)
            self.reporter.line(head.rstrip() if room < _LITTLE else head + cut(title, room))
            for line in below:
                self.paragraph(line, indent=4)

    def _totals(self, part: str) -> None:
        """Write the counts of all six verdicts; without zeros if the line would not fit."""
        counts: Mapping[str, int] = self.report["totals"][part]
        what = counted(part, sum(counts.values()), self.language)

        def line_of(counts: Mapping[str, int]) -> str:
            words = [f"{each} {self.verdict(verdict)}" for verdict, each in counts.items()]
            separator = self.say("t_between")
            return self.say("t_totals", what=what, counts=separator.join(words))

        line = line_of(counts)
        if (self.reporter.isatty or self.is_short) and columns(line) > self.width:
            line = line_of({verdict: each for verdict, each in counts.items() if each})
        self.paragraph(line)


_Row = tuple[str, str, str, str, list[str]]
"""Verdict, tally, name, title, and lines below the row."""


def _row_of(terminal: TerminalReport, rule: Mapping[str, Any], checks: Sequence[Check]) -> _Row:
    title = rule["title_zh" if terminal.language is Language.CHINESE else "title_en"]
    if rule["verdict"] == _NOT_APPLICABLE:
        title = translated(checks[0]["message"], terminal.language)
    readings = (translated(each, terminal.language) for each in rule["readings"])
    below = [terminal.say("t_reading", reading=each) for each in readings]
    notes = (note for check in checks for note in check["evidence"]["notes"])
    below += [translated(each, terminal.language) for each in notes]
    counts = tally_text(tally(Verdict(each["verdict"]) for each in checks), terminal.language)
    return rule["verdict"], counts, rule["id"], title, below


def _inapplicable(terminal: TerminalReport) -> None:
    """Write why checks are not applicable, a line for each family of rules."""
    families: dict[str, Counter[str]] = {}
    for check in terminal.report["checks"]:
        if check["verdict"] == _NOT_APPLICABLE:
            family = check["rule"].partition("/")[0]
            families.setdefault(family, Counter())[check["message"].partition("\n")[0]] += 1
    for family, reasons in families.items():
        ((reason, _),) = reasons.most_common(1)
        total = counted("checks", sum(reasons.values()), terminal.language)
        why = translated(reason, terminal.language)
        line = terminal.say("t_inapplicable", family=family, checks=total, reason=why)
        if len(reasons) > 1:
            others = count(len(reasons) - 1, "other reason")
            line += f" ({translated(f'and {others}', terminal.language)})"
        terminal.paragraph(line)


def _accuracy(terminal: TerminalReport) -> None:
    """Write the accuracy of each operator and mode, if kernels were measured."""
    rows = terminal.report["accuracy"]
    if not rows:
        return
    names = ("operator", "mode", "max_ulp", "mean_ulp", "inputs")
    widths = (14, 18, 10, 10, 7)
    terminal.reporter.line(terminal.say("t_accuracy"))

    def cells(values: Sequence[str]) -> str:
        padded = (
            value + " " * (width - columns(value)) if width > 12 else f"{value:>{width}}"
            for value, width in zip(values, widths, strict=True)
        )
        return "  " + " ".join(padded)

    terminal.reporter.line(cells([name.replace("_", " ") for name in names]))
    for row in rows:
        terminal.reporter.line(cells([str(row[each]) for each in names]))


def _known(terminal: TerminalReport) -> None:
    """Write known deviations by rule: each reason once, with its link and number of checks."""
    lines: Counter[tuple[str, str]] = Counter()
    for check in terminal.report["checks"]:
        if deviation := check["deviation"]:
            link = f" ({deviation['link']})" if deviation["link"] else ""
            lines[check["rule"], deviation["reason"] + link] += 1
    if lines:
        terminal.section("section_known", sep="-")
    for (rule, reason), checks in lines.items():
        count = counted("checks", checks, terminal.language)
        terminal.paragraph(f"{rule}, {count}: {reason}")


def _stale(terminal: TerminalReport) -> None:
    """Write the entries of lists that did not occur, so that users correct the list."""
    entries = terminal.report.get("deviations", ())
    stale = [each for each in entries if Occurrence(each["occurrence"]) in STALE]
    if stale:
        terminal.section("section_stale", sep="-")
    for entry in stale:
        cell = "".join(f" {factor}={'|'.join(values)}" for factor, values in entry["cell"].items())
        place = f"{entry['occurrence']}: {entry['origin']}: {entry['rule']} {entry['check']}{cell}"
        terminal.paragraph(translated(place, terminal.language))
        reason = translated(f"listed reason: {entry['reason']}", terminal.language)
        terminal.paragraph(reason, indent=2)


def write_news(terminal: TerminalReport, news: News) -> None:
    """Write what is new and what is fixed since the baseline."""
    terminal.section("section_baseline", sep="-", file=news.baseline.path.name)
    source = f"a report about {news.baseline.toolchain}: {news.baseline.path}"
    terminal.paragraph(translated(source, terminal.language))
    for line in news.lines():
        is_new, is_fixed = line.startswith("new"), line.startswith("fixed")
        terminal.paragraph(translated(line, terminal.language), red=is_new, green=is_fixed)


def _short(terminal: TerminalReport, number: int, cause: Cause) -> list[str]:
    """A cause on the last screen: its number, its verdict, and what is wrong."""
    harm = harm_of(cause, terminal.language)
    kind = f"{terminal.verdict(cause.verdict)}{f' ({harm})' if harm else ''}"
    line = f"{kind}{terminal.say('t_colon')}{cause.sentence(terminal.language)}"
    first, *rest = wrapped(line, width=terminal.width - 4)
    return [f"{number:>2}  {first}", *(f"    {each}" for each in rest)]


def _block(terminal: TerminalReport, number: int, cause: Cause) -> None:
    """Write a cause: what is wrong, the promise, the runs that show it, and what to do."""
    language, check = terminal.language, cause.checks[0]
    rule = promising(cause, terminal.report)
    terminal.section("section_cause", sep="-", number=number, rule=rule["id"])
    if not cause.is_control:  # which is told above, and breaks no promise
        _said(terminal, cause)
        statement, document = promise(rule, language)
        label = "t_note" if rule["level"] == Level.INFO.value else "t_promise"
        terminal.labelled(label, f"{statement} ({document})")
    _broken(terminal, cause, rule["id"])
    if cause.history is not None and not check["evidence"]["ranks"]:
        terminal.table("t_runs", cause.history.lines(language, terminal.width - _LABEL))
        if cause.fact is not None and cause.fact.aspect is Aspect.ENDING:
            for step in check["evidence"]["steps"][-1:]:
                _output(terminal, step["output"])
    else:
        if cause.seen:
            harm, colon = harm_of(cause, language), terminal.say("t_colon")
            terminal.whole("t_harm", f"{harm}{colon}{translated(cause.seen, language)}")
        _evidence(terminal, check, cause.reason)
    terminal.labelled("t_next", cause.next(language))
    if script := check["evidence"].get("script"):
        terminal.labelled(
            "t_script", terminal.say("script_beside", number=number, lines=script.count("\n"))
        )
    # On one line: users can copy a line that the terminal breaks.
    terminal.table("t_repeat", [check["repeat"]])


def _said(terminal: TerminalReport, cause: Cause) -> None:
    """Write what is wrong; the reason where no fact says it, or where it could not be told."""
    if said := cause.headline(terminal.language):
        terminal.labelled("t_what", said)
    reasons = (
        [] if cause.is_seen or (cause.reason == UNEXPLAINED and cause.seen) else [cause.reason]
    )
    if cause.verdict == Verdict.UNDECIDED.value:
        reasons += cause.also[:_ALSO]
    for each in reasons:
        terminal.whole("t_why", translated(each, terminal.language))


def _broken(terminal: TerminalReport, cause: Cause, rule: str) -> None:
    """Write verdict, harm, checks, and the rules that are broken beside the one of the heading."""
    others = [
        terminal.say("t_of_rule", count=count, rule=each)
        for each, count in cause.rules.items()
        if each != rule and not cause.is_control
    ]
    more = f" +{len(others) - _RULES}" if len(others) > _RULES else ""
    rules = terminal.say("t_between").join(others[:_RULES]) + more
    checks = counted("checks", len(cause.checks), terminal.language)
    waiting = counted("checks", cause.not_judged, terminal.language)
    parts = (
        terminal.verdict(cause.verdict),
        harm_of(cause, terminal.language),
        terminal.say("t_with", checks=checks, rules=rules) if rules else checks,
        terminal.say("t_waiting", checks=waiting) if cause.not_judged else "",
    )
    terminal.labelled("t_broken", terminal.say("t_semicolon").join(filter(None, parts)))


def _evidence(terminal: TerminalReport, check: Check, reason: str) -> None:
    """Write what a check without a history saw: findings, how ranks and its last run ended, and the
    last lines of the output."""
    evidence = check["evidence"]
    findings = check["message"].splitlines()[1:] if evidence["findings"] else []
    for finding in map(shortened, findings[:_FINDINGS]):
        if finding.strip() not in reason:  # the reason names the first one
            terminal.labelled("", translated(finding, terminal.language))
    if len(findings) > _FINDINGS:
        terminal.labelled("", f"+{len(findings) - _FINDINGS}")
    for note in evidence["ranks"][:_EVIDENCE]:
        label = terminal.say("t_rank", number=note["rank"])
        ending = translated(note["ending"], terminal.language)
        terminal.reporter.line(f"{label:<{_LABEL}}{ending}")
        _output(terminal, note["output"])
    of_files = check["rule"].startswith("release/") and check["verdict"] != UNDECIDED
    for step in () if of_files else evidence["steps"][-1:]:
        request = asks_a_cache(step["command"])
        shown = str(request_of(step["command"])) if request else ""
        terminal.labelled("t_request" if request else "", shown)
        terminal.labelled("", translated(step["ending"], terminal.language))
        _output(terminal, step["output"])


def _output(terminal: TerminalReport, output: str) -> None:
    for line in output.strip().splitlines()[-_EVIDENCE:]:
        printable = "".join(each if each.isprintable() else "?" for each in line)
        terminal.labelled("t_said", printable, lines=2)
