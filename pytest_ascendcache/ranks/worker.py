"""Gangs in an xdist worker: finds the collected tests that are ranks, and announces them."""

from __future__ import annotations

import socket
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from execnet import Channel


RANK = "ascend_rank"
"""The fixture that makes a test a gang; in workers also its parameter: (rank, size)."""


def rank_in(item: pytest.Item) -> tuple[int, int] | None:
    """The rank that a collected test is and the size of its gang, or None for other tests."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    place: tuple[int, int] | None = params.get(RANK)
    return place


def rank_id(rank: int, size: int) -> str:
    """The part of a rank's node id that names the rank."""
    return f"rank{rank}of{size}"


def gang_name(item: pytest.Item) -> str:
    """The node id that the test has without workers, where all ranks are one test."""
    place = rank_in(item)
    assert place is not None
    own = rank_id(*place)
    name = item.nodeid
    for written, without in ((f"[{own}]", ""), (f"-{own}]", "]"), (f"[{own}-", "[")):
        if written in name:
            return name.replace(written, without)
    return name.replace(f"-{own}-", "-")


class GangWorker:
    """A pytest plugin for workers. It selects all ranks of a gang or none.

    ``problems`` make the run a usage error, before any test runs.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._gangs: dict[str, dict[int, pytest.Item]] = {}
        self.problems: list[str] = []

    # Innermost, before --lf leaves out tests that have passed.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Record all ranks, selected or not."""
        report = yield
        for node in report.result or ():
            if isinstance(node, pytest.Item) and (place := rank_in(node)) is not None:
                self._gangs.setdefault(gang_name(node), {})[place[0]] = node
        return report

    # After all plugins have deselected, and just before xdist informs the controller.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Restore the ranks of gangs that were selected in part, and announce all gangs."""
        selected: dict[str, list[pytest.Item]] = {}
        selection: list[pytest.Item] = []
        for item in session.items:
            if rank_in(item) is None:
                selection.append(item)
                continue
            name = gang_name(item)
            if name not in selected:
                ranks = self._gangs[name]
                selected[name] = [ranks[rank] for rank in sorted(ranks)]
                selection += selected[name]
        session.items[:] = selection
        gangs = {name: [each.nodeid for each in ranks] for name, ranks in selected.items()}
        if gangs or self.problems:
            # On the connection of the collection, which therefore arrives after this. Messages name
            # a worker behind ssh or a socket by its host.
            self._channel.send(("gangs", gangs, self.problems, socket.gethostname()))
