"""The last lines of a run name what limited its speed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.language import Language, translated
from pytest_ascendcache.plugin import pace
from pytest_ascendcache.plugin.pace import Pace, processors

LONGEST = f"{SUITE_NODES}cache_mode/test_x.py::test_long[a-b]"


def paced(
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    seconds: float,
    checks: dict[str, tuple[str, float]],
    machine: float = 0.2,
) -> Pace:
    """Return the pace of a run of so many seconds. ``checks`` have their workers and durations."""
    clock = iter((100.0, 100.0 + seconds))
    ticks = iter(((1000.0, 100.0), (2000.0, 100.0 + 1000.0 * machine)))
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(pace, "processors", lambda: next(ticks))
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    pace_of_run = Pace()
    pace_of_run.begin(workers)
    for check, (worker, took) in checks.items():
        report = pytest.TestReport(
            check, ("", 0, ""), {}, "passed", None, "call", duration=took / 2
        )
        report.worker_id = worker
        pace_of_run.note(report)
        pace_of_run.note(report)
    pace_of_run.end()
    return pace_of_run


@pytest.mark.parametrize(
    ("seconds", "longest", "machine", "phrase"),
    [
        (40.0, 39.0, 0.2, "the longest check"),
        (40.0, 39.0, 0.95, "the processors of this machine"),
        (101.0, 20.0, 0.2, "the number of workers (2)"),
        (180.0, 20.0, 0.2, "the last checks, while other workers were idle"),
    ],
)
def test_what_bounded_a_run_is_told(
    monkeypatch: pytest.MonkeyPatch, seconds: float, longest: float, machine: float, phrase: str
) -> None:
    others = {f"test_{n}": (f"gw{n % 2}", 10.0) for n in range(18)} if seconds > 100 else {}
    measured = paced(monkeypatch, 2, seconds, {LONGEST: ("gw0", longest), **others}, machine)
    line = measured.line()
    assert line.startswith(f"limited by {phrase}: in {seconds:.0f} s workers were busy for ")
    assert line.endswith(f"the longest check took {longest:.0f} s (test_long[a-b])")
    assert f"64 processors for {machine:.0%}" in line
    chinese = translated(line, Language.CHINESE)
    assert chinese.startswith("耗时取决于")
    assert "bounded" not in chinese


def test_one_process_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = paced(monkeypatch, 1, 40.0, {LONGEST: ("", 39.0)})
    assert measured.line().startswith("limited by its single process: in 40 s ")


def test_short_runs_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = paced(monkeypatch, 2, 20.0, {LONGEST: ("gw0", 19.0)})
    assert measured.line() == ""
    assert measured.document()["bound"] == "longest check"


def test_a_run_without_checks_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paced(monkeypatch, 2, 40.0, {}).document() == {}


def test_ticks_are_those_of_all_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(pace, "_STAT", stat)
    assert processors() == (0.0, 0.0)  # this system has no such file
    stat.write_text("cpu  10 1 5 80 4 0 0 0 7 0\ncpu0 1 1 1 1\n")
    assert processors() == (100.0, 16.0)


def test_the_report_has_it(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-cache",
        "--ascend-rule=cache-mode/default-is-disable",
        "--ascend-report=report.json",
        "-n2",
    )
    assert result.ret == 0
    recorded = json.loads((pytester.path / "report.json").read_text())["pace"]
    assert recorded["workers"] == 2
    assert recorded["bound"] in ("processors", "longest check", "workers", "uneven shares")
    assert recorded["longest"].startswith(SUITE_NODES)
    assert 0.0 < recorded["longest_seconds"] < recorded["seconds"] + 0.2
