"""``op_compiler`` on the packages that are installed in an operator package (opp).

It compiles whatever it is given; a client compiles a shape again if no installed package has a
kernel with the shape's key. So the package that a run makes is installed beside, and its keys are
looked for. Source: document K; facts ``static-kernel`` sections 2.3 to 3.2.
"""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import InstalledKernels, TornIndex
from pytest_ascendcache.caches.entry import CachedUnit
from pytest_ascendcache.processes.launch import Command
from pytest_ascendcache.release.file import OPP
from pytest_ascendcache.why.request import (
    Attempt,
    InputKind,
    PlaceOfUse,
    RequestError,
    SingleChange,
    Trial,
)
from pytest_ascendcache.why.script_command import WordsInterface

_OUTPUT = ("-o", "--output", "--output=")
_CHIP = ("-v", "--soc_version", "--soc_version=")
_BELOW = "static_kernel/ai_core"
_SECONDS = 300.0


@dataclass(frozen=True)
class PackagedKernel(CachedUnit):
    """A kernel of an index; the stem is its operator type and its key."""

    entry: Mapping[str, Any] = field(default_factory=dict)

    suffixes = (".o", ".json")

    @property
    def operator_type(self) -> str:
        return self.stem.partition(" ")[0]

    @property
    def paths(self) -> tuple[Path, ...]:
        path = self.directory / str(self.entry["binPath"])
        return path, path.with_suffix(".json")

    def problems(self) -> list[str]:
        return InstalledKernels(self.directory.parents[1]).problems(self.entry)


class PackageInterface(WordsInterface):
    """``op_compiler -p DIR -v CHIP``, or a command like it."""

    program = "op_compiler"
    variable = setting = OPP
    packages: tuple[str, ...] = ("ASCEND_CUSTOM_OPP_PATH", "TUNE_BANK_PATH")

    def directory_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {
            key: each
            for key, each in options.items()
            if each and key not in _OUTPUT and (self._work / each).is_dir()
        }

    def is_place(self, option: str) -> bool:
        return option in _OUTPUT

    def consulted(
        self, _options: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Path, str]:
        return self._work / environment.get(OPP, ""), OPP

    def below(self, _place: PlaceOfUse) -> str:
        return _BELOW

    def read(self, directory: Path, chip: str = "*") -> Mapping[str, CachedUnit]:
        try:
            index = InstalledKernels(directory.parents[1]).index(chip)
        except TornIndex as error:
            raise RequestError(f"the index of the packages is damaged: {error}.") from None
        return {
            f"{kind} {key}": PackagedKernel(f"{kind} {key}", directory, entry)
            for (kind, key), entry in index.items()
        }

    def command(self, trial: Trial) -> Command:
        options = {key: each for key, each in trial.place.options.items() if key not in _OUTPUT}
        options["-o"] = str(trial.here / "out")
        words, environment = self.words(replace(trial, place=replace(trial.place, options=options)))
        return Command(str(trial.place.program), words, environment, trial.here / "work")

    def delivered(self, trial: Trial) -> tuple[dict[str, bool], dict[str, str]]:
        place, here = trial.place, trial.here
        opp = here / "opp"
        (opp / "static_kernel").mkdir(parents=True, exist_ok=True)
        environment = {**place.environment, OPP: str(opp)}
        for package in sorted((here / "out").glob("*.run")):
            run = partial(subprocess.run, [str(package)], cwd=here, env=environment)
            ended = run(capture_output=True, timeout=_SECONDS, check=False)
            if ended.returncode != 0:
                raise RequestError("the package that the command makes cannot be installed.")
        made = InstalledKernels(opp)
        found = {**self.read(trial.cache / _BELOW, (made.chips or ("*",))[0])}
        keys = {each.paths[0].stem: stem for stem, each in self.read(made.ai_core).items()}
        return {
            name: stem in found and (stem in place.mended or found[stem].is_valid)
            for name, stem in keys.items()
        }, keys

    def suspects(self, _place: PlaceOfUse, cache: Path) -> Iterator[SingleChange]:
        damaged = {
            stem: each for stem, each in self.read(cache / _BELOW).items() if each.problems()
        }
        if damaged:
            faults = dict.fromkeys(each.problems()[0] for each in damaged.values())
            yield SingleChange(
                *(InputKind.DAMAGED, next(iter(damaged)), "; ".join([*faults][:2])),
                str(len(damaged)),
                lambda place: replace(place, mended=place.mended | {*damaged}),
                next(iter(damaged)),
            )

    def inferred(self, place: PlaceOfUse, outcome: Attempt) -> Iterator[tuple[SingleChange, str]]:
        """What the index tells of keys that are missed: another chip's, one like it, or none."""
        entries = place.entries
        for name in sorted(outcome.missed):
            key = outcome.keys[name]
            kind, _, rest = key.partition(" ")
            near = [each for each in entries if each.partition(" ")[0] == kind]
            if key in entries:
                chips = InstalledKernels(place.cache).chips
                asked = next((place.options[each] for each in _CHIP if each in place.options), "")
                change = SingleChange(InputKind.CHIP, "-v", asked, ", ".join(chips))
            elif close := difflib.get_close_matches(key, near, 1, 0.0):
                there = close[0].partition(" ")[2]
                change = SingleChange(InputKind.OPERATOR, kind, rest, there)
            else:
                change = SingleChange(InputKind.UNPACKED, kind, str(place.cache), "")
            yield change, name
