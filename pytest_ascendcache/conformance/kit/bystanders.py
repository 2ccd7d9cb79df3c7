"""Processes around an installation: one that holds a package, and one that only looks like it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.observation import NotDecidable, StaticKernelsUnderTest
from pytest_ascendcache.observation.gated_run import ByHand
from pytest_ascendcache.toolchains import Program, StaticRequest, StaticResult

_PATIENCE = 120.0
"""Seconds that an installation may take on a busy machine."""

_HOLDER = """\
import os, subprocess, sys
environment = {key: each for key, each in os.environ.items() if not key.startswith("ASCENDCACHE_")}
quiet = subprocess.DEVNULL
for line in sys.stdin:
    try:
        command = [line.rstrip("\\n")]
        ended = subprocess.run(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)
        print(ended.returncode, flush=True)
    except OSError:
        print(127, flush=True)
"""
_TERMINAL = """\
import fcntl, os, pty, struct, subprocess, sys, termios
master, slave = pty.openpty()
os.write(master, sys.argv[2].encode())
subprocess.run(sys.argv[3:], stdin=slave, check=False)
left = struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, bytes(4)))[0]
with open(sys.argv[1], "w") as file:
    print(left, file=file)
"""
_SMALL_FILES = """\
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execvp(sys.argv[2], sys.argv[2:])
"""
_WAITS = "print(flush=True); input()"
_REWRITES = """\
import pathlib, sys
root = pathlib.Path(sys.argv[1])
shared = [each for each in (root / "config.ini", *root.glob("config/**/*")) if each.is_file()]
read = {each: each.read_bytes() for each in shared}
print(flush=True)
input()
for path, data in read.items():
    path.write_bytes(data)
"""
ANSWERS = "n\n" * 8


@dataclass(frozen=True)
class HoldingProcess:
    """A process that installs a package and uninstalls it again."""

    kernels: StaticKernelsUnderTest
    process: subprocess.Popen[str]
    package: Path
    script: Path

    def begin(self) -> int:
        """Install the package. Returns the exit status."""
        return self._do(self.package)

    def end(self) -> int:
        """Uninstall the package and end the process. Returns the exit status, 127 if there is no
        script."""
        status = self._do(self.script)
        self.process.communicate()
        return status

    def kill(self, reaped: bool = True) -> None:
        """Kill the process with SIGKILL. One that its parent does not wait for, as in a container
        without an init process, remains as a zombie."""
        self.process.kill()
        if reaped:
            self.process.communicate()
        else:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def _do(self, path: Path) -> int:
        request = ByHand(str(path), self.kernels.work)
        return self.kernels.toolchain.by_hand(request, lambda: self._status_of(path))

    def _status_of(self, path: Path) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answer = _line(self.process)
        if not answer.strip():
            raise NotDecidable("the process that holds a package has died")
        return int(answer)


@contextmanager
def holder(kernels: StaticKernelsUnderTest, package: Path) -> Iterator[HoldingProcess]:
    """A holder that has not installed anything yet; it lives until it is ended."""
    script = kernels.installed.ai_core / package.stem / "uninstall.sh"
    environment = {**os.environ, "ASCEND_OPP_PATH": str(kernels.opp)}
    with _started([sys.executable, "-c", _HOLDER], kernels.work, environment) as process:
        yield HoldingProcess(kernels, process, package, script)


@contextmanager
def vendors_script(kernels: StaticKernelsUnderTest, name: str) -> Iterator[Callable[[], None]]:
    """Run a script of CANN's packages that has read the shared files, and takes its time. What is
    yielded has it write them in place: what it read, whatever was written since."""
    scripts = kernels.installed.ai_core / "cann" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / name).write_text(_REWRITES)
    command = ["python3", str(scripts / name), str(kernels.installed.ai_core)]
    with _started(command, kernels.work, dict(os.environ)) as process:
        _line(process)

        def goes_on() -> None:
            process.communicate("\n")
            shutil.rmtree(scripts.parent)

        yield goes_on


@contextmanager
def a_program_named(kernels: StaticKernelsUnderTest, name: str) -> Iterator[None]:
    """Run a Python program of this name that has nothing to do with packages."""
    path = kernels.directory("other") / name
    path.write_text(_WAITS)
    with _started(["python3", str(path)], kernels.work, dict(os.environ)) as process:
        _line(process)
        yield


def on_a_terminal(kernels: StaticKernelsUnderTest, package: Path) -> int:
    """Run a package on a terminal on which :data:`ANSWERS` are typed. Returns how many bytes of
    them were not read."""
    report = kernels.directory("terminal") / "said"
    arguments = (sys.executable, "-c", _TERMINAL, str(report), ANSWERS, str(package))
    result = kernels.attempt(
        StaticRequest(Program.PACKAGE, arguments, kernels.work, opp=kernels.opp)
    )
    if not result.succeeded:
        reason = result.output.strip().rpartition("\n")[2]
        raise NotDecidable(f"there is no terminal here: {reason}")
    return int(report.read_text())


def with_small_files(
    kernels: StaticKernelsUnderTest, earlier: StaticResult, output: Path, size: int
) -> StaticResult:
    """Repeat a run of op_compiler into ``output`` with a limit on file sizes, in bytes."""
    argv = list(earlier.argv)
    argv[argv.index("-o") + 1] = str(output)
    arguments = (sys.executable, "-c", _SMALL_FILES, str(size), *argv)
    request = StaticRequest(
        Program.PACKAGE, arguments, kernels.work, environment=earlier.request.environment
    )
    return kernels.attempt(request)


@contextmanager
def _started(
    command: list[str], work: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process that ends when its standard input closes, so at the latest with this process."""
    work.mkdir(exist_ok=True)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=work, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _PATIENCE)[0]:
        raise NotDecidable(
            f"a process beside the installation printed nothing within {_PATIENCE:g} s"
        )
    return process.stdout.readline()
