"""Checks of a user's own, written from docs/guide.md and docs/api.md alone."""

import json
from pathlib import Path

import pytest

from pytest_ascendcache import DebugConfig, PrecisionFile, operator, read_network

HERE = Path(__file__).parent

ADD = operator("Add", "float16", 4, 8)
WIDE = operator("Add", "float16", 16, 8)
EXP = operator("Exp", "float16", 8, 16)
SQRT = operator("Sqrt", "float16", 8, 16)
PRECISION = "high_precision"


def test_hits_stay_hits(ascend_cache):
    assert ascend_cache.compile(ADD, mode="enable")[ADD].stored
    for _ in range(3):
        assert ascend_cache.compile(ADD, mode="enable")[ADD].reused


def test_disable_leaves_the_cache_alone(ascend_cache):
    ascend_cache.warm(ADD)
    run = ascend_cache.compile(ADD, EXP, mode="disable")
    assert run[ADD].compiled
    assert run.written == {}


def test_force_empties_the_cache(ascend_cache):
    ascend_cache.warm(ADD, EXP)
    run = ascend_cache.compile(EXP, mode="force")
    assert ascend_cache.fate(run, ADD).value == "removed"


def test_a_debug_level_bypasses_it(ascend_cache):
    ascend_cache.warm(ADD)
    run = ascend_cache.compile(ADD, mode="enable", debug_level=1)
    assert run[ADD].compiled
    assert run.written == {}


def test_a_list_names_what_is_debugged(ascend_cache):
    mine, other = EXP.named("mine"), ADD.named("other")
    ascend_cache.warm(mine, other)
    listed = DebugConfig(listed=("mine",))
    run = ascend_cache.compile(mine, other, mode="enable", debug_config=listed)
    assert run[other].reused
    assert run[mine].compiled
    assert run.kernel(mine) != ascend_cache.fresh(mine)


def test_modes_have_their_own_kernels(ascend_cache):
    runs = [
        ascend_cache.compile(EXP, mode="enable", select_implmode=m)
        for m in (PRECISION, "high_performance")
    ]
    assert runs[1][EXP].compiled
    assert runs[0].kernel(EXP) != runs[1].kernel(EXP)


def test_a_precision_file_counts(ascend_cache):
    plain = ascend_cache.compile(EXP, mode="enable")
    run = ascend_cache.compile(
        EXP, mode="enable", precision_file=PrecisionFile.of({"Exp": PRECISION})
    )
    assert run.kernel(EXP) != plain.kernel(EXP)


def test_a_type_list_limits_the_mode(ascend_cache):
    def compiled(*types):
        return ascend_cache.compile(
            EXP, SQRT, mode="enable", select_implmode="high_performance", implmode_types=types
        )

    exp, sqrt, neither = compiled("Exp"), compiled("Sqrt"), compiled("Abs")
    assert exp.kernel(EXP) != neither.kernel(EXP)
    assert sqrt.kernel(SQRT) != neither.kernel(SQRT)
    assert exp.kernel(SQRT) == neither.kernel(SQRT)
    assert sqrt.kernel(EXP) == neither.kernel(EXP)


def test_shapes_have_their_own_kernels(ascend_cache):
    ascend_cache.warm(ADD, WIDE)
    run = ascend_cache.compile(ADD, WIDE, mode="enable")
    assert run[ADD].reused
    assert run[WIDE].reused
    assert ascend_cache.unlike_fresh(run) == {}


@pytest.fixture(scope="module")
def network():
    return read_network(HERE / "regression.json")


@pytest.fixture(scope="module")
def changed():
    document = json.loads((HERE / "regression.json").read_text())
    document["operators"][0]["op"] = "Abs"
    (HERE / "changed.json").write_text(json.dumps(document))
    return read_network(HERE / "changed.json")


def test_only_what_changed_is_compiled(ascend_network, network, changed):
    ascend_network.warm(network)
    run = ascend_network.run(changed)
    assert run.compiled == {"square"}
    assert run.reused == {"exp"}


def test_ranks_keep_apart(ascend_network, network):
    ascend_network.warm(network)
    run = ascend_network.run(network, rank=1)
    assert run.stored
    assert ascend_network.kernels(1)


def test_a_restart_compiles_nothing(ascend_network, network):
    ascend_network.warm(network)
    assert ascend_network.run(network).compiled == frozenset()
