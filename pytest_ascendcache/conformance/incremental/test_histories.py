"""Histories of one directory, drawn: networks of any operators on some ranks, and deletions. What a
run has to compile follows from the runs before it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from pytest_ascendcache.caches import RankKernel
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import COMPILED, REUSED, rule
from pytest_ascendcache.contract.facts import Fact, Numbers, outcome_fact
from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.observation import NetworkRun, NetworkUnderTest, Probe, probe_network

_LEAKY = [
    Probe("LeakyRelu", attributes=(("negative_slope", "float", slope),)) for slope in (0.25, 0.5)
]
_PLAIN = [Probe(each) for each in ("Square", "Exp", "Abs", "Neg", "Relu")]
_VARIANTS = [  # of as many elements as an impostor computes
    *(replace(_PLAIN[0], shape=shape) for shape in ((2, 4, 1, 4), (4, 8), (32,))),
    *(replace(each, format="NCHW") for each in _PLAIN[1:3]),
]
PROBES = tuple(
    replace(each, name=f"node{number}")  # names may decide: document M lists them
    for number, each in enumerate((*_LEAKY, *_PLAIN, *_VARIANTS))
)
RANKS = (0, 0, 0, 2, 12)
STEPS = 7


def _remove(kernel: RankKernel) -> None:
    for path in kernel.paths:
        path.unlink(missing_ok=True)


DELETIONS: dict[str, Callable[[RankKernel], None]] = {
    "*": _remove,
    "o": lambda kernel: kernel.object_path.unlink(),
    "info": lambda kernel: kernel.info_path.unlink(),
}


class _Told:
    """What happened to a directory, and what is on disk because of it: probes of each rank."""

    def __init__(self, network: NetworkUnderTest, seed: int, phase: Phase) -> None:
        self._network, self._drawn, self._phase = network, random.Random(seed), phase
        self._kept: dict[int, set[Probe]] = {rank: set() for rank in RANKS}
        self._steps = count(1)
        self._where = ""

    def run(self) -> None:
        """A network on one of the ranks. It compiles what is not on disk, and nothing else."""
        drawn, rank = self._drawn, self._drawn.choice(RANKS)
        probes = drawn.sample(PROBES, drawn.randrange(1, 6))
        if self._kept[rank]:
            self._network.mark(rank, but=self._incomplete(rank))
        self._where += f"; #{next(self._steps)} rank {rank}"
        wanted = probe_network(*probes)
        run = self._network.attempt(self._network.request(wanted, rank, phase=self._phase))
        require_none(self._wrong(run, {*probes} - self._kept[rank]), self._network.evidence)
        self._kept[rank] |= {*probes}

    def _wrong(self, run: NetworkRun, new: set[Probe]) -> list[Fact]:
        where = self._where[2:]
        if not run.succeeded:
            raise AssertionError(f"{where}: the run {run.result.ending}")
        if run.wrong:
            return [Fact.seen(Numbers.WRONG, f"{where} gives wrong outputs: {run.wrong}")]
        compiled, due = run.compiled, {each.node_name for each in new}
        types = {each.node_name: each.type for each in PROBES}
        return [
            *(
                outcome_fact(REUSED, [COMPILED], each, detail=f"{where}: {types[each]} is reused")
                for each in sorted(due - compiled)
            ),
            *(
                outcome_fact(COMPILED, [REUSED], each, detail=f"{where}: {types[each]} is compiled")
                for each in sorted(compiled - due)
            ),
        ]

    def delete(self) -> None:
        """Some files of all kernels of a type, or a rank's directory with all of them."""
        rank = self._drawn.choice(RANKS)
        if not self._kept[rank]:
            return
        if self._drawn.random() < 0.3:
            shutil.rmtree(self._network.place(rank))
            self._kept[rank].clear()
            self._where += f"; rm -r rank_{rank}"
            return
        what = self._drawn.choice(sorted(DELETIONS))
        gone = self._drawn.choice(sorted({each.type for each in self._kept[rank]}))
        for kernel in self._network.kernels(rank).values():
            if kernel.is_of(gone) and all(map(Path.exists, kernel.paths)):
                DELETIONS[what](kernel)
        self._kept[rank] = {each for each in self._kept[rank] if each.type != gone}
        self._where += f"; rm rank_{rank}/{gone}.{what}"

    def _incomplete(self, rank: int) -> list[str]:
        kernels = self._network.kernels(rank)
        return [stem for stem, each in kernels.items() if not all(map(Path.exists, each.paths))]


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("number", range(4))
def test_a_directory_lives_through_any_history(network: NetworkUnderTest, number: int) -> None:
    told = _Told(network, seeded(40 + number), (Phase.TRAINING, Phase.INFERENCE)[number % 2])
    for step in range(STEPS):
        if step:
            told.delete()
        told.run()
        told.run()
