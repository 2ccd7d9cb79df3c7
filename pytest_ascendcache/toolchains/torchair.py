"""A user's own script that compiles static kernels with TorchAir, on one card or several.

Source: document K; facts ``static-kernel`` sections 1 and 4.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.launch import ProcessLauncher, Running
from pytest_ascendcache.toolchains.base import BaseToolchain

_CLEANED = ("GROUP_", "LOCAL_", "MASTER_", "RANK", "ROLE_", "TORCHELASTIC_", "WORLD_")
"""Variables that say who waits for whom, by their beginnings."""

_NOTING = """\
#!/bin/sh
echo "${{RANK:-session-$(cut -d ' ' -f 6 /proc/self/stat)}}" >> {log}
exec {program} "$@"
"""


@dataclass(frozen=True)
class ScriptRun:
    """How the processes of one run ended: exit status, negative for a signal, ``None`` where the
    deadline (seconds) passed. ``callers`` are the cards that called ``op_compiler``, in order:
    by rank, or by session where they have none; ``None`` where there is no ``op_compiler`` on
    PATH, so that nobody can be seen calling it."""

    work: Path
    commands: tuple[str, ...]
    returncodes: tuple[int | None, ...]
    outputs: tuple[str, ...]
    callers: tuple[str, ...] | None

    @property
    def succeeded(self) -> bool:
        """Whether every process says so."""
        return set(self.returncodes) == {0}

    @property
    def ending(self) -> str:
        """How the processes ended, in words."""
        return "ended with exit status " + ", ".join(map(str, self.returncodes))


class TorchairToolchain(BaseToolchain):
    """Runs the script; ``cards`` is how many there are where a check is about several.

    ``deadline`` is the time in seconds one run may take.
    """

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
        self._launcher = ProcessLauncher(programs)

    @property
    def opp(self) -> Path | None:
        """The operator package that packages are installed into, if that can be told."""
        named = os.environ.get("ASCEND_OPP_PATH")
        return Path(named) if named else None

    def run_script(
        self, work: Path, port: int, cards: int = 1, local_world_size: str | None = "fitting"
    ) -> ScriptRun:
        """Run it in ``work``, on so many cards that meet at ``port``.

        ``torchrun`` starts several cards where it is there; not where ``local_world_size`` is to
        be another than the number of cards, or ``None``: not given.

        Raises:
            ToolchainError: where it cannot be started.
        """
        fitting = local_world_size == "fitting"
        local = str(cards) if fitting else local_world_size
        base, log = self._environment(work)
        started: list[tuple[Running, str]] = []
        ended = []
        try:
            if cards > 1 and fitting and self._torchrun is not None:
                arguments = [f"--nproc-per-node={cards}", f"--master-port={port}", str(self.script)]
                started.append(self._start("torchrun", arguments, base, work))
            else:
                for rank in range(cards):
                    variables = _card(rank, cards, port, local) if cards > 1 else {}
                    started.append(self._start("python", [], {**base, **variables}, work))
            deadline = time.monotonic() + self._deadline
            for running, _ in started:
                ended.append(running.wait(deadline))
        finally:
            for running, _ in started[len(ended) :]:
                with contextlib.suppress(ToolchainError, OSError, ValueError):
                    running.wait(0.0)
        callers: tuple[str, ...] | None = None
        if log is not None:
            callers = tuple(log.read_text().split()) if log.exists() else ()
        return ScriptRun(
            work,
            tuple(command for _, command in started),
            tuple(each.returncode for each in ended),
            tuple(each.output for each in ended),
            callers,
        )

    def _start(
        self, program: str, arguments: list[str], environment: Mapping[str, str], work: Path
    ) -> tuple[Running, str]:
        running = self._launcher.start(program, arguments, environment, work, None)
        shown = [
            f"{name}={environment[name]}"
            for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
            if name in environment
        ]
        command = shlex.join([*shown, *self._launcher.argv(program, arguments)])
        return running, f"cd {shlex.quote(str(work))} && {command}"

    def _environment(self, work: Path) -> tuple[dict[str, str], Path | None]:
        """The user's environment without other cards; and where calls of op_compiler are noted."""
        base = {key: value for key, value in os.environ.items() if not key.startswith(_CLEANED)}
        compiler = shutil.which("op_compiler")
        if compiler is None:
            return base, None
        noting = work.parent / f"{work.name}-bin"
        noting.mkdir()
        log = noting / "calls"
        script = noting / "op_compiler"
        text = _NOTING.format(log=shlex.quote(str(log)), program=shlex.quote(compiler))
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
        return {**base, "PATH": f"{noting}{os.pathsep}{base['PATH']}"}, log


def _card(rank: int, world: int, port: int, local: str | None) -> dict[str, str]:
    """What torchrun gives one card of a machine."""
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return variables if local is None else {**variables, "LOCAL_WORLD_SIZE": local}
