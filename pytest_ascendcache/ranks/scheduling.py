"""An xdist scheduler that runs a gang's ranks on distinct workers at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from pytest_ascendcache.ranks.hub import Hub


Spread = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""Splits node ids into portions for one worker each, in order: lists of indexes of node ids."""


class GangScheduling(LoadScheduling):  # type: ignore[misc] # xdist has no types
    """Schedules gangs first, in the same order on every worker, then ordinary tests by load.

    With the same order everywhere, the first unfinished gang is at the head of all its workers'
    queues, so no two gangs can wait for each other. Ordinary tests are given out one portion at a
    time, unless ``--maxschedchunk`` sets a number.

    A worker that dies loses the test that it was running. The ranks queued behind that test
    (``_left``, one list per dead worker) wait for the replacement, so that they keep their order
    and a worker of their own. If there is no replacement, they are lost to their gangs.

    The ranks meet at ``hub``. The controller keeps ``gangs``, the node ids of each gang's ranks in
    the order of ranks, and ``starting``, the workers that have not finished collection, up to date.
    """

    collection: list[str] | None
    pending: list[int]
    node2collection: dict[WorkerController, list[str]]
    node2pending: dict[WorkerController, list[int]]
    maxschedchunk: int | None

    def __init__(
        self,
        config: pytest.Config,
        log: Producer,
        hub: Hub,
        gangs: Mapping[str, Sequence[str]],
        starting: Set[str],
        spread: Spread,
    ) -> None:
        super().__init__(config, log)
        self._hub = hub
        self._gangs = gangs
        self._starting = starting
        self._spread = spread
        self._portion: dict[int, int] = {}
        self._ranks: dict[int, tuple[str, int]] = {}
        self._left: list[list[int]] = []

    @property
    def tests_finished(self) -> bool:
        """Whether no test is left. xdist asks after every event, so this is also the only way to
        notice that it will not replace a dead worker."""
        if self._left:
            if self._starting:
                return False
            for index in [index for left in self._left for index in left]:
                name, rank = self._ranks[index]
                self._hub.lose(name, rank, "was not run: its worker died before")
            self._left.clear()
        finished: bool = super().tests_finished
        return finished

    def schedule(self) -> None:
        """Distribute the tests, or give a replacement the ranks of the dead worker."""
        if self.collection is not None:
            self._hand_over()
            super().schedule()
            return
        if not self._check_nodes_have_same_collection():
            super().schedule()
            return
        self.collection = list(next(iter(self.node2collection.values())))
        if self.maxschedchunk is None:
            self.maxschedchunk = 1
        self._place_gangs()
        for number, portion in enumerate(self._spread(self.collection)):
            for index in portion:
                self._portion[index] = number
        self.pending[:] = [index for index in self._portion if index not in self._ranks]
        for node in self.nodes:
            if self.node2pending[node]:
                node.send_runtest_some(list(self.node2pending[node]))
        # A worker starts a test only when it knows the next one: each needs a second test, or to
        # be told that there is none.
        for node in self.nodes:
            self.check_schedule(node)
        if not self.pending:
            for node in self.nodes:
                node.shutdown()

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        """Give a worker more tests, but not while it is still collecting: it may have to take over
        a dead worker's ranks first."""
        if node in self.node2collection:
            super().check_schedule(node, duration)

    def _send_tests(self, node: WorkerController, num: int) -> None:
        """Send at least ``num`` tests, without dividing the last portion."""
        while num < len(self.pending) and self._portion.get(
            self.pending[num - 1]
        ) == self._portion.get(self.pending[num]):
            num += 1
        super()._send_tests(node, num)

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a dead worker, and keep its ranks together for the replacement."""
        pending = self.node2pending[node]
        if pending and pending[0] in self._ranks:
            name, rank = self._ranks[pending[0]]
            worker = self._hub.named(node.gateway.id)
            self._hub.lose(name, rank, f"was lost: its worker {worker} died")
        left = [index for index in pending[1:] if index in self._ranks]
        if left:
            for index in left:
                self._hub.move(*self._ranks[index], None)
                pending.remove(index)
            self._left.append(left)
        crashed: str | None = super().remove_node(node)
        return crashed

    def _place_gangs(self) -> None:
        """Place each gang on the workers that have the fewest ranks so far."""
        assert self.collection is not None
        indices = {each: index for index, each in enumerate(self.collection)}
        for name, ids in self._gangs.items():
            nodes = sorted(
                self.nodes, key=lambda node: (len(self.node2pending[node]), _place(node))
            )
            del nodes[len(ids) :]
            if len(nodes) < len(ids):
                continue  # workers have died: the hub aborts its ranks, which run like other tests
            # In the order of --tx, so that the ranks of a host are consecutive.
            nodes.sort(key=_place)
            for rank, (each, node) in enumerate(zip(ids, nodes, strict=True)):
                self.node2pending[node].append(indices[each])
                self._ranks[indices[each]] = (name, rank)
            self._hub.place(name, [node.gateway.id for node in nodes])

    def _hand_over(self) -> None:
        """Give a dead worker's ranks to its replacement."""
        for node in self.nodes:
            is_new = node in self.node2collection and not self.node2pending[node]
            if self._left and is_new and not node.shutting_down:
                left = self._left.pop(0)
                self.node2pending[node].extend(left)
                # The hub must know the worker before the worker enters a rendezvous.
                for index in left:
                    self._hub.move(*self._ranks[index], node.gateway.id)
                node.send_runtest_some(left)


def _place(node: WorkerController) -> tuple[int, str]:
    """Sorts workers in the order of ``--tx``: gw2 before gw10."""
    name = str(node.gateway.id)
    return len(name), name
