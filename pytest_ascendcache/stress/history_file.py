"""A history as a file: JSON lines, written as the run goes; the first is the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pytest_ascendcache.files import open_log, read_text
from pytest_ascendcache.stress.history import (
    SCHEMA,
    Delivery,
    Disturbed,
    Ended,
    Header,
    History,
    Later,
    Line,
    Rebuilt,
    Round,
    RoundRecord,
    Seen,
)


class HistoryError(ValueError):
    """A file that is no history, or a damaged one; names the line."""


_LINES: dict[str, type[Any]] = {
    each.__name__.lower(): each
    for each in (Header, Round, Disturbed, Delivery, Ended, Seen, Later, Rebuilt)
}


class HistoryWriter:
    """Writes a history line by line, each flushed; also keeps it, to be checked."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file = open_log(path)
        self._header = header
        self._lines: list[Line] = []
        self.write(header)

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, line: Line) -> None:
        """Append one line."""
        document = {"line": type(line).__name__.lower(), **asdict(line)}
        self._file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        self._lines.append(line)

    @property
    def history(self) -> History:
        """What was written so far."""
        return History(self._header, _by_round(self._lines[1:]))


def read_history(path: Path) -> History:
    """Read a history back.

    Raises:
        HistoryError: for a file that cannot be read or a line that says nothing of a run.
    """
    try:
        texts = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise HistoryError(f"{path}: {reason}; name a history of --ascend-stress.") from None
    lines = [_line(text, f"{path}:{number}") for number, text in enumerate(texts, 1)]
    if not lines or not isinstance(lines[0], Header):
        raise HistoryError(f"{path}:1: a history begins with its header; this is none.")
    if lines[0].schema != SCHEMA:
        raise HistoryError(f"{path}:1: schema {lines[0].schema}; this version reads {SCHEMA}.")
    _check_numbers(lines[0], lines[1:], path)
    return History(lines[0], _by_round(lines[1:]))


def _check_numbers(header: Header, lines: list[Line], path: Path) -> None:
    """Lines that speak of a rank, an operator or a round there is not are damaged."""
    number = None
    for place, line in enumerate(lines, 2):
        if isinstance(line, Round):
            number = line.number
            for each in (*line.compiles, *((line.later,) if line.later else ())):
                if not 0 <= each.rank < header.ranks:
                    raise HistoryError(f"{path}:{place}: there is no rank {each.rank}.")
                if not all(0 <= one < len(header.operators) for one in each.operators):
                    raise HistoryError(
                        f"{path}:{place}: operators {each.operators} are not all there."
                    )
            for job in (*line.jobs, *((line.rebuild,) if line.rebuild else ())):
                for rank in (job.rank, job.of):
                    if not 0 <= rank < header.ranks:
                        raise HistoryError(f"{path}:{place}: there is no rank {rank}.")
                if not 0 <= job.number < len(header.networks):
                    raise HistoryError(f"{path}:{place}: there is no network {job.number}.")
        elif isinstance(line, Header) or line.round != number:
            raise HistoryError(f"{path}:{place}: this line is not of the round before it.")


def _by_round(lines: list[Line]) -> tuple[RoundRecord, ...]:
    records: list[RoundRecord] = []
    for line in lines:
        if isinstance(line, Round):
            records.append(RoundRecord(line))
            continue
        last = records.pop()
        if isinstance(line, Delivery):
            last = replace(last, deliveries=(*last.deliveries, line))
        elif isinstance(line, Ended):
            last = replace(last, ended=(*last.ended, line))
        elif isinstance(line, Rebuilt):
            last = replace(last, rebuilt=line)
        elif isinstance(line, Disturbed):
            last = replace(last, disturbed=line)
        elif isinstance(line, Seen):
            last = replace(last, seen=line)
        elif isinstance(line, Later):
            last = replace(last, later=line)
        records.append(last)
    return tuple(records)


def _line(text: str, where: str) -> Line:
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
    return HistoryError(f"{where}: no line of a history: {what}; cut the file before this line.")


def _decode(kind: Any, value: Any) -> Any:
    """A value of a declared type from JSON; anything else is an error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is no list")
        return tuple(_decode(arguments[0], each) for each in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is no table")
        return {str(key): _decode(arguments[1], each) for key, each in value.items()}
    if is_dataclass(kind):
        return _decode_fields(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _decode_fields(kind: Any, value: Mapping[str, Any]) -> Any:
    types = get_type_hints(kind)
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no table")
    needed = {each.name for each in fields(kind) if each.default is each.default_factory is MISSING}
    if missing := needed - set(value):
        raise TypeError(f"the field {min(missing)!r} is missing")
    unknown = set(value) - {each.name for each in fields(kind)}
    if unknown:
        raise TypeError(f"unknown field {min(unknown)!r}")
    return kind(**{name: _decode(types[name], each) for name, each in value.items()})
