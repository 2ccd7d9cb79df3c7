"""The page about a release, generated from JSON reports."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_ascendcache.reports.files import SCHEMA
from tests.project.conftest import CiModule

RULE = {
    "id": "robust/heals-damaged-entry",
    "level": "should",
    "title_en": "A damaged entry is recompiled and replaced",
    "title_zh": "损坏的缓存条目被重新编译并替换",
    "readings": [],
    "statement": "Compiled, the entry replaced.",
    "source": {"document": "Robustness", "section": "Damaged entries"},
    "verdict": "warn",
}


def check(name: str, verdict: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {
        "rule": RULE["id"],
        "check": f"pytest_ascendcache/conformance/mindspore/common/test_networks.py::{name}",
        "verdict": verdict,
        "message": message,
        "repeat": f"pytest --ascend-cache mindspore_test::{name}",
        "seconds": 4.0,
        "deviation": None,
        "evidence": {"starts": 3, "waited": 3.9},
        **more,
    }


def report(*checks: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "toolchain": {"name": "mindspore-operator-cache", "version": "2.10.0"},
        "host": {"machine": "x86_64", "python": "3.11.7", "file_system": "ext4"},
        "totals": {"rules": {}, "checks": {}},
        "accuracy": [],
        "rules": [RULE],
        "checks": list(checks),
    }


FIRST = report(
    check("test_heals[json-empty]", "warn", "the run ended with exit status 1\nmore"),
    check("test_heals[so-empty]", "warn", "sometimes"),
    check("test_heals[o-empty]", "pass"),
)
AGAIN = report(
    check(
        "test_heals[json-empty]",
        "known deviation",
        "the run ended with exit status 1",
        deviation={"instead": "warn"},
    ),
    check("test_heals[so-empty]", "pass"),
)


@pytest.fixture
def findings_page(ci_module: CiModule) -> ModuleType:
    """The module that makes the page."""
    return ci_module("findings_page")


def test_what_every_run_finds_is_told_from_what_some_find(findings_page: ModuleType) -> None:
    findings = findings_page.findings([FIRST, AGAIN, AGAIN])
    assert [(each.name, each.seen, each.tries, each.is_repeatable) for each in findings] == [
        ("test_heals[json-empty]", 3, 3, True),
        ("test_heals[so-empty]", 1, 3, False),
    ]
    assert not findings_page.findings([FIRST])[0].is_repeatable, "once is not three times"


def test_the_page_has_rule_verdict_evidence_and_a_command(findings_page: ModuleType) -> None:
    page = findings_page.markdown([[FIRST, AGAIN, AGAIN]])
    assert "# MindSpore 2.10.0" in page
    assert "| robust/heals-damaged-entry | warn | 2 of 3 | should |" in page
    assert "`test_heals[json-empty]` (warn, 3/3)" in page
    assert "`test_heals[so-empty]` (warn, 1/3, *not repeatable*)" in page
    assert "the run ended with exit status 1\n" in page
    assert "more" not in page
    assert "$ pytest --ascend-cache mindspore_test::test_heals[json-empty]" in page
    assert "3 checks: 1 pass, 0 fail, 2 warn, 0 not applicable, 0 undecided; 9 starts" in page


def test_the_worst_harm_comes_first(findings_page: ModuleType) -> None:
    harms = {"misleading": "warn", "unusable": "fail", "wrong-result": "fail"}
    checks = [check(f"test_x[{harm}]", each, harm=harm) for harm, each in harms.items()]
    page = findings_page.markdown(
        [[report(*checks, check("test_x[none]", "warn"))]], setting="| a | table |"
    )
    headings = ("Wrong result", "Unusable from now on", "Misleading words")
    places = [page.index(f"### {each}: 1 of") for each in headings]
    assert page.index("| a | table |") < places[0]
    assert places == sorted(places)
    assert page.index("### Harm not determined: 1 of") > places[-1]


def test_what_commands_have_in_common_is_said_once(findings_page: ModuleType) -> None:
    asked = "python -m pytest --ascend-cache --pyargs"
    checks = [check(f"test_x[{each}]", "warn", repeat=f"{asked} 'm::{each}'") for each in "ab"]
    page = findings_page.markdown([[report(*checks)]])
    assert f"```console\nask='{asked}'\n```" in page
    assert "```console\n  $ask 'm::b'\n" in page
    assert f"$ {asked} 'm::a'\n" in findings_page.markdown([[report(checks[0])]])


def test_a_listed_deviation_is_a_finding_all_the_same(findings_page: ModuleType) -> None:
    assert "(warn, 3/3)" in findings_page.markdown([[AGAIN, AGAIN, AGAIN]])


def test_paths_of_a_machine_are_not_on_the_page(findings_page: ModuleType) -> None:
    message = "open /data/pytest-of-me/pytest-1/ascendcache0/12-test-heals/site/cache failed"
    page = findings_page.markdown([[report(check("test_heals", "warn", message))]])
    assert "open $SANDBOX/site/cache failed" in page


def test_figures_say_what_is_ours(findings_page: ModuleType) -> None:
    figures = findings_page.figures(FIRST)
    assert "9 starts, 1.30 s a start, 12 s of checks" in figures
    assert "2.5 % are not the toolchain's" in figures
    assert findings_page.figures(report()) == "mindspore-operator-cache: nothing was started"


def test_the_command_writes_lists_and_refuses(
    findings_page: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = tmp_path / "report.json", tmp_path / "below/page.md"
    path.write_text(json.dumps(FIRST))
    findings_page.main(["--group", str(path), "--output", str(page)])
    assert page.read_text() == findings_page.markdown([[FIRST]])
    findings_page.main(["--group", str(path), "--title", "TorchAir", "--output", str(page)])
    assert "$ FORM=report ci/verify-torchair -k test_heals\n" in page.read_text()
    findings_page.main(["--group", str(path), "--broken"])
    module = "pytest_ascendcache.conformance.mindspore.common.test_networks"
    assert capsys.readouterr().out.splitlines() == [
        f"{module}::test_heals[{each}-empty]" for each in ("json", "so")
    ]
    path.write_text(json.dumps(report()))
    findings_page.main(["--group", str(path), "--broken"])
    assert capsys.readouterr().out == ""  # an empty line would not be the name of a check
    path.write_text("[]")
    for wrong in (path, tmp_path / "nowhere.json"):
        with pytest.raises(SystemExit) as ended:
            findings_page.main(["--group", str(wrong), "--figures"])
        assert ended.value.code == 2
        assert str(wrong) in capsys.readouterr().err
