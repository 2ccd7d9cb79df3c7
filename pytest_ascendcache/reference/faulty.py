"""Starts a command of the reference with a planned fault.

``python -m pytest_ascendcache.reference.faulty atc PLAN [ARGUMENTS]``. The plan is JSON:

=========== ==================================================================================
``log``     a file; gets one JSON line for each file operation, right before the operation
``point``   name of the operation at which the fault strikes; without it there is no fault
``nth``     which of the operations of that name, counted from 0
``do``      ``kill``, ``tear`` (half of a write, then kill), ``short`` (half of a write is
            done, the rest has to be written again), ``hold``, or an errno by name
``acts``    errors only: from there on every operation of these kinds fails
``reached`` ``hold`` only: a FIFO to which the process writes when it stops there
``go``      ``hold`` only: a FIFO; a byte lets the process go on, ``k`` or its end kills it
=========== ==================================================================================

Faults strike through :attr:`Fs.watch`; nothing here decides anything about a cache.
"""

from __future__ import annotations

import base64
import errno
import itertools
import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_ascendcache.reference import atc, train
from pytest_ascendcache.reference.cache.fs import FileAct, FileStep
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel import installer, op_compiler
from pytest_ascendcache.reference.static_kernel.client import command

Program = Callable[[Sequence[str], Mapping[str, str]], int]
PolicyProgram = Callable[[Sequence[str], Mapping[str, str], Policies], int]


class PlannedFault:
    """Logs every file operation of a process and strikes at the planned one."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._log = os.open(plan["log"], flags, 0o600)
        self._at = (plan.get("point"), plan.get("nth"))
        self._do = str(plan.get("do", ""))
        self._acts = frozenset(plan.get("acts", ()))
        self._go = self._reached = -1
        if "go" in plan:
            # Both stay open until the process ends, so that each side sees the end of the other.
            # Opening does not block, because the other side may already have ended.
            self._go = os.open(plan["go"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.set_blocking(self._go, True)
            self._reached = os.open(plan["reached"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._numbers = itertools.count()
        self._passed: Counter[str] = Counter()
        self._struck = False
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._dies = False

    def __call__(self, step: FileStep) -> None:
        """Called before each operation."""
        if self._dies:
            os.kill(os.getpid(), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        nth = self._passed[step.point]
        self._passed[step.point] += 1
        self._note(nth, step)
        if self._strikes(nth, step):
            self._strike(step)

    def _note(self, nth: int, step: FileStep) -> None:
        line = {
            "number": next(self._numbers),
            "nth": nth,
            "point": step.point,
            "act": step.act.value,
            "path": str(step.path),
            "data": base64.b64encode(step.data).decode(),
            "offset": step.offset,
            "target": None if step.target is None else str(step.target),
        }
        os.write(self._log, json.dumps(line).encode() + b"\n")

    def _strikes(self, nth: int, step: FileStep) -> bool:
        here = self._at == (step.point, nth)
        self._struck = self._struck or here
        return self._struck and step.act.value in self._acts if self._acts else here

    def _strike(self, step: FileStep) -> None:
        if self._do == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._do in ("tear", "short"):
            if step.act is not FileAct.WRITE:
                raise ValueError(f"'{self._do}' is for writes, not for {step.point}")
            # The kernel cuts the write short; Python ignores SIGXFSZ.
            half = step.offset + len(step.data) // 2
            resource.setrlimit(resource.RLIMIT_FSIZE, (half, self._limits[1]))
            self._dies = self._do == "tear"
        elif self._do == "hold":
            self._hold()
        else:
            code = getattr(errno, self._do)
            raise OSError(code, os.strerror(code), str(step.path))

    def _hold(self) -> None:
        os.write(self._reached, b"here")
        if os.read(self._go, 1) in (b"", b"k"):
            os.kill(os.getpid(), signal.SIGKILL)


def faulty(run: PolicyProgram, policies: Callable[[], Policies] = Policies) -> Program:
    """A program that takes a plan as its first argument and fails as planned."""

    def program(argv: Sequence[str], environ: Mapping[str, str]) -> int:
        plan, *arguments = argv
        made = policies()
        made.fs.watch = PlannedFault(json.loads(plan))
        return run(arguments, environ, made)

    return program


def install(argv: Sequence[str], environ: Mapping[str, str], policies: Policies) -> int:
    """Like :func:`installer.run`. ``argv`` is a package, then its command line."""
    return installer.run(argv, environ, policies.static_kernel.registry, policies.fs)


PROGRAMS: dict[str, PolicyProgram] = {
    "atc": atc.run,
    "train": train.run,
    "op-compiler": op_compiler.run,
    "installer": install,
    "aclgraph": command.run,
}
"""The commands that take policies, by name."""


def main() -> int:
    """Entry point."""
    name, *arguments = sys.argv[1:]
    return faulty(PROGRAMS[name])(arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main())
