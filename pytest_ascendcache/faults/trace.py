"""What one run of a command did to a directory, as a sequence of operations."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class TraceError(Exception):
    """A record cannot be read, or does not explain what is on disk."""


class Act(str, Enum):
    """What one operation does to the file system."""

    READ = "read"
    LIST = "list"
    STATE = "state"
    CREATE = "create"
    TRUNCATE = "truncate"
    WRITE = "write"
    SYNC = "sync"
    SYNC_DIRECTORY = "sync-directory"
    RENAME = "rename"
    EXCHANGE = "exchange"  # of two names
    LINK = "link"
    LINK_SYMBOLICALLY = "link-symbolically"
    REMOVE = "remove"
    REMOVE_DIRECTORY = "remove-directory"
    MAKE_DIRECTORY = "make-directory"
    TOUCH = "touch"
    LOCK = "lock"

    @property
    def changes(self) -> bool:
        """Whether it changes names or contents."""
        return self not in _LOOKS

    @property
    def names(self) -> bool:
        """Whether it changes the names in a directory."""
        return self in _NAMES


_LOOKS = {Act.READ, Act.LIST, Act.STATE, Act.TOUCH, Act.SYNC, Act.SYNC_DIRECTORY}
_NAMES = {
    Act.CREATE,
    Act.LOCK,
    Act.RENAME,
    Act.EXCHANGE,
    Act.LINK,
    Act.LINK_SYMBOLICALLY,
    Act.REMOVE,
    Act.REMOVE_DIRECTORY,
    Act.MAKE_DIRECTORY,
}


@dataclass(frozen=True)
class Operation:
    """One operation below the watched directory; paths are relative to it.

    Faults are planned by ``point``, the operation's name, and ``nth``, how many of that name its
    process did before. ``number`` is its position among all operations. A write puts ``data`` at
    byte ``offset`` (-1: at the end of the file); it is a symbolic link's text. ``target`` is the
    new name of a rename or link; the ``offset`` of a truncation is the new size. If another process
    makes equally many calls of that name, ``aim`` is the path as the call spells it, and ``nth``
    counts calls with that path only.
    """

    number: int
    point: str
    nth: int
    act: Act
    path: str
    data: bytes = b""
    offset: int = 0
    target: str = ""
    aim: str = ""

    def __str__(self) -> str:
        name = self.path.rpartition("/")[2] or "the directory itself"
        return f"operation {self.number} ({self.point} of {name})"


def read_log(log: Path, root: Path) -> tuple[Operation, ...]:
    """The operations below ``root`` in a log of named points (``reference.faulty``). Raises
    ``TraceError`` if there is no such log."""
    operations = []
    try:
        for line in log.read_bytes().splitlines():
            fields = json.loads(line)
            path = below(root, fields["path"])
            if path is None:
                continue
            target = fields["target"] and below(root, fields["target"])
            operations.append(
                Operation(
                    number=int(fields["number"]),
                    point=str(fields["point"]),
                    nth=int(fields["nth"]),
                    act=Act(fields["act"]),
                    path=path,
                    data=base64.b64decode(fields["data"]),
                    offset=int(fields["offset"]),
                    target=target or "",
                )
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"the record of file operations {log} cannot be read: {error}") from None
    return tuple(operations)


UNNAMED = "\n(no name)"
"""The end of paths that stand for files without a name (``O_TMPFILE``, or removed): nobody sees
them, until a link gives them one."""


def below(root: Path, path: str) -> str | None:
    """A path relative to ``root`` (empty for the root itself), or None if it is elsewhere."""
    path = os.path.normpath(path)
    if path == str(root):
        return ""
    prefix = f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None
