"""What the checks of several nodes ask of a shared cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_ascendcache.caches import find_canaries
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE
from pytest_ascendcache.contract import Delivered
from pytest_ascendcache.nodes import NodeProfile
from pytest_ascendcache.observation import CacheUnderTest, Run, SharedCache
from pytest_ascendcache.operators import OperatorSpec


@dataclass
class Shown:
    """What was seen in the moment it was called; None before."""

    look: Callable[[], bool]
    shown: bool | None = None

    def __call__(self) -> None:
        self.shown = self.look()


def is_served(run: Run, operator: OperatorSpec) -> bool:
    """Whether a run delivered a kernel that was marked in the cache."""
    return run.succeeded and bool(find_canaries(run.model(operator).read_bytes()))


def recovers(
    shared: SharedCache, operator: OperatorSpec, cache: CacheUnderTest | None = None
) -> str:
    """What is wrong with the next two compiles of an operator; empty where they succeed with right
    kernels, and the second reuses. They see the directory itself, or what a node sees of it.

    Where no lock can be had nothing need be stored, so nothing need be reused.
    """
    cache = cache or shared.backing
    for reuses in (False, True):
        shared.backing.mark()
        run = shared.compile(cache, operator, mode=ENABLE)
        if failed := shared.failed(run):
            return failed
        if wrong := shared.wrong(run):
            return wrong
        may_store = shared.profile is not NodeProfile.NO_LOCKS
        if reuses and may_store and not is_served(run, operator):
            return f"every later run has {operator} {Delivered.COMPILED.value} again"
    return ""
