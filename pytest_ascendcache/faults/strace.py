"""Faults in any command, through strace: recorded, planned, injected and verified.

A read-only file system is a real one (``faults.read_only``) and needs no strace.

Source: facts ``feasibility`` section 2. Never use ``--seccomp-bpf``: with it strace 6.1 silently
drops injected signals. Therefore the log of every run is searched for the planned fault.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.faults import read_only
from pytest_ascendcache.faults.plan import Action, FaultPlan
from pytest_ascendcache.faults.syscalls import TRACED, UNSEEN, operations, read_calls
from pytest_ascendcache.faults.trace import Operation, TraceError
from pytest_ascendcache.processes.launch import tried

_HOLDING = Path(__file__).with_name("holding.py")

_LONGEST_WRITE = 1 << 28
"""Bytes of one write that are recorded."""

_SELF_TEST_PATIENCE = 20.0


SINGLE_CALLS = frozenset(
    {Action.RECORD, Action.KILL, Action.HOLD, Action.ENOSPC, Action.EIO, Action.EACCES}
)
"""Actions that affect one system call."""


def _actions() -> frozenset[Action]:
    return SINGLE_CALLS | {Action.EROFS} if read_only.works() else SINGLE_CALLS


@dataclass(frozen=True)
class Strace:
    """Starts a command under strace. ``argv`` makes the command line of a program."""

    argv: Callable[[str, Sequence[str]], tuple[str, ...]]
    actions: frozenset[Action] = field(default_factory=_actions)
    holds_behind: bool = True
    most_states: int | None = 8

    def command(
        self, plan: FaultPlan, program: str, arguments: Sequence[str]
    ) -> tuple[str, list[str]]:
        command = self.argv(program, arguments)
        if plan.action is Action.EROFS and plan.root is not None:
            return read_only.command(plan.root, plan.log, command)
        if plan.action is not Action.HOLD or plan.gate is None:
            return "strace", [*_options(plan.log), *_injection(plan), "--", *command]
        fifo = plan.gate.reached.with_name("strace")
        places = (plan.gate.reached, plan.gate.go, plan.log, fifo)
        traced = ["strace", *_options(fifo), *_injection(plan), "--", *command]
        return sys.executable, ["-I", str(_HOLDING), *map(str, places), *traced]

    def operations(self, plan: FaultPlan, root: Path) -> tuple[Operation, ...]:
        return tuple(operations(read_calls(plan.log), root))

    def verify(self, plan: FaultPlan, root: Path, returncode: int | None) -> None:
        if plan.at is None:
            return
        if plan.action is Action.EROFS:
            if not read_only.was_read_only(plan.log):
                raise TraceError(f"{root} could not be mounted read-only")
            return
        where = (root / plan.at.path).parent
        for call in read_calls(plan.log):
            if (call.name, call.nth) == (plan.at.point, plan.at.nth) and call.interfered:
                # Temporary names differ between runs; their directory does not.
                if where not in {path.parent for path in (*call.paths, *call.places)}:
                    raise TraceError(f"{plan}: this run had another call in its place")
                break
        else:
            raise TraceError(f"{plan}: this run did not reach it, or was not affected")
        if plan.action is Action.KILL and returncode in (0, None):
            raise TraceError(f"{plan}: the process was not killed; it ended with {returncode}")


def _options(log: Path) -> list[str]:
    # The question mark allows names that this machine has no call for.
    traced, unseen = (",".join(f"?{each}" for each in calls) for calls in (TRACED, UNSEEN))
    return [
        *("-f", "-qq", "-y", "-xx"),
        *("-s", str(_LONGEST_WRITE), "-o", str(log), "-e", f"trace={traced},{unseen}"),
        *("-e", f"inject={unseen}:error=ENOSYS"),
    ]


def _injection(plan: FaultPlan) -> list[str]:
    if plan.action is Action.HOLD and plan.behind is not None:
        return _injected(plan.behind, "signal=STOP")
    if plan.at is None or plan.action is Action.HOLD:
        return []
    # Only once, even for a lasting error: later calls of that name may concern other disks.
    what = "signal=KILL" if plan.action is Action.KILL else f"error={plan.action.value}"
    return _injected(plan.at, what)


def _injected(at: Operation, what: str) -> list[str]:
    """The options that inject a fault at one operation. ``when`` counts in each process separately
    and would strike in each; a path excludes the others."""
    only = ["-P", at.aim] if at.aim else []
    return [*only, "-e", f"inject={at.point}:{what}:when={at.nth + 1}"]


def find_strace() -> str | None:
    """The strace of this machine, if it can record a process and kill it at a planned call."""
    program = shutil.which("strace")
    return program if program and _works(program) else None


def _works(program: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="ascendcache-strace-") as name:
        target, log = Path(name, "target"), Path(name, "log")
        command = [
            *(program, *_options(log), "-e", "inject=write:signal=KILL:when=1"),
            *("--", "/bin/sh", "-c", 'echo words > "$0"', str(target)),
        ]
        ended = tried(command, _SELF_TEST_PATIENCE)
        try:
            calls = read_calls(log)
        except TraceError:
            return False
        created = any(call.name in ("open", "openat") and target in call.paths for call in calls)
        if ended is None or ended.returncode == 0 or not created:
            return False
        return not target.read_bytes()
