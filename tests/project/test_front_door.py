"""What a visitor meets first: README, in both languages, and the guides that it links."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.reports.files import read_report
from tests.project.conftest import CiModule
from tests.project.pasting import Pasted, read_page

ROOT = Path(__file__).parents[2]
READMES = {"en": ROOT / "README.md", "zh": ROOT / "README.zh.md"}
LINK = re.compile(r"\]\(([^)#]+)")


def linked(name: str) -> list[str]:
    return LINK.findall(READMES[name].read_text(encoding="utf-8"))


def test_readme_says_what_it_is_in_fourteen_lines() -> None:
    text = READMES["en"].read_text(encoding="utf-8")
    first = text.splitlines()[:14]
    assert sum(line.startswith("$ ") for line in first) == 2
    assert any("fail (wrong result)" in line for line in first)
    assert first[-1] == "```"
    assert len(text.split()) <= 700


@pytest.mark.parametrize("name", ["en", pytest.param("zh", marks=pytest.mark.nightly)])
def test_the_first_command_shows_what_readme_prints(
    name: str, tmp_path: Path, ci_module: CiModule
) -> None:
    """It is ``ci/verify`` without the setting up; the picture is of the same run. How many checks
    notice the defect follows the selection, so numbers may differ."""
    command = read_page(READMES[name]).commands[1]
    program, *options = shlex.split(command.text, comments=True)
    assert program == "ci/verify"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--ascend-cache", *options),
            *(f"--basetemp={tmp_path}/base", f"--ascend-report={tmp_path}/report.json"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert Pasted(command, ended.returncode, ended.stdout).missing() == [], ended.stdout
    picture = ci_module("cause_picture").cause_picture(read_report(tmp_path / "report.json"))
    assert picture == (ROOT / "docs/cause.svg").read_text(encoding="utf-8")


def test_both_readmes_have_the_same_content() -> None:
    commands = [
        [shlex.split(each.text, comments=True)[0] for each in read_page(page).commands]
        for page in READMES.values()
    ]
    assert commands[0] == commands[1]
    english = {each for each in linked("en") if "README" not in each}
    chinese = {each.replace("docs/zh/", "docs/") for each in linked("zh") if "README" not in each}
    assert english == chinese


def test_every_guide_that_readme_links_exists_in_chinese() -> None:
    guides = {each for each in linked("en") if each.startswith("docs/") and each.endswith(".md")}
    guides = {each for each in guides if "/findings/" not in each} - {"docs/rules.md"}
    assert len(guides) > 12
    missing = [each for each in guides if not (ROOT / each.replace("docs/", "docs/zh/")).is_file()]
    assert missing == []


def test_a_page_that_changes_in_one_language_only_is_named(
    tmp_path: Path, ci_module: CiModule
) -> None:
    pairs = ci_module("language_pairs")
    (tmp_path / "docs/zh").mkdir(parents=True)
    pages = [tmp_path / each for each in ("docs/atc.md", "docs/zh/atc.md")]
    for page in (tmp_path / "README.md", tmp_path / "README.zh.md", *pages):
        page.write_text("1")
    assert len(pairs.unlike((), (), write=False, root=tmp_path)) == 2  # they are not noted yet
    assert pairs.unlike((), (), write=True, root=tmp_path) == []
    for changed, other in (pages, reversed(pages)):
        shutil.copy(tmp_path / "docs/zh/pairs.json", tmp_path / "before.json")
        changed.write_text(changed.read_text() + "2")
        for write in (False, True):
            (sentence,) = pairs.unlike((), (), write=write, root=tmp_path)
            names = [each.relative_to(tmp_path).as_posix() for each in (changed, other)]
            assert sentence.startswith(f"{names[0]} has changed and {names[1]} has not: ")
        before = json.loads((tmp_path / "before.json").read_text())
        assert json.loads((tmp_path / "docs/zh/pairs.json").read_text()) == before
        assert pairs.unlike((), [names[0]], write=True, root=tmp_path) == []
        assert pairs.unlike((), (), write=False, root=tmp_path) == []
    for page in pages:
        page.write_text("3")
    assert len(pairs.unlike((), (), write=False, root=tmp_path)) == 1
    assert pairs.unlike((), (), write=True, root=tmp_path) == []
    pages[0].write_text("4")
    assert pairs.unlike(("zh/atc.md",), (), write=False, root=tmp_path) == []  # it is generated
