"""Prints the kill matrix: which rules notice which defect.

``python -m pytest_ascendcache.qualification [--full] [--jobs N] [DEFECT ...]``. Exit status 0
when every rule has a defect, every defect is noticed by each rule it claims to break, and the
clean reference breaks nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification.catalogue import Defect, load_defects

_SUITE = "pytest_ascendcache.conformance"
_BROKEN = ("fail", "warn")
_REPETITIONS = 20
_CRASH_RULES = ("robust/interrupted-compile", "robust/power-loss")
_STRESS_RULE = "robust/stress"
_BYTE_CODE = tempfile.TemporaryDirectory(prefix="ascendcache-bytecode-")


@dataclass(frozen=True)
class Killed:
    """What a run of the suite said of one defect: rule -> verdict, and the kinds of
    interruption after which a check found fault, the simplest first."""

    defect: Defect
    verdicts: dict[str, str]
    crashes: list[str]

    @property
    def by(self) -> list[str]:
        """Rules that noticed."""
        return [rule for rule, verdict in self.verdicts.items() if verdict in _BROKEN]

    @property
    def missed(self) -> list[str]:
        """Rules that should have noticed and did not."""
        return [rule for rule in self.defect.breaks if rule not in self.by]

    @property
    def survived(self) -> bool:
        """Whether a rule missed it, or it takes another interruption to find it than it says."""
        simplest = self.crashes[0] if self.crashes else ""
        return bool(self.missed) or self.defect.crash not in ("", simplest)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="ci/qualify", description=__doc__.splitlines()[0])
    parser.add_argument("defects", nargs="*", metavar="DEFECT", help="only these defects")
    parser.add_argument(
        "--full",
        action="store_true",
        help=f"the whole suite on each defect, and {_REPETITIONS} runs on the clean reference",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at once")
    given = parser.parse_args()
    defects = load_defects()
    unknown = [name for name in given.defects if name not in defects]
    if unknown:
        parser.error(f"no defect is called {unknown[0]!r}; there are {', '.join(defects)}")
    chosen = [defects[name] for name in given.defects] or list(defects.values())
    failures = 0 if given.defects else _rules_without_defect()
    with ThreadPoolExecutor(max(1, given.jobs)) as pool:
        for killed in pool.map(lambda each: _qualify(each, given.full), chosen):
            failures += _report(killed)
    if given.full and not given.defects:
        failures += _clean_runs()
    print(f"{len(chosen) - failures if failures < len(chosen) else 0} passed, {failures} failed")
    return 1 if failures else 0


def _rules_without_defect() -> int:
    claimed = {rule for defect in load_defects().values() for rule in defect.breaks}
    wrong = 0
    for rule in load_rules():
        if rule not in claimed:
            print(f"NO DEFECT  {rule}: nothing shows that its checks can fail")
            wrong += 1
    for rule in sorted(claimed - set(load_rules())):
        print(f"NO RULE    {rule}: a defect claims to break it")
        wrong += 1
    return wrong


def _qualify(defect: Defect, full: bool) -> Killed:
    """Run the suite on a defect: all of it, or the checks of the rules it claims to break.

    Where that is one rule, the first check that finds fault is enough. To tell by which kinds of
    interruption a defect is found, and by which it is not, takes all of them.
    """
    judged = {*defect.breaks, *(_CRASH_RULES if defect.crash else ())}
    rules = [] if full else [f"--ascend-rule={rule}" for rule in sorted(judged)]
    first = ["--ascend-strict", "--exitfirst"] if len(rules) == 1 else []
    # The whole suite has no stress in it unless it is asked for.
    stress = ["--ascend-stress-steps=120", "--ascend-stress-seed=1"]
    stress = stress if _STRESS_RULE in defect.breaks else []
    report = _run([f"--ascend-defect={defect.name}", *rules, *first, *stress])
    found = {
        check["evidence"]["crash"] for check in report["checks"] if check["verdict"] in _BROKEN
    }
    crashes = [each.value for each in CrashKind if each.value in found]
    return Killed(defect, _verdicts(report), crashes)


def _environment() -> dict[str, str]:
    """Ours, with byte code kept: hundreds of processes must not compile their sources anew."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": _BYTE_CODE.name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _run(arguments: Sequence[str]) -> dict[str, Any]:
    """Run the suite in another process; its JSON report."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-qualify-") as name:
        report = Path(name) / "report.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--ascend-cache", f"--ascend-report={report}", f"--basetemp={name}/tmp"]
        command += ["-c", os.devnull, f"--rootdir={name}", "--pyargs", _SUITE, *arguments]
        ended = subprocess.run(
            command,
            cwd=name,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if ended.returncode not in (0, 1) or not report.exists():
            raise SystemExit(f"the suite did not run:\n{ended.stdout}{ended.stderr}")
        document: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return document


def _verdicts(document: dict[str, Any]) -> dict[str, str]:
    """Verdicts by rule, warnings of should rules included."""
    verdicts = {rule["id"]: rule["verdict"] for rule in document["rules"]}
    # One check that found fault is enough, whatever the rule's other checks could not tell.
    verdicts.update(
        {c["rule"]: c["verdict"] for c in document["checks"] if c["verdict"] in _BROKEN}
    )
    return verdicts


def _report(killed: Killed) -> bool:
    """Print one line of the matrix; whether it shows a failure."""
    others = [rule for rule in killed.by if rule not in killed.defect.breaks]
    state = "SURVIVED" if killed.survived else "killed"
    print(f"{state:<9}  {killed.defect.name:<36} {killed.defect.what}", flush=True)
    for rule in killed.defect.breaks:
        print(f"           {'':<36}   by {rule}: {killed.verdicts.get(rule, 'not run')}")
    if killed.defect.crash:
        expected = killed.defect.crash
        unlike = "" if killed.crashes[:1] == [expected] else f" (first must be: {expected})"
        print(f"           {'':<36}   found when: {', '.join(killed.crashes) or 'never'}{unlike}")
    if others:
        print(f"           {'':<36}   noticed too: {', '.join(others)}")
    return killed.survived


def _clean_runs() -> int:
    """The clean reference breaks nothing: alone, with two workers, and beside a busy machine."""
    wrong = 0
    for number in range(_REPETITIONS):
        workers = ["-n", "2"] if number % 2 else []
        load = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range((os.cpu_count() or 1) if number % 4 >= 2 else 0)
        ]
        try:
            verdicts = _verdicts(_run(["--ascend-strict", *workers]))
        finally:
            for process in load:
                process.kill()
                process.wait()
        bad = {rule: verdict for rule, verdict in verdicts.items() if verdict != "pass"}
        how = f"{'2 workers' if workers else 'one process'}{', busy' if load else ''}"
        print(f"clean {number + 1:>2}/{_REPETITIONS} ({how}): {bad or 'all pass'}", flush=True)
        wrong += bool(bad)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
