"""One cache directory that several nodes share: compiles on each of them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pytest_ascendcache.faults import Act, Gate, Operation
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable
from pytest_ascendcache.observation.interruption import Held, Interruption, spread, standing
from pytest_ascendcache.observation.recovery import CacheUnderTest
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec

_WAITS = (NodeProfile.LOCAL, NodeProfile.ONE_MOUNT, NodeProfile.NFS_DEFAULT, NodeProfile.GIVEN)
"""Profiles on which a lock that one node holds may keep another waiting."""

MOST = 6
"""Moments of one compile that are worth their time on each profile."""


class SharedCache:
    """A cache as ``nodes`` see it. ``backing`` watches the directory itself, and is where entries
    are prepared, marked and looked at; ``on`` has the cache as each node sees it.

    HOME, working directory and output are each compile's own and not shared. ``plain`` are nodes
    that all use one mount: what goes wrong there too is no effect of nodes.
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
    def locks_wait(self) -> bool:
        """Whether a lock of one node may keep another waiting."""
        return self.profile in _WAITS

    @property
    def early_names_stay(self) -> bool:
        """Whether a name that was looked up too early has to stay missing for a while."""
        return self.profile.early_names_stay

    def on_one_mount(self) -> SharedCache:
        """The same cache, empty, on nodes that all use one mount."""
        return SharedCache(self._cache, self._plain, self._plain).with_one_view()

    def with_one_view(self) -> SharedCache:
        """The same where all nodes use the first one's mount."""
        self.on = (self.on[0],) * len(self.on)
        return self

    def emptied(self) -> SharedCache:
        """The same nodes with another, empty cache."""
        return SharedCache(self._cache, self.nodes, self._plain)

    def on_host(self, cache: CacheUnderTest, name: str, process_id: int) -> CacheUnderTest:
        """The cache of a node whose host has this name and gives this number to its processes."""
        host = cache.seen_at(cache.root)
        host.toolchain = getattr(cache.toolchain, "on_host")(name, process_id)  # noqa: B009
        return host

    def blame_nodes(self, story: Callable[[SharedCache], None]) -> None:
        """Tell a story on these nodes, and where it ends badly, on one mount too; see
        :func:`blame_nodes`."""
        blame_nodes(
            self._cache.evidence,
            self.profile,
            lambda: story(self),
            lambda: story(self.on_one_mount()),
        )

    def compile(self, cache: CacheUnderTest, *operators: OperatorSpec, **given: Any) -> Run:
        """Compile on the node that ``cache`` is on; failing is an answer too. Looking would
        change what the node knows of names, so nothing is looked at but what is delivered."""
        return cache.unwatched(cache.request(*operators, **given))

    def moments(self, cache: CacheUnderTest, *operators: OperatorSpec, **given: Any) -> Moments:
        """The file operations of a compile on one node, see :class:`Moments`."""
        return Moments(
            cache.interruption(*operators, **given),
            lambda: self.compile(cache, *operators, **given),
            self.forget,
            self.backing.root,
        )

    def forget(self) -> None:
        """Remove the whole cache, and have every node forget the names it has looked up in it."""
        root = self.backing.root
        remove_shared(root)
        if self.early_names_stay:
            for cache in self.on:
                root.mkdir()
                # A node drops what it knows below a directory that it removes itself.
                cache.root.rmdir()

    def wrong(self, run: Run) -> str:
        """What is wrong with the kernels of a run; empty where it failed, or they are right."""
        if not run.succeeded:
            return ""
        return "; ".join(f"{each}: {how}" for each, how in self._cache.unlike_fresh(run).items())

    def failed(self, run: Run) -> str:
        """How a run failed that succeeds without a cache; empty for one that did not fail."""
        return self._cache.failed_for_the_cache(run)

    @contextlib.contextmanager
    def opened(
        self, cache: CacheUnderTest, suffix: str, *operators: OperatorSpec, **given: Any
    ) -> Iterator[Held[Run]]:
        """A compile that stands still right behind its opening of a file with this end, or has
        ended without opening one."""
        request = cache.request(*operators, **given)
        gate = Gate(cache.sandbox / f"gate-{request.output.name}")
        self.nodes.hold_opening(self.on.index(cache), gate.reached.parent, suffix)
        try:
            with standing(lambda: cache.unwatched(request), gate) as held:
                yield held
        finally:
            self.nodes.hold_nothing()


