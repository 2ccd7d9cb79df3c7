"""Running op_compiler and packages: bounded by the other cards, and never left behind."""

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
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

_WORDS = 1000
"""Characters of a program's output that an error shows."""

_STOPPING = 10.0
"""Seconds a program may take to end by itself once it is no longer wanted."""


@dataclass(frozen=True)
class Ended:
    """How a program ended, and the end of what it said."""

    status: int
    output: str

    @property
    def words(self) -> str:
        """For an error: exit status, and what it said."""
        text = " ".join(self.output.split())
        if len(text) > _WORDS:  # what is wrong comes first, what follows from it last
            text = f"{text[: _WORDS // 2]} ... {text[-_WORDS // 2 :]}"
        return f"ended with {self.status}: {text or 'it printed nothing'}"


def run(argv: Sequence[str], environ: Mapping[str, str], cards: Cards) -> Ended:
    """Run a command to its end; a package of which a warm process has the code is forked.

    Raises:
        StaticKernelError: where it cannot be started.
        CardsError: where the other cards cannot go on meanwhile; it is stopped first.
    """
    if is_warm():
        from pytest_ascendcache.reference.static_kernel import resident

        found = resident.resident(argv, environ)
        if found is not None and found.words in resident.LOADED:
            return run_embedded(lambda: found.run(environ), cards)
    with tempfile.TemporaryFile() as output:
        try:
            # A session of its own: a Ctrl-C that is meant for the user's script must not stop it
            # half-way through an install.
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
        return Ended(process.wait(), _text(output))


def run_embedded(program: Callable[[], int], cards: Cards) -> Ended:
    """Run a part of this toolchain in a fork of this process, as :func:`run`. Only for a process
    without threads."""
    with tempfile.TemporaryFile() as output:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            exit_with(lambda: _embedded(program, output.fileno()))
        _wait(child, cards)
        _, status = os.waitpid(child, 0)
        return Ended(os.waitstatus_to_exitcode(status), _text(output))


def _embedded(program: Callable[[], int], output: int) -> int:
    """The child: the program in a session of its own. Lines to other cards end with their card."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    take_output(output, output)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    return program()


def _wait(child: int, cards: Cards) -> None:
    """Wait for a child's end; it is stopped where anything keeps this from it."""
    descriptor = os.pidfd_open(child)
    try:
        cards.wait(descriptor)
    except BaseException:
        _stop(child, descriptor)
        raise
    finally:
        os.close(descriptor)


def _stop(child: int, descriptor: int) -> None:
    """End a child and its children: by request, then by force."""
    deadline = time.monotonic() + _STOPPING
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, number)
        if _ends(descriptor, deadline):
            break
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def _ends(descriptor: int, deadline: float) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode("utf-8", "replace")
