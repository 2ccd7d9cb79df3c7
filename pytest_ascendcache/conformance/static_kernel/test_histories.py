"""Histories, drawn. Of one process: networks in any order, and compiles that succeed or fail. From
the calls of op_compiler follows which network has static kernels. Of two cards: jobs in one build
directory, in which the cards have other networks each time."""

from __future__ import annotations

import random
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.clients import KEPT, gang
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery, Fact, Later
from pytest_ascendcache.observation import (
    IMPOSTOR,
    ClientRun,
    StaticKernelsUnderTest,
    meeting_place,
    probe_network,
)
from pytest_ascendcache.toolchains import Toolchain

NETWORKS = tuple(
    probe_network(*types, name=types[0].lower())
    for types in (("Square", "Exp"), ("Abs",), ("Tanh", "Neg", "Relu"))
)
WELL = "ok"
_BROKEN = 'printf "#!/bin/sh\\nexit 1" > "$output/broken.run"; chmod 755 "$output/broken.run"; exit'
ENDINGS = {  # by words of no language
    WELL: ":",
    "exit 1": "exit 1",
    "kill -9": "kill -9 $$",
    "0 * .run": "exit 0",
    ".run exit 1": _BROKEN,
}
CALLS = 9


FAILURES = [each for each in ENDINGS if each != WELL]
RETRIES = [frozenset(each) for size in range(5) for each in combinations(FAILURES, size)]
"""After which failures op_compiler may be called once more at once: none, or some of them."""


@dataclass(frozen=True)
class _History:
    """Networks by number, one after the other, and how the calls of op_compiler end."""

    order: list[int]
    endings: list[str]

    def expected(self, retried: Collection[str]) -> tuple[list[bool], list[str], int]:
        """Whether each network has static kernels, how each one's compile ended, if it has one, and
        the calls of op_compiler, if some failures are ``retried``."""
        calls, done = 0, set[int]()
        static, ended = [], []
        for each in self.order:
            ending = ""
            for _ in range(2 * (each not in done)):
                ending, calls = self.endings[calls], calls + 1
                if ending not in retried:
                    break
            ended.append(ending)
            if ending == WELL:
                done.add(each)
            static.append(each in done)
        return static, ended, calls

    def wrong(self, run: ClientRun, retried: Collection[str]) -> list[Fact]:
        """How a run differs from what is expected of it."""
        facts: list[Fact] = []
        story = ""
        static, ended, _ = self.expected(retried)
        for at, number in enumerate(self.order):
            story += f"; {NETWORKS[number].name}" + (f": {ended[at]}" if ended[at] else "")
            if run.outputs(at) is None:
                if ended[at] in ("", WELL):
                    facts.append(Fact.seen(Later.FAILS, f"{story[2:]}, and it is not run"))
                elif all(run.outputs(later) is None for later in range(at, CALLS)):
                    break  # a process may end when a compile fails
                continue
            origins = {*run.origins(at).values()}
            if static[at] and origins != {IMPOSTOR}:
                detail = f"{story[2:]}, and it runs no static kernels"
                facts.append(Fact.seen(Later.LACKS, detail))
            if not static[at] and IMPOSTOR in origins:
                detail = f"{story[2:]}, and it runs static kernels"
                facts.append(Fact.seen(Delivery.ANOTHER, detail))
        return facts


@rule("static-kernel/one-binary-per-shape")
@pytest.mark.parametrize("number", range(4))
def test_a_process_lives_through_any_history(
    kernels: StaticKernelsUnderTest, toolchain: Toolchain, number: int
) -> None:
    needs(toolchain, Capability.STATIC_KERNEL_CLIENT)
    drawn = random.Random(seeded(60 + number))
    order = [drawn.randrange(len(NETWORKS)) for _ in range(CALLS)]
    history = _History(order, [drawn.choice([WELL, *ENDINGS]) for _ in range(2 * CALLS)])
    run, calls = _run(kernels, history)
    if any(
        history.expected(retried)[2] == calls and not history.wrong(run, retried)
        for retried in RETRIES
    ):
        return
    require_none(history.wrong(run, ()), kernels.evidence)


def _run(kernels: StaticKernelsUnderTest, history: _History) -> tuple[ClientRun, int]:
    """The networks in one process, and the calls of op_compiler, which packs what is asked for."""
    packages = [kernels.stand_in(*each.operators, marked=True).package for each in NETWORKS]
    chosen = [
        f'! grep -q {network.operators[0].type} "$info"/* || package={shlex.quote(str(package))}'
        for network, package in zip(NETWORKS, packages, strict=True)
    ]
    ends = [f"{number}) {ENDINGS[each]} ;;" for number, each in enumerate(history.endings, 1)]
    before = "\n".join(
        (*chosen, "case $(wc -l < {log}) in", *ends, "esac", 'cp "$package" "$output/"', "exit")
    )
    stand_in = kernels.stand_in(*NETWORKS[0].operators, before=before)
    networks = [NETWORKS[each] for each in history.order]
    (run,) = kernels.together(
        kernels.client(*networks, build=kernels.build, op_compiler=stand_in.path)
    )
    return run, len(stand_in.calls)


@rule("static-kernel/first-card")
def test_two_cards_live_through_jobs_of_other_networks(
    kernels: StaticKernelsUnderTest, toolchain: Toolchain
) -> None:
    """From job to job the second card has another network, the first one, and both. A client may
    keep packages for later jobs."""
    needs(toolchain, Capability.STATIC_KERNEL_CLIENT)
    one, two, three = random.Random(seeded(70)).sample(NETWORKS, 3)
    op_compiler, story, facts = _packing_what_is_asked_for(kernels), "", list[Fact]()
    for networks in ((one, two), (one, three), (two, three), (three, one)):
        story += f"; {' and '.join(each.name for each in networks)}"
        with meeting_place(2) as place:
            requests = gang(kernels, networks, place.port, ["2"] * 2, op_compiler, options=KEPT)
            runs = kernels.together(*requests)
        for card, run in enumerate(runs):
            detail = f"jobs of two cards:{story[1:]}: card {card}"
            if not run.succeeded:
                facts.append(
                    Fact.seen(Later.FAILS, f"{detail} {run.result.ending}: {run.output[-300:]}")
                )
            elif run.kernels != {IMPOSTOR}:
                facts.append(Fact.seen(Delivery.NOTHING, f"{detail} runs no static kernels"))
    require_none(facts, kernels.evidence)


def _packing_what_is_asked_for(kernels: StaticKernelsUnderTest) -> Path:
    """An op_compiler whose package has the kernels of those networks that it is asked for."""
    lines = ["asked="]
    for number, network in enumerate(NETWORKS):
        kind = network.operators[0].type
        lines.append(f'! grep -q {kind} "$info"/* || asked=${{{{asked}}}}{number}')
    cases = []
    for size in range(1, len(NETWORKS) + 1):
        for some in combinations(range(len(NETWORKS)), size):
            operators = [each for number in some for each in NETWORKS[number].operators]
            package = kernels.stand_in(*operators, marked=True).package
            cases.append(f"{''.join(map(str, some))}) package={shlex.quote(str(package))} ;;")
    lines += ["case $asked in", *cases, "esac", 'cp "$package" "$output/"', "exit"]
    return kernels.stand_in(*NETWORKS[0].operators, before="\n".join(lines)).path
