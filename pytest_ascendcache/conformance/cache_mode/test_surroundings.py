"""Document C: one story in different surroundings, which must not change its outcomes.

Entries are stored, reused, healed, aged, purged, purged again and refreshed by another version, one
run each.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.conformance.kit.judge import aging_facts
from pytest_ascendcache.conformance.kit.shelf import Shelf, environment, rest
from pytest_ascendcache.conformance.kit.surroundings import (
    OTHERS,
    PLAIN,
    Surroundings,
    together_with,
)
from pytest_ascendcache.conformance.kit.together import Together
from pytest_ascendcache.conformance.kit.told import differs, require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    BYPASSED,
    COMPILED,
    ENABLE,
    FORCE,
    HIT,
    NEW,
    REPLACED,
    Outcome,
    rule,
)
from pytest_ascendcache.contract import Aging, CacheMode, Capability
from pytest_ascendcache.contract.aging import MEGABYTE
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec


@rule("cache-mode/enable-reuses")
@pytest.mark.parametrize("surroundings", OTHERS, ids=lambda each: each.name.replace(" ", "-"))
def test_nothing_around_a_run_decides_what_it_does(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    surroundings: Surroundings,
    together: Together,
) -> None:
    def play(other: CacheUnderTest, around: Surroundings) -> None:
        story = Story(other, around)
        story.play(add, exp)
        story.play_force_twice(add, exp)

    combined = together_with(surroundings)
    if combined is None or not together.go_well(
        combined.name, lambda other: play(other, combined), cache.evidence
    ):
        play(cache, surroundings)


class Story:
    """One cache in its surroundings, over several runs."""

    def __init__(self, cache: CacheUnderTest, surroundings: Surroundings) -> None:
        # Rule aging/works-on-relatime judges aging on the mount at hand.
        for directory in (cache.sandbox, *filter(Path.is_dir, cache.sandbox.iterdir())):
            keep_access_times(directory, keep=False)
        limited = cache.sandbox / "limited"
        limited.mkdir()
        # Limits in a directory that must not be used: they would remove all idle entries.
        (limited / "op_cache.ini").write_text(
            "[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n"
        )
        self._around = surroundings
        self.cache = cache

    def play(self, add: OperatorSpec, exp: OperatorSpec) -> None:
        """Make every step, and assert what the document says of it."""
        cache = self.cache
        first = self._step("a first run", (add, exp), ENABLE, {add: NEW, exp: NEW})
        self._ages(add)
        self._heals(add, exp, first.stem(add))
        self._step("force", (add,), FORCE, {add: REPLACED}, left=1)
        if Capability.VERSION_STAMP in cache.toolchain.capabilities:
            change = cache.toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
            variables = dict(change.environment)
            # Some toolchains see a version here for the first time, others the same as before.
            self._step("a stamp", (add,), ENABLE, {}, variables)
            change.apply()
            self._step("another version", (exp,), ENABLE, {exp: None}, variables)

    def play_force_twice(self, add: OperatorSpec, exp: OperatorSpec) -> None:
        """Force twice: the second purge works like the first. A run in plain surroundings reuses
        what it stored."""
        self._step("force", (add,), FORCE, {add: None}, left=1)
        self._step("after force", (exp,), ENABLE, {exp: NEW}, left=2)
        self._step("force again", (exp,), FORCE, {exp: REPLACED}, left=1)
        self._around = PLAIN
        self._step("in plain surroundings", (exp,), ENABLE, {exp: HIT}, left=1)

    def _ages(self, add: OperatorSpec) -> None:
        """Two of three idle entries of 1200 KB go, under 3 MB and 50 %."""
        cache, marks = self.cache, self.cache.marks
        cache.mark()
        cache.marks = False
        for path in cache.layout.soc(cache.options.soc).iterdir():
            rest(path, 0)
        shelf = Shelf(cache).lay("abc", 12 * MEGABYTE // 10, 9, 8, 7)
        run = self._compile((add,), ENABLE, environment(3, 50))
        observed = f"of idle entries {shelf.gone() or 'none'} gone"
        difference = differs(observed, "ab (1200 KB each, 3 MB, 50 %)")
        due, detail = (
            Aging(frozenset("ab"), frozenset("c")),
            f"{self._around.name}, aging\n{difference}",
        )
        facts = aging_facts(due, shelf.gone(), "", detail, subject=shelf.limiting(run))
        require_none(facts, cache.evidence)
        shelf.entry("c").object_path.unlink()
        shelf.entry("c").metadata_path.unlink()
        cache.marks = marks

    def _heals(self, add: OperatorSpec, exp: OperatorSpec, stem: str | None) -> None:
        """A damaged entry is not served. Whether it is replaced is a rule of its own,
        ``robust/heals-damaged-entry``; here it only has to fare as in plain surroundings."""
        _damage(self.cache, stem)
        stems = set(self.cache.entries())
        run = self._compile((add, exp), ENABLE, {})
        healed = REPLACED
        if run[add] != REPLACED and stems == set(self.cache.entries()) and self._stays_damaged(add):
            healed = Outcome(COMPILED, run[add].entry)
        self._judge("a damaged entry", run, {add: healed, exp: HIT})

    def _stays_damaged(self, add: OperatorSpec) -> bool:
        """Whether a damaged entry is left alone in plain surroundings, too."""
        plain = self.cache.elsewhere(self.cache.sandbox / "plain")
        plain.warm(add)
        _damage(plain, plain.entry(add).stem)
        return plain.compile(add, mode=ENABLE)[add] == BYPASSED

    def _step(
        self,
        what: str,
        operators: tuple[OperatorSpec, ...],
        mode: CacheMode,
        expected: dict[OperatorSpec, Outcome | None],
        variables: dict[str, str] | None = None,
        left: int | None = None,
    ) -> Run:
        """Make and judge a run; ``left`` is the number of entries that it has to leave."""
        run = self._compile(operators, mode, variables or {})
        self._judge(what, run, expected)
        count = len(self.cache.entries())
        message = f"{self._around.name}, {what}\n{differs(f'{count} entries', left)}"
        assert left in (None, count), message
        return run

    def _judge(self, what: str, run: Run, expected: Mapping[OperatorSpec, Outcome | None]) -> None:
        for operator, outcome in expected.items():
            observed = run[operator]
            wanted = outcome or Outcome(COMPILED, observed.entry)
            message = f"{self._around.name}, {what}, {operator}\n{differs(observed, wanted)}"
            assert observed == wanted, message

    def _compile(
        self, operators: tuple[OperatorSpec, ...], mode: CacheMode, variables: dict[str, str]
    ) -> Run:
        arguments = self._around.arguments(self.cache)
        arguments["environment"] = {**arguments["environment"], **variables}
        ordered = operators[::-1] if self._around.backwards else operators
        run = self.cache.compile(*ordered, mode=mode, **arguments)
        self._around.pass_time(self.cache, time.time())
        return run


def _damage(cache: CacheUnderTest, stem: str | None) -> None:
    """Damage an entry. Raises NotDecidable if it is not known."""
    entry = cache.entries().get(stem or "")
    if entry is None:
        raise NotDecidable("no file tells which entry is that of the operator")
    DAMAGES[1].apply(entry)
