"""The history of a cause: the few runs of a check that show what is wrong, one of them marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_ascendcache.contract.facts import Aspect, Fact, SubjectKind
from pytest_ascendcache.language import Language, text, texts, translated
from pytest_ascendcache.reports.headline import kind
from pytest_ascendcache.reports.requests import FAMILIES, asks_a_cache, chip_of, request_of
from pytest_ascendcache.words.layout import columns, wrapped

ARROW = "<- "
"""The mark of what had to happen."""
_MEGABYTE = 1_048_576
_Step = Mapping[str, Any]
_PLAIN = {"reused": "reused", "compiled": "compiled"}


@dataclass(frozen=True)
class Moment:
    """One run of a history: its mode and options, and the codes (``compiled/stored``) of its
    operators by name."""

    request: str
    codes: Mapping[str, str]


@dataclass(frozen=True)
class History:
    """The runs that lead to a fact; the last of them is the wrong one. ``entry`` names the operator
    or file whose outcome is wrong, ``sizes`` are the bytes of the cache before and after the wrong
    run and the entries that it removed, if the fact is about aging."""

    moments: tuple[Moment, ...]
    entry: str
    fact: Fact
    sizes: Mapping[str, int] | None = None

    def observed(self, language: Language) -> str:
        """What the wrong run did, in words."""
        fact = self.fact
        if fact.aspect in (Aspect.OUTCOME, Aspect.ENTRY):
            return in_words(fact.observed, language)
        if fact.aspect is Aspect.AGING and self.sizes:
            before, after = (f"{self.sizes[each] / _MEGABYTE:.1f}" for each in ("before", "after"))
            removed = self.sizes["removed"]
            return text("seen_aging", language, before=before, after=after, removed=removed)
        key = f"seen_{fact.aspect.value}_{kind(fact)}"
        return text(key, language) if key in texts() else translated(fact.detail, language)

    def expected(self, language: Language) -> str:
        """What the wrong run had to do, in words; empty if the fact does not say."""
        fact = self.fact
        if fact.aspect in (Aspect.OUTCOME, Aspect.ENTRY):
            words = dict.fromkeys(in_words(each, language) for each in fact.expected)
            return text("history_or", language).join(words)
        keys = (f"due_{fact.aspect.value}_{kind(fact)}", f"due_{fact.aspect.value}")
        return next((text(each, language) for each in keys if each in texts()), "")

    def lines(self, language: Language, width: int = 200) -> list[str]:
        """A line for each run, in columns; the wrong one ends with what was expected. Lines wider
        than ``width`` break before an entry and before the mark."""
        rows = []
        for number, moment in enumerate(self.moments, 1):
            name, code = self.entry, moment.codes.get(self.entry, "")
            is_wrong = number == len(self.moments)
            if not is_wrong and not code:
                name, code = next(iter(moment.codes.items()), ("", ""))
            happened = self.observed(language) if is_wrong else in_words(code, language)
            run = text("history_run", language, number=number)
            rows.append(
                (run, requested(moment.request, language), name.partition("(")[0], happened)
            )
        widths = [max(columns(row[place]) for row in rows) for place in range(3)]
        mark = self.expected(language)
        mark = ARROW + text("history_expected", language, expected=mark) if mark else ""
        is_narrow = sum(widths) + 6 + max(columns(row[3]) for row in rows) <= width
        lines: list[str] = []
        for *cells, happened in rows:
            run, request, name = map(_padded, cells, widths)
            if is_narrow:
                lines.append("  ".join([run, request, *[name][: widths[2]], happened]))
            else:
                lines += wrapped(f"{run} {request}", width=width)
                lines.append("  ".join([" " * widths[0], name, happened]))
        if mark and columns(f"{lines[-1]}  {mark}") <= width:
            lines[-1] += f"  {mark}"
        elif mark:
            lines += wrapped(mark, indent=widths[0] + 2, width=width)
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the page: runs, entries with a code for each run, and the wrong cell, all
        words in both languages."""
        names = dict.fromkeys([self.entry, *(name for each in self.moments for name in each.codes)])
        both = {each: each.value for each in Language}

        def cell(code: str) -> dict[str, str]:
            words = {key: in_words(code, each) for each, key in both.items()}
            return {"from": code.partition("/")[0], **words}

        return {
            "runs": [
                {key: requested(moment.request, each) for each, key in both.items()}
                for moment in self.moments
            ],
            "entries": [
                [name, [cell(each.codes.get(name, "")) for each in self.moments]]
                for name in list(names)[:_ENTRIES]
                if name or name == self.entry
            ],
            "observed": {key: self.observed(each) for each, key in both.items()},
            "expected": {key: self.expected(each) for each, key in both.items()},
        }


