"""Benchmark of the harness around a slow compiler: a stand-in atc that takes a second a start."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

_START = 1.0
"""Seconds each start lasts at least; an idle machine needs a third of that for the compile."""


def slow_atc(
    directory: Path,
    pytest: Callable[..., float],
    options: tuple[str, ...] = ("--pyargs", "pytest_ascendcache.conformance"),
) -> None:
    """The default suite with two workers, against nothing but its starts."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from standins import install_atc

    atc = install_atc(directory / "toolkit", "Ascend910B1", "Ascend310P3", "Ascend910B3")
    report = directory / "report.json"
    os.environ["STANDIN"] = f"lasts:{_START}"
    try:
        wall = pytest(
            directory,
            "--ascend-cache",
            f"--ascend-atc={atc}",
            f"--ascend-report={report}",
            *("-n", "2", *options),
        )
    finally:
        del os.environ["STANDIN"]
    checks = json.loads(report.read_text())["checks"]
    starts = sum(check["evidence"]["starts"] for check in checks)
    ratio = wall / (starts * _START / 2)
    print(
        f"stand-in atc of {_START:g} s a start, two workers: {wall:.0f} s for {len(checks)} checks "
        f"and {starts} starts; wall / (starts x {_START:g} s / 2) = {ratio:.2f}"
    )
