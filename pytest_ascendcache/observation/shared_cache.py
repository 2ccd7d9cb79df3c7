"""One cache directory shared by several nodes: compiles on each of them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.faults import Act, FaultGate, Operation
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.observation.cache import CacheUnderTest
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable
from pytest_ascendcache.observation.interruption import Held, Interruption, spread, standing
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec

MOST = 6
"""Moments of one compile that are tried on each profile."""


class SharedCache:
    """A cache as ``nodes`` see it. ``backing`` watches the directory itself, where entries are
    prepared, marked and inspected; ``on`` has the cache as each node sees it.

    Each compile has its own HOME, working directory and output. ``plain`` are nodes that all use
    one mount: what goes wrong there too is not caused by nodes.
    """

    def __init__(self, cache: CacheUnderTest, nodes: Nodes, plain: Nodes) -> None:
        self._cache = cache
        self._plain = plain
        self.nodes = nodes
        self.profile = nodes.profile
        backing, views = nodes.directory()
        self.backing = cache.elsewhere(backing / "cache")
        self.on = tuple(self.backing.seen_at(view / "cache") for view in views)

    @property
    def others(self) -> tuple[CacheUnderTest, ...]:
        """The cache on every node but the first."""
        return self.on[1:]

    @property
    def early_names_stay(self) -> bool:
        """Whether a name that was looked up too early stays missing for a while."""
        return self.profile.early_names_stay

    def on_one_mount(self) -> SharedCache:
        """The same cache, empty, on nodes that all use the first one's mount."""
        same = SharedCache(self._cache, self._plain, self._plain)
        same.on = (same.on[0],) * len(same.on)
        return same

    def emptied(self) -> SharedCache:
        """The same nodes with a new, empty cache."""
        return SharedCache(self._cache, self.nodes, self._plain)

    def on_host(self, cache: CacheUnderTest, name: str, process_id: int) -> CacheUnderTest:
        """The cache of a node whose host has this name and numbers its processes from this id."""
        host = cache.seen_at(cache.root)
        host.toolchain = getattr(cache.toolchain, "on_host")(name, process_id)  # noqa: B009
        return host

    def blame_nodes(self, story: Callable[[SharedCache], None]) -> None:
        """Run a story on these nodes and, if it fails, on one mount too; see
        :func:`blame_nodes`."""
        blame_nodes(
            self._cache.evidence,
            self.profile,
            lambda: story(self),
            lambda: story(self.on_one_mount()),
        )

    def compile(self, cache: CacheUnderTest, *operators: OperatorSpec, **options: Any) -> Run:
        """Compile on the node of ``cache``; a failure is a valid result. Only what is delivered is
        inspected: looking at the cache would change which names the node knows."""
        return cache.unwatched(cache.request(*operators, **options))

    def moments(self, cache: CacheUnderTest, *operators: OperatorSpec, **options: Any) -> Moments:
        """The file operations of a compile on one node, see :class:`Moments`."""
        return Moments(
            cache.interruption(*operators, **options),
            lambda: self.compile(cache, *operators, **options),
            self.forget,
            self.backing.root,
        )

    def forget(self) -> None:
        """Remove the whole cache, and make every node forget the names it has looked up there."""
        root = self.backing.root
        remove_shared(root)
        if self.early_names_stay:
            for cache in self.on:
                root.mkdir()
                # A node forgets the names below a directory that it removes itself.
                cache.root.rmdir()

    def wrong(self, run: Run) -> str:
        """What is wrong with the kernels of a run; empty if they are right, or the run failed."""
        if not run.succeeded:
            return ""
        return "; ".join(f"{each}: {how}" for each, how in self._cache.unlike_fresh(run).items())

    def failed(self, run: Run) -> str:
        """How a run failed that succeeds without a cache; empty if it did not fail."""
        return self._cache.failed_for_the_cache(run)

    @contextlib.contextmanager
    def opened(
        self, cache: CacheUnderTest, suffix: str, *operators: OperatorSpec, **options: Any
    ) -> Iterator[Held[Run]]:
        """A compile stopped right after it opens a file with this suffix. It may end without
        opening one."""
        request = cache.request(*operators, **options)
        gate = FaultGate(cache.sandbox / f"gate-{request.output.name}")
        self.nodes.hold_opening(self.on.index(cache), gate.reached.parent, suffix)
        try:
            with standing(lambda: cache.unwatched(request), gate) as held:
                yield held
        finally:
            self.nodes.hold_nothing()


def _some(operations: list[Operation], what: str) -> list[Operation]:
    if not operations:
        raise NotDecidable(f"no {what} operation was seen at which it could be held")
    return operations


@dataclass(frozen=True)
class Moments:
    """A recorded compile on a node, which can be stopped before its file operations. ``run`` runs
    it without stopping. ``forget`` empties the directory ``root``; :meth:`reset` brings it back
    into the state before the compile."""

    interruption: Interruption[Run]
    run: Callable[[], Run]
    forget: Callable[[], None]
    root: Path

    @property
    def names(self) -> list[Operation]:
        """Up to :data:`MOST` operations that change names or take locks, evenly selected; fewer for
        a slow toolchain. Raises ``NotDecidable`` if there is none, so that nothing would be
        judged."""
        naming = [each for each in self.interruption.holdable if each.act.names]
        return self.interruption.worthwhile(spread(_some(naming, "name"), MOST))

    @property
    def publishing(self) -> list[Operation]:
        """The first and the last rename or link of its own files: a file is written but not yet in
        place. Raises ``NotDecidable`` if there is none."""
        moving = [each for each in self.interruption.holdable if each.act in (Act.RENAME, Act.LINK)]
        moving = _some(moving, "rename")
        return moving if len(moving) < 2 else [moving[0], moving[-1]]

    def reads(self, name: str) -> list[Operation]:
        """The operations that open files with ``name`` in their path for reading. Raises
        ``NotDecidable`` if there is none."""
        opening = [each for each in self.interruption.holdable if each.act is Act.READ]
        of_name = [each for each in opening if name in each.path]
        return self.interruption.worthwhile(_some(of_name, "read"))

    @property
    def locks_by_fcntl(self) -> bool:
        """Whether it locks with fcntl. bindfs grants such locks to every process."""
        return any(
            each.act is Act.LOCK and each.point == "fcntl" for each in self.interruption.operations
        )

    def reset(self) -> None:
        """Bring the directory into the state before the compile; no node remembers any name in
        it."""
        self.forget()
        self.interruption.before.write(self.root)


def remove_shared(directory: Path) -> None:
    """Remove a directory below its mounts, which may be removing a hidden file at the same time."""
    while directory.exists():
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)


def blame_nodes(
    evidence: Evidence,
    profile: NodeProfile,
    on_nodes: Callable[[], None],
    on_one_mount: Callable[[], None],
) -> None:
    """Run a story on nodes and, if it fails, on nodes that all use one mount. Raises
    ``AssertionError`` if it fails on these nodes alone, and ``NotDecidable`` if it fails on one
    mount too, so nodes are not to blame."""
    try:
        on_nodes()
    except AssertionError as broken:
        same = broken
        if not profile.one_for_all:
            steps, witness = len(evidence.steps), evidence.witness
            try:
                on_one_mount()
            except AssertionError as on_mount:
                same = on_mount
            else:
                del evidence.steps[steps:]
                if witness is not None:
                    evidence.ran(witness)
                raise
        failure = str(same).partition("\n")[0].removeprefix("assert ")
        raise NotDecidable(
            "the same goes wrong where all nodes use one mount, so that it is no effect of "
            f"nodes: {failure}"
        ) from None
