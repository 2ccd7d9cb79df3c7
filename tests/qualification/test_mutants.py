"""Generated mutants: each is another code of one function, and named for what it changes."""

from __future__ import annotations

import subprocess
import sys

from pytest_ascendcache.qualification.mutants import all_mutants, mutant, sample
from pytest_ascendcache.qualification.reach import Reach

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
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.split() == ["True", "False"], said.stderr


def test_only_checks_that_come_by_a_line_are_asked_the_quickest_first() -> None:
    line, other = ("file.py", 3), ("file.py", 4)
    reach = Reach(
        {"slow": frozenset({line}), "quick": frozenset({line, other}), "elsewhere": frozenset()},
        {"slow": 3.0, "quick": 1.0, "elsewhere": 0.5},
        (),
    )
    # One that left no note may come by anything.
    assert reach.checks(frozenset({line})) == ["elsewhere", "quick", "slow"]
    assert reach.checks(frozenset({other})) == ["elsewhere", "quick"]
