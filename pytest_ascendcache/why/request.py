"""The command whose misses are explained, the places in which it is tried, and the base class of
every kind of command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import Canary
from pytest_ascendcache.caches.entry import CachedUnit
from pytest_ascendcache.processes.launch import Command

DIGEST = "sha256 "
"""The beginning of a value that is known by its digest only."""


FileContent = str | Path
"""The text of a file, or a file with it."""


class RequestError(ValueError):
    """What was asked cannot be tried. The text is one sentence."""


class Fix(str, Enum):
    """What is mended in a copy of the cache before a run."""

    STAMP = "the version file of this toolchain"
    TIMES = "entries that were used just now"
    LINK = "a directory in place of a link"


class InputKind(str, Enum):
    """The kind of a cause. The values are parts of the keys of texts, and appear in reports."""

    DIRECTORY = "directory"
    MODE = "mode"
    FORCE = "force"
    DEBUG_LEVEL = "debug_level"
    DEBUG_CONFIG = "debug_config"
    CHIP = "chip"
    LINK = "link"
    STAMP = "stamp"
    AGED = "aged"
    DAMAGED = "damaged"
    FATAL = "fatal"
    REFUSED = "refused"
    OPTION = "option"
    VARIABLE = "variable"
    FILE = "file"
    PROGRAM = "program"
    OPERATOR = "operator"
    EMPTY = "empty"
    NEW = "new"
    UNSTABLE = "unstable"
    UNPACKED = "unpacked"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class PlaceOfUse:
    """One way to run the command: options and variables, the cache that is copied for the run,
    and what is mended in the copy: ``mended`` are entries in place of which a run of the
    same command put whole ones, ``without`` are left out. ``files`` are contents of files that
    options name, by option; ``overlays`` are those of files in directories, by the option or
    variable and the path in it.
    """

    interface: CommandInterface
    program: Path
    options: Mapping[str, str]
    environment: Mapping[str, str]
    cache: Path
    fixes: frozenset[Fix] = frozenset()
    mended: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    files: Mapping[str, FileContent] = field(default_factory=dict)
    overlays: Mapping[tuple[str, str], FileContent] = field(default_factory=dict)

    @property
    def below(self) -> str:
        """The directory of the entries, by its path in the cache."""
        return self.interface.below(self)

    @property
    def entries(self) -> Mapping[str, CachedUnit]:
        """The entries that a run of it may find, whole or not."""
        return self.interface.read(self.cache / self.below)

    @property
    def command_key(self) -> object:
        """Places of one key run the same command."""
        parts: tuple[Mapping[Any, object], ...]
        parts = (self.options, self.environment, self.files, self.overlays)
        return self.program, *(tuple(sorted(each.items())) for each in parts)

    @property
    def key(self) -> object:
        """Places of one key give one outcome."""
        return self.command_key, self.cache, self.fixes, self.mended, self.without

    def overlay(self, here: Path, options: dict[str, str], environment: dict[str, str]) -> None:
        """Make the directories with other contents below ``here``, and name them."""
        for (key, name), text in self.overlays.items():
            where = environment if key in environment else options
            if key in where:
                target = here / "overlays" / key
                where[key] = str(_overlaid(Path(where[key]), target, name, text))


def put(path: Path, content: FileContent) -> None:
    """Make a file, or a link to one."""
    if isinstance(content, Path):
        path.symlink_to(content)
    else:
        path.write_text(content, encoding="utf-8")


def _overlaid(original: Path, target: Path, name: str, content: FileContent) -> Path:
    """A directory like ``original``, of links to what is in it, with another content of one file.
    ``original`` may be such a directory itself."""
    part, _, rest = name.partition("/")
    if original != target:
        target.mkdir(parents=True)
        for each in original.iterdir() if original.is_dir() else ():
            (target / each.name).symlink_to(each)
    if not rest:
        (target / part).unlink(missing_ok=True)
        put(target / part, content)
    else:
        below = target / part
        original = below.resolve() if below.is_symlink() else below
        if below.is_symlink():
            below.unlink()
        _overlaid(original, below, rest, content)
    return target


Apply = Callable[[PlaceOfUse], PlaceOfUse]
"""What makes another place of one."""


def option_set(name: str, value: str | None) -> Apply:
    """Give an option a value, or leave it out."""
    return lambda place: replace(place, options=_set(place.options, name, value))


def variable_set(name: str, value: str | None) -> Apply:
    """Give a variable a value, or unset it."""
    return lambda place: replace(place, environment=_set(place.environment, name, value))


def program_set(program: Path) -> Apply:
    """Start another program."""
    return lambda place: replace(place, program=program)


def content_set(option: str, content: FileContent) -> Apply:
    """Give the file that an option names another content."""
    return lambda place: replace(place, files={**place.files, option: content})


def overlaid(key: str, contents: Mapping[str, FileContent]) -> Apply:
    """Give files in the directory that an option or a variable names other contents."""
    made = {(key, name): content for name, content in contents.items()}
    return lambda place: replace(place, overlays={**place.overlays, **made})


def _set(values: Mapping[str, str], name: str, value: str | None) -> dict[str, str]:
    kept = {key: each for key, each in values.items() if key != name}
    return kept if value is None else {**kept, name: value}


@dataclass(frozen=True)
class SingleChange:
    """A suspect: how this place differs from one that hits, and how to try that one. ``here`` and
    ``there`` are values for the reader. Without ``apply`` it is known by a digest only."""

    kind: InputKind
    name: str
    here: str
    there: str
    apply: Apply | None = field(default=None, compare=False)
    about: str = ""

    def applied(self, place: PlaceOfUse) -> PlaceOfUse:
        return place if self.apply is None else self.apply(place)


def variable_change(place: PlaceOfUse, name: str, value: str | None) -> SingleChange:
    """A place with another value of a variable, or without it."""
    here = place.environment.get(name, "")
    return SingleChange(InputKind.VARIABLE, name, here, value or "", variable_set(name, value))


@dataclass(frozen=True)
class Attempt:
    """What one run delivered and did to its copy of the cache.

    ``served`` says of each operator whether its kernel came from the cache. ``failure`` says how
    the run failed. ``stamps`` are the texts of files beside the entries that it changed, before and
    after, by their paths. ``rewritten`` are entries that were there and were compiled again, each
    with what had been wrong with it; ``gone`` were removed, ``stored`` are new. ``kept`` is where
    the new files of the cache are. ``keys`` are the names of kernels by operator, and ``delivered``
    is what a run served until it failed.
    """

    served: Mapping[str, bool]
    failure: str
    stamps: Mapping[str, tuple[str, str]]
    rewritten: Mapping[str, str]
    gone: frozenset[str]
    stored: frozenset[str]
    kept: Path
    keys: Mapping[str, str]
    delivered: Mapping[str, bool]

    @property
    def missed(self) -> frozenset[str]:
        return frozenset(name for name, served in self.served.items() if not served)


@dataclass(frozen=True)
class MissCause:
    """Why some operators are not served. ``is_proven``: runs show it in both directions. ``runs``
    were needed until it was found."""

    change: SingleChange
    operators: tuple[str, ...]
    is_proven: bool
    runs: int = 0


@dataclass(frozen=True)
class Trial:
    """One run of a place: in the directory ``here``, with ``out``, ``work`` and ``home`` in it, on
    the copy ``cache``; ``marks`` are in the kernels of copies, by token."""

    place: PlaceOfUse
    here: Path
    cache: Path
    marks: Mapping[str, Canary]


class CommandInterface(ABC):
    """One kind of command: where it keeps kernels, and how it is run on a copy of them.

    ``program`` is its usual name. With ``is_told``, what a run delivers tells which kernels were
    served; else a run on an empty cache tells what the command needs, and what is not written anew
    was served. With ``files_beside``, files above the entries belong to the cache. ``variable``
    names the cache, and so does what is called ``setting``; ``packages`` are variables that name
    directories of files that kernels depend on.
    """

    program: str
    is_told = True
    files_beside = False
    variable: str
    setting: str
    packages: tuple[str, ...]

    @abstractmethod
    def file_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """The options that name a file which is read, with its path."""

    def directory_options(self, _options: Mapping[str, str]) -> Mapping[str, str]:
        """The options that name a directory which is read."""
        return {}

    def is_place(self, _option: str) -> bool:
        """Whether an option says only where files go or kernels are."""
        return False

    @abstractmethod
    def shown(self, option: str) -> str:
        """An option for the reader."""

    @abstractmethod
    def arguments(self, options: Mapping[str, str]) -> list[str]:
        """The words that are these options."""

    @abstractmethod
    def consulted(
        self, options: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Path, str]:
        """The cache directory that the command uses, and the setting that says so."""

    def root(self, directory: Path) -> Path:
        """The cache that a directory named by the user is a part of, or holds."""
        return directory

    @abstractmethod
    def below(self, place: PlaceOfUse) -> str:
        """The directory of the entries that a run looks at, by its path in the cache."""

    @abstractmethod
    def read(self, directory: Path) -> Mapping[str, CachedUnit]:
        """The entries of such a directory by stem, whole or not."""

    @abstractmethod
    def command(self, trial: Trial) -> Command:
        """The program on the cache, writing below ``here`` wherever it can be told to."""

    def delivered(self, _trial: Trial) -> tuple[dict[str, bool], dict[str, str]]:
        """Of each operator that a run delivered: whether it was served, and the kernel's name."""
        return {}, {}

    @abstractmethod
    def suspects(self, place: PlaceOfUse, cache: Path) -> Iterator[SingleChange]:
        """Suspects that options, variables and names of files show."""

    def inferred(self, _place: PlaceOfUse, _outcome: Attempt) -> Iterator[tuple[SingleChange, str]]:
        """What files alone tell of single misses that nothing else explains."""
        return iter(())

    def single_changes(self, _place: PlaceOfUse, _asked: PlaceOfUse) -> Iterator[SingleChange]:
        """Other values of what kernels depend on, the likely ones first, where ``place`` is
        ``asked`` with changes."""
        return iter(())


@dataclass(frozen=True)
class UserRequest:
    """A command line: the program, its options, the environment that it runs in. ``cache`` is the
    directory in which the user expects the kernels."""

    interface: CommandInterface
    program: Path
    options: Mapping[str, str]
    environment: Mapping[str, str]
    cache: Path

    @property
    def consulted(self) -> tuple[Path, str]:
        """The cache directory that the command uses, and the setting that says so."""
        return self.interface.consulted(self.options, self.environment)

    @property
    def place(self) -> PlaceOfUse:
        """The place as it is."""
        root = self.interface.root(self.consulted[0])
        return PlaceOfUse(self.interface, self.program, self.options, self.environment, root)
