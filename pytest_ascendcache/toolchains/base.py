"""The base of toolchains that are commands, so that an adapter contains only its own part."""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pytest_ascendcache.processes.launch import Command, Ended, Launcher, Running, end_all
from pytest_ascendcache.processes.sleeping import UNWATCHED, wait_its_time
from pytest_ascendcache.toolchains.protocol import BaseToolchain, CompileRequest, CompileResult

Result = TypeVar("Result")
Started = tuple[Running, Callable[[Ended], Result]]
"""A started process, and what makes a result of its end."""

_LOG_FILES, _LOG_TAIL, _LOG_LINES, _LOG_WIDTH = 16, 65_536, 12, 400
"""Limits for logs: number of files, bytes of each, lines in total, characters of a line."""


class CommandToolchain(BaseToolchain, ABC):
    """A toolchain that is a command: one process for each request, with a deadline in seconds.
    ``keeps_logs`` says whether the command can be told where to write logs. A compile's lines of
    errors or warnings are part of what it says."""

    keeps_logs: bool = False

    def __init__(self, launcher: Launcher, deadline: float) -> None:
        self.launcher = launcher
        self._deadline = deadline
        self._longest = 0.0
        self._longest_of_one = 0.0

    @abstractmethod
    def command(self, request: CompileRequest) -> tuple[str, list[str]]:
        """The launcher's program and its arguments. Writes the files that the arguments name."""

    @abstractmethod
    def environment(self, request: CompileRequest) -> dict[str, str]:
        """The complete environment of the process."""

    @abstractmethod
    def delivered(self, request: CompileRequest) -> Sequence[Path]:
        """The path of each operator's result, whether or not the file exists."""

    def prepared(self, request: CompileRequest) -> CompileRequest:
        """The request, adapted to this toolchain before it is started."""
        return request

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        started = (self._start(self.prepared(each)) for each in requests)
        began = time.monotonic()
        results = wait_for_all(started, self._deadline, self._patience(requests))
        seconds = time.monotonic() - began
        if all(each.returncode is not None for each in results):
            self._longest = max(self._longest, seconds)
            each_took = seconds / max(1, _operators(requests))
            self._longest_of_one = max(self._longest_of_one, each_took)
            return [replace(each, seconds=seconds) for each in results]
        waited = min(self._deadline, round(seconds))
        return [
            each if each.returncode is not None else replace(each, deadline=waited)
            for each in results
        ]

    def _patience(self, requests: Sequence[CompileRequest]) -> float:
        """Seconds of sleep after which a process counts as hanging: many times what any run so far
        took. A process that is held on purpose may sleep."""
        if not self._longest or any(each.plan is not None for each in requests):
            return self._deadline
        expected = max(self._longest, self._longest_of_one * _operators(requests))
        return min(self._deadline, max(_SLEEP, _TIMES * expected))

    def close(self) -> None:
        self.launcher.close()

    def _start(self, request: CompileRequest) -> Started[CompileResult]:
        for directory in (request.output, request.work, request.home):
            directory.mkdir(parents=True, exist_ok=True)
        program, arguments = self.command(request)
        if request.plan is not None:
            program, arguments = self.fault_route().command(request.plan, program, arguments)
        environment = self.environment(request)
        environment = {
            name: value for name, value in environment.items() if name not in request.unset
        }
        running = self.launcher.start(
            Command(
                *(program, arguments, environment, request.work, request.umask),
                unprivileged=request.unprivileged,
            )
        )
        return running, partial(self._result, request, self.launcher.argv(program, arguments))

    def _result(
        self, request: CompileRequest, argv: tuple[str, ...], ended: Ended
    ) -> CompileResult:
        paths = self.delivered(request)
        result = CompileResult(
            request=request,
            argv=argv,
            environment={
                name: value
                for name, value in {"HOME": str(request.home), **request.environment}.items()
                if name not in request.unset
            },
            returncode=ended.returncode,
            deadline=self._deadline,
            output=ended.output,
            left_behind=ended.left_behind,
            printed=ended.printed,
            delivered=tuple(path if path.is_file() else None for path in paths),
        )
        if not self.keeps_logs:
            return result
        level = "WARNING" if result.succeeded else "ERROR"
        return replace(result, log=logged_lines(log_directory(request), level))


_SLEEP, _TIMES = 10.0, 5.0
"""Seconds that a process may sleep at least, and by how many times it may outlast others."""


def _operators(requests: Sequence[CompileRequest]) -> int:
    return sum(len(each.operators) for each in requests)


def wait_for_all(
    started: Iterable[Started[Result]], seconds: float, sleep: float = math.inf
) -> list[Result]:
    """Start processes, wait ``seconds`` for all of them, and return their results. When all of them
    sleep for ``sleep`` seconds, they hang. No process outlives this call, even if one cannot be
    started or the run is interrupted."""
    running: list[Started[Result]] = []
    results: list[Result] = []
    try:
        for each in started:
            running.append(each)
        patience = seconds
        for process, result in running:
            others = [each for each, _ in running if each is not process]
            ended, _ = wait_its_time(process, patience, sleep, others, UNWATCHED)
            results.append(result(ended))
            patience = min(patience, UNWATCHED) if ended.returncode is None else patience
    finally:
        end_all([process for process, _ in running[len(results) :]])
    return results


def log_directory(request: CompileRequest) -> Path:
    """The directory in which a command with ``keeps_logs`` writes its logs."""
    return request.output / "log"


def logged_lines(directory: Path, level: str) -> str:
    """The last lines of a level, such as ``[ERROR]``, of the log files below a directory, the
    newest file last. Log files may be huge or broken, so only the end of each is read."""
    files = [path for path in directory.rglob("*.log") if path.is_file()]
    lines: list[str] = []
    for path in sorted(files, key=lambda each: each.stat().st_mtime_ns)[-_LOG_FILES:]:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL))
            text = file.read(_LOG_TAIL).decode("utf-8", "replace")
        lines += [line[:_LOG_WIDTH] for line in text.splitlines() if f"[{level}]" in line]
    return "".join(f"{line}\n" for line in lines[-_LOG_LINES:])
