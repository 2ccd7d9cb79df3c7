"""For checks of a user's TorchAir script: what its run left, and what op_compiler was asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.caches.static_kernels import INDEX
from pytest_ascendcache.contract.static_kernel import ROOTS, TREES
from pytest_ascendcache.observation import NotDecidable
from pytest_ascendcache.observation.script import ScriptUnderTest, WatchedRun
from pytest_ascendcache.operators.opinfo import OpInfoError
from pytest_ascendcache.operators.opinfo_json import read_opinfo
from pytest_ascendcache.operators.simplified_key import simplified_key
from pytest_ascendcache.toolchains.torchair import Card

__all__ = ["applicable", "script"]


@pytest.fixture(autouse=True)
def applicable() -> None:
    """These checks are collected only for a script, so they always apply."""


@pytest.fixture
def script(ascend_script: ScriptUnderTest) -> ScriptUnderTest:
    """The user's script, in directories of the check."""
    return ascend_script


def compiled(run: WatchedRun) -> WatchedRun:
    """The same run. Raises NotDecidable if it left no package, so compiled no static kernels."""
    if not any(run.work.rglob("*.run")):
        raise NotDecidable(
            "the script left no package in its working directory: it has to compile static "
            "kernels, with the default build directory"
        )
    return run


def served(run: WatchedRun) -> WatchedRun:
    """The same run, if a package was installed and the index was read after that. Raises
    NotDecidable if this run allows no verdict about packages."""
    compiled(run)
    if not run.compiler.installed:
        raise NotDecidable(
            "no package was seen to be installed while nothing went wrong, so there is nothing "
            "to judge: do the packages run by hand?"
        )
    if not run.compiler.reselected():
        raise NotDecidable("no process was seen to read the index after a package was installed")
    return run


def folders(work: Path) -> list[Path]:
    """The output folders of every compile, recognised by their contents, in order of time."""
    compiled = [
        each
        for root in ROOTS
        for each in (work / root).glob("*_outputs")
        if any(each.glob("*_debug")) or any(each.glob("*.run"))
    ]
    return sorted(compiled, key=lambda each: each.name)


def compiles(work: Path) -> list[int]:
    """How many compiles each process has started, by the process ids in the folders' names."""
    pids = [
        match["pid"]
        for root in ROOTS
        for each in (work / root).glob("*_outputs")
        for names in TREES
        if (match := names.outputs.fullmatch(each.name))
    ]
    return list(Counter(pids).values())


def reads_after(card: Card, moment: float) -> bool:
    """Whether a card reads the index after an installation, before it dumps for another compile."""
    for each in card.openings():
        if each.moment > moment:
            if each.to_read and each.path.name == INDEX:
                return True
            dumped = any(root in each.path.parts for root in ROOTS)
            if not each.to_read and each.path.suffix == ".json" and dumped:
                return False
    return False


def is_named(folder: Path) -> bool:
    """Whether the output folder of a compile has a name of the document or of later versions."""
    return any(names.outputs.fullmatch(folder.name) for names in TREES)


def _parts(folder: Path, suffix: str) -> Iterator[Path]:
    """The operator information in the sub-folders whose names end in ``suffix``, or, if it is
    empty, are the number of target operators."""
    for part in folder.iterdir():
        named = part.name.isdigit() if not suffix else part.name.endswith(suffix)
        if part.is_dir() and named:
            yield from sorted(part.glob("*.json"))


def dumped(folder: Path, *suffixes: str) -> set[str]:
    """The operator information that a compile dumped, as text; equal texts are one operator."""
    return {path.read_text() for suffix in suffixes for path in _parts(folder, suffix)}


def keys_of(folder: Path) -> set[tuple[str, str]]:
    """Types and keys of a compile's operators. Raises NotDecidable if a file cannot be read."""
    return {_key(path) for suffix in ("", "_opcompile") for path in _parts(folder, suffix)}


def keys_asked(run: WatchedRun) -> set[tuple[str, str]]:
    """Types and keys that op_compiler was asked for. Raises NotDecidable if one is unreadable."""
    calls = range(1, len(run.compiler.callers) + 1)
    return {_key(path) for call in calls for path in run.compiler.asked(call)}


def _key(path: Path) -> tuple[str, str]:
    try:
        info = read_opinfo(path)
    except OpInfoError as error:
        raise NotDecidable(str(error)) from None
    return info.type, simplified_key(info)


def asked_again(run: WatchedRun) -> set[str]:
    """Operators that op_compiler was asked for in more than one call."""
    seen: set[str] = set()
    again: set[str] = set()
    for call in range(1, len(run.compiler.callers) + 1):
        texts = {path.read_text() for path in run.compiler.asked(call)}
        again |= seen & texts
        seen |= texts
    return again


def lines_beside(run: WatchedRun, well: WatchedRun) -> list[str]:
    """Lines that a run printed and a run that went well did not, numbers aside."""

    def plain(line: str) -> str:
        return "".join(each for each in line if not each.isdigit())

    usual = {plain(line) for line in well.ended.output.splitlines()}
    return [line for line in run.ended.output.splitlines() if plain(line) not in usual]
