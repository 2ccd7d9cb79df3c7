"""This card's rank, the number of cards, and their meeting address: torchrun's environment.

Source: document K (``LOCAL_WORLD_SIZE``); facts ``static-kernel`` section 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.surroundings import SurroundingsPolicy
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)


@dataclass(frozen=True)
class World:
    """This card among ``size`` cards. ``second`` is the real length of one second of waiting."""

    rank: int = 0
    size: int = 1
    host: str = "127.0.0.1"
    port: int = 29500
    second: float = 1.0

    @property
    def several(self) -> bool:
        return self.size > 1


class WorldPolicy:
    """Reads the environment."""

    def read(self, environ: Mapping[str, str]) -> World:
        """Read this card's rank and the meeting address."""
        size = _number(environ, "WORLD_SIZE", 1, 1, 65536)
        try:
            second = SurroundingsPolicy().second(environ)
        except AtcError as error:
            raise StaticKernelError(str(error)) from None
        return World(
            rank=_number(environ, "RANK", 0, 0, size - 1),
            size=size,
            host=environ.get("MASTER_ADDR", "") or "127.0.0.1",
            port=_number(environ, "MASTER_PORT", 29500, 1, 65535),
            second=second,
        )

    def local_size(self, environ: Mapping[str, str], world: World) -> int:
        """The number of cards per node."""
        if not world.several:
            return 1
        text = environ.get(LOCAL_WORLD_SIZE)
        if not text:
            raise self.unfit(world, "is empty" if text == "" else "is not set")
        if not _NUMBER.fullmatch(text) or int(text) == 0:
            raise self.unfit(world, f"is {text!r}")
        if world.size % int(text):
            raise self.unfit(world, f"is {text}, which does not divide WORLD_SIZE {world.size}")
        return int(text)

    def unfit(self, world: World, what: str) -> StaticKernelError:
        """The error for an invalid ``LOCAL_WORLD_SIZE``."""
        return StaticKernelError(
            f"{LOCAL_WORLD_SIZE} {what}; with {world.size} cards static kernels need it: set it to "
            f"the number of cards of one machine, which divides {world.size}."
        )

    def node(self, world: World, local_size: int) -> range:
        """The ranks of this machine's cards. The first compiles and installs for all of them."""
        first = world.rank // local_size * local_size
        return range(first, first + local_size)


def _number(environ: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text) or not lowest <= int(text) <= highest:
        raise StaticKernelError(f"{name} is {text!r}; set it to a number of {lowest} to {highest}.")
    return int(text)
