"""Compiles worth interrupting: how to prepare the cache, and what to compile then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_ascendcache.conformance.kit.shelf import HOUR, KILOBYTE, Shelf, rest_entry
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE, MEGABYTE
from pytest_ascendcache.observation import CacheUnderTest, Interruption, Run
from pytest_ascendcache.operators import OperatorSpec


@dataclass(frozen=True)
class Story:
    """A state of the cache and a compile in it.

    ``prepare`` sets up the cache; then the first operator is compiled under ``mode`` and
    ``environment``. ``both`` says that an interruption may also damage the other operator's entry.
    """

    name: str
    mode: CacheMode
    prepare: Callable[[CacheUnderTest, OperatorSpec, OperatorSpec], None]
    environment: dict[str, str] | None = None
    both: bool = False

    def record(
        self, cache: CacheUnderTest, operator: OperatorSpec, other: OperatorSpec
    ) -> Interruption[Run]:
        """Record the compile. Entries are left as the toolchain wrote them, without marks."""
        marks, cache.marks = cache.marks, False
        self.prepare(cache, operator, other)
        cache.marks = marks
        return cache.interruption(operator, mode=self.mode, environment=self.environment)


def _empty(cache: CacheUnderTest, *_: OperatorSpec) -> None:
    """Leave the cache without a directory."""


def _warm(cache: CacheUnderTest, *operators: OperatorSpec) -> None:
    cache.warm(*operators)


def _another(cache: CacheUnderTest, _: OperatorSpec, other: OperatorSpec) -> None:
    cache.warm(other)


def _half(cache: CacheUnderTest, operator: OperatorSpec, other: OperatorSpec) -> None:
    cache.warm(operator, other)
    cache.entry(operator).object_path.unlink()


def _idle(cache: CacheUnderTest, *operators: OperatorSpec) -> None:
    cache.warm(*operators)
    Shelf(cache).lay("a", MEGABYTE + KILOBYTE, 4)
    for operator in operators:
        rest_entry(cache.entry(operator), 5 * HOUR)


COLD = Story("enable-on-nothing", ENABLE, _empty)
BESIDE = Story("enable-beside-another", ENABLE, _another)
HEALING = Story("enable-on-half-an-entry", ENABLE, _half)
FORCING = Story("force-on-a-warm-cache", FORCE, _warm, both=True)
LIMITS = {ENV_SIZE: "1", ENV_RATIO: "1"}
AGING = Story("aging-over-the-limit", ENABLE, _idle, LIMITS, both=True)
STORIES = (COLD, HEALING, FORCING)
