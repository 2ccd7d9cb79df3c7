"""Where a rank keeps its kernels: ``rank_<RANK_ID>/kernel_meta``. Source: document M."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.surroundings import Gang, invalid_variable


class RankDirectoryPolicy:
    """Finds, prepares and claims the directory of one rank."""

    def rank_directory(self, base: Path, gang: Gang) -> Path:
        """The rank's own directory."""
        return base / f"rank_{gang.rank}"

    def kernel_meta(self, base: Path, gang: Gang) -> Path:
        """Where the rank's kernels are."""
        return self.rank_directory(base, gang) / "kernel_meta"

    def prepare(self, fs: Fs, base: Path, gang: Gang) -> Path | None:
        """Create what is missing; ``None`` where a link stands in the way and is not followed.

        A directory that may only be read is fine: it can still give kernels.

        Raises:
            AtcError: E40023 where the directory cannot be created.
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
    def claimed(self, fs: Fs, base: Path, gang: Gang) -> Iterator[None]:
        """Keep other processes of several cards out of this rank's directory.

        Two of them with one ``RANK_ID`` would merge their kernels. A card on its own takes
        nobody's directory: entries are published whole.

        Raises:
            AtcError: EI0001 where another process has it.
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
                # Where nothing can be locked nothing can be written either.
            yield
