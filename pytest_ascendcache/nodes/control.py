"""Positive controls of mounts: they check that mounts behave as their profile says.

They run before anything is judged on the mounts.
"""

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
"""Seconds until a real mount has to show a file that another mount created. NFS needs up to 60 s
by default."""

_LOOKS_EVERY = 0.2


class NotShown(Exception):
    """A mount does not behave as its profile says, so nothing observed on it means anything."""


def show(profile: NodeProfile, roots: Sequence[Path], again: Callable[[], None]) -> None:
    """Check that the mounts ``roots`` of one directory, one per node, behave as the profile says.

    ``again`` unmounts and mounts again. The files that this creates are removed. Raises
    ``NotShown`` naming what does not behave as promised.
    """
    if profile is NodeProfile.LOCAL:
        return
    here, there = roots[0], roots[1]
    made: list[Path] = []
    try:
        _same_directory(profile, here, there, made)
        if profile.early_names_stay:
            _early_names_stay(here, there, made, again)
        if profile is NodeProfile.NO_LOCKS:
            _locks_refused(here, there, made)
        elif profile in _LOCKS_SHARED:
            _locks_shared(here, there, made, _LOCKS_SHARED[profile])
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
    """Wait up to ``patience`` seconds for a path to appear. Returns whether it did."""
    deadline = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOKS_EVERY)  # no event reports what another host creates
    return True


def _same_directory(profile: NodeProfile, here: Path, there: Path, made: list[Path]) -> None:
    path = _write(here / "control-same", made)
    patience = GIVEN_PATIENCE if profile is NodeProfile.GIVEN else 0.0
    if not seen_on(there / path.name, patience) or (there / path.name).read_bytes() != b"control":
        raise NotShown(
            f"{there} is not the same directory as {here}: a file created in the latter is missing"
        )


def _early_names_stay(here: Path, there: Path, made: list[Path], again: Callable[[], None]) -> None:
    early = there / "control-early"
    early.exists()
    _write(here / early.name, made)
    if early.name not in os.listdir(there):  # noqa: PTH208 - the listing, not paths
        raise NotShown("a listing does not show a file that another node has created")
    if early.exists():
        raise NotShown("a name that was looked up too early is seen at once")
    again()
    if not early.exists():
        raise NotShown("a name that was looked up too early is never seen")


_LOCKS_SHARED = {
    NodeProfile.ONE_MOUNT: True,
    NodeProfile.NFS_DEFAULT: True,
    NodeProfile.NFS_NOLOCK: False,
}
"""Whether a lock that one node holds excludes the others, for profiles that promise either."""


def _locks_shared(here: Path, there: Path, made: list[Path], shared: bool) -> None:
    path = _write(here / "control-lock", made)
    with path.open("rb") as first, (there / path.name).open("rb") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not shared:
                raise NotShown("a lock that one node holds is not granted to another") from None
        else:
            if shared:
                raise NotShown("a lock that one node holds is granted to another")


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
