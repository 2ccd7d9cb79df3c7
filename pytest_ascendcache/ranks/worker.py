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
        self.problems: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Bring back ranks whose gang was selected in part, as by ``--lf``."""
        before: dict[str, list[pytest.Item]] = {}
        for item in items:
            if rank_in(item) is not None:
                before.setdefault(gang_name(item), []).append(item)
        yield
        kept: dict[str, list[pytest.Item]] = {}
        whole: list[pytest.Item] = []
        for item in items:
            place = rank_in(item)
            if place is None:
                whole.append(item)
                continue
            name = gang_name(item)
            if name in kept:
                continue
            kept[name] = sorted(before[name], key=lambda each: rank_in(each) or (0, 0))
            whole += kept[name]
            if len(kept[name]) != place[1]:
                self.problems.append(
                    f"{item.nodeid} is one rank of a gang and cannot run alone; name {name} to "
                    f"run all {place[1]} ranks."
                )
        items[:] = whole
        gangs = {name: [each.nodeid for each in ranks] for name, ranks in kept.items()}
        if gangs or self.problems:
            announce(self._channel, gangs, self.problems)
