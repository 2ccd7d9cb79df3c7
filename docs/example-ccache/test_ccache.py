"""What document C promises of operator caches, asked of ccache."""

import pytest

from pytest_ascendcache import CacheMode, Delivered, TensorDesc

COMPILED, REUSED = Delivered.COMPILED, Delivered.REUSED
ENABLE, FORCE, DISABLE = CacheMode.ENABLE, CacheMode.FORCE, CacheMode.DISABLE
rule = pytest.mark.ascend_rule


@pytest.fixture
def add(ascend_operators):
    return ascend_operators["add"]


@rule("cache-mode/default-is-disable")
def test_without_a_mode_nothing_is_stored(ascend_cache, add):
    run = ascend_cache.compile(add)
    assert run.delivered(add) is COMPILED
    assert run.changes == {}


@rule("cache-mode/enable-reuses")
def test_enable_reuses(ascend_cache, add):
    ascend_cache.compile(add, mode=ENABLE)
    assert ascend_cache.compile(add, mode=ENABLE).delivered(add) is REUSED


@rule("cache-mode/key-separates")
@pytest.mark.parametrize("change", ["type", "shape", "debug_level"])
def test_a_change_is_compiled(ascend_cache, ascend_operators, add, change):
    ascend_cache.compile(add, mode=ENABLE)
    options = {"debug_level": 2} if change == "debug_level" else {}
    if change == "type":
        add = ascend_operators["mul"]
    elif change == "shape":
        tensor = TensorDesc.of("float32", 9)
        add = type(add)("Add", (tensor, tensor), (tensor,), name="add_9")
    assert ascend_cache.compile(add, mode=ENABLE, **options).delivered(add) is COMPILED


@rule("cache-mode/disable-is-inert")
def test_disable_leaves_the_cache_alone(ascend_cache, add):
    ascend_cache.compile(add, mode=ENABLE)
    run = ascend_cache.compile(add, mode=DISABLE)
    assert run.delivered(add) is COMPILED
    assert run.changes == {}


@rule("cache-mode/force-then-enable")
def test_enable_reuses_what_force_stored(ascend_cache, add):
    ascend_cache.compile(add, mode=ENABLE)
    assert ascend_cache.compile(add, mode=FORCE).delivered(add) is COMPILED
    assert ascend_cache.compile(add, mode=ENABLE).delivered(add) is REUSED


@rule("cache-mode/force-purges-soc")
def test_force_removes_what_was_there(ascend_cache, ascend_operators, add):
    """ccache replaces what is compiled, and nothing else: a deviation, see deviations.toml."""
    mul = ascend_operators["mul"]
    ascend_cache.compile(mul, mode=ENABLE)
    ascend_cache.compile(add, mode=FORCE)
    assert ascend_cache.compile(mul, mode=ENABLE).delivered(mul) is COMPILED


@rule("robust/heals-damaged-entry")
def test_a_damaged_cache_costs_time_only(ascend_cache, add):
    ascend_cache.compile(add, mode=ENABLE)
    for path in ascend_cache.root.rglob("*"):
        if path.is_file() and path.name[-1] in "RM":  # results and manifests
            path.write_bytes(path.read_bytes()[:-9])
    assert ascend_cache.compile(add, mode=ENABLE).delivered(add) is COMPILED
    assert ascend_cache.compile(add, mode=ENABLE).delivered(add) is REUSED
