"""Progress and remaining time of long runs: on a terminal, and only there."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TextIO

import pytest

Advance = Callable[[float], None]
"""Says that so much more is done: things of the bar's unit, or seconds."""

_INTERVAL = 0.5
"""Seconds between two titles: some terminals redraw their tabs for each."""

_COLUMNS, _ROWS = 80, 20
"""Size of a terminal that does not know its own, as in containers."""


@contextmanager
def progress_bar(
    what: str, total: float | None, unit: str, stream: TextIO | None = None
) -> Iterator[Advance]:
    """A bar with remaining time, which is gone when the work is done.

    ``total`` is how much there is to do, in ``unit`` ("entries", "s"); ``None`` where nobody
    knows. ``stream`` is where it goes (the standard error by default; see
    :func:`terminal_stream` within pytest). Without a terminal, and in CI, it says nothing.
    """
    stream = sys.stderr if stream is None else stream
    if not _is_watched(stream):
        yield lambda _: None
        return
    from tqdm import tqdm  # only where somebody looks

    # Neither a thread nor a semaphore for a bar: compiles are forked from this process.
    tqdm.monitor_interval = 0
    tqdm.set_lock(threading.RLock())
    columns = os.get_terminal_size(stream.fileno()).columns
    form = "{l_bar}{bar}| {n:.0f}/{total:.0f} {unit}, {remaining} left"
    with tqdm(
        total=total,
        desc=what,
        unit=unit,
        file=stream,
        leave=False,
        dynamic_ncols=bool(columns),
        ncols=None if columns else _COLUMNS,
        nrows=_ROWS,
        bar_format=form if total is not None else None,
    ) as bar:

        def advance(done: float) -> None:
            bar.update(done if total is None else max(0.0, min(done, total - bar.n)))

        yield advance


@contextmanager
def terminal_stream(config: pytest.Config) -> Iterator[TextIO | None]:
    """The true standard error of a run while pytest captures it; ``None`` where nobody looks.

    A worker of xdist has none: its output would run into that of the others.
    """
    if hasattr(config, "workerinput"):
        yield None
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
        descriptor = os.dup(2)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as stream:
        yield stream if _is_watched(stream) else None


@contextmanager
def run_progress(
    config: pytest.Config, what: str, total: float | None, unit: str
) -> Iterator[Advance]:
    """:func:`progress_bar` within a pytest run, whose output is captured."""
    with terminal_stream(config) as stream:
        if stream is None:
            yield lambda _: None
            return
        # Not in the middle of pytest's own line of dots.
        stream.write("\n")
        with progress_bar(what, total, unit, stream) as advance:
            yield advance


class TitleProgress:
    """How far a run is, in the title of the terminal: pytest's own lines stay as they are.

    A plugin of its own; it does nothing where nobody looks.
    """

    def __init__(self, config: pytest.Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._open = ExitStack()
        self._stream = self._open.enter_context(terminal_stream(config))
        self._clock = clock
        self._started = self._shown = clock()
        self._total = self._done = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._begin(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._begin(len(ids))

    def _begin(self, total: int) -> None:
        self._total = total
        self._started = self._shown = self._clock()

    def pytest_runtest_logfinish(self) -> None:
        self._done += 1
        now = self._clock()
        if now - self._shown < _INTERVAL:
            return
        self._shown = now
        left = (now - self._started) / self._done * max(0, self._total - self._done)
        self._title(f"ascendcache {self._done}/{self._total}, {in_words(left)} left")

    def pytest_unconfigure(self) -> None:
        self._title("")  # terminals put their own in its place
        self._open.close()
        self._stream = None

    def _title(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(f"\033]0;{text}\007")
            self._stream.flush()


def in_words(seconds: float) -> str:
    """A duration for people: ``40 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _is_watched(stream: TextIO) -> bool:
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    return os.environ.get("TERM") != "dumb" and stream.isatty()
