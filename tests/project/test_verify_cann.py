"""What ``ci/verify-cann`` says of two reports, and how it orders mutants."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_CI = Path(__file__).parents[2] / "ci/cann"

_DIFFERENCE = '[[difference]]\nrule = "a/rule"\ncheck = "test_b*"\nreason = "as it is"\n'


def _agreement(
    directory: Path, differences: str, real: str, profile: str
) -> subprocess.CompletedProcess[str]:
    """The verdicts of ``test_a`` agree; those of ``test_b[x]`` are given."""
    shutil.copy(_CI / "agreement.py", directory)
    (directory / "differences.toml").write_text(differences, encoding="utf-8")
    for name, verdict in (("real", real), ("profile", profile)):
        checks = [
            {"rule": "a/rule", "check": "suite/test_it.py::test_a", "verdict": "pass"},
            {"rule": "a/rule", "check": "suite/test_it.py::test_b[x]", "verdict": verdict},
        ]
        (directory / f"{name}.json").write_text(json.dumps({"checks": checks}), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "agreement.py", "real.json", "profile.json"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("differences", "real", "profile", "code", "says"),
    [
        ("difference = []", "known deviation", "fail", 0, "in 2 of 2 checks"),
        ("difference = []", "undecided", "fail", 0, "in 1 of 1 checks"),
        ("difference = []", "fail", "pass", 1, "test_b[x]: broken by only CANN's code"),
        ("difference = []", "pass", "warn", 1, "test_b[x]: broken by only the profile"),
        (_DIFFERENCE, "pass", "warn", 0, "in 1 of 2 checks"),
        (_DIFFERENCE, "pass", "pass", 1, "explained but the same: a/rule test_b*"),
    ],
)
def test_a_difference_needs_a_reason_and_a_reason_a_difference(
    tmp_path: Path, differences: str, real: str, profile: str, code: int, says: str
) -> None:
    ended = _agreement(tmp_path, differences, real, profile)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert says in ended.stdout


def test_mutants_of_all_files_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one file has nearly all of them."""
    monkeypatch.syspath_prepend(_CI)
    mutants = importlib.import_module("mutants")
    long, short = mutants._TARGETS[5], mutants._TARGETS[0]
    made = [mutants.Mutant(long, line, "constant", "a", "b") for line in range(50)]
    made += [mutants.Mutant(short, line, "constant", "a", "b") for line in range(2)]
    order = mutants.sample(made, seed=1)
    assert sorted(each.line for each in order) == sorted(each.line for each in made)
    assert [each.file for each in order[:4]] == [short, long, short, long]
    assert order != mutants.sample(made, seed=2)
