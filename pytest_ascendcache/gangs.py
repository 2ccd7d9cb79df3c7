"""Gangs as pytest sees them: how many ranks a test has, and what each rank tells the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.fixtures import RENDEZVOUS
from pytest_ascendcache.ranks.gang import PASSED, SKIPPED
from pytest_ascendcache.ranks.rank import GangAborted, Rank, join_gang
from pytest_ascendcache.settings import DEFAULT_RANKS

if TYPE_CHECKING:
    from pytest_ascendcache.ranks import Rendezvous


@dataclass(frozen=True)
class Place:
    """Which rank of the item this process is, and a directory for the gang if there is one."""

    rank: int
    size: int
    directory: Path | None = None


PLACE: pytest.StashKey[Place] = pytest.StashKey()

_LEAVING = {"pass": PASSED, "not applicable": SKIPPED}
"""What a verdict is to the other ranks; any other one is a failure, and says which."""


def check_gangs(items: list[pytest.Item]) -> None:
    """Check the marks of collected tests.

    Raises:
        pytest.UsageError: for a size that is none, or a test that does not ask for its rank.
    """
    for item in items:
        gang_size(item)
        if "ascend_rank" not in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(
                f"{item.nodeid}: marked ascend_ranks, but it does not use the fixture "
                "ascend_rank; add it to the test's arguments."
            )


def gang_size(item: pytest.Item) -> int:
    """How many ranks run the test.

    Raises:
        pytest.UsageError: where its mark gives no number of ranks.
    """
    marker = item.get_closest_marker("ascend_ranks")
    if marker is not None and marker.args:
        size = marker.args[0]
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise pytest.UsageError(
                f"{item.nodeid}: ascend_ranks({size!r}) is no number of ranks; give 1 or more, "
                "or nothing for --ascend-ranks."
            )
        return size
    given: int | None = item.config.getoption("--ascend-ranks")
    return DEFAULT_RANKS if given is None else given


def run_gang_item(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """See ``pytest_runtest_protocol``: run the item's ranks as processes."""
    from pytest_ascendcache.gangrun import GangItem

    assert isinstance(item, pytest.Function)
    GangItem(item, gang_size(item)).run(nextitem)
    return True


def rank_of(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[Rank]:
    """The fixture ``ascend_rank``: meet the other ranks, then be one of them for the test."""
    item = request.node
    place = item.stash[PLACE]
    offer = place.directory or factory.mktemp(f"gang-{slug(item.name)}")
    rank = join_gang(item.stash[RENDEZVOUS], place.rank, place.size, offer)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in rank.environment.items():
            patch.setenv(name, value)
        yield rank


def tell_the_others(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> None:
    """Leave the gang once it is known how this rank ended, so that nobody waits for it.

    The report says which rank it is of: that is how the ranks' reports become one again.
    """
    place = item.stash[PLACE]
    aborted = call.excinfo is not None and isinstance(call.excinfo.value, GangAborted)
    report.ascend_rank = {"rank": place.rank, "size": place.size, "aborted": aborted}  # type: ignore[attr-defined]
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    rendezvous: Rendezvous = item.stash[RENDEZVOUS]
    verdict = getattr(report, "ascend_verdict", None)
    outcome = _LEAVING.get(verdict, verdict) if verdict else report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "failed"
    rendezvous.leave(outcome, _reason(call, report))


def _reason(call: pytest.CallInfo[None], report: pytest.TestReport) -> str:
    """The first line of why a rank did not pass."""
    if report.skipped and isinstance(report.longrepr, tuple):
        text = str(report.longrepr[2]).removeprefix("Skipped: ")
    elif call.excinfo is not None:
        text = str(call.excinfo.value).strip() or call.excinfo.typename
    else:
        return ""
    return text.splitlines()[0][:300] if text else ""


def slug(name: str) -> str:
    """A test's name as part of a path any toolchain takes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[:40].strip("-")
