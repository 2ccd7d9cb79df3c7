"""Incremental build on one rank. Source: document M, in its order. Which kernels were compiled,
impostors on disk show: ``observation.impostor``."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_ascendcache.caches import RankKernel, Snapshot
from pytest_ascendcache.caches.layout import leaves
from pytest_ascendcache.combinations.generated import FAMILIES, generate
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.combinations.walker import nearest_float32
from pytest_ascendcache.conformance.kit.neighbours import INPUTS, WIDE, wide_network
from pytest_ascendcache.conformance.kit.surroundings import SURROUNDINGS
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    REUSED,
    elementary,
    needs,
    rule,
)
from pytest_ascendcache.contract.facts import Delivery, Later, outcome_fact
from pytest_ascendcache.contract.ranks import Scenario, expected_compiles
from pytest_ascendcache.faults import DAMAGES, Act, Action, Damage
from pytest_ascendcache.observation import (
    DATA,
    NetworkRun,
    NetworkUnderTest,
    NotDecidable,
    Probe,
    probe_network,
    spread,
)
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network, Node

LEAKY = Probe("LeakyRelu", attributes=(("negative_slope", "float", 0.25),))
OPERATORS = (Probe("Square"), Probe("Exp"), Probe("Abs"), LEAKY)
NETWORK = probe_network(*OPERATORS)


def square_network() -> Network:
    """The document's example: one operator, data 1 4 9."""
    tensors = {name: TensorDesc.of("float32", 3, name=name) for name in ("x", "output")}
    tensor = TensorDesc.of("float32", 3)
    node = Node(OperatorSpec("Square", (tensor,), (tensor,), name="square"), ("x",), ("output",))
    return Network("square", tensors, {"x": (1.0, 4.0, 9.0)}, (node,), ("output",))


def chain_network() -> Network:
    """Operators that feed each other, listed out of order. Two of them share a kernel."""
    names = ("data", "squared", "scaled", "summed", "again", "output")
    tensors = {name: TensorDesc.of("float32", 4, 8, name=name) for name in names}
    tensor = TensorDesc.of("float32", 4, 8)

    def node(kind: str, output: str, *inputs: str) -> Node:
        operator = OperatorSpec(kind, (tensor,) * len(inputs), (tensor,), name=output)
        return Node(operator, inputs, (output,))

    nodes = (
        node("Add", "output", "again", "summed"),
        node("Square", "squared", "data"),
        node("Exp", "scaled", "data"),
        node("Add", "summed", "squared", "scaled"),
        node("Sqrt", "again", "summed"),
    )
    return Network("chain", tensors, {"data": DATA}, nodes, ("output", "summed"))


def _keeps(network: NetworkUnderTest, run: NetworkRun) -> None:
    """A run leaves the kernels that lay on disk as they were."""
    changed = min(run.disturbed.items(), default=())
    assert not changed, network.evidence.found(
        Later.LACKS, f"a kernel that lay on disk is {changed[1]}: {changed[0]}"
    )


def _compiled(network: NetworkUnderTest, run: NetworkRun, *names: str) -> None:
    """A run gives right outputs, and compiles exactly these operators."""
    assert run.wrong == {}
    missed = (
        outcome_fact(REUSED, [COMPILED], each, detail=f"{each} is new, and runs a kept kernel")
        for each in sorted({*names} - run.compiled)
    )
    again = (
        outcome_fact(COMPILED, [REUSED], each, detail=f"{each} is as it was, and compiled again")
        for each in sorted(run.compiled - {*names})
    )
    require_none([*missed, *again], network.evidence)


@elementary("square_network")
@rule("incremental/on-by-default")
@pytest.mark.parametrize("make", [square_network, chain_network, lambda: NETWORK])
def test_a_run_leaves_three_files_an_operator(
    network: NetworkUnderTest, make: Callable[[], Network]
) -> None:
    wanted = make()
    run = network.run(wanted, environment={"MS_COMPILER_CACHE_PATH": ""})
    different = expected_compiles(wanted.operators, Scenario(), ())
    kernels = RankKernel.read_all(network.work / "rank_0" / "kernel_meta")
    problems = {stem: kernel.problems() for stem, kernel in kernels.items() if not kernel.is_valid}
    assert problems == {}, "files of a kernel are missing or do not fit each other"
    # Equal operators may share one, and a toolchain may make one for each node.
    assert len(different) <= len(kernels) <= len(wanted.operators)
    assert run.wrong == {}


