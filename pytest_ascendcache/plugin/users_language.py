"""The language of the user: what the plugin prints and raises is translated here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest

from pytest_ascendcache.language import Language, preferred_language, translated


def language_of(config: pytest.Config) -> Language:
    """The language of ``--ascend-language``, else that of the locale."""
    return _language(config.option.ascend_language or config.getini("ascend_language"))


def say(config: pytest.Config, sentence: str) -> str:
    """A sentence of the catalogue in the user's language."""
    return translated(sentence, language_of(config))


def write_now(config: pytest.Config, sentence: str) -> None:
    """Show a sentence while a test runs, past pytest's capturing; an xdist worker has no screen."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        with uncaptured(config):
            reporter.ensure_newline()
            reporter.write_line(say(config, sentence))
            reporter.flush()


def uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    """Show output at once that is printed meanwhile; pytest captures that of checks."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    return capturing.global_and_fixture_disabled() if capturing else nullcontext()


def translator_before_parsing(arguments: Sequence[str]) -> Callable[[str], str]:
    """A function that translates, for ``--help``, before pytest has parsed its arguments."""
    option, value = "--ascend-language", ""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument == option:
            value = following
        elif argument.startswith(f"{option}="):
            value = argument.partition("=")[2]
    language = _language(value)
    return lambda sentence: translated(sentence, language)


def _language(name: str | None) -> Language:
    # An unknown language is refused in the language of the locale.
    known = name in tuple(each.value for each in Language)
    language = Language(name) if known else preferred_language(os.environ)
    return language if _can_print(language) else Language.ENGLISH


def _can_print(language: Language) -> bool:
    """Whether the terminal's encoding has the characters of a language."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    try:
        "中文".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return language is Language.ENGLISH
    return True
