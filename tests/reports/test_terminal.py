"""The last screen of a run, on a terminal of 24 lines and 80 columns."""

from __future__ import annotations

import io
import re
from enum import Enum

import pytest
from _pytest.terminal import TerminalReporter  # public from pytest 8.4 on

from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.contract.facts import (
    Aged,
    Delivery,
    Ending,
    Fact,
    Later,
    Numbers,
    Place,
    Subject,
    SubjectKind,
    Words,
)
from pytest_ascendcache.language import Language, text, texts
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.reports.causes import causes_of
from pytest_ascendcache.reports.terminal import TerminalReport
from pytest_ascendcache.words.layout import columns
from tests.sample_reports import record, report

OTHERS = 4
"""Lines above or below the answer: one of pytest, two on what was judged, and the prompt."""
ENGLISH = re.compile(r"(?:\b[a-z]{2,}\b[ ,;:]+){2}\b[a-z]{2,}\b")
"""Three English words in a row."""
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

TOLD = [each for each in load_rules() if each in RULES and f"breach_{each}" in texts()]


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
    screen = " ".join(line.strip() for line in lines).replace(" ", "")
    shown = [text(f"breach_{each}", language).replace(" ", "") in screen for each in TOLD[:broken]]
    assert sum(shown) >= min(broken, 3)
    assert not any("…" in line for line in lines)


def test_a_log_has_room_for_every_reason(pytester: pytest.Pytester) -> None:
    lines = _screen(pytester, 10, Language.ENGLISH, tty=False)
    assert sum(re.match(r" ?\d+  fail", line) is not None for line in lines) == 10


def test_the_chinese_of_a_broken_toolchain_is_chinese(pytester: pytest.Pytester) -> None:
    # Options, paths, rule ids and commands to paste stay as they are.
    result = pytester.runpytest_subprocess(
        "--ascend-cache",
        "--ascend-rule=cache-mode/default-is-disable",
        "--ascend-defect=default-is-enable",
        "--ascend-language=zh",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    begin = next(at for at, line in enumerate(result.outlines) if "昇腾编译缓存契约" in line)
    names = ("pytest --ascend", "判定对象")  # a command, and the name of what was judged
    lines = [line for line in result.outlines[begin:] if not any(each in line for each in names)]
    own = [line for line in lines if not re.match(r"=+ .* in [\d.]+s", line)]
    assert any("仍启用了缓存" in line for line in own)
    assert [line for line in own if ENGLISH.search(line)] == []


@pytest.mark.parametrize("kind", [Delivery, Ending, Later, Aged, Place, Words, Numbers])
def test_every_history_is_chinese(kind: type[Enum]) -> None:
    subject = Subject(SubjectKind.OPTION, "--op_debug_level", "1")
    command = "cd /box && HOME=/box atc --singleop=x.json --op_debug_level=1"
    step = Step(command, "ended with exit status 0", ("Add(float32[4]): x",), {}, "", ("a/b",))
    checks = [
        record(
            f"test_{each.name}.py::test",
            verdict=Verdict.FAIL,
            steps=[step.as_dict()],
            facts=[Fact.seen(each, "", subject=subject).as_dict()],
        )
        for each in kind
    ]
    for check in checks:
        (cause,) = causes_of(report(check))
        assert cause.history is not None
        told = [*cause.history.lines(Language.CHINESE), cause.next(Language.CHINESE)]
        assert [line for line in told if ENGLISH.search(line)] == []
