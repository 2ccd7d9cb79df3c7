"""Processes beside an install: who holds a package, who only looks alike, and what surrounds it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.observation import NotDecidable, StaticKernelsUnderTest
from pytest_ascendcache.toolchains import Program, StaticRequest, StaticResult

_PATIENCE = 120.0
"""Seconds an install may take on a busy machine."""

_HOLDER = """\
import os, subprocess, sys
environment = {key: each for key, each in os.environ.items() if not key.startswith("ASCENDCACHE_")}
quiet = subprocess.DEVNULL
for line in sys.stdin:
    try:
        words = [line.rstrip("\\n")]
        ended = subprocess.run(words, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
        print(ended.returncode, flush=True)
    except OSError:
        print(127, flush=True)
"""
_TERMINAL = """\
import fcntl, os, pty, struct, subprocess, sys, termios
master, slave = pty.openpty()
os.write(master, sys.argv[2].encode())
ended = subprocess.run(sys.argv[3:], stdin=slave, check=False)
left = struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, bytes(4)))[0]
with open(sys.argv[1], "w") as file:
    print(ended.returncode, left, file=file)
"""
_SMALL_FILES = """\
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execvp(sys.argv[2], sys.argv[2:])
"""
_WAITS = "print(flush=True); input()"
ANSWERS = "n\n" * 8


@dataclass(frozen=True)
class Holder:
    """A process that has a package install itself, and uninstalls it."""

    process: subprocess.Popen[str]
    package: Path
    script: Path

    def begin(self) -> int:
        """Install; the exit status."""
        return self._do(self.package)

    def end(self) -> int:
        """Uninstall, and end; the exit status of the uninstall, 127 where there is no script."""
        status = self._do(self.script)
        self.process.communicate()
        return status

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self.process.kill()
        self.process.communicate()

    def _do(self, path: Path) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        return int(_line(self.process))


@contextmanager
def holder(kernels: StaticKernelsUnderTest, package: Path) -> Iterator[Holder]:
    """A process that lives as long as it is not told otherwise, and has done nothing yet."""
    script = kernels.installed.ai_core / package.stem / "uninstall.sh"
    environment = {**os.environ, "ASCEND_OPP_PATH": str(kernels.opp)}
    with _started([sys.executable, "-c", _HOLDER], kernels.work, environment) as process:
        yield Holder(process, package, script)


@contextmanager
def a_program_named(kernels: StaticKernelsUnderTest, name: str) -> Iterator[None]:
    """A Python program of this name, which has nothing to do with packages, is running."""
    path = kernels.directory("other") / name
    path.write_text(_WAITS)
    with _started(["python3", str(path)], kernels.work, dict(os.environ)) as process:
        _line(process)
        yield


def on_a_terminal(kernels: StaticKernelsUnderTest, package: Path) -> tuple[int, int]:
    """Run a package whose standard input is a terminal with :data:`ANSWERS` ready.

    Returns exit status, and bytes of the answers that nobody read.
    """
    said = kernels.directory("terminal") / "said"
    arguments = (sys.executable, "-c", _TERMINAL, str(said), ANSWERS, str(package))
    result = kernels.attempt(
        StaticRequest(Program.PACKAGE, arguments, kernels.work, opp=kernels.opp)
    )
    if not result.succeeded:
        raise NotDecidable(f"there is no terminal here: {result.output.strip()[-200:]}")
    ended, left = said.read_text().split()
    return int(ended), int(left)


def with_small_files(
    kernels: StaticKernelsUnderTest, whole: StaticResult, output: Path, size: int
) -> StaticResult:
    """An earlier run of op_compiler once more, into ``output``, where no file may be larger than
    ``size`` bytes."""
    given = list(whole.argv)
    given[given.index("-o") + 1] = str(output)
    arguments = (sys.executable, "-c", _SMALL_FILES, str(size), *given)
    request = StaticRequest(
        Program.PACKAGE, arguments, kernels.work, environment=whole.request.environment
    )
    return kernels.attempt(request)


@contextmanager
def _started(
    words: list[str], work: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process that ends when its standard input does, at the latest with this one."""
    work.mkdir(exist_ok=True)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, text=True, cwd=work, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _PATIENCE)[0]:
        raise NotDecidable(f"a process beside the install says nothing within {_PATIENCE:g} s")
    return process.stdout.readline()
