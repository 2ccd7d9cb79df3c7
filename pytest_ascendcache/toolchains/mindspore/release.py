"""What the adapters of MindSpore have in common: scripts that a release's own Python runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.faults import FaultRoute
from pytest_ascendcache.processes.forked import ForkLauncher
from pytest_ascendcache.processes.launch import Launcher, ToolchainError
from pytest_ascendcache.toolchains.atc import with_strace
from pytest_ascendcache.toolchains.mindspore import forkserver
from pytest_ascendcache.toolchains.protocol import BaseToolchain
from pytest_ascendcache.toolchains.training import CLEANED, RankProcess, TrainRequest

_SLEEPS = 20.0
"""Seconds after which a process that sleeps with all its children counts as hanging; none waits for
other ranks here."""


class MindSporeRelease(BaseToolchain):
    """A release of MindSpore that runs the script of a network, one process for each rank. With
    ``forks`` most are forked from one that has imported MindSpore. ``unusable`` says why it cannot
    be run here, with the command that helps; empty if it can."""

    unusable: str
    dropped: tuple[str, ...] = (*CLEANED, "GLOG_", "PYTHON")
    """Prefixes of this process's variables that decide where kernels are kept."""

    def __init__(
        self,
        python: Path,
        deadline: float,
        forks: bool,
        offered: Collection[Capability],
        programs: Mapping[str, tuple[str, ...]],
        **of_strace: Any,
    ) -> None:
        self.deadline = deadline
        own = {"python": (str(python),)}
        self.launcher, self._route = with_strace({**own, **programs}, **of_strace)
        self._forks: ForkLauncher | None = None
        if forks and not self.unusable:
            environment = self._cleaned
            environment[forkserver.GIVEN] = ",".join(environment)
            server = (str(python), str(Path(forkserver.__file__)))
            self._forks = ForkLauncher(server, own, environment)
        faults = set() if self._route is None else {Capability.FAULT_POINTS}
        able = {Capability.INCREMENTAL_BUILD, *faults, *offered}
        self.capabilities = frozenset(() if self.unusable else able)
        self._others: MindSporeRelease | None = None

    def _start_script(
        self,
        request: TrainRequest,
        settings: Path,
        environment: Mapping[str, str],
        claims: Callable[[str], int | None],
    ) -> RankProcess:
        """Start ``network.py`` beside the settings that it reads."""
        program, arguments = "python", [str(settings.parent / "network.py"), str(settings)]
        launcher: Launcher = self.launcher
        if request.plan is not None:
            program, arguments = self.fault_route().command(request.plan, program, arguments)
        elif self._forks is not None and not request.script.fresh:
            launcher = self._forks
        running = launcher.start(request.command(program, arguments, environment))
        argv = launcher.argv(program, arguments)
        return RankProcess(request, argv, running, self.deadline, claims, _SLEEPS)

    def _make_directories(self, request: TrainRequest) -> None:
        """Make those of a request. Raises ``ToolchainError`` if nothing can be run here."""
        if self.unusable:
            raise ToolchainError(f"{self.name}: {self.unusable}.")
        for directory in (request.work, request.directory / "tmp"):
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def _cleaned(self) -> dict[str, str]:
        """The environment of this process without what decides where kernels are kept."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(self.dropped)}
        return kept | {"PYTHONDONTWRITEBYTECODE": "1"}

    def fault_route(self) -> FaultRoute:
        return self._route or super().fault_route()

    def close(self) -> None:
        """End the servers."""
        for each in (self._forks, self._others, self.launcher):
            if each is not None:
                each.close()
