"""Whether a toolchain that records its own file operations, for states after a crash, records the
truth. strace sees a sync that it does not do, or a rename that it does not record, in one run of
each command: a store, force over an entry, an install and its uninstall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_ascendcache.conformance.kit.packages import operator
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, rule
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import Act, FaultPlan, Operation
from pytest_ascendcache.faults.trace import UNNAMED
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NotDecidable,
    Run,
    StaticKernelsUnderTest,
)
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain

_SYNCS = {Act.SYNC, Act.SYNC_DIRECTORY}
_NAMES = {Act.CREATE, Act.RENAME, Act.LINK, Act.REMOVE, Act.MAKE_DIRECTORY, Act.REMOVE_DIRECTORY}


_Judged = TypeVar("_Judged", CacheUnderTest, StaticKernelsUnderTest)


@dataclass(frozen=True)
class SyncWitness:
    """The toolchain, the same traced by strace, and the file that it then records into."""

    toolchain: Toolchain
    traced: Toolchain
    record: Path

    def judge(self, judged: _Judged, record: Callable[[_Judged], Interruption[Any]]) -> None:
        """Break the check if the record of one run has a sync that strace did not see. Raises
        ``NotDecidable`` if it lacks a change of names: then it is no evidence of anything. Later
        runs are not traced."""
        judged.toolchain = self.traced
        self.record.unlink(missing_ok=True)
        try:
            recorded = record(judged)
            claimed = self.toolchain.fault_route().operations(FaultPlan(self.record), recorded.root)
        finally:
            judged.toolchain = self.toolchain
        missing, hidden = _differences(claimed, recorded.operations)
        assert missing == []
        if hidden:
            raise NotDecidable(f"the record is not of all operations: {hidden[0]}")


@pytest.fixture
def witness(toolchain: Toolchain, tmp_path: Path) -> SyncWitness:
    """The toolchain with and without strace."""
    look = getattr(toolchain, "seen_by_strace", None)
    traced = look(tmp_path / "said") if look is not None else None
    if traced is None:
        pytest.skip(f"{toolchain.name}: it keeps no record of its own, or strace cannot be used")
    return SyncWitness(toolchain, traced, tmp_path / "said")


@rule("robust/power-loss")
def test_what_an_install_says_it_syncs_is_synced(
    kernels: StaticKernelsUnderTest, witness: SyncWitness
) -> None:
    package = kernels.package(operator("Abs"), name="pk")
    for doing in ("install", "uninstall"):
        record = partial(StaticKernelsUnderTest.interruption, package=package, doing=doing)
        witness.judge(kernels, record)


@rule("robust/power-loss")
def test_what_a_compile_says_it_syncs_is_synced(
    cache: CacheUnderTest, witness: SyncWitness, add: OperatorSpec
) -> None:
    for mode in (ENABLE, FORCE):  # force finds the entry that enable has stored

        def record(each: CacheUnderTest, mode: CacheMode = mode) -> Interruption[Run]:
            return each.interruption(add, mode=mode)

        witness.judge(cache, record)


def _differences(
    claimed: Sequence[Operation], done: Sequence[Operation]
) -> tuple[list[str], list[str]]:
    """Syncs that are recorded and not done, and changes of names that are done and not recorded."""
    given = {each.path: each.target for each in done if each.act is Act.LINK}
    named = [replace(each, path=given[each.path]) for each in done if each.path in given]
    missing = _of(claimed, _SYNCS) - _of([*done, *named], _SYNCS)
    # Opening a lock's file creates it, and is recorded as a lock.
    hidden = _of(done, _NAMES) - _of(claimed, _NAMES) - _of(claimed, {Act.LOCK}, Act.CREATE)
    return (
        [f"the sync of {path} is announced and not done" for _, path in sorted(missing)],
        [f"a {act} of {path} is done and not announced" for act, path in sorted(hidden)],
    )


def _of(
    operations: Iterable[Operation], acts: set[Act], called: Act | None = None
) -> Counter[tuple[str, str]]:
    """How often each path saw each of these acts. ``called`` is what to count them as."""
    return Counter(
        ("sync" if each.act in _SYNCS else (called or each.act).value, each.path)
        for each in operations
        if each.act in acts and not (each.act is Act.CREATE and each.path.endswith(UNNAMED))
    )
