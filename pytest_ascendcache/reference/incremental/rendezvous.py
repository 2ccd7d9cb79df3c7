"""The meeting of a gang's ranks: no rank runs the network before all ranks have their kernels.

Rank 0 listens at the gang's address. Each other rank connects once its kernels are ready, and
sends its rank. Every message is a JSON object on one line. Rank 0 answers each arrival with the
ranks that are still missing, and finally sends ``go``, or the reason why the gang fails, so that
all ranks end and all name the same ranks. Each rank waits ``HCCL_CONNECT_TIMEOUT`` seconds from
its own arrival.

Source: document M, last questions; facts ``mindspore-incremental`` section 1.8 (error EI0006).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable
from typing import Protocol

from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.surroundings import GangSettings, invalid_variable
from pytest_ascendcache.reference.meeting import (
    MeetingHub,
    MeetingLine,
    Message,
    connect,
    listen,
    poll,
)


def gang_failed(reason: str) -> AtcError:
    """The error of a rank that ends because another has failed."""
    return AtcError("EI0014", f"The ranks cannot go on together. Reason: {reason.rstrip('.')}.")


def failure_message(error: AtcError) -> Message:
    return {"code": error.code, "failed": error.args[0]}


class Meeting(Protocol):
    """One rank's part in the meeting. A rank that fails before or in it calls :meth:`abandon`."""

    def meet(self) -> None:
        """Wait until every rank has arrived.

        Raises ``AtcError`` (EI0006) naming the ranks that do not arrive in time, (EI0001) if two
        processes have the same rank, or (EI0014) if a rank failed or died.
        """

    def abandon(self, reason: str) -> None:
        """Tell the others that this rank has failed, as far as they can be reached in time."""


class RendezvousPolicy:
    """Decides how ranks meet, how long they wait, and which errors they report."""

    def open(self, gang: GangSettings) -> Meeting:
        """Create this rank's part. Rank 0 of a gang starts to listen right away."""
        if not gang.several:
            return Alone()
        if gang.rank != 0:
            return Guest(self, gang)
        try:
            return Host(self, gang, listen(gang.host, gang.port, gang.size or 1))
        except OSError as error:
            raise AtcError(
                "EI0020",
                "Failed to enable listening for the host network adapter socket. Reason: address "
                f"[{gang.host}:{gang.port}] (MS_SCHED_HOST, MS_SCHED_PORT): "
                f"{(error.strerror or str(error)).lower()}; name an address of this host that is "
                "free.",
            ) from None

    def patience(self, gang: GangSettings) -> float:
        """Real seconds that a rank waits from its arrival."""
        return gang.timeout * gang.second

    def too_late(self, gang: GangSettings, missing: Iterable[int]) -> AtcError:
        """The error for ranks that did not arrive in time."""
        names = ", ".join(f"rank[{each}]" for each in sorted(missing))
        return AtcError(
            "EI0006",
            "Getting socket times out. Reason: Remote Rank did not send the data in time: "
            f"waited [{gang.timeout} s] for {names}. Check why they do not come; where they still "
            "compile, raise HCCL_CONNECT_TIMEOUT (seconds).",
        )


class Alone:
    """The meeting of a single card, which waits for nobody."""

    def meet(self) -> None:
        """See :class:`Meeting`."""

    def abandon(self, reason: str) -> None:
        """See :class:`Meeting`."""


