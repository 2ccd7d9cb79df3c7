"""The headline of a fact: which option, file or event fails to do what, in the user's words."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ascendcache.contract.facts import Aspect, Ending, Fact
from pytest_ascendcache.language import Language, text, texts

MODE = "--op_compiler_cache_mode"


_CLAIMS = (
    ("changes == {}", "changed"),
    ("returncode != 0", Ending.SUCCESS.value),
)
"""What a condition that does not hold says of the cache, or of the exit status."""


def headline(fact: Fact, language: Language, *, sometimes: bool = False) -> str:
    """One sentence without a full stop; empty for a fact that has no words of its own.
    ``sometimes`` says that the option was seen to do what it is there for."""
    what = kind(fact)
    key = f"fact_{fact.aspect.value}_{what}" if what else ""
    if key not in texts():
        return ""
    subject = fact.subject
    said = text(key, language)
    if subject is None:
        place = fact.about if fact.aspect is Aspect.FILES else ""
        return text("fact_at", language, what=said, place=place) if place else said
    if subject.name == MODE and not subject.value:
        special = "fact_without_served" if what == "served" else "fact_without"
        return text(special, language, name=subject.name, what=said)
    if f"fact_of_{what}" in texts():
        return text(f"fact_of_{what}", language, subject=subject)
    if sometimes:
        return text("fact_of", language, subject=subject, what=said)
    own = subject.value if subject.name == MODE else subject.name.lstrip("-")
    if own == "enable" and what == "served" and _fates(fact.expected) == {"stored"}:
        own = "key"  # the operator has no entry of its own
    family = subject.kind.value if fact.aspect is Aspect.AGING else ""
    for special in (f"fact_{own}_{what}", f"fact_{family}_{what}"):
        if special in texts():
            return text(special, language, subject=subject)
    return text("fact_of", language, subject=subject, what=said)


def kind(fact: Fact) -> str:
    """What kind of thing was observed, as a part of a key."""
    if fact.aspect is Aspect.CLAIM:
        return next((each for end, each in _CLAIMS if fact.observed.endswith(end)), "")
    if fact.aspect not in (Aspect.OUTCOME, Aspect.ENTRY):
        return fact.observed
    delivered, _, fate = fact.observed.rpartition("/")
    sources = {each.rpartition("/")[0] for each in fact.expected}
    fates = _fates(fact.expected)
    if "reused" in (delivered, fate) and "reused" not in sources | fates:
        return "served"
    if delivered == "compiled" and sources == {"reused"}:
        return "unused" if fate in ("absent", "kept") else "again"
    if fate in ("stored", "kept") and fates <= {"absent", "removed"}:
        return "stays"
    if (fate == "kept" and fates == {"rewritten"}) or (
        fate == "rewritten" and fates == {"removed"}
    ):
        return "stays"
    if fate == "absent":
        return "unused"
    if delivered == "compiled" and fate == "removed" and fates & {"rewritten", "stored"}:
        return "unstored"
    if fate == "rewritten" and fates == {"stored"}:
        return "present"
    return "gone" if fate in ("removed", "rewritten") else ""


def _fates(expected: Iterable[str]) -> set[str]:
    return {each.rpartition("/")[2] for each in expected}


def next_step(fact: Fact | None, language: Language) -> str:
    """What to do about a fact, in one line."""
    kinds = (kind(fact), fact.aspect.value) if fact is not None else ()
    if fact is not None and fact.subject is not None:
        kinds = (fact.subject.name, *kinds)
    keys = (*(f"next_{each}" for each in kinds), "next")
    return next(text(each, language) for each in keys if each in texts())
