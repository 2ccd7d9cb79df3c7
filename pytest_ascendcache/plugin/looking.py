"""``--ascend-rules`` and ``--ascend-doctor``: the suite is collected and described, but not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from _pytest.main import wrap_session  # as pytest's own --fixtures; there is no public way

from pytest_ascendcache.contract import Edition, Rule, load_rules
from pytest_ascendcache.language import Language, glossary, translated
from pytest_ascendcache.language import text as fixed_text
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.plugin.users_language import language_of
from pytest_ascendcache.reports.answer import counted
from pytest_ascendcache.reports.upgrade import compared
from pytest_ascendcache.words import nearest
from pytest_ascendcache.words.layout import WIDTH, columns, wrapped

_ASKED_FOR = {
    "audit/": "--ascend-audit",
    "release/": "--ascend-release",
    "robust/stress": "--ascend-stress",
    "shared/": "--ascend-nodes",
}
"""Rules that have checks only with another option, by the beginning of their ids."""


def explain(config: pytest.Config) -> pytest.ExitCode:
    """Print the words of reports and messages, for ``--ascend-words``."""
    for each in glossary(language_of(config)):
        first, *rest = wrapped(f"{each.word}: {each.meaning}", 2)
        print(first.removeprefix("  "), *rest, sep="\n")
    return pytest.ExitCode.OK


def look_around(config: pytest.Config) -> int | pytest.ExitCode:
    """Collect the suite, and print the list of rules or the findings of ``--ascend-doctor``."""
    # One process is enough, because no test runs.
    config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []
    return wrap_session(config, _look)


def _look(config: pytest.Config, session: pytest.Session) -> int | None:
    from pytest_ascendcache.plugin.doctor import Doctor

    config.hook.pytest_collection(session=session)
    writer = config.get_terminal_writer()
    settings, language = settings_of(config), language_of(config)
    items = [item for item in session.items if item.get_closest_marker("ascend_rule")]
    if settings.listed is not None:
        for line in rule_list(items, settings.listed, language, settings.editions):
            writer.line(line)
    if not settings.doctor:
        return None
    doctor = Doctor(ascend_session_of(config), items, language)
    for line in doctor.lines():
        writer.line(line)
        writer.flush()
    return None if doctor.fine else pytest.ExitCode.TESTS_FAILED


def rule_list(
    items: Iterable[pytest.Item], text: str, language: Language, editions: Sequence[Edition] = ()
) -> list[str]:
    """The lines that list the rules of the editions which contain ``text``, in 80 columns.

    ``items`` are the checks of the suite as it would run. Two editions of one product are compared
    instead. Raises ``pytest.UsageError`` if there is no such rule.
    """
    if len(editions) == 2 and editions[0].product == editions[1].product:
        return compared(editions[0], editions[1], language)
    markers = (item.get_closest_marker("ascend_rule") for item in items)
    checks = Counter(marker.args[0] for marker in markers if marker)
    rules = load_rules(*editions)
    listed = [rule for rule in rules.values() if text.casefold() in _searched(rule).casefold()]
    if not listed:
        near = nearest(text, rules)
        hint = f"did you mean '{near}'?" if near else "pytest --ascend-rules lists all of them."
        raise pytest.UsageError(f"--ascend-rules={text}: no rule contains this text; {hint}")
    with_statement = len(listed) == 1
    lines = [
        line
        for rule in listed
        for line in _described(rule, checks[rule.id], with_statement, language)
    ]
    total = sum(checks[rule.id] for rule in listed)
    counts = counted("rules", len(listed), language), counted("checks", total, language)
    return [*lines, ", ".join(counts)]


def _searched(rule: Rule) -> str:
    return f"{rule.id}\n{rule.level.value}\n{rule.title_en}\n{rule.title_zh}\n{rule.source}"


def _described(rule: Rule, checks: int, with_statement: bool, language: Language) -> list[str]:
    chinese = language is Language.CHINESE
    level = fixed_text(f"l_{rule.level.value}", language)
    right = f"{level}, {_number_of_checks(rule, checks, language)}"
    blanks = " " * max(2, WIDTH - columns(rule.id) - columns(right))
    lines = [f"{rule.id}{blanks}{right}", *wrapped(rule.title_zh if chinese else rule.title_en, 4)]
    if with_statement:
        lines += wrapped((chinese and rule.statement_zh) or rule.statement, 4)
    return [*lines, *wrapped(f"[{rule.source}]", 4)]


def _number_of_checks(rule: Rule, checks: int, language: Language) -> str:
    if checks:
        return counted("checks", checks, language)
    options = (option for start, option in _ASKED_FOR.items() if rule.id.startswith(start))
    option = next(options, None)
    return translated("no check" if option is None else f"only with {option}", language)
