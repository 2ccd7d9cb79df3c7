"""The terminal report: a line for each rule, a block for each cause, and the answer on a last
screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import STALE, Occurrence
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.reports.accounted import accounted
from pytest_ascendcache.reports.answer import answer, counted, harm_of, judged_by, promise, where
from pytest_ascendcache.reports.baseline import News
from pytest_ascendcache.reports.causes import Cause, Check, causes_of
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.reasons import bare, shortened
from pytest_ascendcache.reports.records import tally, tally_text
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
_CAUSES = 10
"""How many causes the last screen shows at most; all of them have blocks above it."""
_NARROWEST, _WIDEST = 60, 110
_CHANGES = 8
"""How many changed files are shown; the other reports have all of them."""
_NOT_APPLICABLE = Verdict.NOT_APPLICABLE.value
_LABEL = 9
"""Columns of the labels in a block."""
_LITTLE = 12
"""Columns that a title needs to be shown in its line."""
_ROWS = 25
"""From this many rules on, those that passed are folded into a line for each family."""


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
        for reason in dict.fromkeys(each["control"] for each in evidence):
            if reason:
                reason = translated(reason, self.language)
                self.paragraph(self.say("control_failed", reason=reason), red=True)
                self.paragraph(self.say("control_means"))
        self._rules()
        _accuracy(self)
        for line in self.report.get("matrix", ()):
            self.paragraph(translated(line, self.language))
        _inapplicable(self)
        starts = sum(each["starts"] for each in evidence)
        operators = sum(each["compiles"] for each in evidence)
        self.paragraph(self.say("t_starts", starts=starts, operators=operators))
        if later := sum(each.get("harm_starts", 0) for each in evidence):
            seconds = sum(each.get("harm_seconds", 0.0) for each in evidence)
            self.paragraph(self.say("t_harm_starts", starts=later, seconds=f"{seconds:.0f}"))
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
        shown, rest = self.causes[:_CAUSES], self.causes[_CAUSES:]
        room = _SCREEN if self.reporter.isatty else 2 * _CAUSES
        room -= len(self.report.get("edition_notices", ())) + bool(rest)
        for number, cause in enumerate(shown, 1):
            # The worst causes get room for their reason, the others at least one line.
            left = len(shown) - number + 1
            lines = max((room - left) // left, int(room > left), 0)
            lines = min(lines, 3)
            room -= _short(self, number, cause, lines)
        if rest:
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
        """Write a text behind a label, at most ``lines`` of it; the label is on the first."""
        label = self.say(key) if key else ""
        for line in self.lines(text, _LABEL)[:lines]:
            self._line(label, line)
            label = ""

    def command(self, key: str, command: str) -> None:
        """Write a command on one line: users can copy a line that the terminal breaks."""
        self._line(self.say(key), command)

    def _line(self, label: str, text: str) -> None:
        self.reporter.line(f"{label}{' ' * (_LABEL - columns(label))}{text}")

    def _rules(self) -> None:
        shown, folded = _folded(self.rules)
        rows = [_row_of(self, *judged) for judged in shown]
        rows += [_family_row(self, name, members) for name, members in folded.items()]
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
            words = [f"{count} {self.verdict(verdict)}" for verdict, count in counts.items()]
            separator = self.say("t_between")
            return self.say("t_totals", what=what, counts=separator.join(words))

        line = line_of(counts)
        if self.reporter.isatty and columns(line) > self.width:
            line = line_of({verdict: count for verdict, count in counts.items() if count})
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
    return rule["verdict"], _tally(terminal, checks), rule["id"], title, below


def _family_row(terminal: TerminalReport, name: str, members: Sequence[_JudgedRule]) -> _Row:
    checks = [check for _, of_rule in members for check in of_rule]
    verdict = members[0][0]["verdict"]
    title = counted("rules", len(members), terminal.language)
    if verdict == _NOT_APPLICABLE:
        title += f": {translated(checks[0]['message'], terminal.language)}"
    return verdict, _tally(terminal, checks), name.strip(), title, []


def _tally(terminal: TerminalReport, checks: Sequence[Check]) -> str:
    return tally_text(tally(Verdict(each["verdict"]) for each in checks), terminal.language)


def _folded(rules: Sequence[_JudgedRule]) -> tuple[list[_JudgedRule], dict[str, list[_JudgedRule]]]:
    """Rules with a line each, and those that share a line with their family: quiet ones."""
    shown: list[_JudgedRule] = []
    folded: dict[str, list[_JudgedRule]] = {}
    for rule, checks in rules:
        noted = rule["readings"] or any(check["evidence"]["notes"] for check in checks)
        passed = rule["verdict"] == Verdict.PASS.value
        quiet = rule["verdict"] == _NOT_APPLICABLE or (passed and not noted)
        if quiet and len(rules) >= _ROWS:
            name = f"{rule['id'].partition('/')[0]}/*{'' if passed else ' '}"
            folded.setdefault(name, []).append((rule, checks))
        else:
            shown.append((rule, checks))
    return shown, folded


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


def _short(terminal: TerminalReport, number: int, cause: Cause, lines: int) -> int:
    """Write a cause briefly: verdict, harm and place, then the reason on at most ``lines`` lines.

    Without lines of its own the reason follows on the first line. Returns the number of lines.
    """
    verdict = terminal.verdict(cause.verdict)
    harm = harm_of(cause, terminal.language)
    head = f"{number:>2}  "
    terminal.reporter.write(head)
    terminal.reporter.write(verdict, **_COLOURS[cause.verdict], bold=True)
    place, room = where(cause, terminal.language), terminal.width - columns(head + verdict)
    if len(cause.harms) > 1 and columns(f"  {harm}  {place}") > room:
        harm = f"{terminal.say(f'harm_{cause.harm}')} +{len(cause.harms) - 1}"
    line = "".join(f"  {each}" for each in (harm, place) if each)
    if lines < 1:
        reason = cause.headline(terminal.language)
        reason = reason or translated(bare(cause.reason), terminal.language)
        terminal.reporter.line(cut(f"{line}: {reason}", room))
        return 1
    terminal.reporter.line(cut(line, room))
    if cause.not_judged:
        terminal.paragraph(_waiting(terminal, cause), indent=4)
        lines -= 1
    width = terminal.width - 4
    headline = wrapped(cause.headline(terminal.language), width=width)
    for line in headline[:lines]:
        terminal.reporter.line("    " + line)
    lines -= len(headline[:lines])
    before = 1 + len(headline) + bool(cause.not_judged)
    if headline and lines < 1:
        return before
    reason_lines = wrapped(translated(cause.reason, terminal.language), width=width)
    if len(reason_lines) > lines:
        # What was observed says more than the request, which is in the block of the cause.
        reason_lines = wrapped(translated(bare(cause.reason), terminal.language), width=width)
    if len(reason_lines) > lines:
        reason_lines = [*reason_lines[: lines - 1], cut(" ".join(reason_lines[lines - 1 :]), width)]
    for line in reason_lines:
        terminal.reporter.line("    " + line)
    return before + len(reason_lines)


def _waiting(terminal: TerminalReport, cause: Cause) -> str:
    """How many checks were not run because of a cause."""
    checks = counted("checks", cause.not_judged, terminal.language)
    return terminal.say("t_waiting", checks=checks)


def _block(terminal: TerminalReport, number: int, cause: Cause) -> None:
    """Write everything about a cause, with the evidence of one of its checks."""
    language, check = terminal.language, cause.checks[0]
    rule = next(each for each in terminal.report["rules"] if each["id"] == cause.rule)
    terminal.section("section_cause", sep="-", number=number, rule=cause.rule)
    statement, document = promise(rule, language)
    level = terminal.say(f"l_{rule['level']}")
    colon, semicolon = terminal.say("t_colon"), terminal.say("t_semicolon")
    place = f"{level}{semicolon}{document}{colon}{rule['source']['section']}"
    if what := cause.headline(language):
        terminal.labelled("t_what", what)
    terminal.labelled("t_promise", f"{statement} ({place})")
    broken = terminal.say("t_between").join(
        f"{name}{colon}{counted('checks', count, language)}" for name, count in cause.rules.items()
    )
    terminal.labelled("t_broken", f"{terminal.verdict(cause.verdict)}{semicolon}{broken}")
    if cause.not_judged:
        terminal.labelled("", _waiting(terminal, cause))
    if harm := harm_of(cause, language):
        seen = f"{colon}{translated(cause.seen, language)}" if cause.seen else ""
        terminal.labelled("t_harm", harm + seen)
    terminal.labelled("t_why", translated(cause.reason, language))
    for other in cause.also[:3]:
        terminal.labelled("t_also", translated(other, language), lines=3)
    terminal.labelled("t_check", check["check"].rpartition("::")[2])
    _evidence(terminal, check, cause.reason)


def _evidence(terminal: TerminalReport, check: Check, reason: str) -> None:
    evidence = check["evidence"]
    sandbox = evidence["sandbox"]
    findings = check["message"].splitlines()[1:] if evidence["findings"] else ()
    for finding in map(shortened, findings):
        if finding.strip() not in reason:  # the reason names the first one
            terminal.labelled("", translated(finding, terminal.language))
    if sandbox:
        terminal.command("t_sandbox", f"SANDBOX={sandbox}")
    for note in evidence["ranks"]:
        label = terminal.say("t_rank", number=note["rank"])
        ending = translated(note["ending"], terminal.language)
        terminal.reporter.line(f"{label:<{_LABEL}}{ending}")
        _output(terminal, note["output"], 3)
    steps = evidence["steps"]
    for step in steps:
        _step(terminal, step, sandbox, is_last=step is steps[-1])
    terminal.command("t_repeat", check["repeat"])


def _step(terminal: TerminalReport, step: Mapping[str, Any], sandbox: str, is_last: bool) -> None:
    def say(sentence: str) -> str:
        return translated(sentence, terminal.language)

    command = step["command"].replace(sandbox, "$SANDBOX") if sandbox else step["command"]
    terminal.command("t_request", command)
    terminal.labelled("", say(step["ending"]))
    for outcome in step["outcomes"]:
        operator, separator, fate = outcome.rpartition("): ")
        line = f"{operator}{separator}{say(fate)}" if separator else say(outcome)
        terminal.labelled("t_observed", line)
    changes = [f"{path} {change}" for path, change in step["changes"].items()]
    for change in changes[:_CHANGES] if is_last else ():
        terminal.labelled("t_changed", say(shortened(change)))
    if is_last and len(changes) > _CHANGES:
        terminal.labelled("", f"+{len(changes) - _CHANGES}")
    _output(terminal, step["output"], 5)


def _output(terminal: TerminalReport, output: str, lines: int) -> None:
    for line in output.strip().splitlines()[-lines:]:
        printable = "".join(each if each.isprintable() else "?" for each in line)
        terminal.labelled("t_said", printable, lines=2)
