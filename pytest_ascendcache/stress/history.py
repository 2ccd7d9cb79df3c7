"""What is done in a stress run and what came of it: JSON lines, written as the run goes.

The first line is the :class:`Header`. Each round then has a line with what is about to happen,
so that a run that was killed says in what; one for the caches after the disturbances; one for
each compile; one for everything that was found on disk afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import Action
from pytest_ascendcache.files import open_log, read_text

SCHEMA = 1
SHARED = "shared"
"""The cache directory all ranks may use; ``rank<N>`` is the one of a rank's own."""


class HistoryError(ValueError):
    """A file that is no history, or a damaged one; names the line."""


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


_LINES: dict[str, type[Any]] = {
    each.__name__.lower(): each
    for each in (Header, Round, Disturbed, Delivery, Ended, Seen, Later, Rebuilt)
}


class HistoryWriter:
    """Writes a history line by line, each flushed; also keeps it, to be checked."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file = open_log(path)
        self._header = header
        self._lines: list[Line] = []
        self.write(header)

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, line: Line) -> None:
        """Append one line."""
        document = {"line": type(line).__name__.lower(), **asdict(line)}
        self._file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        self._lines.append(line)

    @property
    def history(self) -> History:
        """What was written so far."""
        return History(self._header, _by_round(self._lines[1:]))


def read_history(path: Path) -> History:
    """Read a history back.

    Raises:
        HistoryError: for a file that cannot be read or a line that says nothing of a run.
    """
    try:
        texts = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise HistoryError(f"{path}: {reason}; name a history of --ascend-stress.") from None
    lines = [_line(text, f"{path}:{number}") for number, text in enumerate(texts, 1)]
    if not lines or not isinstance(lines[0], Header):
        raise HistoryError(f"{path}:1: a history begins with its header; this is none.")
    if lines[0].schema != SCHEMA:
        raise HistoryError(f"{path}:1: schema {lines[0].schema}; this version reads {SCHEMA}.")
    _check_numbers(lines[0], lines[1:], path)
    return History(lines[0], _by_round(lines[1:]))


def _check_numbers(header: Header, lines: list[Line], path: Path) -> None:
    """Lines that speak of a rank, an operator or a round there is not are damaged."""
    number = None
    for place, line in enumerate(lines, 2):
        if isinstance(line, Round):
            number = line.number
            for each in (*line.compiles, *((line.later,) if line.later else ())):
                if not 0 <= each.rank < header.ranks:
                    raise HistoryError(f"{path}:{place}: there is no rank {each.rank}.")
                if not all(0 <= one < len(header.operators) for one in each.operators):
                    raise HistoryError(
                        f"{path}:{place}: operators {each.operators} are not all there."
                    )
            for job in (*line.jobs, *((line.rebuild,) if line.rebuild else ())):
                for rank in (job.rank, job.of):
                    if not 0 <= rank < header.ranks:
                        raise HistoryError(f"{path}:{place}: there is no rank {rank}.")
                if not 0 <= job.number < len(header.networks):
                    raise HistoryError(f"{path}:{place}: there is no network {job.number}.")
        elif isinstance(line, Header) or line.round != number:
            raise HistoryError(f"{path}:{place}: this line is not of the round before it.")


def _by_round(lines: list[Line]) -> tuple[RoundRecord, ...]:
    records: list[RoundRecord] = []
    for line in lines:
        if isinstance(line, Round):
            records.append(RoundRecord(line))
            continue
        last = records.pop()
        if isinstance(line, Delivery):
            last = replace(last, deliveries=(*last.deliveries, line))
        elif isinstance(line, Ended):
            last = replace(last, ended=(*last.ended, line))
        elif isinstance(line, Rebuilt):
            last = replace(last, rebuilt=line)
        elif isinstance(line, Disturbed):
            last = replace(last, disturbed=line)
        elif isinstance(line, Seen):
            last = replace(last, seen=line)
        elif isinstance(line, Later):
            last = replace(last, later=line)
        records.append(last)
    return tuple(records)


def _line(text: str, where: str) -> Line:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged(where, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("line") not in _LINES:
        raise _damaged(where, "it does not say which kind of line it is")
    kind = document.pop("line")
    try:
        line: Line = _decode(_LINES[kind], document)
    except (ValueError, TypeError) as error:
        raise _damaged(where, f"'{kind}': {error}"[:100]) from None
    return line


def _damaged(where: str, what: str) -> HistoryError:
    return HistoryError(f"{where}: no line of a history: {what}; cut the file before this line.")


def _decode(kind: Any, value: Any) -> Any:
    """A value of a declared type from JSON; anything else is an error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is no list")
        return tuple(_decode(arguments[0], each) for each in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is no table")
        return {str(key): _decode(arguments[1], each) for key, each in value.items()}
    if is_dataclass(kind):
        return _decode_fields(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _decode_fields(kind: Any, value: Mapping[str, Any]) -> Any:
    types = get_type_hints(kind)
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no table")
    needed = {each.name for each in fields(kind) if each.default is each.default_factory is MISSING}
    if missing := needed - set(value):
        raise TypeError(f"the field {min(missing)!r} is missing")
    unknown = set(value) - {each.name for each in fields(kind)}
    if unknown:
        raise TypeError(f"unknown field {min(unknown)!r}")
    return kind(**{name: _decode(types[name], each) for name, each in value.items()})
