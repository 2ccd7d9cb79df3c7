"""Turns a forked child into a separate program."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

_EX_SOFTWARE = 70
_warm = False


def is_warm() -> bool:
    """Whether this process was forked from one that has loaded every program and has no threads.

    Such a process may fork a program instead of starting it.
    """
    return _warm


def stay_warm() -> None:
    """Mark this process, a child of the fork server, as warm."""
    global _warm
    _warm = True


def exit_with(program: Callable[[], int]) -> NoReturn:
    """Run a program in a child that was just forked, and end the child with its exit status.

    No code of the parent runs afterwards, whatever the program raises.
    """
    status = _EX_SOFTWARE
    try:
        status = program()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


def take_output(output: int, errors: int) -> None:
    """Make these descriptors standard output and error, and close all others of the parent."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.closerange(3, 4096)
