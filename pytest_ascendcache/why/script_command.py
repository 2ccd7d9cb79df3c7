"""Scripts that run networks, on MindSpore's caches: ``python train.py``, or a command like it.

What such a run takes from the cache shows in no file that it delivers. A run on an empty cache
tells what it needs; what it does not write anew into a copy, it was served. Source: document M;
facts ``mindspore-incremental``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_ascendcache.caches import AKG_KERNEL_META, GRAPH_CACHE, KERNEL_META
from pytest_ascendcache.caches.entry import CachedUnit
from pytest_ascendcache.processes.launch import Command
from pytest_ascendcache.why.atc_command import PACKAGES, REDIRECTED
from pytest_ascendcache.why.request import (
    Attempt,
    CommandInterface,
    InputKind,
    PlaceOfUse,
    SingleChange,
    Trial,
    put,
    variable_change,
)

_BASE = "MS_COMPILER_CACHE_PATH"
_LEVEL, _GRAPHS = "MS_COMPILER_OP_LEVEL", "MS_COMPILER_CACHE_ENABLE"
_LAYOUTS = (KERNEL_META, AKG_KERNEL_META, GRAPH_CACHE)
_RANK = re.compile(r"rank_(.*)", re.DOTALL)
_ARGUMENT = re.compile(r"argument \d+")
_OWN = re.compile(r"/|\d{8}")
"""In what a description says of one kernel only."""
_SHOWN = 3


def read_words(words: Sequence[str]) -> dict[str, str]:
    """The words of a command line by name: ``--key=`` and ``--key`` for options, ``argument 1`` for
    what belongs to none. ``WordsInterface.arguments`` makes the same words of them."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, separator, value = word.partition("=")
        if not word.startswith("-"):
            options[f"argument {len(options) + 1}"] = word
        elif separator:
            options[f"{name}="] = value
        elif rest and not rest[0].startswith("-"):
            options[name] = rest.pop(0)
        else:
            options[name] = ""
    return options


class WordsInterface(CommandInterface):
    """A command with options of its own, whose words name files and directories."""

    def __init__(self, work: Path) -> None:
        self._work = work

    def file_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: each for key, each in options.items() if (self._work / each).is_file()}

    def shown(self, option: str) -> str:
        return option.rstrip("=")

    def arguments(self, options: Mapping[str, str]) -> list[str]:
        words = []
        for name, value in options.items():
            if _ARGUMENT.fullmatch(name):
                words.append(value)
            elif name.endswith("="):
                words.append(f"{name}{value}")
            else:
                words += [name, value] if value else [name]
        return words

    def words(self, trial: Trial) -> tuple[list[str], dict[str, str]]:
        """The words and variables of a run, with other contents of files below ``here``. A file
        keeps its neighbours, since a script may import them."""
        place, here = trial.place, trial.here
        options = dict(place.options)
        for name, content in place.files.items():
            old = Path(options.get(name, name))
            target = here / "overlays" / f"file {len(name)}{name.strip('-=')}"
            target.mkdir(parents=True)
            for each in old.parent.iterdir() if old.parent.is_dir() else ():
                if each.name != old.name:
                    (target / each.name).symlink_to(each)
            put(target / old.name, content)
            options[name] = str(target / old.name)
        moved = {name: str(here / "work") for name in REDIRECTED if name in place.environment}
        environment = {**place.environment, **moved}
        place.overlay(here, options, environment)
        return self.arguments(options), environment