def _some(found: list[Operation], what: str) -> list[Operation]:
    if not found:
        raise NotDecidable(f"no {what} operation was seen at which it could be held")
    return found


class Moments:
    """A compile on a node, recorded once, that can be held before its file operations.

    ``run`` is the compile that nothing holds. ``forget`` empties the directory, which is put back
    into the state before it, by its own name ``root``, by :meth:`reset`.
    """

    def __init__(
        self,
        interruption: Interruption[Run],
        run: Callable[[], Run],
        forget: Callable[[], None],
        root: Path,
    ) -> None:
        self._interruption = interruption
        self.run = run
        self._forget = forget
        self._root = root

    @property
    def names(self) -> list[Operation]:
        """The operations that change names, locks among them; :data:`MOST` of them, evenly spread,
        or fewer where the toolchain is slow.

        Raises:
            NotDecidable: where there is none, so that a story about them would judge nothing.
        """
        naming = [each for each in self._interruption.holdable if each.act.names]
        return self._interruption.worthwhile(spread(_some(naming, "name"), MOST))

    @property
    def publishing(self) -> list[Operation]:
        """The first and the last change of a name of its own files: a file is written and not yet
        in its place.

        Raises:
            NotDecidable: where there is none.
        """
        moving = [
            each for each in self._interruption.holdable if each.act in (Act.RENAME, Act.LINK)
        ]
        moving = _some(moving, "rename")
        return moving if len(moving) < 2 else [moving[0], moving[-1]]

    def reads(self, name: str) -> list[Operation]:
        """The openings for reading of files with this in their names.

        Raises:
            NotDecidable: where there is none.
        """
        found = [each for each in self._interruption.holdable if each.act is Act.READ]
        of_name = [each for each in found if name in each.path]
        return self._interruption.worthwhile(_some(of_name, "read"))

    @property
    def locks(self) -> list[Operation]:
        """Where it takes locks."""
        return [each for each in self._interruption.operations if each.act is Act.LOCK]

    @property
    def locks_by_fcntl(self) -> bool:
        """Whether it locks by fcntl: which bindfs grants to everybody."""
        return any(each.point == "fcntl" for each in self.locks)

    def is_locked(self, at: Operation) -> bool:
        """Whether it may hold a lock before an operation."""
        return bool(self.locks) and at.number > self.locks[0].number

    def reset(self) -> None:
        """Put the directory into the state before; no node remembers any name of it."""
        self._forget()
        self._interruption.before.write(self._root)

    def held(self, at: Operation, may_end: bool = False) -> Held[Run]:
        """The compile, standing before an operation, in the directory as it is."""
        return self._interruption.held(at, may_end)


def remove_shared(directory: Path) -> None:
    """Remove a directory from under its mounts, which may be removing a hidden file themselves."""
    while directory.exists():
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)


def blame_nodes(
    evidence: Evidence,
    profile: NodeProfile,
    on_nodes: Callable[[], None],
    on_one_mount: Callable[[], None],
) -> None:
    """Tell a story on nodes, and where it ends badly, on nodes that all use one mount.

    Raises:
        AssertionError: where it ends badly on these nodes alone.
        NotDecidable: where it ends badly on one mount too: nodes are not what it is for.
    """
    try:
        on_nodes()
    except AssertionError as broken:
        same = broken
        if not profile.one_for_all:
            steps, witness = len(evidence.steps), evidence.witness
            try:
                on_one_mount()
            except AssertionError as there:
                same = there
            else:
                del evidence.steps[steps:]
                if witness is not None:
                    evidence.ran(witness)
                raise
        said = str(same).partition("\n")[0].removeprefix("assert ")
        raise NotDecidable(
            "the same goes wrong where all nodes use one mount, so that it is no effect of "
            f"nodes: {said}"
        ) from None
