"""Tables of profile and rule, from reports of runs with ``--ascend-nodes``."""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from pytest_ascendcache.nodes import profiles

_PAGE = Path(__file__).parent.parent / "docs/findings/shared-storage.md"
_WORST = ("fail", "warn", "undecided", "known deviation", "pass", "not applicable")
_OPERATION = re.compile(r"operation \d+ \((\w+) of [^)]*\)")
"""A moment of a compile, with a temporary name that is another one in each run."""
_HEAD = """\
# What toolchains do when several nodes share their cache

Written by `ci/nodes` from reports of runs with `--ascend-nodes=2`; do not edit. What the profiles
are and how this is judged: [shared storage](../shared-storage.md). A cell has the worst verdict of
the rule's checks on that profile, and how many there are; an empty one has none. *undecided*: it
could not be told, mostly because the same goes wrong where all nodes use one mount, so that nodes
are not what it is for. Below each table is what was said.
"""


def table(report: dict[str, Any]) -> str:
    """One toolchain: a row a rule, a column a profile, and what was said of all but passes."""
    cells: dict[tuple[str, str], list[str]] = defaultdict(list)
    said: dict[str, list[str]] = defaultdict(list)
    names = [each.value for each in profiles()]
    for check in report["checks"]:
        if not check["rule"].startswith("shared/"):
            continue
        case = check["check"].rpartition("[")[2].rstrip("]")
        # A profile may be the end of another one's name.
        profile = max((name for name in names if case.endswith(name)), key=len)
        cells[check["rule"], profile].append(check["verdict"])
        if check["verdict"] != "pass":
            message = _OPERATION.sub(r"its \1", check["message"].partition("\n")[0])
            name = check["check"].partition("::")[2]
            said[f"{check['verdict']}: {message}"].append(f"`{name}`")
    toolchain = report["toolchain"]
    lines = [f"\n## {toolchain['name']} {toolchain['version']}\n"]
    lines += ["| rule | " + " | ".join(f"`{name}`" for name in names) + " |"]
    lines += ["|---" * (len(names) + 1) + "|"]
    for rule in sorted({rule for rule, _ in cells}):
        row = [_cell(cells.get((rule, name), [])) for name in names]
        lines.append(f"| {rule} | {' | '.join(row)} |")
    if said:
        lines.append("")
    lines += [f"* {what} ({', '.join(checks)})" for what, checks in said.items()]
    return "\n".join(lines) + "\n"


def _rank(written: str) -> tuple[bool, str]:
    """The reference's table is the first."""
    return not written.startswith("\n## reference "), written


def _cell(verdicts: list[str]) -> str:
    if not verdicts:
        return ""
    worst = min(verdicts, key=_WORST.index)
    return f"{worst} ({verdicts.count(worst)} of {len(verdicts)})"


def together(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reports of one toolchain as one: of a check that was run again the last verdict counts."""
    found: dict[str, dict[str, Any]] = {}
    for report in reports:
        before = found.get(str(report["toolchain"]), {"checks": []})["checks"]
        checks = {check["check"]: check for check in [*before, *report["checks"]]}
        found[str(report["toolchain"])] = {**report, "checks": [*checks.values()]}
    return [*found.values()]


def kept(page: str, reports: list[dict[str, Any]]) -> list[str]:
    """Tables of the page whose toolchains none of the reports is about."""
    names = {report["toolchain"]["name"] for report in reports}
    tables = [f"\n## {each}" for each in page.split("\n## ")[1:]]
    return [each for each in tables if each.split()[1] not in names]


def main() -> int:
    """Write the page; tables of toolchains that no report is about stay."""
    parser = argparse.ArgumentParser(prog="ci/nodes", description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT.json")
    given = parser.parse_args().reports
    reports = [json.loads(each.read_text("utf-8")) for each in given]
    tables = [*map(table, together(reports)), *kept(_PAGE.read_text("utf-8"), reports)]
    _PAGE.write_text(_HEAD + "".join(sorted(tables, key=_rank)), encoding="utf-8")
    print(f"{_PAGE.relative_to(_PAGE.parents[2])} written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
