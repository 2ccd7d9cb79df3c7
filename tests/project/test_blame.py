"""The yardstick of blame: its pool is whole, and a score says what a reader sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.qualification import matrix

CI = Path(__file__).parents[2] / "ci"
sys.path.insert(0, str(CI))
from blame import POOL, answer_lines, scored  # noqa: E402

TRUTH = tomllib.loads((POOL / "truth.toml").read_text(encoding="utf-8"))


def test_every_stand_in_has_its_truth() -> None:
    defects = {name: each["defect"] for name, each in TRUTH.items() if "defect" in each}
    assert {*defects.values()} <= {*matrix.read()}
    assert {each.stem for each in POOL.glob("*.[ps]*")} == TRUTH.keys() - defects.keys()
    for script in POOL.glob("*.sh"):
        subprocess.run(["bash", "-n", script], check=True)
    assert len(TRUTH) >= 30
    assert 2 <= sum(bool(each.get("quick")) for each in TRUTH.values()) <= 6
    assert sum(len(each.get("bugs", ())) == 2 for each in TRUTH.values()) >= 2


FORCE = "--op_compiler_cache_mode=force has no effect: kernels from before are served"


@pytest.mark.parametrize(
    ("headlines", "is_first", "is_good"),
    [
        ([FORCE], True, True),
        ([FORCE, "entries stay"], True, False),
        (["entries stay", FORCE], False, False),
        (["--op_compiler_cache_mode=force is there"], False, False),
        ([], False, False),
    ],
)
def test_a_score_says_what_a_reader_sees(
    headlines: list[str], is_first: bool, is_good: bool
) -> None:
    report = {"causes": [{"headline": each, "reason": ""} for each in headlines]}
    score = scored("force-is-enable", TRUTH["force-is-enable"], report, 30, 1.0)
    assert (score.is_first, score.is_good) == (is_first, is_good)


def test_lines_are_those_of_eighty_columns_without_pytests_own() -> None:
    lines = ["test.py F", "= ascend cache contract =", "x" * 81, "", "evidence: /a", "judged: b"]
    assert answer_lines("\n".join(lines)) == 5
