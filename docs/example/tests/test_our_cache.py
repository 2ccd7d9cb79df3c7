"""What our service relies on, in words of the documents."""

import pytest


def test_a_second_start_compiles_nothing(ascend_cache, our_operators):
    first = ascend_cache.compile(*our_operators, mode="enable")
    second = ascend_cache.compile(*our_operators, mode="enable")
    for operator in our_operators:
        assert first[operator].compiled
        assert first[operator].stored
        assert second[operator].reused
        assert second[operator].kept


def test_debugging_leaves_the_cache_alone(ascend_cache, our_operators):
    ascend_cache.warm(*our_operators)
    run = ascend_cache.compile(*our_operators, mode="enable", debug_level=1)
    assert run.written == {}


# This one judges a promise of the documents: its verdict is in the rule table and in reports.
@pytest.mark.ascend_rule("cache-mode/transparent")
def test_what_is_served_is_what_would_be_compiled(ascend_cache, our_operators):
    ascend_cache.warm(*our_operators)
    run = ascend_cache.compile(*our_operators, mode="enable")
    assert ascend_cache.unlike_fresh(run) == {}
