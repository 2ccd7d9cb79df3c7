"""Turn-taking between cards: which card compiles, which wait, and when operators are done.

Source: facts ``static-kernel`` sections 2.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ascendcache.reference.static_kernel.client.cards import COMPILING, MEETING, Cards
from pytest_ascendcache.reference.static_kernel.client.world import Node, World


class TurnPolicy:
    """Decides which card compiles, how long the others wait, and which operators are done."""

    def compiles(self, world: World, node: Node) -> bool:
        """Whether this card compiles and installs for its node."""
        return world.rank == node.first

    def agreed(self, cards: Cards) -> None:
        """Wait until every card has checked that it can go on. Nothing is created before."""
        cards.exchange({}, MEETING)

    def folders(self, cards: Cards, node: Node, own: str) -> list[str]:
        """Announce the folder of this card's operators. Returns the folders of its node's cards."""
        everybody = cards.exchange({"folder": own}, MEETING)
        return [str(everybody[rank]["folder"]) for rank in node.ranks]

    def installed(self, cards: Cards) -> None:
        """Wait until every node's first card has compiled and installed."""
        cards.exchange({}, COMPILING)

    def reselected(self, cards: Cards) -> None:
        """Wait until every card has selected its kernels. No card may uninstall any before."""
        cards.exchange({}, MEETING)

    def starting(self, done: set[str], digests: Iterable[str]) -> None:
        """Called before these operators are compiled: none is done yet."""

    def finished(self, done: set[str], digests: Iterable[str]) -> None:
        """Called after these operators were compiled, installed and selected: they are done."""
        done.update(digests)
