"""The settings of a training job, read from the shell script that launches it.

The script is read, never run: what it exports, assigns before a command, and repeats in a loop, so
that each process that it starts has its own settings.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.contract.ranks import TIMEOUT
from pytest_ascendcache.files import read_text
from pytest_ascendcache.release.environment import (
    DIRECTORIES,
    LOCAL_SIZE,
    MS_CACHE,
    NAMES,
    RANK,
    TORCH_MODE,
    environment_problems,
)
from pytest_ascendcache.release.problem import Problem

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LOOP = re.compile(
    r"\bfor\s+\(?\(?\s*(\w+)(?:\s+in\s+(?:\$\(seq\s+(\d+)\s+(\d+)\)|\{(\d+)\.\.(\d+)\}|([\d ]+\d))"
    r"|\s*=\s*(\d+)\s*;\s*\w+\s*<\s*(\d+))"
)
_OPENS, _CLOSES = re.compile(r"\s*(?:for|while|until)\b"), re.compile(r"(?:^|[\s;])done\b")
_DO = re.compile(r"(?:^|[;\s])do\b(.*)")
_CHANGES = re.compile(
    r"\b(?:for\s*\(*\s*|read\s+)(\w+)|\b(\w+)\s*(?:[-+]?=|\+\+|--)|(?:\+\+|--)(\w+)"
)
"""What gives a variable another value."""

_MATTERS = re.compile(r"\w=|python|torchrun|msrun|mpirun|sh\b")
_OF_STACK = re.compile(r"\b(HCCL_CONNECT_TIMEOUT|RANK_ID|LOCAL_WORLD_SIZE|MS_COMPILER_CACHE_PATH)=")
_USE = re.compile(r"\$(?:\{(\w+)(?::?-[^{}]*)?\}|(\w+))")
_SUM = re.compile(r"\$\(\(\s*(\d+)\s*([+-])\s*(\d+)\s*\)\)")
_LAUNCHER = re.compile(r"(?:--nproc[-_]per[-_]node|--worker_num|--local_worker_num)[= ](\d+)")
_STARTS = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|msrun|mpirun|bash|sh|nohup|taskset)")
_SIZE = ("RANK_SIZE", "WORLD_SIZE", "DEVICE_NUM")
_OF_ALL = (LOCAL_SIZE, "RANK_SIZE", "WORLD_SIZE", TIMEOUT, TORCH_MODE, "HCCL_EXEC_TIMEOUT")
"""Settings that all processes of a job have alike."""

_MOST = 4096
"""Turns of all loops of a script that are followed."""


@dataclass
class TrainingJob:
    """Settings by name with the line of each, how many processes the script starts, and the
    settings of each of them that it starts by itself. ``cut`` is the line of a loop that was not
    followed to its end, after ``turns`` of all loops. ``unfollowed`` are the lines whose settings
    were not understood."""

    settings: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    cards: int = 1
    processes: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0
    cut: int = 0
    unfollowed: dict[int, None] = field(default_factory=dict)

    @property
    def unknown(self) -> list[tuple[int, str]]:
        """The settings, each with its line, whose values only a run would tell."""
        return [
            (self.lines[name], f"{name}={value}")
            for name, value in self.settings.items()
            if name in NAMES and is_unknown(value)
        ]


def read_job(path: Path) -> TrainingJob:
    """Read a launch script. Raises ``OSError`` if it cannot be read."""
    job = TrainingJob()
    lines = read_text(path, errors="replace").splitlines()
    _run(list(enumerate(lines, start=1)), job, {})
    for name in _SIZE:
        if job.settings.get(name, "").isdecimal():
            job.cards = max(job.cards, int(job.settings[name]))
    job.cards = max(job.cards, len(job.processes))
    return job


def _run(lines: list[tuple[int, str]], job: TrainingJob, names: dict[str, str]) -> None:
    """Follow lines of a script; ``names`` are the variables that are set so far."""
    at = 0
    while at < len(lines):
        number, raw = lines[at]
        line = _expanded(raw, names)
        loop, end = _LOOP.search(line), _end_of_loop(lines, at)
        if loop is not None and (end > at or _CLOSES.search(raw)):
            _unroll(loop, _body(lines[at : end + 1]), job, names)
            at = end + 1
            continue
        if _OPENS.match(raw):  # which values its variables have in a turn, only a run would tell
            for match in _CHANGES.finditer("\n".join(text for _, text in lines[at : end + 1])):
                names.pop(next(filter(None, match.groups())), None)
            line = _expanded(next(iter(_DO.findall(raw)), ""), names)
        _follow(number, line, job, names)
        if (launched := _LAUNCHER.search(line)) is not None:
            job.cards = max(job.cards, int(launched[1]))
        at += 1


def _body(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines of a loop that are repeated, some of which may stand beside its head."""
    number, head = lines[0][0], next(iter(_DO.findall(lines[0][1])), "")
    if len(lines) > 1:
        return [(number, head), *lines[1:-1]]
    return [(number, head.rpartition("done")[0])]


