"""What our service relies on, in words of the documents."""

import pytest

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REUSED, STORED, Outcome


def test_a_second_start_compiles_nothing(ascend_cache, our_operators):
    first = ascend_cache.compile(*our_operators, mode=CacheMode.ENABLE)
    second = ascend_cache.compile(*our_operators, mode=CacheMode.ENABLE)
    for operator in our_operators:
        assert first[operator] == Outcome(COMPILED, STORED)
        assert second[operator] == Outcome(REUSED, KEPT)


def test_debugging_leaves_the_cache_alone(ascend_cache, our_operators):
    ascend_cache.warm(*our_operators)
    run = ascend_cache.compile(*our_operators, mode=CacheMode.ENABLE, debug_level=1)
    assert run.written == {}


# This one judges a promise of the documents: its verdict is in the rule table and in reports.
@pytest.mark.ascend_rule("cache-mode/transparent")
def test_what_is_served_is_what_would_be_compiled(ascend_cache, our_operators):
    ascend_cache.warm(*our_operators)
    run = ascend_cache.compile(*our_operators, mode=CacheMode.ENABLE)
    assert ascend_cache.unlike_fresh(run) == {}
