"""A warm process that forks runs of the stand-in atc (``tests/standins``)."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forking import Warm, serve, take_over


@contextlib.contextmanager
def standin_server() -> Iterator[Path]:
    """Run the process in this block. Yields the path of its socket."""
    with contextlib.closing(Warm(Path(__file__))) as server:
        yield server.place


def _warm_up() -> None:
    from standins import atc

    atc.warm()
    gc.collect()
    gc.freeze()


def _run(request: dict[str, Any], *streams: int) -> int:
    """Run the stand-in with the client's arguments, environment, directory and streams."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    take_over(request)
    os.umask(request["umask"])
    sys.argv = request["arguments"]
    from standins import atc

    atexit._clear()  # the handlers of the warm process
    try:
        return atc.main()
    finally:
        atexit._run_exitfuncs()


if __name__ == "__main__":
    sys.exit(serve(_warm_up, _run))
