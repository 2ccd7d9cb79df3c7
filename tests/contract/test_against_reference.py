"""The contract and the reference read generated texts in the same way."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_ascendcache.conformance.kit.texts import NO_NUMBERS, lists_of, spellings
from pytest_ascendcache.contract import CompileOptions, DebugConfig, is_under_debug
from pytest_ascendcache.contract.aging import INI_RATIO, INI_SIZE, expected_limits
from pytest_ascendcache.contract.impl_mode import ModeTable
from pytest_ascendcache.contract.ranks import is_rank_id
from pytest_ascendcache.contract.static_kernel import local_world_size
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.cache.limits import LimitPolicy, parse_ini
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.incremental.surroundings import SurroundingsPolicy
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.world import World, WorldPolicy

TENSOR = TensorDesc.of("float32", 4)
TYPES, NAMES = ("Exp", "Tanh", "ReduceSumD"), ("probe_exp", "scope/probe_tanh")
both = settings(deadline=None, derandomize=True, database=None, max_examples=300)
NUMBERISH = st.one_of(st.integers(-2, 700).map(str), st.text("0123456789+-. _xe٣２", max_size=4))


@both
@example("03")
@example("65535")
@given(NUMBERISH)
def test_what_is_a_rank(text):
    try:
        SurroundingsPolicy().rank({"RANK_ID": text})
        taken = True
    except AtcError:
        taken = False
    assert taken is is_rank_id(text)


@both
@given(NUMBERISH, st.integers(2, 16))
def test_cards_of_a_node(text, world):
    try:
        cards = WorldPolicy().local_size({"LOCAL_WORLD_SIZE": text}, World(size=world))
    except StaticKernelError:
        cards = None
    if not text.startswith(
        "0"
    ):  # the document asks for a natural number, and does not mention leading zeros
        assert cards == local_world_size(text, world)


VALUE = st.one_of(NUMBERISH, st.sampled_from(NO_NUMBERS))


@both
@given(st.dictionaries(st.sampled_from([INI_SIZE, INI_RATIO]), VALUE), spellings())
def test_limits_of_a_file(values, spelling):
    written = {key: value.strip() for key, value in values.items()}
    text = spelling.write(list(written.items()), "[op_compiler_cache]").decode("utf-8-sig")
    read_back, _ = parse_ini(text)
    limits = LimitPolicy().of_values(read_back, Path("op_cache.ini"), []) if read_back else None
    expected = expected_limits(written, {})
    if limits is not None:
        assert (limits.megabytes, limits.ratio) == (expected.megabytes, expected.ratio)
    else:
        assert (expected.megabytes, expected.ratio) == (500, 50)


@both
@given(lists_of(("probe_exp", "OpType::Exp", "OpType::ReduceSumD")), spellings())
def test_who_is_in_a_list(listed, spelling):
    lines = [("op_debug_config", "ccec_g"), ("op_debug_list", ",".join(listed))]
    config = DebugPolicy().parse(spelling.write(lines).decode("utf-8-sig"), "debug.cfg")
    for kind in TYPES:
        for name in NAMES:
            operator = OperatorSpec(kind, (TENSOR,), (TENSOR,), name=name)
            options = CompileOptions(debug_config=DebugConfig(("ccec_g",), listed))
            expected = is_under_debug(options, kind, name)
            assert DebugPolicy().covers(operator, config) is expected or expected is None


MODES = st.sampled_from(["high_precision", "high_performance"])
BY_TYPE = st.tuples(st.sampled_from([*TYPES, "exp", "Ex"]), MODES)
BY_NAME = st.tuples(st.sampled_from([*NAMES, "probe_tanh"]), MODES)


@both
@given(st.lists(BY_TYPE, max_size=4), st.lists(BY_NAME, max_size=3), spellings())
def test_modes_of_a_file(types, names, spelling):
    text = spelling.write(types, "[ByOpType]").decode("utf-8-sig")
    text += "\n" + spelling.write(names, "[ByNodeName]").decode("utf-8-sig")
    ours, theirs = ModeTable.read(text), ImplementationPolicy().parse(text, "it.ini", "it")
    assert (dict(ours.by_type), dict(ours.by_name)) == (theirs.by_type, theirs.by_name)
