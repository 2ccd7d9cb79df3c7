"""The records of a stress run: what each round does, and what comes of it.

A round is announced in a line of its own before it begins, so that a killed run shows what it was
doing. Lines follow for the caches after the disturbances, for each compile and each job, for
everything on disk afterwards, and for each step that then runs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import Action

SCHEMA = 1
SHARED = "shared"
"""The cache directory that all ranks may use; ``rank<N>`` is rank N's private one."""


class Setting(str, Enum):
    """The compile options that vary besides the cache mode."""

    PLAIN = "plain"
    PRECISION = "high_precision"
    PERFORMANCE = "high_performance"
    DEBUG = "debug_level_1"


class StressHarm(str, Enum):
    """How the harness disturbs a cache between rounds."""

    AGE = "age"
    DELETE = "delete"
    CLEAR = "clear"
    DAMAGE = "damage"


@dataclass(frozen=True)
class Fault:
    """``action`` strikes one of the toolchain's operations: ``point`` modulo their number."""

    action: Action
    point: int


@dataclass(frozen=True)
class Compile:
    """A rank's run of atc. Operators are numbers; ``limited`` sets the smallest size limits."""

    rank: int
    operators: tuple[int, ...]
    mode: CacheMode
    setting: Setting = Setting.PLAIN
    shared: bool = True
    limited: bool = False
    fault: Fault | None = None

    @property
    def cache(self) -> str:
        return SHARED if self.shared else f"rank{self.rank}"


class Doing(str, Enum):
    """What a rank can do besides compiling operators."""

    INSTALL = "install"
    UNINSTALL = "uninstall"
    RUN = "run"
    BUILD = "build"


@dataclass(frozen=True)
class StressJob:
    """One process of a rank that installs or uninstalls the static package of network ``number``,
    runs the network with the installed packages, or builds it incrementally as rank ``of``, which
    may have run on another node before."""

    rank: int
    doing: Doing
    number: int
    of: int = 0
    fault: Fault | None = None


@dataclass(frozen=True)
class Disturbance:
    """``entry`` is an index, modulo their number, into the valid entries sorted by name;
    ``damage`` names one of ``faults.DAMAGES``."""

    harm: StressHarm
    cache: str
    entry: int = 0
    damage: str = ""


@dataclass(frozen=True)
class Round:
    """Disturbances one after another, then compiles and jobs at the same time, then steps alone:
    ``later`` shows whether the cache is still usable, ``rebuild`` the same for a rank's kernels."""

    number: int
    disturbances: tuple[Disturbance, ...]
    compiles: tuple[Compile, ...]
    later: Compile | None = None
    jobs: tuple[StressJob, ...] = ()
    rebuild: StressJob | None = None

    @property
    def steps(self) -> int:
        alone = (self.later is not None) + (self.rebuild is not None)
        return len(self.disturbances) + len(self.compiles) + len(self.jobs) + alone


class _Ending:
    """How a process of a round ended. ``returncode`` is None if it exceeded its deadline,
    ``struck`` says where its fault struck, ``said`` is the last line that a failed one printed."""

    returncode: int | None
    struck: str

    @property
    def killed(self) -> bool:
        """Whether its fault killed it."""
        return bool(self.struck) and self.returncode == -9


@dataclass(frozen=True)
class RankDelivery(_Ending):
    """How a compile ended, with the SHA-256 of each kernel, empty if it was not delivered."""

    round: int
    rank: int
    returncode: int | None
    kernels: tuple[str, ...]
    struck: str = ""
    said: str = ""


@dataclass(frozen=True)
class JobEnd(_Ending):
    """How job number ``job`` (from 0) ended, with the SHA-256 of its outputs, empty without any."""

    round: int
    job: int
    returncode: int | None
    outputs: str = ""
    struck: str = ""
    said: str = ""


@dataclass(frozen=True)
class EntrySeen:
    """A cache entry: digests of its files (empty if missing), and why it is not valid, if so."""

    stem: str
    object: str
    metadata: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class CacheSeen:
    """A cache directory; ``residue`` are files named like an entry's that belong to no entry."""

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
    """The state after a round: every cache, the paths that the round changed, the networks whose
    ``packages`` are installed, and what is wrong with the ``index`` of those packages.

    Paths begin with ``shared/``, ``build/rank_<N>/`` or ``rank<N>/``; the last holds a rank's
    ``cache``, ``home``, ``work`` and ``out``.
    """

    round: int
    caches: tuple[CacheSeen, ...]
    touched: tuple[str, ...] = ()
    packages: tuple[int, ...] = ()
    index: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaterCompiles:
    """The result of a round's ``later``: the first compile's exit status and kernels, and whether
    the second compile delivered each kernel with the marker of its entry."""

    round: int
    returncode: int | None
    kernels: tuple[str, ...]
    reused: tuple[bool, ...]


@dataclass(frozen=True)
class Rebuilt:
    """The result of a round's ``rebuild``: the first build's exit status and outputs, and the files
    that an identical second build wrote."""

    round: int
    returncode: int | None
    outputs: str
    written: tuple[str, ...]


@dataclass(frozen=True)
class Header:
    """What a run consists of, and the right results.

    ``right`` maps a setting to the digests of all operators' kernels, as compiles without a cache
    deliver them; ``outputs`` maps a kind of job to the digests of all ``networks``' outputs. Rank
    ``n`` is on node ``n * nodes // ranks``; ``profile`` is the kind of storage that nodes imitate.
    """

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
        return rank * self.nodes // self.ranks

    def kernel(self, setting: Setting, operator: int) -> str:
        """The digest of the right kernel; raises ``KeyError`` if none is known for the setting."""
        return self.right[setting.value][operator]


Line = Header | Round | Disturbed | RankDelivery | JobEnd | Seen | LaterCompiles | Rebuilt


@dataclass(frozen=True)
class RoundRecord:
    """All lines of one round. The last round of a run that was cut short may lack some."""

    round: Round
    deliveries: tuple[RankDelivery, ...] = ()
    disturbed: Disturbed | None = None
    seen: Seen | None = None
    later: LaterCompiles | None = None
    ended: tuple[JobEnd, ...] = ()
    rebuilt: Rebuilt | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no line is missing."""
        return self.seen is not None and (
            len(self.deliveries) == len(self.round.compiles)
            and len(self.ended) == len(self.round.jobs)
            and (self.round.later is None) == (self.later is None)
            and (self.round.rebuild is None) == (self.rebuilt is None)
        )

    def lines(self) -> Iterator[Line]:
        """Its lines in the order of the file."""
        lines = (
            *(self.round, self.disturbed, *self.deliveries, *self.ended),
            *(self.seen, self.later, self.rebuilt),
        )
        return (line for line in lines if line is not None)


@dataclass(frozen=True)
class StressHistory:
    """A complete run."""

    header: Header
    rounds: tuple[RoundRecord, ...]

    @property
    def steps(self) -> int:
        return sum(each.round.steps for each in self.rounds)

    def lines(self) -> Iterator[Line]:
        """All lines of the file but the header."""
        for each in self.rounds:
            yield from each.lines()
