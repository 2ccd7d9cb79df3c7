"""Looks for false alarms: judges the embedded reference, which keeps every promise, many times.

Each run has a seed of its own, which decides what is generated, the order of the checks and how
many workers there are; several run beside each other, so that none has the machine to itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKERS = (1, 2, 3)


def main() -> int:
    """Run the suite with each seed; the exit status is 1 where one of the runs was not green."""
    parser = argparse.ArgumentParser(prog="ci/alarms", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="(default: 1)")
    parser.add_argument(
        "--at-once", type=int, default=2, metavar="N", help="runs beside each other (default: 2)"
    )
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "build/alarms", metavar="DIR", help="for red runs"
    )
    given = parser.parse_args()
    if given.runs < 1 or given.first < 0 or given.at_once < 1:
        parser.error("RUNS and --at-once are whole numbers from 1, --first is one from 0.")
    given.keep.mkdir(parents=True, exist_ok=True)
    alarms = 0
    with ThreadPoolExecutor(given.at_once) as pool:
        seeds = range(given.first, given.first + given.runs)
        running = {pool.submit(judged, seed, given.keep): seed for seed in seeds}
        for done, each in enumerate(as_completed(running), 1):
            red = each.result()
            alarms += bool(red)
            print(f"{done}/{given.runs} seed {running[each]}: {red or 'green'}", flush=True)
    print(f"{given.runs} runs, {alarms} not green")
    return int(alarms > 0)


def judged(seed: int, keep: Path) -> str:
    """Run the suite with one seed; what it said is kept where it is not green, and named."""
    command = [
        *(sys.executable, "-m", "pytest", "--ascend-cache", "--ascend-strict", "-q"),
        *("-p", "no:cacheprovider", "-p", "shuffled", "-n", str(WORKERS[seed % len(WORKERS)])),
        *(f"--ascend-seed={seed}", "--pyargs", "pytest_ascendcache.conformance"),
    ]
    path = os.pathsep.join(filter(None, (str(ROOT / "ci"), os.environ.get("PYTHONPATH"))))
    said = keep / f"seed-{seed}.txt"
    with said.open("wb") as output:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode == 0:
        said.unlink()
        return ""
    return f"exit status {ended.returncode}, see {said}"


if __name__ == "__main__":
    sys.exit(main())
