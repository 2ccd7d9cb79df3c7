"""Preparing the state of the cache that a check starts from, and finding litter in it."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import needs
from pytest_ascendcache.contract import Capability, EntryState
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec


def bring_into(cache: CacheUnderTest, operator: OperatorSpec, state: EntryState) -> None:
    """Prepare the entry of an operator: none, a valid one, or a damaged one."""
    if state is EntryState.NONE:
        return
    cache.warm(operator)
    if state is EntryState.DAMAGED:
        DAMAGES[1].apply(cache.entry(operator))


def take_debug_config(cache: CacheUnderTest) -> None:
    """Have the toolchain compile models if it does not take ``op_debug_config`` for single
    operators; skip the check if it takes it for neither."""
    toolchain = cache.toolchain
    needs(toolchain, Capability.DEBUG_CONFIG)
    cache.as_model = Capability.SINGLE_OP_DEBUG not in toolchain.capabilities


_ENDINGS = (".o", ".json", ".h", ".lock", "_pre.json", "_pre.lock")
"""File endings that CANN uses for an entry. Source: facts ``cann-operator-cache`` section 1.2."""

_TEMPORARY = re.compile(r"\.\d+$|temp|tmp|lock")


def residue(cache: CacheUnderTest) -> list[str]:
    """Files named like entries that neither belong to an entry nor are expected locks."""
    entries = [entry.object_path for entry in cache.entries().values()]
    known = {path.stem + ending for path in entries for ending in _ENDINGS}
    homes = {path.parent for path in entries}  # an entry may have a directory of its own
    there = cache.layout.soc(cache.options.soc).iterdir()
    names = [path.name for path in there if path not in homes]
    more = {
        name: name.replace(path.stem, "") for name in names for path in entries if path.stem in name
    }
    extra = [
        name
        for name in names
        if name not in known
        and "te_" in name
        # A toolchain may keep more beside an entry: .log or .o.damaged, but not .temp or .4711.
        and not name.endswith("_pre.json")
        and _TEMPORARY.search(more.get(name, ".temp"))
    ]
    # Locks for the directory, for aging and for parts of the keys are fine, those of processes not.
    locks = [name for name in names if name.endswith(".lock") and name not in known]
    return extra + (locks if len(locks) > 2 + len(entries) else [])


ANOTHER = 65534
"""The user and group "nobody" of most machines."""


def give_away(root: Path) -> None:
    """Give a directory to another user. Everybody may read what is in it."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
        give(path, ANOTHER, ANOTHER)


def give(path: Path, user: int, group: int = -1) -> None:
    """Give a file to a user and, unless it is -1, to a group."""
    try:
        os.chown(path, user, group, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL):  # EINVAL: a container without this user
            raise
        pytest.skip("only root can give files to another user")


_ROOM = 32 << 20
"""Free bytes of a file system that compiles may use: a container may have 64 MB of memory disk."""


@contextmanager
def another_disk(place: Path) -> Iterator[Path]:
    """An empty directory on another file system than a directory's, as TMPDIR often is. Files do
    not move between the two. Skips the check if this machine has no other one with room for
    temporary files, which is no fault of a toolchain, nor of a user."""
    for each in ("/dev/shm", "/tmp", "/var/tmp", "/run"):
        with suppress(OSError):
            is_another = Path(each).stat().st_dev != place.stat().st_dev
            if is_another and shutil.disk_usage(each).free > _ROOM:
                made = tempfile.TemporaryDirectory(prefix="ascendcache-", dir=each)
                break
    else:
        pytest.skip("there is no other file system here for temporary files")
    with made as directory:
        yield Path(directory)


def is_unused(root: Path) -> bool:
    """Whether a directory was not made, or only for an ``op_cache.ini`` (document C, any mode)."""
    files = [each.name for each in root.rglob("*") if not each.is_dir()]
    return not root.exists() or files == ["op_cache.ini"]
