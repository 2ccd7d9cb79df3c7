"""Processes that build a kernel of MindSpore's operator cache and die, and the runs after them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_ascendcache.caches import segments_of
from pytest_ascendcache.conformance.kit.mindspore_stories import (
    ONE,
    HeldLinker,
    held_linker,
    recovers,
    right,
    wait_until,
    waited,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import NetworkUnderTest, NotDecidable, Watch
from pytest_ascendcache.toolchains import RankProcess

Building = tuple[HeldLinker, Watch, RankProcess]

_ATTEMPTS = 8


@contextmanager
def building(network: NetworkUnderTest, late: bool = False) -> Iterator[Building]:
    """A build that is held at its linker."""
    with held_linker(network, late) as held, network.watch() as watch:
        builder = watch.start(network.request(ONE, environment=held.environment))
        held.stands()
        yield held, watch, builder


def waits(network: NetworkUnderTest, watch: Watch) -> RankProcess:
    """Start a run of the same network that finds the build and waits for it."""
    other = watch.start(network.request(ONE))
    wait_until(lambda: any(each.attached > 1 for each in segments_of(network.cache)))
    return other


@rule("robust/no-torn-entry")
@pytest.mark.parametrize("late", [False, True], ids=["before-the-library", "before-the-metadata"])
def test_who_meets_a_build_gets_its_kernel(network: NetworkUnderTest, late: bool) -> None:
    with building(network, late) as (held, watch, builder):
        other = watch.start(network.request(ONE))
        held.gate.release()
        runs = [waited(watch, process) for process in (builder, other)]
    for run, which in zip(runs, ("who builds", "who met the build"), strict=True):
        right(run, which)
    recovers(network, ONE, "after a meeting")


@rule("robust/dead-lock-holder")
def test_who_waits_for_a_killed_builder_goes_on(network: NetworkUnderTest) -> None:
    with building(network) as (_, watch, builder):
        other = waits(network, watch)
        builder.kill()
        watch.wait(builder)
        run = waited(watch, other)
    right(run, "who waited")


@rule("robust/dead-lock-holder")
def test_who_comes_after_a_killed_builder_is_not_blocked(network: NetworkUnderTest) -> None:
    with building(network) as (_, watch, builder):
        builder.kill()
        watch.wait(builder)
        run = waited(watch, watch.start(network.request(ONE)))
    right(run, "who came later")


@rule("robust/dead-lock-holder")
def test_who_comes_while_another_still_waits_is_not_blocked(network: NetworkUnderTest) -> None:
    """The builder is dead while a run still waits for it. A new run must not be blocked either."""
    with building(network) as (_, watch, builder):
        waits(network, watch)
        builder.kill()
        watch.wait(builder)
        run = waited(watch, watch.start(network.request(ONE)))
    right(run, "who came later")


@rule("robust/dead-lock-holder")
def test_who_waits_takes_what_a_dead_builder_still_finished(network: NetworkUnderTest) -> None:
    """Only the builder is killed, not its compile worker, which completes the kernel."""
    with building(network) as (held, watch, builder):
        other = waits(network, watch)
        os.kill(builder.running.leader, signal.SIGKILL)
        held.gate.release()
        try:
            wait_until(lambda: any(each.is_valid for each in network.kernels().values()))
        except NotDecidable:
            raise NotDecidable("who compiles for a builder ended with it") from None
        run = waited(watch, other)
        watch.wait(builder, 0.0)
    right(run, "who waited")


@rule("robust/interrupted-compile")
def test_a_killed_compile_worker_is_noticed(network: NetworkUnderTest) -> None:
    """Only the compile worker of a build is killed, as the kernel does when memory runs out."""
    with building(network) as (held, watch, builder):
        os.kill(held.worker, signal.SIGKILL)
        for _ in range(_ATTEMPTS):  # a retry is held at the gate again
            held.gate.release()
        waited(watch, builder)
    recovers(network, ONE, "after the compile worker was killed")
