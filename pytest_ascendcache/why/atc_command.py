"""``atc --model=...`` and ``atc --singleop=...`` on CANN's operator cache. Source: document C."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_ascendcache.caches import Entry, read_entries
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.files import read_text
from pytest_ascendcache.observation.model_file import take_apart
from pytest_ascendcache.processes.launch import Command
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import CACHE_PATH
from pytest_ascendcache.release.kernels import KERNEL_CACHE, kernel_cache
from pytest_ascendcache.why.request import (
    CommandInterface,
    InputKind,
    PlaceOfUse,
    SingleChange,
    Trial,
    option_set,
    put,
    variable_change,
)

REDIRECTED = ("ASCEND_WORK_PATH", "ASCEND_PROCESS_LOG_PATH", "NPU_COLLECT_PATH", "PARA_DEBUG_PATH")
"""Variables that name where a run leaves files beside its output."""
_WRITTEN = frozenset(("debug_dir", "check_report", "json"))
"""Options that do."""
_LIST = re.compile(r"^\s*op_debug_list\s*=\s*(.+)$", re.MULTILINE)
_MODES = ("high_precision", "high_performance", "high_precision_for_all")
_PRECISION = ("force_fp16", "must_keep_origin_dtype", "allow_fp32_to_fp16")
_FILES = frozenset((*atc.INPUT_FILES, atc.SINGLE_OP, atc.DEBUG_CONFIG, atc.PRECISION_FILE))
_DIRECTORIES = frozenset((atc.OP_BANK, atc.MODEL_BANK, "debug_dir"))
_PLACES = frozenset((atc.OUTPUT, atc.CACHE_DIR, "debug_dir"))
PACKAGES: tuple[str, ...] = (
    *("ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "ASCEND_TOOLKIT_HOME", "TUNE_BANK_PATH"),
)
_NEEDED = {
    *(*_PLACES, atc.CACHE_MODE, atc.SINGLE_OP, atc.MODEL, atc.SOC, "framework", "mode", "weight"),
    *("input_format", "input_shape", "input_shape_range", "log", atc.SELECT_MODE),
}
"""Options that are not left out to try: needed, or suspects of their own."""
ENABLE = CacheMode.ENABLE.value


class AtcInterface(CommandInterface):
    """Any command with the interface of ``atc``, on a cache in CANN's layout."""

    program = "atc"
    files_beside = True
    variable = CACHE_PATH
    setting = f"--{atc.CACHE_DIR}"
    packages = PACKAGES

    def file_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: options[key] for key in sorted(_FILES & options.keys()) if options[key]}

    def directory_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: options[key] for key in sorted(_DIRECTORIES & options.keys()) if options[key]}

    def is_place(self, option: str) -> bool:
        return option in _PLACES

    def shown(self, option: str) -> str:
        return f"--{option}"

    def arguments(self, options: Mapping[str, str]) -> list[str]:
        return [f"--{key}={value}" for key, value in options.items()]

    def consulted(
        self, options: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Path, str]:
        if option := options.get(atc.CACHE_DIR, ""):
            return Path(option), f"--{atc.CACHE_DIR}"
        if variable := environment.get(CACHE_PATH, "").strip():
            return Path(variable), CACHE_PATH
        return Path(environment.get("HOME") or "/") / "atc_data", "HOME"

    def root(self, directory: Path) -> Path:
        above = kernel_cache(directory) if directory.is_dir() else None
        return directory if above is None else above.parent

    def below(self, place: PlaceOfUse) -> str:
        return f"{KERNEL_CACHE}/{place.options.get(atc.SOC, '')}"

    def read(self, directory: Path) -> Mapping[str, Entry]:
        return read_entries(directory)

    def command(self, trial: Trial) -> Command:
        place, here, cache = trial.place, trial.here, trial.cache
        options = {**place.options, atc.CACHE_DIR: str(cache)}
        output = here / "out"
        options[atc.OUTPUT] = str(output / "model" if options.get(atc.MODEL) else output)
        for name, text in place.files.items():
            options[name] = str(here / f"{name}{Path(options.get(name, '')).suffix}")
            put(Path(options[name]), text)
        for name in _WRITTEN & options.keys():
            options[name] = str(here / "work" / name)
        (here / "work" / "debug_dir").mkdir()
        moved = {name: str(here / "work") for name in REDIRECTED if name in place.environment}
        moved[CACHE_PATH] = str(cache)  # whatever the program prefers
        environment = {**place.environment, **moved, "HOME": str(here / "home")}
        place.overlay(here, options, environment)
        return Command(str(place.program), self.arguments(options), environment, here / "work")

    def delivered(self, trial: Trial) -> tuple[dict[str, bool], dict[str, str]]:
        served: dict[str, bool] = {}
        keys: dict[str, str] = {}
        is_model = bool(trial.place.options.get(atc.MODEL))
        for path in sorted((trial.here / "out").rglob("*.om")):
            for number, kernel in enumerate(take_apart(path, trial.marks).kernels):
                stem = kernel.symbol.partition("__kernel")[0]
                match = Entry.stems.fullmatch(stem)
                name = f"{match['type'] if match else 'kernel'}#{number}" if is_model else path.stem
                served[name], keys[name] = bool(kernel.served_from), stem
        return served, keys

    def suspects(self, place: PlaceOfUse, cache: Path) -> Iterator[SingleChange]:
        options = place.options
        mode = options.get(atc.CACHE_MODE, "")
        enabled = option_set(atc.CACHE_MODE, ENABLE)
        if mode in ("", CacheMode.DISABLE.value):
            yield SingleChange(InputKind.MODE, atc.CACHE_MODE, mode, ENABLE, enabled)
        if mode == CacheMode.FORCE.value:
            yield SingleChange(InputKind.FORCE, atc.CACHE_MODE, mode, ENABLE, enabled)
        if options.get(atc.DEBUG_LEVEL, "0") not in ("0", ""):
            yield _without(InputKind.DEBUG_LEVEL, atc.DEBUG_LEVEL, options[atc.DEBUG_LEVEL])
        if config := options.get(atc.DEBUG_CONFIG, ""):
            yield _without(InputKind.DEBUG_CONFIG, atc.DEBUG_CONFIG, config, _listed(Path(config)))
        yield from _chip(place, cache)

    def single_changes(self, place: PlaceOfUse, asked: PlaceOfUse) -> Iterator[SingleChange]:
        options, here = place.options, place.options.get(atc.SOC)
        chosen = options.get(atc.SELECT_MODE, "")
        others = [each for each, count in _chips(place.cache).items() if count and each != here]
        for chip in others[:3]:
            wanted = asked.options.get(atc.SOC, "")
            yield SingleChange(InputKind.CHIP, atc.SOC, wanted, chip, option_set(atc.SOC, chip))
        for name in [each for each in options if each not in _NEEDED]:
            yield _option(place, name, None)
        for mode in _MODES:
            if mode != (chosen or "high_performance"):
                yield _option(place, atc.SELECT_MODE, mode)
        if options.get(atc.MODEL):
            given = options.get("precision_mode", "force_fp16")
            for mode in _PRECISION:
                if mode != given and not options.get("precision_mode_v2"):
                    yield _option(place, "precision_mode", mode)
        for name in ("TUNE_BANK_PATH", "ASCEND_CUSTOM_OPP_PATH"):
            if place.environment.get(name):
                yield variable_change(place, name, None)


