"""Turns the log of ``strace -f -y -xx`` into file operations.

A call is identified by its name and by how many calls of that name its process made before, as
strace counts when it injects faults. Failed calls are counted but are no operations.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.faults.trace import UNNAMED, Act, Operation, TraceError, below

_OPENS = ("open", "openat", "creat")
_WRITES = ("write", "pwrite64", "writev")
TRACED = (
    *_OPENS,
    *_WRITES,
    *("lseek", "fsync", "fdatasync", "ftruncate", "truncate", "flock", "fcntl", "utimensat"),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir"),
    *("mkdir", "mkdirat", "symlink", "symlinkat"),
)
"""System calls to record, if the machine has them."""

UNSEEN = ("sendfile", "copy_file_range", "splice")
"""Calls whose data no trace shows. They are made to fail, so programs write instead, as they do on
file systems without these calls."""

_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_DESCRIPTOR = re.compile(r"(\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_OWN = re.compile(r"/proc/(?:self|thread-self|\d+)/fd/(\d+)")
_LINE = re.compile(r"(?P<pid>\d+) +(?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)", re.DOTALL)
_UNFINISHED = " <unfinished ...>"


@dataclass(frozen=True)
class Call:
    """One system call of one process. ``result`` is what strace printed after ``=``."""

    process: int
    name: str
    nth: int
    arguments: str
    result: str

    @property
    def succeeded(self) -> bool:
        return self.result[:1].isdigit() and "INJECTED" not in self.result

    @property
    def interfered(self) -> bool:
        """Whether the call was made to fail, or its process was killed in it."""
        return "INJECTED" in self.result or self.result.startswith("?")

    @property
    def strings(self) -> list[bytes]:
        """The strings among the arguments. Raises ``TraceError`` if one was too long to be
        recorded."""
        strings = []
        for text, cut in _STRING.findall(self.arguments):
            if cut:
                raise TraceError(f"{self.name}: what is written is too long to be recorded")
            strings.append(_bytes(text))
        return strings

    @property
    def places(self) -> list[Path]:
        """Paths of the descriptors among the arguments."""
        return [_place(each) for each in _DESCRIPTOR.finditer(self.arguments)]

    @property
    def aims(self) -> list[str]:
        """Paths by which strace can select the call: its strings, or else those of its
        descriptors."""
        strings = [] if self.name in _WRITES else _STRING.findall(self.arguments)
        texts = strings or [each[1::-1] for each in _DESCRIPTOR.findall(self.arguments)]
        return [os.fsdecode(_bytes(text)) for text, _ in texts]

    @property
    def paths(self) -> list[Path]:
        """Every path that the call names. A string is relative to the descriptor before it; for
        calls that use the working directory, strace shows that as a descriptor."""
        paths, base = [], Path("/")
        for piece in re.finditer(f"{_DESCRIPTOR.pattern}|{_STRING.pattern}", self.arguments):
            if piece[1] is not None:
                base = _place(piece)
            else:
                paths.append(Path(os.path.normpath(base / os.fsdecode(_bytes(piece[4])))))
        return paths


def _place(descriptor: re.Match[str]) -> Path:
    """The path of a descriptor; one that no file has if the file has no name (any more)."""
    path = os.fsdecode(_bytes(descriptor[2]))
    return Path(path + UNNAMED if descriptor[3] else path)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def read_calls(log: Path) -> list[Call]:
    """Every call in a log, in the order in which they ended. Raises ``TraceError`` if the log
    cannot be read."""
    try:
        lines = log.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"the record of system calls {log} cannot be read: {error}") from None
    counts: Counter[tuple[int, str]] = Counter()
    pending: dict[int, str] = {}
    calls = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        process, rest = int(match["pid"]), match["rest"]
        if rest.endswith(_UNFINISHED):
            pending[process] = rest.removesuffix(_UNFINISHED)
            continue
        if resumed := _RESUMED.match(rest):
            rest = pending.pop(process, "") + resumed["rest"]
        elif rest.startswith("+++ killed") and process in pending:
            rest = pending.pop(process) + ") = ?"
        if call := _CALL.match(rest):
            nth = counts[process, call["name"]]
            counts[process, call["name"]] += 1
            calls.append(Call(process, call["name"], nth, call["arguments"], call["result"]))
    return calls


@dataclass
class _Descriptors:
    """The file offsets of the descriptors of all processes; -1 for appending. A descriptor that its
    process did not open is a copy, or inherited: a shell's, for whatever wrote the file last."""

    offsets: dict[tuple[int, str], int] = field(default_factory=dict)
    latest: dict[Path, tuple[int, str]] = field(default_factory=dict)
    paths: dict[tuple[int, str], Path] = field(default_factory=dict)

    def write(self, call: Call, size: int) -> int:
        key = self._key(call)
        offset = self.offsets.get(key)
        if offset is not None and offset >= 0:
            self.offsets[key] = offset + size
        return offset or 0

    def opened(self, call: Call, path: Path) -> None:
        key = (call.process, call.result.partition("<")[0])
        self.paths[key] = path
        self.offsets[key] = -1 if "O_APPEND" in call.arguments else 0
        if "O_RDONLY" not in call.arguments:
            self.latest[path] = key

    def sought(self, call: Call) -> None:
        key = self._key(call)
        if self.offsets.get(key, -1) >= 0:
            self.offsets[key] = int(call.result.split()[0])

    def _key(self, call: Call) -> tuple[int, str]:
        own = (call.process, call.arguments.partition("<")[0])
        return own if own in self.offsets else self.latest.get(call.places[0], own)


