"""The journal of ``--ascend-resume``: verdict records, written while the run goes on.

Every line is a JSON document: the first describes what is judged, each of the others is a record,
which is on the disk before the next check starts. A record comes with a digest over itself and the
first line, so that no verdict is adopted that this toolchain was not given with these options. An
incomplete last line is removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.renamed import present_name
from pytest_ascendcache.contract.subjects import RUNS_END
from pytest_ascendcache.files import read_input
from pytest_ascendcache.reports.records import VerdictRecord

_FORMAT = 3


class JournalError(ValueError):
    """A file that is not the journal of this run; the text says why."""


class Journal:
    """The open journal of one run, which locks it against other runs.

    ``identity`` describes what is judged, as plain data. ``decided`` has the records of earlier
    runs by check, without undecided ones: those checks are judged again. Raises ``JournalError`` if
    the file belongs to another run, is in use, or is not a journal, and ``OSError`` if it cannot be
    written.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self.path = path
        self._file = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
        )
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._identity = {"format": _FORMAT, **identity}
            self.decided = self._read(path, self._identity)
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, BlockingIOError):
                raise JournalError(f"{path} is in use by another run.") from None
            raise

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record, and wait until it is on the disk."""
        self._write({"record": record, "digest": _digest(self._identity, record)})

    def close(self) -> None:
        """Close the file and give up the lock."""
        os.close(self._file)

    def _read(self, path: Path, identity: Mapping[str, Any]) -> dict[str, VerdictRecord]:
        content = read_input(path)
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if not lines:
            if content and not content.startswith(b'{"format": '):
                _document(path, 1, b"")  # a file of the user's: it must not be cut off
            os.ftruncate(self._file, 0)
            self._write(identity)
            return {}
        first = _document(path, 1, lines[0])
        for name, value in identity.items():
            if first.get(name) != value:
                raise JournalError(
                    f"{path} is of a run with {name} {first.get(name)}, and this one has {value}; "
                    "name another file."
                )
        decided: dict[str, VerdictRecord] = {}
        for number, line in enumerate(lines[1:], 2):
            record = _record(path, number, line, identity)
            decided.pop(record.check, None)
            # What stopped an earlier run may be gone.
            if record.verdict is not Verdict.UNDECIDED and record.rule != RUNS_END:
                decided[record.check] = record
        if len(whole) < len(content):
            os.ftruncate(self._file, len(whole))
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
        raise JournalError(f"{path}: line {number} is not a verdict; name another file.")
    return document


def _digest(identity: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    text = json.dumps([identity, record], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _record(path: Path, number: int, line: bytes, identity: Mapping[str, Any]) -> VerdictRecord:
    document = _document(path, number, line)
    try:
        if document["digest"] != _digest(identity, document["record"]):
            raise JournalError(
                f"{path}: line {number} is not as it was written: its digest does not fit verdict, "
                "check, toolchain and options; name another file."
            )
        record = VerdictRecord.from_dict(document["record"])
        return replace(record, check=present_name(record.check))
    except JournalError:
        raise
    except (KeyError, TypeError, ValueError):
        raise JournalError(f"{path}: line {number} is not a verdict; name another file.") from None