@rule("incremental/on-by-default")
def test_a_run_keeps_its_kernels_although_another_passes_by(network: NetworkUnderTest) -> None:
    """It starts in the same directory, compiles for another network, and leaves alone what the
    first run has not published yet."""
    needs(network.toolchain, Action.HOLD)
    wanted, other = probe_network("Square", "Exp"), network.request(probe_network("Abs"))
    writing = network.interruption(wanted)
    changes = [each for each in writing.holdable if each.act.changes]
    moments = [each for each in changes if each.act in (Act.RENAME, Act.LINK)] or changes
    if not moments:
        raise NotDecidable("no operation was seen before which a run that publishes could be held")
    for operation in spread(moments, 3):
        writing.reset()
        run, passing = writing.meets(operation, lambda: network.attempt(other))
        assert run.succeeded, f"another run passes by, and the first one {run.result.ending}"
        if passing.succeeded:
            network.mark()
            _compiled(network, network.run(wanted))


@rule("incremental/on-by-default")
def test_a_directory_that_was_deleted_is_made_again(network: NetworkUnderTest) -> None:
    """The document has users delete it after a process was interrupted."""
    network.run(NETWORK)
    for place in (network.place(), network.cache):
        shutil.rmtree(place)
        network.run(NETWORK)
        assert network.kernels(), network.evidence.found(
            Later.STORES_NOTHING, f"{place.name} was deleted: the next run keeps no kernel"
        )
        network.mark()
        _compiled(network, network.run(NETWORK))


@elementary()
@rule("incremental/reuses")
def test_the_second_run_compiles_nothing(network: NetworkUnderTest) -> None:
    network.run(NETWORK)
    network.mark()
    for _ in range(2):
        run = network.run(NETWORK)
        _compiled(network, run)
        _keeps(network, run)
        assert run.stored == frozenset()


@rule("incremental/reuses")
@pytest.mark.parametrize(
    "same",
    [
        pytest.param(replace(NETWORK, name="renamed"), id="network-renamed"),
        pytest.param(probe_network(*reversed(OPERATORS)), id="operators-reordered"),
        pytest.param(probe_network(*OPERATORS[1:]), id="operator-left-out"),
        pytest.param(
            probe_network(*OPERATORS, data=tuple(2 * each for each in DATA)), id="other-data"
        ),
    ],
)
def test_what_decides_no_kernel_costs_no_compile(network: NetworkUnderTest, same: Network) -> None:
    """Names of operators may decide: the document lists them among what ``.info`` records."""
    network.warm(NETWORK)
    run = network.run(same)
    _compiled(network, run)
    assert run.stored == frozenset()


@rule("incremental/reuses")
def test_a_run_from_another_directory_compiles_nothing(network: NetworkUnderTest) -> None:
    network.warm(NETWORK)
    network.work = network.site / "elsewhere"
    run = network.run(NETWORK)
    _compiled(network, run)


@rule("incremental/reuses")
@pytest.mark.parametrize("where", SURROUNDINGS)
def test_a_run_in_another_environment_compiles_what_is_new_alone(
    network: NetworkUnderTest, where: str
) -> None:
    """What it keeps is reused in its turn."""
    around = SURROUNDINGS[where]
    network.warm(probe_network(*OPERATORS[1:]))
    for due in ((OPERATORS[0].node_name,), ()):
        request = network.request(NETWORK, environment=around.environment)
        run = network.attempt(replace(request, umask=around.umask))
        assert run.succeeded, f"the rank {run.result.ending}"
        _compiled(network, run, *due)
        network.mark()


def changed(which: str, /, **changes: Any) -> tuple[Probe, ...]:
    """The probes with one of them changed."""
    return tuple(
        replace(each, **changes) if each.node_name == which else each for each in OPERATORS
    )


