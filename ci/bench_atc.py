"""Benchmark of the suite around a slow compiler: a stand-in atc that takes seconds per run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bench_timing import pytest

_RUN = 1.0
"""Seconds that a run lasts at least for each worker per core; its work takes a twentieth of that.
With more workers than cores runs last longer. Otherwise the cores of a small machine would limit
what is measured: whether workers wait for each other."""
_WORKERS = (2, 8, 16)


def slow_atc(directory: Path) -> None:
    """Compare the core of the suite with its runs of a stand-in atc alone (15 minutes)."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from standins import install_atc
    from warm_atc import standin_server

    report = directory / "report.json"
    with standin_server() as server:
        socs = ("Ascend910B1", "Ascend310P3", "Ascend910B3")
        atc = install_atc(directory / "toolkit", *socs, server=server)
        try:
            for workers in _WORKERS:
                lasts = _RUN * max(1.0, workers / (os.cpu_count() or 1))
                os.environ["STANDIN"] = f"lasts:{lasts}"
                options = (f"--ascend-atc={atc}", f"--ascend-report={report}", f"-n{workers}")
                suite = ("--pyargs", "pytest_ascendcache.conformance")
                wall = pytest(directory, "--ascend-cache", *options, *suite)
                checks = json.loads(report.read_text())["checks"]
                runs = sum(check["evidence"]["starts"] for check in checks)
                ratio = wall / (runs * lasts / workers)
                print(
                    f"stand-in atc of {lasts:g} s a run, {workers} workers: {wall:.0f} s for "
                    f"{len(checks)} checks and {runs} runs; wall / (runs x {lasts:g} s / "
                    f"{workers}) = {ratio:.2f}",
                    flush=True,
                )
        finally:
            del os.environ["STANDIN"]