def operations(calls: list[Call], root: Path) -> Iterator[Operation]:
    """What successful calls did below ``root``."""
    descriptors = _Descriptors()
    alike = Counter((call.name, call.nth) for call in calls)
    aimed: Counter[tuple[int, str, str]] = Counter()
    for number, call in enumerate(calls):
        aim, nth = "", call.nth
        if alike[call.name, call.nth] > 1 and call.aims:
            aim = call.aims[0]
            nth = aimed[call.process, call.name, aim]
        aimed.update((call.process, call.name, each) for each in set(call.aims))
        if not call.succeeded or not (call.places or call.paths):
            continue
        for act, path, data, offset, target in _effects(call, descriptors):
            relative = below(root, str(path))
            if relative is None:
                continue
            new = below(root, str(target)) if target else ""
            yield Operation(number, call.name, nth, act, relative, data, offset, new or "", aim)


_LOCKS = re.compile(r"LOCK_EX|LOCK_SH|F_SETLK.*F_(WR|RD)LCK")
_Effect = tuple[Act, Path, bytes, int, "Path | None"]


def _effects(call: Call, descriptors: _Descriptors) -> Iterator[_Effect]:
    """What one call does. Opening may also create and truncate."""
    name = call.name
    if name in _OPENS:
        opened = _DESCRIPTOR.search(call.result)
        assert opened is not None
        path = _place(opened)
        descriptors.opened(call, path)
        yield from _opened(call, path)
    elif name == "lseek":
        descriptors.sought(call)
    elif name in _WRITES:
        data = b"".join(call.strings)[: int(call.result.split()[0])]
        if name == "pwrite64":
            offset = int(call.arguments.rpartition(",")[2])
        else:
            offset = descriptors.write(call, len(data))
        yield Act.WRITE, call.places[0], data, offset, None
    elif name in ("fsync", "fdatasync"):
        place = call.places[0]
        yield Act.SYNC_DIRECTORY if place.is_dir() else Act.SYNC, place, b"", 0, None
    elif name in ("ftruncate", "truncate"):
        place = (call.places if name == "ftruncate" else call.paths)[0]
        yield Act.TRUNCATE, place, b"", int(call.arguments.rpartition(",")[2]), None
    elif name in ("flock", "fcntl"):
        if _LOCKS.search(call.arguments):
            yield Act.LOCK, call.places[0], b"", 0, None
    elif name == "utimensat":
        yield Act.TOUCH, (call.paths or call.places)[0], b"", 0, None
    else:
        yield from _name_change(call, descriptors)


def _opened(call: Call, path: Path) -> Iterator[_Effect]:
    if "O_CREAT" in call.arguments or "O_TMPFILE" in call.arguments or call.name == "creat":
        yield Act.CREATE, path, b"", 0, None
    if "O_TRUNC" in call.arguments or call.name == "creat":
        yield Act.TRUNCATE, path, b"", 0, None
    elif "O_DIRECTORY" in call.arguments:
        yield Act.LIST, path, b"", 0, None
    elif "O_RDONLY" in call.arguments:
        yield Act.READ, path, b"", 0, None


_NAME_ACTS = {
    "rename": Act.RENAME,
    "renameat": Act.RENAME,
    "renameat2": Act.RENAME,
    "link": Act.LINK,
    "linkat": Act.LINK,
    "unlink": Act.REMOVE,
    "unlinkat": Act.REMOVE,
    "rmdir": Act.REMOVE_DIRECTORY,
    "mkdir": Act.MAKE_DIRECTORY,
    "mkdirat": Act.MAKE_DIRECTORY,
    "symlink": Act.LINK_SYMBOLICALLY,
    "symlinkat": Act.LINK_SYMBOLICALLY,
}


def _name_change(call: Call, descriptors: _Descriptors) -> Iterator[_Effect]:
    act = _NAME_ACTS.get(call.name)
    if act is None:
        return
    if "AT_REMOVEDIR" in call.arguments:
        act = Act.REMOVE_DIRECTORY
    elif "RENAME_EXCHANGE" in call.arguments:
        act = Act.EXCHANGE
    path, *more = call.paths
    if act is Act.LINK and (own := _OWN.fullmatch(str(path))):
        path = descriptors.paths.get((call.process, own[1]), path)
    if act is Act.LINK_SYMBOLICALLY:
        yield act, more[0], call.strings[0], 0, None
    else:
        yield act, path, b"", 0, more[0] if more else None
