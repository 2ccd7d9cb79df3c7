"""What shows that mounts do what their profile says, before anything is judged on them."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_ascendcache.nodes.profile import NodeProfile

GIVEN_PATIENCE = 130.0
"""Seconds until a real mount has to show what another has made: NFS shows it after 60 s unless it
is told otherwise."""

_LOOKS_EVERY = 0.2


class NotShown(Exception):
    """A mount does not do what its profile says: nothing that is seen on it tells anything."""


def show(profile: NodeProfile, roots: Sequence[Path], again: Callable[[], None]) -> None:
    """Show on the mounts ``roots`` of one directory, a root a node, what a profile promises.

    ``again`` mounts anew. Files made here are removed.

    Raises:
        NotShown: naming what could not be shown.
    """
    if profile is NodeProfile.LOCAL:
        return
    here, there = roots[0], roots[1]
    made: list[Path] = []
    try:
        _same_directory(profile, here, there, made)
        if profile.early_names_stay:
            _early_names_stay(here, there, made, again)
        _LOCKS.get(profile, _nothing)(here, there, made)
        if profile is NodeProfile.STALE_HANDLES:
            _goes_stale(here, there, made)
        if profile is NodeProfile.NO_HARDLINKS:
            _refuses_links(there, made)
    except OSError as error:
        raise NotShown(f"the control on {profile.value} fails: {error.strerror}") from None
    finally:
        for path in made:
            with suppress(OSError):
                path.unlink()


def seen_on(path: Path, patience: float) -> bool:
    """Whether a name is seen, within so many seconds; nothing tells when another host's is."""
    deadline = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOKS_EVERY)  # no event crosses hosts
    return True


def _same_directory(profile: NodeProfile, here: Path, there: Path, made: list[Path]) -> None:
    path = _write(here / "control-same", made)
    patience = GIVEN_PATIENCE if profile is NodeProfile.GIVEN else 0.0
    if not seen_on(there / path.name, patience) or (there / path.name).read_bytes() != b"control":
        raise NotShown(f"{there} is not the directory that {here} is: a file made there is missing")


def _early_names_stay(here: Path, there: Path, made: list[Path], again: Callable[[], None]) -> None:
    early = there / "control-early"
    early.exists()
    _write(here / early.name, made)
    if early.name not in os.listdir(there):  # noqa: PTH208 - the listing, not paths
        raise NotShown("a listing does not show what another node has made")
    if early.exists():
        raise NotShown("a name that was looked up too early is seen at once")
    again()
    if not early.exists():
        raise NotShown("a name that was looked up too early is never seen")


def _locks_shared(here: Path, there: Path, made: list[Path]) -> None:
    if _both_locked(here, there, made):
        raise NotShown("a lock that one node holds is granted to another")


def _locks_local(here: Path, there: Path, made: list[Path]) -> None:
    if not _both_locked(here, there, made):
        raise NotShown("a lock that one node holds is not granted to another")


def _both_locked(here: Path, there: Path, made: list[Path]) -> bool:
    path = _write(here / "control-lock", made)
    with path.open("rb") as first, (there / path.name).open("rb") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _locks_refused(here: Path, there: Path, made: list[Path]) -> None:
    path = _write(here / "control-lock", made)
    with (there / path.name).open("rb+") as file:
        for lock in (fcntl.flock, fcntl.lockf):
            try:
                lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno == errno.ENOLCK:
                    continue
            raise NotShown(f"{lock.__name__} is not refused with ENOLCK")


def _goes_stale(here: Path, there: Path, made: list[Path]) -> None:
    path = _write(here / "control-stale", made)
    descriptor = os.open(there / path.name, os.O_RDONLY)
    try:
        newer = _write(here / "control-newer", made)
        newer.replace(path)
        os.read(descriptor, 1)
    except OSError as error:
        if error.errno == errno.ESTALE:
            return
        raise
    finally:
        os.close(descriptor)
    raise NotShown("a file that another node has replaced is not stale")


def _refuses_links(there: Path, made: list[Path]) -> None:
    path = _write(there / "control-link", made)
    try:
        made.append(there / "control-second-name")
        made[-1].hardlink_to(path)
    except PermissionError:
        return
    raise NotShown("hard links are not refused")


def _write(path: Path, made: list[Path]) -> Path:
    path.write_bytes(b"control")
    made.append(path)
    return path


def _nothing(*_: object) -> None:
    """No lock is promised to be seen or not to be."""


_LOCKS: dict[NodeProfile, Callable[[Path, Path, list[Path]], None]] = {
    NodeProfile.ONE_MOUNT: _locks_shared,
    NodeProfile.NFS_DEFAULT: _locks_shared,
    NodeProfile.NFS_NOLOCK: _locks_local,
    NodeProfile.NO_LOCKS: _locks_refused,
}
