"""Profiles of nodes: the kinds of shared storage that a node's mount imitates."""

from __future__ import annotations

from enum import Enum

LOOKUPS_STAY = 60
"""Seconds for which a failed lookup is cached: the longest time that NFS caches a directory by
default (``acdirmax`` in nfs(5))."""


class NodeProfile(str, Enum):
    """A kind of shared storage.

    ``LOCAL`` is no shared storage, and ``ONE_MOUNT`` is one mount that all nodes use. A fault that
    also occurs there is not caused by sharing between nodes. ``GIVEN`` are real mounts, which
    promise nothing.
    """

    LOCAL = "local"
    ONE_MOUNT = "one-mount"
    NFS_DEFAULT = "nfs-default"
    NFS_NOLOCK = "nfs-nolock"
    NO_LOCKS = "no-locks"
    STALE_HANDLES = "stale-handles"
    NO_HARDLINKS = "no-hardlinks"
    GIVEN = "given"

    @property
    def by_bindfs(self) -> bool:
        """Whether bindfs mounts it. Other mounted profiles need the file system ``refusing.py``."""
        return self in (self.ONE_MOUNT, self.NFS_DEFAULT, self.NFS_NOLOCK)

    @property
    def early_names_stay(self) -> bool:
        """Whether a node caches a failed lookup although another node then creates the name."""
        return self in (self.NFS_DEFAULT, self.NFS_NOLOCK)

    @property
    def one_for_all(self) -> bool:
        """Whether all nodes use the same mount, or no mount at all."""
        return self in (self.LOCAL, self.ONE_MOUNT)


def profiles() -> tuple[NodeProfile, ...]:
    """All profiles that can be imitated on this machine, that is, all but real mounts."""
    return tuple(each for each in NodeProfile if each is not NodeProfile.GIVEN)
