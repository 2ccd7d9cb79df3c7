"""Reading the entries of a cache, and which entry belongs to which operator."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ascendcache.caches import CacheLayout, Entry, entries_in_place
from pytest_ascendcache.contract import CompileOptions
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.operators import OperatorSpec


class KnownEntries:
    """``stems`` are the entries that operators are known to have under options that choose one
    (``CompileOptions.entry_choice``). Entries are read where the layout says, at every call."""

    def __init__(self) -> None:
        self.stems: dict[tuple[OperatorSpec, CompileOptions], str] = {}

    def learn(self, operator: OperatorSpec, stem: str | None, choice: CompileOptions) -> None:
        """Record the entry of an operator; None forgets it."""
        if stem is None:
            self.stems.pop((operator, choice), None)
        else:
            self.stems[(operator, choice)] = stem

    def under(self, choice: CompileOptions) -> dict[OperatorSpec, str]:
        """The entries of operators under these options."""
        return {operator: stem for (operator, known), stem in self.stems.items() if known == choice}

    def entry(self, layout: CacheLayout, operator: OperatorSpec, choice: CompileOptions) -> Entry:
        """The current state of an operator's entry. Raises ``NotDecidable`` if none is known."""
        stem = self.stems.get((operator, choice))
        if stem is None:
            raise NotDecidable(f"the cache was not warmed with {operator}")
        return Entry(stem, layout.soc(choice.soc))


def problems_of(layout: CacheLayout, soc: str, kind: str = "") -> Iterator[tuple[str, str]]:
    """Everything wrong with the entries of one chip and, if given, one operator type: the entry and
    the problem."""
    for stem, entry in entries_in_place(layout.soc(soc)).items():
        if not kind or entry.operator_type == kind:
            for problem in entry.problems():
                yield stem, problem