_ENTRIES = 4
"""Entries that the picture of a history shows."""


def history(check: Mapping[str, Any], fact: Fact | None) -> History | None:
    """The history of a fact of a check: the last run that stored the entry, and the wrong one. None
    if no run of the check shows it."""
    steps = check["evidence"].get("steps") or ()
    place = wrong_place(steps, fact) if fact is not None else None
    if fact is None or place is None:
        return None
    entry = entry_of(steps[place], fact)
    about_size = fact.aspect is Aspect.AGING
    by_variable = fact.subject is not None and fact.subject.kind is SubjectKind.VARIABLE
    sizes = [each for each in check["evidence"].get("sizes") or () if each["run"] == place + 1]
    before = storing_place(steps, place, entry)
    places = [place] if before is None else [before, place]
    return History(
        tuple(
            Moment(_request(steps[each], about_size and by_variable), outcomes_of(steps[each]))
            for each in places
        ),
        entry,
        fact,
        sizes[0] if about_size and sizes else None,
    )


def wrong_place(steps: Sequence[_Step], fact: Fact) -> int | None:
    """The place of the step that a fact is about: the run that it names if that has its subject,
    else the last that shows what was observed, else the last with its subject, else the last. None
    if no step asks a cache."""
    if fact.aspect is Aspect.UNDECIDED or (fact.aspect is Aspect.CLAIM and not kind(fact)):
        return None
    places = [each for each, step in enumerate(steps) if asks_a_cache(step["command"])]
    subject = fact.subject.as_dict() if fact.subject is not None else None
    of_subject = [each for each in places if subject and steps[each].get("subject") == subject]
    showing = [each for each in places if fact.observed in (steps[each].get("codes") or ())]
    # Some checks count all their runs, others only those that use the cache.
    named = [each for each in (*places[fact.run - 1 : fact.run], fact.run - 1) if each in places]
    named = [each for each in named if each in of_subject or not of_subject]
    both = [each for each in showing if each in of_subject]
    return next((each[-1] for each in (named, both, showing, of_subject, places) if each), None)


def storing_place(steps: Sequence[_Step], place: int, entry: str) -> int | None:
    """The last step before ``place`` that stored an operator's entry for the same chip, else the
    one before; None if there is none."""
    chip = chip_of(steps[place]["command"])
    places = [
        each
        for each in range(place)
        if asks_a_cache(steps[each]["command"]) and chip_of(steps[each]["command"]) == chip
    ]
    storing = [
        each
        for each in places
        if outcomes_of(steps[each]).get(entry, "").endswith(("/stored", "/rewritten"))
    ]
    return next((each[-1] for each in (storing, places) if each), None)


def _request(step: _Step, about_size: bool) -> str:
    """Mode and options of a step; limits of the cache only in a history about its size."""
    request = request_of(step["command"])
    options = {
        name: value
        for name, value in request.options.items()
        if about_size or FAMILIES.get(name) != "limits"
    }
    return str(replace(request, options=options))


def requested(request: str, language: Language) -> str:
    """A request in words: mode and options, whose names stay as they are."""
    none, options = "no cache mode", request.removeprefix("no cache mode")
    return translated(none, language) + options if request.startswith(none) else request


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - columns(cell))


def outcomes_of(step: _Step) -> dict[str, str]:
    """The codes of a step's operators by name."""
    names = (each.rpartition(": ")[0] for each in step.get("outcomes") or ())
    return dict(zip(names, step.get("codes") or (), strict=False))


def entry_of(step: _Step, fact: Fact) -> str:
    """The operator or file that a fact is about: as it says, else the first that shows it."""
    about = fact.about.partition(" on ")[0] or fact.about
    codes = outcomes_of(step)
    if about:
        return about
    showing = (name for name, code in codes.items() if code == fact.observed)
    return next(showing, next(iter(codes), "") if fact.aspect is not Aspect.AGING else "")


def in_words(code: str, language: Language) -> str:
    """``compiled/stored`` as words."""
    first, slash, second = code.partition("/")
    if not code:
        return ""
    if slash:
        return translated(f"{first}, entry {second}", language)
    return translated(first if first in _PLAIN else f"entry {first}", language)
