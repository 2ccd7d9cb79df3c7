"""A release compiled with the toolchain under test, in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode, Capability, ImplModeTables
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.manifest import KernelDigest, distinct_operators
from pytest_ascendcache.release.problem import Problem
from pytest_ascendcache.toolchains import CompileRequest, Toolchain
from pytest_ascendcache.toolchains.atc import IMPL_MODE


@dataclass(frozen=True)
class Fresh:
    """Kernels of a compile without a cache, by operator, and the steps that made them."""

    kernels: Mapping[str, KernelDigest]
    steps: tuple[Step, ...]
    sandbox: str


class Served(NamedTuple):
    """How many of a release's kernels come from a cache; ``None`` if that is not known."""

    served: int | None
    kernels: int

    def __str__(self) -> str:
        if self.served is None:
            return "which kernels were served is not known"
        return f"{self.served} of {self.kernels} kernels served"

    @property
    def is_few(self) -> bool:
        """Whether a cache that was filled for this release would serve more: most of them."""
        return self.served is not None and 2 * self.served < self.kernels


class ReleaseCompiles:
    """Compiles the operators of a release with its options, all in one run. ``remembered`` keeps
    fresh kernels for its other checks."""

    def __init__(
        self, release: Release, cache: CacheUnderTest, remembered: dict[Path, Fresh]
    ) -> None:
        self.release = release
        self.cache = cache
        self.operators = distinct_operators(release)
        self._remembered = remembered

    def fresh(self) -> Mapping[str, KernelDigest]:
        known = self._remembered.get(self.release.path)
        if known is None:
            first = len(self.cache.evidence.steps)
            kernels = self.fresh_again()
            steps = tuple(self.cache.evidence.steps[first:])
            known = Fresh(kernels, steps, str(self.cache.sandbox))
            self._remembered[self.release.path] = known
        else:
            # Show the commands as they would read in this sandbox.
            here = str(self.cache.sandbox)
            self.cache.evidence.steps += [
                replace(step, command=step.command.replace(known.sandbox, here))
                for step in known.steps
            ]
        return known.kernels

    def fresh_again(self) -> dict[str, KernelDigest]:
        """Kernels of a second fresh compile: of what differs here, differences mean nothing."""
        empty = self.cache.elsewhere(self.cache.new_output())
        run = self.compile(empty, CacheMode.DISABLE)
        return {key: _digest(run, operator) for key, operator in self.operators.items()}

    def compile(self, cache: CacheUnderTest, mode: CacheMode) -> Run:
        """Compile every operator in one watched run."""
        return cache.compile(
            *self.operators.values(),
            mode=mode,
            environment=self.release.kernel_environment,
            raw_options=self.release.kernel_options,
            soc=self.release.soc,
        )

    def request(self, rank: int) -> CompileRequest:
        """The compile of one card among several."""
        card = card_environment(rank, self.release.cards)
        return self.cache.request(
            *self.operators.values(),
            mode=CacheMode.ENABLE,
            environment={**self.release.kernel_environment, **card},
            raw_options=self.release.kernel_options,
            soc=self.release.soc,
        )

    def unlike_fresh(self, run: Run, who: str) -> list[Problem]:
        """Operators whose delivered kernel is not the fresh one; ``who`` names the run. Raises
        NotDecidable if two fresh compiles differ in all of them."""
        fresh = self.fresh()
        delivered = {key: run.unmarked_sha256(each) for key, each in self.operators.items()}
        unlike = [key for key in fresh if fresh[key].sha256 != delivered[key]]
        if unlike:
            again = self.fresh_again()
            unstable = [key for key in unlike if fresh[key] != again[key]]
            if unstable == unlike:
                first = fresh[unlike[0]].operator
                raise NotDecidable(f"two fresh compiles give different kernels of {first}")
            unlike = [key for key in unlike if key not in unstable]
        return [
            Problem(
                f"{who} delivers sha256 {delivered[key][:16]}... of {fresh[key].operator}",
                f"sha256 {fresh[key].sha256[:16]}..., as a fresh compile does",
            )
            for key in unlike
        ]

    def served(self, run: Run) -> Served:
        """How many of the operators' kernels came from the cache."""
        served = sum(bool(run.served_from(each)) for each in self.operators.values())
        return Served(None if run.marked is None else served, len(self.operators))


def _digest(run: Run, operator: OperatorSpec) -> KernelDigest:
    kernel = run.kernel(operator)
    return KernelDigest(str(operator), sha256(kernel), len(kernel))


def card_environment(rank: int, cards: int) -> dict[str, str]:
    """The variables that tell a process which card of how many it compiles for."""
    return {"RANK_ID": str(rank), "DEVICE_ID": str(rank), "RANK_SIZE": str(cards)}


def release_tables(release: Release, toolchain: Toolchain | None) -> ImplModeTables | None:
    """The tables of implementation modes that a release is compiled with, if any: those of the
    operator package that it names, else the toolchain's. Raises NotDecidable if a table is
    missing."""
    package = release.kernel_environment.get("ASCEND_OPP_PATH", "")
    directory = Path(package) / IMPL_MODE
    if package and directory.is_dir():
        texts = {
            path.stem: path.read_text(encoding="utf-8-sig", errors="replace")
            for path in sorted(directory.glob("*.ini"))
        }
    elif toolchain is not None and Capability.IMPL_MODE_TABLES in toolchain.capabilities:
        texts = dict(toolchain.impl_mode_tables())
    else:
        return None
    try:
        return ImplModeTables.read(texts)
    except KeyError as error:
        raise NotDecidable(f"the implementation mode table {error} is missing") from None
