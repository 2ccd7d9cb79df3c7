"""The toolchains that come with the package, and what ``--ascend-toolchain=NAME:WHERE`` names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.plugin.options.option import COMMAND, DIRECTORY, INPUT, Access, ValueKind

REFERENCE = "reference"
"""The embedded toolchain."""

OP_COMPILER = "op-compiler"
"""The toolchain that consists of an ``op_compiler`` only."""

CANN_CACHE = "cann-cache"
"""The toolchain that is built from a checkout of CANN's sources."""

TORCHAIR = "torchair"
"""The toolchain that runs a user's TorchAir script."""

MINDSPORE_ASCEND = "mindspore-ascend"
"""The toolchain of document M: MindSpore's Ascend releases, with stand-ins for CANN."""

MINDSPORE_TOOLCHAINS = ("mindspore-operator-cache", "mindspore-graph-cache", MINDSPORE_ASCEND)
"""MindSpore's caches as toolchains; listed here so that help needs no import."""

_PLACES: dict[str, ValueKind | None] = {
    REFERENCE: None,
    OP_COMPILER: COMMAND,
    CANN_CACHE: DIRECTORY,
    TORCHAIR: INPUT,
}
"""What WHERE is for each toolchain; for all others it is a program."""


@dataclass(frozen=True)
class ToolchainChoice:
    """A toolchain as the user names it; ``place`` is its program, script or checkout."""

    name: str
    place: str | None = None

    def __str__(self) -> str:
        return self.name if self.place is None else f"{self.name}:{self.place}"

    @property
    def access(self) -> Access:
        """What a run does with the file that the place names."""
        kind = _PLACES.get(self.name, COMMAND)
        return kind.access if kind and self.place is not None else Access.NONE


def _named(text: str, base: Path) -> ToolchainChoice:
    name, colon, place = text.partition(":")
    kind = _PLACES.get(name, COMMAND)
    if not colon:
        return ToolchainChoice(name)
    if kind is None or not name or not place.strip():
        raise ValueError(text)
    return ToolchainChoice(name, str(kind.read(place, base)))


TOOLCHAIN = ValueKind("the name of a toolchain, or NAME:WHERE (the reference has no place)", _named)
