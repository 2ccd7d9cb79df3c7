"""The documentation is correct: generated pages are current, links exist, examples run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

import pytest_ascendcache
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.contract.editions import editions, pages
from pytest_ascendcache.language import Language
from tests.project.conftest import CiModule
from tests.project.lean import build_wheel, unpacked

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for directory in (ROOT, DOCS, DOCS / "design", DOCS / "zh")
    for page in directory.glob("*.md")
)


def test_what_is_made_from_the_code_is_current() -> None:
    command = [sys.executable, "ci/write_docs.py", "--check"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_rule_reference_has_every_rule_in_both_languages(ci_module: CiModule) -> None:
    text = ci_module("rule_reference").rule_reference()
    for rule in load_rules().values():
        assert (
            f"### {rule.id}\n\n**{rule.level.value}** · {rule.title_en} · {rule.title_zh}" in text
        )


@pytest.mark.parametrize("language", Language, ids=lambda each: each.value)
def test_the_page_on_upgrading_has_every_step_and_every_page(
    ci_module: CiModule, language: Language
) -> None:
    text = ci_module("upgrade_page").upgrade_page(language)
    for edition in editions():
        assert str(edition) in text
    for page in pages():
        assert page.address in text
        assert date.fromisoformat(page.date)
        assert page.edition in [each.name for each in editions()]
    assert bool(re.search("[\u4e00-\u9fff]", text.partition("\n")[0])) is (
        language is Language.CHINESE
    )


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 0),
        (("--ascend-defect=a-store-drops-others",), 1),
        (("--ascend-defect=a-store-looks-at-others",), 0),
    ],
)
def test_the_new_rule_judges_as_its_page_promises(
    options: Sequence[str], status: int, tmp_path: Path
) -> None:
    page = (DOCS / "adding-a-rule.md").read_text(encoding="utf-8")
    package = tmp_path / "pytest_ascendcache"
    shutil.copytree(Path(pytest_ascendcache.__file__).parent, package)
    rule, breach, _ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    check, defect, innocent = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for place, text in (
        ("contract/rules/000-atc-op-compiler-cache-mode.toml", rule),
        ("language/texts/breaches.toml", breach),
        ("conformance/cache_mode/test_cache_mode.py", check),
        ("qualification/defects/entries.py", defect),
        ("qualification/defects/innocent_caches.py", innocent),
    ):
        with (package / place).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")
    ours = ["--ascend-cache", "--ascend-rule=cache-mode/enable-spares-others", *options]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *ours],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "1 selected" in ended.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in link and not link.startswith("#"):
            assert (page.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_of_ours_exist(page: Path, pytestconfig: pytest.Config) -> None:
    for option in set(re.findall(r"--ascend-[a-z-]*[a-z]", page.read_text(encoding="utf-8"))):
        pytestconfig.getoption(option)  # raises ValueError for an unknown option


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as its wheel installs it, without this repository on the path."""
    place = tmp_path_factory.mktemp("wheel")
    return unpacked(build_wheel(place), place / "site")


@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(["--ascend-toolchain=ours", "tests"], marks=pytest.mark.nightly),
        pytest.param(["-n2"], marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_the_example_project_runs_on_an_installed_wheel(
    installed: Path, tmp_path: Path, options: list[str]
) -> None:
    project = tmp_path / "project"
    shutil.copytree(DOCS / "example", project, ignore=shutil.ignore_patterns("__pycache__"))
    # The wheel must come first if the plugin is installed from the repository too.
    (project / "where.py").write_text(
        "import pytest_ascendcache, sys\n"
        f"assert pytest_ascendcache.__file__.startswith({str(installed)!r})\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{project}"}
    command = [sys.executable, "-m", "pytest", "-p", "where", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *options], cwd=project, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"[56] passed", ended.stdout)


def test_a_wheel_has_the_parts_of_the_page(installed: Path) -> None:
    parts = {each.name for each in (installed / "pytest_ascendcache/reports/page").iterdir()}
    names = {each.name for each in (ROOT / "pytest_ascendcache/reports/page").iterdir()}
    assert parts == names
