"""How a release is compiled: cache mode, debug switches, and settings that contradict each other.

Source: document C (``--op_compiler_cache_mode``): parameter constraints, ``op_cache.ini`` and
the environment variables; facts ``cann-operator-cache`` sections 1.1, 1.6, 3.2 and 4.4.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_ascendcache.caches.snapshot import read_quietly
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.aging import CacheLimits, expected_limits
from pytest_ascendcache.contract.editions import Edition, default, foreign_names
from pytest_ascendcache.contract.options import DEFAULT_CACHE_MODE
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.environment import environment_problems
from pytest_ascendcache.release.file import CACHE_PATH, TUNE_BANK, Release
from pytest_ascendcache.release.kernels import (
    KERNEL_CACHE,
    compared_caches,
    kernel_cache,
    soc_directory,
)
from pytest_ascendcache.release.problem import Problem, listed

RELEASE_MODES = (CacheMode.DISABLE, CacheMode.FORCE)
"""The cache modes that document C recommends for releasing a model."""

DEBUGGING = {
    "NPU_COLLECT_PATH": "it turns op_debug_config on and the cache off",
    "ASCEND_OP_COMPILE_SAVE_KERNEL_META": "kernels with debug information get into the cache",
}
"""Variables that turn debugging on, and what they do (facts, sections 1.6 and 3.2)."""

_REFUSED = re.compile(r"[^A-Za-z0-9._/\u0080-\U0010ffff-]")
"""A character that ATC refuses in the path of a cache (E40023)."""


def cache_mode_problems(release: Release) -> list[Problem]:
    """Report a cache mode that is not one for releases."""
    mode = release.options.get(atc.CACHE_MODE, DEFAULT_CACHE_MODE.value)
    if mode in [each.value for each in RELEASE_MODES]:
        return []
    wanted = "disable, or force to remove what earlier compiles left and compile anew"
    return [Problem(f"--{atc.CACHE_MODE}={mode}", wanted)]


def is_forced(release: Release) -> bool:
    """Return whether the release is compiled under force."""
    return release.options.get(atc.CACHE_MODE) == CacheMode.FORCE.value


def own_cache(release: Release) -> Path | None:
    """Return the cache that the release's own command takes kernels from, if it exists and is none
    of those that are compared."""
    named = release.options.get(atc.CACHE_DIR) or release.environment.get(CACHE_PATH)
    if not named or release.options.get(atc.CACHE_MODE) != CacheMode.ENABLE.value:
        return None
    directory = release.place(named) / KERNEL_CACHE / release.soc
    compared = {soc_directory(each, release.soc) for each in compared_caches(release)}
    is_known = directory.resolve() in {each.resolve() for each in compared if each is not None}
    filled = not is_known and any(directory.glob("*.o"))
    return directory if filled and not debug_problems(release) else None


@listed
def debug_problems(release: Release) -> Iterator[Problem]:
    """Report debug switches that are on: with one, ATC ignores the cache mode."""
    level = release.options.get(atc.DEBUG_LEVEL, "0")
    if level != "0":
        yield Problem(f"--{atc.DEBUG_LEVEL}={level}", "0, or no such option")
    config = release.options.get(atc.DEBUG_CONFIG, "")
    if config:
        yield Problem(f"--{atc.DEBUG_CONFIG}={config}", "no such option")
    for variable, effect in DEBUGGING.items():
        value = release.environment.get(variable, "")
        if value not in ("", "0"):
            yield Problem(f"{variable}={value}: {effect}", "the variable is not set")


def contradictions(release: Release, edition: Edition | None = None) -> list[Problem]:
    """Report options, variables and ini files that contradict each other, and settings that CANN
    does not read in this edition of its documents."""
    edition = edition or default()
    return [
        *(_twice(release, atc.CACHE_DIR, CACHE_PATH) if edition.cache_path else ()),
        *_twice(release, atc.OP_BANK, TUNE_BANK),
        *_given_twice(release),
        *_silenced(release),
        *environment_problems(release.environment, release.cards),
        *_refused_path(release, edition),
        *_unread(release, edition),
        *_limits(release, edition),
    ]


def _twice(release: Release, option: str, variable: str) -> Iterator[Problem]:
    """Report an option and a variable of different values: ATC silently prefers the option."""
    one, other = release.options.get(option, ""), release.environment.get(variable, "")
    if one and other and release.place(one) != release.place(other):
        yield Problem(f"--{option}={one}, but {variable}={other}", "one of the two, or the same")


def _given_twice(release: Release) -> Iterator[Problem]:
    for name, value in release.twice.items():
        used = release.options[name]
        yield Problem(f"--{name} is given as {value}, and again as {used}, which counts", "once")


def _silenced(release: Release) -> Iterator[Problem]:
    """Report options without effect because of another one, which their documents say."""
    options = release.options
    if options.get(atc.MODE_TYPES) and not options.get(atc.SELECT_MODE):
        yield Problem(
            f"--{atc.MODE_TYPES} without --{atc.SELECT_MODE}: no mode is chosen for the types",
            f"--{atc.SELECT_MODE}=high_precision or high_performance",
        )
    if options.get("precision_mode") and options.get("precision_mode_v2"):
        yield Problem("--precision_mode beside --precision_mode_v2", "one of the two")


def _refused_path(release: Release, edition: Edition) -> Iterator[Problem]:
    paths = {f"--{atc.CACHE_DIR}": release.options.get(atc.CACHE_DIR, "")}
    if edition.cache_path:
        paths[CACHE_PATH] = release.environment.get(CACHE_PATH, "")
    for origin, text in paths.items():
        if refused := _REFUSED.search(text):
            yield Problem(
                f"{origin}={text} contains {refused[0]!r}",
                "a path of letters, digits and . - _ /, as atc takes no other",
            )


def _unread(release: Release, edition: Edition) -> Iterator[Problem]:
    yield from _foreign("", release.environment, edition)
    if not edition.cache_path and release.environment.get(CACHE_PATH):
        wanted = f"--{atc.CACHE_DIR}"
        yield Problem(f"{CACHE_PATH} is set, which {edition} does not read yet", wanted)


def _foreign(where: str, names: Iterable[str], edition: Edition) -> Iterator[Problem]:
    foreign = foreign_names(edition)
    for name in names:
        if name in foreign:
            other, instead = foreign[name]
            later = f"which {edition} does not read yet" if other > edition else ""
            yield Problem(f"{where}{name} is set, {later or 'which is no longer read'}", instead)


def _limits(release: Release, edition: Edition) -> Iterator[Problem]:
    given = release.environment
    environment = {key: given[key] for key in edition.variables if key in given}
    unset, effective = CacheLimits(), expected_limits(None, environment, edition)
    size_name, ratio_name = edition.variables
    sizes = "MB from 1 on, or -1 for no aging"
    for key, value, used, unit, wanted in (
        (size_name, effective.megabytes, unset.megabytes, "", sizes),
        (ratio_name, effective.ratio, unset.ratio, edition.ratio_unit, "1 to 100, a percentage"),
    ):
        text = environment.get(key, str(value))
        if value == used and text.strip().removesuffix(unit) != str(used):
            yield Problem(f"{key}={text} is no value for it, so {used} is used", wanted)
    for cache in release.caches:
        directory = kernel_cache(cache)
        # The vendor keeps op_cache.ini in the first place, the document puts it into the second.
        for place in (directory, directory.parent) if directory is not None else ():
            yield from _ini_limits(place / "op_cache.ini", environment, edition)


def _ini_limits(path: Path, environment: dict[str, str], edition: Edition) -> Iterator[Problem]:
    """Compare an ini file that is in effect with the environment; audits judge the others."""
    ini = _read_ini(path)
    yield from _foreign(f"{path}: ", sorted(ini), edition)
    limits = expected_limits(ini, {}, edition)
    if limits != _literal(ini, edition):
        return
    effective = expected_limits(None, environment, edition)
    size_name, ratio_name = edition.variables
    for key, in_file, in_environment in (
        (size_name, limits.megabytes, effective.megabytes),
        (ratio_name, limits.ratio, effective.ratio),
    ):
        if key in environment and in_file != in_environment:
            yield Problem(
                f"{path} says {in_file}, but {key}={environment[key]}",
                "one of the two, or the same: the file is preferred, for all users of the cache",
            )


def _read_ini(path: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(b"".join(read_quietly(path)).decode("utf-8", "replace"))
        return dict(parser["op_compiler_cache"])
    except (configparser.Error, KeyError, OSError):
        return {}


def _literal(ini: dict[str, str], edition: Edition) -> CacheLimits | None:
    try:
        return CacheLimits(*(int(ini[key]) for key in edition.ini)) if edition.ini else None
    except (KeyError, ValueError):
        return None
