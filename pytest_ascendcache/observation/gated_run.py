"""The record of one process of a toolchain."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.contract.facts import Ending
from pytest_ascendcache.toolchains import CompileResult, ConvertResult, TrainResult

Result = TypeVar("Result")
Looked = Mapping[Path, Snapshot]
"""Directories whose state was asked for, each as it was. A look reads every file in them."""


FROM_OUTSIDE = frozenset({-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP})
"""Signals that other processes send. Any other signal is a crash."""
_BY_A_SHELL = frozenset(
    128 + each
    for each in (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
)
"""Exit statuses by which a shell, docker or ssh tells that what it ran crashed."""


def crashed(status: int) -> bool:
    """Whether an exit status, negative for a signal, is that of a crash."""
    return status in _BY_A_SHELL or (status < 0 and status not in FROM_OUTSIDE)


class ProcessKind(str, Enum):
    """What a process is."""

    COMPILE = "compile"
    RANK = "rank"
    STATIC = "static"
    CONVERSION = "conversion"
    SCRIPT = "script"
    KERNEL = "kernel"  # runs what was compiled; not counted among the runs of the compiler


@dataclass(frozen=True)
class ByHand:
    """What a process is that no request of a toolchain describes: a command line and its working
    directory."""

    command: str
    work: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GatedRun(Generic[Result]):
    """One process of a toolchain.

    ``number`` counts the runs of its check from 1; it is 0 for a kernel that was only run.
    ``before`` and ``after`` have the directories that were looked at, with modes, owners and
    digests; processes started together share both. ``status`` is the exit status, negative for a
    signal, None if the process was killed because it did not end. ``asleep`` are the seconds in
    which it used no processor though it could have: one that is starved is not asleep. ``named``
    are files of the user that its request names, with their digests before it, ``beside`` the names
    that were in the working directory of a compile that was started alone.
    """

    number: int
    kind: ProcessKind
    request: Any
    result: Result
    status: int | None
    delivered: tuple[Path, ...] = ()
    before: Looked = field(default_factory=dict)
    after: Looked = field(default_factory=dict)
    asleep: float = 0.0
    named: Mapping[Path, str] = field(default_factory=dict)
    beside: frozenset[str] | None = None

    @property
    def accident(self) -> Ending | None:
        """Whether it crashed or did not end, for no reason that its request gives."""
        if getattr(self.request, "plan", None) is not None:
            return None
        if self.status is None:
            return Ending.NO_END
        return Ending.CRASH if crashed(self.status) else None


def look(*directories: Path) -> Looked:
    """The current state of directories."""
    return {directory: Snapshot.take(directory) for directory in directories}


def run_of(
    number: int,
    kind: ProcessKind,
    request: Any,
    result: Any,
    before: Looked,
    after: Looked,
    named: Mapping[Path, str] | None = None,
    beside: frozenset[str] | None = None,
) -> GatedRun[Any]:
    """The record of a process that a request of the toolchain describes."""
    delivered: tuple[Path | None, ...] = ()
    if isinstance(result, CompileResult):
        delivered = result.delivered
    elif isinstance(result, ConvertResult):
        delivered = (result.model,)
    elif isinstance(result, TrainResult) and result.outputs is not None:
        delivered = (result.request.directory / "outputs.npz",)
    files, asleep = tuple(filter(None, delivered)), getattr(result, "asleep", 0.0)
    return GatedRun(
        *(number, kind, request, result, result.returncode, files, before, after, asleep),
        *(named or {}, beside),
    )
