"""One command, recorded once, then interrupted in every way: killed, torn, out of power, failed.

Generic over the command: what is started, and how it is asked whether it has recovered, is for
the user of :class:`Interruption` to say.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pytest_ascendcache.faults import (
    Action,
    CrashKind,
    CrashState,
    FaultPlan,
    FaultRoute,
    Gate,
    Operation,
    TraceError,
    Tree,
    after_all,
    crash_states,
)
from pytest_ascendcache.observation.evidence import NotDecidable


class Ended(Protocol):
    """How a started command ended; ``None`` where it had to be killed at its deadline."""

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal."""


Result = TypeVar("Result", bound=Ended)


class Interruption(Generic[Result]):
    """A command that works on the directory ``root``, from the state it is in now.

    ``start`` runs the command once under a plan and waits for it; ``logs`` is a directory for
    records. Making one runs the command once, to its end; ``root`` is left as the command left
    it, and every run after that starts from the state before.
    """

    def __init__(
        self, root: Path, logs: Path, route: FaultRoute, start: Callable[[FaultPlan], Result]
    ) -> None:
        self.root = root
        self._logs = logs
        self._route = route
        self._start = start
        self._numbers = count()
        logs.mkdir(parents=True)
        try:
            self.before = Tree.read(root)
            plan = FaultPlan(self._log())
            ended = start(plan)
            if ended.returncode != 0:
                raise NotDecidable(f"the recorded run ended with {ended.returncode}")
            self.operations = route.operations(plan, root)
            self._after = Tree.read(root)
        except TraceError as error:
            raise NotDecidable(str(error)) from None

    def states(self, kind: CrashKind) -> list[CrashState]:
        """What interruptions of one kind leave, each state once, rebuilt from the record.

        Raises:
            NotDecidable: where the record does not explain what the command did.
        """
        explained = after_all(self.before, self.operations)
        if explained.content != self._after.content:
            names = {name for name, *_ in explained.content ^ self._after.content}
            raise NotDecidable(
                "the record of file operations does not explain what the command left of "
                f"{', '.join(sorted(names))}"
            )
        return self._some(crash_states(self.before, self.operations, kind))

    def _some(self, states: list[CrashState]) -> list[CrashState]:
        most = self._route.most_states
        if most is None or len(states) <= most:
            return states
        return [states[index * len(states) // most] for index in range(most)]

    def enter(self, state: CrashState) -> None:
        """Put the directory into a state."""
        state.tree.write(self.root)

    def strike(self, action: Action, at: Operation) -> Result:
        """Really run the command from the state before, with a fault at one operation.

        Raises:
            NotDecidable: where the fault did not strike there.
        """
        self.before.write(self.root)
        plan = FaultPlan(self._log(), action, at)
        result = self._start(plan)
        try:
            self._route.verify(plan, self.root, result.returncode)
        except TraceError as error:
            raise NotDecidable(str(error)) from None
        return result

    def plan(self, action: Action, at: Operation, gate: Gate | None = None) -> FaultPlan:
        """A plan for a run that somebody else starts."""
        return FaultPlan(self._log(), action, at, gate)

    def gate(self) -> Gate:
        """A new gate for :attr:`Action.HOLD`."""
        return Gate(self._logs / f"gate{next(self._numbers)}")

    def _log(self) -> Path:
        return self._logs / f"operations{next(self._numbers)}"
