"""The precision file of a release, which chooses an implementation mode for each operator.

Source: document I (``--op_select_implmode``), recommended configuration; for the syntax of the
file facts ``cann-operator-cache`` sections 5.1 and 5.2.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from pytest_ascendcache.contract import ImplModeTables
from pytest_ascendcache.contract.options import BOTH
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.inputs import file_sha256
from pytest_ascendcache.release.onnx_parts import onnx_types
from pytest_ascendcache.release.problem import Problem

_SECTIONS = {"[ByOpType]": False, "[ByNodeName]": True}

_KEPT = "a precision file beside the release file, loaded with --op_precision_mode"

_NAME = {"3": b"\x0a", "5": b"\x1a"}
"""The first byte of the field with a node's name, by ``--framework``: of TensorFlow and ONNX. For
others any field counts that has the name's bytes."""
_TYPE = {"5": b"\x22"}
"""The same for a node's type. ATC calls ONNX nodes without a name by type and number, so a type
with any number counts as a name."""
_NUMBERED = re.compile(r"(.+)_\d+")
_IS_TYPE = re.compile(r"\w+", re.ASCII)
_AT_ONCE = 1 << 24
"""Bytes of a model that are searched at once."""


def debugging_option_problems(release: Release) -> list[Problem]:
    """Report ``--op_select_implmode`` and its list of types, which are only for debugging."""
    return [
        Problem(f"--{name}={release.options[name]}", f"no such option, but {_KEPT}")
        for name in (atc.SELECT_MODE, atc.MODE_TYPES)
        if release.options.get(name)
    ]


def kept_file_problems(release: Release) -> list[Problem]:
    """Report a precision file that is not loaded, does not exist or is not in the release."""
    loaded = release.options.get(atc.PRECISION_FILE, "")
    path = release.kept_file or release.precision_file
    if path is None:
        return [Problem("no precision file: the modes are whatever CANN's tables say", _KEPT)]
    if not loaded:
        return [Problem(f"{path} is not loaded by the command", _KEPT)]
    if loaded.replace("\\", "/").rpartition("/")[2] != path.name:
        return [Problem(f"--{atc.PRECISION_FILE}={loaded}, but the release has {path.name}", _KEPT)]
    if not path.is_file():
        return [Problem(f"there is no file {path}", _KEPT)]
    named = release.place(loaded)
    if named.is_file() and file_sha256(named) != file_sha256(path):
        return [Problem(f"--{atc.PRECISION_FILE}={loaded} has other lines than {path}", _KEPT)]
    directory = release.path.parent
    if not path.resolve().is_relative_to(directory.resolve()):
        return [Problem(f"{path.resolve()} is outside of {directory}", _KEPT)]
    return []


def uncompared_file(release: Release) -> str:
    """Return that the precision file which the command loads is not here, so that the kept one is
    judged in its place; empty if it is here."""
    loaded = release.options.get(atc.PRECISION_FILE, "")
    if not loaded or release.place(loaded).is_file():
        return ""
    return (
        f"{release.name}: --{atc.PRECISION_FILE}={loaded} is not here, and was not compared with "
        f"{release.precision_file}, which is judged in its place"
    )


def has_two_implementations(release: Release, tables: ImplModeTables) -> bool:
    """Return whether an operator or a node of the model has two implementations; True where files
    do not tell. ONNX calls most types much as CANN does: Softmax SoftmaxV2. Raises ``OSError``."""
    if any(map(tables.has_two, release.operators)):
        return True
    if release.model is None:
        return not release.operators
    both = (each for each, modes in tables.offered.items() if modes >= BOTH)
    plain = {re.sub(r"(V\d+|D)$", "", each) for each in both}
    long = tuple(each for each in plain if len(each) > 6)
    nodes = {_OTHERWISE.get(each, each) for each in onnx_types(release.model)}
    return not nodes or any(each in plain or each.startswith(long) for each in nodes)


_OTHERWISE = {"Gemm": "MatMul", "Div": "RealDiv", "Conv": "Conv2", "Clip": "ClipByValue"}
"""Types of ONNX whose names are not those of CANN's, without a version or a D at the end."""


@dataclass(frozen=True)
class _Line:
    number: int
    by_name: bool
    key: str
    mode: str


def precision_file_problems(
    text: str, release: Release, tables: ImplModeTables, ignored: Collection[str] = ()
) -> list[Problem]:
    """Report lines of a precision file that have no effect: CANN drops them silently. A line is
    right if ``all_ops_impl_mode.ini`` lists its mode for the type, or if one of the installation's
    own tables has the same line: that list is incomplete. Types that are ``ignored`` are judged for
    their syntax only. Raises ``OSError`` if the model cannot be
    read."""
    types, found = _types(release), list[Problem]()
    named = {line.key for line in _lines(text, []) if line.by_name}
    misplaced = (named & tables.offered.keys()) - types.keys()
    misplaced -= _nodes_among(release, misplaced)
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
        if not line.by_name and not _IS_TYPE.fullmatch(line.key):
            how = f"line {line.number}: {line.key!r} is no operator type"
            found.append(Problem(how, "[ByNodeName] before it, if it is the name of a node"))
        elif not line.by_name:
            if line.key not in ignored:
                found += _wrong_mode(line, line.key, tables)
        elif (kind := types.get(line.key)) is not None:
            found += _wrong_mode(line, kind, tables)
        else:
            found += _wrong_name(line, release, tables, line.key in misplaced)
    file = release.options.get(atc.PRECISION_FILE, "")
    return [replace(each, found=f"--{atc.PRECISION_FILE}={file}: {each.found}") for each in found]


