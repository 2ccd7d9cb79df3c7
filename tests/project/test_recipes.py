"""CI recipes parse, their shell has no syntax errors, and their command lines collect checks."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "ci/recipes"
BIN = Path(sys.executable).parent


def _yaml(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((RECIPES / name).read_text(encoding="utf-8"))
    return content


def _github_steps(name: str) -> list[str]:
    jobs = _yaml(name)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def _gitlab_steps() -> list[str]:
    jobs = [job for job in _yaml("gitlab-ci.yml").values() if isinstance(job, dict)]
    return [
        "\n".join(job[key]) for job in jobs for key in ("before_script", "script") if key in job
    ]


def _jenkins_steps() -> list[str]:
    text = (RECIPES / "Jenkinsfile").read_text(encoding="utf-8")
    return re.findall(r"sh '''(.*?)'''", text, re.DOTALL)


STEPS = {
    "github-actions.yml": _github_steps("github-actions.yml"),
    "github-actions-ascend.yml": _github_steps("github-actions-ascend.yml"),
    "gitlab-ci.yml": _gitlab_steps(),
    "Jenkinsfile": _jenkins_steps(),
}


def _commands() -> Iterator[Any]:
    """Yield the arguments of every command line of pytest in the recipes."""
    for name, steps in STEPS.items():
        for number, step in enumerate(steps):
            for line in step.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words and Path(words[0]).name == "pytest":
                    yield pytest.param(words[1:], id=f"{name}-{number}")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository as the recipes expect it, with a release, a cache, and atc on PATH."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    path = pytester.path
    for each in (ROOT / "fixtures/release-operators").iterdir():
        shutil.copy(each, path)
    text = (path / "release.toml").read_text().replace("../bert_base_encoder_layer", "single_add")
    (path / "release.toml").write_text(text)
    shutil.copy(ROOT / "fixtures/single_add.json", path)
    compiled = pytester.run(
        BIN / "ascendcache-atc",
        *("--singleop=single_add.json", "--output=out", "--soc_version=Ascend910B1"),
        *("--op_compiler_cache_mode=enable", "--op_compiler_cache_dir=caches"),
    )
    assert compiled.ret == 0
    programs = path / "bin"
    programs.mkdir()
    (programs / "atc").symlink_to(BIN / "ascendcache-atc")
    for name in ("pytest", "ascendcache-badge"):
        (programs / name).symlink_to(BIN / name)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return path


@pytest.mark.parametrize("name", STEPS)
def test_the_shell_of_a_recipe_is_shell(name: str) -> None:
    assert STEPS[name]
    for step in STEPS[name]:
        shell = "sh" if name == "Jenkinsfile" and not step.startswith("#!/bin/bash") else "bash"
        checked = subprocess.run([shell, "-n"], input=step, text=True, capture_output=True)
        assert (checked.returncode, checked.stderr) == (0, ""), step


@pytest.mark.parametrize("arguments", list(_commands()))
def test_a_command_line_of_a_recipe_collects_checks(
    pytester: pytest.Pytester, project: Path, arguments: list[str]
) -> None:
    assert project == pytester.path
    result = pytester.runpytest_subprocess(*arguments, "--collect-only", "-q")
    assert result.ret == 0
    assert any("::test_" in line for line in result.outlines)


INSTALL = re.compile(r"-m pip install (.*)")


@pytest.mark.parametrize("name", STEPS)
def test_every_recipe_installs_the_plugin_from_where_it_can_be_had(name: str) -> None:
    text = (RECIPES / name).read_text(encoding="utf-8")
    assert re.search(r"PYTEST_ASCENDCACHE\W+git\+https://", text)
    installed = [each for step in STEPS[name] for each in INSTALL.findall(step)]
    assert installed
    assert all(each.startswith('"$PYTEST_ASCENDCACHE"') for each in installed), installed


@pytest.mark.nightly  # test_docs.py builds a wheel by day
def test_the_install_line_builds_the_plugin_from_its_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    for each in ("pyproject.toml", "README.md", "LICENSE"):
        repository.mkdir(exist_ok=True)
        shutil.copy(ROOT / each, repository)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pytest_ascendcache", repository / "pytest_ascendcache", ignore=ignored)
    identity = ("-c", "user.name=me", "-c", "user.email=me@example.invalid")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "All"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    target = tmp_path / "installed"
    # This needs no network, because the plugin's dependencies are already installed.
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
    place = {"PIP_TARGET": str(target), "PYTEST_ASCENDCACHE": f"git+file://{repository}"}
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    (step,) = [each for each in STEPS["github-actions.yml"] if INSTALL.search(each)]
    environment = {**os.environ, **offline, **place, "PATH": path}
    built = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step], env=environment, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert (target / "pytest_ascendcache/conformance/starts.json").is_file()
    (entries,) = target.glob("pytest_ascendcache-*.dist-info/entry_points.txt")
    assert "ascendcache = pytest_ascendcache.plugin.hooks" in entries.read_text()


def test_every_recipe_judges_a_release_and_the_readme_of_recipes_names_them() -> None:
    for name, steps in STEPS.items():
        assert any("--ascend-release=release.toml" in step for step in steps), name
    text = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    assert [name for name in STEPS if name not in text] == []


def test_github_jobs_say_where_and_how_long_they_run() -> None:
    for name in ("github-actions.yml", "github-actions-ascend.yml"):
        recipe = _yaml(name)
        # YAML 1.1 reads the key "on" as true.
        assert recipe[True]
        for job in recipe["jobs"].values():
            assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
            assert all(("run" in step) is not ("uses" in step) for step in job["steps"])


def test_gitlab_jobs_are_of_stages_that_exist() -> None:
    recipe = _yaml("gitlab-ci.yml")
    jobs = {
        name: job
        for name, job in recipe.items()
        if name not in ("stages", "variables") and name[0] != "."
    }
    assert {job["stage"] for job in jobs.values()} == set(recipe["stages"])
    assert all(job["extends"] in recipe for job in jobs.values())


def test_braces_of_the_jenkinsfile_pair() -> None:
    text = re.sub(r"'''.*?'''", "", (RECIPES / "Jenkinsfile").read_text(), flags=re.DOTALL)
    depth = 0
    for each in re.findall(r"[{}]", text):
        depth += 1 if each == "{" else -1
        assert depth >= 0
    assert depth == 0


def test_the_job_without_ascend_runs_and_publishes_its_badge(
    pytester: pytest.Pytester, project: Path
) -> None:
    steps = STEPS["github-actions.yml"]
    for step in steps:
        if "pytest --ascend" in step or "ascendcache-badge" in step:
            assert pytester.run("bash", "-eo", "pipefail", "-c", step).ret == 0
    badge = json.loads((project / "badge.json").read_text())
    assert badge["color"] == "brightgreen"
    (publish,) = [step for step in steps if "git push origin badges" in step]
    origin, clone = project / "origin.git", project / "clone"
    _git(project, "init", "--quiet", "--bare", str(origin))
    for number in (1, 2):
        shutil.rmtree(clone, ignore_errors=True)
        _git(project, "clone", "--quiet", str(origin), str(clone))
        (clone / "reports").mkdir()
        badge["message"] = f"run {number}"
        (clone / "reports/badge.json").write_text(json.dumps(badge))
        run = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", publish],
            cwd=clone,
            env={**os.environ, "GITHUB_SHA": str(number)},
            text=True,
            capture_output=True,
        )
        assert run.returncode == 0, run.stderr
        shown = _git(origin, "show", "badges:ascend-cache.json")
        assert json.loads(shown)["message"] == f"run {number}"


def _git(directory: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", *arguments], cwd=directory, text=True, capture_output=True, check=True
    )
    return run.stdout
