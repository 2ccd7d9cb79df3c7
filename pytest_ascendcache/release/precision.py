"""Which implementation of an operator a release gets: by a file that is kept with it.

Source: document I (``--op_select_implmode``), recommended configuration; for the syntax of its
files facts ``cann-operator-cache`` sections 5.1 and 5.2.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pytest_ascendcache.contract import ImplModeTables
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.nodes import has_node
from pytest_ascendcache.release.problem import Problem

_SECTIONS = {"[ByOpType]": False, "[ByNodeName]": True}

_KEPT = "a precision file beside the release file, loaded with --op_precision_mode"


def debugging_option_problems(release: Release) -> list[Problem]:
    """``--op_select_implmode`` and its list of types are for debugging only."""
    return [
        Problem(f"--{name}={release.options[name]}", f"no such option, but {_KEPT}")
        for name in (atc.SELECT_MODE, atc.MODE_TYPES)
        if release.options.get(name)
    ]


def kept_file_problems(release: Release) -> list[Problem]:
    """The precision file is loaded, is there, and goes with the release."""
    loaded, path = release.options.get(atc.PRECISION_FILE, ""), release.precision_file
    if path is None:
        return [Problem("no precision file: the modes are whatever CANN's tables say", _KEPT)]
    if not loaded:
        return [Problem(f"{path} is not loaded by the command", _KEPT)]
    if loaded.replace("\\", "/").rpartition("/")[2] != path.name:
        return [Problem(f"--{atc.PRECISION_FILE}={loaded}, but the release has {path.name}", _KEPT)]
    if not path.is_file():
        return [Problem(f"there is no file {path}", _KEPT)]
    if not path.resolve().is_relative_to(release.directory.resolve()):
        return [Problem(f"{path.resolve()} is outside of {release.directory}", _KEPT)]
    return []


def has_two_implementations(release: Release, tables: ImplModeTables) -> bool:
    """Whether any of its operators has; without operators that is taken for granted."""
    return not release.operators or any(map(tables.has_two, release.operators))


@dataclass(frozen=True)
class _Line:
    number: int
    by_name: bool
    key: str
    mode: str


def precision_file_problems(text: str, release: Release, tables: ImplModeTables) -> list[Problem]:
    """Lines of a precision file that will not do what they say; CANN drops them silently.

    A mode has to be one that ``all_ops_impl_mode.ini`` lists for the type, or the line one that
    the installation's own tables have: some of those are not in that list.
    """
    own = {line for table in tables.selected.values() for line in table.by_type.items()}
    found: list[Problem] = []
    seen: dict[tuple[bool, str], _Line] = {}
    for line in _lines(text, found):
        first = seen.setdefault((line.by_name, line.key), line)
        if first.mode != line.mode:
            found.append(
                Problem(
                    f"line {line.number} gives {line.key} {line.mode}, line {first.number} "
                    f"gives it {first.mode}, and the first counts",
                    "one line for each",
                )
            )
        if line.by_name:
            found += _wrong_name(line, release, tables)
        elif (line.key, line.mode) not in own:
            found += _wrong_mode(line, line.key, tables)
    return found


def _lines(text: str, found: list[Problem]) -> Iterator[_Line]:
    """The lines that say something; what is none of the syntax goes to ``found``."""
    by_name = False
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or line.startswith("#"):
            continue
        if content in _SECTIONS:
            by_name = _SECTIONS[content]
            continue
        key, separator, mode = (part.strip() for part in content.partition("="))
        if separator and key and mode:
            yield _Line(number, by_name, key, mode)
        else:
            found.append(
                Problem(
                    f"line {number} is {content!r}",
                    "<operator type>=<mode>, [ByOpType] or [ByNodeName]",
                )
            )


def _wrong_name(line: _Line, release: Release, tables: ImplModeTables) -> Iterator[Problem]:
    types = {each.name: each.type for each in release.operators if each.name}
    if line.key in types:
        yield from _wrong_mode(line, types[line.key], tables)
    elif has_node(release, line.key):
        if line.mode not in (modes := frozenset().union(*tables.offered.values())):
            yield Problem(
                f"line {line.number}: {line.mode!r} is not supported for any type",
                _nearest(line.mode, modes),
            )
    elif types or release.model is not None:
        where = "no operator" if release.model is None else f"no node of {release.model.name}"
        yield Problem(
            f"line {line.number}: {where} is named {line.key!r}", _nearest(line.key, types)
        )


def _wrong_mode(line: _Line, kind: str, tables: ImplModeTables) -> Iterator[Problem]:
    offered = tables.offered.get(kind)
    if offered is None:
        yield Problem(
            f"line {line.number}: no mode is supported for {kind!r}", _nearest(kind, tables.offered)
        )
    elif line.mode not in offered:
        yield Problem(
            f"line {line.number}: {line.mode!r} is not supported for {kind}",
            " or ".join(sorted(offered)),
        )


def _nearest(key: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"perhaps {near[0]}" if near else "no line for it"