def unknown_types(text: str, tables: ImplModeTables) -> list[str]:
    """Return the types of a precision file that the tables do not have and that resemble none of
    theirs, in line order. The reference has few types, so its tables say nothing about others."""
    types = [line.key for line in _lines(text, []) if not line.by_name]
    unknown = (each for each in types if _IS_TYPE.fullmatch(each) and each not in tables.offered)
    return [each for each in unknown if not _near(each, tables.offered, cutoff=0.8)]


def _near(key: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """The known word that is most like a key, also in another case, or an empty text."""
    folded = {each.lower(): each for each in known}
    found = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else ""


def unknown_nodes(text: str, release: Release) -> list[str]:
    """Return names of nodes that neither an operator nor the model has, in line order. Files cannot
    tell whether such a line takes effect: a fusion may create the node. Raises ``OSError`` if the
    model cannot be read."""
    types = _types(release)
    names = [line.key for line in _lines(text, []) if line.by_name and line.key not in types]
    known = _nodes_among(release, names)
    return [] if release.model is None else [each for each in names if each not in known]


def _types(release: Release) -> dict[str, str]:
    return {each.name: each.type for each in release.operators if each.name}


def _lines(text: str, found: list[Problem]) -> Iterator[_Line]:
    """Yield the lines that assign a mode; lines with wrong syntax are added to ``found``."""
    by_name = False
    if text.startswith("\ufeff"):
        how = "line 1 begins with a byte order mark, which becomes a part of its first word"
        found.append(Problem(how, "a file without one"))
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
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
            wanted = "<operator type>=<mode>, [ByOpType] or [ByNodeName]"
            found.append(Problem(f"line {number} is {content!r}", wanted))


def _wrong_name(
    line: _Line, release: Release, tables: ImplModeTables, is_type: bool
) -> Iterator[Problem]:
    """Report a wrong line about a node whose name no operator has."""
    if release.model is None:
        if types := _types(release):
            found = f"line {line.number}: no operator is named {line.key!r}"
            yield Problem(found, _nearest(line.key, types))
    elif is_type:
        yield Problem(
            f"line {line.number}: {line.key!r} is a type, and the line is below [ByNodeName]",
            "[ByOpType] before it",
        )
    else:
        modes = {mode for table in tables.selected.values() for mode in table.by_type.values()}
        modes = modes.union(*tables.offered.values())
        if line.mode not in modes:
            yield Problem(
                f"line {line.number}: {line.mode!r} is not supported for any type",
                _nearest(line.mode, modes),
            )


def _wrong_mode(line: _Line, kind: str, tables: ImplModeTables) -> Iterator[Problem]:
    if any(table.by_type.get(kind) == line.mode for table in tables.selected.values()):
        return
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
    near = _near(key, known)
    return f"perhaps {near}" if near else "no line for it"


def _nodes_among(release: Release, names: Collection[str]) -> frozenset[str]:
    """Return those names that nodes of the model have. Raises ``OSError`` if it cannot be read.
    The file is searched, not parsed, so this needs no package: it has each name in one piece, as a
    field of a protocol buffer, or in quotes if it is text."""
    if release.model is None or not names:
        return frozenset()
    framework = release.options.get("framework", "")
    wanted = {each: tuple(_spellings(each, framework)) for each in names}
    longest = max(len(text) for texts in wanted.values() for text in texts)
    found: set[str] = set()
    before = b""
    with release.model.open("rb") as file:
        while len(found) < len(wanted) and (read := file.read(_AT_ONCE)):
            part = before + read
            found |= {name for name in wanted if any(text in part for text in wanted[name])}
            before = part[-longest:]
    return frozenset(found)


def _spellings(name: str, framework: str) -> Iterator[bytes]:
    """Yield the byte strings of which a file has one if it has a node of this name."""
    yield _NAME.get(framework, b"") + _field(name)
    for quote in ("'", '"'):
        yield f"{quote}{name}{quote}".encode(errors="replace")
    numbered = _NUMBERED.fullmatch(name)
    if numbered and framework in _TYPE:
        yield _TYPE[framework] + _field(numbered[1])


def _field(text: str) -> bytes:
    """Encode a text as a protocol buffer does: its length, then its bytes."""
    data = text.encode(errors="replace")
    length, coded = len(data), bytearray()
    while length > 0x7F:
        coded.append(length & 0x7F | 0x80)
        length >>= 7
    coded.append(length)
    return bytes(coded) + data