class ScriptInterface(WordsInterface):
    """A script on one of MindSpore's caches: of kernels, of graph kernels or of graphs, whichever
    the cache has."""

    program = "python"
    is_told = False
    variable = setting = _BASE
    packages = PACKAGES

    def consulted(
        self, _options: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Path, str]:
        given = environment.get(_BASE, "")
        return self._work / given, _BASE if given else "PWD"

    def below(self, place: PlaceOfUse) -> str:
        found = [layout.place({**place.environment, _BASE: ""}, Path()) for layout in _LAYOUTS]
        above = [each for each in found if (place.cache / each.parts[0]).exists()]
        for each, layout in zip(found, _LAYOUTS, strict=True):
            if layout.unit.read_all(place.cache / each):
                return str(each)
        return str((above or found)[0])

    def read(self, directory: Path) -> Mapping[str, CachedUnit]:
        names = {"kernel_meta": KERNEL_META, "akg_kernel_meta": AKG_KERNEL_META}
        return names.get(directory.name, GRAPH_CACHE).unit.read_all(directory)

    def command(self, trial: Trial) -> Command:
        words, environment = self.words(trial)
        work = trial.here / "work"
        for each in self._work.iterdir():
            if not _RANK.fullmatch(each.name) and "kernel_meta" not in each.name:
                (work / each.name).symlink_to(each)
        environment |= {_BASE: str(trial.cache), "PWD": str(work), "PYTHONDONTWRITEBYTECODE": "1"}
        return Command(str(trial.place.program), words, environment, work)

    def suspects(self, place: PlaceOfUse, cache: Path) -> Iterator[SingleChange]:
        environment = place.environment
        if environment.get(_LEVEL, "3") not in ("3", ""):
            yield variable_change(place, _LEVEL, None)
        if environment.get(_GRAPHS) != "1" and list(cache.glob("rank_*/graph_cache/*.mindir")):
            yield variable_change(place, _GRAPHS, "1")
        if not self.read(cache / place.below):
            for rank in sorted(cache.glob("rank_*/*/")):
                match = _RANK.fullmatch(rank.parent.name)
                if match and self.read(rank):
                    yield variable_change(place, "RANK_ID", match[1])
                    break

    def single_changes(self, place: PlaceOfUse, _asked: PlaceOfUse) -> Iterator[SingleChange]:
        cards = {stem.rpartition("_")[2] for stem in place.entries}
        for card in sorted(cards - {place.environment.get("DEVICE_ID", "")})[:3]:
            if card.isdigit() and len(card) < 4:
                yield variable_change(place, "DEVICE_ID", card)
        for name in ("MDL_BANK_PATH", "OP_BANK_PATH", *self.packages[1:]):
            if place.environment.get(name):
                yield variable_change(place, name, None)

    def inferred(self, place: PlaceOfUse, outcome: Attempt) -> Iterator[tuple[SingleChange, str]]:
        """How the descriptions (``.info``) of kernels that were compiled differ from those of the
        most similar ones in the cache."""
        made = self.read(outcome.kept / place.below)
        for name in sorted(outcome.missed):
            new = made.get(outcome.keys[name])
            if new is None or not (mine := _described(new)):
                continue
            others = [
                each
                for stem, each in place.entries.items()
                if each.operator_type == new.operator_type and stem != new.stem
            ]
            found = [_differing(mine, theirs) for each in others if (theirs := _described(each))]
            if nearest := min(filter(None, found), key=len, default=None):
                here, there = (
                    ", ".join(f"{key} {pair[side]}" for key, pair in [*nearest.items()][:_SHOWN])
                    for side in (0, 1)
                )
                yield SingleChange(InputKind.OPERATOR, new.operator_type, here, there), name


def _described(kernel: CachedUnit) -> dict[str, str]:
    """What the description of a kernel says, by path, without names, paths and hashes."""
    found: dict[str, str] = {}

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict | list):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in pairs:
                walk(each, f"{path}/{key}")
        elif not path.lower().endswith(("name", "id")) and not _OWN.search(str(value)):
            found[path] = str(value) or "''"

    walk(kernel.info, "")
    return found


def _differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The values that differ, by the last name in their path."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted({*mine, *theirs}, key=lambda each: ("ori_" in each, each)):
        pair = mine.get(path, "-"), theirs.get(path, "-")
        if pair[0] != pair[1]:
            names = [each for each in path.split("/") if each and not each.isdigit()]
            found.setdefault(names[-1] if names else path, pair)
    return found
