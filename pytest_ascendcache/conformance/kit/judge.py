"""The judge of a run: outcomes, other entries, healing, kernels and aging.

From what was known of the cache before a run and what the run did it makes facts, by the contract's
central table: none if every promise holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pytest_ascendcache.conformance.kit.told import counted, differs
from pytest_ascendcache.contract import (
    Aging,
    CacheLimits,
    CacheMode,
    CompileOptions,
    Edition,
    EntryState,
    Fate,
    Outcome,
    bystander_fates,
    expected_outcomes,
    is_overridden,
    is_under_debug,
    list_excepts,
)
from pytest_ascendcache.contract.facts import (
    Aged,
    Delivery,
    Ending,
    Fact,
    Subject,
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
from pytest_ascendcache.contract.subjects import implementing, keyed, ruling
from pytest_ascendcache.observation import Run
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.operators import OperatorSpec

HEALED = Outcome(COMPILED, REWRITTEN)
"""The outcome of a run that replaces a damaged entry."""
_ANEW = frozenset({HEALED, Outcome(COMPILED, STORED)})


class Known(Enum):
    NONE = "none"
    VALID = "valid"
    DAMAGED = "damaged"
    OUTDATED = "outdated"
    """Valid, but a tuning knowledge base that its kernel depends on has changed."""
    VOID = "void"
    """Of another version of the toolchain than that of the run."""
    ALIKE = "alike"
    """Stored under other options, which select the same kernel."""
    UNCLEAR = "unclear"
    """Stored under other options; nothing says whether they select the same kernel."""
    OPEN = "open"
    """The documents do not say what a run has to do with it."""


@dataclass(frozen=True)
class Judge:
    """Judges one run. ``operators`` are all that it compiles, ``run`` is its number within the
    check, ``subject`` what is under test (by default the option that rules over the cache),
    ``place`` what names the cache directory, if it is not the option."""

    options: CompileOptions
    edition: Edition
    operators: tuple[OperatorSpec, ...]
    run: int = 0
    subject: Subject | None = None
    place: Subject | None = None

    def outcome(self, operator: OperatorSpec, observed: Outcome, known: Known) -> list[Fact]:
        """Whether the table allows the outcome of an operator whose entry was like this."""
        allowed = self.allowed(operator, known)
        if not allowed or observed in allowed:
            return []
        judge = self
        if self.subject is None and observed.reused and known is Known.NONE:
            # Another entry is served: what selects the kernel does not count.
            judge = replace(self, subject=keyed(self.options))
        elif self.place is not None and observed.entry is ABSENT:
            judge = replace(self, subject=self.place)
        return [judge._of(operator, observed, allowed)]

    def allowed(self, operator: OperatorSpec, known: Known) -> frozenset[Outcome]:
        """Every outcome that the table allows; empty if it does not say. A damaged entry may also
        stay or go: whether it heals is a question of its own."""
        if known is Known.OPEN:
            return frozenset()
        if known is Known.VOID:
            # Nothing tells whether the old entry is removed first, overwritten, or just not served.
            none = self.allowed(operator, Known.NONE)
            stay = {Outcome(COMPILED, fate) for fate in (KEPT, REMOVED)}
            new = _ANEW | {Outcome(COMPILED, REMOVED)}
            return new if _ANEW & none else frozenset(stay) | none
        if known is Known.OUTDATED:
            # The document allows the old kernel (a known limitation), or a toolchain that notices.
            valid = self.allowed(operator, Known.VALID)
            return valid | _ANEW if Outcome(REUSED, KEPT) in valid else valid
        if known in (Known.ALIKE, Known.UNCLEAR):
            none, valid = (self.allowed(operator, each) for each in (Known.NONE, Known.VALID))
            if known is Known.UNCLEAR or self._is_under_debug(operator) is not False:
                return none | valid
            # A run that neither reuses nor stores does not show whose the entry is.
            return valid | (none & {Outcome(COMPILED, ABSENT)})
        config, debug = self.options.debug_config, self._is_under_debug(operator)
        by_list = config is not None and config.listed is not None and not self.options.debug_level
        listed = by_list and debug is not False and list_excepts(self.edition)
        state = EntryState(known.value)
        allowed = expected_outcomes(self.options.effective_mode, debug, state, listed)
        if known is Known.DAMAGED:
            allowed |= {Outcome(COMPILED, fate) for fate in (KEPT, REMOVED)}
        return allowed

    def has_to_heal(self, operator: OperatorSpec) -> frozenset[Outcome]:
        """The outcomes that heal a damaged entry; empty if the run need not heal it."""
        debug = self._is_under_debug(operator)
        expected = expected_outcomes(self.options.effective_mode, debug, EntryState.DAMAGED)
        return expected if HEALED in expected else frozenset()

    def healing(self, operator: OperatorSpec, observed: Outcome) -> list[Fact]:
        """Whether the damaged entry of an operator was replaced, if the run had to."""
        heals = self.has_to_heal(operator)
        return [self._of(operator, observed, heals)] if heals and observed not in heals else []

    def other(self, fate: Fate, known: Known, about: str, soc: str | None = None) -> list[Fact]:
        """Whether an entry that no operator of the run owns fared as it may. ``soc`` is its chip,
        by default that of the run."""
        if known is Known.OPEN:
            return []
        allowed = {KEPT}
        if known is Known.VOID:
            allowed = {KEPT, REMOVED}  # whether it is served is what counts
        elif soc in (None, self.options.soc):
            allowed = set(bystander_fates(self.options, self.edition))
            if self._lists_everything:
                allowed.add(KEPT)
        if known is Known.DAMAGED and KEPT in allowed:
            allowed |= {REMOVED, REWRITTEN}
        return [] if fate in allowed else [self._of(about, fate, allowed)]

    def kernel(
        self,
        operator: OperatorSpec,
        whose: Delivery = Delivery.ANOTHER,
        detail: str = "not the kernel of a fresh compile",
    ) -> Fact:
        """That a kernel is not the operator's own of this compile."""
        subject = self.subject or implementing(self.options) or ruling(self.options)
        return Fact.seen(whose, detail, operator, subject=subject, run=self.run)

    def ending(self, run: Run, failure: str) -> list[Fact]:
        """How a run ended that should not have failed, if it did: ``failure`` is the sentence."""
        if not failure:
            return []
        code, ending = run.returncode, Ending.FAILURE
        if code is None:
            ending = Ending.NO_END
        elif crashed(code):
            ending = Ending.CRASH
        subject = self.subject or ruling(self.options)
        return [Fact.seen(ending, failure, subject=subject, run=self.run)]

    def aging(
        self,
        due: Aging,
        names: Collection[str],
        gone: Collection[str],
        torn: Collection[str],
        limits: CacheLimits,
        is_used: bool = False,
    ) -> list[Fact]:
        """Whether the right ones of some idle entries are gone: those that are ``due``, unless the
        run purges the cache or does not use it. Each has a name of one character. ``is_used`` says
        that the cache was seen to be used: where it should not be, it ages for that."""
        overridden = is_overridden(self.options, self.edition)
        nothing, everything = frozenset[str](), frozenset(names)
        judged, expected = due, counted(due.must_go)
        subject: Subject | None = ruling(self.options)
        if bystander_fates(self.options, self.edition) == {REMOVED}:
            judged, expected = Aging(everything, nothing), "all (purged)"
        elif self.options.effective_mode is CacheMode.DISABLE or overridden:
            if is_used:
                return []
            judged, expected = Aging(nothing, everything), "none (the cache is not used)"
        elif overridden is None:
            return []  # the document does not say whether the cache is used
        else:
            subject = self.subject
        if self._lists_everything and (not gone or due.allows(gone)):
            judged = Aging(nothing, nothing)
        observed = f"of idle entries {counted(gone)} gone"
        detail = differs(observed, f"{expected} ({limits.megabytes} MB, {limits.ratio} %)")
        return aging_facts(judged, gone, torn, detail, subject=subject, run=self.run)

    @property
    def _lists_everything(self) -> bool:
        """Whether ``op_debug_list`` lists every operator of the run. Document C leaves open what
        enable and force then do to the other entries of the cache."""
        config = self.options.debug_config
        if config is None or config.listed is None or self.options.debug_level:
            return False
        return all(config.lists(each.type, each.name) for each in self.operators)

    def _is_under_debug(self, operator: OperatorSpec) -> bool | None:
        return is_under_debug(self.options, operator.type, operator.name, self.edition)

    def _of(self, about: object, observed: Outcome | Fate, allowed: Iterable[Any]) -> Fact:
        subject = self.subject or ruling(self.options)
        return outcome_fact(observed, allowed, about, subject=subject, run=self.run)


def aging_facts(
    due: Aging, gone: Collection[str], torn: Collection[str], detail: str, **more: Any
) -> list[Fact]:
    """How the idle entries that are gone differ from those that are ``due``; ``torn`` are those
    that lost one of their two files. ``detail`` tells which are gone and which should be."""
    names, facts = frozenset(gone), []
    if not due.allows(names):
        lacking, surplus = due.must_go - names, names & due.must_stay
        observed = Aged.OTHERS if lacking and surplus else Aged.TOO_FEW
        observed = Aged.TOO_MANY if not lacking else observed
        facts.append(Fact.seen(observed, detail, **more))
    if torn:
        half = f"half of an aged entry was left behind: {counted(torn)}"
        facts.append(Fact.seen(Aged.HALF, half, **more))
    return facts
