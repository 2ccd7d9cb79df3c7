"""Starting commands in a container or on a simulated other host, with process ids of its own, and
there with a host name too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pytest_ascendcache.processes.launch import Command, Launcher, ProcessLauncher, Running, tried

_BECOME = """
echo "$1" > /proc/sys/kernel/hostname && echo "$2" > /proc/sys/kernel/ns_last_pid || exit 125
shift 2
"$@"
exit $?
"""
"""The kernel numbers the next process one above ``ns_last_pid``."""

_SELF_TEST_PATIENCE = 20.0
_UNWRAPPED = ("strace",)


def another_host(name: str, process_id: int, command: Sequence[str]) -> tuple[str, ...]:
    """A command line that runs ``command`` with this process id on a host of this name."""
    unshare = ["/usr/bin/env", "unshare", "--uts", "--pid", "--fork", "--kill-child"]
    script = ["sh", "-c", _BECOME, "sh", name, str(process_id - 1)]
    return (*unshare, "--", *script, *command)


@lru_cache(maxsize=1)
def hosts_work() -> bool:
    """The positive control: whether two simulated hosts give their processes equal ids."""
    number = 4000
    script = ["sh", "-c", 'echo "$$ $(cat /proc/sys/kernel/hostname)"']
    for name in ("one", "two"):
        ended = tried(another_host(name, number, script), _SELF_TEST_PATIENCE)
        if ended is None or ended.stdout.split() != [str(number), name]:
            return False
    return True


def in_a_container(command: Sequence[str]) -> tuple[str, ...]:
    """A command line that runs ``command`` where it sees no other process of this host. This needs
    root, or a machine that lets users create namespaces, and the program ``unshare``."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    apart = ["--pid", "--fork", "--kill-child", "--mount-proc"]
    return ("/usr/bin/env", "unshare", *as_root, *apart, "--", *command)


@lru_cache(maxsize=1)
def containers_work() -> bool:
    """The positive control: whether this machine lets the user do this."""
    ended = tried(in_a_container(["sh", "-c", "echo $$"]), _SELF_TEST_PATIENCE)
    return ended is not None and ended.stdout.split() == ["1"]


@dataclass(frozen=True)
class HostLauncher:
    """Starts a toolchain's programs with ``wrap`` applied to their command lines. Programs started
    by a path, and strace, go to ``launcher`` unchanged."""

    launcher: Launcher
    wrap: Callable[[Sequence[str]], tuple[str, ...]]

    def argv(self, program: str, arguments: Sequence[str]) -> tuple[str, ...]:
        words = self.launcher.argv(program, arguments)
        return words if self._is_unwrapped(program) else self.wrap(words)

    def start(self, command: Command) -> Running:
        if self._is_unwrapped(command.program):
            return self.launcher.start(command)
        first, *rest = self.argv(command.program, command.arguments)
        return ProcessLauncher({}).start(replace(command, program=first, arguments=rest))

    def close(self) -> None:
        """Nothing to do: ``launcher`` is closed by its owner."""

    def _is_unwrapped(self, program: str) -> bool:
        return "/" in program or program in _UNWRAPPED
