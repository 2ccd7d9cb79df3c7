"""Gangs as pytest sees them: the number of ranks of a test, and what each tells the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.plugin.gangs import PLACE, PlaceInGang, gang_directory
from pytest_ascendcache.plugin.options.table import DEFAULT_RANKS
from pytest_ascendcache.plugin.stash import GANG, RENDEZVOUS, settings_of
from pytest_ascendcache.ranks.channels import ChannelRendezvous, channel_of
from pytest_ascendcache.ranks.gang import PASSED, SKIPPED
from pytest_ascendcache.ranks.rank import GangAborted, Rank, join_gang
from pytest_ascendcache.ranks.worker import RANK, gang_name, rank_id, rank_in

if TYPE_CHECKING:
    from pytest_ascendcache.ranks import Rendezvous


CONTROLLER = "ascendcache-gangs"
_WORKER = "ascendcache-gang-worker"
"""Names of the plugins for gangs on xdist workers."""

_TIMES_TIMEOUT = 2
"""A gang's deadline in units of ``--ascend-timeout``; the toolchain's own must come first."""

_LEAVING = {"pass": PASSED, "not applicable": SKIPPED}
"""What a rank's verdict means to the other ranks. Any other verdict is a failure, by its name."""


def join_workers(config: pytest.Config) -> None:
    """Register the controller or a worker of gangs, in an xdist run."""
    channel = channel_of(config)
    if channel is not None:
        from pytest_ascendcache.ranks.worker import GangWorker

        config.pluginmanager.register(GangWorker(channel), _WORKER)
        return
    from pytest_ascendcache.plugin.spreading import spread
    from pytest_ascendcache.ranks.controller import GangController, is_controller

    if is_controller(config):
        suite = settings_of(config).judges
        controller = GangController(config, gang_seconds(config), suite, partial(spread, config))
        config.pluginmanager.register(controller, CONTROLLER)


def gang_seconds(config: pytest.Config) -> float:
    """How long the ranks of a gang may take."""
    return _TIMES_TIMEOUT * settings_of(config).timeout


def _refuse(config: pytest.Config, problem: str) -> None:
    """Raise a usage error; a worker has the controller raise it, before any test runs."""
    worker = config.pluginmanager.getplugin(_WORKER)
    if worker is None:
        raise pytest.UsageError(problem)
    worker.problems.append(problem)


def parametrize_ranks(metafunc: pytest.Metafunc) -> None:
    """On xdist workers, make every rank a test of its own."""
    config = metafunc.config
    if channel_of(config) is None:
        return
    workers: int = config.workerinput["workercount"]  # type: ignore[attr-defined]
    size, is_fixed = gang_size(metafunc.definition)
    if not is_fixed:
        size = min(size, workers)
    places = [(rank, size) for rank in range(size)]
    metafunc.parametrize(RANK, places, indirect=True, ids=[rank_id(*place) for place in places])


def check_gangs(items: list[pytest.Item]) -> None:
    """Check the selected tests that are marked ``ascend_ranks``.

    Raises ``pytest.UsageError`` for a mark without a valid size, a test that does not use its rank,
    or a gang of more ranks than there are workers.
    """
    told: set[str] = set()
    for item in items:
        place, (size, _) = rank_in(item), gang_size(item)
        size = size if place is None else place[1]  # on workers a gang may be smaller
        workers = getattr(item.config, "workerinput", {}).get("workercount", size)
        name = item.nodeid if place is None else gang_name(item)
        if channel_of(item.config) is not None and size > workers and name not in told:
            told.add(name)
            _refuse(
                item.config,
                f"{name}: a gang of {size} ranks needs {size} workers, but there are {workers}; "
                f"give -n {size}, or a smaller --ascend-ranks.",
            )
        if RANK not in getattr(item, "fixturenames", ()):
            _refuse(
                item.config,
                f"{item.nodeid}: marked ascend_ranks, but it does not use the fixture "
                "ascend_rank; add it to the test's arguments.",
            )


def gang_size(item: pytest.Item) -> tuple[int, bool]:
    """The number of ranks of a test, and whether the mark or an option fixes it. Raises
    ``pytest.UsageError`` for a mark with something else."""
    marker = item.get_closest_marker("ascend_ranks")
    if marker is not None and marker.args:
        size = marker.args[0]
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            _refuse(
                item.config,
                f"{item.nodeid}: ascend_ranks({size!r}) is not a number of ranks; give 1 or "
                "more, or nothing to use --ascend-ranks.",
            )
            return 1, True
        return size, True
    ranks = settings_of(item.config).ranks
    return (DEFAULT_RANKS, False) if ranks is None else (ranks, True)


def run_gang_item(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run all ranks of the item; on a worker, only prepare the rank that the item is. Returns what
    ``pytest_runtest_protocol`` returns."""
    channel = channel_of(item.config)
    if channel is not None:
        place = rank_in(item)
        assert place is not None
        item.stash[PLACE] = PlaceInGang(*place)
        item.stash[GANG] = gang_name(item)
        item.stash[RENDEZVOUS] = ChannelRendezvous(channel, gang_name(item), place[0])
        return None
    from pytest_ascendcache.plugin.gangs.run import GangItem

    assert isinstance(item, pytest.Function)
    GangItem(item, gang_size(item)[0], gang_seconds(item.config)).run(nextitem)
    return True


def rank_of(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[Rank]:
    """The fixture ``ascend_rank``: waits for the other ranks, then yields this one."""
    item = request.node
    place = item.stash[PLACE]
    offer = place.directory or gang_directory(item, factory)
    rank = join_gang(item.stash[RENDEZVOUS], place.rank, place.size, offer)
    if item.get_closest_marker("ascend_rule"):
        note = partial(request.getfixturevalue("ascend_evidence").happened, str(rank.rank))
        note("start")
        rank = replace(rank, note=note)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in rank.environment.items():
            patch.setenv(name, value)
        yield rank


def leave_gang(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Leave the gang as soon as this rank's outcome is known, so that no rank waits for it, and
    name the rank in the report, for the collector."""
    place = item.stash[PLACE]
    aborted = call.excinfo is not None and isinstance(call.excinfo.value, GangAborted)
    report.ascend_rank = {  # type: ignore[attr-defined]
        "gang": item.stash.get(GANG, item.nodeid),
        "rank": place.rank,
        "size": place.size,
        "aborted": aborted,
    }
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    rendezvous: Rendezvous = item.stash[RENDEZVOUS]
    verdict = getattr(report, "ascend_verdict", None)
    outcome = _LEAVING.get(verdict, verdict) if verdict else report.outcome
    if verdict is None and hasattr(report, "wasxfail"):
        outcome = "failed"
    rendezvous.leave(outcome, _reason(call, report))


def _reason(call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    """The first line of the reason why a rank did not pass."""
    if report.skipped and isinstance(report.longrepr, tuple):
        text = str(report.longrepr[2]).removeprefix("Skipped: ")
    elif call.excinfo is not None:
        text = str(call.excinfo.value).strip() or call.excinfo.typename
    else:
        return ""
    return text.splitlines()[0][:300] if text else ""
