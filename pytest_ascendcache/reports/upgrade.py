"""Changes between editions of the documents, for the terminal and as ``docs/upgrading.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from pytest_ascendcache.contract import Edition, Rule
from pytest_ascendcache.contract.changes import Change, Kind, advice, changes
from pytest_ascendcache.contract.editions import DEFAULT_NAMES, editions, editions_of, pages
from pytest_ascendcache.language import Language, text
from pytest_ascendcache.words.layout import wrapped


def upgrade_page(language: Language) -> str:
    """Every step from one edition to the next, and the pages behind the rules, as Markdown."""
    parts = [f"# {text('u_title', language)}\n\n{text('u_intro', language)}\n"]
    for product in DEFAULT_NAMES:
        family = editions_of(product)
        parts += _opens(family[0], language)
        for before, after in pairwise(family):
            title = text("u_from_to", language, before=before, after=after)
            parts.append(f"\n## {title}\n")
            parts += _step(before, after, language)
            parts += _opens(after, language)
    parts += _pages(language)
    return "".join(parts)


def compared(before: Edition, after: Edition, language: Language) -> list[str]:
    """The comparison of two editions, as lines for the terminal."""
    differences = changes(before, after)
    lines = [text("u_from_to", language, before=before, after=after)]
    for change in differences:
        kind = text(f"u_{change.kind.value}", language)
        lines.append(f"{change.after.id}  [{kind}]")
        lines += wrapped(_promise(change, before, after, language), 4)
        lines += wrapped(f"[{_promising(change).source}]", 4)
        if address := _promising(change).source.address:
            lines.append(f"    {address}")
    if not differences:
        lines += wrapped(text("u_same", language), 4)
    if todo := _todo(before, after, language):
        lines.append(text("u_todo", language))
        lines += [line for each in todo for line in wrapped(f"- {each}", 4)]
    return [*lines, _count(differences, language)]


def _step(before: Edition, after: Edition, language: Language) -> Iterator[str]:
    differences = changes(before, after)
    if not differences:
        yield f"\n{text('u_same', language)}\n"
    for change in differences:
        kind = text(f"u_{change.kind.value}", language)
        source = _promising(change).source
        document = _document(_promising(change), language)
        link = f"[{document}]({source.address})" if source.address else document
        promise = _promise(change, before, after, language)
        marked = f"（{kind}）{promise}" if language is Language.CHINESE else f" ({kind}) {promise} "
        yield f"\n* **{change.after.id}**{marked}{link}\n"
    if todo := _todo(before, after, language):
        yield f"\n{text('u_todo', language)}\n\n" + "".join(f"* {each}\n" for each in todo)


def _promise(change: Change, before: Edition, after: Edition, language: Language) -> str:
    """The promise of both editions, or of the only one that makes it."""
    if change.kind in (Kind.NEW, Kind.UNREAD):
        return _statement(change.after, language)
    if change.kind is Kind.GONE:
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


def _promising(change: Change) -> Rule:
    return change.before if change.kind is Kind.GONE else change.after


def _statement(rule: Rule, language: Language) -> str:
    return rule.statement_zh if language is Language.CHINESE else rule.statement


def _document(rule: Rule, language: Language) -> str:
    if language is Language.CHINESE:
        return f"{rule.source.document_zh}：{rule.source.section}"
    return str(rule.source)


def _todo(before: Edition, after: Edition, language: Language) -> list[str]:
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


def _opens(edition: Edition, language: Language) -> Iterator[str]:
    notes = edition.notes_zh if language is Language.CHINESE else edition.notes_en
    if notes:
        yield f"\n{text('u_open', language, edition=edition)}\n\n"
        yield "".join(f"* {each}\n" for each in notes)


def _pages(language: Language) -> Iterator[str]:
    titles = {each.name: str(each) for each in editions()}
    head = [text(f"u_{name}", language) for name in ("page", "edition", "date", "seen")]
    yield f"\n## {text('u_pages', language)}\n\n| {' | '.join(head)} |\n|---|---|---|---|\n"
    for page in pages():
        seen = text(f"u_seen_{page.seen}", language)
        link = f"[{page.title}]({page.address})"
        yield f"| {link} | {titles[page.edition]} | {page.date} | {seen} |\n"


def _count(differences: list[Change], language: Language) -> str:
    counts = Counter(change.kind for change in differences)
    return text("u_count", language, **{kind.value: counts[kind] for kind in Kind})
