"""A mount namespace for this process: no other process sees its mounts, and they end with it.

The kernel removes the mounts of a namespace when its last process ends, however it ends. So a
killed test run leaves no mount behind, and no mount can hide a file from other users.
"""

from __future__ import annotations

import ctypes
import os

_CLONE_NEWNS = 0x20000
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19
_MNT_DETACH = 2

_state = {"entered": False}


class Unavailable(Exception):
    """The nodes cannot be imitated on this machine; the text is the reason."""


def enter() -> None:
    """Move this process, and all it starts from now on, into a mount namespace of its own.

    Later calls do nothing. Mounts that are made outside still appear in the namespace.

    Raises:
        Unavailable: if the machine does not allow it.
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


def unmount(point: str) -> None:
    """Unmount in this namespace. Processes that still use the mount can finish with it."""
    if _state["entered"]:
        ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH)