CHANGES: dict[str, tuple[Probe, ...]] = {
    "type": changed("square", type="Neg", name="square"),
    "attribute": changed("leakyrelu", attributes=(("negative_slope", "float", 0.5),)),
    "attribute-left-out": changed("leakyrelu", attributes=()),
    "shape": changed("square", shape=(2, 2, 4, 4)),
    "shape-of-equal-size": changed("square", shape=(2, 1, 4, 4)),
    "dtype": changed("square", dtype="float16"),
    "format": changed("square", format="NCHW"),
}


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("change", CHANGES)
def test_one_changed_operator_compiles_alone(network: NetworkUnderTest, change: str) -> None:
    probes = CHANGES[change]
    other = probe_network(*probes)
    expected = {
        probe.node_name for probe, old in zip(probes, OPERATORS, strict=True) if probe != old
    }
    network.warm(NETWORK)
    run = network.attempt(network.request(other))
    _compiled(network, run, *expected)
    _keeps(network, run)
    assert len(run.stored) == 1


def single_network(operator: OperatorSpec) -> Network:
    names = [f"input{number}" for number, _ in enumerate(operator.inputs)]
    described = dict(zip([*names, "output"], (*operator.inputs, *operator.outputs), strict=True))
    constants = {
        name: DATA[: tensor.elements]
        for name, tensor in described.items()
        if name != "output" and not tensor.is_const
    }
    node = Node(operator.named("node"), tuple(names), ("output",))
    tensors = {name: replace(tensor, name=name) for name, tensor in described.items()}
    return Network("single", tensors, constants, (node,), ("output",))


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("change", INPUTS)
def test_an_operator_with_other_inputs_is_compiled(network: NetworkUnderTest, change: str) -> None:
    before, after = map(single_network, INPUTS[change])
    network.run(before)
    run = network.attempt(network.request(after))
    assert run.wrong == {}, "a kernel for other inputs is used"
    _keeps(network, run)
    assert len(run.stored) == 1
    again = network.attempt(network.request(before))
    _keeps(network, again)
    assert (again.wrong, again.stored) == ({}, frozenset())


SEVERAL = tuple(
    probe_network("Square", kind, replace(LEAKY, attributes=(("negative_slope", "float", slope),)))
    for kind, slope in (("Exp", 0.25), ("Abs", 0.5), ("Sigmoid", 0.125), ("Relu", 0.75))
)
"""Networks of an operator that all have, one of a unique type, and one of a unique attribute."""


@rule("incremental/compiles-changed-only")
def test_going_back_compiles_nothing(network: NetworkUnderTest) -> None:
    """Several networks run in turn, then each of them again."""
    for each in SEVERAL:
        network.run(each)
    network.mark()
    for each in SEVERAL:
        run = network.run(each)
        _compiled(network, run)
        _keeps(network, run)
        assert run.stored == frozenset()


@rule("incremental/compiles-changed-only")
def test_what_was_deleted_is_compiled_alone(network: NetworkUnderTest) -> None:
    network.warm(NETWORK)
    lost = _kernel(network, "exp")
    for path in lost.paths:
        path.unlink()
    run = network.run(NETWORK)
    _compiled(network, run, "exp")
    assert len(run.stored) == 1, "more is stored than was deleted"
    _keeps(network, run)


def _kernel(network: NetworkUnderTest, operator_type: str) -> RankKernel:
    kernels: list[RankKernel] = [
        kernel for kernel in network.kernels().values() if kernel.is_of(operator_type)
    ]
    assert len(kernels) == 1, f"{len(kernels)} kernels are named after {operator_type}"
    return kernels[0]


@rule("incremental/info-describes")
def test_info_holds_name_attributes_formats_and_types(network: NetworkUnderTest) -> None:
    probes = (replace(LEAKY, format="NCHW", dtype="float16"), Probe("Square", format="NHWC"))
    network.run(probe_network(*probes))
    for probe in probes:
        said = [str(each).lower() for each in leaves(_kernel(network, probe.node_name).info)]
        wanted = [probe.type, probe.dtype, probe.format, *probe.shape]
        wanted += [each for name, _, value in probe.attributes for each in (name, value)]
        missing = [each for each in wanted if str(each).lower() not in said]
        assert missing == [], f".info of {probe.type} does not say everything"


def _replaced(value: Any, old: object, new: object, places: Iterator[bool]) -> Any:
    """A JSON value with a string or number replaced at the occurrences that ``places`` selects."""
    if isinstance(value, dict):
        return {key: _replaced(each, old, new, places) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, old, new, places) for each in value]
    return new if type(value) is type(old) and value == old and next(places) else value


