"""Workers on other hosts: what xdist's ``--tx ssh=...`` and ``--tx socket=...`` reach."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from execnet.xspec import XSpec

_PATIENCE = 15
"""Seconds a host may take to answer: the whole run waits for it."""


def is_elsewhere(spec: XSpec) -> bool:
    """Whether a worker is not simply a process of this host."""
    return not spec.popen


def answers(spec: XSpec, was_silent: bool) -> bool:
    """Whether the host of a worker that is no more can start another one.

    ssh is asked. A server of sockets is not, as execnet's ends with its first connection: where
    its worker ``was_silent``, so is the host.
    """
    if not is_elsewhere(spec):
        return True
    if not spec.ssh:
        return not was_silent
    from execnet.gateway_io import ssh_args

    program, *arguments = ssh_args(spec)[:-1]
    own = ["-o", f"ConnectTimeout={_PATIENCE}", "-o", "BatchMode=yes"]
    try:
        # The last argument is a command of the shell there.
        done = subprocess.run(
            [program, *own, *arguments, "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
