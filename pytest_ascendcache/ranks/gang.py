"""The state of a running gang: which ranks wait, which have left, why it was aborted.

Pure logic without I/O. The keeper of local ranks and the hub in the xdist controller drive it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

PASSED = "passed"
SKIPPED = "skipped"
"""Outcomes of a rank that are not failures. Any other outcome names a failure."""

ENDING = "ending: "
"""Begins the payload of a rank whose test has passed and that asks how the others fared."""


@dataclass(frozen=True)
class Reply:
    """The answer to a waiting rank: the payloads of all ranks, or why the gang was aborted.

    ``cause`` is the outcome of the rank that aborted the gang, or empty if that rank was lost.
    """

    rank: int
    payloads: tuple[str, ...] | None = None
    why: str = ""
    cause: str = ""


@dataclass
class Gang:
    """Ranks 0 to ``size - 1`` of one test.

    Each method takes an event and returns the replies that are due. A rank *enters* every
    rendezvous and finally *leaves* with its outcome. It is *lost* if it can do neither.
    """

    name: str
    size: int
    aborted: Reply | None = None
    waiting: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    @property
    def finished(self) -> bool:
        """Whether every rank has left or was lost."""
        return len(self.gone) == self.size

    @property
    def absent(self) -> list[int]:
        """The ranks that the others wait for: they neither wait nor have left."""
        return [
            rank for rank in range(self.size) if rank not in self.waiting and rank not in self.gone
        ]

    def enter(self, rank: int, payload: str) -> list[Reply]:
        """A rank has reached a rendezvous, or the end of its test (``ENDING``)."""
        self.waiting[rank] = payload
        ended = [each for each, sent in self.waiting.items() if sent.startswith(ENDING)]
        if 0 < len(ended) < len(self.waiting):
            self._abort(f"rank {ended[0]} ended without coming to this rendezvous", "")
        if self.aborted is None and len(self.waiting) == self.size:
            payloads = tuple(self.waiting[each] for each in range(self.size))
            self.waiting.clear()
            return [Reply(each, payloads) for each in range(self.size)]
        return self._answers()

    def leave(self, rank: int, outcome: str, message: str = "") -> list[Reply]:
        """A rank has ended with ``outcome``. Ranks that wait for it are aborted."""
        if rank in self.gone:
            return []
        self._forget(rank)
        if outcome == PASSED:
            self._abort(f"rank {rank} ended without coming to this rendezvous", "")
        elif outcome == SKIPPED:
            self._abort(f"rank {rank} skipped: {message}", SKIPPED)
        else:
            self._abort(f"rank {rank} failed: {message}", outcome)
        return self._answers()

    def lose(self, ranks: Iterable[int], why: str) -> list[Reply]:
        """Ranks were killed or are out of reach. ``why`` continues a sentence about them."""
        lost = [rank for rank in ranks if rank not in self.gone]
        for rank in lost:
            self._forget(rank)
        if lost:
            numbers = ", ".join(map(str, sorted(lost)))
            self._abort(f"rank{'s' if len(lost) > 1 else ''} {numbers} {why}", "", replace=True)
        return self._answers()

    def _forget(self, rank: int) -> None:
        self.gone.add(rank)
        self.waiting.pop(rank, None)

    def _abort(self, why: str, cause: str, replace: bool = False) -> None:
        """Keep the first reason, unless that is merely a rank that ended and now one is lost."""
        if self.aborted is None or (replace and not self.aborted.cause):
            self.aborted = Reply(-1, why=f"gang {self.name} aborted: {why}", cause=cause)

    def _answers(self) -> list[Reply]:
        if self.aborted is None:
            return []
        answers = [
            Reply(rank, why=self.aborted.why, cause=self.aborted.cause) for rank in self.waiting
        ]
        self.waiting.clear()
        return answers
