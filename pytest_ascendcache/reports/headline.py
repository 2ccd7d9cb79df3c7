"""The headline of a fact: which option, file or event fails to do what, in the user's words."""

from __future__ import annotations

from pytest_ascendcache.contract.facts import Aspect, Fact
from pytest_ascendcache.language import Language, text, texts

_MODE = "--op_compiler_cache_mode"


def headline(fact: Fact, language: Language) -> str:
    """One sentence without a full stop; empty for a fact that has no words of its own."""
    kind = _kind(fact)
    key = f"fact_{fact.aspect.value}_{kind}" if kind else ""
    if key not in texts():
        return ""
    subject = fact.subject
    if subject is None:
        return text(key, language)
    if subject.name == _MODE and not subject.value:
        return text("fact_without", language, name=subject.name, what=text(key, language))
    if f"fact_of_{kind}" in texts():
        return text(f"fact_of_{kind}", language, subject=subject)
    special = f"fact_{subject.value}_{kind}"
    if subject.name == _MODE and special in texts():
        return text(special, language, subject=subject)
    return text("fact_of", language, subject=subject, what=text(key, language))


def _kind(fact: Fact) -> str:
    """What kind of thing was observed, as a part of a key."""
    if fact.aspect not in (Aspect.OUTCOME, Aspect.ENTRY):
        return fact.observed
    delivered, _, fate = fact.observed.rpartition("/")
    sources = {each.rpartition("/")[0] for each in fact.expected}
    fates = {each.rpartition("/")[2] for each in fact.expected}
    if "reused" in (delivered, fate) and "reused" not in sources | fates:
        return "served"
    if delivered == "compiled" and sources == {"reused"}:
        return "unused" if fate in ("absent", "kept") else "again"
    if fate in ("stored", "kept") and fates <= {"absent", "removed"}:
        return "stays"
    if fate == "kept" and fates == {"rewritten"}:
        return "stays"
    if fate == "absent":
        return "unused"
    return "gone" if fate in ("removed", "rewritten") else ""
