"""Looks for false alarms: judges toolchains that keep every promise, many times.

Half of the runs judge the embedded reference, the others a drawn innocent: the reference with a
liberty that the documents leave. The seed of a run decides that, the generated inputs, the order of
the checks and the number of workers. Several runs share the machine at the same time. What was
judged is kept, so that a campaign that was interrupted continues.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pytest_ascendcache.files import write_output
from pytest_ascendcache.qualification.innocents import Acquittal
from pytest_ascendcache.qualification.loading import load_defects
from pytest_ascendcache.reports.files import read_report

ROOT = Path(__file__).resolve().parent.parent
WORKERS = (1, 2, 3)
REFERENCE = "reference"


def main() -> int:
    """Run the suite with each seed. Returns 1 if a run accused a toolchain."""
    parser = argparse.ArgumentParser(prog="ci/alarms", description=__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="(default: 1)")
    parser.add_argument(
        "--at-once", type=int, default=2, metavar="N", help="simultaneous runs (default: 2)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / "build/alarms",
        metavar="DIR",
        help="for the output of runs that accuse, and for judged.json (default: build/alarms)",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="JSON",
        help="what was judged at which commit; seeds that it has are not judged again, so it "
        "continues a campaign, also another day (default: judged.json in --keep)",
    )
    options = parser.parse_args()
    if options.runs < 1 or options.first < 0 or options.at_once < 1:
        parser.error("RUNS and --at-once must be at least 1, and --first at least 0.")
    options.keep.mkdir(parents=True, exist_ok=True)
    record = options.record or options.keep / "judged.json"
    judged: dict[str, list[str]] = json.loads(record.read_text()) if record.exists() else {}
    commit = _commit()
    innocents = sorted(name for name, each in load_defects().items() if each.freedom)
    seeds = range(options.first, options.first + options.runs)
    with ThreadPoolExecutor(options.at_once) as pool:
        running = {
            pool.submit(judge, seed, drawn(seed, innocents), options.keep): seed
            for seed in seeds
            if str(seed) not in judged
        }
        for each in as_completed(running):
            seed = running[each]
            judged[str(seed)] = [drawn(seed, innocents), each.result(), commit]
            write_output(record, _shown(judged))
            toolchain, alarm, _ = judged[str(seed)]
            print(f"seed {seed}, {toolchain}: {alarm or 'acquitted'}", flush=True)
    found = [judged[str(seed)] for seed in seeds]
    kinds = Counter(toolchain == REFERENCE for toolchain, _, _ in found)
    alarms = sum(bool(alarm) for _, alarm, _ in found)
    print(f"{kinds[True]} runs of the reference, {kinds[False]} of innocents, {alarms} accused")
    if alarms:
        print(f"What they printed is in {options.keep}.")
    return int(alarms > 0)


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "no commit"


def _shown(judged: dict[str, list[str]]) -> str:
    """A line for each seed, in order."""
    lines = [f"{json.dumps(seed)}: {json.dumps(judged[seed])}" for seed in sorted(judged, key=int)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def drawn(seed: int, innocents: list[str]) -> str:
    """The toolchain of this seed's run: the reference, or the name of an innocent."""
    rng = random.Random(seed)
    return rng.choice(innocents) if rng.random() < 0.5 else REFERENCE


def judge(seed: int, toolchain: str, keep: Path) -> str:
    """Run the suite with one seed. Returns what is wrong; then the output is kept. An innocent may
    leave a tenth of the rules undecided, the reference none."""
    report, log = keep / f"seed-{seed}.json", keep / f"seed-{seed}.txt"
    command = [
        *(sys.executable, "-m", "pytest", "--ascend-cache", "-q", f"--ascend-seed={seed}"),
        *("-p", "no:cacheprovider", "-p", "shuffled", "-n", str(WORKERS[seed % len(WORKERS)])),
        f"--ascend-report={report}",
        "--ascend-strict" if toolchain == REFERENCE else f"--ascend-defect={toolchain}",
        *("--pyargs", "pytest_ascendcache.conformance"),
    ]
    report.unlink(missing_ok=True)  # of a run that was interrupted
    path = os.pathsep.join(filter(None, (str(ROOT / "ci"), os.environ.get("PYTHONPATH"))))
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
    found = Acquittal.of(read_report(report)) if report.exists() else None
    # What an innocent leaves undecided makes the status 1; any other status is no verdict.
    fine = ended.returncode in ((0,) if toolchain == REFERENCE else (0, 1))
    if fine and found is not None and found.is_acquitted:
        log.unlink()
        report.unlink()
        return ""
    accusing = "" if found is None else f", {len(found.accused)} checks accuse, {found}"
    return f"exit status {ended.returncode}{accusing}, see {log.name}"


if __name__ == "__main__":
    sys.exit(main())
