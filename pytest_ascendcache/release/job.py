"""The settings of a training job, read from the shell script that launches it.

The script is read, never run: see :mod:`shell`. Each process that it starts has its own settings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import join, normpath

from pytest_ascendcache.contract.ranks import TIMEOUT
from pytest_ascendcache.files import read_input
from pytest_ascendcache.release.environment import (
    DIRECTORIES,
    LOCAL_SIZE,
    MS_CACHE,
    NAMES,
    RANK,
    RANK_SIZE,
    TORCH_MODE,
    environment_problems,
    is_number,
)
from pytest_ascendcache.release.problem import Problem
from pytest_ascendcache.release.shell import Record, follow
from pytest_ascendcache.release.shell_starts import StartedProcess
from pytest_ascendcache.release.shell_words import MOST, ShellVariable, is_unknown
from pytest_ascendcache.words import count

_SIZES = (RANK_SIZE, "WORLD_SIZE", "DEVICE_NUM")
_OF_ALL = (LOCAL_SIZE, RANK_SIZE, "WORLD_SIZE", TIMEOUT, TORCH_MODE, "HCCL_EXEC_TIMEOUT")
"""Settings that all processes of a job have alike."""

_OF_CACHES = (
    *(*DIRECTORIES, RANK, LOCAL_SIZE, TIMEOUT, TORCH_MODE, "MS_COMPILER_CACHE_ENABLE"),
    *("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"),
)
"""Settings that do nothing unless a process has them."""

_COMMENT = re.compile(r"(?m)(^|\s)#.*")
_DECLARED = re.compile(r"\b(?:export|declare|typeset|local|readonly|unset|env)\s[^\n;&|)]*")
_BARE = re.compile(r"(?<=\s)(?:-u|--unset=)?\w+(?=\s|$)")
"""Names in what declares them, which reads none."""

_ASKED = re.compile(r"(?:\$\(|`)[^)`]*(?:python|\.py\b|\.sh\b)")
"""A program whose output is a value: it has what is exported so far."""

_LOOKED_AT = 64
"""Processes for which it is looked up which others run at the same time."""


@dataclass
class TrainingJob:
    """What a script sets, how many cards its processes have, and what is not decided, by line."""

    record: Record
    text: str
    cards: int = 1
    crlf: int = 0
    settings: dict[str, ShellVariable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = self.record.settings
        sizes = [each.value for name, each in self.settings.items() if name in _SIZES]
        counts = [each.count for each in self.processes]
        known = [int(each) for each in sizes if is_number(each)]
        self.cards = max([1, *known, *counts, *map(len, together(self.processes))])
        for process in self.processes:
            self._leave_open(process)
        rank = self.settings.get(RANK)
        nothing = not self.processes and not self.unfollowed and self.cards > 1
        if rank and nothing and not is_unknown(rank.value):
            self.unfollowed[rank.line] = "the script starts nothing that is known"

    @property
    def processes(self) -> list[StartedProcess]:
        """The processes of the job; what else is started, if none is known to be one."""
        return self.record.processes or self.record.guesses

    @property
    def number(self) -> str:
        """How many processes it has, in words."""
        if self.cards == 1 and any(each.repeats or not each.count for each in self.processes):
            return "processes whose number only a run would tell"
        return count(self.cards, "process", "processes")

    @property
    def unfollowed(self) -> dict[int, str]:
        """The lines that are not decided, each with the reason."""
        return self.record.unfollowed

    @property
    def sourced(self) -> dict[int, str]:
        """The scripts that the script reads, which are not read here."""
        return self.record.sourced

    @property
    def unknown(self) -> list[tuple[int, str]]:
        """The settings, each with its line, whose values only a run would tell."""
        every = [each.settings for each in self.processes] or [self.settings]
        found = {
            (each.line, name): f"{name}={each.value}"
            for settings in every
            for name, each in settings.items()
            if name in NAMES and is_unknown(each.value) and not each.why
        }
        return [(line, text) for (line, _), text in sorted(found.items())]

    def _leave_open(self, process: StartedProcess) -> None:
        for name, each in process.settings.items():
            if name in NAMES and each.why:
                self.unfollowed.setdefault(each.line, each.why)
        rank = process.settings.get(RANK)
        if rank and not is_unknown(rank.value) and _place(process):
            if process.repeats:
                self.unfollowed.setdefault(process.line, "how often its loop runs is not known")
            elif not process.count and not process.gives_ranks:
                what = f"how many processes have {RANK}={rank.value} is not known"
                self.unfollowed.setdefault(process.line, what)


def read_job(path: Path) -> TrainingJob:
    """Read a launch script. Raises ``OSError`` if it cannot be read."""
    text = read_input(path).decode(errors="replace")
    lines = text.split("\n")
    job = TrainingJob(follow(text.replace("\r\n", "\n")), text)
    set_at = sorted(each.line for name, each in job.settings.items() if name in NAMES)
    job.crlf = next((line for line in set_at if lines[line - 1].endswith("\r")), 0)
    return job


def job_problems(job: TrainingJob) -> list[tuple[int, Problem]]:
    """Return what is wrong with a job's settings, each with its line, in their order."""
    found: dict[Problem, int] = {}
    if job.crlf:
        ends = "the line ends in CR LF, and a shell takes the CR for a part of its last word"
        found[Problem(ends, "lines that end in LF")] = job.crlf
    for process in job.processes:
        for each in _alone(process, job.cards):
            found.setdefault(each, _line_of(process.settings, each) or process.line)
    if not job.processes:
        known = _known({name: each for name, each in job.settings.items() if name != RANK})
        for each in environment_problems(known, job.cards, with_limits=True):
            found.setdefault(each, _line_of(job.settings, each))
    for group in together(job.processes):
        for line, each in _between(group):
            found.setdefault(each, line)
    for line, each in _had_by_none(job):
        found[each] = line
    if job.record.cut and (job.processes or {*NAMES} & {*job.settings}):
        turns = f"more than {MOST} turns of loops, and no later one is followed"
        found[Problem(turns, "a loop that starts the processes of one machine")] = job.record.cut
    return sorted(((line, each) for each, line in found.items()), key=lambda each: each[0])