def _unroll(
    loop: re.Match[str], body: list[tuple[int, str]], job: TrainingJob, names: dict[str, str]
) -> None:
    """Follow each turn of a loop, while there are few."""
    if not any(_MATTERS.search(text) for _, text in body):
        return
    for value in _values(loop):
        if job.turns >= _MOST:
            job.cut = job.cut or body[0][0]
            return
        job.turns += 1
        names[loop[1]] = str(value)
        _run(body, job, names)


def _end_of_loop(lines: list[tuple[int, str]], at: int) -> int:
    """Return the index of the line that ends the loop of a line."""
    depth = 0
    for index in range(at, len(lines)):
        depth += _OPENS.match(lines[index][1]) is not None
        depth -= len(_CLOSES.findall(lines[index][1].partition("#")[0]))
        if depth <= 0:
            return index
    return at


def _values(loop: re.Match[str]) -> Iterable[int]:
    if loop[6] is not None:
        return map(int, loop[6].split())
    first, last = (int(each) for each in loop.groups()[1:] if each is not None)
    return range(first, last + (loop[8] is None))


def _expanded(line: str, values: dict[str, str]) -> str:
    line = _USE.sub(lambda use: values.get(use[1] or use[2], use[0]), line)
    return _SUM.sub(lambda sum_: str(int(sum_[1]) + int(sum_[2] + sum_[3])), line)


def _follow(number: int, line: str, job: TrainingJob, names: dict[str, str]) -> None:
    """Take a line's assignments; those before a command are for its process alone."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return  # part of a text over several lines
    found: dict[str, str] = {}
    job.unfollowed.update({number: None} if _OF_STACK.search(line.partition("#")[0]) else {})
    for word in words:
        match = _ASSIGNMENT.fullmatch(word.rstrip(";"))
        if match is not None:
            found[match[1]] = match[2]
        elif word not in ("export", "env", "declare", "-x", "nohup"):
            if _STARTS.fullmatch(word) and not _LAUNCHER.search(line) and len(words) > 1:
                job.processes.append({**names, **found})
            break
    else:
        names.update(found)
    if {*_OF_STACK.findall(line.partition("#")[0])} <= {*found}:
        job.unfollowed.pop(number, None)
    for name, value in found.items():
        job.settings[name], job.lines[name] = value, number


def job_problems(job: TrainingJob) -> list[tuple[int, Problem]]:
    """Return what is wrong with a job's settings, each with its line, in their order."""
    several = len(job.processes) > 1
    every = job.processes if several else [job.settings]
    found: dict[Problem, int] = {}
    for settings in every:
        known = {
            name: value if name in DIRECTORIES or not is_unknown(value) else ""
            for name, value in settings.items()
            if name.isupper()
        }
        rank = {RANK: known.pop(RANK)} if several and RANK in known else {}
        problems = environment_problems(known, job.cards, with_limits=True)
        for each in [*problems, *environment_problems(rank)]:
            found.setdefault(each, _line_of(job, each))
    for each in _between(job.processes) if several else ():
        found.setdefault(each, _line_of(job, each))
    if job.cut:
        turns = f"more than {_MOST} turns of loops, and no later one is followed"
        found[Problem(turns, "a loop that starts the processes of one machine")] = job.cut
    return sorted(((line, each) for each, line in found.items()), key=lambda each: each[0])


def is_unknown(value: str) -> bool:
    """Return whether a value depends on what the script does not say."""
    return "$" in value or "`" in value


def _line_of(job: TrainingJob, problem: Problem) -> int:
    return next((job.lines[name] for name in job.lines if name in problem.found), 0)


def _between(processes: list[dict[str, str]]) -> Iterator[Problem]:
    """Report processes that share a directory, and settings that are not alike."""
    places = Counter(
        (each[RANK], each.get(MS_CACHE, ""))
        for each in processes
        if each.get(RANK, "$").isdecimal() and "$" not in each.get(MS_CACHE, "")
    )
    for (rank, _), number in sorted(places.items()):
        if number > 1:
            yield Problem(
                f"{RANK}={rank} for {number} of {len(processes)} processes: they share one "
                "directory",
                "a number of its own for each process",
            )
    for name in _OF_ALL:
        said = [each.get(name, "unset") for each in processes]
        values = {at: each for at, each in enumerate(said) if not is_unknown(each)}
        if len({*values.values()}) > 1:
            (most, _), *_others = Counter(values.values()).most_common()
            odd = next(index for index, value in values.items() if value != most)
            yield Problem(
                f"{name} is {values[odd]} for process {odd}, and {most} for others",
                "one value for all processes",
            )
