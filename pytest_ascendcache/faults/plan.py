"""The fault to inject into one run of a command, and the routes by which it gets there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from pytest_ascendcache.faults.gate import FaultGate
from pytest_ascendcache.faults.trace import Act, Operation, TraceError, read_log


class Action(str, Enum):
    """What happens at the planned operation. ``TEAR`` kills in the middle of a write. ``SHORT``
    lets a write do half of its work, which is not an error. ``HOLD`` stops the process until its
    :class:`FaultGate` is opened."""

    RECORD = "record"
    KILL = "kill"
    TEAR = "tear"
    SHORT = "short"
    HOLD = "hold"
    ENOSPC = "ENOSPC"
    EIO = "EIO"
    EACCES = "EACCES"
    EROFS = "EROFS"


_MAKES = (Act.CREATE, Act.WRITE, Act.MAKE_DIRECTORY)
LASTING = {
    Action.ENOSPC: frozenset(_MAKES),
    Action.EROFS: frozenset(each for each in Act if each.changes or each is Act.TOUCH),
}
"""Errors that persist: they occur at the planned operation and at every later one of these
kinds."""


@dataclass(frozen=True)
class FaultPlan:
    """``action`` at operation ``at``. Every operation up to it is recorded in ``log``.

    Errors of :data:`LASTING` also occur at later operations, if the route can do that. ``behind``
    is the operation before ``at``, for a route that stops a process after an operation
    (``FaultRoute.holds_behind``). ``root`` is the directory the command works on, for an error of
    its whole file system.
    """

    log: Path
    action: Action = Action.RECORD
    at: Operation | None = None
    gate: FaultGate | None = None
    behind: Operation | None = None
    root: Path | None = None

    def __str__(self) -> str:
        return f"{self.action.value} at {self.at}"


class FaultRoute(Protocol):
    """How faults get into a command that is unaware of them."""

    @property
    def actions(self) -> frozenset[Action]:
        """The actions this route can carry out."""

    @property
    def holds_behind(self) -> bool:
        """Whether it stops a process right after an operation, rather than before one."""

    @property
    def most_states(self) -> int | None:
        """How many states of one kind to try; None for all of them."""

    def command(
        self, plan: FaultPlan, program: str, arguments: Sequence[str]
    ) -> tuple[str, list[str]]:
        """The program and arguments to start in place of these."""

    def operations(self, plan: FaultPlan, root: Path) -> tuple[Operation, ...]:
        """What a run did below ``root``, in order. Raises ``TraceError`` if its record cannot be
        read."""

    def verify(self, plan: FaultPlan, root: Path, returncode: int | None) -> None:
        """Check that the fault occurred where it was planned. Raises ``TraceError`` if it did not.
        Nothing can be concluded from such a run."""


@dataclass(frozen=True)
class FaultPoints:
    """Named points in the command itself: its program ``faulty-<name>`` takes the plan as first
    argument. ``reference.faulty`` documents the format."""

    actions: frozenset[Action] = frozenset(Action)
    holds_behind: bool = False
    most_states: int | None = None

    def command(
        self, plan: FaultPlan, program: str, arguments: Sequence[str]
    ) -> tuple[str, list[str]]:
        fields: dict[str, object] = {"log": str(plan.log)}
        if plan.at is not None:
            fields |= {"point": plan.at.point, "nth": plan.at.nth, "do": plan.action.value}
        if plan.action in LASTING:
            fields["acts"] = sorted(each.value for each in LASTING[plan.action])
        if plan.gate is not None:
            fields |= {"reached": str(plan.gate.reached), "go": str(plan.gate.go)}
        return f"faulty-{program}", [json.dumps(fields), *arguments]

    def operations(self, plan: FaultPlan, root: Path) -> tuple[Operation, ...]:
        return read_log(plan.log, root)

    def verify(self, plan: FaultPlan, root: Path, returncode: int | None) -> None:
        if plan.at is None:
            return
        where = (plan.at.point, plan.at.nth)
        if where not in {(each.point, each.nth) for each in self.operations(plan, root)}:
            raise TraceError(f"{plan}: this run did not reach it")
        if plan.action in (Action.KILL, Action.TEAR) and returncode != -9:
            raise TraceError(f"{plan}: the process was not killed; it ended with {returncode}")
