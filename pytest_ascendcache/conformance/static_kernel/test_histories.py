"""Histories of one process, drawn: networks in any order, and compiles that succeed or fail.

Which network has static kernels follows from the calls of op_compiler before it.
"""

from __future__ import annotations

import random
import shlex

import pytest

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery, Fact, Later
from pytest_ascendcache.observation import (
    IMPOSTOR,
    ClientRun,
    StaticKernelsUnderTest,
    probe_network,
)
from pytest_ascendcache.toolchains import Toolchain

NETWORKS = tuple(
    probe_network(*types, name=types[0].lower())
    for types in (("Square", "Exp"), ("Abs",), ("Tanh", "Neg", "Relu"))
)
WELL = "the compile succeeds"
_BROKEN = 'printf "#!/bin/sh\\nexit 1" > "$output/broken.run"; chmod 755 "$output/broken.run"; exit'
ENDINGS = {
    WELL: ":",
    "op_compiler fails": "exit 1",
    "op_compiler is killed": "kill -9 $$",
    "there is no package": "exit 0",
    "the package does not install itself": _BROKEN,
}
CALLS = 9


def _expected(order: list[int], endings: list[str]) -> tuple[list[bool], list[str]]:
    """Whether each network has static kernels, and how each one's compile ended, if it has one."""
    left, done = iter(endings), set[int]()
    static, ended = [], []
    for each in order:
        ended.append("" if each in done else next(left))
        if ended[-1] == WELL:
            done.add(each)
        static.append(each in done)
    return static, ended


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("number", range(4))
def test_a_process_lives_through_any_history(
    kernels: StaticKernelsUnderTest, toolchain: Toolchain, number: int
) -> None:
    needs(toolchain, Capability.STATIC_KERNEL_CLIENT)
    drawn = random.Random(seeded(60 + number))
    order = [drawn.randrange(len(NETWORKS)) for _ in range(CALLS)]
    endings = [drawn.choice([WELL, *ENDINGS]) for _ in range(CALLS)]
    run = _run(kernels, order, endings)
    facts: list[Fact] = []
    story = ""
    for at, (static, ended) in enumerate(zip(*_expected(order, endings), strict=True)):
        story += f"; {NETWORKS[order[at]].name}" + (f": {ended}" if ended else "")
        if run.outputs(at) is None:
            if ended in ("", WELL):
                facts.append(Fact.seen(Later.FAILS, f"{story[2:]}, and it is not run"))
            elif all(run.outputs(later) is None for later in range(at, CALLS)):
                break  # a process may end when a compile fails
            continue
        origins = {*run.origins(at).values()}
        if static and origins != {IMPOSTOR}:
            facts.append(Fact.seen(Delivery.NOTHING, f"{story[2:]}, and it runs no static kernels"))
        if not static and IMPOSTOR in origins:
            facts.append(Fact.seen(Delivery.ANOTHER, f"{story[2:]}, and it runs static kernels"))
    require_none(facts, kernels.evidence)


def _run(kernels: StaticKernelsUnderTest, order: list[int], endings: list[str]) -> ClientRun:
    """The networks in one process. Each call of op_compiler ends as told, and its package has the
    kernels of the network that it is asked for."""
    packages = [kernels.stand_in(*each.operators, marked=True).package for each in NETWORKS]
    chosen = [
        f'! grep -q {network.operators[0].type} "$info"/* || package={shlex.quote(str(package))}'
        for network, package in zip(NETWORKS, packages, strict=True)
    ]
    ends = [f"{number}) {ENDINGS[each]} ;;" for number, each in enumerate(endings, start=1)]
    before = "\n".join(
        (*chosen, "case $(wc -l < {log}) in", *ends, "esac", 'cp "$package" "$output/"', "exit")
    )
    stand_in = kernels.stand_in(*NETWORKS[0].operators, before=before)
    networks = [NETWORKS[each] for each in order]
    (run,) = kernels.together(
        kernels.client(*networks, build=kernels.build, op_compiler=stand_in.path)
    )
    return run
