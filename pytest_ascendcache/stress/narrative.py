"""Tells a history to people, one line for each step."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ascendcache.stress.history import (
    Compile,
    Disturbance,
    Doing,
    Header,
    JobEnd,
    RankDelivery,
    StressHarm,
    StressHistory,
    StressJob,
)


def tell(history: StressHistory) -> Iterator[str]:
    """The lines of a history."""
    for record in history.rounds:
        yield f"round {record.round.number}:"
        for disturbance in record.round.disturbances:
            yield f"  {_harm(disturbance)}"
        ends = {each.rank: each for each in record.deliveries}
        jobs = {each.job: each for each in record.ended}
        several = len(record.round.compiles) + len(record.round.jobs) > 1
        together = " at the same time" if several else ""
        for each in record.round.compiles:
            yield f"  {_compile(history.header, each, ends.get(each.rank))}{together}"
        for number, job in enumerate(record.round.jobs):
            yield f"  {_job(history.header, job, jobs.get(number))}{together}"
        if record.round.later is not None:
            yield f"  {_compile(history.header, record.round.later, None)}, by itself afterwards"
        if record.round.rebuild is not None:
            build = _job(history.header, record.round.rebuild, None)
            yield f"  {build}, twice, by itself afterwards"


def _harm(disturbance: Disturbance) -> str:
    what = {
        StressHarm.AGE: "entries of {0} were last used hours ago, and it is over its limit",
        StressHarm.DELETE: "valid entry {1} of {0} is deleted",
        StressHarm.CLEAR: "cache {0} is deleted",
        StressHarm.DAMAGE: "valid entry {1} of {0} is damaged: {2}",
    }[disturbance.harm]
    return what.format(disturbance.cache, disturbance.entry, disturbance.damage)


def _compile(header: Header, compile_: Compile, delivery: RankDelivery | None) -> str:
    names = ", ".join(header.operators[each] for each in compile_.operators)
    limit = ", smallest limits" if compile_.limited else ""
    return (
        f"{_rank(header, compile_.rank)}: {compile_.mode.value} {names} "
        f"({compile_.setting.value}{limit}) in {compile_.cache}{_end(delivery)}"
    )


def _job(header: Header, job: StressJob, ended: JobEnd | None) -> str:
    network = header.networks[job.number]
    what = {
        Doing.INSTALL: f"install the package of {network}",
        Doing.UNINSTALL: f"uninstall the package of {network}",
        Doing.RUN: f"run {network} with what is installed",
        Doing.BUILD: f"build {network} as rank {job.of}",
    }[job.doing]
    return f"{_rank(header, job.rank)}: {what}{_end(ended)}"


def _end(ending: RankDelivery | JobEnd | None) -> str:
    return f" -> {ending.struck or f'exit status {ending.returncode}'}" if ending else ""


def _rank(header: Header, rank: int) -> str:
    return f"rank {rank} on node {header.node(rank)}" if header.nodes > 1 else f"rank {rank}"
