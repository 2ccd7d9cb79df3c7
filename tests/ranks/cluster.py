"""A simulated cluster: each host is a network namespace with its name, address and processes.

Tests start in the first namespace, the *street*. A cable connects it with every host. Nothing is
visible outside, and everything ends with the test process: a process holds each namespace open, and
ends when its pipe from the test process closes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from execnet.script import socketserver

_PORT = 8888
_LACKS = "hosts need root, unshare, nsenter and ip"
_STREET = """
ip link set lo up && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && echo ready && exec cat
"""
_HOST = 'echo "$1" >/proc/sys/kernel/hostname && ip link set lo up && echo ready && exec cat'


def _held(command: Sequence[str], stack: contextlib.ExitStack) -> subprocess.Popen[str]:
    """Start a process that creates its namespaces, and keeps them until its input ends."""
    started = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stack.callback(started.wait)
    for stream in (started.stdout, started.stderr, started.stdin):
        assert stream is not None
        stack.callback(stream.close)
    stack.callback(started.kill)
    assert started.stdout is not None
    assert started.stderr is not None
    if started.stdout.readline() != "ready\n":
        pytest.skip(f"{_LACKS}: {started.stderr.readline().strip() or 'no namespace'}")
    return started


@dataclass
class Host:
    """A host with its name, its address, and its first process."""

    name: str
    address: str
    cable: str
    street: int
    process: int

    def command(self, *words: str) -> list[str]:
        """Return a command line that runs ``words`` on the host."""
        number = str(self.process)
        return ["nsenter", "-t", number, "--net", "--uts", "--pid", "--mount", "--", *words]

    def cut_off(self) -> None:
        """Pull the cable. Packets are lost, and connections get no error."""
        pull = ["ip", "link", "set", self.cable, "down"]
        subprocess.run(["nsenter", "-t", str(self.street), "--net", *pull], check=True)

    def freeze(self) -> None:
        """Stop all processes of the host. Its kernel still answers, as on a host that swaps."""
        namespace = Path(f"/proc/{self.process}/ns/pid").readlink()
        stopped: set[int] = set()
        while fresh := set(_processes(namespace)) - stopped:
            for each in fresh:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
            stopped |= fresh


def _processes(namespace: Path) -> Iterator[int]:
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (each / "ns/pid").readlink() == namespace:
                yield int(each.name)


class Cluster:
    """Hosts ``a``, ``b``, ... that the street connects."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack, names: str = "ab") -> None:
        programs = ("unshare", "nsenter", "ip", "mount")
        if os.geteuid() != 0 or not all(map(shutil.which, programs)):
            pytest.skip(_LACKS)
        self._directory = directory
        self._stack = stack
        street = ["unshare", "--net", "--mount", "sh", "-c", _STREET]
        self._street = _held(street, stack).pid
        self.hosts = [self._host(number, name) for number, name in enumerate(names, 1)]

    def outside(self, *words: str) -> list[str]:
        """Return a command line that runs on the street, which reaches all hosts."""
        return ["nsenter", "-t", str(self._street), "--net", "--mount", "--", *words]

    def _host(self, number: int, letter: str) -> Host:
        own = ["--net", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
        name, cable, network = f"card-{letter}", f"to-{letter}", f"10.77.{number}"
        keeper = _held(
            self.outside("unshare", *own, "sh", "-c", _HOST, "sh", name), self._stack
        ).pid
        (first,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        host = Host(name, f"{network}.2", cable, self._street, int(first))
        for words in (
            self.outside(
                "ip", "link", "add", cable, "type", "veth", "peer", "eth0", "netns", first
            ),
            self.outside("ip", "address", "add", f"{network}.1/24", "dev", cable),
            self.outside("ip", "link", "set", cable, "up"),
            host.command("ip", "address", "add", f"{host.address}/24", "dev", "eth0"),
            host.command("ip", "link", "set", "eth0", "up"),
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{_LACKS}: {done.stderr.strip()}")
        return host

    # --- ways to reach workers --------------------------------------------------------------------

    def by_sockets(self, each: int) -> list[str]:
        """Start ``each`` socket servers of execnet on every host. Returns their ``--tx`` values."""
        addresses = []
        for host in self.hosts:
            for port in range(_PORT, _PORT + each):
                where = f"{host.address}:{port}"
                self._serve(
                    host.command(sys.executable, "-u", socketserver.__file__, where), "10.77"
                )
                addresses.append(f"socket={where}")
        return addresses

    def by_ssh(self, each: int) -> list[str]:
        """Start an sshd with a new key on every host. Returns ``each`` ``--tx`` values per host."""
        sshd = _sshd()
        for key in ("host", "user"):
            made = ["-N", "", "-f", str(self._directory / key)]
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", *made], check=True)
        (self._directory / "authorized").write_bytes((self._directory / "user.pub").read_bytes())
        (self._directory / "sshd_config").write_text(
            f"HostKey {self._directory}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
            f"AuthorizedKeysFile {self._directory}/authorized\n"
        )
        known = "".join(f"Host {host.name}\n  HostName {host.address}\n" for host in self.hosts)
        config = self._directory / "ssh_config"
        config.write_text(
            f"{known}Host *\n  IdentityFile {self._directory}/user\n  LogLevel ERROR\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        )
        self._add_user_of_sshd()
        for host in self.hosts:
            libraries = ":".join(map(str, sshd.parent.parent.glob("lib/*-linux-gnu")))
            daemon = [str(sshd), "-D", "-e", "-f", str(self._directory / "sshd_config")]
            self._serve(host.command("env", f"LD_LIBRARY_PATH={libraries}", *daemon), "listening")
        return [
            f"{each}*ssh=-F {config} {host.name}//python={sys.executable}" for host in self.hosts
        ]

    def _add_user_of_sshd(self) -> None:
        """Give the hosts a user ``sshd``, which the daemon needs when root starts it."""
        users = self._directory / "passwd"
        own = "sshd:x:74:74::/run/sshd:/usr/sbin/nologin\n"
        users.write_text(Path("/etc/passwd").read_text() + own)
        users.chmod(0o644)
        for host in self.hosts:
            bind = ["mount", "--bind", str(users), "/etc/passwd"]
            subprocess.run(host.command(*bind), check=True)

    def _serve(self, words: Sequence[str], sign: str) -> None:
        """Start a server, and wait for the output that shows that it listens."""
        server = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._stack.callback(server.wait)
        assert server.stdout is not None
        self._stack.callback(server.stdout.close)
        self._stack.callback(server.kill)
        output = []
        for line in server.stdout:
            output.append(line.strip())
            if sign in line:
                return
        pytest.skip(f"a server of hosts does not start here: {' '.join(output)}")


def _sshd() -> Path:
    """The installed sshd, or the one that ``ci/tools`` fetches."""
    places = f"{os.environ.get('PATH', '')}:/usr/sbin:{sys.prefix}/tools/usr/sbin"
    program = shutil.which("sshd", path=places)
    if program is None or not all(map(shutil.which, ("ssh", "ssh-keygen"))):
        pytest.skip("no sshd is installed; apt-get install openssh-server, or run ci/test")
    return Path(program)
