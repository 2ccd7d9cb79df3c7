"""The part of gangs that is in an xdist worker: says which of its tests are ranks of which gang."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_ascendcache.ranks.channels import Channel, announce

RANK = "ascend_rank"
"""The fixture, and with workers the parameter, that makes a test a rank: (rank, size)."""


def rank_in(item: pytest.Item) -> tuple[int, int] | None:
    """Which rank of how many a collected test is."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    place: tuple[int, int] | None = params.get(RANK)
    return place


def rank_id(rank: int, size: int) -> str:
    """The part of a test's name that says which rank it is."""
    return f"rank{rank}of{size}"


def gang_name(item: pytest.Item) -> str:
    """The node id the test has without workers, where all its ranks are one test."""
    place = rank_in(item)
    assert place is not None
    own = rank_id(*place)
    name = item.nodeid
    for written, without in ((f"[{own}]", ""), (f"-{own}]", "]"), (f"[{own}-", "[")):
        if written in name:
            return name.replace(written, without)
    return name.replace(f"-{own}-", "-")


class GangWorker:
    """A plugin of a worker. A gang is selected as a whole, or not at all."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._gangs: dict[str, dict[int, pytest.Item]] = {}
        self.problems: list[str] = []

    # Innermost, so that nothing was left out yet: --lf leaves out what passed here.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Note every rank there is."""
        report = yield
        for node in report.result or ():
            if isinstance(node, pytest.Item) and (place := rank_in(node)) is not None:
                self._gangs.setdefault(gang_name(node), {})[place[0]] = node
        return report

    # When everybody has deselected, and just before xdist tells the controller.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Bring back the ranks of gangs that were selected in part; announce all gangs."""
        selected: dict[str, list[pytest.Item]] = {}
        whole: list[pytest.Item] = []
        for item in session.items:
            if rank_in(item) is None:
                whole.append(item)
                continue
            name = gang_name(item)
            if name not in selected:
                ranks = self._gangs[name]
                selected[name] = [ranks[rank] for rank in sorted(ranks)]
                whole += selected[name]
        session.items[:] = whole
        gangs = {name: [each.nodeid for each in ranks] for name, ranks in selected.items()}
        if gangs or self.problems:
            announce(self._channel, gangs, self.problems)
