"""Headlines of facts: the option's name first, in both languages."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import CacheMode, CompileOptions, Outcome
from pytest_ascendcache.contract.facts import (
    Aged,
    Aspect,
    Delivery,
    Ending,
    Fact,
    Later,
    Numbers,
    Place,
    Words,
    outcome_fact,
)
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REMOVED,
    REUSED,
    REWRITTEN,
    STORED,
)
from pytest_ascendcache.contract.subjects import ruling
from pytest_ascendcache.language import Language
from pytest_ascendcache.reports.headline import headline

FORCE = ruling(CompileOptions(cache_mode=CacheMode.FORCE))
ENABLE = ruling(CompileOptions(cache_mode=CacheMode.ENABLE))
HIT, NEW = Outcome(REUSED, KEPT), Outcome(COMPILED, STORED)
FINE = {
    Delivery.OWN,
    Ending.REFUSAL,
    Later.WORKS,
    Aged.AS_DUE,
    Place.UNTOUCHED,
    Words.AS_DUE,
    Numbers.AS_PROMISED,
}
"""What is expected, and so never the observation of a fact."""
OBSERVED = [
    each
    for kind in (Delivery, Ending, Later, Aged, Place, Words, Numbers)
    for each in kind
    if each not in FINE
]


@pytest.mark.parametrize(
    "observed", OBSERVED, ids=lambda each: f"{type(each).__name__}.{each.name}"
)
@pytest.mark.parametrize("language", Language)
def test_every_observation_has_words(observed, language) -> None:
    assert headline(Fact.seen(observed, ""), language)


@pytest.mark.parametrize(
    ("fact", "english"),
    [
        (
            outcome_fact(HIT, [Outcome(COMPILED, REWRITTEN)], subject=FORCE),
            "--op_compiler_cache_mode=force has no effect: kernels from before are served",
        ),
        (
            outcome_fact(HIT, [NEW], subject=ruling(CompileOptions())),
            "without --op_compiler_cache_mode the cache is used: kernels from before are served",
        ),
        (
            outcome_fact(HIT, [NEW], subject=ENABLE),
            "--op_compiler_cache_mode=enable: an operator that has no entry of its own is served "
            "the kernel of another one",
        ),
        (
            outcome_fact(HIT, [Outcome(COMPILED, REWRITTEN)], subject=ENABLE),
            "--op_compiler_cache_mode=enable: an old kernel is served where a new one has to be "
            "compiled",
        ),
        (
            outcome_fact(Outcome(COMPILED, REWRITTEN), [HIT], subject=ENABLE),
            "--op_compiler_cache_mode=enable reuses nothing: operators are compiled again although "
            "their entries are valid",
        ),
        (
            outcome_fact(Outcome(COMPILED, ABSENT), [NEW], subject=ENABLE),
            "--op_compiler_cache_mode=enable has no effect: nothing is stored, the cache is not "
            "used",
        ),
        (
            outcome_fact(KEPT, [REMOVED], subject=FORCE),
            "--op_compiler_cache_mode=force does not remove the entries that were in the cache",
        ),
        (outcome_fact(REMOVED, [KEPT]), "entries are gone or replaced that have to stay"),
        (Fact.of(Aspect.CLAIM, "not left"), ""),
    ],
    ids=lambda each: each.code if isinstance(each, Fact) else "",
)
def test_the_headline_names_the_option_first(fact: Fact, english: str) -> None:
    assert headline(fact, Language.ENGLISH) == english
