"""What is done in a stress run and what came of it.

Each round has a line with what is about to happen, so that a run that was killed says in what; one
for the caches after the disturbances; one for each compile and each job; one for everything that
was found on disk afterwards; and one for each that was done by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import Action

SCHEMA = 1
SHARED = "shared"
"""The cache directory all ranks may use; ``rank<N>`` is the one of a rank's own."""


class Setting(str, Enum):
    """What of the compile options is varied, beside the cache mode."""

    PLAIN = "plain"
    PRECISION = "high_precision"
    PERFORMANCE = "high_performance"
    DEBUG = "debug_level_1"


class Harm(str, Enum):
    """What is done to a cache between rounds."""

    AGE = "age"
    DELETE = "delete"
    CLEAR = "clear"
    DAMAGE = "damage"


@dataclass(frozen=True)
class Fault:
    """``action`` at one of the toolchain's own operations, counted modulo how many it has."""

    action: Action
    point: int


@dataclass(frozen=True)
class Compile:
    """One process of a rank; operators by number, ``limited`` with the smallest limits."""

    rank: int
    operators: tuple[int, ...]
    mode: CacheMode
    setting: Setting = Setting.PLAIN
    shared: bool = True
    limited: bool = False
    fault: Fault | None = None

    @property
    def cache(self) -> str:
        """Name of the cache directory it is given."""
        return SHARED if self.shared else f"rank{self.rank}"


class Doing(str, Enum):
    """What a rank does beside compiling operators."""

    INSTALL = "install"
    UNINSTALL = "uninstall"
    RUN = "run"
    BUILD = "build"


@dataclass(frozen=True)
class Job:
    """One process of a rank: it installs or uninstalls the static package of a network, runs the
    network with what is installed, or builds it incrementally as rank ``of``, which may be one that
    another node had before."""

    rank: int
    doing: Doing
    number: int
    of: int = 0
    fault: Fault | None = None


@dataclass(frozen=True)
class Disturbance:
    """``entry`` is counted modulo how many valid entries there are, in the order of names;
    ``damage`` names one of ``faults.DAMAGES``."""

    harm: Harm
    cache: str
    entry: int = 0
    damage: str = ""


@dataclass(frozen=True)
class Round:
    """Disturbances one after the other, then compiles and jobs all at the same time, then one by
    itself: ``later`` shows whether the cache can still be used, ``rebuild`` the same of a build."""

    number: int
    disturbances: tuple[Disturbance, ...]
    compiles: tuple[Compile, ...]
    later: Compile | None = None
    jobs: tuple[Job, ...] = ()
    rebuild: Job | None = None

    @property
    def steps(self) -> int:
        """How many steps it counts for."""
        alone = (self.later is not None) + (self.rebuild is not None)
        return len(self.disturbances) + len(self.compiles) + len(self.jobs) + alone


@dataclass(frozen=True)
class Delivery:
    """How a compile of a rank ended, with the SHA-256 of each kernel, empty where there is none.

    ``returncode`` is ``None`` where it did not end in time. ``struck`` says where its fault did.
    """

    round: int
    rank: int
    returncode: int | None
    kernels: tuple[str, ...]
    struck: str = ""
    said: str = ""

    @property
    def killed(self) -> bool:
        """Whether it was killed on purpose."""
        return bool(self.struck) and self.returncode == -9


@dataclass(frozen=True)
class Ended:
    """How a job of a round ended, counted from 0, with the SHA-256 of its outputs: empty where
    there are none. The other fields are those of a :class:`Delivery`."""

    round: int
    job: int
    returncode: int | None
    outputs: str = ""
    struck: str = ""
    said: str = ""

    @property
    def killed(self) -> bool:
        """Whether it was killed on purpose."""
        return bool(self.struck) and self.returncode == -9


