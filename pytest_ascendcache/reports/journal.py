"""Verdict records in a file as they are found, so that a run that was cut short can go on.

One JSON document a line: first what was judged, then a record each, on the disk before the next
check begins. A last line that was cut short is taken away.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.renamed import present_name
from pytest_ascendcache.files import read_input
from pytest_ascendcache.reports.records import VerdictRecord

_FORMAT = 2


class JournalError(ValueError):
    """A file that is not the journal of this run, and why."""


class Journal:
    """The journal of one run, open for more. Only one run at a time has it.

    ``identity`` says what is judged, as plain data; ``decided`` are records of earlier runs by
    check. What was undecided then is judged again.

    Raises:
        JournalError: where the file is another run's, in use, or no journal.
        OSError: where it cannot be written.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self._file = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
        )
        try:
            self._lock(path)
            self.decided = self._read(path, {"format": _FORMAT, **identity})
        except BaseException:
            os.close(self._file)
            raise

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record, and wait until it is on the disk."""
        self._write({"record": record})

    def close(self) -> None:
        """Let others have it."""
        os.close(self._file)

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{path} is in use by another run.") from None

    def _read(self, path: Path, identity: Mapping[str, Any]) -> dict[str, VerdictRecord]:
        content = read_input(path)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._file, len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write(identity)
            return {}
        found = _document(path, 1, lines[0])
        for name, value in identity.items():
            if found.get(name) != value:
                raise JournalError(
                    f"{path} is of a run with {name} {found.get(name)}, and this one has {value}; "
                    "name another file."
                )
        decided: dict[str, VerdictRecord] = {}
        for number, line in enumerate(lines[1:], 2):
            record = _record(path, number, line)
            decided.pop(record.check, None)
            if record.verdict is not Verdict.UNDECIDED:
                decided[record.check] = record
        return decided

    def _write(self, document: Mapping[str, Any]) -> None:
        data = json.dumps(document, ensure_ascii=True).encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)


def _document(path: Path, number: int, line: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise JournalError(f"{path}: line {number} is no verdict; name another file.")
    return document


def _record(path: Path, number: int, line: bytes) -> VerdictRecord:
    try:
        record = VerdictRecord.from_dict(_document(path, number, line)["record"])
        return replace(record, check=present_name(record.check))
    except (KeyError, TypeError, ValueError):
        raise JournalError(f"{path}: line {number} is no verdict; name another file.") from None
