"""The audit on a terminal: one answer for each directory, and what it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.result import Audit, answer, nothing_judged, story, undecided
from pytest_ascendcache.caches.recognition import CacheKind
from pytest_ascendcache.contract import Level, Verdict, load_rules
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.words.layout import WIDTH, columns, cut, wrapped

_NOTES = (
    Check.DIGESTS,
    Check.PRIVATE_MODES,
    Check.RANKS_AGREE,
    Check.SIZE,
    Check.LEFTOVERS,
    Check.ONE_TOOLCHAIN,
    Check.RANK_DUPLICATES,
)
"""Rules whose notes say something although nothing is broken."""

_DIGEST = re.compile(r"([0-9a-f]{8})[0-9a-f]{20,56}")
"""A part of a name that nobody reads to its end."""

_FRAMES = ("known", "foreign")
"""Words before a colon that are no path."""

_FIRST = 3
"""How many faults of one rule are shown."""

_MISSES = {
    *(Check.WHOLE_ENTRIES, Check.DIGESTS, Check.WHOLE_OBJECTS, Check.METADATA, Check.PLAIN_FILES),
    *(Check.ONE_OWNER, Check.SIZE, Check.ONE_TOOLCHAIN, Check.AGREEMENT, Check.NOT_EMPTY),
}
"""Rules that a cache breaks from which a run may not take its kernels."""


def page(result: Audit, language: Language, width: int = WIDTH) -> list[str]:
    """Return the lines about one directory: the answer, the account, and each broken rule."""

    def put(sentence: str, indent: int) -> None:
        path, _, rest = sentence.partition(": ")
        known = "" if " " in path or path in _FRAMES else translated(rest, language)
        shown = translated(sentence, language)
        if known not in ("", rest):  # a path is no part of a sentence
            shown = f"{path}：{known}"
        shown = _DIGEST.sub(r"\1…", shown)
        lines.extend(wrapped(shown, indent, width))

    lines = wrapped(str(result.directory), 0, width)
    lines += wrapped(_DIGEST.sub(r"\1…", headline(result, language)), 2, width)
    for check in (Check.WHOLE_ENTRIES, *_NOTES):
        for note in result.notes.get(check, ()):
            put(note, 2)
    for verdict, check, found in _broken(result):
        rule = load_rules()[check.value]
        title = rule.title_en if language is Language.ENGLISH else rule.title_zh
        word = text(f"audit_word_{verdict.value}", language)
        lines += ["", *wrapped(f"{word}  {check.value}  {title}", 0, width)]
        first, *faults = found.split("\n")
        put(first, 4)
        for fault in faults[:_FIRST]:
            put(fault.strip(), 6)
        if (more := result.found[check].count - _FIRST) > 0:
            put(f"and {more} more", 6)
    if CacheKind.SOC in result.kinds.values() and _MISSES & result.found.keys():
        lines += ["", *wrapped(text("audit_why", language, place=result.directory), 0, width)]
    return lines


def headline(result: Audit, language: Language) -> str:
    """Return the answer about a directory in one sentence."""
    verdict = answer(result)
    if verdict is Verdict.UNDECIDED:
        reasons = (undecided(result, check) for check in Check)
        why = next(filter(None, reasons), "") or nothing_judged(result)
        return text("audit_undecided", language, why=translated(why, language))
    number = sum(each is verdict for each, _, _ in _broken(result))
    count = text("rules_one" if number == 1 else "rules_many", language, count=number)
    if verdict is Verdict.FAIL:
        return text("audit_broken", language, count=count)
    kinds = {*result.kinds.values()}
    if kinds == {CacheKind.SCRATCH}:
        return text("audit_scratch", language)
    if verdict is Verdict.WARN:
        return text("audit_warned", language, count=count)
    return text("audit_good", language)


def _broken(result: Audit) -> Iterator[tuple[Verdict, Check, str]]:
    """Yield the broken rules, the worst first, each with what breaks it."""
    rules = load_rules()
    for level, verdict in ((Level.MUST, Verdict.FAIL), (Level.SHOULD, Verdict.WARN)):
        for check in Check:
            if rules[check.value].level is level and check in result.found:
                yield verdict, check, story(result, check)


def table(results: Sequence[Audit], language: Language, width: int = WIDTH) -> list[str]:
    """Return a table with a line for each directory, the worst first."""
    order = (Verdict.FAIL, Verdict.UNDECIDED, Verdict.WARN, Verdict.PASS)
    names = ("verdict", "entries", "names", "unread", "directory")
    rows = [[text(f"audit_column_{each}", language) for each in names]]
    for result in sorted(results, key=lambda each: order.index(answer(each))):
        word = text(f"audit_word_{answer(result).value}", language)
        numbers = (result.entries, result.account.names, result.account.unread.count)
        rows.append([word, *map(str, numbers), str(result.directory)])
    widths = [max(columns(row[at]) for row in rows) for at in range(len(names))]
    lines = []
    for row in rows:
        cells = [cell + " " * (widths[at] - columns(cell)) for at, cell in enumerate(row)]
        lines.append(cut("  ".join(cells).rstrip(), width))
    return lines
