"""Releases of a toolchain in one table."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.project.conftest import CiModule
from tests.project.test_findings_page import check, report


def of(release: str, *checks: dict[str, Any], toolchain: str = "graph") -> dict[str, Any]:
    made = copy.deepcopy(report(*checks))
    made["toolchain"] = {"name": toolchain, "version": release}
    return made


BROKEN = check("test_heals[a]", "fail", "every run fails\nmore", harm="unusable")
KNOWN = {**BROKEN, "verdict": "known deviation", "deviation": {"instead": "fail"}}
FINE = check("test_heals[a]", "pass", harm=None)
OTHER = check("test_heals[b]", "pass", harm=None)


@pytest.fixture
def releases_page(ci_module: CiModule) -> ModuleType:
    """The module that makes the page."""
    return ci_module("releases_page")


def test_a_column_a_release_and_what_differs_check_by_check(releases_page: ModuleType) -> None:
    page = releases_page.table(
        [of("2.10.0", KNOWN, OTHER), of("2.9.0", BROKEN, OTHER), of("2.8.0", FINE, OTHER)]
    )
    head, _, row, *rest = page.splitlines()
    assert [each.strip() for each in head.strip("|").split("|")] == [
        "toolchain",
        "rule",
        "2.10.0",
        "2.9.0",
        "2.8.0",
    ]
    cells = [each.strip() for each in row.strip("|").split("|")]
    assert cells[2] == cells[3] == "fail 1 (1 pass), unusable from now on"
    assert cells[4] == "pass 2"
    assert "* `test_heals[a]` (graph)" in rest
    assert "  * 2.9.0: fail, unusable; every run fails" in rest
    assert "  * 2.8.0: pass" in rest
    assert "test_heals[b]" not in page


def test_the_worst_harm_comes_first_whatever_the_toolchain(releases_page: ModuleType) -> None:
    mild = check("test_heals[a]", "warn", harm="misleading")
    page = releases_page.table([of("1", mild), of("1", BROKEN, toolchain="operators")])
    assert page.index("| operators") < page.index("| graph ")
    assert page.endswith("Nothing.\n")


def test_the_command_writes_and_prints_and_refuses_a_release_too_few(
    releases_page: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for number, each in enumerate([of("1", BROKEN), of("2", FINE), of("1", FINE, toolchain="o")]):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(each))
    page = tmp_path / "below/page.md"
    arguments = ["--title", "X", "--output", str(page)]
    releases_page.main([*arguments, *map(str, paths[:2])])
    assert page.read_text().startswith("# X: releases side by side\n")
    assert page.read_text().endswith(capsys.readouterr().out)
    with pytest.raises(SystemExit) as ended:
        releases_page.main([*arguments, *map(str, paths)])
    assert ended.value.code == 2
    assert "there is no report of o 2; give one of each release" in capsys.readouterr().err