class Host:
    """Rank 0's part: it hears from all ranks, and sends ``go`` or the reason of the failure."""

    def __init__(
        self, policy: RendezvousPolicy, gang: GangSettings, listening: socket.socket
    ) -> None:
        self._policy = policy
        self._gang = gang
        self._hub = MeetingHub(listening)
        self._ranks: dict[int, int] = {}
        self._gone: set[int] = set()
        self._failed: Message | None = None
        self._deadline: float | None = None

    def meet(self) -> None:
        try:
            while self._missing:
                if not self._listen():
                    raise self._policy.too_late(self._gang, self._missing)
        except AtcError as error:
            self._failed = failure_message(error)
            self._hub.tell(self._failed)
            raise
        self._start()
        self._hub.close()

    def _start(self) -> None:
        """Send ``go`` to every rank. Who connected and was not heard yet is none of them: the
        second process of a rank, or a stranger."""
        too_late = failure_message(gang_failed("all ranks had met before this process was heard"))
        for descriptor, line in self._hub.lines.items():
            line.send({"go": True} if descriptor in self._ranks else too_late)

    def abandon(self, reason: str) -> None:
        # Ranks that arrive only now are sent the error that ended the meeting.
        answer = self._failed or failure_message(
            gang_failed(f"rank[{self._gang.rank}] failed: {reason}")
        )
        told: set[MeetingLine] = set()
        listening = True
        while self._missing and listening:
            with contextlib.suppress(AtcError):
                listening = self._listen()
            for line in set(self._hub.lines.values()) - told:
                line.send(answer)
                told.add(line)
        self._hub.close()

    @property
    def _missing(self) -> frozenset[int]:
        return self._gang.others - self._gone - frozenset(self._ranks.values())

    def _listen(self) -> bool:
        """Handle the next messages. Returns False if none came before the deadline."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._policy.patience(self._gang)
        ready = self._hub.ready(self._deadline)
        for descriptor in ready:
            if descriptor in self._hub.lines:
                self._hear(descriptor)
        return bool(ready)

    def _hear(self, descriptor: int) -> None:
        messages = self._hub.lines[descriptor].receive()
        if messages is None:
            self._hub.lines.pop(descriptor).close()
            # A later connection may get the same descriptor number.
            rank = self._ranks.pop(descriptor, None)
            if rank is not None:
                self._gone.add(rank)
                raise gang_failed(f"rank[{rank}] ended before all ranks had met")
        for message in messages or ():
            self._arrive(descriptor, message)

    def _arrive(self, descriptor: int, message: Message) -> None:
        rank, size = message.get("rank"), message.get("size")
        if not isinstance(rank, int) or not isinstance(size, int):
            return  # not a rank of this toolchain
        if "failed" in message or size != self._gang.size:
            self._ranks[descriptor] = rank  # it gets the answer, and is not missing any more
        if "failed" in message:
            raise gang_failed(f"rank[{rank}] failed: {message['failed']}")
        if size != self._gang.size:
            raise gang_failed(
                f"RANK_SIZE of rank[{rank}] is {size}, that of rank[{self._gang.rank}] is "
                f"{self._gang.size}; set it alike"
            )
        if rank not in range(size):
            return  # not a rank of this toolchain: those check their numbers
        if "late" in message:
            # The rank that arrived first is the first to run out of time.
            raise self._policy.too_late(self._gang, self._missing)
        if rank not in self._missing:
            raise invalid_variable(
                "RANK_ID", rank, "two processes have it; give each one of its own"
            )
        self._ranks[descriptor] = rank
        self._hub.tell({"waiting": sorted(self._missing)})


class Guest:
    """Every other rank's part: it connects to rank 0 and waits for the answer."""

    def __init__(self, policy: RendezvousPolicy, gang: GangSettings) -> None:
        self._policy = policy
        self._gang = gang
        self._missing: frozenset[int] = frozenset({0})
        self._came = False

    def meet(self) -> None:
        self._come({})

    def abandon(self, reason: str) -> None:
        """See :class:`Meeting`. In the meeting, the lost connection already tells rank 0."""
        if not self._came:
            with contextlib.suppress(AtcError):
                self._come({"failed": reason})

    def _come(self, news: Message) -> None:
        self._came = True
        deadline = time.monotonic() + self._policy.patience(self._gang)
        line = MeetingLine(self._connect(deadline))
        try:
            line.send({"rank": self._gang.rank, "size": self._gang.size, **news})
            while not self._heard(line, deadline):
                pass
        finally:
            line.close()

    def _connect(self, deadline: float) -> socket.socket:
        try:
            connection = connect(self._gang.host, self._gang.port, deadline)
        except OSError as error:
            reason = f"it cannot be reached ({error.strerror or error})"
            raise invalid_variable("MS_SCHED_HOST", self._gang.host, reason) from None
        if connection is None:
            raise self._policy.too_late(self._gang, self._missing)
        return connection

    def _heard(self, line: MeetingLine, deadline: float) -> bool:
        if not poll([line.connection.fileno()], deadline):
            line.send({"rank": self._gang.rank, "size": self._gang.size, "late": True})
            raise self._policy.too_late(self._gang, self._missing)
        messages = line.receive()
        if messages is None:
            raise gang_failed("rank[0] ended before all ranks had met")
        for message in messages:
            if "failed" in message:
                raise AtcError(str(message.get("code")), str(message["failed"]))
            if "go" in message:
                return True
            self._missing = frozenset(message.get("waiting", ()))
        return False
