"""Innocents: each has a freedom and a twin, and none is accused in the smallest selection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.audit import Check, answer, audit, story
from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.qualification.catalogue import Scene
from pytest_ascendcache.qualification.innocents import Acquittal
from pytest_ascendcache.qualification.loading import load_companies, load_defects, load_scenes
from pytest_ascendcache.qualification.scenes import innocent_directories

DEFECTS = load_defects()
INNOCENTS = [each for each in DEFECTS.values() if each.freedom]
SCENES = load_scenes()
STAGED = [each for each in SCENES.values() if each.freedom]


def test_each_has_a_defect_next_to_it() -> None:
    assert len(INNOCENTS) >= 40
    for innocent in INNOCENTS:
        assert not innocent.breaks
        assert DEFECTS[innocent.twin].breaks, f"{innocent.twin} breaks no rule"
    members = [each.name for company in load_companies().values() for each in company.members]
    assert sorted(members) == sorted(each.name for each in INNOCENTS)


def test_each_directory_and_release_has_a_scene_next_to_it() -> None:
    for scene in STAGED:
        assert not scene.breaks
        assert SCENES[scene.twin].breaks, f"{scene.twin} breaks no rule"


@pytest.mark.parametrize(
    "scene",
    [each for each in STAGED if each.build.__module__ == innocent_directories.__name__],
    ids=lambda each: each.name,
)
def test_no_directory_is_accused(scene: Scene, tmp_path: Path) -> None:
    for argument in scene.build(tmp_path):
        option, _, directory = argument.partition("=")
        if option == "--ascend-audit":
            found = audit(Path(directory), environment={})
            assert answer(found) is Verdict.PASS, [story(found, each) for each in Check]


@pytest.mark.parametrize(
    ("verdicts", "is_acquitted"),
    [
        (["pass"] * 9 + ["undecided"], True),
        (["pass"] * 8 + ["undecided"], False),
        (["pass"] * 9 + ["warn"], False),
        (["pass"] * 9 + ["fail"], False),
        (["pass", "not applicable"], True),
        (["not applicable"], False),
        ([], False),
    ],
)
def test_silence_does_not_acquit(verdicts: list[str], is_acquitted: bool) -> None:
    rules = [{"id": f"a/{number}", "verdict": each} for number, each in enumerate(verdicts)]
    checks = [{"check": "x", "rule": each["id"], "message": "", **each} for each in rules]
    assert Acquittal.of({"rules": rules, "checks": checks}).is_acquitted is is_acquitted


def test_none_is_accused() -> None:
    """Each company takes all the liberties of its members at once."""
    companies = [name for name, each in load_companies().items() if len(each.members) > 1]
    command = [sys.executable, "-m", "pytest_ascendcache.qualification", "--innocents", "--quick"]
    ended = subprocess.run(
        [*command, *companies],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
