"""One mount of the backing directory, and the daemon that serves it.

Mounts are in a mount namespace of this process: no other process sees them, and the kernel removes
them when the last process of the namespace ends, however it ends. So a killed test run leaves no
mount behind, and no mount can hide a file from other users.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import shutil
import sys
import time
from pathlib import Path

from pytest_ascendcache.nodes.profile import LOOKUPS_STAY, NodeProfile
from pytest_ascendcache.processes.launch import Command, ProcessLauncher, Running, ToolchainError

_CLONE_NEWNS = 0x20000
_MS_REC, _MS_SLAVE = 1 << 14, 1 << 19
_MNT_DETACH = 2
_state = {"entered": False}

_DEVICE = Path("/dev/fuse")
_REFUSING = Path(__file__).with_name("refusing.py")
_PATIENCE = 30.0
"""Seconds that a daemon may take to mount on a busy machine, and to end."""
_STEP_MS = 100
"""Milliseconds between checks whether a daemon that has not mounted yet has ended."""


class Unavailable(Exception):
    """The nodes cannot be imitated on this machine; the text is the reason."""


def enter() -> None:
    """Move this process, and all it starts from now on, into a mount namespace of its own.

    Later calls do nothing. Mounts that are made outside still appear in the namespace. Raises
    ``Unavailable`` if the machine does not allow it.
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


class Mount:
    """A mount of ``backing`` at the empty directory ``point``.

    ``control`` is the directory in which the daemon of a refusing file system looks for requests,
    see ``refusing.py``. Raises ``Unavailable`` if it cannot be mounted on this machine.
    """

    def __init__(self, profile: NodeProfile, backing: Path, point: Path, control: Path) -> None:
        self.point = point
        self.control = control
        self._command = _command(profile, backing, point, control)
        self._running: Running | None = None
        enter()
        self._mount()

    @property
    def is_there(self) -> bool:
        """Whether the directory is mounted now. It is not after the daemon has ended."""
        return os.path.ismount(self.point)

    def again(self) -> None:
        """Unmount and mount again, so that the node forgets all cached lookups."""
        self.close()
        self._mount()

    def close(self) -> None:
        """Unmount, and wait for the daemon's end."""
        if self._running is not None:
            unmount(str(self.point))
            running, self._running = self._running, None
            running.wait(time.monotonic() + _PATIENCE)

    def _mount(self) -> None:
        program, *arguments = self._command
        try:
            started = ProcessLauncher({}).start(
                Command(program, arguments, dict(os.environ), Path("/"), 0o022)
            )
        except ToolchainError as error:
            raise Unavailable(str(error).rstrip(".")) from None
        self._running = started
        with Path("/proc/self/mountinfo").open("rb") as table:
            poll = select.poll()
            # The kernel signals every change of the table of mounts.
            poll.register(table, select.POLLPRI | select.POLLERR)
            deadline = time.monotonic() + _PATIENCE
            while not self.is_there:
                if started.has_ended or time.monotonic() > deadline:
                    self._running = None
                    lines = started.wait(time.monotonic()).output.strip().splitlines()
                    reason = lines[-1] if lines else "it printed no reason"
                    raise Unavailable(f"{Path(program).name} cannot mount a directory: {reason}")
                poll.poll(_STEP_MS)


def lacking() -> str:
    """What this machine lacks for mounts of every profile; empty if it lacks nothing.

    Afterwards this process has a mount namespace of its own, where that is allowed.
    """
    nowhere = Path()
    try:
        enter()
        for profile in (NodeProfile.NFS_DEFAULT, NodeProfile.STALE_HANDLES):
            _command(profile, nowhere, nowhere, nowhere)
    except Unavailable as reason:
        return str(reason)
    return ""


def _command(profile: NodeProfile, backing: Path, point: Path, control: Path) -> list[str]:
    """The command that mounts as the profile says. Its process ends when it is unmounted.

    Raises ``Unavailable`` if the machine lacks a device or program that it needs.
    """
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        raise Unavailable(f"{_DEVICE} is missing or closed to this user: no FUSE on this machine")
    if not profile.by_bindfs:
        try:
            importlib.import_module("mfusepy")
        except ImportError:
            raise Unavailable(
                "Python's mfusepy is not installed; pip install 'pytest-ascendcache[nodes]'"
            ) from None
        except (OSError, AttributeError):  # libfuse is missing or too old
            raise Unavailable(
                "mfusepy finds no libfuse that it can use; apt-get install libfuse2"
            ) from None
        arguments = [str(backing), str(point), str(control), profile.value]
        return [sys.executable, "-I", str(_REFUSING), *arguments]
    program = shutil.which("bindfs")
    if program is None:
        raise Unavailable("the program bindfs is not installed; apt-get install bindfs")
    times = {"entry_timeout": 0, "attr_timeout": 0}
    if profile.early_names_stay:
        times["negative_timeout"] = LOOKUPS_STAY
    options = ",".join(f"{name}={value}" for name, value in times.items())
    # Without lock forwarding, each mount has its own table of locks in the kernel.
    locks = [] if profile is NodeProfile.NFS_NOLOCK else ["--enable-lock-forwarding"]
    return [program, "-f", "--multithreaded", *locks, "-o", options, str(backing), str(point)]
