"""What the checks of a user's script share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pytest_ascendcache.caches.static_kernels import INDEX
from pytest_ascendcache.contract.static_kernel import ROOTS, TREES
from pytest_ascendcache.observation import NotDecidable
from pytest_ascendcache.observation.script import WatchedRun
from pytest_ascendcache.operators.opinfo import OpInfoError
from pytest_ascendcache.operators.opinfo_json import read_opinfo
from pytest_ascendcache.operators.simplified_key import simplified_key
from pytest_ascendcache.toolchains.torchair import Card


def compiled(run: WatchedRun) -> None:
    """A script that compiles nothing where it should is not about static kernels.

    Raises:
        NotDecidable: where it is not.
    """
    if not any(run.work.rglob("*.run")):
        raise NotDecidable(
            "the script left no package in its working directory: it has to compile static "
            "kernels, with the default build directory"
        )


def served(run: WatchedRun) -> None:
    """A package was installed, and the index read after that.

    Raises:
        NotDecidable: where no verdict about packages can rest on this run.
    """
    compiled(run)
    if not run.compiler.installed:
        raise NotDecidable(
            "no package was seen to be installed while nothing went wrong, so there is nothing "
            "to judge: do the packages run by hand?"
        )
    if not run.compiler.reselected():
        raise NotDecidable("no process was seen to read the index after a package was installed")


def folders(work: Path) -> list[Path]:
    """The folders of every compile, in order of time: by what they hold, under whichever root."""
    found = [
        each
        for root in ROOTS
        for each in (work / root).glob("*_outputs")
        if any(each.glob("*_debug")) or any(each.glob("*.run"))
    ]
    return sorted(found, key=lambda each: each.name)


def compiles(work: Path) -> list[int]:
    """How many compiles each process has begun, by the process ids in the folders' names."""
    begun = [
        found["pid"]
        for root in ROOTS
        for each in (work / root).glob("*_outputs")
        for names in TREES
        if (found := names.outputs.fullmatch(each.name))
    ]
    return list(Counter(begun).values())


def reads_after(card: Card, moment: float) -> bool:
    """Whether the next a card does after an install is to read the index, and not to write the
    operators of its next compile."""
    for each in card.openings():
        if each.moment > moment:
            if each.to_read and each.path.name == INDEX:
                return True
            if not each.to_read and each.path.suffix == ".json" and _is_dumped(each.path):
                return False
    return False


def _is_dumped(path: Path) -> bool:
    return any(root in path.parts for root in ROOTS)


def is_named(folder: Path) -> bool:
    """Whether a folder of a compile is named as the document or later versions have it."""
    return any(names.outputs.fullmatch(folder.name) for names in TREES)


def _parts(folder: Path, suffix: str) -> Iterator[Path]:
    """The operator information in the sub-folders whose names end so; ``""`` for target operators,
    in a folder that is a number."""
    for part in folder.iterdir():
        named = part.name.isdigit() if not suffix else part.name.endswith(suffix)
        if part.is_dir() and named:
            yield from sorted(part.glob("*.json"))


def dumped(folder: Path, *suffixes: str) -> set[str]:
    """What was dumped of a compile, as text; files of one text are one operator."""
    return {path.read_text() for suffix in suffixes for path in _parts(folder, suffix)}


def keys_of(folder: Path) -> set[tuple[str, str]]:
    """Types and keys of what a compile was dumped for: of its target operators, and of those that
    are meant for op_compiler.

    Raises:
        NotDecidable: where a file cannot be read.
    """
    keys = set()
    try:
        for suffix in ("", "_opcompile"):
            for path in _parts(folder, suffix):
                info = read_opinfo(path)
                keys.add((info.type, simplified_key(info)))
    except OpInfoError as error:
        raise NotDecidable(str(error)) from None
    return keys


def keys_asked(run: WatchedRun) -> set[tuple[str, str]]:
    """Types and keys of the operators op_compiler was given.

    Raises:
        NotDecidable: where a file cannot be read.
    """
    calls = range(1, len(run.compiler.callers) + 1)
    try:
        infos = [read_opinfo(path) for call in calls for path in run.compiler.asked(call)]
    except OpInfoError as error:
        raise NotDecidable(str(error)) from None
    return {(info.type, simplified_key(info)) for info in infos}


def asked_again(run: WatchedRun) -> set[str]:
    """Operators op_compiler was given in more than one call of one run that installed them."""
    seen: set[str] = set()
    again: set[str] = set()
    for call in range(1, len(run.compiler.callers) + 1):
        texts = {path.read_text() for path in run.compiler.asked(call)}
        again |= seen & texts
        seen |= texts
    return again


def lines_beside(run: WatchedRun, well: WatchedRun) -> list[str]:
    """Lines it printed that are not, but for numbers, those of a run that went well."""

    def plain(line: str) -> str:
        return "".join(each for each in line if not each.isdigit())

    usual = {plain(line) for line in well.ended.output.splitlines()}
    return [line for line in run.ended.output.splitlines() if plain(line) not in usual]
