"""Changes between editions of the documents, for the terminal. ``ci/docs`` writes the pages."""

from __future__ import annotations

from collections import Counter

from pytest_ascendcache.contract import Edition, Rule
from pytest_ascendcache.contract.changes import ChangeKind, RuleChange, advice, changes
from pytest_ascendcache.language import Language, text
from pytest_ascendcache.words.layout import wrapped


def compared(before: Edition, after: Edition, language: Language) -> list[str]:
    """The comparison of two editions, as lines for the terminal."""
    differences = changes(before, after)
    lines = [text("u_from_to", language, before=before, after=after)]
    for change in differences:
        kind = text(f"u_{change.kind.value}", language)
        lines.append(f"{change.after.id}  [{kind}]")
        lines += wrapped(promise(change, before, after, language), 4)
        lines += wrapped(f"[{promising(change).source}]", 4)
        if address := promising(change).source.address:
            lines.append(f"    {address}")
    if not differences:
        lines += wrapped(text("u_same", language), 4)
    if advised := todo(before, after, language):
        lines.append(text("u_todo", language))
        lines += [line for each in advised for line in wrapped(f"- {each}", 4)]
    counts = Counter(change.kind.value for change in differences)
    return [
        *lines,
        text("u_count", language, **{each.value: counts[each.value] for each in ChangeKind}),
    ]


def promise(change: RuleChange, before: Edition, after: Edition, language: Language) -> str:
    """The promise of both editions, or of the only one that makes it."""
    if change.kind in (ChangeKind.NEW, ChangeKind.UNREAD):
        return _statement(change.after, language)
    if change.kind is ChangeKind.GONE:
        return _statement(change.before, language)
    return ("" if language is Language.CHINESE else " ").join(
        text(
            "u_was",
            language,
            before=edition,
            level=text(f"l_{rule.level.value}", language),
            statement=_statement(rule, language),
        )
        for edition, rule in ((before, change.before), (after, change.after))
    )


def promising(change: RuleChange) -> Rule:
    """The rule of the newer edition, or the one that is gone."""
    return change.before if change.kind is ChangeKind.GONE else change.after


def _statement(rule: Rule, language: Language) -> str:
    return rule.statement_zh if language is Language.CHINESE else rule.statement


def todo(before: Edition, after: Edition, language: Language) -> list[str]:
    """What users change when they upgrade, a sentence each."""
    comma = "、" if language is Language.CHINESE else ", "
    values = {
        "old_variables": comma.join(before.variables),
        "new_variables": comma.join(after.variables),
        "old_ini": comma.join(before.ini),
        "new_ini": comma.join(after.ini),
        "old_levels": comma.join(map(str, sorted(before.debug_levels))),
        "new_levels": comma.join(map(str, sorted(after.debug_levels))),
    }
    return [text(f"u_{each.value}", language, **values) for each in advice(before, after)]
