"""Directories of kernels that go with a release: where they are, and how old.

Source: facts ``cann-operator-cache`` sections 1.1 and 1.2; ``mindspore-incremental`` section 1.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from pytest_ascendcache.caches import read_entries
from pytest_ascendcache.caches.snapshot import read_quietly
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.problem import Problem, names

_KERNEL_CACHE = "kernel_cache"
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""How links fail that lead to no file."""


def kernel_cache(cache: Path) -> Path | None:
    """The directory with one directory per SoC: below ``cache``, ``cache`` itself, or above a
    SoC's directory. ``None`` where there is none, as in MindSpore's caches."""
    for candidate in (cache / _KERNEL_CACHE, cache, cache.parent):
        if candidate.name == _KERNEL_CACHE and candidate.is_dir():
            return candidate
    return None


def soc_directory(cache: Path, soc: str) -> Path | None:
    """Where ``cache`` keeps the entries of a SoC; ``None`` where it keeps none."""
    above = kernel_cache(cache)
    directory = cache / soc if above is None else above / soc
    if above is None and not directory.is_dir() and cache.name == soc:
        directory = cache  # a SoC's directory that was copied alone
    return directory if directory.is_dir() else None


def copy_kernels(release: Release, cache: Path, root: Path) -> bool:
    """Copy what of a cache serves the release's operators to a new cache directory ``root``.

    Only entries of its operator types are taken, and files that say what the cache is; links
    are not. Returns whether there is a cache of the SoC at all.
    """
    types = tuple(f"te_{each.lower()}_" for each in {one.type for one in release.operators})
    return _copy_entries(release, cache, root, types)


def copy_cache(release: Release, cache: Path, root: Path) -> bool:
    """Copy every entry of the release's SoC to a new cache directory ``root``: which of them a
    model's fused operators need, their names do not tell."""
    return _copy_entries(release, cache, root, ("",))


def _copy_entries(release: Release, cache: Path, root: Path, beginnings: tuple[str, ...]) -> bool:
    source = soc_directory(cache, release.soc)
    if source is None:
        return False
    target = root / _KERNEL_CACHE / release.soc
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        if entry.name.lower().startswith(beginnings) and entry.is_file(follow_symlinks=False):
            _copy(Path(entry.path), target)
    above = kernel_cache(cache)
    if above is not None:
        for entry in os.scandir(above):
            if entry.is_file(follow_symlinks=False):
                _copy(Path(entry.path), target.parent)
    return True


def _copy(path: Path, directory: Path) -> None:
    """Copy a file with its times. Those of the original stay: aging goes by them."""
    target = directory / path.name
    with target.open("wb") as file:
        file.writelines(read_quietly(path))
    shutil.copystat(path, target)


def outdated_kernels(release: Release) -> list[Problem]:
    """Entries that are older than the knowledge base: no force since it changed.

    Force removes every entry and compiles anew, so after one all entries are newer. Times are
    compared in whole seconds, as reuse by CANN keeps no more of them.

    Raises:
        FileNotFoundError: for a knowledge base that is not there or has no file.
    """
    newest = max(map(_newest, release.knowledge_base))
    found = []
    for cache in release.caches:
        directory = soc_directory(cache, release.soc)
        if directory is None:
            continue
        old = sorted(_older(directory, newest[0]))
        if old:
            found.append(
                Problem(
                    f"{len(old)} files of kernels in {directory} are older than {newest[1]} of "
                    f"{_when(newest[0])}, such as {names([name for _, name in old])} of "
                    f"{_when(old[0][0])}",
                    "one compile with --op_compiler_cache_mode=force after each change of the "
                    "knowledge base",
                )
            )
    return found


def _older(directory: Path, second: int) -> Iterator[tuple[int, str]]:
    for entry in read_entries(directory).values():
        for path in (entry.metadata_path, entry.object_path):
            try:
                modified = int(path.lstat().st_mtime)
            except FileNotFoundError:
                continue
            if modified < second:
                yield modified, path.name


def _newest(bank: Path) -> tuple[int, Path]:
    """The last change of any file of a knowledge base, in whole seconds, and which it is. A link
    is what it leads to; one that leads nowhere holds nothing."""
    changed = []
    for path in _files(bank) if bank.is_dir() else [bank]:
        try:
            info = path.stat()
        except OSError as error:
            if error.errno in _NOWHERE and path.is_symlink():
                continue
            raise
        if stat.S_ISREG(info.st_mode):
            changed.append((int(info.st_mtime), path))
    if not changed:
        raise FileNotFoundError(f"the knowledge base {bank} has no file")
    return max(changed)


def _files(directory: Path) -> Iterator[Path]:
    """All files below a directory, each directory once, linked ones too."""

    def refuse(error: OSError) -> None:
        raise error

    seen: set[tuple[int, int]] = set()
    for place, directories, inside in os.walk(directory, onerror=refuse, followlinks=True):
        info = Path(place).stat()
        if (info.st_dev, info.st_ino) in seen:
            directories.clear()
            continue
        seen.add((info.st_dev, info.st_ino))
        yield from (Path(place, each) for each in inside)


def _when(second: int) -> str:
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
