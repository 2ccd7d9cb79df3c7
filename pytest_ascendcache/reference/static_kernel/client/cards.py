"""Synchronising the cards of a job: each sends its news and receives that of all, in turns.

Each card keeps a connection to rank 0 for the whole run, so a card that dies is noticed at once.
Rank 0 has no thread for that: it listens whenever it waits for something. Every wait is bounded.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from typing import NoReturn

from pytest_ascendcache.reference.meeting import (
    MeetingHub,
    MeetingLine,
    Message,
    connect,
    listen,
    poll,
)
from pytest_ascendcache.reference.static_kernel.client.errors import CardsError
from pytest_ascendcache.reference.static_kernel.client.world import LOCAL_WORLD_SIZE, World

MEETING = 180.0
"""Seconds that the cards wait for each other before they compile. Source: facts section 4.2."""

COMPILING = 1800.0
"""Seconds that they wait for the first card to compile and install."""

REPORTING = 60.0
"""Seconds that the others wait longer than rank 0, which tells them who is late."""

_GRACE = 5.0
"""Real seconds that the other cards may take to read what rank 0 says last."""


class Cards:
    """A card's connection to the other cards. This base class serves a job of a single card."""

    def exchange(self, news: Message, seconds: float) -> list[Message]:
        """Send this card's news, and wait for those of all. Returns them by rank.

        Raises ``CardsError`` naming a card that sends none within ``seconds``, or that has ended.
        """
        del seconds
        return [news]

    def wait(self, descriptor: int) -> None:
        """Wait until a descriptor is readable, and listen to the other cards meanwhile.

        Raises ``CardsError`` if the other cards cannot go on.
        """
        poll([descriptor], None)

    def fail(self, reason: str) -> None:
        """Tell the other cards that this one cannot go on, and leave them."""

    def close(self) -> None:
        """Leave the other cards when the work is done."""


class CardsPolicy:
    """Decides how cards meet, how long they wait, and which errors they report."""

    def open(self, world: World, local_size: str) -> Cards:
        """Connect to the other cards. ``local_size`` is this card's raw ``LOCAL_WORLD_SIZE``.

        Raises ``CardsError`` if the address cannot be used.
        """
        if not world.several:
            return Cards()
        hello = {"rank": world.rank, "size": world.size, "local": local_size}
        try:
            return (
                CardZero(self, world, hello) if world.rank == 0 else WaitingCard(self, world, hello)
            )
        except OSError as error:
            raise CardsError(
                f"the cards cannot meet at {world.host}:{world.port} (MASTER_ADDR, MASTER_PORT): "
                f"{(error.strerror or str(error)).lower()}; name an address of the first machine "
                "that is free."
            ) from None

    def agree(self, theirs: object, ours: object) -> bool:
        """Whether another card's setting is compatible with that of rank 0."""
        return theirs == ours

    def excuse(self, world: World, reason: str) -> None:
        """Tell rank 0, once it listens, why a card that does not know its rank is missing."""
        deadline = time.monotonic() + self.patience(world, MEETING)
        connection = connect(world.host, world.port, deadline)
        if connection is not None:
            line = MeetingLine(connection)
            line.send({"failed": reason})
            line.close()

    def patience(self, world: World, seconds: float) -> float:
        """The real length of a wait in seconds."""
        return seconds * world.second

    def lost(self, rank: int) -> CardsError:
        """The error for a card that has ended."""
        return CardsError(f"rank[{rank}] ended before all cards were done; see its output.")

    def late(self, ranks: list[int], seconds: float) -> CardsError:
        """The error for cards that did not arrive in time."""
        names = ", ".join(f"rank[{each}]" for each in ranks)
        return CardsError(f"waited {seconds:g} s for {names}; check why they did not arrive.")


