"""Networks that were partly changed, operators' numbers, and builds that are interrupted; the
stand-in compiler counts kernels. Source: document M; facts ``mindspore-ascend`` section C."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.incremental.test_incremental import NETWORK
from pytest_ascendcache.conformance.kit.neighbours import operator_of, wide_network
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.conformance.mindspore_ascend.test_kernel_meta import right
from pytest_ascendcache.contract.ranks import Scenario, expected_compiles
from pytest_ascendcache.faults import FaultGate
from pytest_ascendcache.observation import (
    NetworkRun,
    NetworkUnderTest,
    NotDecidable,
    Probe,
    probe_network,
)
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.toolchains import Script

PATIENCE = 60.0


def compiles(network: NetworkUnderTest, run: NetworkRun) -> int:
    return len(cast(Any, network.toolchain).compiles_of(run.result.request))


def _operator(
    kind: str, *shapes: tuple[int, ...], dtype: str = "float32", **attributes: Any
) -> OperatorSpec:
    """An operator by the shapes of its inputs and, last, of its output."""
    *inputs, output = shapes
    name = "_".join((kind, dtype, *("x".join(map(str, each)) for each in shapes)))
    name = (name + "".join(f"_{key}" for key, value in attributes.items() if value)).lower()
    return operator_of(kind, *inputs, dtype=dtype, outs=(output,), name=name, **attributes)


def _matmul(first: bool, second: bool) -> OperatorSpec:
    left, right_ = ((3, 2), (2, 3))[:: -1 if first else 1], ((3, 4), (4, 3))[:: -1 if second else 1]
    shapes = (left[1], right_[0], (2, 4))
    return _operator("MatMul", *shapes, transpose_x1=first, transpose_x2=second)


OPERATORS = [
    *(_operator(kind, (4, 8), (4, 8)) for kind in ("Square", "Neg", "Exp", "Relu", "Abs", "Tanh")),
    *(_operator(kind, (4, 8), (4, 8), (4, 8)) for kind in ("Add", "Mul", "Sub", "Maximum")),
    _operator("Add", (4, 8), (1, 8), (4, 8)),
    _operator("Sub", (4, 1), (1, 8), (4, 8)),
    *(_operator(kind, (5,), (5,), dtype="float16") for kind in ("Square", "Neg", "Exp")),
    *(_operator(kind, (2, 3), (2, 3), (2, 3), dtype="int32") for kind in ("Add", "Mul", "Sub")),
    *(_matmul(first, second) for first in (False, True) for second in (False, True)),
]


@rule("incremental/result-correct")
@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_every_operator_is_right_cold_and_warm(network: NetworkUnderTest, mode: str) -> None:
    wanted, script = wide_network(OPERATORS), Script(jit_level=mode)
    cold = right(network, wanted, "the first run", script=script)
    warm = right(network, wanted, "the second run", script=script)
    expected = len(expected_compiles(wanted.operators, Scenario(), ()))
    assert (compiles(network, cold), compiles(network, warm)) == (expected, 0)


def _chain(last: str) -> Network:
    """Three operators, each of which takes what the one before it gives."""
    kinds, names = ("Square", "Neg", last), ("data", "first", "second", "output")
    tensors = {name: TensorDesc.of("float32", 4, 8, name=name) for name in names}
    tensor = TensorDesc.of("float32", 4, 8)
    nodes = tuple(
        Node(OperatorSpec(kind, (tensor,), (tensor,), name=names[place + 1]),
             (names[place],), (names[place + 1],))
        for place, kind in enumerate(kinds)
    )  # fmt: skip
    data = tuple((each - 16) / 8 for each in range(32))
    return Network("chain", tensors, {"data": data}, nodes, ("output",))


@rule("incremental/reuses")
def test_a_fused_chain_is_right_and_reused(network: NetworkUnderTest) -> None:
    """Which operators are fused is answered by a stand-in. Whether the kernel is then looked for
    among those on disk, by its name, is MindSpore's own."""
    fused = {"ASCENDCACHE_STANDIN_FUSION": "1"}
    counts = [
        compiles(network, right(network, _chain(last), which, environment=fused))
        for last, which in (("Exp", "the first run"), ("Exp", "the second"), ("Abs", "the third"))
    ]
    if counts[0] != 1:
        raise NotDecidable(f"the chain is compiled into {counts[0]} kernels")
    assert counts[1] == 0, "the second run compiles the fused kernel again"
    assert counts[2] == 1, "another chain is not compiled"


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("story", range(4))
def test_of_drawn_networks_exactly_the_new_operators_are_compiled(
    network: NetworkUnderTest, story: int
) -> None:
    """Three networks, each drawn from a dozen operators and partly like the one before."""
    drawn = random.Random(seeded(story + 40))
    known: list[tuple[OperatorSpec, Scenario]] = []
    operators = drawn.sample(OPERATORS, 5)
    for number in range(3):
        wanted = wide_network(operators)
        expected = expected_compiles(wanted.operators, Scenario(), known)
        run = right(network, wanted, f"network {number}")
        assert compiles(network, run) == len(expected), f"network {number}: other operators compile"
        assert run.disturbed == {}, "kernels on disk did not stay"
        known += [(each, Scenario()) for each in expected]
        operators = [*drawn.sample(operators, 3), *drawn.sample(OPERATORS, 2)]
        operators = list({each.name: each for each in operators}.values())


@rule("incremental/reuses")
def test_a_level_keeps_what_it_compiled(network: NetworkUnderTest) -> None:
    """Level 3 is the default. Level 0 deletes what was compiled, and the others are for debugging
    (MindSpore's list of variables): nothing says that they reuse."""
    environment = {"MS_COMPILER_OP_LEVEL": "3"}
    for which in ("the first run", "the second run"):
        run = right(network, NETWORK, which, environment=environment)
    again = compiles(network, run)
    assert again == 0, f"the second run compiles {again} again"


POINTS = ("compile", "half-o", "after-o", "half-json", "after-json")
VICTIMS = ("all", "the-parent", "the-server", "interrupted")
STOPS = [
    *((point, "all") for point in POINTS),
    *((point, victim) for point in ("half-o", "half-json") for victim in VICTIMS[1:]),
]


@rule("robust/interrupted-compile")
@pytest.mark.parametrize(("point", "victim"), STOPS, ids=[f"{a}-{b}" for a, b in STOPS])
def test_a_build_that_is_stopped_is_made_good(
    network: NetworkUnderTest, point: str, victim: str
) -> None:
    """The compiler stops at a point, and the parent, the compile server or both are killed, or the
    group is interrupted as by Ctrl-C."""
    wanted = probe_network("Square", Probe("Neg"))
    with FaultGate(network.sandbox / "gate") as gate, network.watch() as watch:
        held = {"ASCENDCACHE_STANDIN_HOLD": f"{point}:{gate.reached.parent}"}
        process = watch.start(network.request(wanted, environment=held))
        if not gate.wait(time.monotonic() + PATIENCE):
            raise NotDecidable("the compiler did not come to its work")
        server = int((gate.reached.parent / "pid").read_text())
        if victim == "all":
            process.kill()
        elif victim == "the-server":
            os.kill(server, signal.SIGKILL)
        elif victim == "the-parent":
            os.kill(_parent(server), signal.SIGKILL)
        else:
            for each in (_parent(server), server):
                os.kill(each, signal.SIGINT)
        watch.wait(process, PATIENCE)
    problem = network.recovery(wanted)
    assert problem is None, f"{point}, {victim}: {problem}"


def _parent(process: int) -> int:
    """The process that started the compile server: MindSpore's own."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
