"""A record of a place where a command hits, and how another place differs from it.

It holds options, the variables that the stack reads, and small files by content; all else by
digest. It holds no kernels, and of other variables nothing but digests.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pytest_ascendcache.files import read_input, read_text
from pytest_ascendcache.operators import SingleOpError
from pytest_ascendcache.operators.singleop import parse_single_op
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.environment import NAMES
from pytest_ascendcache.release.inputs import file_sha256, files_of
from pytest_ascendcache.why.look import first_difference
from pytest_ascendcache.why.neighbours import said
from pytest_ascendcache.why.request import (
    DIGEST,
    FileContent,
    InputKind,
    RequestError,
    SingleChange,
    UserRequest,
    content_set,
    option_set,
    overlaid,
    program_set,
    variable_set,
)

_SCHEMA = 1
_SMALL = 64 << 10
"""Bytes of a file that is recorded by content."""
_MOST_FILES = 2000
_NOT_OURS = frozenset(
    ("PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "HOSTNAME", "HOME", "TMPDIR")
)
"""Variables of a shell and a terminal, which differ everywhere, or have other values in runs."""


def record_text(request: UserRequest) -> str:
    """The record of a place as JSON."""
    return json.dumps(_record(request), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _record(request: UserRequest, is_at_hand: bool = False) -> dict[str, Any]:
    """The parts of a record. What ``is_at_hand`` is told by its path too."""
    interface, options, environment = request.interface, request.options, request.environment
    packages = {key: environment.get(key, "") for key in interface.packages}
    trees = {**interface.directory_options(options), **packages}
    return {
        "ascendcache-why": _SCHEMA,
        "command": interface.program,
        "cache": str(request.cache),
        "program": " ".join((file_sha256(request.program), *_version(request.program))),
        "options": {key: value for key, value in options.items() if not interface.is_place(key)},
        "variables": {key: environment[key] for key in NAMES if key in environment},
        "digests": {
            key: hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
            for key, value in environment.items()
            if key not in NAMES and key not in _NOT_OURS
        },
        "files": {
            key: _content(Path(value), is_at_hand)
            for key, value in interface.file_options(options).items()
        },
        "trees": {
            key: _tree(Path(value), is_at_hand)
            for key, value in trees.items()
            if value and not interface.is_place(key)
        },
    }


def _version(program: Path) -> list[str]:
    """The version of the prefix that a program is a part of, as far as a file tells."""
    path = program.resolve().parents[1] / "version.info"
    try:
        return read_text(path, errors="replace").split()[:1]
    except OSError:
        return []


def _content(path: Path, is_at_hand: bool) -> dict[str, str]:
    """A file's digest, and its text if it is a small one."""
    found = {"sha256": file_sha256(path), **({"path": str(path)} if is_at_hand else {})}
    if path.stat().st_size <= _SMALL:
        with contextlib.suppress(UnicodeDecodeError):
            found["text"] = read_input(path).decode("utf-8")
    return found


def _tree(directory: Path, is_at_hand: bool) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path in files_of(directory) if directory.is_dir() else ():
        if len(found) >= _MOST_FILES:
            break
        if path.suffix == ".pyc":
            continue
        name = os.path.relpath(path, directory)
        content = _content(path, is_at_hand)
        if path.suffix not in (".info", ".ini", ".json", ".cfg"):
            content.pop("text", None)
        found[name] = content
    return found


