"""Crash states: what an interrupted command leaves, rebuilt from one record.

Each state costs only its recovery, not another run of the command. And some states never show when
a process is killed, because what it wrote survives in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_ascendcache.faults.trace import Act, Operation
from pytest_ascendcache.faults.tree import Replay, Tree


class CrashKind(str, Enum):
    """How a command is interrupted."""

    KILLED = "killed"
    MID_WRITE = "mid-write"
    POWER_LOSS = "power loss"
    INJECTED_ERROR = "injected error"


@dataclass(frozen=True)
class CrashState:
    """What is on disk after an interruption. ``when`` describes the moment in words."""

    kind: CrashKind
    when: str
    tree: Tree

    def __str__(self) -> str:
        return f"{self.kind.value} {self.when}"


def crash_states(
    before: Tree, operations: Sequence[Operation], kind: CrashKind
) -> list[CrashState]:
    """Every distinct state of one kind, in the order of the operations.

    ``KILLED`` applies the operations up to a moment. ``MID_WRITE`` also applies half of a write.
    ``POWER_LOSS`` loses unsynced data (the file is short, or has zeros) while names survive; or
    unsynced names; or the data of one file or one name alone, because nothing orders two unsynced
    changes. States that a simpler kind leaves too are left out, so each state shows which kind of
    interruption it needs.
    """
    kinds = list(_STATES)
    distinct: dict[frozenset[object], CrashState] = {}
    for each in kinds[: kinds.index(kind) + 1]:
        for state in _STATES[each](before, operations):
            distinct.setdefault(state.tree.content, state)
    return [state for state in distinct.values() if state.kind is kind]


def after_all(before: Tree, operations: Iterable[Operation]) -> Tree:
    """The tree after an undisturbed run."""
    replay = Replay(before)
    for operation in operations:
        replay.do(operation)
    return replay.tree()


def _killed(before: Tree, operations: Sequence[Operation]) -> Iterator[CrashState]:
    replay = Replay(before)
    for operation in operations:
        if operation.act.changes:
            yield CrashState(CrashKind.KILLED, f"before {operation}", replay.tree())
        replay.do(operation)
    yield CrashState(CrashKind.KILLED, "after the last operation", replay.tree())


def _mid_write(before: Tree, operations: Sequence[Operation]) -> Iterator[CrashState]:
    replay = Replay(before)
    for operation in operations:
        if operation.act is Act.WRITE and len(operation.data) > 1:
            yield CrashState(
                CrashKind.MID_WRITE, f"in the middle of {operation}", _torn(replay, operation)
            )
        replay.do(operation)


def _torn(replay: Replay, operation: Operation) -> Tree:
    inode = replay.names.get(operation.path)
    if inode is None:
        return replay.tree()
    before = inode.data
    inode.write(operation.data[: len(operation.data) // 2], operation.offset)
    tree = replay.tree()
    inode.data = before
    return tree


def _power_loss(before: Tree, operations: Sequence[Operation]) -> Iterator[CrashState]:
    replay = Replay(before)
    for operation in operations:
        replay.do(operation)
        if operation.act.changes:
            for loss, tree in _losses(replay).items():
                yield CrashState(CrashKind.POWER_LOSS, f"after {operation}, {loss}", tree)


def lost_when_done(before: Tree, operations: Iterable[Operation]) -> list[CrashState]:
    """Every distinct state of a power loss after an undisturbed run, also those that a kill during
    the run leaves: by then the run has reported success."""
    replay = Replay(before)
    for operation in operations:
        replay.do(operation)
    distinct = {tree.content: (loss, tree) for loss, tree in _losses(replay).items()}
    return [
        CrashState(CrashKind.POWER_LOSS, f"after it ended, {loss}", tree)
        for loss, tree in distinct.values()
    ]


def _losses(replay: Replay) -> dict[str, Tree]:
    """What a power loss may leave now, by what is lost."""
    undurable = [each for each in replay.changes if not each.durable]
    losses = {
        "un-synced data gone": replay.without(),
        "un-synced data zero": replay.without(zeros=True),
        "un-synced names gone": replay.without(undurable),
    }
    for name, inode in replay.unsynced.items():
        losses[f"un-synced data of {name} gone"] = replay.without(lost=inode)
    for change in undurable:
        if change.operation.act not in (Act.CREATE, Act.LOCK, Act.MAKE_DIRECTORY):
            losses[f"{change.operation} undone"] = replay.without((change,))
    return losses


_States = Callable[[Tree, Sequence[Operation]], Iterator[CrashState]]
_STATES: dict[CrashKind, _States] = {  # the simplest first
    CrashKind.KILLED: _killed,
    CrashKind.MID_WRITE: _mid_write,
    CrashKind.POWER_LOSS: _power_loss,
}
