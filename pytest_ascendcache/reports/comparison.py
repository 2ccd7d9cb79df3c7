"""Compares reports of several toolchains, or versions of one. Command ``ascendcache-compare``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.files import is_stream, read_text, write_output
from pytest_ascendcache.language import Language, add_language_option, text, translated
from pytest_ascendcache.reports.answer import counted
from pytest_ascendcache.reports.files import Document, ReportFileError, read_report
from pytest_ascendcache.reports.records import beneath, harm_rank, tally, tally_text
from pytest_ascendcache.words.layout import columns

ABSENT = "-"
"""The verdict of a rule that is missing from a report."""

_BROKEN = (Verdict.FAIL, Verdict.WARN)
_BROKEN_OR_OPEN = ("fail", "warn", "undecided")
_NOT_JUDGED = (ABSENT, Verdict.NOT_APPLICABLE.value)
_BADNESS = (ABSENT, "not applicable", "pass", "known deviation", "warn", "undecided", "fail")
_DECIDED = (Verdict.PASS, *_BROKEN)
_KINDS = ("differ", "partly", "agree")

_MARK = '<meta name="generator" content="pytest-ascendcache">'
"""In the head of every page that this package writes."""


@dataclass(frozen=True)
class ComparedCell:
    """The result of one rule in one report, regardless of known deviations and of a baseline.

    ``tally`` counts its checks by verdict; ``harm`` is the worst that a broken one observed.
    """

    verdict: str
    tally: tuple[tuple[Verdict, int], ...] = ()
    harm: str | None = None

    def label(self, language: Language) -> str:
        """The cell of a table on the terminal."""
        if self.verdict == ABSENT:
            return ABSENT
        counts = tally_text(self.tally, language)
        return counts + (f", {text(f'harm_{self.harm}', language)}" if self.harm else "")

    @property
    def badness(self) -> tuple[int, int, int]:
        """Compares cells, larger is worse: the verdict, the harm, how many checks are broken."""
        broken = sum(count for verdict, count in self.tally if verdict in _BROKEN)
        return _BADNESS.index(self.verdict), -harm_rank(self.harm), broken


@dataclass(frozen=True)
class ComparedRow:
    """The cells of one rule, one for each report."""

    rule: str
    level: str
    title_en: str
    title_zh: str
    cells: tuple[ComparedCell, ...]

    @property
    def is_worse(self) -> bool:
        """Whether a later report has a worse result than the first. Not judged is worse than a
        pass, and no worse than anything else."""
        first, *later = self.cells
        if first.verdict in _NOT_JUDGED:
            return any(each.verdict in _BROKEN_OR_OPEN for each in later)
        return any(
            first.verdict == Verdict.PASS.value
            if each.verdict in _NOT_JUDGED
            else each.badness > first.badness
            for each in later
        )

    @property
    def kind(self) -> str:
        """``differ`` if reports disagree, if only about how many checks passed; ``partly`` if only
        some reports have the rule; else ``agree``."""
        judged = [each for each in self.cells if each.verdict != ABSENT]
        if len({(each.verdict, each.harm, each.badness) for each in judged}) > 1:
            return "differ"
        return "agree" if len(judged) == len(self.cells) else "partly"


@dataclass(frozen=True)
class Comparison:
    """Reports with their names, and all their rules by kind, those that differ first."""

    names: tuple[str, ...]
    reports: tuple[Document, ...]
    groups: Mapping[str, Sequence[ComparedRow]]

    @property
    def letters(self) -> list[str]:
        """The names of the reports' columns: A, B, ..., Z, AA, AB, ..."""
        return [_letters(number) for number in range(len(self.names))]

    def silent(self, language: Language) -> list[str]:
        """Sentences about reports that judged nothing: none of their checks was decided."""
        return [
            text(
                "judged_nothing",
                language,
                report=name,
                checks=counted("checks", len(report["checks"]), language),
            )
            for name, report in zip(self.names, self.reports, strict=True)
            if not any(beneath(each) in _DECIDED for each in report["checks"])
        ]

    @property
    def worse(self) -> list[str]:
        """The rules for which a later report has a worse result than the first."""
        return [row.rule for rows in self.groups.values() for row in rows if row.is_worse]


def compare(files: Sequence[tuple[Path, Document]]) -> Comparison:
    """Compare reports with each other, in this order."""
    columns = [_cells(report) for _, report in files]
    known: dict[str, Any] = {}
    for _, report in files:
        for rule in report["rules"]:
            known.setdefault(rule["id"], rule)
    rows = [
        ComparedRow(
            name,
            rule["level"],
            rule["title_en"],
            rule["title_zh"],
            tuple(cells.get(name, ComparedCell(ABSENT)) for cells in columns),
        )
        for name, rule in known.items()
    ]
    return Comparison(
        tuple(
            f"{report['toolchain']['name']} {report['toolchain']['version']} ({path.name})"
            for path, report in files
        ),
        tuple(report for _, report in files),
        {kind: [row for row in rows if row.kind == kind] for kind in _KINDS},
    )


