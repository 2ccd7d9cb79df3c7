"""Who does what: the order of things between the cards of a node, and when work counts as done.

Source: facts ``static-kernel`` sections 2.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ascendcache.reference.static_kernel.client.cards import COMPILING, MEETING, Cards
from pytest_ascendcache.reference.static_kernel.client.world import Node, World


class TurnPolicy:
    """Who compiles, who waits, and what is remembered."""

    def compiles(self, world: World, node: Node) -> bool:
        """Whether this card compiles and installs for its node."""
        return world.rank == node.first

    def agreed(self, cards: Cards) -> None:
        """Wait until every card has found that it can go on; before that nothing is made."""
        cards.exchange({}, MEETING)

    def folders(self, cards: Cards, node: Node, own: str) -> list[str]:
        """Tell everybody where this card's operators are; where those of its node are."""
        everybody = cards.exchange({"folder": own}, MEETING)
        return [str(everybody[rank]["folder"]) for rank in node.ranks]

    def installed(self, cards: Cards) -> None:
        """Wait until every node's first card has compiled and installed."""
        cards.exchange({}, COMPILING)

    def reselected(self, cards: Cards) -> None:
        """Wait until every card has its kernels; before that nobody may uninstall any."""
        cards.exchange({}, MEETING)

    def starting(self, done: set[str], digests: Iterable[str]) -> None:
        """A compile of these operators begins: nothing is done yet."""

    def finished(self, done: set[str], digests: Iterable[str]) -> None:
        """They are compiled, installed and selected."""
        done.update(digests)
