"""The list of MindSpore 2.10.0 covers exactly the deviations that were measured by hand.

``docs/findings/mindspore-measured.md`` names the checks of each cell of that measurement.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pytest_ascendcache
from pytest_ascendcache.contract.deviations import Deviation, load_deviations

PAGE = Path(__file__).parents[2] / "docs/findings/mindspore-measured.md"
TOOLCHAINS = {"K": "mindspore-operator-cache", "G": "mindspore-graph-cache"}
FOLDERS = {"K": ("common", "operator_cache"), "G": ("common", "graph_cache")}
LIST = load_deviations("mindspore-2.10.0")
SUITE = Path(pytest_ascendcache.__file__).parent / "conformance/mindspore"


def _cells() -> list[tuple[str, str, str, str]]:
    """Return the cache, the question, the manual observation and a check for each cell."""
    rows = [
        [each.strip() for each in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| [KG] \|", line)
    ]
    return [
        (cache, question, seen, check)
        for cache, question, seen, checks in rows
        for check in re.findall(r"`([^`]+)`", checks)
        if check.startswith("test_")
    ]


CELLS = _cells()


def _known(cache: str, check: str) -> list[Deviation]:
    about = [each for each in LIST if each.is_about(TOOLCHAINS[cache])]
    return [each for each in about if each.names(each.rule, f"suite.py::{check}", {})]


def test_there_are_cells_of_each_kind() -> None:
    kinds = {(cache, seen) for cache, _, seen, _ in CELLS}
    assert kinds == {(cache, seen) for cache in "KG" for seen in ("holds", "broken")}


@pytest.mark.parametrize(("cache", "question", "seen", "check"), CELLS, ids=lambda each: each[:50])
def test_a_cell_is_found_or_not_accused(cache: str, question: str, seen: str, check: str) -> None:
    assert bool(_known(cache, check)) is (seen == "broken"), f"{question}: {check}"


@pytest.mark.parametrize("cache", TOOLCHAINS)
def test_the_checks_of_the_page_are_in_the_suite(cache: str) -> None:
    paths = [path for folder in FOLDERS[cache] for path in (SUITE / folder).glob("test_*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    named = {check.partition("[")[0] for each, _, _, check in CELLS if each == cache}
    assert {name for name in named if f"def {name}(" not in text} == set()
