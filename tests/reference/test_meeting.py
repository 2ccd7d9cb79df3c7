"""Cards that connect to rank 0: which messages each of them receives.

The other cards are plain sockets. They send all their messages before rank 0 reads any of them, so
the order of events is the same in every run.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import closing

import pytest

from pytest_ascendcache.observation import meeting_place
from pytest_ascendcache.reference.incremental.rendezvous import RendezvousPolicy
from pytest_ascendcache.reference.incremental.surroundings import GangSettings
from pytest_ascendcache.reference.meeting import MeetingLine, connect, listen, poll
from pytest_ascendcache.reference.static_kernel.client import CardsError
from pytest_ascendcache.reference.static_kernel.client.cards import MEETING, CardsPolicy
from pytest_ascendcache.reference.static_kernel.client.world import World


def arrive(world, rank, *more):
    """Connect as a card. Send its rank and sizes, then ``more`` messages. Returns the socket."""
    card = socket.create_connection((world.host, world.port))
    hello = {"rank": rank, "size": world.size, "local": str(world.size)}
    for message in (hello, *more):
        card.sendall(json.dumps(message).encode() + b"\n")
    return card


def leave(card):
    """Shut down the card's sending side. The card can still receive."""
    card.shutdown(socket.SHUT_WR)
    return card


def heard(card):
    """Read all messages that a card receives until the connection closes."""
    with card, card.makefile() as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture
def world():
    with meeting_place(4) as place:
        yield World(size=4, port=place.port)


def test_every_card_hears_the_first_reason_whoever_leaves_meanwhile(world):
    """A card that leaves while another one connects does not become the reason of the failure."""
    host = CardsPolicy().open(world, "4")
    cards = [leave(arrive(world, rank)) for rank in (1, 2, 3)]
    host.fail("rank[0] failed: no network")
    messages = [heard(card) for card in cards]
    assert messages == [[{"failed": "rank[0] failed: no network"}]] * 3


def test_cards_that_come_late_hear_of_the_one_that_was_lost(world):
    host = CardsPolicy().open(world, "4")
    leave(arrive(world, 1)).close()
    early = leave(arrive(world, 2, {"news": {}}))
    with pytest.raises(CardsError, match=r"rank\[1\] ended before") as raised:
        host.exchange({}, MEETING)
    late = leave(arrive(world, 3))
    host.fail(str(raised.value))
    assert heard(late) == [{"failed": str(raised.value)}]
    assert {"failed": str(raised.value)} in heard(early)


@pytest.mark.parametrize("way", ["exchange", "fail"])
def test_a_card_that_was_killed_before_it_came_is_named(capsys, way):
    with meeting_place(3) as place:
        world = World(size=3, port=place.port, second=0.002)
        host = CardsPolicy().open(world, "3")
        with arrive(world, 1, {"news": {}}) as card:
            if way == "fail":
                leave(card)
                host.fail("rank[0] failed: no network")
                message = capsys.readouterr().out
            else:
                with pytest.raises(CardsError) as raised:
                    host.exchange({}, MEETING)
                host.close()
                message = str(raised.value)
    assert "waited 180 s for rank[2]; check why they did not arrive." in message


def test_a_message_that_fills_the_line_arrives_whole():
    """Like a busy process, the receiver begins to read only when the socket's buffer is full."""
    ours, theirs = socket.socketpair()
    message = {"go": ["x" * 100] * 20_000}
    reading, received = MeetingLine(theirs), []

    def read():
        while not received:
            poll([theirs.fileno()], None)
            arrived = reading.receive()
            if arrived is None:
                return
            received.extend(arrived)

    reader = threading.Thread(target=read)
    with closing(MeetingLine(ours)) as line:
        reader.start()
        line.send(message)
        reader.join()
    reading.close()
    assert received == [message]


def test_after_half_a_message_there_is_no_other(monkeypatch):
    """A receiver that does not read in time never gets a line made of parts of two messages."""
    monkeypatch.setattr("pytest_ascendcache.reference.meeting._SENDING", 0.001)
    ours, theirs = socket.socketpair()
    with closing(MeetingLine(ours)) as line, closing(MeetingLine(theirs)) as other:
        line.send({"go": ["x" * 100] * 20_000})
        line.send({"failed": "late"})
        received = []
        while (messages := other.receive()) is not None:
            received += messages
    assert received == []


@pytest.mark.parametrize("of", ["ranks", "cards"])
def test_who_was_not_heard_before_all_had_met_does_not_go_on(of):
    """The second process of a rank may have connected, but not said its number yet."""
    with meeting_place(2) as place:
        world = World(size=2, port=place.port)
        if of == "ranks":
            host = RendezvousPolicy().open(GangSettings(0, 2, world.host, place.port, 5, 1.0))
        else:
            host = CardsPolicy().open(world, "2")
        silent = socket.create_connection((world.host, world.port))
        card = arrive(world, 1, {"news": {}})
        if of == "ranks":
            host.meet()
        else:
            host.exchange({}, MEETING)
            host.close()
        assert any("go" in each for each in heard(card))
        assert not any("go" in each for each in heard(silent))


def test_a_rank_that_connected_to_itself_leaves_rank_0_its_port(monkeypatch):
    """A port from which connections start may be the one at which nobody listens yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    plain, met = socket.create_connection, []

    def from_there(address, timeout):
        if not met:
            met.append(plain(address, timeout, source_address=place))
            return met[0]
        met.append(listen(*place, backlog=1))
        return plain(address, timeout)

    monkeypatch.setattr(socket, "create_connection", from_there)
    connection = connect(*place, time.monotonic() + 60)
    assert connection.getpeername() == place
    for each in (connection, met[1]):
        each.close()