@dataclass(frozen=True)
class EntrySeen:
    """One entry: digests of its files (empty where missing), and what keeps it from being valid."""

    stem: str
    object: str
    metadata: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class CacheSeen:
    """A cache directory; ``residue`` are files named for entries that belong to none."""

    cache: str
    entries: tuple[EntrySeen, ...] = ()
    residue: tuple[str, ...] = ()


@dataclass(frozen=True)
class Disturbed:
    """The disturbed caches, before the compiles of a round."""

    round: int
    caches: tuple[CacheSeen, ...]


@dataclass(frozen=True)
class Seen:
    """Every cache after a round's compiles, and the paths that changed meanwhile; the ``packages``
    that are installed, by their networks, and what is wrong with their ``index``.

    Paths begin with ``shared/``, ``build/rank_<N>/`` or ``rank<N>/``; below the last are a rank's
    ``cache``, ``home``, ``work`` and ``out``.
    """

    round: int
    caches: tuple[CacheSeen, ...]
    touched: tuple[str, ...] = ()
    packages: tuple[int, ...] = ()
    index: tuple[str, ...] = ()


@dataclass(frozen=True)
class Later:
    """What became of a round's ``later``: how the first compile ended with which kernels, and
    whether one after it was served each of them, by a mark that was put into its entry."""

    round: int
    returncode: int | None
    kernels: tuple[str, ...]
    reused: tuple[bool, ...]


@dataclass(frozen=True)
class Rebuilt:
    """What became of a round's ``rebuild``: how it ended with which outputs, and which files the
    same build wrote again right after it."""

    round: int
    returncode: int | None
    outputs: str
    written: tuple[str, ...]


@dataclass(frozen=True)
class Header:
    """What a run was made of. ``right`` has, by setting, the digest of every operator's kernel
    as compiles that no cache had a part in gave it, ``outputs`` the same of every network, by
    what is done with it. ``networks`` are those that jobs are about. Rank ``n`` is on node
    ``n * nodes // ranks``, and ``profile`` is what the nodes' mounts imitate."""

    seed: int
    ranks: int
    operators: tuple[str, ...]
    toolchain: str
    right: dict[str, tuple[str, ...]]
    nodes: int = 1
    profile: str = "local"
    networks: tuple[str, ...] = ()
    outputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    schema: int = SCHEMA

    def node(self, rank: int) -> int:
        """The node a rank is on."""
        return rank * self.nodes // self.ranks

    def kernel(self, setting: Setting, operator: int) -> str:
        """The right digest; ``KeyError`` where none is known."""
        return self.right[setting.value][operator]


Line = Header | Round | Disturbed | Delivery | Ended | Seen | Later | Rebuilt


@dataclass(frozen=True)
class RoundRecord:
    """What a history has of one round; a run that was cut short lacks the rest of its last."""

    round: Round
    deliveries: tuple[Delivery, ...] = ()
    disturbed: Disturbed | None = None
    seen: Seen | None = None
    later: Later | None = None
    ended: tuple[Ended, ...] = ()
    rebuilt: Rebuilt | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is missing."""
        return self.seen is not None and (
            len(self.deliveries) == len(self.round.compiles)
            and len(self.ended) == len(self.round.jobs)
            and (self.round.later is None) == (self.later is None)
            and (self.round.rebuild is None) == (self.rebuilt is None)
        )

    def lines(self) -> Iterator[Line]:
        """What it is written as."""
        yield self.round
        if self.disturbed is not None:
            yield self.disturbed
        yield from self.deliveries
        yield from self.ended
        if self.seen is not None:
            yield self.seen
        if self.later is not None:
            yield self.later
        if self.rebuilt is not None:
            yield self.rebuilt


@dataclass(frozen=True)
class History:
    """A whole run."""

    header: Header
    rounds: tuple[RoundRecord, ...]

    @property
    def steps(self) -> int:
        """Steps of all rounds."""
        return sum(each.round.steps for each in self.rounds)

    def lines(self) -> Iterator[Line]:
        """What it is written as, but for the header."""
        for each in self.rounds:
            yield from each.lines()
