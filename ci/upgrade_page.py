"""Makes ``docs/upgrading.md`` and its Chinese version for ``ci/docs``: the steps between editions
of the documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pytest_ascendcache.contract import Edition, Rule
from pytest_ascendcache.contract.changes import changes
from pytest_ascendcache.contract.editions import DEFAULT_NAMES, editions, editions_of, pages
from pytest_ascendcache.language import Language, text
from pytest_ascendcache.reports.upgrade import promise, promising, todo


def upgrade_page(language: Language) -> str:
    """Return each step from one edition to the next, and the rules' source pages, as Markdown."""
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


def _step(before: Edition, after: Edition, language: Language) -> Iterator[str]:
    differences = changes(before, after)
    if not differences:
        yield f"\n{text('u_same', language)}\n"
    for change in differences:
        kind = text(f"u_{change.kind.value}", language)
        source = promising(change).source
        document = _document(promising(change), language)
        link = f"[{document}]({source.address})" if source.address else document
        words = promise(change, before, after, language)
        marked = f"（{kind}）{words}" if language is Language.CHINESE else f" ({kind}) {words} "
        yield f"\n* **{change.after.id}**{marked}{link}\n"
    if advised := todo(before, after, language):
        yield f"\n{text('u_todo', language)}\n\n" + "".join(f"* {each}\n" for each in advised)


def _document(rule: Rule, language: Language) -> str:
    if language is Language.CHINESE:
        return f"{rule.source.document_zh}：{rule.source.section}"
    return str(rule.source)


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
