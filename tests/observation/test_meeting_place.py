"""The address of a gang is held for it, and rank 0 can listen there in any way."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.observation.meeting_place import meeting_place


def test_rank_0_can_listen_without_reusing_the_address() -> None:
    with meeting_place(2) as place, socket.socket() as plain:
        plain.bind((place.host, place.port))
        plain.listen()


def test_no_two_gangs_meet_at_one_address() -> None:
    with meeting_place(2) as one, meeting_place(2) as other:
        assert one.port != other.port


@pytest.mark.parametrize("text", ["1024\t65535\n", "", None], ids=["every-port", "empty", "absent"])
def test_a_gang_meets_whatever_ports_the_system_chooses_from(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "range"
    if text is not None:
        told.write_text(text)
    monkeypatch.setattr(sys.modules[meeting_place.__module__], "_ANY_PORT", told)
    with meeting_place(2) as place, socket.socket() as plain:
        plain.bind((place.host, place.port))
