"""Commands on what looks like another host: its own name, and process ids that begin anew."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.processes.launch import Launcher, ProcessLauncher, Running

_BECOME = """
echo "$1" > /proc/sys/kernel/hostname && echo "$2" > /proc/sys/kernel/ns_last_pid || exit 125
shift 2
"$@"
exit $?
"""
"""The kernel gives the next process the number behind the last one."""

_SELF_TEST_PATIENCE = 20.0
_STARTED_OTHERWISE = ("strace",)


def another_host(name: str, process_id: int, command: Sequence[str]) -> tuple[str, ...]:
    """A command line that runs ``command`` with this number on a host of this name."""
    own = ["/usr/bin/env", "unshare", "--uts", "--pid", "--fork", "--kill-child"]
    script = ["sh", "-c", _BECOME, "sh", name, str(process_id - 1)]
    return (*own, "--", *script, *command)


@lru_cache(maxsize=1)
def hosts_work() -> bool:
    """The positive control: whether two hosts here give their processes equal numbers."""
    number = 4000
    script = ["sh", "-c", 'echo "$$ $(cat /proc/sys/kernel/hostname)"']
    try:
        said = [
            subprocess.run(
                another_host(name, number, script),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SELF_TEST_PATIENCE,
                check=False,
                text=True,
            ).stdout.split()
            for name in ("one", "two")
        ]
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said == [[str(number), "one"], [str(number), "two"]]


@dataclass(frozen=True)
class HostLauncher:
    """Starts a toolchain's programs, each with ``wrap`` around its command line; strace and what
    is named by a path as ``launcher`` does."""

    launcher: Launcher
    wrap: Callable[[Sequence[str]], tuple[str, ...]]

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """See :class:`Launcher`."""
        words = self.launcher.argv(program, arguments)
        return words if self._as_it_is(program) else self.wrap(words)

    def start(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        work: Path,
        umask: int | None,
    ) -> Running:
        """See :class:`Launcher`."""
        if self._as_it_is(program):
            return self.launcher.start(program, arguments, environment, work, umask)
        first, *rest = self.argv(program, arguments)
        return ProcessLauncher({}).start(first, rest, environment, work, umask)

    def close(self) -> None:
        """The other launcher is not this one's to end."""

    def _as_it_is(self, program: str) -> bool:
        return "/" in program or program in _STARTED_OTHERWISE
