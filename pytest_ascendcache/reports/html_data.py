"""The data of the HTML page: a report, packed so that 10,000 cells take less than a megabyte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.language import Language, translated
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.reasons import reason, sentences, shortened

_Rows = Sequence[Mapping[str, Any]]

VERDICTS = tuple(verdict.value for verdict in Verdict)
STORIES = 400
"""How many checks have their evidence on the page; the JSON report has that of all."""

_WITH_EVIDENCE = frozenset({"fail", "undecided", "warn", "known deviation"})
_FINDINGS = 50
"""How many faults of an audited directory the page shows."""
_CHARTS = 40
"""How many timelines, and courses of sizes, the page draws: those with the most to see."""


def _number(value: str, numbers: dict[str, int]) -> int:
    """The number of a value, so that a text that many checks share is stored once."""
    return numbers.setdefault(value, len(numbers))


def page_data(report: Document) -> dict[str, Any]:
    """The data that the page's script reads.

    ``checks`` is stored by column: numbers of ``rules`` and ``tests``, the parameters of a test
    as numbers of ``words``, the number of a verdict in ``verdicts``, milliseconds, and the number
    of a cell in ``cells`` (-1 for none), whose characters are levels of ``factors`` in base 36.
    ``stories`` has the evidence of broken checks by number, ``notes`` the notes about a rule
    whatever its verdict, ``readings`` how the toolchain reads what the documents leave open.
    """
    checks = report["checks"]
    rules = {rule["id"]: number for number, rule in enumerate(report["rules"])}
    tests, words, cells = dict[str, int](), dict[str, int](), dict[str, int]()
    factors = _factors(checks)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("rule", "test", "words", "verdict", "ms", "cell")
    }
    for check in checks:
        test, _, parameters = check["check"].partition("[")
        levels = check["evidence"].get("factors")
        columns["rule"].append(rules.get(check["rule"], -1))
        columns["test"].append(_number(test, tests))
        pieces = parameters.removesuffix("]").split("+") if parameters else ()
        columns["words"].append([_number(each, words) for each in pieces])
        columns["verdict"].append(VERDICTS.index(check["verdict"]))
        columns["ms"].append(round(check.get("seconds", 0) * 1000))
        columns["cell"].append(_number(_packed(levels, factors), cells) if levels else -1)
    return {
        **{name: report[name] for name in _AS_THEY_ARE if name in report},
        "verdicts": VERDICTS,
        "factors": [[name, list(levels)] for name, levels in factors.items()],
        "cells": list(cells),
        "tests": list(tests),
        "words": list(words),
        "checks": columns,
        "causes": [each["checks"][0] for each in report.get("causes", ())],
        "stories": _stories(checks),
        "notes": _notes(checks, rules),
        "readings": {
            number: list(map(in_both, rule["readings"]))
            for number, rule in enumerate(report["rules"])
            if rule.get("readings")
        },
        "timelines": _courses(checks, "timeline", _much_to_see),
        "sizes": _courses(checks, "sizes", _much_removed),
    }


_AS_THEY_ARE = (
    "plugin",
    "toolchain",
    "host",
    "totals",
    "rules",
    "accuracy",
    "matrix",
    "suite",
    "baseline",
    "checks_without_verdict",
)


def _factors(checks: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Levels by factor, each with the character that stands for it, in order of occurrence."""
    levels: dict[str, dict[str, None]] = {}
    for check in checks:
        for factor, level in check["evidence"].get("factors", {}).items():
            levels.setdefault(factor, {})[level] = None
    # A factor with more levels than there are characters would not fit into a table either.
    return {
        factor: dict(zip(names, _DIGITS, strict=False))
        for factor, names in levels.items()
        if len(names) <= len(_DIGITS)
    }


def _packed(cell: Mapping[str, str], factors: Mapping[str, Mapping[str, str]]) -> str:
    """A cell as one character for each factor; ``-`` if it has no level of that factor."""
    return "".join([codes.get(cell.get(name, ""), "-") for name, codes in factors.items()])


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _notes(
    checks: Iterable[Mapping[str, Any]], rules: Mapping[str, int]
) -> dict[int, list[list[str]]]:
    notes: dict[int, list[list[str]]] = {}
    for check in checks:
        if check["rule"] in rules and (own := check["evidence"].get("notes")):
            notes.setdefault(rules[check["rule"]], []).extend(map(in_both, own))
    return notes


