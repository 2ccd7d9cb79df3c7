"""The two MindSpore toolchains. Every build is a process of the wheel's Python; nothing of
MindSpore is imported here.

Source: facts ``mindspore-incremental`` sections 2 and 3.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from pytest_ascendcache.caches import AKG_KERNEL_META, GRAPH_CACHE, remove_segments
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.faults import SINGLE_CALLS
from pytest_ascendcache.processes.launch import Command, ToolchainError
from pytest_ascendcache.toolchains.mindspore.gang import MsrunGang
from pytest_ascendcache.toolchains.mindspore.release import MindSporeRelease
from pytest_ascendcache.toolchains.mindspore.script import network_script, network_settings
from pytest_ascendcache.toolchains.mindspore.wheel import Wheel, find_wheel
from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest

OPERATOR_CACHE = "mindspore-operator-cache"
"""The toolchain of graph kernels. The other one is that of compiled networks."""

_COUNTER = re.compile(r"Total Akg kernel number is \d+, (\d+) of them need to be compiled")
_HIT = "Use the compilation cache and execute the backend actions only"


class MindSporeToolchain(MindSporeRelease):
    """A MindSpore release that runs networks on the CPU and caches what it compiled.

    It compiles no single operators. What is reused are graph kernels (``mindspore-operator-cache``)
    or compiled networks (``mindspore-graph-cache``). A ``start`` of "fork" forks scripts from a
    Python that has imported MindSpore; otherwise each is a new process. ``other`` is the wheel of
    another release.
    """

    def __init__(
        self,
        name: str,
        wheel: Wheel,
        deadline: float,
        start: str = "fork",
        other: Wheel | None = None,
    ) -> None:
        self.name = name
        self.version = wheel.version
        self.unusable = wheel.missing
        self._notice = wheel.notice
        self._wheel = wheel
        self._other = other
        self.graph_kernel = name == OPERATOR_CACHE
        self.network_layout = AKG_KERNEL_META if self.graph_kernel else GRAPH_CACHE
        self._caches: set[Path] = set()
        super().__init__(
            wheel.python,
            deadline,
            start == "fork" and wheel.forks,
            {Capability.GANG_LAUNCHER, *([] if other is None else [Capability.VERSION_STAMP])},
            {"msrun": (str(wheel.python), str(wheel.python.parent / "msrun"))},
            # A read-only file system has not been tried with MindSpore.
            actions=SINGLE_CALLS,
            most_states=_STATES,
        )

    @property
    def details(self) -> Mapping[str, str]:
        other = self._other.version if self._other is not None else ""
        details = {"notice": self._notice, "other_release": other}
        return {name: value for name, value in details.items() if value}

    @property
    def other_release(self) -> MindSporeToolchain:
        """The other release, for caches that one of them writes and the other finds. Raises
        ``ToolchainError`` if no other release was named, or it cannot be run."""
        if self._other is None:
            raise ToolchainError(f"{self.name}: {Capability.VERSION_STAMP.lacking}.")
        if self._others is None:
            self._others = MindSporeToolchain(self.name, self._other, self.deadline, "process")
        return cast("MindSporeToolchain", self._others)

    def start_rank(self, request: TrainRequest) -> RankProcess:
        settings, environment = self.prepare(request), self.environment(request)
        logs = request.directory / "logs"
        request = self._repeatable(request)
        return self._start_script(
            request, settings, environment, lambda said: self._claims(said, logs)
        )

    def start_gang(self, request: TrainRequest, size: int, port: int) -> MsrunGang:
        """Start ``size`` ranks of one network through ``msrun``. They add up their first outputs.
        Raises ``ToolchainError`` if it cannot be started."""
        settings = self.prepare(request, gang=True)
        request = self._repeatable(request)
        arguments = [
            f"--worker_num={size}",
            f"--local_worker_num={size}",
            "--master_addr=127.0.0.1",
            f"--master_port={port}",
            f"--log_dir={request.directory / 'logs'}",
            "--join=True",
            str(settings.parent / "network.py"),
            str(settings),
        ]
        command = Command("msrun", arguments, self.environment(request), request.work)
        argv = self.launcher.argv("msrun", arguments)
        return MsrunGang(request, size, argv, self.launcher.start(command), self.deadline)

    def prepare(self, request: TrainRequest, gang: bool = False) -> Path:
        """Write the script of a request and the settings it reads. Returns the settings file."""
        self._make_directories(request)
        cache = request.environment.get("MS_COMPILER_CACHE_PATH")
        self._caches.add(request.work / (cache or ""))
        last = request.network
        # Sorted by name, so that the order in which they run is not part of the script.
        script = request.script
        distinct = {each.name: each for each in (*script.before, last)}
        networks = [distinct[name] for name in sorted(distinct)]
        for name, text in network_script(networks, script, gang).items():
            (request.directory / name).write_text(text, encoding="utf-8")
        settings = {
            "graph_kernel": self.graph_kernel,
            "gang": gang,
            "context": {"jit_level": script.jit_level} if script.jit_level else {},
            "training": request.phase is Phase.TRAINING,
            "later": dict(script.later),
            "of_rank": {str(rank): dict(variables) for rank, variables in script.of_rank},
            "held_late": script.held_late,
            "held": {str(rank): str(place) for rank, place in script.held},
            "order": [sorted(distinct).index(each.name) for each in (*script.before, last)],
            "networks": [
                network_settings(each, request.directory / f"data{number}.npz", gang)
                for number, each in enumerate(networks)
            ],
            "results": str(request.directory / ("outputs-RANK.npz" if gang else "outputs.npz")),
        }
        path = request.directory / "settings.json"
        path.write_text(json.dumps(settings, indent=1), encoding="utf-8")
        return path

    def environment(self, request: TrainRequest) -> dict[str, str]:
        """The complete environment of a process."""
        environment = self._cleaned | {"TMPDIR": str(request.directory / "tmp")}
        if self.graph_kernel:
            # The counter of compiled kernels is logged among many lines, which would push errors
            # out of the output.
            environment["MS_SUBMODULE_LOG_v"] = "{RUNTIME_FRAMEWORK:1}"
            environment["GLOG_logtostderr"] = "0"
            environment["GLOG_log_dir"] = str(request.directory / "logs")
        added = dict(request.environment)
        if "PATH" in added:  # msrun starts python by its name
            added["PATH"] = f"{self._wheel.python.parent}{os.pathsep}{added['PATH']}"
        return environment | self._switch | added

    @property
    def _cleaned(self) -> dict[str, str]:
        cleaned = super()._cleaned
        path = f"{self._wheel.python.parent}{os.pathsep}{cleaned.get('PATH', os.defpath)}"
        return cleaned | {"PATH": path}

    @property
    def _switch(self) -> dict[str, str]:
        """The variable that turns the cache on."""
        return {} if self.graph_kernel else {"MS_COMPILER_CACHE_ENABLE": "1"}

    def _repeatable(self, request: TrainRequest) -> TrainRequest:
        """The request with the variables that a reader needs to repeat it."""
        return replace(request, environment={**self._switch, **request.environment})

    def close(self) -> None:
        """End the servers, and remove the shared memory that killed builds left behind."""
        for cache in self._caches:
            remove_segments(cache)
        super().close()

    def _claims(self, output: str, logs: Path) -> int | None:
        """How many kernels, or networks, the process says it compiled."""
        if not self.graph_kernel:
            return int(_HIT not in output)
        texts = (path.read_text(errors="replace") for path in sorted(logs.rglob("*.log*")))
        counts = [int(each) for text in texts for each in _COUNTER.findall(text)]
        return sum(counts) if counts else None


_STATES = 6
"""Crash states of each kind that are tried; every one costs two runs."""


def mindspore_toolchain(
    name: str, python: str | None, deadline: float, start: str = "fork", other: str | None = None
) -> MindSporeToolchain:
    """One of the two toolchains, by name. ``python`` is that of the wheel, ``other`` that of
    another release. This starts nothing but these Pythons, to ask for versions."""
    needs_compiler = name == OPERATOR_CACHE
    wheel = find_wheel(python, needs_compiler)
    another = None if other is None else find_wheel(other, needs_compiler)
    return MindSporeToolchain(name, wheel, deadline, start, another)
