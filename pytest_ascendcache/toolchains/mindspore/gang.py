"""Several ranks through ``msrun``, MindSpore's own launcher: one process that starts the others."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.processes.launch import Launcher, Running
from pytest_ascendcache.processes.sleeping import ends_or_sleeps
from pytest_ascendcache.toolchains.mindspore.script import SUM
from pytest_ascendcache.toolchains.training import TrainRequest, TrainResult, read_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SETTLED, _UNSETTLED = 1.0, 10.0
"""Seconds a gang sleeps that waits for something, and how long that is waited for."""


@dataclass(frozen=True)
class Gang:
    """Ranks that were started together. They have to be waited for."""

    request: TrainRequest
    size: int
    argv: tuple[str, ...]
    running: Running
    deadline: float

    def kill(self) -> None:
        """``kill -9`` all of them now."""
        self.running.kill()

    def settles(self) -> None:
        """Come back once every rank sleeps, or the gang ended; not much later where it does
        neither."""
        ends_or_sleeps(self.running, _SETTLED, _UNSETTLED)

    def said(self, lost: int) -> str:
        """What everybody but the rank ``lost`` said: the launcher, the scheduler, other ranks."""
        logs = self.request.directory / "logs"
        others = [f"worker_{rank}" for rank in range(self.size) if rank != lost]
        return "\n".join(_words(logs / f"{name}.log") for name in ("msrun", "scheduler", *others))

    @property
    def sums(self) -> list[NDArray[Any] | None]:
        """What each rank got for the sum of all ranks' first outputs."""
        return [(self._outputs(rank) or {}).get(SUM) for rank in range(self.size)]

    def _outputs(self, rank: int) -> dict[str, NDArray[Any]] | None:
        return read_outputs(self.request.directory / f"outputs-{rank}.npz")

    def wait(self, deadline: float | None = None) -> list[TrainResult]:
        """How each rank ended; all are killed once they had ``deadline`` seconds, asleep or on a
        processor.

        The exit status is that of ``msrun``, which tells no rank's own.
        """
        patience = self.deadline if deadline is None else deadline
        asleep = ends_or_sleeps(self.running, math.inf, patience)
        ended = self.running.wait(time.monotonic())
        directory = self.request.directory
        (directory / "logs").mkdir(exist_ok=True)
        (directory / "logs/msrun.log").write_text(ended.output, encoding="utf-8")
        return [
            TrainResult(
                request=replace(
                    self.request,
                    environment={
                        **self.request.environment,
                        "RANK_ID": str(rank),
                        "RANK_SIZE": str(self.size),
                    },
                ),
                argv=self.argv,
                returncode=ended.returncode,
                deadline=patience,
                output=_words(directory / f"logs/worker_{rank}.log") or ended.output,
                outputs=_without_sum(self._outputs(rank)),
                left_behind=ended.left_behind,
                asleep=asleep / self.size,
            )
            for rank in range(self.size)
        ]


def start_gang(
    launcher: Launcher,
    request: TrainRequest,
    environment: Mapping[str, str],
    settings: Path,
    size: int,
    port: int,
    deadline: float,
) -> Gang:
    """Start ``msrun``, which starts a scheduler and the ranks; they have ``deadline`` seconds.

    Raises:
        ToolchainError: where it cannot be started.
    """
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
    running = launcher.start("msrun", arguments, environment, request.work, None)
    return Gang(request, size, launcher.argv("msrun", arguments), running, deadline)


def _without_sum(outputs: dict[str, NDArray[Any]] | None) -> dict[str, NDArray[Any]] | None:
    return outputs and {name: each for name, each in outputs.items() if name != SUM}


def _words(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-16_384:]
    except OSError:
        return ""
