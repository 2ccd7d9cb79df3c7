"""Records one command, then interrupts it in every way: killed, torn, out of power, failed.

This works for any command. The user of :class:`Interruption` provides how to start it and how to
check its recovery.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pytest_ascendcache.faults import (
    Action,
    CrashKind,
    CrashState,
    FaultGate,
    FaultPlan,
    FaultRoute,
    Operation,
    TraceError,
    Tree,
    after_all,
    crash_states,
    lost_when_done,
)
from pytest_ascendcache.observation.evidence import NotDecidable


class EndedCommand(Protocol):
    """How a started command ended."""

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None if it was killed at its deadline."""


Result = TypeVar("Result", bound=EndedCommand)
Met = TypeVar("Met")
Case = TypeVar("Case")

_PATIENCE = 60.0
"""Seconds a command may take to reach an operation on a busy machine."""

_STRIKES = 3
"""Runs until a fault occurs where it was planned: a command may do other calls in each run."""

_TRIES = 0.2
"""Seconds after which a command has found a lock taken. No verdict depends on this: a slower one
finds the lock free."""


class Interruption(Generic[Result]):
    """A command that works on the directory ``root``, starting from the directory's current state.

    ``start`` runs the command once under a plan and waits for it; ``logs`` is a directory for
    records; ``entered`` is told of each state of a crash. The constructor runs the command to its
    end, ``undisturbed``, and leaves ``root`` as the command does. Every later run starts from the
    recorded state.
    """

    def __init__(
        self,
        root: Path,
        logs: Path,
        route: FaultRoute,
        start: Callable[[FaultPlan], Result],
        entered: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self._logs = logs
        self._route = route
        self._start = start
        self._entered = entered
        self._numbers = count()
        logs.mkdir(parents=True)
        try:
            self.before = Tree.read(root)
            plan = FaultPlan(self._log())
            started = time.monotonic()
            self.undisturbed = start(plan)
            self._takes = time.monotonic() - started
            if self.undisturbed.returncode != 0:
                raise NotDecidable(f"the recorded run ended with {self.undisturbed.returncode}")
            self.operations = route.operations(plan, root)
            self._after = Tree.read(root)
        except TraceError as error:
            raise NotDecidable(str(error)) from None

    def states(self, kind: CrashKind) -> list[CrashState]:
        """The distinct states that interruptions of one kind leave, rebuilt from the record. Raises
        ``NotDecidable`` if the record does not explain what the command did."""
        explained = after_all(self.before, self.operations)
        if explained.content != self._after.content:
            names = {name for name, *_ in explained.content ^ self._after.content}
            raise NotDecidable(
                "the record of file operations does not explain what the command left of "
                f"{', '.join(sorted(names))}"
            )
        return self.worthwhile(crash_states(self.before, self.operations, kind))

    def lost_when_done(self) -> list[CrashState]:
        """The distinct states that a power loss leaves after the command has ended well."""
        return self.worthwhile(lost_when_done(self.before, self.operations))

    def worthwhile(self, cases: list[Case]) -> list[Case]:
        """All of these, or, for a slow toolchain, an even selection."""
        most = self._route.most_states
        return cases if most is None else spread(cases, most)

    def enter(self, state: CrashState) -> None:
        """Bring the directory into a state."""
        state.tree.write(self.root)
        self._entered()

    def strike(self, action: Action, at: Operation) -> Result:
        """Run the command from the recorded state, with a fault at one operation. A command that
        does other work in another run is tried a few times, with the number that the operation had
        last. Raises ``NotDecidable`` if the fault did not occur there."""
        aimed = at
        for left in reversed(range(_STRIKES)):
            self.reset()
            plan = FaultPlan(self._log(), action, aimed, root=self.root)
            result = self._start(plan)
            try:
                self._route.verify(plan, self.root, result.returncode)
                break
            except TraceError as error:
                if not left:
                    raise NotDecidable(str(error)) from None
                with suppress(TraceError):
                    aimed = self._counterpart(at, self._route.operations(plan, self.root))
        return result

    def _counterpart(self, at: Operation, others: tuple[Operation, ...]) -> Operation:
        """The operation of another run that is of the same kind, in the same directory, and as far
        from the last one of these; ``at`` if there is none."""

        def alike(each: Operation) -> bool:
            same = (each.act, each.point) == (at.act, at.point)
            return same and Path(each.path).parent == Path(at.path).parent

        of_record = [each.nth for each in self.operations if alike(each)]
        behind = sum(nth > at.nth for nth in of_record)
        found = sorted(filter(alike, others), key=lambda each: each.nth)
        return found[-1 - behind] if at in self.operations and behind < len(found) else at

    def reset(self) -> None:
        """Bring the directory into the state before the command."""
        self.before.write(self.root)

    @property
    def holdable(self) -> tuple[Operation, ...]:
        """The operations before which the command can be stopped. If one system call does several,
        this is the first."""
        once = {each.number: each for each in self.operations[::-1]}
        ordered = tuple(once[number] for number in sorted(once))
        return ordered[1:] if self._route.holds_behind else ordered

    def held(self, at: Operation, may_end: bool = False) -> Held[Result]:
        """Start the command in the directory's current state, and stop it before an operation.
        ``may_end`` allows it to end without reaching the operation. Raises ``NotDecidable`` if it
        does not reach the operation although it must."""
        gate = FaultGate(self._logs / f"gate{next(self._numbers)}")
        before = [each for each in self.operations if each.number < at.number]
        behind = before[-1] if before else None
        held = Held(self._start, FaultPlan(self._log(), Action.HOLD, at, gate, behind), gate)
        if not held.stands and not may_end:
            held.__exit__()
            held.result()  # raises the reason if it could not be started
            raise NotDecidable(f"held at {at}: the run did not reach it")
        return held

    def meets(self, at: Operation, other: Callable[[], Met]) -> tuple[Result, Met]:
        """Hold the command before an operation while another does all of its work. Returns both
        results.

        The other may have to wait for the command, by a lock of whatever kind: the command goes on
        when the other has not ended in the time that it takes itself, and some more.
        """
        with self.held(at) as one, ThreadPoolExecutor(1) as pool:
            second = pool.submit(other)
            wait([second], 2 * self._takes + _TRIES)
            one.release()
            return one.result(), second.result()

    def _log(self) -> Path:
        return self._logs / f"operations{next(self._numbers)}"


def spread(cases: list[Case], most: int) -> list[Case]:
    """At most this many cases, evenly selected, including the first and the last."""
    if len(cases) <= most:
        return cases
    last = len(cases) - 1
    return [cases[index * last // (most - 1)] for index in range(most)]


class Held(Generic[Result]):
    """A command that is stopped right before one of its operations. Leaving the ``with`` block
    kills it if it is still stopped."""

    def __init__(
        self, start: Callable[[FaultPlan], Result], plan: FaultPlan, gate: FaultGate
    ) -> None:
        self._gate = gate
        self._pool = ThreadPoolExecutor(1)
        self._result = self._pool.submit(start, plan)
        self._result.add_done_callback(lambda _: gate.abandon())
        self.stands = self._gate.wait(time.monotonic() + _PATIENCE)

    def __enter__(self) -> Held[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._gate.close()
        self._pool.shutdown()

    def release(self) -> None:
        """Let it continue."""
        self._gate.release()

    def ends_within(self, seconds: float) -> bool:
        """Wait for it to end; return whether it did. One that was released may be waiting for a
        lock."""
        return self._result in wait([self._result], seconds).done

    def kill(self) -> None:
        """Kill it with SIGKILL where it is stopped."""
        self._gate.kill()

    def result(self) -> Result:
        """How it ended. Release or kill it first."""
        return self._result.result()


def standing(start: Callable[[], Result], gate: FaultGate) -> Held[Result]:
    """A command that something else stops at a gate. It may also end without reaching it."""
    return Held(lambda _: start(), FaultPlan(gate.reached.with_name("plan")), gate)