def _stories(checks: _Rows) -> dict[int, dict[str, Any]]:
    """The evidence of the ``STORIES`` worst broken checks, and why checks are not applicable."""
    broken = [number for number, each in enumerate(checks) if each["verdict"] in _WITH_EVIDENCE]
    broken.sort(key=lambda number: VERDICTS.index(checks[number]["verdict"]))
    stories = {number: _story(checks[number]) for number in broken[:STORIES]}
    reasons = {
        number: {"message": check["message"], **_chinese(message=check["message"])}
        for number, check in enumerate(checks)
        if check["verdict"] == "not applicable"
    }
    return {**stories, **reasons}


def _story(check: Mapping[str, Any]) -> dict[str, Any]:
    evidence = check["evidence"]
    sandbox = evidence.get("sandbox", "")
    why = reason(check)
    more = (shortened(each) for each in sentences(check["message"]))
    message = "\n".join(dict.fromkeys([why, *(each for each in more if not why.endswith(each))]))
    story = {
        "message": message,
        **_chinese(
            message=message,
            expected=evidence.get("expected"),
            observed=evidence.get("observed"),
            harm=evidence.get("harm"),
        ),
        "repeat": check.get("repeat", ""),
        "deviation": check.get("deviation"),
        "steps": [_step(step, sandbox) for step in evidence.get("steps", ())],
        "ranks": [
            {"rank": each["rank"], "ending": in_both(each["ending"])}
            for each in evidence.get("ranks") or ()
        ],
        **{name: evidence.get(name) for name in _EVIDENCE},
        "findings": (evidence.get("findings") or [])[:_FINDINGS],
    }
    return {name: value for name, value in story.items() if value}


def _chinese(**texts: str | None) -> dict[str, str]:
    """Translations of the texts that the catalogue knows, by their names with ``_zh``."""
    chinese = {name: translated(each, Language.CHINESE) for name, each in texts.items() if each}
    return {f"{name}_zh": each for name, each in chinese.items() if each != texts[name]}


_EVIDENCE = ("expected", "observed", "harm", "sandbox", "control", "crash")


def in_both(sentence: str) -> list[str]:
    """A sentence of the catalogue in English, and in Chinese if it has a translation."""
    return list(dict.fromkeys([sentence, translated(sentence, Language.CHINESE)]))


def _lines(sentences: Sequence[Sequence[str]]) -> list[str]:
    """Sentences in both languages as one text in each, with a line for each sentence."""
    return list(dict.fromkeys("\n".join(each[place] for each in sentences) for place in (0, -1)))


def _step(step: Mapping[str, Any], sandbox: str) -> dict[str, Any]:
    command, changes = step["command"], step.get("changes") or {}
    kept = {
        "command": command.replace(sandbox, "$SANDBOX") if sandbox else command,
        "told": [in_both(each) for each in (step.get("ending"), *step.get("outcomes", ())) if each],
        "changes": _lines([in_both(f"{path} {how}") for path, how in changes.items()]),
        "output": step.get("output"),
    }
    return {name: value for name, value in kept.items() if value and value != [""]}


def _courses(
    checks: Iterable[Mapping[str, Any]], name: str, interest: Callable[[str, _Rows], Any]
) -> list[Any]:
    """Data of charts, those of broken checks first: the number of a check, and its rows without the
    names of fields."""
    numbered = [
        ((check["verdict"] in _WITH_EVIDENCE, interest(check["rule"], rows)), number, rows)
        for number, check in enumerate(checks)
        if len(rows := check["evidence"].get(name) or []) > 1
    ]
    numbered.sort(key=lambda each: each[0], reverse=True)
    return [
        [number, [list(row.values()) for row in rows]] for _, number, rows in numbered[:_CHARTS]
    ]


def _much_to_see(rule: str, rows: _Rows) -> tuple[int, bool, int]:
    return len({row["rank"] for row in rows}), rule.startswith("ranks/"), len(rows)


def _much_removed(rule: str, rows: _Rows) -> tuple[bool, bool, int]:
    return any(row["removed"] for row in rows), rule.startswith("aging/"), len(rows)
