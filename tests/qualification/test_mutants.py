"""Generated mutants: each one changes the code of a function, and its name describes the change."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
from pathlib import Path

import pytest_ascendcache
from pytest_ascendcache.qualification.mutants import all_mutants, mutant, sample
from pytest_ascendcache.qualification.mutation import known_to_notice
from pytest_ascendcache.qualification.reach import FILES, Reach

AGING = [each for each in all_mutants().values() if each.path == "reference/cache/aging.py"]


def test_every_mutant_has_a_name_of_its_own() -> None:
    every = all_mutants().values()
    assert len({each.place for each in every}) == len(every) > 500
    assert mutant(AGING[0].name) == AGING[0]


def test_every_mutant_of_a_file_is_other_code() -> None:
    for each in AGING:
        before = each.function_code
        after = each.code(before)
        assert after.co_freevars == before.co_freevars, each.place
        same = (after.co_code, after.co_consts) == (before.co_code, before.co_consts)
        assert not same, f"{each.place} changes nothing"


def test_a_sample_is_the_same_for_one_seed() -> None:
    assert sample(5, 1) == sample(5, 1) != sample(5, 2)


def test_a_mutant_is_carried_out_in_its_process() -> None:
    place = "reference/mode.py::ModePolicy.purges: "
    (first, *_) = (each for each in all_mutants().values() if each.place.startswith(place))
    program = (
        "from pytest_ascendcache.qualification.loading import flawed\n"
        "from pytest_ascendcache.reference.mode import ModePolicy\n"
        "before = ModePolicy().purges('force')\n"
        f"flawed({first.name!r}).policies()\n"
        "print(before, ModePolicy().purges('force'))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.split() == ["True", "False"], result.stderr


def test_checks_that_run_a_line_are_chosen_the_quickest_first() -> None:
    line, other = ("file.py", 3), ("file.py", 4)
    reach = Reach(
        {"slow": frozenset({line}), "quick": frozenset({line, other}), "elsewhere": frozenset()},
        {"slow": 3.0, "quick": 1.0, "elsewhere": 0.5},
        (),
    )
    # A check without a record of its lines may run any line.
    assert reach.checks(frozenset({line})) == ["elsewhere", "quick", "slow"]
    assert reach.checks(frozenset({other})) == ["elsewhere", "quick"]


def test_a_newer_measurement_replaces_an_older_one() -> None:
    line = frozenset({("file.py", 3)})
    known = Reach({"a": line, "b": line}, {"a": 1.0}, ("b: fail, ['x']",), frozenset({"b"}))
    assert known.lacks(["a", "b", "c"]) == ["c"]
    both = known.with_others(Reach({"b": line, "c": line}, {"b": 2.0, "c": 0.5}, ()))
    assert both.lacks(["a", "b", "c"]) == both.faults == []
    assert both.checks(line) == ["c", "a", "b"]


def test_checks_that_share_a_run_share_its_lines(tmp_path: Path) -> None:
    first, second, other = (
        f"pytest_ascendcache/conformance/cache_mode/{each}"
        for each in (
            "test_combinations.py::test_outcome[cell-1]",
            "test_combinations.py::test_kernel[cell-1]",
            "test_combinations.py::test_kernel[cell-2]",
        )
    )
    name = hashlib.sha256(first.encode()).hexdigest()[:24]
    (tmp_path / name).write_bytes(struct.pack("<HH", 0, 7))
    checks = [{"check": each, "verdict": "pass", "seconds": 1} for each in (first, second, other)]
    reach = Reach.read(tmp_path, [{"checks": checks}])
    file = str(Path(FILES[0]).relative_to(Path(pytest_ascendcache.__file__).parent))
    assert reach.lines[first] == reach.lines[second] == {(file, 7)}
    assert reach.lines[other] == frozenset()


def test_checks_that_notice_defects_of_a_function_are_known_to_notice_its_mutants() -> None:
    idle = next(each for each in AGING if each.function == "AgingPolicy.is_idle")
    known = known_to_notice(idle)
    assert any("test_aging" in each and weight >= 10 for each, weight in known.items())
