"""The settings of a training job, read from the shell script that launches it.

The script is read, never run: what it exports, assigns before a command, and repeats in a loop, so
that each process that it starts has its own settings.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    r"\bfor(?:\s+|\s*\(\()\s*(?P<name>\w+)(?:\s+in\s+(?:(?:\$\(|`)seq(?P<seq>(?:\s+\d+){1,3})\s*[)`]"
    r"|\{(?P<braces>\d+\.\.\d+(?:\.\.\d+)?)\}|(?P<list>[\d ]+\d))"
    r"|\s*=\s*(?P<first>\d+)\s*;\s*\w+\s*<(?P<last>=?\s*\d+)\s*;\s*(?:\+\+\w+|\w+\+\+))"
)
_FUNCTION = re.compile(
    r"\s*(?:function\s+([\w-]+)(?:\s*\(\s*\))?|([\w-]+)\s*\(\s*\))\s*\{(?P<rest>.*)", re.DOTALL
)
_ASKS = ("if", "elif", "case", "[", "[[", "test")
"""Words behind which a line's commands run or not."""

_BEFORE = ("then", "do", "else", "{", "(", "!", "time", "exec")
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
    were not understood, ``sourced`` the scripts that the script reads, which are not read here, and
    ``functions`` the lines of those that were not called."""

    settings: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    cards: int = 1
    processes: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0
    cut: int = 0
    unfollowed: dict[int, None] = field(default_factory=dict)
    sourced: dict[int, str] = field(default_factory=dict)
    functions: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _called: set[str] = field(default_factory=set)

    def call(self, name: str, arguments: Sequence[str], names: dict[str, str]) -> None:
        """Follow a function of the script; one that calls itself only once."""
        body = self.functions.pop(name)
        self._called.add(name)
        self.turns += 1
        given = {str(place): each for place, each in enumerate(arguments, start=1)}
        inner = {**names, **given}
        if self.turns < _MOST:
            _run(body, self, inner)
        names.update((key, value) for key, value in inner.items() if not key.isdecimal())
        self.functions[name] = body

    def conclude(self) -> None:
        """Name the settings of functions that nothing calls, as far as that is followed."""
        for name, body in self.functions.items():
            settings = (number for number, text in body if _OF_STACK.search(text))
            self.unfollowed.update(dict.fromkeys(settings if name not in self._called else ()))

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
    text = read_text(path, errors="replace").splitlines()
    lines = list[tuple[int, str]]()
    for number, each in enumerate(text, start=1):
        if lines and lines[-1][1].endswith("\\"):
            lines[-1] = (lines[-1][0], f"{lines[-1][1][:-1]} {each}")
        else:
            lines.append((number, each))
    _run(lines, job, {})
    job.conclude()
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
        if (function := _FUNCTION.match(raw)) is not None:
            body = _body_of_function(lines, at, function)
            job.functions[function[1] or function[2]] = body
            at += max(len(body), 1)
            continue
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


def _body_of_function(
    lines: list[tuple[int, str]], at: int, function: re.Match[str]
) -> list[tuple[int, str]]:
    """Return the lines of a function, of which the first may stand beside its name."""
    number, rest = lines[at][0], function["rest"].rstrip()
    if rest.endswith("}"):
        return [(number, rest[:-1])]
    body = [(number, rest)]
    for each in lines[at + 1 :]:
        if each[1].lstrip().startswith("}"):
            return [*body, (each[0], "")]
        body.append(each)
    return body


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
        names[loop["name"]] = str(value)
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
    if loop["list"] is not None:
        return map(int, loop["list"].split())
    if loop["first"] is not None:
        last = loop["last"].lstrip("=")
        return range(int(loop["first"]), int(last) + loop["last"].startswith("="))
    first, *others = map(int, re.findall(r"\d+", loop["seq"] or loop["braces"]))
    if loop["seq"] is not None:  # its step stands in the middle, or it counts from one
        others = others[::-1]
        first, others = (first, others) if others else (1, [first])
    last, step = int(others[0]), max(others[1] if len(others) > 1 else 1, 1)
    return range(first, last + 1, step)


def _expanded(line: str, values: dict[str, str]) -> str:
    line = _USE.sub(lambda use: values.get(use[1] or use[2], use[0]), line)
    return _SUM.sub(lambda sum_: str(int(sum_[1]) + int(sum_[2] + sum_[3])), line)


def _follow(number: int, line: str, job: TrainingJob, names: dict[str, str]) -> None:
    """Take the assignments of a line's commands; those before a program are for its process alone.
    What is behind a question runs or not, and is not followed."""
    settings = {*_OF_STACK.findall(line.partition("#")[0])}
    job.unfollowed.update({number: None} if settings else {})
    try:
        commands = _commands(line)
    except ValueError:
        return  # part of a text over several lines
    followed: set[str] = set()
    for words in commands:
        while words and words[0] in _BEFORE:
            del words[0]
        if words and words[0] in _ASKS:
            break
        followed |= _take(number, words, job, names).keys()
    if settings <= followed:
        job.unfollowed.pop(number, None)


def _commands(line: str) -> list[list[str]]:
    """Split a line into the words of its commands. Raises ``ValueError`` for half a quotation."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word.strip(";&|"):
            commands[-1].append(word)
        else:
            commands.append([])
    return commands


def _take(number: int, words: list[str], job: TrainingJob, names: dict[str, str]) -> dict[str, str]:
    """Take one command's assignments, and return them."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word)
        if match is not None:
            found[match[1]] = match[2]
        elif word in ("source", ".") and len(words) > at + 1:
            job.sourced[number] = words[at + 1]
            break
        elif word in job.functions:
            own = {**names, **found}
            job.call(word, words[at + 1 :], own)
            names.update((key, own[key]) for key in own.keys() - found.keys())
            break
        elif word not in ("export", "env", "declare", "-x", "nohup"):
            if _STARTS.fullmatch(word) and not _LAUNCHER.search(" ".join(words)) and len(words) > 1:
                job.processes.append({**names, **found})
            break
    else:
        names.update(found)
    for name, value in found.items():
        job.settings[name], job.lines[name] = value, number
    return found


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
