"""``--ascend-seed``: each seed generates other operators and texts, and always the same ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.combinations import seed
from pytest_ascendcache.conformance.kit import generated as kit
from pytest_ascendcache.conformance.kit.texts import texts

CACHE_MODE = "pytest_ascendcache.conformance.cache_mode.test_cache_mode"


@pytest.fixture
def choose() -> Iterator[type[seed]]:
    yield seed
    seed.choose(0)


def test_operators_of_a_seed_come_again_and_those_of_others_do_not(choose) -> None:
    operators = {}
    for number in (0, 1, 2, 1):
        choose.choose(number)
        assert operators.setdefault(number, kit.generated("pairwise")) == kit.generated("pairwise")
    assert len(set(operators.values())) == 3


def test_texts_of_a_seed_come_again_and_those_of_others_do_not(choose) -> None:
    tried: list[str] = []

    @texts(5)
    @given(text=st.text(min_size=5))
    def check(text: str) -> None:
        tried.append(text)

    seen = {}
    for number in (0, 1, 2, 1, 0):
        choose.choose(number)
        tried.clear()
        check()
        assert seen.setdefault(number, tuple(tried)) == tuple(tried)
    assert len(set(seen.values())) == 3


def test_a_run_says_which_seed_was_its_own_and_how_to_repeat_it(pytester: pytest.Pytester) -> None:
    check = f"{CACHE_MODE}::test_enable_stores_a_valid_entry[add]"
    outputs = {}
    for options in ((), ("--ascend-seed=0",), ("--ascend-seed=41",)):
        result = pytester.runpytest_subprocess(
            *("--ascend-cache", "--ascend-defect=stores-nothing", *options, "--pyargs", check)
        )
        outputs[options] = result.stdout.str()
    assert "--ascend-seed" not in outputs[()]
    output = outputs["--ascend-seed=41",]
    assert "Generated input comes from seed 41; --ascend-seed=41 repeats it." in output
    assert "that of seed" not in outputs["--ascend-seed=0",]
    repeat = next(line for line in output.splitlines() if line.startswith("repeat "))
    assert "--ascend-seed=41" in repeat
