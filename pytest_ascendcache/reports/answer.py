"""The answer of a report to "may I ship?", and texts that several reports share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.reports.cause import Cause

_MUCH = 4
"""Rules of a judged document that the toolchain cannot be asked about for one reason, from which
they have a line of their own."""
_NAMED = 4
"""How many other rules that were not judged are named; of more the number tells."""


@dataclass(frozen=True)
class Answer:
    """``kind`` is ``no``, ``open`` (not decided), ``warned`` or ``yes``; ``key`` names its text."""

    kind: str
    key: str
    causes: int
    checks: int

    def sentence(self, language: Language) -> str:
        """The answer in a language."""
        return text(
            self.key,
            language,
            causes=counted("causes", self.causes, language),
            checks=counted("checks", self.checks, language),
        )


def answer(report: Mapping[str, Any], causes: Sequence[Cause]) -> Answer:
    """The answer of a JSON report with its causes: a broken promise is a no; undecided checks, and
    those that did not run or were left out, leave the question open."""
    counts: Mapping[str, int] = report["totals"]["checks"]
    missing = int(report.get("checks_without_verdict", 0))
    failing = [cause for cause in causes if cause.verdict == "fail"]
    if failing:
        broken = sum(check["verdict"] == "fail" for each in failing for check in each.checks)
        return Answer("no", "ship_no", len(failing), broken)
    if undecided := counts.get("undecided", 0):
        return Answer("open", "ship_undecided", len(causes), undecided)
    if missing:
        return Answer("open", "ship_incomplete", len(causes), missing)
    judged = sum(count for verdict, count in counts.items() if verdict != "not applicable")
    if not judged:
        return Answer("open", "ship_nothing", 0, 0)
    if str(report["toolchain"]["name"]).startswith("reference"):  # it says nothing of a product
        return Answer("open", "ship_reference", 0, judged)
    if missing := left_out(report):
        return Answer("open", "ship_selection", 0, missing)
    if report.get("is_part"):
        return Answer("open", "ship_part", 0, judged)
    if warned := counts.get("warn", 0):
        return Answer("warned", "ship_warned", len(causes), warned)
    if known := counts.get("known deviation", 0):
        return Answer("warned", "ship_known", 0, known)
    return Answer("yes", "ship_yes", 0, judged)


def left_out(report: Mapping[str, Any]) -> int:
    """How many checks of the suite a budget left out."""
    selection: Mapping[str, int] = report.get("selection", {})
    return selection.get("of_checks", 0) - selection.get("checks", 0)


def judged_by(report: Mapping[str, Any], language: Language) -> str:
    """The editions of the documents that a report judged by, as a line; empty if it names none."""
    editions = ", ".join(translated(each, language) for each in report.get("editions", ()))
    return text("t_editions", language, editions=editions) if editions else ""


def counted(what: str, count: int, language: Language) -> str:
    """``1 check``, ``2 checks``."""
    return text(f"{what}_one" if count == 1 else f"{what}_many", language, count=count)


def where(cause: Cause, language: Language) -> str:
    """The number of checks and rules of a cause, with the name of the explaining rule."""
    checks = counted("checks", len(cause.checks), language)
    if len(cause.rules) == 1:
        return text("in_rule", language, checks=checks, rule=cause.rule)
    return text(
        "in_rules",
        language,
        checks=checks,
        rule=cause.rule,
        more=len(cause.rules) - 1,
        rules=len(cause.rules),
    )


def promising(cause: Cause, report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rule of a report whose promise a cause breaks: for a check of everything at once the rule
    of what is under test, else the rule that explains the cause."""
    own: Mapping[str, Any] = next(each for each in report["rules"] if each["id"] == cause.rule)
    rule = load_rules().get(cause.promised)
    if rule is None or not cause.rule.startswith("combinations/"):
        return own
    return {**vars(rule), "level": rule.level.value, "source": asdict(rule.source)}


def promise(rule: Mapping[str, Any], language: Language) -> tuple[str, str]:
    """The statement of a rule of a report, and the name of the document that makes it."""
    source = rule["source"]
    if language is Language.CHINESE:
        statement, document = rule.get("statement_zh"), source.get("document_zh")
        return statement or rule["statement"], document or source["document"]
    return rule["statement"], source["document"]


def harm_of(cause: Cause, language: Language) -> str:
    """The names of a cause's harm: all that fails a run, else the worst; empty if there is none."""
    harms = cause.harms or ((cause.harm,) if cause.harm else ())
    separator = "、" if language is Language.CHINESE else ", "
    return separator.join(text(f"harm_{each}", language) for each in harms)


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
    asked = {
        rule["id"] for rule in report["rules"] if rule["verdict"] == Verdict.NOT_APPLICABLE.value
    }
    unfit = [each for each in rest if each in asked]
    others = [each for each in rest if each not in asked]
    how = "names" if len(rest) <= _NAMED else "rest"
    parts = [
        text(
            f"t_{what}_{how}",
            language,
            rules=counted("rules", len(names), language),
            names=", ".join(names),
        )
        for what, names in (("not_applicable", unfit), ("left_out", others))
        if names
    ]
    if parts:
        yield ("; " if language is Language.ENGLISH else "；").join(parts)
