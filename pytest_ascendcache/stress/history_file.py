"""Writes and reads a history as JSON lines: the header, then each step as it happens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pytest_ascendcache.files import open_input, open_log
from pytest_ascendcache.stress.history import (
    SCHEMA,
    Disturbed,
    Header,
    JobEnd,
    LaterCompiles,
    Line,
    RankDelivery,
    Rebuilt,
    Round,
    RoundRecord,
    Seen,
    StressHistory,
)

Written = TypeVar("Written", bound=Line)


class HistoryError(ValueError):
    """The file is not a history, or is damaged. The message names the line."""


_LINES: dict[str, type[Any]] = {
    "header": Header,
    "round": Round,
    "disturbed": Disturbed,
    "delivery": RankDelivery,
    "ended": JobEnd,
    "seen": Seen,
    "later": LaterCompiles,
    "rebuilt": Rebuilt,
}
_NAMES = {type_: kind for kind, type_ in _LINES.items()}


class HistoryWriter:
    """Writes a history line by line, and flushes each. It keeps none: a run may take days."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file, self._path = open_log(path), path
        self.write(header)

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, line: Written) -> Written:
        """Append a line, and return it."""
        document = {"line": _NAMES[type(line)], **asdict(line)}
        self._file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        return line

    @property
    def history(self) -> StressHistory:
        """The lines written so far."""
        return read_history(self._path)


def read_history(path: Path) -> StressHistory:
    """Read a history. Raises ``HistoryError`` for a line that is not part of one."""
    header, records = open_history(path)
    return StressHistory(header, tuple(records))


def open_history(path: Path) -> tuple[Header, Iterator[RoundRecord]]:
    """The header of a history, and its rounds, each read when it is asked for. Raises what
    :func:`read_history` raises, also later."""
    lines = _lines_of(path)
    header = next(lines, None)
    if not isinstance(header, Header):
        raise HistoryError(f"{path}:1: this is not a history, which begins with its header.")
    if header.schema != SCHEMA:
        raise HistoryError(f"{path}:1: schema {header.schema}; this version reads {SCHEMA}.")
    return header, _by_round(_checked(header, lines, path))


def _lines_of(path: Path) -> Iterator[Line]:
    try:
        with open_input(path) as file:
            for number, text in enumerate(file, 1):
                yield _line(text, f"{path}:{number}")
    except OSError as error:
        reason = f"{error.strerror}; name a history of --ascend-stress."
        raise HistoryError(f"{path}: {reason}") from None


def _checked(header: Header, lines: Iterable[Line], path: Path) -> Iterator[Line]:
    """Refuse lines that name a rank, an operator, a network or a round that does not exist."""
    number = None
    for place, line in enumerate(lines, 2):
        where = f"{path}:{place}"
        if isinstance(line, Round):
            number = line.number
            compiles = [each for each in (*line.compiles, line.later) if each is not None]
            jobs = [each for each in (*line.jobs, line.rebuild) if each is not None]
            ranks = [each.rank for each in compiles]
            for rank in (*ranks, *(rank for job in jobs for rank in (job.rank, job.of))):
                if rank not in range(header.ranks):
                    raise HistoryError(f"{where}: there is no rank {rank}.")
            for each in compiles:
                if not set(each.operators) <= set(range(len(header.operators))):
                    raise HistoryError(
                        f"{where}: some of the operators {each.operators} do not exist."
                    )
            for job in jobs:
                if job.number not in range(len(header.networks)):
                    raise HistoryError(f"{where}: there is no network {job.number}.")
        elif isinstance(line, Header) or line.round != number:
            raise HistoryError(f"{where}: this line does not belong to the round before it.")
        yield line


def _by_round(lines: Iterable[Line]) -> Iterator[RoundRecord]:
    record: RoundRecord | None = None
    for line in lines:
        if isinstance(line, Round):
            if record is not None:
                yield record
            record = RoundRecord(line)
            continue
        part = "deliveries" if isinstance(line, RankDelivery) else _NAMES[type(line)]
        earlier = getattr(record, part)
        changed: Any = (*earlier, line) if isinstance(earlier, tuple) else line
        record = replace(cast("RoundRecord", record), **{part: changed})
    if record is not None:
        yield record


def _line(text: bytes, where: str) -> Line:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged(where, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("line") not in _LINES:
        raise _damaged(where, "it does not say which kind of line it is")
    kind = document.pop("line")
    try:
        line: Line = _decode(_LINES[kind], document)
    except (ValueError, TypeError) as error:
        raise _damaged(where, f"'{kind}': {error}"[:100]) from None
    return line


def _damaged(where: str, what: str) -> HistoryError:
    return HistoryError(f"{where}: not a line of a history: {what}; cut the file before this line.")


def _decode(kind: Any, value: Any) -> Any:
    """Convert a JSON value to a declared type; raise ``TypeError`` if it does not fit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is not a list")
        return tuple(_decode(arguments[0], each) for each in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not a table")
        return {str(key): _decode(arguments[1], each) for key, each in value.items()}
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not a table")
        types, known = get_type_hints(kind), {each.name: each for each in fields(kind)}
        needed = {n for n, each in known.items() if each.default is each.default_factory is MISSING}
        if missing := needed - set(value):
            raise TypeError(f"the field {min(missing)!r} is missing")
        if unknown := set(value) - set(known):
            raise TypeError(f"unknown field {min(unknown)!r}")
        make: Any = kind
        return make(**{name: _decode(types[name], each) for name, each in value.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value
