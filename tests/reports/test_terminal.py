"""The last screen of a run, on a terminal of 24 lines and 80 columns."""

from __future__ import annotations

import io

import pytest
from _pytest.terminal import TerminalReporter  # public from pytest 8.4 on

from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.language import Language
from pytest_ascendcache.reports.terminal import TerminalReport
from pytest_ascendcache.words.layout import columns
from tests.sample_reports import record, report

OTHERS = 4
"""Lines above or below the answer: one of pytest, two on what was judged, and the prompt."""
RULES = [
    "cache-mode/enable-stores",
    "cache-mode/enable-reuses",
    "debug/rejects-bad-file",
    "aging/creates-ini",
    "aging/bad-values",
    "aging/orphans",
    "robust/read-only-cache",
    "robust/disk-full",
    "security/no-path-escape",
    "ranks/race",
    "cache-mode/transparent",
    "impl-mode/by-dtype",
]


def _screen(pytester: pytest.Pytester, broken: int, language: Language, tty: bool) -> list[str]:
    records = [
        record(
            f"test_{number}.py::test",
            rule,
            Verdict.FAIL,
            f"what was seen of promise {4 * chr(97 + number)} is not what the document says of it "
            + "so " * 30,
        )
        for number, rule in enumerate(rule for rule in load_rules() if rule in RULES)
    ][:broken]
    document = report(*records, editions=["CANN 8.0.RC3"])
    reporter = TerminalReporter(pytester.parseconfig(), io.StringIO())
    reporter._tw.fullwidth, reporter.isatty = 80, tty
    terminal = TerminalReport(reporter, document, language)
    assert len(terminal.causes) == broken
    terminal.write_answer()
    return reporter._tw._file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("broken", [1, 3, 8, 10, 11])
def test_the_answer_fits_a_screen(
    pytester: pytest.Pytester, broken: int, language: Language
) -> None:
    heading, *lines = _screen(pytester, broken, language, tty=True)
    assert len(lines) + OTHERS <= 24
    assert max(map(columns, [heading, *lines])) <= 80
    whole = sum(
        "not what the document says of it" in "".join(lines[at : at + 3])
        for at, line in enumerate(lines)
        if line[:2].strip().isdigit()
    )
    assert whole >= min(broken, 3)
    assert not any("…" in line for line in lines)


def test_a_log_has_room_for_every_reason(pytester: pytest.Pytester) -> None:
    lines = _screen(pytester, 10, Language.ENGLISH, tty=False)
    assert sum("what was seen" in line for line in lines) == 10
