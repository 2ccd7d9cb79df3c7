"""The lines of the answer about promises that were not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.reports.answer import counted

_MUCH = 4
"""Rules of a judged document that the toolchain cannot be asked about for one reason, from which
they have a line of their own."""
_NAMED = 4
"""How many other rules are named; of more the number tells."""


def accounted(report: Mapping[str, Any], language: Language) -> Iterator[str]:
    """A line for each document of which much could not be judged, and one for all other rules."""
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
    if rest:
        key = "t_left_out_names" if len(rest) <= _NAMED else "t_left_out_rest"
        rules = counted("rules", len(rest), language)
        yield text(key, language, rules=rules, names=", ".join(rest))