def read_record(path: Path) -> Mapping[str, Any]:
    """Read a record. Raises ``RequestError``."""
    try:
        document = json.loads(read_input(path))
    except OSError as error:
        raise RequestError(f"--against={path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or "ascendcache-why" not in document:
        raise RequestError(f"--against={path} is no record; make one with --record.")
    if document["ascendcache-why"] != _SCHEMA:
        raise RequestError(
            f"--against={path} is a record of schema {document['ascendcache-why']}, and this "
            f"version reads schema {_SCHEMA}; record that place anew."
        )
    if not _is_whole(document):
        raise RequestError(f"--against={path} is no record; make one with --record.")
    return document


def _is_whole(document: Mapping[str, Any]) -> bool:
    """Whether all parts of a record have their types."""
    try:
        contents = [each for tree in document["trees"].values() for each in tree.values()]
        contents += document["files"].values()
        tables = [*contents, *(document[each] for each in ("options", "variables", "digests"))]
        texts = [document[each] for each in ("command", "cache", "program")]
        texts += [each for table in tables for each in table.values()]
    except (AttributeError, KeyError):
        return False
    whole = all("sha256" in each for each in contents)
    return whole and all(isinstance(each, str) for each in texts)


def differences(request: UserRequest, there: Mapping[str, Any] | UserRequest) -> list[SingleChange]:
    """How this place differs from a recorded one, or from one at hand, as changes that make it like
    that one. Those without ``apply`` are known by digests only."""
    program = None
    if isinstance(there, UserRequest):
        program, there = there.program, _record(there, is_at_hand=True)
    here = _record(request)
    if here["command"] != there["command"]:
        raise RequestError(
            f"the record is of a command like {there['command']}, and this one is like "
            f"{here['command']}; record the same command where it hits."
        )
    return [
        *_program(request, here, there, program),
        *_options(request, here, there),
        *_variables(request, here, there),
        *_files(request, here, there),
        *_trees(here, there),
        *_digests(here, there),
    ]


def _union(
    here: Mapping[str, Any], there: Mapping[str, Any], part: str
) -> Iterator[tuple[str, Any, Any]]:
    mine, theirs = here[part], there[part]
    for name in sorted({*mine, *theirs}):
        if _identity(mine.get(name)) != _identity(theirs.get(name)):
            yield name, mine.get(name), theirs.get(name)


def _identity(value: Any) -> Any:
    return value["sha256"] if isinstance(value, dict) else value


def _program(
    request: UserRequest, here: Mapping[str, Any], there: Mapping[str, Any], program: Path | None
) -> Iterator[SingleChange]:
    if program is not None and program != request.program:
        change = program_set(program)
        yield SingleChange(InputKind.PROGRAM, "", str(request.program), str(program), change)
    elif here["program"] != there["program"]:
        mine, theirs = (each["program"].split() for each in (here, there))
        if len(mine) == 1 or len(theirs) == 1 or mine[1] == theirs[1]:
            mine, theirs = ([f"{DIGEST}{each[0][:12]}"] for each in (mine, theirs))
        yield SingleChange(InputKind.PROGRAM, request.program.name, mine[-1], theirs[-1])


def _options(
    request: UserRequest, here: Mapping[str, Any], there: Mapping[str, Any]
) -> Iterator[SingleChange]:
    interface = request.interface
    for name, mine, theirs in _union(here, there, "options"):
        values = {name: mine or theirs}
        is_file = name in interface.file_options(values)
        is_named = is_file or name in interface.directory_options(values)
        by_content = is_named and mine and theirs
        absent = is_file and not mine  # its content comes with _files
        if by_content or absent or interface.is_place(name) or name == atc.CACHE_MODE:
            continue
        yield SingleChange(
            *(InputKind.OPTION, interface.shown(name), mine or "", theirs or ""),
            option_set(name, theirs),
        )


def _variables(
    request: UserRequest, here: Mapping[str, Any], there: Mapping[str, Any]
) -> Iterator[SingleChange]:
    packages = request.interface.packages
    for name, mine, theirs in _union(here, there, "variables"):
        if name == request.interface.variable or (name in packages and mine and theirs):
            continue
        is_here = name not in packages or not theirs or Path(theirs).is_dir()
        apply = variable_set(name, theirs) if is_here else None
        yield SingleChange(InputKind.VARIABLE, name, mine or "", theirs or "", apply)


def _digests(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[SingleChange]:
    for name, mine, theirs in _union(here, there, "digests"):
        one, other = (f"{DIGEST}{each[:12]}" if each else "" for each in (mine, theirs))
        apply = None if theirs else variable_set(name, None)
        yield SingleChange(InputKind.VARIABLE, name, one, other, apply)


def _files(
    request: UserRequest, here: Mapping[str, Any], there: Mapping[str, Any]
) -> Iterator[SingleChange]:
    for name, mine, theirs in _union(here, there, "files"):
        if theirs is None:
            continue  # its option is a difference already
        source = _source(theirs)
        text = theirs.get("text")
        kind = InputKind.OPERATOR if name == atc.SINGLE_OP and text is not None else InputKind.FILE
        shown = _first_lines(mine or {}, theirs)
        if kind is InputKind.OPERATOR:
            shown = _operators((mine or {}).get("text", ""), text) or shown
        apply = None if source is None else content_set(name, source)
        yield SingleChange(kind, request.interface.shown(name), *shown, apply)


def _source(content: Mapping[str, str]) -> FileContent | None:
    """What a file is made like another one of; None for a digest only."""
    if "text" in content:
        return content["text"]
    return Path(content["path"]) if "path" in content else None


def _first_lines(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, str]:
    """The first line in which two files differ, in both; else the beginnings of their digests."""
    if "text" in mine and "text" in theirs:
        return first_difference(mine["text"], theirs["text"])
    one, other = (f"{DIGEST}{each['sha256'][:12]}" if each else "" for each in (mine, theirs))
    return one, other


def _operators(mine: str, theirs: str) -> tuple[str, str] | None:
    """The first operators in which two files differ, in words."""
    try:
        one, other = (parse_single_op(json.loads(each)) for each in (mine, theirs))
    except (SingleOpError, ValueError):
        return None
    differing = [pair for pair in zip_longest(one, other) if pair[0] != pair[1]]
    if not differing:
        return None
    first, second = (said(each) if each else "" for each in differing[0])
    return first, second


def _trees(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[SingleChange]:
    """Differences of packages and banks, one for each small file, else one for all the rest."""
    for key in sorted({*here["trees"]} & {*there["trees"]}):
        trees = {"tree": here["trees"][key]}, {"tree": there["trees"][key]}
        others: list[tuple[str, FileContent | None]] = []
        for name, mine, theirs in _union(*trees, "tree"):
            if not theirs or "text" not in theirs:
                others.append((name, _source(theirs or {})))
                continue
            shown = _first_lines(mine or {}, theirs)
            apply = overlaid(key, {name: theirs["text"]})
            yield SingleChange(InputKind.FILE, f"{key}: {name}", *shown, apply)
        contents = {name: source for name, source in others if source is not None}
        if others:
            first = others[0][0] if len(others) == 1 else f"{others[0][0]}, ..."
            told = f"{len(others)} other files" if len(others) != 1 else "1 other file"
            whole = overlaid(key, contents) if len(contents) == len(others) else None
            yield SingleChange(InputKind.FILE, f"{key}: {first}", told, told, whole)
