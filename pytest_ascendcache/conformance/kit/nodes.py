"""For checks of several nodes that share a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pytest_ascendcache.caches import find_canaries
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE
from pytest_ascendcache.contract import Delivered
from pytest_ascendcache.faults import Operation
from pytest_ascendcache.nodes import NodeProfile
from pytest_ascendcache.observation import CacheUnderTest, Run, SharedCache
from pytest_ascendcache.observation.shared_cache import Moments
from pytest_ascendcache.operators import OperatorSpec

profiles = pytest.mark.ascend_node_profiles
"""Mark for the profiles of nodes that a check applies to."""


@dataclass
class Shown:
    """Looks when it is called, and keeps what it saw; ``shown`` is ``None`` before that."""

    look: Callable[[], bool]
    shown: bool | None = None

    def __call__(self) -> None:
        self.shown = self.look()


def is_served(run: Run, operator: OperatorSpec) -> bool:
    """Whether a run delivered a kernel that was marked in the cache, so a reused one."""
    return run.succeeded and bool(find_canaries(run.model(operator).read_bytes()))


def beside(
    shared: SharedCache,
    first: Moments,
    at: Operation,
    second: Moments,
    look: Callable[[], None] = lambda: None,
) -> tuple[Run, Run]:
    """Hold ``first`` before an operation while ``second`` does all of its work. Returns both runs.

    If ``second`` has to wait for a lock that ``first`` may hold, both go on as soon as ``second``
    is about to take it. ``look`` is called while ``first`` is held.

    The check is skipped for a toolchain that locks by fcntl, on mounts that do not pass such locks
    to other mounts of this machine. Raises NotDecidable if ``first`` did not reach the operation.
    """
    if shared.profile is NodeProfile.NFS_DEFAULT and first.locks_by_fcntl:
        pytest.skip(
            "it locks by fcntl, which these mounts grant to everybody; nfs-nolock judges that"
        )
    first.reset()
    with first.held(at) as one:
        look()
        waits = second.locks[0] if second.locks else None
        if shared.locks_wait and waits is not None and first.is_locked(at):
            with second.held(waits, may_end=True) as other:
                other.release()
                one.release()
                return one.result(), other.result()
        done = second.run()
        one.release()
        return one.result(), done


def recovers(
    shared: SharedCache, operator: OperatorSpec, cache: CacheUnderTest | None = None
) -> str:
    """What is wrong with the next two compiles of an operator; empty for nothing.

    Both have to deliver right kernels, and the second has to reuse, unless the nodes have no locks:
    then nothing need be stored. ``cache`` is the directory as a node sees it, by default the
    directory itself.
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
