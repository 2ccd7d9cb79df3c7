"""The settings of a training job, read from the shell script that launches it.

The script is read, never run: what it exports, assigns before a command, and repeats in a loop.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.files import read_text
from pytest_ascendcache.release.environment import RANK, environment_problems
from pytest_ascendcache.release.problem import Problem

_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_LOOP = re.compile(
    r"\bfor\s+\(?\(?\s*(\w+)(?:\s+in\s+(?:\$\(seq\s+(\d+)\s+(\d+)\)|\{(\d+)\.\.(\d+)\})"
    r"|\s*=\s*(\d+)\s*;\s*\w+\s*<\s*(\d+))"
)
_LAUNCHER = re.compile(r"(?:--nproc[-_]per[-_]node|--worker_num|--local_worker_num)[= ](\d+)")
_SIZE = ("RANK_SIZE", "WORLD_SIZE", "DEVICE_NUM")


@dataclass(frozen=True)
class Job:
    """Settings by name with the line of each, and how many processes the script starts."""

    settings: dict[str, str]
    lines: dict[str, int]
    cards: int


def read_job(path: Path) -> Job:
    """Read a launch script. Raises ``OSError`` if it cannot be read."""
    settings: dict[str, str] = {}
    lines: dict[str, int] = {}
    cards = 1
    for number, line in enumerate(read_text(path, errors="replace").splitlines(), start=1):
        for name, value in _assignments(line):
            settings[name], lines[name] = value, number
        if (loop := _LOOP.search(line)) is not None:
            first, last = (int(each) for each in loop.groups()[1:] if each is not None)
            cards = max(cards, last - first + (0 if loop[6] is not None else 1))
        if (launched := _LAUNCHER.search(line)) is not None:
            cards = max(cards, int(launched[1]))
    for name in _SIZE:
        if settings.get(name, "").isdecimal():
            cards = max(cards, int(settings[name]))
    return Job(settings, lines, cards)


def _assignments(line: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return []  # part of a text over several lines
    found = []
    for index, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word.rstrip(";"))
        is_set = all(
            each in ("export", "env", "declare", "-x") or _ASSIGNMENT.fullmatch(each.rstrip(";"))
            for each in words[:index]
        )
        if match is not None and is_set:
            found.append((match[1], match[2]))
    return found


def job_problems(job: Job) -> list[tuple[int, Problem]]:
    """Return what is wrong with a job's settings, each with its line, in their order."""
    settings = {
        name: value
        for name, value in job.settings.items()
        if not ("$" in value and name in (RANK, "DEVICE_ID"))
    }
    found = [
        (next((job.lines[name] for name in job.lines if name in each.found), 0), each)
        for each in environment_problems(settings, job.cards, with_limits=True)
    ]
    return sorted(found, key=lambda each: each[0])
