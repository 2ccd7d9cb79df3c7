"""Converting a whole model with a command that has ATC's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_ascendcache.processes.ending import ProcessResult

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ConvertRequest:
    """A command line that converts a model, with its directories. ``options`` are ATC's, by name
    without dashes, except for output and cache. ``output`` is the ``.om`` file without its suffix,
    in a directory of its own."""

    options: Mapping[str, str]
    cache_mode: str
    cache_dir: Path
    output: Path
    work: Path
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The arguments, without the program."""
        options = {
            **self.options,
            "output": str(self.output),
            "op_compiler_cache_mode": self.cache_mode,
            "op_compiler_cache_dir": str(self.cache_dir),
        }
        return [f"--{key}={value}" for key, value in options.items()]


@dataclass(frozen=True)
class ConvertResult(ProcessResult):
    """How one conversion ended, and the ``seconds`` it took. ``model`` is the ``.om`` file, or
    None."""

    request: ConvertRequest
    environment: Mapping[str, str]
    model: Path | None
    seconds: float = 0.0

    @property
    def settings(self) -> Mapping[str, str]:
        return self.environment

    @property
    def missing(self) -> str:
        """What the conversion failed to deliver, in words. Names a file that it wrote elsewhere."""
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
    """A toolchain that converts models. Other toolchains lack these methods, or say no."""

    converts_models: bool

    def converting_command(self) -> tuple[str, ...]:
        """The first words of the converting command. If a file among them changes, earlier
        conversions are no longer valid."""

    def convert_together(self, requests: Sequence[ConvertRequest]) -> list[ConvertResult]:
        """Start one process for each request, all at the same time, and wait for all of them.
        Raises ``ToolchainError`` if a process cannot be started."""

    def run_model(self, model: Path, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run a model in a process of its own. Needs ``Capability.RUN_KERNELS``. Raises
        ``KernelRunError`` if the process fails or does not end."""


def delivered_model(prefix: Path) -> Path | None:
    """The ``.om`` file of an output. Some releases append the machine to its name."""
    models = [path for path in sorted(prefix.parent.glob(f"{prefix.name}*.om")) if path.is_file()]
    return models[0] if models else None
