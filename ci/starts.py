"""Writes ``conformance/starts.json``, the costs of checks, from reports of the whole suite.

``ci/starts REPORT...`` records how many runs a check needs, from reports of the reference. For each
toolchain it records the time a check uses, in units of that toolchain's shortest run, and the
seconds that the check sleeps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from pytest_ascendcache.files import write_output
from pytest_ascendcache.reports.files import read_report

TABLE = Path("pytest_ascendcache/conformance/starts.json")
Cost = float | list[float]


def costs(report: Mapping[str, Any]) -> dict[str, Cost]:
    """Return the average costs of each function by its name in the table."""
    functions: dict[str, list[Mapping[str, Any]]] = {}
    for check in report["checks"]:
        name = check["check"].removeprefix("pytest_ascendcache/conformance/").partition("[")[0]
        functions.setdefault(name, []).append(check)
    toolchain = report["toolchain"]["name"]
    unit = _shortest(report["checks"])
    runs: dict[str, Cost] = {
        name: round(mean(each["evidence"]["starts"] for each in records), 2)
        for name, records in functions.items()
        if toolchain == "reference"
    }
    return runs | {
        f"{toolchain} {name}": [
            round(mean(_used(each) for each in records) / unit, 1),
            round(mean(each["evidence"].get("asleep", 0.0) for each in records), 1),
        ]
        for name, records in functions.items()
    }


def _used(check: Mapping[str, Any]) -> float:
    """Return the seconds in which a check did not sleep. Looking for harm counts too."""
    evidence = check["evidence"]
    asleep: float = evidence.get("asleep", 0.0)
    awake: float = max(check["seconds"], evidence["waited"]) - asleep
    return max(0.0, awake)


def _shortest(checks: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of a run that finds everything cached; few checks have only such runs."""
    runs = [(_used(each), each["evidence"]) for each in checks if each["evidence"]["starts"]]
    # Reports do not record the time of waiting for the reference. Its checks do little else.
    each: list[float] = [(one["waited"] or used) / one["starts"] for used, one in runs]
    return quantiles(each, n=20)[0]


def _file_of(name: str) -> str:
    return name.rpartition(" ")[2].partition("::")[0]


def main(reports: Sequence[str]) -> None:
    """Update the table. Entries of files that the reports do not contain stay."""
    table: dict[str, Cost] = json.loads(TABLE.read_text(encoding="utf-8"))
    for path in reports:
        report = read_report(Path(path))
        name = report["toolchain"]["name"]
        new = costs(report)
        prefixes = {name, ""} if name == "reference" else {name}
        files = {_file_of(each) for each in new}
        for old in [each for each in table if each.rpartition(" ")[0] in prefixes]:
            if _file_of(old) in files:
                del table[old]
        table |= new
    # One line per function makes changes easy to compare.
    lines = (f" {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table))
    write_output(TABLE, "{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{TABLE}: {len(table)} checks")


if __name__ == "__main__":
    main(sys.argv[1:])