def together(processes: Sequence[StartedProcess]) -> list[list[StartedProcess]]:
    """Return the groups of processes that run at the same time."""
    groups: list[list[StartedProcess]] = []
    seen: set[int] = set()
    for process in processes:
        if id(process) not in seen and len(groups) < _LOOKED_AT:
            beside = (each for each in processes if each is process or each.is_beside(process))
            groups.append([*beside])
            seen.update(map(id, groups[-1]))
    return groups


def _alone(process: StartedProcess, cards: int) -> Iterator[Problem]:
    known = _known(process.settings)
    rank = {name: known[name] for name in (RANK, RANK_SIZE) if known.get(name)}
    known.pop(RANK, None)
    yield from environment_problems(known, cards, with_limits=True)
    if not process.gives_ranks:
        yield from environment_problems(rank, process.count or cards)


def _known(settings: Mapping[str, ShellVariable]) -> dict[str, str]:
    return {
        name: each.value if name in DIRECTORIES or not is_unknown(each.value) else ""
        for name, each in settings.items()
        if name.isupper()
    }


def _line_of(settings: Mapping[str, ShellVariable], problem: Problem) -> int:
    found = (each.line for name, each in settings.items() if problem.found.startswith(name))
    return next(found, 0)


def _value(process: StartedProcess, name: str) -> str:
    return process.settings.get(name, ShellVariable("")).value


def _place(process: StartedProcess) -> str:
    """Return where MindSpore keeps the kernels of a process; empty if nothing tells it apart from
    other places. Source: document M, the directory that the network is executed in."""
    place = normpath(join(process.directory, _value(process, MS_CACHE)))
    if _value(process, MS_CACHE).startswith("$"):
        place = _value(process, MS_CACHE)
    return "" if "$(" in place or "`" in place else place


