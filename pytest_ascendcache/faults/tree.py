"""A directory in memory: its contents, and what a power loss would leave of them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches.snapshot import read_quietly
from pytest_ascendcache.faults.trace import UNNAMED, Act, Operation, TraceError

_FILE_MODE, _DIRECTORY_MODE = 0o640, 0o750


@dataclass(frozen=True)
class Item:
    """A file's bytes, a link's target, or a directory (neither)."""

    data: bytes | None = None
    link: str | None = None
    mode: int = _FILE_MODE

    @property
    def is_directory(self) -> bool:
        return self.data is None and self.link is None


@dataclass(frozen=True)
class Tree:
    """Everything below a directory by relative path. ``items[""]`` is the directory itself; it is
    missing if the directory does not exist."""

    items: Mapping[str, Item]

    @classmethod
    def read(cls, root: Path) -> Tree:
        """The current contents of a directory. Raises ``TraceError`` for anything but files,
        directories and links."""
        if not root.is_dir():
            return cls({})
        items = {"": Item(mode=stat.S_IMODE(root.stat().st_mode))}
        for directory, names, files in os.walk(root):
            for name in (*names, *files):
                path = Path(directory, name)
                items[str(path.relative_to(root))] = _look(path)
        return cls(items)

    def write(self, root: Path) -> None:
        """Replace whatever is at ``root`` by this tree."""
        if root.exists():
            shutil.rmtree(root)
        for name, item in sorted(self.items.items()):
            path = root / name
            if item.link is not None:
                path.symlink_to(item.link)
            elif item.data is None:
                path.mkdir(parents=not name)
                path.chmod(item.mode)
            else:
                path.write_bytes(item.data)
                path.chmod(item.mode)

    @property
    def content(self) -> frozenset[tuple[str, bytes | None, str | None]]:
        """Names and contents, to compare trees."""
        return frozenset((name, item.data, item.link) for name, item in self.items.items())


def _look(path: Path) -> Item:
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return Item(link=str(path.readlink()))
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        return Item(mode=mode)
    if not stat.S_ISREG(info.st_mode):
        raise TraceError(f"{path} is not a file, directory or link, and cannot be rebuilt")
    return Item(data=b"".join(read_quietly(path)), mode=mode)  # leaves access times unchanged


class Inode:
    """One file or directory: its contents, and the part that is certain to be on disk."""

    def __init__(self, item: Item, durable: bool) -> None:
        self.item = item
        self.data = item.data or b""
        self.durable = self.data if durable else b""

    def write(self, data: bytes, offset: int) -> None:
        """Overwrite from a byte on; -1 appends. A gap is filled with zeros."""
        start = len(self.data) if offset < 0 else offset
        filled = self.data.ljust(start, b"\0")
        self.data = filled[:start] + data + filled[start + len(data) :]

    def resize(self, size: int) -> None:
        """Truncate, or extend with zeros."""
        self.data = self.data[:size].ljust(size, b"\0")

    def lost(self, zeros: bool) -> bytes:
        """Contents after a power loss: what was synced, and nothing or zeros for the rest. File
        systems differ: an extended, unsynced file is either short, or has its full length without
        its data."""
        if self.data == self.durable:
            return self.data
        return self.durable.ljust(len(self.data), b"\0") if zeros else self.durable


@dataclass
class NameChange:
    """A change of names in a directory. It is ``durable`` once the directory has been synced; a
    rename from one to another is one change, which the sync of either keeps."""

    operation: Operation
    inode: Inode | None
    durable: bool = False

    @property
    def directories(self) -> set[str]:
        operation = self.operation
        paths = {operation.target or operation.path}
        paths |= {operation.path} if operation.act in (Act.RENAME, Act.EXCHANGE) else set()
        return {each.rpartition("/")[0] for each in paths}


_MAKES: Mapping[Act, Callable[[Operation], Item]] = {
    Act.CREATE: lambda _: Item(data=b""),
    Act.LOCK: lambda _: Item(data=b""),
    Act.MAKE_DIRECTORY: lambda _: Item(mode=_DIRECTORY_MODE),
    Act.LINK_SYMBOLICALLY: lambda made: Item(link=os.fsdecode(made.data)),
}


class Replay:
    """Applies operations one by one to an initial tree."""

    def __init__(self, before: Tree) -> None:
        self._before = {name: Inode(item, True) for name, item in before.items.items()}
        self.names = dict(self._before)
        self.changes: list[NameChange] = []

    def do(self, operation: Operation) -> None:
        """Apply one operation. One that needs a missing name changes nothing."""
        inode = self.names.get(operation.path)
        if operation.act.names:
            self._change_names(operation, inode)
        elif inode is None:
            return
        elif operation.act is Act.WRITE:
            inode.write(operation.data, operation.offset)
        elif operation.act is Act.TRUNCATE:
            inode.resize(operation.offset)
        elif operation.act is Act.SYNC:
            inode.durable = inode.data
        elif operation.act is Act.SYNC_DIRECTORY:
            for change in self.changes:
                change.durable = change.durable or operation.path in change.directories

    def _change_names(self, operation: Operation, inode: Inode | None) -> None:
        if operation.act in _MAKES:
            if inode is not None:
                return
            inode = Inode(_MAKES[operation.act](operation), False)
        elif inode is None:
            return
        change = NameChange(operation, inode)
        self.changes.append(change)
        _apply(self.names, change)

    def tree(self) -> Tree:
        """What a process sees now."""
        return _tree(self.names, lambda inode: inode.data)

    @property
    def unsynced(self) -> dict[str, Inode]:
        """Files, by their current names, that are not entirely on disk."""
        return {name: each for name, each in self.names.items() if each.data != each.durable}

    def without(
        self, dropped: Iterable[NameChange] = (), zeros: bool = False, lost: Inode | None = None
    ) -> Tree:
        """What remains after a power loss that undoes the name changes ``dropped`` and loses
        unsynced data, of every file or only of ``lost``."""
        gone = {id(change) for change in dropped}
        names = dict(self._before)
        for change in self.changes:
            if id(change) not in gone:
                _apply(names, change)
        reachable = {name: inode for name, inode in names.items() if _has_parents(name, names)}
        return _tree(
            reachable, lambda inode: inode.lost(zeros) if lost in (None, inode) else inode.data
        )


def _apply(names: dict[str, Inode], change: NameChange) -> None:
    operation, inode = change.operation, change.inode
    assert inode is not None
    if operation.act in (Act.REMOVE, Act.REMOVE_DIRECTORY):
        names.pop(operation.path, None)
    elif operation.act is Act.RENAME:
        _move(names, operation.path, operation.target, inode)
    elif operation.act is Act.EXCHANGE:
        _exchange(names, operation.path, operation.target)
    elif operation.act is Act.LINK:
        names[operation.target] = inode
    else:
        names[operation.path] = inode


def _exchange(names: dict[str, Inode], one: str, other: str) -> None:
    parts = (_parts(names, one), _parts(names, other))
    for place, part in zip((other, one), parts, strict=True):
        names.update({f"{place}{rest}": inode for rest, inode in part.items() if place})


def _parts(names: dict[str, Inode], place: str) -> dict[str, Inode]:
    """Take out a name and those below it: what is behind the place in each, and its inode."""
    own = [each for each in names if place and (each == place or each.startswith(f"{place}/"))]
    return {each[len(place) :]: names.pop(each) for each in own}


def _move(names: dict[str, Inode], source: str, target: str, inode: Inode) -> None:
    if names.get(source) is inode:
        del names[source]
    if target:  # otherwise it left the watched directory
        names[target] = inode
    if inode.item.is_directory:
        for name in [each for each in names if each.startswith(f"{source}/")]:
            moved = names.pop(name)
            if target:
                names[target + name[len(source) :]] = moved


def _has_parents(name: str, names: Mapping[str, Inode]) -> bool:
    while name:
        name = name.rpartition("/")[0]
        if name not in names:
            return False
    return True


def _tree(names: Mapping[str, Inode], contents: Callable[[Inode], bytes]) -> Tree:
    return Tree(
        {
            name: inode.item
            if inode.item.data is None
            else Item(data=contents(inode), mode=inode.item.mode)
            for name, inode in names.items()
            if not name.endswith(UNNAMED)
        }
    )
