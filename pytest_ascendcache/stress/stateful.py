"""Programs of one rank, generated and shortened by Hypothesis; their model is the contract.

Imported only where Hypothesis is installed (extra ``stateful``). Source: document C; facts
``feasibility`` section 6.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from pytest_ascendcache.caches import Entry
from pytest_ascendcache.contract import (
    CacheMode,
    CompileOptions,
    EntryState,
    Fate,
    Outcome,
    bystander_fates,
    expected_outcomes,
    is_under_debug,
)
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, Run
from pytest_ascendcache.operators import OperatorSpec

_PROGRAMS = 20
_STEPS = 8
"""Programs, and steps of each at most: every step costs a compiler start or two."""

_DAMAGES = {each.name: each for each in DAMAGES}


class OneRank(RuleBasedStateMachine):
    """A cache, and what the contract says is in it. ``operator`` arguments are numbers."""

    cache: CacheUnderTest
    operators: tuple[OperatorSpec, ...]
    numbers: count[int]

    def __init__(self) -> None:
        super().__init__()
        self.rank = self.cache.elsewhere(self.cache.sandbox / f"program{next(self.numbers)}")
        self.states = [EntryState.NONE] * len(self.operators)
        self.stems: dict[int, str] = {}

    @rule(
        operators=st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True),
        mode=st.sampled_from(["enable", "enable", "force", "disable"]),
        debug_level=st.sampled_from([None, None, None, 0, 1]),
    )
    def compile(self, operators: list[int], mode: str, debug_level: int | None) -> None:
        """Compile in one process; every outcome has to be one the contract allows."""
        cache_mode = CacheMode(mode)
        options = CompileOptions(cache_mode=cache_mode, debug_level=debug_level)
        specs = [self.operators[each] for each in operators]
        run = self.rank.compile(*specs, mode=cache_mode, debug_level=debug_level)
        for number, operator in zip(operators, specs, strict=True):
            under_debug = is_under_debug(options, operator.type, operator.name or "")
            allowed = expected_outcomes(cache_mode, under_debug, self.states[number])
            seen = self._seen(run, number, operator)
            words = " or ".join(sorted(map(str, allowed)))
            assert seen in allowed, f"operator {number}: {seen}; the contract says {words}"
            digest = self.rank.unlike_fresh(run).get(operator)
            assert digest is None, f"operator {number}: a wrong kernel is delivered: {digest}"
        self._now(operators, cache_mode, options)

    def _seen(self, run: Run, number: int, operator: OperatorSpec) -> Outcome:
        outcome = run[operator]
        stem = self.stems.get(number) or run.stem(operator)
        if stem is None:
            return outcome
        self.stems[number] = stem
        return Outcome(outcome.delivered, run.fate_of(f"{self._prefix}/{stem}"))

    @property
    def _prefix(self) -> str:
        directory = self.rank.layout.soc(self.rank.options.soc)
        return str(directory.relative_to(self.rank.root))

    def _now(self, operators: list[int], mode: CacheMode, options: CompileOptions) -> None:
        """What the contract says is there afterwards."""
        if bystander_fates(options) == {Fate.REMOVED}:
            self.states = [EntryState.NONE] * len(self.states)
        if options.debug_level or mode is CacheMode.DISABLE:
            return
        for number in operators:
            self.states[number] = EntryState.VALID
        for number, state in enumerate(self.states):
            there = self._entry(number)
            if there is not None and state is EntryState.VALID:
                assert there.is_valid, f"operator {number}: {'; '.join(there.problems())}"

    def _entry(self, number: int) -> Entry | None:
        stem = self.stems.get(number)
        return Entry(stem, self.rank.layout.soc(self.rank.options.soc)) if stem else None

    @precondition(lambda self: EntryState.VALID in self.states)
    @rule(operator=st.integers(0, 2), damage=st.sampled_from(sorted(_DAMAGES)))
    def damage(self, operator: int, damage: str) -> None:
        """Damage a valid entry."""
        entry = self._entry(operator)
        if entry is not None and self.states[operator] is EntryState.VALID:
            _DAMAGES[damage].apply(entry)
            self.states[operator] = EntryState.DAMAGED

    @precondition(lambda self: EntryState.VALID in self.states)
    @rule(operator=st.integers(0, 2))
    def delete(self, operator: int) -> None:
        """Delete a valid entry."""
        entry = self._entry(operator)
        if entry is not None and self.states[operator] is EntryState.VALID:
            entry.metadata_path.unlink()
            entry.object_path.unlink()
            self.states[operator] = EntryState.NONE


def find_program(
    cache: CacheUnderTest, operators: tuple[OperatorSpec, ...], number: int
) -> str | None:
    """The shortest program found after which an outcome is none the contract allows; else none.

    ``number`` is the seed. Three operators are taken. Evidence of the many compiles is dropped,
    that of the failing program's last execution is kept.

    Raises:
        NotDecidable: where an outcome cannot be told.
        ToolchainError: where a compile fails.
    """
    machine: Any = type(
        "OneRank",
        (OneRank,),
        {"cache": cache, "operators": operators, "numbers": count(), "settings": None},
    )
    run: Any = run_state_machine_as_test
    try:
        run(
            seed(number)(machine),
            settings=settings(
                max_examples=_PROGRAMS,
                stateful_step_count=_STEPS,
                database=None,
                deadline=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
                phases=(Phase.generate, Phase.shrink),
                print_blob=False,
                verbosity=Verbosity.normal,
            ),
        )
    except AssertionError as error:
        notes: list[str] = getattr(error, "__notes__", [])
        del cache.evidence.steps[:-_STEPS]
        return "\n".join([str(error), *notes])
    del cache.evidence.steps[:]
    return None