def _between(group: Sequence[StartedProcess]) -> Iterator[tuple[int, Problem]]:
    """Report processes that share a directory, and settings that are not alike."""
    ranked = [each for each in group if RANK in each.settings or "RANK" in each.settings] or group
    if len(group) < 2:
        return
    places = Counter((_value(each, RANK), _place(each)) for each in ranked)
    shared = [
        (rank, number)
        for (rank, place), number in sorted(places.items())
        if number > 1 and is_number(rank) and place
    ]
    for rank, number in shared[:1]:
        last = [each for each in ranked if _value(each, RANK) == rank][-1]
        what = f"{RANK}={rank} for {number} of {len(group)} processes: they share one directory"
        what += f", and so do those of {len(shared) - 1} more numbers" if shared[1:] else ""
        yield last.settings[RANK].line, Problem(what, "a number of its own for each process")
    for name in _OF_ALL:
        said = [_value(each, name) or "unset" for each in ranked]
        values = {at: each for at, each in enumerate(said) if not is_unknown(each)}
        if len({*values.values()}) > 1:
            (most, _), *_others = Counter(values.values()).most_common()
            odd = next(index for index, value in values.items() if value != most)
            line = ranked[odd].settings.get(name, ShellVariable("")).line or ranked[odd].line
            what = f"{name} is {values[odd]} for process {odd}, and {most} for others"
            yield line, Problem(what, "one value for all processes")
    yield from _fewer_than_there_are(ranked)


def _fewer_than_there_are(group: Sequence[StartedProcess]) -> Iterator[tuple[int, Problem]]:
    """Report a LOCAL_WORLD_SIZE below the processes of one job that the script starts. Source:
    document S, the environment variable of several cards."""
    jobs: dict[tuple[str, ...], list[StartedProcess]] = {}
    for each in group:
        if each.count == 1 and each.program != "torchrun":  # which gives its own
            names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", LOCAL_SIZE)
            jobs.setdefault(tuple(_value(each, name) for name in names), []).append(each)
    for (*_, world, local), members in jobs.items():
        number = len({_value(each, "RANK") or id(each) for each in members})
        if is_number(world) and is_number(local) and 0 < int(local) < number <= int(world):
            what = f"{LOCAL_SIZE}={local}, and {number} processes of one job are started here"
            yield (
                members[0].settings[LOCAL_SIZE].line,
                Problem(what, f"{number}: the processes of one machine"),
            )


def _had_by_none(job: TrainingJob) -> Iterator[tuple[int, Problem]]:
    """Report what the script sets for processes, and each of those that it starts does not have.
    What it exports at last may be for the shell that reads it, unless it starts a whole job."""
    taken: dict[tuple[int, str], list[str]] = {}
    for name, setting in _missed(job):
        said = f"{name}={_in_words([*job.record.values[name]])}"
        line, words = job.record.lost.get(name, (0, ""))
        if words:
            taken.setdefault((line, words), []).append(said)
        elif line:
            what = f"{said} is set in a subshell that ends before it starts a process: none has it"
            yield setting.line, Problem(what, "an export of it in the shell that starts them")
        elif len(job.processes) > 1 or not setting.exported:
            what = f"{said} is set, and no process that the script starts has it"
            yield setting.line, Problem(what, "an export of it before they are started")
    for (line, words), settings in taken.items():
        what = f"{words} takes {', '.join(settings)} from the processes that the script starts"
        yield line, Problem(what, f"no {words} where they are started")


def _missed(job: TrainingJob) -> Iterator[tuple[str, ShellVariable]]:
    """Yield the settings that no process has, and nothing reads. A script that is read with
    ``source`` may export or read them, unless they are set behind it and taken away."""
    if not job.processes or job.unfollowed:
        return
    code = _DECLARED.sub(lambda found: _BARE.sub(" ", found[0]), _COMMENT.sub("", job.text))
    every = [*job.record.processes, *job.record.guesses]
    for name, setting in job.settings.items():
        words = job.record.lost.get(name, (0, ""))[1]
        is_read = re.search(rf"\b{name}\b(?!\+?=)", code) or (words and _ASKED.search(code))
        is_had = is_read or any(name in one.settings for one in every)
        is_known = not job.sourced or (words and setting.line > max(job.sourced))
        if name in _OF_CACHES and is_known and not is_had:
            yield name, setting


def _in_words(values: Sequence[str]) -> str:
    """Return the values that a loop gives a variable, in few words."""
    first = int(values[0]) if is_number(values[0]) else -1
    if len(values) > 2 and [*values] == [str(first + at) for at in range(len(values))]:
        return f"{values[0]}..{values[-1]}"
    return "|".join([*values[:4], "..."] if len(values) > 5 else values)