def _cells(report: Document) -> dict[str, ComparedCell]:
    checks: dict[str, list[Mapping[str, Any]]] = {}
    for check in report["checks"]:
        checks.setdefault(check["rule"], []).append(check)
    cells = {}
    for rule in report["rules"]:
        own = checks.get(rule["id"], [])
        counts = tuple(tally(map(beneath, own)))
        harm = min((each.get("harm") for each in own), key=harm_rank, default=None)
        verdict = counts[0][0].value if counts else rule["verdict"]
        cells[rule["id"]] = ComparedCell(verdict, counts, harm)
    return cells


def as_text(comparison: Comparison, language: Language = Language.ENGLISH) -> str:
    """The comparison for a terminal: the reports, the rules that differ, and how many do not."""
    letters = comparison.letters
    lines = [f"{letter}  {name}" for letter, name in zip(letters, comparison.names, strict=True)]
    if differing := comparison.groups["differ"]:
        table = [[row.rule, *(cell.label(language) for cell in row.cells)] for row in differing]
        lines += ["", *map(str.rstrip, aligned([["", *letters], *table]))]
    kinds = [
        text(f"{kind}_{'one' if len(rows) == 1 else 'many'}", language, count=len(rows))
        for kind in ("differ", "agree", "partly")
        if (rows := comparison.groups[kind]) or kind != "partly"
    ]
    lines += ["", text("t_between", language).join(kinds), *comparison.silent(language)]
    return "\n".join(lines) + "\n"


def aligned(rows: Sequence[Sequence[str]], between: str = "  ") -> list[str]:
    """Rows of cells as lines, every column as wide as its widest cell."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    return [
        between.join(
            cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    ]


def _letters(number: int) -> str:
    first, last = divmod(number, 26)
    return (_letters(first - 1) if first else "") + chr(ord("A") + last)


def as_html(comparison: Comparison) -> str:
    """The comparison as an HTML page, in the style of the report's."""
    from pytest_ascendcache.reports.html_report import render

    return render(
        "comparison.html.j2",
        ("common.js", "comparison.js"),
        {},
        comparison=comparison,
        silent=list(zip(*map(comparison.silent, Language), strict=True)),
    )


def _is_foreign(page: Path) -> bool:
    """Whether an existing file is no page that this package has written."""
    if not page.is_file() or is_stream(page):
        return False
    text = read_text(page, errors="replace")
    return bool(text) and _MARK not in text[:4096]


def main(arguments: list[str] | None = None) -> int:
    """The command. The exit status is 0, also if rules differ.

    It is 1 with ``--fail-on-worse`` if a later report has a worse result for a rule than the first,
    or if a report judged nothing, and 2 for files that cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="ascendcache-compare",
        description="Compares reports of several toolchains, or of versions of one.",
    )
    parser.add_argument(
        "reports", nargs="+", type=Path, metavar="REPORT.json", help="what --ascend-report wrote"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE.html", help="also write a page")
    parser.add_argument(
        "--fail-on-worse",
        action="store_true",
        help="exit with status 1 if a later report has a worse result for a rule than the first, "
        "or if a report judged nothing",
    )
    add_language_option(parser)
    options = parser.parse_args(arguments)
    language = options.language
    if len(options.reports) < 2:
        parser.error(
            translated(
                f"{options.reports[0]} alone cannot be compared; name two reports or more.",
                language,
            )
        )
    if options.output and os.path.realpath(options.output) in map(
        os.path.realpath, options.reports
    ):
        replaced = f"{options.output} would replace a report that is compared; name another file."
        parser.error(translated(replaced, language))
    if options.output and _is_foreign(options.output):
        foreign = f"{options.output} exists and is no comparison; name another file, or remove it."
        parser.error(translated(foreign, language))
    try:
        comparison = compare([(path, read_report(path)) for path in options.reports])
        if options.output is not None:
            write_output(options.output, as_html(comparison))
    except ReportFileError as error:
        parser.error(translated(str(error), language))
    except OSError as error:
        parser.error(translated(f"{options.output} cannot be written: {error.strerror}.", language))
    sys.stdout.write(as_text(comparison, language))
    if not options.fail_on_worse:
        return 0
    for rule in comparison.worse:
        sys.stdout.write(text("worse", language, rule=rule) + "\n")
    return 1 if comparison.worse or comparison.silent(language) else 0


if __name__ == "__main__":
    sys.exit(main())
