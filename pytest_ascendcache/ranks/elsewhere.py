"""Workers on other hosts, which xdist reaches by ``--tx ssh=...`` or ``--tx socket=...``."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from execnet.xspec import XSpec

_PATIENCE = 15
"""Seconds within which a host must answer. The whole run waits for it."""


def answers(spec: XSpec, was_silent: bool) -> bool:
    """Whether the host of a worker that died can start another one.

    A host behind ssh is asked. A socket server cannot be asked, because execnet's server ends with
    its first connection: it counts as silent if its worker ``was_silent``.
    """
    if spec.popen:
        return True
    if not spec.ssh:
        return not was_silent
    from execnet.gateway_io import ssh_args

    program, *arguments = ssh_args(spec)[:-1]
    own = ["-o", f"ConnectTimeout={_PATIENCE}", "-o", "BatchMode=yes"]
    try:
        # The last argument is a shell command on that host.
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