class CardZero(Cards):
    """Rank 0, to which all other cards connect."""

    def __init__(self, policy: CardsPolicy, world: World, hello: Message) -> None:
        self._policy = policy
        self._world = world
        self._hello = hello
        self._hub = MeetingHub(listen(world.host, world.port, world.size))
        self._ranks: dict[int, int] = {}
        self._gone: set[int] = set()
        self._news: dict[int, Message] = {}
        self._excused = 0
        self._waited = False
        self._reason: str | None = None

    def exchange(self, news: Message, seconds: float) -> list[Message]:
        self._news[0] = news
        deadline = time.monotonic() + self._policy.patience(self._world, seconds)
        while missing := [each for each in range(self._world.size) if each not in self._news]:
            if self._gone.intersection(missing):
                self._give_up(self._policy.lost(min(self._gone.intersection(missing))))
            if not self._listen(deadline):
                self._waited = True
                self._give_up(self._policy.late(missing, seconds))
        everybody = [self._news[each] for each in range(self._world.size)]
        self._news.clear()
        for descriptor, line in self._hub.lines.items():
            if descriptor in self._ranks:  # not a second process of a rank, not heard yet
                line.send({"go": everybody})
        return everybody

    def wait(self, descriptor: int) -> None:
        while not self._listen(None, descriptor):
            pass

    def fail(self, reason: str) -> None:
        """Tell all other cards, including those that connect only now."""
        if self._waited:
            self._hub.close(_GRACE)  # the wait is over, so no other card will connect
            return
        self._reason = self._reason or reason
        if self._expected:
            print(f"[ERROR] {reason} Cards that connect later will be told.", flush=True)
        informed: set[MeetingLine] = (
            set()
        )  # not descriptors, because a new connection may reuse one
        deadline = time.monotonic() + self._policy.patience(self._world, MEETING)
        listening = True
        while listening:
            for line in self._hub.lines.values():
                if line not in informed:
                    line.send({"failed": self._reason})
                    informed.add(line)
            if not self._expected:
                break
            try:
                listening = self._listen(deadline)
            except CardsError:
                continue  # this card is sent the first reason too
        if not listening:
            print(f"[ERROR] {self._policy.late(self._absent, MEETING)}", flush=True)
        self._hub.close(_GRACE)

    def close(self) -> None:
        self._hub.close()

    @property
    def _absent(self) -> list[int]:
        """The ranks that have neither connected nor ended. Cards that did not know their rank and
        excused themselves are still among them."""
        known = self._gone | set(self._ranks.values())
        return [rank for rank in range(1, self._world.size) if rank not in known]

    @property
    def _expected(self) -> bool:
        """Whether other cards may still connect."""
        return len(self._absent) > self._excused

    def _give_up(self, error: CardsError) -> NoReturn:
        if self._reason is None:
            # Later errors, such as cards that leave, only follow from the first one.
            self._reason = str(error)
            self._hub.tell({"failed": self._reason})
        raise error

    def _listen(self, deadline: float | None, descriptor: int = -1) -> bool:
        """Handle the next messages. Returns whether ``descriptor`` is readable; without one,
        whether anything arrived before ``deadline``."""
        more = (descriptor,) if descriptor >= 0 else ()
        ready = self._hub.ready(deadline, *more)
        for each in ready:
            if each in self._hub.lines:
                self._hear(each)
        return descriptor in ready if descriptor >= 0 else bool(ready)

    def _hear(self, descriptor: int) -> None:
        messages = self._hub.lines[descriptor].receive()
        for message in messages or ():
            self._take(descriptor, message)
        if messages is None:
            self._hub.lines.pop(descriptor).close()
            rank = self._ranks.pop(descriptor, None)
            if rank is not None:
                self._gone.add(rank)
                if rank not in self._news:
                    self._give_up(self._policy.lost(rank))

    def _take(self, descriptor: int, message: Message) -> None:
        if "rank" in message:
            self._greet(descriptor, message)
        elif descriptor not in self._ranks and "failed" in message:
            self._excused += 1
            self._give_up(CardsError(str(message["failed"])))
        elif descriptor in self._ranks:
            rank = self._ranks[descriptor]
            if "failed" in message:
                self._gone.add(rank)
                self._give_up(CardsError(str(message["failed"])))
            if "bye" in message:
                del self._ranks[descriptor]
                self._gone.add(rank)
            if "news" in message:
                self._news[rank] = message["news"]

    def _greet(self, descriptor: int, message: Message) -> None:
        rank = message["rank"]
        if rank not in range(1, self._world.size) or rank in self._ranks.values():
            self._give_up(CardsError(f"two cards have RANK {rank}; give each card its own."))
        self._ranks[descriptor] = rank
        for name, field in (("WORLD_SIZE", "size"), (LOCAL_WORLD_SIZE, "local")):
            theirs, ours = message.get(field), self._hello[field]
            if not self._policy.agree(theirs, ours):
                reason = f"{name} is {theirs!r} on rank[{rank}] and {ours!r} on rank[0]"
                self._give_up(CardsError(f"{reason}; set it alike on every card."))


