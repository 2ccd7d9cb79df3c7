"""Looks for false alarms: judges the embedded reference, which keeps every promise, many times.

The seed of a run decides the generated inputs, the order of the checks and the number of workers.
Several runs share the machine at the same time.
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
    """Run the suite with each seed. Returns 1 if a run was not green."""
    parser = argparse.ArgumentParser(prog="ci/alarms", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="(default: 1)")
    parser.add_argument(
        "--at-once", type=int, default=2, metavar="N", help="simultaneous runs (default: 2)"
    )
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "build/alarms", metavar="DIR", help="for red runs"
    )
    options = parser.parse_args()
    if options.runs < 1 or options.first < 0 or options.at_once < 1:
        parser.error("RUNS and --at-once must be at least 1, and --first at least 0.")
    options.keep.mkdir(parents=True, exist_ok=True)
    alarms = 0
    with ThreadPoolExecutor(options.at_once) as pool:
        seeds = range(options.first, options.first + options.runs)
        running = {pool.submit(judge, seed, options.keep): seed for seed in seeds}
        for done, each in enumerate(as_completed(running), 1):
            red = each.result()
            alarms += bool(red)
            print(f"{done}/{options.runs} seed {running[each]}: {red or 'green'}", flush=True)
    print(f"{options.runs} runs, {alarms} not green")
    return int(alarms > 0)


def judge(seed: int, keep: Path) -> str:
    """Run the suite with one seed. Keeps and names the output if the run is not green."""
    command = [
        *(sys.executable, "-m", "pytest", "--ascend-cache", "--ascend-strict", "-q"),
        *("-p", "no:cacheprovider", "-p", "shuffled", "-n", str(WORKERS[seed % len(WORKERS)])),
        *(f"--ascend-seed={seed}", "--pyargs", "pytest_ascendcache.conformance"),
    ]
    path = os.pathsep.join(filter(None, (str(ROOT / "ci"), os.environ.get("PYTHONPATH"))))
    log = keep / f"seed-{seed}.txt"
    with log.open("wb") as output:
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
        log.unlink()
        return ""
    return f"exit status {ended.returncode}, see {log}"


if __name__ == "__main__":
    sys.exit(main())
