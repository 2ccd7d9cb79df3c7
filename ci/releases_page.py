"""Releases of one toolchain side by side, as a Markdown table made from a JSON report of each.

Called by ``ci/verify-mindspore``. The table has a row for each rule and a column for each release,
the worst harm first; below it is every check with different results in two releases.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from findings_page import plain

from pytest_ascendcache.files import write_output
from pytest_ascendcache.language import Language
from pytest_ascendcache.reports.comparison import ABSENT, aligned, compare
from pytest_ascendcache.reports.files import Document, read_report
from pytest_ascendcache.reports.records import beneath, harm_rank


def table(reports: Sequence[Document]) -> str:
    """Return the table and the differing checks, as Markdown that is also readable on a terminal.

    Raises ``ValueError`` if the report of a release is missing for one of the toolchains.
    """
    toolchains: dict[str, dict[str, Document]] = {}
    for report in reports:
        tool = report["toolchain"]
        toolchains.setdefault(tool["name"], {})[tool["version"]] = report
    releases = list(dict.fromkeys(each["toolchain"]["version"] for each in reports))
    for name, by_release in toolchains.items():
        if missing := [each for each in releases if each not in by_release]:
            raise ValueError(f"there is no report of {name} {missing[0]}; give one of each release")
    rows: list[tuple[int, list[str]]] = []
    for name, by_release in toolchains.items():
        files = [(Path(release), by_release[release]) for release in releases]
        for row in (row for kind in compare(files).groups.values() for row in kind):
            cells = [cell.label(Language.ENGLISH) for cell in row.cells]
            rank = min(harm_rank(cell.harm) for cell in row.cells)
            rows.append((rank, [name, row.rule, *cells]))
    rows.sort(key=lambda each: each[0])
    head, *body = aligned([["toolchain", "rule", *releases], *(row for _, row in rows)], " | ")
    rule = " | ".join("-" * len(cell) for cell in head.split(" | "))
    lines = [f"| {line} |" for line in (head, rule, *body)]
    lines += ["", "## Checks with different results in two releases", ""]
    differing = [
        line
        for name, by_release in toolchains.items()
        for line in _differing(name, by_release, releases)
    ]
    return "\n".join([*lines, *(differing or ["Nothing."])]) + "\n"


def _differing(
    name: str, by_release: Mapping[str, Document], releases: Sequence[str]
) -> Iterable[str]:
    """Yield the checks whose verdict or harm differs between releases."""
    checks: dict[str, dict[str, Mapping[str, Any]]] = {}
    for release in releases:
        for check in by_release[release]["checks"]:
            checks.setdefault(check["check"], {})[release] = check
    for check, each in checks.items():
        results = {release: _result(each.get(release)) for release in releases}
        if len(set(results.values())) == 1:
            continue
        yield f"* `{check.rpartition('::')[2]}` ({name})"
        for release in releases:
            message = plain(each[release]["message"]) if release in each else ""
            yield f"  * {release}: {results[release]}{f'; {message}' if message else ''}"


def _result(check: Mapping[str, Any] | None) -> str:
    if check is None:
        return ABSENT
    harm = check.get("harm")
    return beneath(check).value + (f", {harm}" if harm else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """``python ci/releases_page.py``: see ``--help``."""
    parser = argparse.ArgumentParser(
        prog="ci/releases_page.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    parser.add_argument("--output", type=Path, metavar="FILE.md", required=True)
    parser.add_argument("--title", required=True, help="what was judged")
    options = parser.parse_args(arguments)
    try:
        page = table([read_report(path) for path in options.reports])
    except ValueError as error:
        parser.error(str(error))
    print(page, end="")
    head = (
        f"# {options.title}: releases side by side\n\n"
        "Written by `ci/verify-mindspore RELEASE RELEASE...`; do not edit. A cell counts the\n"
        "verdicts of a rule's checks for a release, regardless of known deviations, and names the\n"
        "worst harm that one of them observed. The worst harm comes first.\n\n"
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_output(options.output, head + page)


if __name__ == "__main__":
    main()
