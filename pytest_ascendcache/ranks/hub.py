"""The rendezvous of gangs on xdist workers, in the controller."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.ranks.gang import Gang, Reply


@dataclass
class _Placed:
    """A gang, the worker of each rank (None until a replacement comes), and its deadline."""

    gang: Gang
    workers: dict[int, str | None]
    deadline: float | None = None


class Hub:
    """Knows the worker of every rank, and drives the gangs with the workers' messages.

    A gang's clock starts when it is the first unfinished gang on each of its workers: from then on
    only its own ranks can delay it. Ranks that have not come after ``seconds`` are lost, and
    ``kill`` is called for their workers, because a stopped worker sends nothing.

    Messages arrive in execnet's receiver threads, and a separate thread watches the deadlines.
    Nothing is sent while the lock is held, because a stopped worker may not be reading.
    """

    def __init__(self, seconds: float, kill: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._kill = kill
        self._placed: dict[str, _Placed] = {}
        self._unfinished: dict[str, _Placed] = {}
        self._send: dict[str, Callable[[object], None]] = {}
        self._hosts: dict[str, str] = {}
        self._change = threading.Condition()
        self._watchdog: threading.Thread | None = None
        self._closed = False

    def connect(self, worker: str, send: Callable[[object], None]) -> None:
        """Send replies for a worker's ranks through ``send``."""
        with self._change:
            self._send[worker] = send

    def find(self, worker: str, host: str) -> None:
        """Record that a worker is on another host."""
        with self._change:
            self._hosts[worker] = host

    def named(self, worker: str) -> str:
        """A worker's name for messages, with the host if that is another one."""
        host = self._hosts.get(worker)
        return worker if host is None else f"{worker} on {host}"

    def place(self, name: str, workers: Sequence[str]) -> None:
        """Add a gang, with the workers of its ranks. They run it after all gangs added before."""
        with self._change:
            placed = _Placed(Gang(name, len(workers)), dict(enumerate(workers)))
            self._placed[name] = self._unfinished[name] = placed
            self._start_clocks()
        if self._watchdog is None:
            self._watchdog = threading.Thread(
                target=self._watch, name="ascendcache-gangs", daemon=True
            )
            self._watchdog.start()

    def move(self, name: str, rank: int, worker: str | None) -> None:
        """Give a rank that has not begun to another worker, or to none for now."""
        with self._change:
            placed = self._placed[name]
            placed.workers[rank] = worker
            placed.deadline = None
            self._start_clocks()

    def heard(self, worker: str, message: Sequence[Any]) -> None:
        """Handle a message from a rank."""
        kind, name, rank, *rest = message
        with self._change:
            placed = self._placed.get(name)
            if placed is None:
                why = f"gang {name} aborted: fewer workers are left than it has ranks"
                letters: list[tuple[str, object]] = [(worker, (None, why, ""))]
            elif kind == "enter":
                letters = self._letters(name, placed.gang.enter(rank, rest[0]))
            else:
                letters = self._letters(name, placed.gang.leave(rank, rest[0], rest[1]))
                self._start_clocks()
        if placed is not None or kind == "enter":
            self._deliver(letters)

    def lose(self, name: str, rank: int, why: str) -> None:
        """A rank is lost. ``why`` continues a sentence that begins "rank 1"."""
        with self._change:
            letters = self._letters(name, self._placed[name].gang.lose([rank], why))
            self._start_clocks()
        self._deliver(letters)

    def lose_worker(self, worker: str, why: str) -> None:
        """All ranks that a worker has not finished are lost."""
        letters = []
        with self._change:
            for name, placed in self._placed.items():
                ranks = [rank for rank, where in placed.workers.items() if where == worker]
                letters += self._letters(name, placed.gang.lose(ranks, why))
            self._start_clocks()
        self._deliver(letters)

    def close(self) -> None:
        """End the watchdog."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        if self._watchdog is not None:
            self._watchdog.join()

    def _letters(self, name: str, replies: Iterable[Reply]) -> list[tuple[str, object]]:
        workers: Mapping[int, str | None] = self._placed[name].workers
        return [
            (worker, (reply.payloads and list(reply.payloads), reply.why, reply.cause))
            for reply in replies
            if (worker := workers[reply.rank]) is not None
        ]

    def _deliver(self, letters: Iterable[tuple[str, object]]) -> None:
        for worker, letter in letters:
            with contextlib.suppress(OSError):  # the worker died, which xdist reports
                self._send[worker](letter)

    def _start_clocks(self) -> None:
        """Start the clock of each gang whose workers have no earlier unfinished gang."""
        busy: set[str | None] = {None}
        for name, placed in list(self._unfinished.items()):
            if placed.gang.finished:
                del self._unfinished[name]
                continue
            here = {
                worker for rank, worker in placed.workers.items() if rank not in placed.gang.gone
            }
            if not (here & busy) and placed.deadline is None:
                placed.deadline = time.monotonic() + self._seconds
                self._change.notify_all()
            busy |= here

    def _watch(self) -> None:
        while True:
            with self._change:
                if self._closed:
                    return
                clocks = [
                    (placed.deadline, name)
                    for name, placed in self._unfinished.items()
                    if placed.deadline is not None
                ]
                deadline, name = min(clocks, default=(None, ""))
                patience = None if deadline is None else deadline - time.monotonic()
                if patience is None or patience > 0:
                    self._change.wait(patience)
                    continue
                letters, late = self._expire(name)
            self._deliver(letters)
            for worker in late:
                self._kill(worker)

    def _expire(self, name: str) -> tuple[list[tuple[str, object]], set[str]]:
        placed = self._placed[name]
        placed.deadline = None
        absent = placed.gang.absent
        late = {worker for rank in absent if (worker := placed.workers[rank]) is not None}
        where = f" (worker {', '.join(map(self.named, sorted(late)))})" if late else ""
        words = f"did not come within {self._seconds:g} s{where}"
        letters = self._letters(name, placed.gang.lose(absent, words))
        self._start_clocks()
        return letters, late
