"""The command whose misses are explained, and the places in which it is tried."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import CACHE_PATH
from pytest_ascendcache.release.kernels import kernel_cache
from pytest_ascendcache.toolchains.atc import find_program

FILE_OPTIONS = frozenset((*atc.INPUT_FILES, atc.SINGLE_OP, atc.DEBUG_CONFIG, atc.PRECISION_FILE))
DIRECTORY_OPTIONS = frozenset((atc.OP_BANK, atc.MODEL_BANK, "debug_dir"))
HOME_CACHE = "HOME"
DIGEST = "sha256 "
"""The beginning of a value that is known by its digest only."""


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
    REFUSED = "refused"
    OPTION = "option"
    VARIABLE = "variable"
    FILE = "file"
    OPERATOR = "operator"
    EMPTY = "empty"
    NEW = "new"
    UNSTABLE = "unstable"


@dataclass(frozen=True)
class PlaceOfUse:
    """One way to run the command: options and variables, the cache that is copied for the run,
    and what is mended in the copy: ``mended`` are entries in place of which a run of the
    same command put whole ones. ``files`` are contents of files that options name, by option;
    ``overlays`` are those of files in directories, by the option or variable and the path in it.
    """

    options: Mapping[str, str]
    environment: Mapping[str, str]
    cache: Path
    fixes: frozenset[Fix] = frozenset()
    mended: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict)
    overlays: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def soc(self) -> str:
        return self.options.get(atc.SOC, "")

    @property
    def key(self) -> object:
        """Places of one key give one outcome."""
        parts: tuple[Mapping[Any, str], ...]
        parts = (self.options, self.environment, self.files, self.overlays)
        return (
            *(tuple(sorted(each.items())) for each in parts),
            self.cache,
            self.fixes,
            self.mended,
        )


Apply = Callable[[PlaceOfUse], PlaceOfUse]
"""What makes another place of one."""


def option_set(name: str, value: str | None) -> Apply:
    """Give an option a value, or leave it out."""
    return lambda place: replace(place, options=_set(place.options, name, value))


def variable_set(name: str, value: str | None) -> Apply:
    """Give a variable a value, or unset it."""
    return lambda place: replace(place, environment=_set(place.environment, name, value))


def content_set(option: str, text: str) -> Apply:
    """Give the file that an option names another content."""
    return lambda place: replace(place, files={**place.files, option: text})


def overlaid(key: str, name: str, text: str) -> Apply:
    """Give a file in the directory that an option or a variable names another content."""
    return lambda place: replace(place, overlays={**place.overlays, (key, name): text})


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


@dataclass(frozen=True)
class UserRequest:
    """A command line: the program, its options, the environment that it runs in. ``cache`` is the
    directory in which the user expects the kernels."""

    program: Path
    options: Mapping[str, str]
    environment: Mapping[str, str]
    cache: Path

    @property
    def consulted(self) -> tuple[Path, str]:
        """The cache directory that the command uses, and the setting that says so (document C)."""
        if option := self.options.get(atc.CACHE_DIR, ""):
            return Path(option), f"--{atc.CACHE_DIR}"
        if variable := self.environment.get(CACHE_PATH, "").strip():
            return Path(variable), CACHE_PATH
        return Path(self.environment.get("HOME") or "/") / "atc_data", HOME_CACHE

    @property
    def place(self) -> PlaceOfUse:
        """The place as it is."""
        return PlaceOfUse(self.options, self.environment, self.consulted[0])


def read_request(
    words: Sequence[str], variables: Mapping[str, str], work: Path, cache: Path | None
) -> UserRequest:
    """Read a command line that is run in the directory ``work``. Raises ``RequestError``."""
    names = [each for each in words if not atc.ASSIGNMENT.fullmatch(each)]
    if not names or names[0].startswith("-"):
        raise RequestError("there is no command; write -- atc --model=... after the options.")
    try:
        command = atc.parse_command(words, variables, "set it")
    except atc.CommandError as error:
        raise RequestError(f"the command cannot be read: {error}") from None
    options = dict(command.options)
    for name in (FILE_OPTIONS | DIRECTORY_OPTIONS | {atc.CACHE_DIR}) & options.keys():
        if options[name]:
            options[name] = os.path.normpath(work / options[name])
    for name in sorted(FILE_OPTIONS & options.keys()):
        if options[name] and not Path(options[name]).exists():
            raise RequestError(f"--{name}={options[name]}: there is no such file.")
    if not options.get(atc.SINGLE_OP) and not options.get(atc.MODEL):
        raise RequestError("the command has neither --model nor --singleop; nothing is compiled.")
    environment = {**variables, **command.environment}
    if environment.get(CACHE_PATH):
        environment[CACHE_PATH] = os.path.normpath(work / environment[CACHE_PATH].strip())
    request = UserRequest(find_program(names[0], "atc"), options, environment, work)
    expected = work / cache if cache is not None else work / request.consulted[0]
    if cache is not None and not expected.is_dir():
        raise RequestError(f"--cache={cache} is not a directory; name one that holds a cache.")
    above = kernel_cache(expected) if expected.is_dir() else None
    root = expected if above is None else above.parent
    return replace(request, cache=root.resolve())
