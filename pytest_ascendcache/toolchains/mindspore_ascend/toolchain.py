"""The toolchain ``mindspore-ascend``: MindSpore's Ascend release on stand-ins for CANN.

The operator cache that is judged, ``rank_N/kernel_meta``, is all MindSpore's own. Of the stand-ins
the adapter learns which kernels were compiled and which bytes ran.

Source: document M; facts ``mindspore-ascend``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.toolchains.mindspore.release import MindSporeRelease
from pytest_ascendcache.toolchains.mindspore_ascend.script import write_script
from pytest_ascendcache.toolchains.training import RankProcess, TrainRequest

NAME = "mindspore-ascend"
LOG = "standin.log"
"""The file of a run's directory in which the stand-ins say what they did."""

_LOG, _SHELF = "ASCENDCACHE_STANDIN_LOG", "ASCENDCACHE_STANDIN_SHELF"
_VERSION = "import importlib.metadata as m; print(m.version('mindspore-ascend'))"
_PATIENCE = 60.0
_STATES = 4
"""Crash states of each kind that are tried; every one costs three runs, most of them forked."""


@dataclass(frozen=True)
class Happened:
    """One line of the stand-ins' log: ``event`` is ``compile``, ``prebuild`` or ``run``."""

    event: str
    kernel: str
    identity: Mapping[str, Any]


@dataclass(frozen=True)
class KernelSetting:
    """Something that a kernel is compiled for or by besides its operator. With the variable
    ``name`` set to ``value``, the identity of a kernel has ``told`` as its ``field``."""

    field: str
    name: str
    value: str
    told: object

    @property
    def environment(self) -> dict[str, str]:
        """The environment that makes the change."""
        return {self.name: self.value}


SETTINGS = {
    "chip": KernelSetting("chip", "ASCENDCACHE_STANDIN_CHIP", "Ascend910B", "Ascend910B"),
    "compiler": KernelSetting("compiler", "ASCENDCACHE_STANDIN_COMPILER", "2", "2"),
    "model-bank": KernelSetting("banks", "MDL_BANK_PATH", "/usr", ["/usr", ""]),
    "operator-bank": KernelSetting("banks", "OP_BANK_PATH", "/usr", ["", "/usr"]),
    "level-1": KernelSetting("level", "MS_COMPILER_OP_LEVEL", "1", "1"),
    "level-2": KernelSetting("level", "MS_COMPILER_OP_LEVEL", "2", "2"),
}
"""Changes of what kernels depend on; the first two are told by stand-ins, the others by MindSpore's
own variables."""


class MindSporeAscendToolchain(MindSporeRelease):
    """A release of MindSpore for Ascend. Most starts are forked from a process that has imported
    MindSpore, unless ``start`` is "process"."""

    ranks_apart = "its ranks do not meet, because there is no stand-in for HCCL"
    dropped = (*MindSporeRelease.dropped, "ASCEND_", "MDL_BANK", "OP_BANK")

    def __init__(
        self,
        python: Path,
        deadline: float,
        start: str = "fork",
        other: Path | None = None,
        shelf: Path | None = None,
    ) -> None:
        self.name = NAME
        self.unusable, self.version = _found(python)
        self._other = other
        self._shelf = shelf
        offered = {Capability.VERSION_STAMP}
        super().__init__(python, deadline, start == "fork", offered, {}, most_states=_STATES)

    @property
    def details(self) -> Mapping[str, str]:
        other = self.other_release
        return {} if other is None else {"other_release": other.version}

    @property
    def other_release(self) -> MindSporeAscendToolchain | None:
        """The other release, for caches that one of them writes and the other finds. None if none
        was named."""
        if self._other is not None and self._others is None:
            self._others = MindSporeAscendToolchain(
                self._other, self.deadline, "process", shelf=self._shelf
            )
        return cast("MindSporeAscendToolchain | None", self._others)

    @property
    def settings(self) -> Mapping[str, KernelSetting]:
        """What kernels depend on besides their operator, each with a change of it."""
        return SETTINGS

    def compiles_of(self, request: TrainRequest) -> list[Happened]:
        """The kernels that the stand-in compiler made in a run. Prebuilds are not among them."""
        return [each for each in happened(request) if each.event == "compile"]

    def ran(self, request: TrainRequest) -> list[Happened]:
        """The kernels whose bytes were executed in a run."""
        return [each for each in happened(request) if each.event == "run"]

    def start_rank(self, request: TrainRequest) -> RankProcess:
        self._make_directories(request)
        if self.version.startswith("1.5."):  # it refuses a path that does not exist
            given = request.environment.get("MS_COMPILER_CACHE_PATH", "")
            (request.work / given).mkdir(parents=True, exist_ok=True)
        leaves = request.environment.get("MS_COMPILER_OP_LEVEL") != "0"
        settings, environment = write_script(request, leaves), self.environment(request)
        compiles = self.compiles_of
        return self._start_script(request, settings, environment, lambda _: len(compiles(request)))

    def environment(self, request: TrainRequest) -> dict[str, str]:
        """The complete environment of a process."""
        # The suite says "without a cache path" with an empty one. MindSpore takes an empty one for
        # the root of the file system.
        given = dict(request.environment)
        if not given.get("MS_COMPILER_CACHE_PATH"):
            given.pop("MS_COMPILER_CACHE_PATH", None)
        return {
            **self._cleaned,
            "TMPDIR": str(request.directory / "tmp"),
            _LOG: str(request.directory / LOG),
            **({_SHELF: str(self._shelf)} if self._shelf is not None else {}),
            **given,
        }


def happened(request: TrainRequest) -> list[Happened]:
    """What the stand-ins did in a run, in order. A line cut off by a kill is left out."""
    try:
        text = (request.directory / LOG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.endswith("}")]
    fields = [json.loads(line) for line in lines]
    return [
        Happened(each["event"], each.get("kernel", ""), each.get("identity") or {})
        for each in fields
    ]


def _found(python: Path) -> tuple[str, str]:
    """Why this Python cannot be used, empty if it can, and the release it has."""
    setup = "ci/verify-mindspore-ascend sets up everything"
    if not python.exists():
        return f"there is no Python at {python}; {setup}", "not found"
    try:
        ended = subprocess.run(
            [str(python), "-c", _VERSION], capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{python} cannot be started ({error}); {setup}", "not found"
    if ended.returncode:
        return f"{python} has no mindspore-ascend; {setup}", "not installed"
    return "", ended.stdout.strip()


def mindspore_ascend_toolchain(
    python: str | None, deadline: float, start: str, other: str | None
) -> MindSporeAscendToolchain:
    """The toolchain of one release. ``python`` is a Python set up by
    ``ci/verify-mindspore-ascend``, ``other`` that of another release. Kernels with the same C text
    are compiled once: ``shelf`` beside that Python keeps them."""
    first = Path(python or DEFAULT).absolute()
    another = None if other is None else Path(other).absolute()
    return MindSporeAscendToolchain(first, deadline, start, another, first.with_name("shelf"))


DEFAULT = Path("build/mindspore-ascend/1.6.2/python")
"""The Python that ``ci/verify-mindspore-ascend`` sets up first."""
