"""Running op_compiler and packages. They are stopped if the other cards cannot go on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from pytest_ascendcache.reference.fork import exit_with, is_warm, take_output
from pytest_ascendcache.reference.meeting import poll
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

_WORDS = 1000
"""Characters of a program's output that an error shows."""

_STOPPING = 10.0
"""Seconds that a program may take to end after SIGTERM before it is killed."""


@dataclass(frozen=True)
class EndedProgram:
    """A program's exit status and output."""

    status: int
    output: str

    @property
    def words(self) -> str:
        """Exit status and output on one line, for an error."""
        text = " ".join(self.output.split())
        if len(text) > _WORDS:  # the cause is printed first, its consequences last
            text = f"{text[: _WORDS // 2]} ... {text[-_WORDS // 2 :]}"
        return f"ended with {self.status}: {text or 'it printed nothing'}"


def run(argv: Sequence[str], environ: Mapping[str, str], cards: Cards) -> EndedProgram:
    """Run a command to its end. A warm process forks instead if it has loaded a package's code.

    Raises ``StaticKernelError`` if it cannot be started, and ``CardsError`` if the other cards
    cannot go on meanwhile; the command is stopped first.
    """
    if is_warm():
        from pytest_ascendcache.reference.static_kernel import resident

        installer = resident.resident(argv, environ)
        if installer is not None and installer.words in resident.LOADED:
            return run_embedded(lambda: resident.start(installer.command, environ), cards)
    with tempfile.TemporaryFile() as output:
        try:
            # In its own session, an installation is not interrupted by a Ctrl-C that is meant for
            # the user's script.
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                start_new_session=True,
            )
        except OSError as error:
            raise StaticKernelError(f"{argv[0]} cannot be started: {error.strerror}.") from None
        _wait(process.pid, cards)
        return EndedProgram(process.wait(), _text(output))


def run_embedded(program: Callable[[], int], cards: Cards) -> EndedProgram:
    """Like :func:`run`, but the program runs in a fork of this process, which has no threads."""
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            exit_with(lambda: _embedded(program, output.fileno()))
        _wait(child, cards)
        _, status = os.waitpid(child, 0)
        return EndedProgram(os.waitstatus_to_exitcode(status), _text(output))


def _embedded(program: Callable[[], int], output: int) -> int:
    """Run the program in the child, in a session of its own.

    Connections to other cards are closed, so that they end with the card's own process.
    """
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    take_output(output, output)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    return program()


def _wait(child: int, cards: Cards) -> None:
    """Wait for a child to end. If the wait is interrupted, the child is stopped."""
    descriptor = os.pidfd_open(child)
    try:
        cards.wait(descriptor)
    except BaseException:
        _stop(child, descriptor)
        raise
    finally:
        os.close(descriptor)


def _stop(child: int, descriptor: int) -> None:
    """End a child and its children: with SIGTERM, then with SIGKILL."""
    deadline = time.monotonic() + _STOPPING
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, number)
        if poll([descriptor], deadline):
            break
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode("utf-8", "replace")