class WaitingCard(Cards):
    """Every other card, which has one connection to rank 0."""

    def __init__(self, policy: CardsPolicy, world: World, hello: Message) -> None:
        self._policy = policy
        self._world = world
        self._line = MeetingLine(self._connect())
        self._line.send(hello)
        self._answers: list[Message] = []

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + self._policy.patience(self._world, MEETING)
        connection = connect(self._world.host, self._world.port, deadline)
        if connection is None:
            raise self._policy.late([0], MEETING)
        return connection

    def exchange(self, news: Message, seconds: float) -> list[Message]:
        self._line.send({"news": news})
        patience = self._policy.patience(self._world, seconds + REPORTING)
        deadline = time.monotonic() + patience
        while not self._answers:
            if not poll([self._line.connection.fileno()], deadline):
                raise self._policy.late([0], seconds)
            self._hear()
        everybody: list[Message] = self._answers.pop(0)["go"]
        return everybody

    def wait(self, descriptor: int) -> None:
        own = self._line.connection.fileno()
        while descriptor not in (ready := poll([own, descriptor], None)):
            if own in ready:
                self._hear()

    def _hear(self) -> None:
        messages = self._line.receive()
        for message in messages or ():
            if "failed" in message:
                raise CardsError(str(message["failed"]))
            if "go" in message:
                self._answers.append(message)
        if messages is None:
            raise self._policy.lost(0)

    def fail(self, reason: str) -> None:
        self._line.send({"failed": reason})
        self._line.close()

    def close(self) -> None:
        self._line.send({"bye": True})
        self._line.close()


class TurnPolicy:
    """Decides which card compiles, how long the others wait, and which operators are done.

    Source: facts ``static-kernel`` sections 2.2 and 4.2.
    """

    def compiles(self, world: World, node: Sequence[int]) -> bool:
        """Whether this card compiles and installs for its node."""
        return world.rank == node[0]

    def agreed(self, cards: Cards) -> None:
        """Wait until every card has checked that it can go on. Nothing is created before."""
        cards.exchange({}, MEETING)

    def folders(self, cards: Cards, node: Sequence[int], own: str) -> list[str]:
        """Announce the folder of this card's operators. Returns the folders of its node's cards."""
        everybody = cards.exchange({"folder": own}, MEETING)
        return [str(everybody[rank]["folder"]) for rank in node]

    def installed(self, cards: Cards) -> None:
        """Wait until every node's first card has compiled and installed."""
        cards.exchange({}, COMPILING)

    def reselected(self, cards: Cards) -> None:
        """Wait until every card has selected its kernels. No card may uninstall any before."""
        cards.exchange({}, MEETING)

    def starting(self, done: set[str], digests: Iterable[str]) -> None:
        """Called before these operators are compiled: none is done yet."""

    def finished(self, done: set[str], digests: Iterable[str]) -> None:
        """Called after these operators were compiled, installed and selected: they are done."""
        done.update(digests)
