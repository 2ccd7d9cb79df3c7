"""One mount of the backing directory: its daemon, from the mount to the end."""

from __future__ import annotations

import importlib
import os
import select
import shutil
import sys
import time
from pathlib import Path

from pytest_ascendcache.nodes.namespace import Unavailable, enter, unmount
from pytest_ascendcache.nodes.profile import LOOKUPS_STAY, NodeProfile
from pytest_ascendcache.processes.errors import ToolchainError
from pytest_ascendcache.processes.launch import Command, ProcessLauncher, Running

_DEVICE = Path("/dev/fuse")
_REFUSING = Path(__file__).with_name("refusing.py")
_PATIENCE = 30.0
"""Seconds a daemon may take to mount on a busy machine, and to end."""
_STEP_MS = 100
"""Milliseconds after which a daemon that does not mount is asked whether it has ended."""


class Mount:
    """A mount of ``backing`` at ``point``, an empty directory. ``control`` is a directory in which
    the daemon of a refusing file system takes wishes, see ``refusing.py``.

    Raises:
        Unavailable: where it cannot be mounted on this machine.
    """

    def __init__(self, profile: NodeProfile, backing: Path, point: Path, control: Path) -> None:
        self.point = point
        self._command = _command(profile, backing, point, control)
        self._running: Running | None = None
        enter()
        self._mount()

    @property
    def is_there(self) -> bool:
        """Whether what is found at ``point`` is the backing directory; a daemon may have ended."""
        return _is_mounted(self.point)

    def again(self) -> None:
        """Unmount and mount anew: whatever the node remembered of names is forgotten."""
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
            # The kernel tells of every change of the table of mounts.
            poll.register(table, select.POLLPRI | select.POLLERR)
            deadline = time.monotonic() + _PATIENCE
            while not _is_mounted(self.point):
                if started.has_ended or time.monotonic() > deadline:
                    self._running = None
                    said = started.wait(time.monotonic()).output.strip().splitlines()
                    why = said[-1] if said else "it does not say why"
                    raise Unavailable(f"{Path(program).name} cannot mount a directory: {why}")
                poll.poll(_STEP_MS)


def lacking() -> str:
    """What this machine lacks for mounts of every profile; empty where it has all.

    This process has mounts of its own from here on, where that is allowed.
    """
    nowhere = Path()
    try:
        enter()
        for profile in (NodeProfile.NFS_DEFAULT, NodeProfile.STALE_HANDLES):
            _command(profile, nowhere, nowhere, nowhere)
    except Unavailable as reason:
        return str(reason)
    return ""


def _is_mounted(point: Path) -> bool:
    return os.path.ismount(point)


def _command(profile: NodeProfile, backing: Path, point: Path, control: Path) -> list[str]:
    """What mounts as a profile says, and ends when it is unmounted.

    Raises:
        Unavailable: where the machine lacks what it takes.
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
        except (OSError, AttributeError):  # it is missing, or too old
            raise Unavailable(
                "mfusepy finds no libfuse that it can use; apt-get install libfuse2"
            ) from None
        wishes = [str(backing), str(point), str(control), profile.value]
        return [sys.executable, "-I", str(_REFUSING), *wishes]
    program = shutil.which("bindfs")
    if program is None:
        raise Unavailable("the program bindfs is not installed; apt-get install bindfs")
    times = {"entry_timeout": 0, "attr_timeout": 0}
    if profile.early_names_stay:
        times["negative_timeout"] = LOOKUPS_STAY
    options = ",".join(f"{name}={value}" for name, value in times.items())
    # Without a lock of its own each mount's kernel side keeps its own table of locks.
    locks = [] if profile is NodeProfile.NFS_NOLOCK else ["--enable-lock-forwarding"]
    return [program, "-f", "--multithreaded", *locks, "-o", options, str(backing), str(point)]
