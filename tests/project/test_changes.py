"""The tables of small changes in vendors' Python, and ``ci/changes.py``, which makes them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.contract.toml import tomllib

ROOT = Path(__file__).parents[2]
CHANGES = ROOT / "ci/changes.py"
SUITE = {
    "ci/torchair/changes.toml": "torchair_script",
    "ci/op_compiler/changes.toml": "static_kernel",
}

TABLE = """\
file = "client.py"

[[change]]
name = "kept"
find = 'seconds = \\d+'
put = 'seconds = 0'
check = "test_waits"
"""
JUDGE = """\
import json, sys
from pathlib import Path

report = next(each.partition("=")[2] for each in sys.argv if "report" in each)
broken = "seconds = 0" in Path(sys.argv[1], "client.py").read_text()
verdict = sys.argv[2] if broken else "pass"
check = {"check": "suite.py::test_waits[long]", "verdict": verdict}
Path(report).write_text(json.dumps({"checks": [check]}))
"""


@pytest.mark.parametrize("table", SUITE)
def test_checks_that_must_notice_exist(table: str) -> None:
    folder = ROOT / "pytest_ascendcache/conformance" / SUITE[table]
    text = "".join(path.read_text() for path in folder.glob("test_*.py"))
    checks = set(re.findall(r"^def (test_\w+)", text, re.M))
    changes = tomllib.loads((ROOT / table).read_text())["change"]
    assert {each["check"] for each in changes} <= checks
    names = [each["name"] for each in changes]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("client", "verdict", "code", "words"),
    [
        ("seconds = 5\n", "warn", 0, "1 of 1 changes are noticed"),
        ("seconds = 5\n", "undecided", 1, "0 of 1 changes are noticed"),
        ("seconds = 5\n", "not applicable", 1, "0 of 1 changes are noticed"),
        ("seconds = 0\n", "warn", 1, "test_waits is warn although nothing was changed"),
        (
            "minutes = 5\n",
            "warn",
            1,
            "kept: 'find' matches 0 times in client.py; it must",
        ),
    ],
)
def test_a_change_is_made_in_a_copy_and_judged(
    tmp_path: Path, client: str, verdict: str, code: int, words: str
) -> None:
    original = tmp_path / "wheel"
    original.mkdir()
    (original / "client.py").write_text(client)
    (tmp_path / "changes.toml").write_text(TABLE)
    (tmp_path / "judge.py").write_text(JUDGE)
    judge = [sys.executable, str(tmp_path / "judge.py"), "{copy}", verdict]
    command = [sys.executable, str(CHANGES), str(tmp_path / "changes.toml"), str(original)]
    ended = subprocess.run(
        [*command, "--", *judge], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, words in ended.stdout + ended.stderr) == (code, True)
    assert (original / "client.py").read_text() == client


def test_a_name_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "changes.toml").write_text(TABLE)
    command = [sys.executable, str(CHANGES), str(tmp_path / "changes.toml"), str(tmp_path), "left"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (
        1,
        "ci/changes.py: no change is called 'left'; use kept.\n",
    )
