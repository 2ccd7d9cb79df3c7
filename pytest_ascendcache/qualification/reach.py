"""Which checks of the suite reach which lines of the reference.

Only a check that runs a changed line can notice a mutant. One run of the suite on the unchanged
reference, whose processes note the lines they run, shows which checks these are and how long each
takes. A check that fails there would fail with every mutant.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import pytest_ascendcache
from pytest_ascendcache.conformance import SUITE_NODES
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.reference.policies import Policies

_PACKAGE = Path(pytest_ascendcache.__file__).parent
FILES = tuple(sorted(str(each) for each in (_PACKAGE / "reference").rglob("*.py")))
"""The files of the reference; notes refer to them by their index."""
DIRECTORY, CHECK = "ASCENDCACHE_REACHED_IN", "PYTEST_CURRENT_TEST"
"""Environment variables: the directory of the notes, and the check that runs."""
_COMBINATIONS = "/test_combinations.py::"
_NOTE = struct.Struct("<HH")

Lines = frozenset[tuple[str, int]]
"""Lines, each by its file (relative to the package) and its number."""


def check_id(node: str) -> str:
    """A check's node id, independent of the directory in which pytest was started."""
    return SUITE_NODES + node.partition(" (")[0].rpartition(SUITE_NODES)[2]


@dataclass(frozen=True)
class Reach:
    """The lines that each check runs and the seconds it takes. Failed checks are in ``faults``."""

    lines: Mapping[str, Lines]
    seconds: Mapping[str, float]
    faults: Sequence[str]
    left_out: frozenset[str] = frozenset()

    def lacks(self, checks: Iterable[str]) -> list[str]:
        """Those of these checks that were not measured, such as new ones."""
        known = self.seconds.keys() | self.left_out
        return [each for each in checks if each not in known]

    def with_others(self, other: Reach) -> Reach:
        """This and a newer measurement, which wins if both have a check."""
        since = other.seconds.keys() | other.left_out
        stay = [each for each in self.faults if each.partition(": ")[0] not in since]
        return Reach(
            {**self.lines, **other.lines},
            {**self.seconds, **other.seconds},
            [*stay, *other.faults],
            (self.left_out - since) | other.left_out,
        )

    def checks(self, wanted: Lines) -> list[str]:
        """The checks that run one of these lines, the quickest first.

        A check without notes starts its processes in another way and may run any line.
        """
        found = {name for each in wanted for name in self._checks.get(each, ())}
        found |= {name for name in self.seconds if not self.lines.get(name)}
        return sorted(found & set(self.seconds), key=lambda name: (self.seconds[name], name))

    @cached_property
    def _checks(self) -> Mapping[tuple[str, int], set[str]]:
        found: dict[tuple[str, int], set[str]] = {}
        for name, lines in self.lines.items():
            for line in lines:
                found.setdefault(line, set()).add(name)
        return found

    @classmethod
    def read(cls, directory: Path, reports: Iterable[Mapping[str, Any]]) -> Reach:
        """Read the notes of processes and the JSON reports of the runs that left them."""
        checks = [each for report in reports for each in report["checks"]]
        seconds: dict[str, float] = {}
        faults = []
        left_out = set()
        for each in checks:
            name = check_id(each["check"])
            if each["verdict"] == "pass":
                seconds[name] = each["seconds"]
                continue
            left_out.add(name)
            if each["verdict"] != "not applicable":
                faults.append(f"{name}: {each['verdict']}, {each['message'].splitlines()[:1]}")
        lines = _of_all_that_share({name: _notes(directory / _file(name)) for name in seconds})
        return cls(lines, seconds, faults, frozenset(left_out))

    def save(self, path: Path) -> None:
        """Write it to a file."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        path.write_text(json.dumps(document, default=sorted), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Reach:
        """Read what :meth:`save` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        lines = {
            name: frozenset((file, number) for file, number in each)
            for name, each in document["lines"].items()
        }
        left_out = frozenset(document.get("left_out", ()))
        return cls(lines, document["seconds"], document["faults"], left_out)


def _of_all_that_share(lines: Mapping[str, Lines]) -> dict[str, Lines]:
    """The lines of each check and of all that share its run of the toolchain."""
    met: dict[str, Lines] = {}
    for name, each in lines.items():
        met[_shared_run(name)] = met.get(_shared_run(name), frozenset()) | each
    return {name: met[_shared_run(name)] for name in lines}


def _shared_run(check: str) -> str:
    module, _, parameters = check.partition("[")
    return f"{module.partition('::')[0]}[{parameters}" if _COMBINATIONS in module else check


def _file(check: str) -> str:
    return hashlib.sha256(check.encode()).hexdigest()[:24]


def _notes(path: Path) -> Lines:
    if not path.exists():
        return frozenset()
    data = path.read_bytes()
    whole = data[: len(data) // _NOTE.size * _NOTE.size]
    names = [str(Path(each).relative_to(_PACKAGE)) for each in FILES]
    return frozenset((names[file], line) for file, line in _NOTE.iter_unpack(whole))


def _noting() -> Policies:
    """The plain policies. The process notes the lines it runs from now on."""
    directory, check = os.environ.get(DIRECTORY), os.environ.get(CHECK)
    if directory and check:
        path = Path(directory) / _file(check_id(check))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        trace = _Tracer(os.open(path, flags, 0o666))
        threading.settrace(trace)
        sys.settrace(trace)
    return Policies()


class _Tracer:
    """Notes each line of the reference once, immediately: a process may be killed at any moment."""

    def __init__(self, notes: int) -> None:
        self._notes = notes
        self._numbers = {name: number for number, name in enumerate(FILES)}
        self._seen: set[tuple[int, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> _Tracer | None:
        file = self._numbers.get(frame.f_code.co_filename)
        if file is None:
            return None
        place = (file, frame.f_lineno)
        if event == "line" and place not in self._seen:
            self._seen.add(place)
            # The process may have reached a limit on the size of files.
            with contextlib.suppress(OSError):
                os.write(self._notes, _NOTE.pack(*place))
        return self


REACHED = Defect("reached-lines", (), "it notes the lines it runs", _noting)
"""The unchanged reference, whose processes note the lines they run."""
