"""What the benchmarks share: timing of calls, of runs of pytest, and of one bare compile."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from pytest_ascendcache.contract import CompileOptions
from pytest_ascendcache.plugin.session import CONTROL_OPERATOR
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import CompileRequest

T = TypeVar("T")


def timed(action: Callable[..., T], *arguments: Any, **options: Any) -> tuple[float, T]:
    """Call ``action``; returns the seconds it took and its result."""
    start = time.perf_counter()
    result = action(*arguments, **options)
    return time.perf_counter() - start, result


def median(action: Callable[[], object], runs: int) -> float:
    """Return the median duration of an action in seconds."""
    return statistics.median(timed(action)[0] for _ in range(runs))


def pytest(directory: Path, *arguments: str) -> float:
    """Run pytest in another process; returns its wall time in seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    how = {"cwd": directory, "capture_output": True, "text": True}
    seconds, ended = timed(subprocess.run, command, **how)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")
    return seconds


def bare_compile(directory: Path) -> float:
    """Return the median wall time of one forked compile without the suite around it, in seconds."""
    out, work, home = (directory / part for part in ("out", "work", "home"))
    request = CompileRequest((CONTROL_OPERATOR,), CompileOptions(), None, out, work, home)
    with closing(reference_toolchain()) as toolchain:

        def compile_one() -> None:
            (result,) = toolchain.compile_together([request])
            assert result.succeeded, result.output

        compile_one()
        return median(compile_one, 60)
