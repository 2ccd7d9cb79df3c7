"""A user's own script that compiles static kernels with TorchAir, on one card or several.

Source: document K; facts ``static-kernel`` sections 1 and 4.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.faults import find_strace
from pytest_ascendcache.processes.launch import Command, ProcessLauncher, Running, end_all
from pytest_ascendcache.processes.sleeping import UNWATCHED, wait_its_time, wait_until
from pytest_ascendcache.toolchains.protocol import BaseToolchain

_CLEANED = ("GROUP_", "LOCAL_", "MASTER_", "RANK", "ROLE_", "TORCHELASTIC_", "WORLD_")
"""Prefixes of variables that decide which cards wait for each other."""

COMPILER = "op_compiler"

_LOOK = 0.2
"""Seconds between two looks at a directory: the processes that write to it take minutes."""

_OPENED = re.compile(
    r'(?P<moment>\d+\.\d+) openat\([^,]*, "(?P<path>[^"]+)", (?P<flags>\w+).* = \d+$'
)


@dataclass(frozen=True)
class Opening:
    """A file that was opened, and when (``moment``, seconds of the system's clock)."""

    moment: float
    path: Path
    to_read: bool


@dataclass(frozen=True)
class Card:
    """One card of several that are started one by one.

    ``local_world_size`` is the value of ``LOCAL_WORLD_SIZE``; None leaves it unset.
    ``has_compiler`` says whether ``op_compiler`` is on the card's PATH. strace records in
    ``opened`` which files the card's own process opens, and when.
    """

    local_world_size: str | None
    has_compiler: bool = True
    opened: Path | None = None

    def openings(self) -> list[Opening]:
        """The files the card's own process opened, in order."""
        if self.opened is None or not self.opened.exists():
            return []
        matches = map(_OPENED.match, self.opened.read_text(errors="replace").splitlines())
        return [
            Opening(float(each["moment"]), Path(each["path"]), each["flags"] == "O_RDONLY")
            for each in matches
            if each
        ]


@dataclass(frozen=True)
class ScriptRun:
    """How the processes of one run ended, and the ``seconds`` that took. An exit status is negative
    for a signal, and None if the process was killed at the deadline."""

    work: Path
    commands: tuple[str, ...]
    returncodes: tuple[int | None, ...]
    outputs: tuple[str, ...]
    seconds: float

    @property
    def succeeded(self) -> bool:
        """Whether every process reports success."""
        return set(self.returncodes) == {0}

    @property
    def output(self) -> str:
        """The output of all processes."""
        return "\n".join(self.outputs)

    @property
    def ending(self) -> str:
        """How the processes ended, in words."""
        return "ended with exit status " + ", ".join(map(str, self.returncodes))


@dataclass(frozen=True)
class Started:
    """The processes of one run. They must be waited for."""

    work: Path
    running: tuple[Running, ...]
    commands: tuple[str, ...]
    deadline: float

    def wait(
        self, patience: float | None = None, enough: Callable[[Path], bool] | None = None
    ) -> ScriptRun:
        """Wait for every process to end, for ``patience`` seconds or else ``deadline``. The
        processes are killed as soon as ``enough`` returns True for their working directory."""
        began = time.monotonic()
        patience = self.deadline if patience is None else patience
        if enough is not None:
            wait_until(lambda: self._have_ended or enough(self.work), patience, _LOOK)
            patience = patience if self._have_ended else 0.0
        ended = []
        for each in self.running:
            how, _ = wait_its_time(each, patience, unwatched=UNWATCHED)
            ended.append(how)
            patience = min(patience, UNWATCHED) if how.returncode is None else patience
        return ScriptRun(
            self.work,
            self.commands,
            tuple(each.returncode for each in ended),
            tuple(each.output for each in ended),
            time.monotonic() - began,
        )

    @property
    def _have_ended(self) -> bool:
        return all(each.has_ended for each in self.running)


class TorchairToolchain(BaseToolchain):
    """Runs the script. ``cards`` is how many cards checks of several cards use; one run may take
    ``deadline`` seconds."""

    name = "torchair"
    capabilities = frozenset()

    def __init__(self, script: Path, cards: int, deadline: float) -> None:
        self.script = script
        self.cards = cards
        self.version = f"script {script}"
        self._deadline = deadline
        self._torchrun = shutil.which("torchrun")
        programs: dict[str, tuple[str, ...]] = {"python": (sys.executable, str(script))}
        if self._torchrun is not None:
            programs["torchrun"] = (self._torchrun,)
        strace = find_strace()
        self.traces = strace is not None
        """Whether the files a card opens can be recorded."""
        if strace is not None:
            programs["strace"] = (str(strace), "-qq", "-ttt", "-e", "trace=openat")
        self._launcher = ProcessLauncher(programs)

    @property
    def opp(self) -> Path | None:
        """The operator package that packages are installed into, or None if it is not known."""
        named = os.environ.get("ASCEND_OPP_PATH")
        return Path(named) if named else None

    @property
    def compiler(self) -> str | None:
        """The ``op_compiler`` on PATH."""
        return shutil.which(COMPILER)

    @contextlib.contextmanager
    def started(
        self, work: Path, port: int, cards: int | Sequence[Card], first_on_path: Path | None
    ) -> Iterator[Started]:
        """Run the script in ``work``, on cards that meet at ``port``. Processes that nobody waits
        for are killed. A number of cards is started by ``torchrun`` if it is installed; a sequence
        of cards never is. Raises ``ToolchainError`` if it cannot be started."""
        base = {key: value for key, value in os.environ.items() if not key.startswith(_CLEANED)}
        if first_on_path is not None:
            base["PATH"] = f"{first_on_path}{os.pathsep}{base['PATH']}"
        running: list[Running] = []
        commands: list[str] = []
        try:
            for program, arguments, environment in self._processes(base, port, cards):
                running.append(self._launcher.start(Command(program, arguments, environment, work)))
                commands.append(self._shown(program, arguments, environment, work))
            yield Started(work, tuple(running), tuple(commands), self._deadline)
        finally:
            end_all(running)

    def _processes(
        self, base: Mapping[str, str], port: int, cards: int | Sequence[Card]
    ) -> Iterator[tuple[str, list[str], dict[str, str]]]:
        if isinstance(cards, int) and cards > 1 and self._torchrun is not None:
            options = [f"--nproc-per-node={cards}", f"--master-port={port}", str(self.script)]
            yield "torchrun", options, dict(base)
            return
        if isinstance(cards, int):
            cards = [Card(str(cards))] * cards
        for rank, card in enumerate(cards):
            environment = dict(base)
            if len(cards) > 1:
                environment.update(_place(rank, len(cards), port))
                if card.local_world_size is not None:
                    environment["LOCAL_WORLD_SIZE"] = card.local_world_size
            if not card.has_compiler:
                environment["PATH"] = _without_compiler(base["PATH"])
            if card.opened is None:
                yield "python", [], environment
            else:
                traced = [sys.executable, str(self.script)]
                yield "strace", ["-o", str(card.opened), *traced], environment

    def _shown(
        self, program: str, arguments: list[str], environment: Mapping[str, str], work: Path
    ) -> str:
        shown = [
            f"{name}={environment[name]}"
            for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
            if name in environment
        ]
        command = shlex.join([*shown, *self._launcher.argv(program, arguments)])
        return f"cd {shlex.quote(str(work))} && {command}"


def _place(rank: int, world: int, port: int) -> dict[str, str]:
    """The variables that torchrun sets for one card, except ``LOCAL_WORLD_SIZE``."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _without_compiler(path: str) -> str:
    kept = [each for each in path.split(os.pathsep) if not Path(each, COMPILER).exists()]
    return os.pathsep.join(kept)
