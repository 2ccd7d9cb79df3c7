"""Benchmark of HTML reports: their size, the time to write one, and to load it in a browser."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_timing import timed

from pytest_ascendcache.combinations import Cell, combinations_model
from pytest_ascendcache.contract import Capability, Verdict, load_rules
from pytest_ascendcache.observation import Evidence
from pytest_ascendcache.reports.html_report import html_report
from pytest_ascendcache.reports.json_report import document
from pytest_ascendcache.reports.records import VerdictRecord

BROKEN = 50
"""One check in this many is broken."""

_CHECK = "pytest_ascendcache/conformance/cache_mode/test_combinations.py::test_outcome"
_ABOUT = {
    "plugin": "bench",
    "toolchain": {"name": "reference", "version": "bench"},
    "host": {"machine": "-", "python": "-", "file_system": "-"},
    "exit_status": 1,
    "checks_without_verdict": 0,
}


def pages(directory: Path) -> None:
    """Write reports of many cells, with names and failures like those of the suite."""
    for count in (10_000, 50_000):
        records = list(_records(count))
        report = document(_ABOUT, records, load_rules())
        place = directory / f"{count}.html"
        processor = time.process_time()
        wall, _ = timed(_write, place, report)
        busy = time.process_time() - processor
        print(
            f"HTML report of {count} cells: {place.stat().st_size / 1e6:.2f} MB, written in "
            f"{wall:.2f} s ({busy:.2f} s of them processor time); {_interactive(place)}"
        )


def _write(place: Path, report: dict[str, Any]) -> None:
    place.write_text(html_report(report), encoding="utf-8")


def _records(count: int) -> Iterator[VerdictRecord]:
    model, chance = combinations_model(frozenset(Capability)), random.Random(1)
    seen: set[tuple[int, ...]] = set()
    while len(seen) < count:
        row = tuple(chance.randrange(len(factor.levels)) for factor in model.factors)
        if row in seen or not model.allows(row):
            continue
        seen.add(row)
        cell = Cell(model, row)
        evidence = Evidence(factors=dict(cell.levels)).as_dict()
        broken = len(seen) % BROKEN == 0
        verdict = Verdict.FAIL if broken else Verdict.PASS
        message = "observed: reused, entry kept\nexpected: compiled, entry stored" if broken else ""
        check = f"{_CHECK}[{cell.id}]"
        repeat = f"pytest --ascend-cache '{check}'"
        seconds = chance.random() / 10
        yield VerdictRecord(
            "combinations/outcome", check, verdict, message, repeat, seconds, evidence
        )


def _interactive(place: Path) -> str:
    """Return when a headless browser can use the page, by the page's own clock."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return "chromium is not installed"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={place.parent / 'profile'}", place.as_uri()]
    wall, shown = timed(subprocess.run, command, capture_output=True, text=True)
    ready = re.search(r'data-ready="(\d+)"', shown.stdout)
    if ready is None:
        return "chromium gave no page"
    return f"interactive after {int(ready[1]) / 1000:.2f} s (chromium's start and end {wall:.1f} s)"
