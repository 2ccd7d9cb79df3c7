"""The lines of the answer about promises that were not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.reports.answer import counted

_MUCH = 4
"""Rules of a judged document that the toolchain cannot be asked about for one reason, from which
they have a line of their own."""

_NOT_APPLICABLE = Verdict.NOT_APPLICABLE.value
_NAMED = 4
"""How many other rules are named; of more the number tells."""


def accounted(report: Mapping[str, Any], language: Language) -> Iterator[str]:
    """A line for each document of which much could not be judged, and one for all other rules that
    do not apply or were not asked."""
    left: list[Mapping[str, str]] = report.get("not_judged", [])
    judged = {rule["source"]["document"] for rule in report["rules"]}
    alike = Counter(
        (each["document"], each["reason"])
        for each in left
        if each["reason"] and each["document"] in judged
    )
    told = {key: number for key, number in alike.items() if number >= _MUCH}
    for (document, reason), number in told.items():
        rules = counted("rules", number, language)
        why = translated(reason, language)
        yield text("t_left_out", language, document=document, rules=rules, reason=why)
    rest = [each["rule"] for each in left if (each["document"], each["reason"]) not in told]
    asked = {rule["id"] for rule in report["rules"] if rule["verdict"] == _NOT_APPLICABLE}
    unfit = [each for each in rest if each in asked]
    others = [each for each in rest if each not in asked]
    parts = []
    for names, few, many in (
        (unfit, "t_not_applicable_names", "t_not_applicable_rest"),
        (others, "t_left_out_names", "t_left_out_rest"),
    ):
        if names:
            rules = counted("rules", len(names), language)
            key = few if len(rest) <= _NAMED else many
            parts.append(text(key, language, rules=rules, names=", ".join(names)))
    if parts:
        yield ("; " if language is Language.ENGLISH else "；").join(parts)
