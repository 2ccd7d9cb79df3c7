"""The checked options of one run: from the command line, then from the project's ini file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.plugin.options.option import Access, Option
from pytest_ascendcache.plugin.options.table import MINDSPORE_TOOLCHAINS, OPTIONS

_NOT_GIVEN: tuple[Any, ...] = (None, False, [])


class Values:
    """The value of each option by name; the default where the option was not given.

    Raises ``pytest.UsageError`` for a value that is empty, or not what the table expects.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._values: dict[str, Any] = {}
        self._shown: dict[str, list[str]] = {}
        if not hasattr(config, "workerinput"):  # a worker gets what the controller has settled
            _adopt_ini(config)
        for option in OPTIONS.values():
            given = getattr(config.option, option.key)
            if given in _NOT_GIVEN:
                continue
            if option.kind is None:
                self._values[option.name] = True
                self._shown[option.name] = [option.name]
                continue
            texts = given if option.repeatable else [given]
            read = [_read(option, option.name, text, Path.cwd()) for text in texts]
            self._values[option.name] = tuple(read) if option.repeatable else read[0]
            self._shown[option.name] = [
                f"{option.name}={_as_text(value, text)}"
                for text, value in zip(texts, read, strict=True)
            ]

    def __getitem__(self, name: str) -> Any:
        option = OPTIONS[name]
        default: Any = () if option.repeatable else option.default if option.kind else False
        return self._values.get(name, default)

    def given(self, name: str) -> bool:
        """Whether the option was given, on the command line or by the project."""
        return name in self._values

    def shown(self, name: str) -> str:
        """The option with its value, for messages."""
        return self._shown[name][0]

    @property
    def repeated(self) -> list[str]:
        """The options of the command that repeats a check, with absolute paths.

        Options that write a file are left out: the repeated run must not replace it.
        """
        return [
            text
            for option in OPTIONS.values()
            if option.repeats and not option.access.writes
            for text in self._shown.get(option.name, ())
        ]

    def files(self, *accesses: Access) -> list[tuple[str, Path]]:
        """Files that the given options access in these ways, each with its option as shown."""
        files: list[tuple[str, Path]] = []
        for option in OPTIONS.values():
            if option.access in accesses and self.given(option.name):
                paths = self[option.name] if option.repeatable else (self[option.name],)
                files += [(f"{option.name}={path}", Path(path)) for path in paths]
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


def _as_text(value: Any, text: str) -> str:
    """The value as the user could have typed it: a path is absolute, a number as it was written."""
    return str(value) if isinstance(value, str | Path) else text


def _adopt_ini(config: pytest.Config) -> None:
    """Take from the ini file what the command line leaves open."""
    typed = {
        name
        for name, option in OPTIONS.items()
        if getattr(config.option, option.key) not in _NOT_GIVEN
    }
    named = any(OPTIONS[name].names_toolchain for name in typed)
    base = config.inipath.parent if config.inipath is not None else config.rootpath
    for option in OPTIONS.values():
        given = config.getini(option.key) if option.ini else None
        if given is None or option.name in typed or (option.names_toolchain and named):
            continue
        if option.kind is None:
            setattr(config.option, option.key, bool(given))
            continue
        where = f"{option.key} in {config.inipath}"
        texts = (given or [""]) if option.repeatable else [given]
        kept = [_as_text(_read(option, where, text, base), text) for text in texts]
        setattr(config.option, option.key, kept if option.repeatable else kept[0])
    for name in ("--ascend-mindspore", "--ascend-mindspore-other"):
        if config.option.ascend_toolchain not in MINDSPORE_TOOLCHAINS and name not in typed:
            # The project names an environment for its MindSpore runs, and this is not one.
            setattr(config.option, OPTIONS[name].key, None)


def typed_options(config: pytest.Config) -> set[str]:
    """Names of the options on the command line itself, without the project's ``addopts``."""
    words = {word.partition("=")[0] for word in map(str, config.invocation_params.args)}
    return words & set(OPTIONS)
