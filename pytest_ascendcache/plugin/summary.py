"""What a run says at its end: in which language, and without telling broken checks twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.language import Language, preferred_language, text, translated

_TOLD_BY_PYTEST = ("failed", "error")


def language_of(config: pytest.Config) -> Language:
    """The language of ``--ascend-language``, else that of the locale."""
    given = config.getoption("--ascend-language", None)
    # What is neither is refused in the language of the locale.
    known = given in tuple(each.value for each in Language)
    return Language(given) if known else preferred_language(os.environ)


def said_by_the_command_line(arguments: Sequence[str]) -> Callable[[str], str]:
    """What brings a sentence into the user's language before pytest has parsed anything."""
    name, given = "--ascend-language", ""
    for this, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if this == name:
            given = following
        elif this.startswith(f"{name}="):
            given = this.partition("=")[2]
    known = given in tuple(each.value for each in Language)
    language = Language(given) if known else preferred_language(os.environ)
    return lambda sentence: translated(sentence, language)


def in_language(config: pytest.Config, error: pytest.UsageError) -> pytest.UsageError:
    """The same error in the user's language."""
    language = language_of(config)
    return pytest.UsageError(*(translated(str(each), language) for each in error.args))


def in_its_language(config: pytest.Config, sentence: str) -> str:
    """A sentence of the catalogue in the user's language."""
    return translated(sentence, language_of(config))


def told(config: pytest.Config, key: str, sentence: str) -> str:
    """A fixed text that says ``what``, a sentence of the catalogue, in the user's language."""
    return text(key, language_of(config), what=in_its_language(config, sentence))


@contextmanager
def told_once(reporter: pytest.TerminalReporter) -> Iterator[None]:
    """Keep pytest from telling broken checks of rules, whose causes are told after it.

    Tests of users keep their tracebacks; with ``--tb`` those of the suite were asked for too.
    """
    if reporter.config.getoption("tbstyle") != "auto":
        yield
        return
    kept = {name: reporter.stats[name] for name in _TOLD_BY_PYTEST if name in reporter.stats}
    for name, reports in kept.items():
        reporter.stats[name] = [each for each in reports if not _is_of_the_suite(each)]
    try:
        yield
    finally:
        reporter.stats.update(kept)


def _is_of_the_suite(report: object) -> bool:
    return hasattr(report, "ascend_record") and getattr(report, "nodeid", "").startswith(
        SUITE_NODES
    )
