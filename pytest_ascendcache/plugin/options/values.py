"""The checked options of one run: from the command line, then from the project's ini file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.plugin.options.option import Access, Option
from pytest_ascendcache.plugin.options.table import OPTIONS, REMOVED, ROWS, refused_name
from pytest_ascendcache.plugin.options.toolchains import ToolchainChoice

_NOT_GIVEN: tuple[Any, ...] = (None, False, [])

SETTLED = "ascendcache_settled"
"""The name under which the controller gives its settled texts to xdist's workers."""


class Values:
    """The value of each option by name; the default where the option was not given.

    ``texts`` are the given options as they could be typed, with absolute paths: all that a worker
    needs. A flag has no text. Raises ``pytest.UsageError`` for a value that is empty, or not what
    the table expects, and for a name that does not exist.
    """

    def __init__(self, config: pytest.Config) -> None:
        settled: Mapping[str, Sequence[str]] | None
        settled = getattr(config, "workerinput", {}).get(SETTLED)
        self.texts = dict(_settled(config) if settled is None else settled)

    def give(self, name: str, text: str) -> None:
        """Take an option that the run itself decides, as if it had been typed."""
        self.texts[name] = [text]

    def __getitem__(self, name: str) -> Any:
        option = ROWS[name]
        if option.kind is None:
            return name in self.texts
        if name not in self.texts:
            return () if option.repeatable else option.default
        read = tuple(_read(option, name, each, Path.cwd()) for each in self.texts[name])
        return read if option.repeatable else read[0]

    def given(self, name: str) -> bool:
        """Whether the option was given, on the command line or by the project."""
        return name in self.texts

    def shown(self, name: str) -> str:
        """The option with its value, for messages."""
        return " ".join(ROWS[name].words(*self.texts[name][:1]))

    @property
    def repeated(self) -> list[str]:
        """The options of the command that repeats a check, with absolute paths, without those that
        write a file: the repeated run must not replace it."""
        return [
            word
            for name, option in ROWS.items()
            if name in self.texts and option.repeats and not option.access.writes
            for texts in ([[each] for each in self.texts[name]] if option.kind else [[]])
            for word in option.words(*texts)
        ]

    def files(self, *accesses: Access) -> list[tuple[str, Path]]:
        """Files that the given options access in these ways, each with its option as shown."""
        files: list[tuple[str, Path]] = []
        for name in self.texts:
            option = ROWS[name]
            for value in self[name] if option.repeatable else (self[name],):
                path, access = value, option.access
                if isinstance(value, ToolchainChoice):
                    path, access = value.place, value.access
                if access in accesses and isinstance(path, str | Path):
                    files.append((" ".join(option.words(str(value))), Path(path)))
        return files


def _read(option: Option, where: str, text: str, base: Path) -> Any:
    assert option.kind is not None
    if not text.strip():
        raise pytest.UsageError(
            f"{where} is empty; give {option.kind.expected}, or leave it out (if it comes from a "
            "variable, the variable is not set)."
        )
    try:
        return option.kind.read(text, base)
    except ValueError:
        raise pytest.UsageError(f"{where} must be {option.kind.expected}, not {text!r}.") from None


def _as_text(option: Option, where: str, text: str, base: Path) -> str:
    """The value as the user could have typed it: a path is absolute, a number as it was written."""
    value = _read(option, where, text, base)
    return str(value) if isinstance(value, str | Path | ToolchainChoice) else text


def _settled(config: pytest.Config) -> dict[str, list[str]]:
    """What the command line says, and where it says nothing, the ini file."""
    _refuse_unknown(config)
    settled: dict[str, list[str]] = {}
    for name, option in OPTIONS.items():
        given = getattr(config.option, option.key)
        if given not in _NOT_GIVEN:
            texts = [] if option.kind is None else given if option.repeatable else [given]
            settled[name] = [_as_text(option, name, each, Path.cwd()) for each in texts]
    named = any(OPTIONS[name].names_toolchain for name in settled)
    overridden = {each.partition("=")[0] for each in config.option.override_ini or ()}
    for name, option in ROWS.items():
        given = config.getini(option.key) if option.ini else None
        if given is None or name in settled or (option.is_typed and option.names_toolchain & named):
            continue
        if option.kind is None:
            if given:
                settled[name] = []
            continue
        where, base = f"{option.key} in {config.inipath}", config.rootpath
        if option.key in overridden:
            where, base = f"-o {option.key}", Path.cwd()
        elif config.inipath is not None:
            base = config.inipath.parent
        texts = (given or [""]) if option.repeatable else [given]
        settled[name] = [_as_text(option, where, each, base) for each in texts]
    return {name: settled[name] for name in ROWS if name in settled}


def _refuse_unknown(config: pytest.Config) -> None:
    """Refuse removed options, and keys of the ini file that nobody reads."""
    if removed := config.option.ascend_removed:
        raise pytest.UsageError(refused_name(removed))
    typed = [each.partition("=")[0] for each in config.option.override_ini or ()]
    # There is no public way to read the keys of an ini file.
    for key in dict.fromkeys([*typed, *config._get_unknown_ini_keys()]):
        if key.startswith("ascend_") and not _is_registered(config, key):
            where = f"-o {key}" if key in typed else f"{key} in {config.inipath}"
            raise pytest.UsageError(f"{where}: {_instead_of(key)}")


def _is_registered(config: pytest.Config, key: str) -> bool:
    try:
        config.getini(key)
    except ValueError:
        return False
    return True


def _instead_of(key: str) -> str:
    """What to write instead of an unknown key."""
    old = f"--{key.replace('_', '-')}"
    if old in REMOVED:
        return refused_name((old, "VALUE"))
    from pytest_ascendcache.words import instead

    known = [option.key for option in ROWS.values() if option.ini]
    return f"no such setting; {instead(key, known)}"


def typed_options(config: pytest.Config) -> set[str]:
    """Names of the options on the command line itself, without the project's ``addopts``."""
    words = {word.partition("=")[0] for word in map(str, config.invocation_params.args)}
    return words & set(OPTIONS)
