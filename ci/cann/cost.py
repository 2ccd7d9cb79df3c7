"""Compares a run of the suite with its runs of atc alone. Run by ``ci/verify-cann``."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import bare

_RUNS = 20
_LONGEST = 5
"""How many checks are named. Checks are slow if no earlier run kept the kernels they compile."""


def bare_run(toolkit: Path) -> float:
    """Return the median seconds of a bare run that reuses one operator."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-bare-") as name:
        taken = []
        for _ in range(_RUNS):
            started = time.monotonic()
            if not bare.run(toolkit, Path(name), "enable"):
                sys.exit(f"ci/verify-cann: [{toolkit}] does not compile Add")
            taken.append(time.monotonic() - started)
        return sorted(taken)[_RUNS // 2]


def main() -> int:
    """``cost.py REPORT.json WALL_SECONDS TOOLKIT``."""
    report, wall, toolkit = Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    checks = json.loads(report.read_text(encoding="utf-8"))["checks"]
    # Runs that look for harm cost as much as those that judge.
    runs = sum(each["evidence"][kind] for each in checks for kind in ("starts", "harm_starts"))
    seconds = bare_run(toolkit)
    factor = f"{wall / (runs * seconds):.1f}" if runs else "unknown"
    print(
        f"{wall:.0f} s for {runs} runs of atc; a bare run takes {seconds:.3f} s; "
        f"wall / (runs x bare run) = {factor}"
    )
    whole = sum(each["seconds"] for each in checks)
    longest = sorted(checks, key=lambda each: float(each["seconds"]), reverse=True)[:_LONGEST]
    for each in longest:
        share = each["seconds"] / whole
        runs = each["evidence"]["starts"] + each["evidence"]["harm_starts"]
        name = each["check"].rpartition("::")[2]
        print(f"{share:5.1%} of the time of all checks, {runs} runs: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
