"""Document C, the same story in other surroundings: its outcomes may not change.

Stored, reused, healed, aged, purged, purged again, refreshed by another version: one run each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.conformance.kit.shelf import Shelf, environment, rest
from pytest_ascendcache.conformance.kit.surroundings import (
    DIRECTORIES,
    OTHERS,
    PLAIN,
    Surroundings,
    together_with,
)
from pytest_ascendcache.conformance.kit.together import Together
from pytest_ascendcache.conformance.kit.vocabulary import (
    COMPILED,
    ENABLE,
    FORCE,
    KEPT,
    REUSED,
    REWRITTEN,
    STORED,
    Outcome,
    rule,
)
from pytest_ascendcache.contract import CacheMode, Capability
from pytest_ascendcache.contract.aging import MEGABYTE
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, Run
from pytest_ascendcache.operators import OperatorSpec

NEW, HIT = Outcome(COMPILED, STORED), Outcome(REUSED, KEPT)
AGAIN = Outcome(COMPILED, REWRITTEN)


@rule("cache-mode/directory-precedence")
@pytest.mark.parametrize("surroundings", DIRECTORIES, ids=lambda each: each.name.replace(" ", "-"))
def test_a_directory_is_used_however_it_is_named(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    surroundings: Surroundings,
    together: Together,
) -> None:
    def story(cache: CacheUnderTest, around: Surroundings) -> None:
        Story(cache, around).play(add, exp)

    _play(cache, surroundings, together, story)


@rule("cache-mode/enable-reuses")
@pytest.mark.parametrize("surroundings", OTHERS, ids=lambda each: each.name.replace(" ", "-"))
def test_nothing_around_a_run_decides_what_it_does(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    surroundings: Surroundings,
    together: Together,
) -> None:
    def story(cache: CacheUnderTest, around: Surroundings) -> None:
        told = Story(cache, around)
        told.play(add, exp)
        told.play_force_twice(add, exp)

    _play(cache, surroundings, together, story)


def _play(
    cache: CacheUnderTest,
    surroundings: Surroundings,
    together: Together,
    story: Callable[[CacheUnderTest, Surroundings], None],
) -> None:
    """A story in surroundings that are odd in other ways as well; where that fails, in these."""
    surroundings.given(cache)  # not applicable where the edition has no such variable
    all_of_them = together_with(surroundings)
    if all_of_them is None or (all_of_them.option is None and not cache.edition.cache_path):
        story(cache, surroundings)
        return
    if not together.go_well(
        all_of_them.name, lambda other: story(other, all_of_them), cache.evidence
    ):
        story(cache, surroundings)


class Story:
    """One cache in its surroundings, run after run."""

    def __init__(self, cache: CacheUnderTest, surroundings: Surroundings) -> None:
        # Aging on the mount at hand is the business of ``aging/works-on-relatime``.
        for directory in (cache.sandbox, *filter(Path.is_dir, cache.sandbox.iterdir())):
            keep_access_times(directory, keep=False)
        limited = cache.sandbox / "limited"
        limited.mkdir()
        # Limits of a directory that is not used: everything idle would go.
        (limited / "op_cache.ini").write_text(
            "[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n"
        )
        self._around = surroundings
        self.cache = surroundings.prepare(cache)

    def play(self, add: OperatorSpec, exp: OperatorSpec) -> None:
        """Every step, with what the document says of it."""
        cache = self.cache
        self._step("a first run", (add, exp), ENABLE, {add: NEW, exp: NEW})
        self._ages(add)
        self._heals(add, exp)
        self._step("force", (add,), FORCE, {add: AGAIN}, left=1)
        if Capability.VERSION_STAMP in cache.toolchain.capabilities:
            change = cache.toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
            variables = dict(change.environment)
            # To some toolchains this run is the first with a version, to others one like the last.
            self._step("a stamp", (add,), ENABLE, {}, variables)
            change.apply()
            self._step("another version", (exp,), ENABLE, {exp: None}, variables, left=1)

    def play_force_twice(self, add: OperatorSpec, exp: OperatorSpec) -> None:
        """Right behind each other: the second purges as the first did. What it stored is found by
        a run in plain surroundings."""
        self._step("force", (add,), FORCE, {add: None}, left=1)
        self._step("after force", (exp,), ENABLE, {exp: NEW}, left=2)
        self._step("force again", (exp,), FORCE, {exp: AGAIN}, left=1)
        self._around = PLAIN
        self._step("in plain surroundings", (exp,), ENABLE, {exp: HIT}, left=1)

    def _ages(self, add: OperatorSpec) -> None:
        """Two of three idle entries go, of 1200 KB each under 3 MB and 50 %."""
        cache, marks = self.cache, self.cache.marks
        cache.mark()
        cache.marks = False
        for path in cache.layout.soc(cache.options.soc).iterdir():
            rest(path, 0)
        shelf = Shelf(cache).lay("abc", 12 * MEGABYTE // 10, 9, 8, 7)
        self._compile((add,), ENABLE, environment(3, 50))
        gone = shelf.gone()
        assert gone == "ab", (
            f"{self._around.name}, aging\nobserved: of idle entries {gone or 'none'} gone\n"
            "expected: ab (1200 KB each, 3 MB, 50 %)"
        )
        shelf.entry("c").object_path.unlink()
        shelf.entry("c").metadata_path.unlink()
        cache.marks = marks

    def _heals(self, add: OperatorSpec, exp: OperatorSpec) -> None:
        """A damaged entry is not served. That it is replaced is the business of
        ``robust/heals-damaged-entry``; here it only has to be as in plain surroundings."""
        _damage(self.cache)
        stems = set(self.cache.entries())
        run = self._compile((add, exp), ENABLE, {})
        healed = AGAIN
        if run[add] != AGAIN and stems == set(self.cache.entries()) and self._stays_damaged(add):
            healed = Outcome(COMPILED, run[add].entry)
        self._judge("a damaged entry", run, {add: healed, exp: HIT})

    def _stays_damaged(self, add: OperatorSpec) -> bool:
        """Whether a damaged entry is left as it is in plain surroundings too."""
        plain = self.cache.elsewhere(self.cache.sandbox / "plain")
        plain.warm(add)
        _damage(plain)
        return plain.compile(add, mode=ENABLE)[add] == Outcome(COMPILED, KEPT)

    def _step(
        self,
        what: str,
        operators: tuple[OperatorSpec, ...],
        mode: CacheMode,
        expected: dict[OperatorSpec, Outcome | None],
        variables: dict[str, str] | None = None,
        left: int | None = None,
    ) -> None:
        """One run; ``left`` is how many entries there have to be afterwards."""
        run = self._compile(operators, mode, variables or {})
        self._judge(what, run, expected)
        count = len(self.cache.entries())
        assert left in (None, count), (
            f"{self._around.name}, {what}\nobserved: {count} entries\nexpected: {left}"
        )

    def _judge(self, what: str, run: Run, expected: Mapping[OperatorSpec, Outcome | None]) -> None:
        for operator, outcome in expected.items():
            delivered = run[operator]
            known = outcome or Outcome(COMPILED, delivered.entry)
            assert delivered == known, (
                f"{self._around.name}, {what}, {operator}\nobserved: {delivered}\nexpected: {known}"
            )

    def _compile(
        self, operators: tuple[OperatorSpec, ...], mode: CacheMode, variables: dict[str, str]
    ) -> Run:
        given = self._around.given(self.cache)
        given["environment"] = {**given["environment"], **variables}
        ordered = operators[::-1] if self._around.backwards else operators
        run = self.cache.compile(*ordered, mode=mode, **given)
        self._around.pass_time(self.cache, time.time())
        return run


def _damage(cache: CacheUnderTest) -> None:
    """Spoil the entries of add."""
    for stem, entry in cache.entries().items():
        if stem.startswith("te_add_"):
            DAMAGES[1].apply(entry)
