"""Converting a whole model with a command that has ATC's interface, and running what it made."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_ascendcache.processes.ending import ProcessResult, in_words
from pytest_ascendcache.processes.launch import Launcher
from pytest_ascendcache.toolchains.protocol import KernelRunError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ConvertRequest:
    """A command line that converts a model, and where everything goes.

    ``options`` are ATC's by name without dashes, those of output and cache aside. ``output`` is
    the ``.om`` file without its suffix, in a directory of its own.
    """

    options: Mapping[str, str]
    cache_mode: str
    cache_dir: Path
    output: Path
    work: Path
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The command line without the program."""
        given = {
            **self.options,
            "output": str(self.output),
            "op_compiler_cache_mode": self.cache_mode,
            "op_compiler_cache_dir": str(self.cache_dir),
        }
        return [f"--{key}={value}" for key, value in given.items()]


@dataclass(frozen=True)
class ConvertResult(ProcessResult):
    """How one conversion ended; ``model`` is the ``.om`` file, ``None`` where there is none.
    ``seconds`` are those it took."""

    request: ConvertRequest
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    returncode: int | None
    deadline: float
    output: str
    model: Path | None
    seconds: float = 0.0

    @property
    def work(self) -> Path:
        """The directory it ran in."""
        return self.request.work

    @property
    def settings(self) -> Mapping[str, str]:
        """What was added to its environment."""
        return self.environment

    @property
    def missing(self) -> str:
        """What it failed to deliver, in words; a file that went elsewhere is named."""
        if self.model is not None:
            return ""
        request = self.request
        elsewhere = [
            path for place in (request.work, request.home) for path in sorted(place.rglob("*.om"))
        ]
        if elsewhere:
            return f"wrote {elsewhere[0]} instead of {request.output}.om"
        return f"left no {request.output}.om"


@runtime_checkable
class ModelConverter(Protocol):
    """A toolchain that converts models; those that do not leave these methods out."""

    def converting_command(self) -> tuple[str, ...]:
        """The first words of the command that converts: where one of them is a file that
        changes, an earlier conversion stands no longer."""

    def convert_together(self, requests: Sequence[ConvertRequest]) -> list[ConvertResult]:
        """Start one process a request, all at once, and wait for every one of them.

        Raises:
            ToolchainError: where a process cannot be started at all.
        """

    def run_model(self, model: Path, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a model in a throw-away process. Needs ``Capability.RUN_KERNELS``.

        Raises:
            KernelRunError: where the process does not end well.
        """


def convert(
    launcher: Launcher,
    requests: Sequence[ConvertRequest],
    base: Mapping[str, str],
    deadline: float,
) -> list[ConvertResult]:
    """Carry out conversions; ``base`` is the environment without what a request adds."""
    started = []
    results: list[ConvertResult] = []
    try:
        for request in requests:
            for directory in (request.output.parent, request.work, request.home):
                directory.mkdir(parents=True, exist_ok=True)
            environment = {**base, "HOME": str(request.home), **request.environment}
            running = launcher.start("atc", request.arguments, environment, request.work, None)
            started.append((request, running, time.monotonic()))
        last = time.monotonic() + deadline
        for request, running, began in started:
            ended = running.wait(last)
            results.append(
                ConvertResult(
                    request=request,
                    argv=launcher.argv("atc", request.arguments),
                    environment={"HOME": str(request.home), **request.environment},
                    returncode=ended.returncode,
                    deadline=deadline,
                    output=ended.output,
                    model=_model(request.output),
                    seconds=time.monotonic() - began,
                )
            )
    finally:
        for _, running, _ in started[len(results) :]:
            running.wait(0.0)
    return results


def _model(output: Path) -> Path | None:
    """The file of an output; some releases add the machine to the name that was asked for."""
    found = [path for path in sorted(output.parent.glob(f"{output.name}*.om")) if path.is_file()]
    return found[0] if found else None


def run_model(
    launcher: Launcher,
    model: Path,
    inputs: Mapping[str, NDArray[Any]],
    base: Mapping[str, str],
    deadline: float,
) -> dict[str, NDArray[Any]]:
    """Run a model with the launcher's program ``run``.

    Raises:
        KernelRunError: where the process does not end well.
    """
    import numpy

    with tempfile.TemporaryDirectory(prefix="ascendcache-run-") as name:
        directory = Path(name)
        numpy.savez(directory / "inputs.npz", allow_pickle=False, **dict(inputs))
        arguments = [str(model), "inputs.npz", "outputs.npz"]
        running = launcher.start("run", arguments, base, directory, None)
        ended = running.wait(time.monotonic() + deadline)
        if ended.returncode != 0:
            said = ended.output.strip()[-300:]
            raise KernelRunError(
                f"running {model.name}: it {in_words(ended.returncode, deadline)}: {said}"
            )
        with numpy.load(directory / "outputs.npz", allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
