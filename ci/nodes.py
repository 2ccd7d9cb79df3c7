"""Writes docs/findings/shared-storage.md from reports of runs with ``--ascend-nodes``."""

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
"""A moment of a compile, with a temporary name that differs in each run."""
_HEAD = """\
# What toolchains do when several nodes share their cache

Written by `ci/nodes` from reports of runs with `--ascend-nodes=2`; do not edit. The page on
[shared storage](../shared-storage.md) explains the profiles and the method. A cell has the worst
verdict of the rule's checks on that profile, and how many checks have it; an empty cell has no
check. *undecided* mostly means that the same fault occurs if all nodes use one mount, so that nodes
are not its cause. Below each table are the messages.
"""


def table(report: dict[str, Any]) -> str:
    """Return one toolchain's table, rules by profiles, and the messages of all but passes."""
    cells: dict[tuple[str, str], list[str]] = defaultdict(list)
    messages: dict[str, list[str]] = defaultdict(list)
    names = [each.value for each in profiles()]
    for check in report["checks"]:
        if not check["rule"].startswith("shared/"):
            continue
        case = check["check"].rpartition("[")[2].rstrip("]")
        # The name of a profile may be the end of another's.
        profile = max((name for name in names if case.endswith(name)), key=len)
        cells[check["rule"], profile].append(check["verdict"])
        if check["verdict"] != "pass":
            message = _OPERATION.sub(r"its \1", check["message"].partition("\n")[0])
            name = check["check"].partition("::")[2]
            messages[f"{check['verdict']}: {message}"].append(f"`{name}`")
    toolchain = report["toolchain"]
    lines = [f"\n## {toolchain['name']} {toolchain['version']}\n"]
    lines += ["| rule | " + " | ".join(f"`{name}`" for name in names) + " |"]
    lines += ["|---" * (len(names) + 1) + "|"]
    for rule in sorted({rule for rule, _ in cells}):
        row = [_cell(cells.get((rule, name), [])) for name in names]
        lines.append(f"| {rule} | {' | '.join(row)} |")
    if messages:
        lines.append("")
    lines += [f"* {what} ({', '.join(checks)})" for what, checks in messages.items()]
    return "\n".join(lines) + "\n"


def _rank(written: str) -> tuple[bool, str]:
    """Sort the reference's table first."""
    return not written.startswith("\n## reference "), written


def _cell(verdicts: list[str]) -> str:
    if not verdicts:
        return ""
    worst = min(verdicts, key=_WORST.index)
    return f"{worst} ({verdicts.count(worst)} of {len(verdicts)})"


def together(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge the reports of each toolchain; the last verdict of a check counts."""
    found: dict[str, dict[str, Any]] = {}
    for report in reports:
        before = found.get(str(report["toolchain"]), {"checks": []})["checks"]
        checks = {check["check"]: check for check in [*before, *report["checks"]]}
        found[str(report["toolchain"])] = {**report, "checks": [*checks.values()]}
    return [*found.values()]


def kept(page: str, reports: list[dict[str, Any]]) -> list[str]:
    """Return the page's tables of toolchains that no report is about."""
    names = {report["toolchain"]["name"] for report in reports}
    tables = [f"\n## {each}" for each in page.split("\n## ")[1:]]
    return [each for each in tables if each.split()[1] not in names]


def main() -> int:
    """Write the page, and keep its tables of toolchains that no report is about."""
    parser = argparse.ArgumentParser(prog="ci/nodes", description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT.json")
    paths = parser.parse_args().reports
    reports = [json.loads(each.read_text("utf-8")) for each in paths]
    tables = [*map(table, together(reports)), *kept(_PAGE.read_text("utf-8"), reports)]
    _PAGE.write_text(_HEAD + "".join(sorted(tables, key=_rank)), encoding="utf-8")
    print(f"{_PAGE.relative_to(_PAGE.parents[2])} written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
