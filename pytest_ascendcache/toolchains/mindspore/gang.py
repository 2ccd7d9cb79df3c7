"""Several ranks started by ``msrun``, MindSpore's own launcher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.processes.launch import Running
from pytest_ascendcache.processes.sleeping import ends_or_sleeps, wait_its_time
from pytest_ascendcache.toolchains.mindspore.script import SUM
from pytest_ascendcache.toolchains.training import TrainRequest, TrainResult, read_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SETTLED, _UNSETTLED = 1.0, 10.0
"""A gang that sleeps for 1 second is waiting; after 10 seconds nobody waits for that any longer."""


@dataclass(frozen=True)
class MsrunGang:
    """Ranks that were started together. They must be waited for."""

    request: TrainRequest
    size: int
    argv: tuple[str, ...]
    running: Running
    deadline: float

    def kill(self) -> None:
        """Kill all of them."""
        self.running.kill()

    def settles(self) -> None:
        """Wait until every rank sleeps or the gang has ended, but not much longer than
        :data:`_UNSETTLED`."""
        ends_or_sleeps(self.running, _SETTLED, _UNSETTLED)

    def said(self, lost: int) -> str:
        """What everybody but the rank ``lost`` printed."""
        logs = self.request.directory / "logs"
        others = [f"worker_{rank}" for rank in range(self.size) if rank != lost]
        return "\n".join(
            _log_text(logs / f"{name}.log") for name in ("msrun", "scheduler", *others)
        )

    @property
    def sums(self) -> list[NDArray[Any] | None]:
        """The sum of all ranks' first outputs, as each rank received it."""
        return [(self._outputs(rank) or {}).get(SUM) for rank in range(self.size)]

    def _outputs(self, rank: int) -> dict[str, NDArray[Any]] | None:
        return read_outputs(self.request.directory / f"outputs-{rank}.npz")

    def wait(self, deadline: float | None = None) -> list[TrainResult]:
        """Wait for the ranks to end; kill all of them after ``deadline`` seconds in which they
        slept or had a processor. The exit status is that of ``msrun``, which does not tell those of
        the ranks."""
        patience = self.deadline if deadline is None else deadline
        ended, asleep = wait_its_time(self.running, patience)
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
                output=_log_text(directory / f"logs/worker_{rank}.log") or ended.output,
                outputs=outputs and {name: each for name, each in outputs.items() if name != SUM},
                left_behind=ended.left_behind,
                asleep=asleep / self.size,
            )
            for rank, outputs in enumerate(map(self._outputs, range(self.size)))
        ]


def _log_text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-16_384:]
    except OSError:
        return ""
