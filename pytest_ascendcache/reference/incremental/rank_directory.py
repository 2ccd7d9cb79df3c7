"""The directory of a rank's kernels: ``rank_<RANK_ID>/kernel_meta``. Source: document M."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.surroundings import GangSettings, invalid_variable


class RankDirectoryPolicy:
    """Finds, creates and claims the directory of one rank."""

    def rank_directory(self, base: Path, gang: GangSettings) -> Path:
        return base / f"rank_{gang.rank}"

    def kernel_meta(self, base: Path, gang: GangSettings) -> Path:
        return self.rank_directory(base, gang) / "kernel_meta"

    def prepare(self, fs: Fs, base: Path, gang: GangSettings) -> Path | None:
        """Create the rank's directories. Returns the one for kernels.

        Returns ``None`` if one of them is a symbolic link, which is not followed. A read-only
        directory is accepted, because its kernels can still be reused.
        """
        directory = self.kernel_meta(base, gang)
        if self.rank_directory(base, gang).is_symlink() or directory.is_symlink():
            return None
        try:
            fs.make_directories("meta.mkdir", directory)
        except OSError as error:
            raise AtcError(
                "E40023",
                f"Path [{directory}] for [MS_COMPILER_CACHE_PATH] is invalid. Reason: the "
                f"directory cannot be created ({error.strerror}); name one that can.",
            ) from None
        return directory

    @contextmanager
    def claimed(self, fs: Fs, base: Path, gang: GangSettings) -> Iterator[None]:
        """Hold the rank's directory against other ranks of the gang for the duration of a run.

        Two ranks with the same ``RANK_ID`` would mix their kernels. A run on a single card takes no
        lock: entries are published atomically, so runs can share the directory. Raises ``AtcError``
        (EI0001) if another process holds the directory.
        """
        if not gang.several:
            yield
            return
        lock = self.rank_directory(base, gang) / ".rank.lock"
        with ExitStack() as held:
            try:
                held.enter_context(fs.lock("meta.claim", lock, patience=0.0))
            except LockUnavailable as error:
                if error.errno == errno.EAGAIN:
                    raise invalid_variable(
                        "RANK_ID",
                        gang.rank,
                        f"another process has [{lock.parent}]; give each process a RANK_ID of "
                        "its own",
                    ) from None
                # A directory that allows no lock cannot be written either: go on without one.
            yield