def is_enabled(place: PlaceOfUse) -> bool:
    """Whether the mode is the one in which entries are kept."""
    return place.options.get(atc.CACHE_MODE) == ENABLE


def _without(kind: InputKind, name: str, here: str, about: str = "") -> SingleChange:
    return SingleChange(kind, name, here, "", option_set(name, None), about)


def _listed(config: Path) -> str:
    try:
        match = _LIST.search(read_text(config, errors="replace"))
    except OSError:
        return ""
    return match[1].strip() if match else ""


def _chip(place: PlaceOfUse, cache: Path) -> Iterator[SingleChange]:
    """The chip with most entries, if the cache has none of the one that is compiled for."""
    soc = place.options.get(atc.SOC, "")
    counts = {} if read_entries(cache / KERNEL_CACHE / soc) else _chips(cache)
    most = max(counts, key=counts.__getitem__, default="")
    if counts.get(most):
        yield SingleChange(InputKind.CHIP, atc.SOC, soc, most, option_set(atc.SOC, most))


def _chips(cache: Path) -> dict[str, int]:
    """How many entries a cache has of each chip, by name."""
    above = cache / KERNEL_CACHE
    chips = [each for each in sorted(above.iterdir()) if each.is_dir()] if above.is_dir() else []
    return {each.name: len(read_entries(each)) for each in chips}


def _option(place: PlaceOfUse, name: str, value: str | None) -> SingleChange:
    here = place.options.get(name, "")
    return SingleChange(InputKind.OPTION, f"--{name}", here, value or "", option_set(name, value))
