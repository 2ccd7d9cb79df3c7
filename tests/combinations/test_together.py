"""Cases that share a story: the story runs once, and if it fails, each case runs alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.together import Together
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.evidence import Step


class Cache:
    """Records a run of the toolchain in the evidence, as a cache under test does."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def run(self) -> None:
        self._evidence.starts += 1
        self._evidence.steps.append(Step("atc", "ended", (), {}, ""))


class Caches:
    """Counts the caches that are not discarded yet."""

    def __init__(self) -> None:
        self.left = 0

    def sandbox(self, name: str) -> Path:
        self.left += 1
        return Path(name)

    def cache(self, _: Path, evidence: Evidence) -> Cache:
        return Cache(evidence)

    def discard(self, _: Path) -> None:
        self.left -= 1


def test_a_story_is_told_once_and_its_runs_are_the_first_cases() -> None:
    together = Together(caches := Caches())  # type: ignore[arg-type]
    cases = Evidence(), Evidence()
    assert [together.go_well("one", one_run, each) for each in cases] == [True, True]
    assert [each.starts for each in cases] == [1, 0]
    assert [len(each.steps) for each in cases] == [1, 1]
    assert caches.left == 0


def one_run(cache: Cache) -> None:
    cache.run()


@pytest.mark.parametrize("reason", [AssertionError, NotDecidable])
def test_where_a_story_fails_its_steps_are_no_cases(reason: type[Exception]) -> None:
    def story(cache: Cache) -> None:
        cache.run()
        raise reason

    together = Together(caches := Caches())  # type: ignore[arg-type]
    cases = Evidence(), Evidence()
    assert [together.go_well("one", story, each) for each in cases] == [False, False]  # type: ignore[arg-type]
    assert [each.starts for each in cases] == [1, 0]
    assert [each.steps for each in cases] == [[], []]
    assert caches.left == 0
