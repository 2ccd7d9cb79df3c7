"""Benchmark of the harness around a slow compiler: a stand-in atc that takes seconds a run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

_RUN = 1.0
"""Seconds each run lasts at least for each worker of a core; it needs a twentieth of that. So many
workers as cores have runs of a second, and more of them longer ones, or the cores of a small
machine would bound what is measured: whether workers wait for each other."""
_WORKERS = (2, 8, 16)


def slow_atc(
    directory: Path,
    pytest: Callable[..., float],
    options: tuple[str, ...] = ("--pyargs", "pytest_ascendcache.conformance"),
) -> None:
    """The core of the suite with several workers, against nothing but its runs."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from standins import install_atc
    from standins.warm import standin_server

    report = directory / "report.json"
    with standin_server() as server:
        socs = ("Ascend910B1", "Ascend310P3", "Ascend910B3")
        atc = install_atc(directory / "toolkit", *socs, server=server)
        try:
            for workers in _WORKERS:
                lasts = _RUN * max(1.0, workers / (os.cpu_count() or 1))
                os.environ["STANDIN"] = f"lasts:{lasts}"
                given = (f"--ascend-atc={atc}", f"--ascend-report={report}", "-n", str(workers))
                wall = pytest(directory, "--ascend-cache", *given, *options)
                print(_told(json.loads(report.read_text()), workers, lasts, wall), flush=True)
        finally:
            del os.environ["STANDIN"]


def _told(report: dict[str, object], workers: int, lasts: float, wall: float) -> str:
    checks = report["checks"]
    assert isinstance(checks, list)
    runs = sum(check["evidence"]["starts"] for check in checks)
    ratio = wall / (runs * lasts / workers)
    return (
        f"stand-in atc of {lasts:g} s a run, {workers} workers: {wall:.0f} s for {len(checks)} "
        f"checks and {runs} runs; wall / (runs x {lasts:g} s / {workers}) = {ratio:.2f}"
    )