def _replaced_once(value: Any, old: object, new: object, where: str) -> Any:
    """Replace only the first occurrence, in an input, or the last, in an output."""
    count = sum(type(each) is type(old) and each == old for each in leaves(value))
    place = 0 if where == "first" else count - 1
    return _replaced(value, old, new, (number == place for number in range(count)))


EDITS = {
    "attribute-value": (0.25, 0.5),
    "attribute-name": ("negative_slope", "positive_slope"),
    "format": ("ND", "NCHW"),
    "dtype": ("float32", "float16"),
    "name": ("LeakyRelu", "Relu"),
    "shape": (2, 3),
}


@rule("incremental/info-describes")
@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_info_that_describes_something_else_is_not_reused(
    network: NetworkUnderTest, edit: str, where: str
) -> None:
    network.warm(NETWORK)
    kernel = _kernel(network, "leakyrelu")
    if not isinstance(kernel.info, dict):
        raise NotDecidable("what .info says is no JSON object that could be changed")
    edited = _replaced_once(kernel.info, *EDITS[edit], where)
    if edited == kernel.info:
        raise NotDecidable(f"there is no {EDITS[edit][0]!r} in .info to be changed")
    _write_info(kernel, json.dumps(edited))
    run = network.attempt(network.request(NETWORK))
    _compiled(network, run, "leakyrelu")
    network.mark()
    assert network.run(NETWORK).compiled == frozenset(), "the kernel is not reused from then on"


def _write_info(kernel: RankKernel, text: str) -> None:
    """Replace ``.info``, which may be read-only, and keep its times."""
    times = kernel.info_path.stat()
    kernel.info_path.unlink()
    kernel.info_path.write_text(text, encoding="utf-8")
    os.utime(kernel.info_path, ns=(times.st_atime_ns, times.st_mtime_ns))


@rule("incremental/info-describes")
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", None])
def test_without_a_readable_info_nothing_is_reused(
    network: NetworkUnderTest, content: str | None
) -> None:
    network.warm(NETWORK)
    kernel = _kernel(network, "exp")
    kernel.info_path.unlink()
    if content is not None:
        kernel.info_path.write_text(content)
    run = network.attempt(network.request(NETWORK))
    _compiled(network, run, "exp")
    # The old one may stay beside it: no document gives a name's form.
    new = [each for each in network.kernels().values() if each.is_of("exp") and each.is_valid]
    assert len(new) == 1, f"{len(new)} whole kernels of exp are there"


@rule("incremental/info-describes")
def test_nothing_but_info_decides(network: NetworkUnderTest) -> None:
    network.warm(NETWORK)
    for number, kernel in enumerate(network.kernels().values()):
        for path in kernel.paths:
            os.utime(path, ns=(0, 10**18 + number))
    (network.cache / "rank_0" / "kernel_meta" / "foreign.info").write_text("{}")
    run = network.run(NETWORK)
    _compiled(network, run)


_NEAR_EACH_OTHER = (0.1, nearest_float32(0.1), 0.10004, 0.1004, 1e-5, 1e-12, 0.0, -0.1)


@rule("incremental/info-describes")
def test_numbers_that_differ_a_little_are_other_operators(network: NetworkUnderTest) -> None:
    """Slopes in one network: each has a kernel of its own, and all are found again."""
    probes = [
        Probe("LeakyRelu", f"leaky_{number}", attributes=(("negative_slope", "float", slope),))
        for number, slope in enumerate(_NEAR_EACH_OTHER)
    ]
    wanted = probe_network(*probes)
    for _ in range(2):
        run = network.attempt(network.request(wanted))
        assert run.succeeded, f"the run {run.result.ending}: {run.output.strip()[-200:]}"
        kernels = [each for each in network.kernels(0).values() if each.is_of("LeakyRelu")]
        assert len(kernels) == len(probes), network.evidence.found(
            Delivery.ANOTHER, f"{len(probes)} operators have {len(kernels)} kernels", "LeakyRelu"
        )


