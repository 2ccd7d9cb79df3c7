"""A mount namespace of this process's own: nobody else sees its mounts, and they end with it.

The kernel unmounts what is mounted in a namespace when its last process ends, however it ends. So
no mount is left behind whatever kills a test run, and none can cover a file of anybody else.
"""

from __future__ import annotations

import ctypes
import os

_CLONE_NEWNS = 0x20000
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19
_MNT_DETACH = 2

_state = {"entered": False}


class Unavailable(Exception):
    """Why nodes of a kind cannot be had on this machine, in words."""


def enter() -> None:
    """Give this process, and what it starts from now on, mounts of its own; once is enough.

    Mounts made elsewhere still appear here, as before.

    Raises:
        Unavailable: where the machine does not allow it.
    """
    if _state["entered"]:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        raise Unavailable(
            f"mounts need root ({os.strerror(ctypes.get_errno())}); run pytest as root, or put "
            "'unshare --map-root-user --mount' before it"
        )
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        raise Unavailable(
            f"mounts cannot be kept from other processes ({os.strerror(ctypes.get_errno())})"
        )
    _state["entered"] = True


def has_entered() -> bool:
    """Whether this process has mounts of its own; processes it forks have the same."""
    return _state["entered"]


def unmount(point: str) -> None:
    """Take a mount of this namespace away; what still uses it keeps it until it is done."""
    if has_entered():
        ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH)
