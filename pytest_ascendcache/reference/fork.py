"""What a forked child does to become a program of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

_EX_SOFTWARE = 70
_warm = False


def is_warm() -> bool:
    """Whether this process was forked from one that has loaded every program, and has no threads:
    it may fork what it would otherwise start anew."""
    return _warm


def stay_warm() -> None:
    """Say so; a child of the fork server does."""
    global _warm
    _warm = True


def exit_with(program: Callable[[], int]) -> NoReturn:
    """Run a program in a child that was just forked, and end with its exit status.

    Nothing of the parent's runs after it, whatever the program raises.
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
    """Write to these descriptors from now on, and let go of everything else of the parent's."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.closerange(3, 4096)