@rule("incremental/result-correct")
def test_the_square_of_1_4_9_is_1_16_81(network: NetworkUnderTest) -> None:
    for _ in range(3):
        run = network.attempt(network.request(square_network()))
        assert run.succeeded, f"the run {run.result.ending}: {run.output.strip()[-200:]}"
        assert run.result.outputs is not None
        assert run.result.outputs["output"].tolist() == [1.0, 16.0, 81.0]


@rule("incremental/result-correct")
@pytest.mark.parametrize("others", ["alone", "among-others"])
def test_a_network_is_right_cold_and_warm(network: NetworkUnderTest, others: str) -> None:
    if others == "among-others":
        for each in (NETWORK, square_network()):
            network.run(each)
    for _ in range(3):
        assert network.attempt(network.request(chain_network())).wrong == {}


@rule("incremental/result-correct")
@pytest.mark.parametrize("differ", INPUTS)
def test_operators_with_other_inputs_are_told_apart(network: NetworkUnderTest, differ: str) -> None:
    """Both are in one network and new, so nothing on disk distinguishes them."""
    named = [each.named(f"node{number}") for number, each in enumerate(INPUTS[differ])]
    run = network.attempt(network.request(wide_network(named)))
    assert run.wrong == {}, "a kernel of another operator is used"
    assert len(run.stored) == 2


@rule("incremental/compiles-changed-only")
def test_many_operators_that_differ_in_a_field_are_told_apart(network: NetworkUnderTest) -> None:
    """Each has its own kernel from the first run on, and the second run compiles nothing."""
    families = tuple(each for each in FAMILIES if each.type in WIDE)
    wide = wide_network(generate(seed=seeded(2), families=families))
    first = network.attempt(network.request(wide))
    if not first.succeeded:
        raise NotDecidable(f"a run of generated operators {first.result.ending}")
    second = network.attempt(network.request(wide))
    assert (first.wrong, second.wrong) == ({}, {}), "a kernel of another operator is used"
    own = expected_compiles(wide.operators, Scenario(), ())
    assert len(first.stored) == len(own), f"{len(first.stored)} kernels of {len(own)} are kept"
    _keeps(network, second)
    assert second.stored == frozenset(), "the second run compiles"


@rule("incremental/result-correct")
def test_other_data_gives_other_outputs(network: NetworkUnderTest) -> None:
    for factor in (1.0, -2.0, 0.5):
        data = tuple(factor * each for each in DATA)
        run = network.attempt(network.request(probe_network(*OPERATORS, data=data)))
        assert run.wrong == {}


@rule("incremental/reuses")
def test_a_warm_run_leaves_the_directory_alone(network: NetworkUnderTest) -> None:
    network.run(NETWORK)
    before = Snapshot.take(network.site)
    run = network.run(NETWORK)
    assert run.wrong == {}
    assert not run.kernels_written & before.files.keys(), "a file was written again"


@rule("incremental/result-correct")
def test_many_runs_at_once_in_one_directory_are_right(network: NetworkUnderTest) -> None:
    """Single cards without RANK_ID share rank_0."""
    for run in network.together(*(network.request(NETWORK) for _ in range(4))):
        assert run.wrong == {}
    assert {stem: kernel.problems() for stem, kernel in network.kernels().items()} == {
        stem: [] for stem in network.kernels()
    }
    network.mark()
    again = network.run(NETWORK)
    assert (again.wrong, again.compiled) == ({}, frozenset())


BATCHES = [DAMAGES[start : start + len(OPERATORS)] for start in range(0, len(DAMAGES), 4)]


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("damages", BATCHES, ids=lambda batch: f"{batch[0].name}-and-more")
def test_damaged_kernels_of_a_rank_heal(
    network: NetworkUnderTest, damages: tuple[Damage, ...]
) -> None:
    network.warm(NETWORK)
    for damage, kernel in zip(damages, network.kernels().values(), strict=False):
        damage.apply(kernel)
    run = network.attempt(network.request(NETWORK))
    assert run.succeeded, f"the run {run.result.ending}: {run.output.strip()[-200:]}"
    assert run.wrong == {}
    problems = {stem: kernel.problems() for stem, kernel in network.kernels().items()}
    assert problems == {stem: [] for stem in problems}, "damaged kernels are still there"
    network.mark()
    again = network.run(NETWORK)
    assert (again.wrong, again.compiled) == ({}, frozenset())
