"""An xdist scheduler: ranks of a gang on distinct workers at the same time, other tests by cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from xdist.scheduler import LoadScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from pytest_ascendcache.ranks.hub import Hub


Spread = Callable[[Sequence[str]], Sequence[Sequence[int]]]
"""Node ids -> portions of positions in them, each for one worker, in the order to give them out."""


class Gangs(Protocol):
    """What the scheduler is told by the rest of the controller."""

    @property
    def gangs(self) -> Mapping[str, Sequence[str]]:
        """Node ids of each gang's ranks, in their order."""

    @property
    def hub(self) -> Hub:
        """Where the ranks meet."""

    @property
    def starting(self) -> set[str]:
        """Workers that were started and have collected nothing yet."""


class GangScheduling(LoadScheduling):  # type: ignore[misc] # xdist has no types
    """Gangs first, in the same order in every worker's queue; then ordinary tests, by load.

    The same order everywhere means that the first unfinished gang is at the head of all its
    workers' queues, so that no two gangs can wait for each other. Ordinary tests are given out a
    portion at a time, unless ``--maxschedchunk`` says how many.

    A worker that dies takes the test it was running with it. The ranks behind that one (``_left``,
    a list a dead worker) wait for the worker that replaces it, so that they stay on a worker of
    their own and in order; when there will be none, they are lost to their gangs at once.
    """

    collection: list[str] | None
    pending: list[int]
    node2collection: dict[WorkerController, list[str]]
    node2pending: dict[WorkerController, list[int]]
    maxschedchunk: int | None

    def __init__(
        self, config: pytest.Config, log: Producer, session: Gangs, spread: Spread
    ) -> None:
        super().__init__(config, log)
        self._session = session
        self._spread = spread
        self._portion: dict[int, int] = {}
        self._ranks: dict[int, tuple[str, int]] = {}
        self._left: list[list[int]] = []

    @property
    def tests_finished(self) -> bool:
        """See ``LoadScheduling``. xdist asks after every event, also when it will not replace a
        dead worker: there is no other way to know that."""
        if self._left:
            if self._session.starting:
                return False
            for index in [index for left in self._left for index in left]:
                name, rank = self._ranks[index]
                self._session.hub.lose(name, rank, "was not run: its worker died before")
            self._left.clear()
        finished: bool = super().tests_finished
        return finished

    def schedule(self) -> None:
        """Distribute the collection, or give a worker that came later what it can do."""
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
        # A worker begins a test only when it knows what comes next: every one needs a second
        # test, or to be told that there is none.
        for node in self.nodes:
            self.check_schedule(node)
        if not self.pending:
            for node in self.nodes:
                node.shutdown()

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        """See ``LoadScheduling``, which would give tests to a worker that is still collecting, or
        send it away: what dead workers left comes first."""
        if node in self.node2collection:
            super().check_schedule(node, duration)

    def _send_tests(self, node: WorkerController, num: int) -> None:
        """See ``LoadScheduling``; the last portion is not divided."""
        while num < len(self.pending) and self._portion.get(
            self.pending[num - 1]
        ) == self._portion.get(self.pending[num]):
            num += 1
        super()._send_tests(node, num)

    def remove_node(self, node: WorkerController) -> str | None:
        """See ``LoadScheduling``; ranks are kept together."""
        pending = self.node2pending[node]
        if pending and pending[0] in self._ranks:
            name, rank = self._ranks[pending[0]]
            hub = self._session.hub
            hub.lose(name, rank, f"was lost: its worker {hub.named(node.gateway.id)} died")
        left = [index for index in pending[1:] if index in self._ranks]
        if left:
            for index in left:
                self._session.hub.move(*self._ranks[index], None)
                pending.remove(index)
            self._left.append(left)
        crashed: str | None = super().remove_node(node)
        return crashed

    def _place_gangs(self) -> None:
        """Each gang on the workers that have fewest ranks so far."""
        assert self.collection is not None
        indices = {each: index for index, each in enumerate(self.collection)}
        for name, ids in self._session.gangs.items():
            nodes = sorted(
                self.nodes, key=lambda node: (len(self.node2pending[node]), _place(node))
            )
            del nodes[len(ids) :]
            if len(nodes) < len(ids):
                continue  # workers died before: its ranks run like other tests, and are told
            # As --tx names them, whichever came first: the ranks of a host follow each other.
            nodes.sort(key=_place)
            for rank, (each, node) in enumerate(zip(ids, nodes, strict=True)):
                self.node2pending[node].append(indices[each])
                self._ranks[indices[each]] = (name, rank)
            self._session.hub.place(name, [node.gateway.id for node in nodes])

    def _hand_over(self) -> None:
        """Give a dead worker's ranks to one that came in its place."""
        for node in self.nodes:
            is_new = node in self.node2collection and not self.node2pending[node]
            if self._left and is_new and not node.shutting_down:
                left = self._left.pop(0)
                self.node2pending[node].extend(left)
                # First the hub, which must know where to answer, then the worker, which asks.
                for index in left:
                    self._session.hub.move(*self._ranks[index], node.gateway.id)
                node.send_runtest_some(left)


def _place(node: WorkerController) -> tuple[int, str]:
    """Where a worker is among those of ``--tx``: gw2 is before gw10."""
    name = str(node.gateway.id)
    return len(name), name
