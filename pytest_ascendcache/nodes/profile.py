"""What a node's mount of the shared directory does, by what it imitates."""

from __future__ import annotations

from enum import Enum

LOOKUPS_STAY = 60
"""Seconds a name that was looked up too early stays missing: the longest that NFS keeps what it
knows of a directory unless told otherwise (``acdirmax`` in nfs(5))."""

GIVEN = "given"
"""Name of the profile of real mounts, which are what they are."""


class NodeProfile(str, Enum):
    """One kind of shared storage.

    ``LOCAL`` is no shared storage, and ``ONE_MOUNT`` one mount that all nodes use: what goes wrong
    there too is no effect of nodes.
    """

    LOCAL = "local"
    ONE_MOUNT = "one-mount"
    NFS_DEFAULT = "nfs-default"
    NFS_NOLOCK = "nfs-nolock"
    NO_LOCKS = "no-locks"
    STALE_HANDLES = "stale-handles"
    NO_HARDLINKS = "no-hardlinks"
    GIVEN = GIVEN

    @property
    def by_bindfs(self) -> bool:
        """Whether bindfs mounts it; the others that are mounted need a file system of our own."""
        return self in (self.ONE_MOUNT, self.NFS_DEFAULT, self.NFS_NOLOCK)

    @property
    def early_names_stay(self) -> bool:
        """Whether a name that was looked up before another node made it stays missing."""
        return self in (self.NFS_DEFAULT, self.NFS_NOLOCK)

    @property
    def one_for_all(self) -> bool:
        """Whether all nodes use the same mount, or none."""
        return self in (self.LOCAL, self.ONE_MOUNT)


def profiles() -> tuple[NodeProfile, ...]:
    """Every profile that this machine imitates."""
    return tuple(each for each in NodeProfile if each is not NodeProfile.GIVEN)
