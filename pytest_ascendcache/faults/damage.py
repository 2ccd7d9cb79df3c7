"""Damage to the files of one entry, as left by crashes, full disks and careless people.

Source: facts ``cann-operator-cache`` section 2.10 and ``field-evidence`` classes C03, C04.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import Entry


@dataclass(frozen=True)
class Damage:
    """One kind of damage. ``apply`` inflicts it on a valid entry."""

    name: str
    apply: Callable[[Entry], None]


def _object(edit: Callable[[bytes], bytes]) -> Callable[[Entry], None]:
    return lambda entry: _rewrite(entry.object_path, edit)


def _text(edit: Callable[[bytes], bytes]) -> Callable[[Entry], None]:
    return lambda entry: _rewrite(entry.metadata_path, edit)


def _fields(**changes: Any) -> Callable[[Entry], None]:
    def edit(data: bytes) -> bytes:
        fields = {**json.loads(data), **changes}
        return json.dumps(
            {key: value for key, value in fields.items() if value is not None}
        ).encode()

    return _text(edit)


def _rewrite(path: Path, edit: Callable[[bytes], bytes]) -> None:
    path.write_bytes(edit(path.read_bytes()))


def _flip(position: float) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        index = int(position * (len(data) - 1))
        return data[:index] + bytes([data[index] ^ 0x10]) + data[index + 1 :]

    return edit


def _instead(make: Callable[[Path], None], metadata: bool = False) -> Callable[[Entry], None]:
    """Replace the object, or the metadata, by something else."""

    def apply(entry: Entry) -> None:
        path = entry.metadata_path if metadata else entry.object_path
        path.unlink()
        make(path)

    return apply


def _both_empty(entry: Entry) -> None:
    """What a power loss leaves of files that were renamed before their data was written."""
    entry.object_path.write_bytes(b"")
    entry.metadata_path.write_bytes(b"")


DAMAGES = (
    Damage("object-header-flipped", _object(_flip(0.0))),
    Damage("object-code-flipped", _object(_flip(0.1))),
    Damage("object-third-flipped", _object(_flip(0.3))),
    Damage("object-middle-flipped", _object(_flip(0.5))),
    Damage("object-late-flipped", _object(_flip(0.75))),
    Damage("object-end-flipped", _object(_flip(1.0))),
    Damage("object-cut-in-half", _object(lambda data: data[: len(data) // 2])),
    Damage("object-one-byte-short", _object(lambda data: data[:-1])),
    Damage("object-one-byte-long", _object(lambda data: data + b"\0")),
    Damage("object-empty", _object(lambda _: b"")),
    Damage("object-foreign", _object(lambda _: b"#!/bin/sh\nexit 0\n")),
    Damage("object-missing", lambda entry: entry.object_path.unlink()),
    Damage("object-a-directory", _instead(Path.mkdir)),
    Damage("object-a-dangling-link", _instead(lambda path: path.symlink_to("nowhere"))),
    Damage("metadata-cut-in-half", _text(lambda data: data[: len(data) // 2])),
    Damage("metadata-empty", _text(lambda _: b"")),
    Damage("metadata-not-json", _text(lambda _: b"\x7fELF\0\1\2")),
    Damage("metadata-not-utf-8", _text(lambda data: data.replace(b'"', b'"\xff', 1))),
    Damage("metadata-null", _text(lambda _: b"null")),
    Damage("metadata-an-array", _text(lambda data: b"[" + data + b"]")),
    Damage("metadata-missing", lambda entry: entry.metadata_path.unlink()),
    Damage("both-empty", _both_empty),
    Damage("digest-wrong", _fields(sha256="0" * 64)),
    Damage("digest-missing", _fields(sha256=None)),
    Damage("digest-a-number", _fields(sha256=5)),
    Damage("name-a-number", _fields(binFileName=1)),
)
"""Every kind of damage, named for what it leaves."""

METADATA_REPLACED = (
    Damage("metadata-a-directory", _instead(Path.mkdir, metadata=True)),
    Damage(
        "metadata-a-dangling-link", _instead(lambda path: path.symlink_to("nowhere"), metadata=True)
    ),
)
"""Other things in the place of the metadata. Stress runs do not use these."""


def damage_named(name: str) -> Damage:
    """One of :data:`DAMAGES`. Raises ``KeyError`` if none has this name."""
    return {each.name: each for each in DAMAGES}[name]
