"""What nodes share: a cache, or a directory for ranks' kernels and packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import needs
from pytest_ascendcache.faults import Act, Action, Operation
from pytest_ascendcache.nodes import Nodes
from pytest_ascendcache.observation import (
    CacheUnderTest,
    Evidence,
    Interruption,
    NotDecidable,
    SharedCache,
)
from pytest_ascendcache.observation.interruption import Result
from pytest_ascendcache.observation.shared_cache import blame_nodes, remove_shared

__all__ = ["held", "shared"]


@pytest.fixture
def shared(cache: CacheUnderTest, ascend_nodes: SharedCache) -> SharedCache:
    """The cache as the nodes see it. A toolchain that reuses no entry would share nothing."""
    cache.needs_reuse()
    return ascend_nodes


@pytest.fixture
def held(shared: SharedCache) -> SharedCache:
    """The same, for a toolchain that can be held."""
    needs(shared.backing.toolchain, Action.HOLD)
    return shared


Mounts = tuple[Nodes, Nodes]
"""The nodes of a check, and nodes that all use one mount."""


@dataclass(frozen=True)
class Views:
    """A new empty directory: ``backing`` itself and as each node, or the first for all, sees it."""

    nodes: Nodes
    one_view: bool
    backing: Path
    views: tuple[Path, ...]

    @classmethod
    def of(cls, nodes: Nodes, one_view: bool) -> Views:
        return cls(nodes, one_view, *nodes.directory())

    def on(self, number: int) -> Path:
        """The directory as node ``number``, modulo their number, sees it."""
        return self.views[0 if self.one_view else number % len(self.views)]

    @property
    def first(self) -> Path:
        return self.on(0)

    @property
    def other(self) -> Path:
        return self.on(-1)

    def forget(self, name: str) -> None:
        """Empty a directory below this one, and have all nodes forget the names in it."""
        remove_shared(self.backing / name)
        for view in self.views:
            (self.backing / name).mkdir()
            (view / name).rmdir()  # a node forgets the names below a directory that it removes
        (self.backing / name).mkdir()

    def check_early(self, names: Iterable[Path], none_made: str) -> None:
        """Undecided unless some of these names exist, and the other node cannot see them yet."""
        made = [each for each in names if (self.backing / each).exists()]
        if not made:
            raise NotDecidable(none_made)
        seen = any((self.other / each).exists() for each in made)
        if self.nodes.profile.early_names_stay and not self.one_view and seen:
            raise NotDecidable("names that were looked up too early are seen at once")

    def holdable_names(self, command: Interruption[Result]) -> list[Operation]:
        """The operations on names before which a command can be held while another node works."""
        naming = [each for each in command.holdable if each.act.names]
        locks = [each.number for each in naming if each.act is Act.LOCK]
        if self.one_view and locks:  # on one mount the other would wait for the lock
            naming = [each for each in naming if each.number <= locks[0]]
        if not naming:
            raise NotDecidable("no name operation was seen at which it could be held")
        return naming


def play(evidence: Evidence, mounts: Mounts, story: Callable[[Views], None]) -> None:
    """Play a story on the nodes and, if it fails there, on one mount, to tell whose fault it is."""
    (nodes, plain), of = mounts, Views.of
    blame_nodes(
        evidence, nodes.profile, lambda: story(of(nodes, False)), lambda: story(of(plain, True))
    )
