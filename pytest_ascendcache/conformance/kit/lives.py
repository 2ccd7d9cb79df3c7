"""The lives a cache is put through: runs that ask as much as they can of each other.

Operators come in pairs of neighbours: the first one is stored before the second is asked for, so
that a key that leaves out what they differ in serves the wrong kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from pytest_ascendcache.caches import CacheLayout, Entry, keep_access_times
from pytest_ascendcache.conformance.kit.life import Aspect, Life, Shelved, litter, named, renamed
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS, operator_of
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, edit_ini, environment
from pytest_ascendcache.conformance.kit.shelf import ini_values as ini
from pytest_ascendcache.conformance.kit.surroundings import LONG
from pytest_ascendcache.conformance.kit.texts import Spelling, plainly
from pytest_ascendcache.conformance.kit.vocabulary import DISABLE, ENABLE, FORCE, OTHER_SOC
from pytest_ascendcache.contract import (
    CacheLimits,
    Capability,
    DebugConfig,
    ImplModeTables,
    PrecisionFile,
    SelectMode,
    other_soc,
)
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.faults import DAMAGES, METADATA_REPLACED
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

YEAR = 365 * 86400.0


FIRST = named((pair[0] for pair in NEIGHBOURS), "first_")
SECOND = named((pair[1] for pair in NEIGHBOURS), "second_")


def modes(life: Life) -> None:
    """Every mode, with debug switches between, over neighbours."""
    third = named((each for pair in NEIGHBOURS for each in pair), "Again")
    ways = _ways(life)
    life.learn_kernels(*FIRST, *SECOND, _MEAN, *_NEW)
    life.run("disable before anything", FIRST[:4], DISABLE)
    life.run("enable on nothing", FIRST, ENABLE, where=ways["home"])
    elsewhere = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PWD": "/"}
    life.go_elsewhere()
    life.run(
        "enable of neighbours of what is there, elsewhere",
        (*SECOND[::-1], _MEAN, *FIRST[::-1]),
        ENABLE,
        environment=elsewhere,
    )
    life.run("no mode", (*FIRST[:3], _NEW[0]), None)
    life.run("disable", (*SECOND[:3], _NEW[0]), DISABLE)
    listed = DebugConfig(("ccec_g",), (FIRST[0].name, "OpType::Relu", "OpType::Ex", "Su"))
    beside: dict[str, Any] = {}
    if Capability.SINGLE_OP_DEBUG in life.cache.toolchain.capabilities:
        beside["debug_config"] = listed
        life.run("enable beside a list", (*FIRST, *SECOND[1:4], *_NEW), ENABLE, **beside)
    everything = (*FIRST, *map(renamed, (*SECOND, _MEAN)), *_NEW)
    life.run("enable after it", everything, ENABLE, where=ways["no home"], debug_level=0)
    life.run("force under a debug level", FIRST[:4], FORCE, debug_level=1, **beside)
    life.age(-YEAR, 7200.0)
    litter(life)
    shelves = life.lay_hundreds()
    life.run("force", third[::2], FORCE, where=ways["empty variable"])
    life.judge_force(shelves)
    life.run("force again", third[::4], FORCE, where=ways["variable"])
    life.judge_force(shelves)
    life.run("enable at last", third, ENABLE, where=ways["whole path"])


def _ways(life: Life) -> dict[str, dict[str, Any]]:
    """The one directory, told in other ways than the life's own.

    Source: document C, op_cache_dir: the option goes before the variable, and that before HOME.
    """
    cache = life.cache
    place, variables = str(cache.root), life.given.get("environment", {})
    relative = os.path.relpath(place, cache.work)
    found: dict[str, dict[str, Any]] = {
        "home": {"cache_dir": None},
        "no home": {"cache_dir": place, "environment": variables, "unset": frozenset({"HOME"})},
        "empty variable": {"cache_dir": None, "environment": {_VARIABLE: ""}},
        "variable": {"cache_dir": None, "environment": {_VARIABLE: relative}},
        "whole path": {"cache_dir": place, "environment": variables},
    }
    if not cache.edition.cache_path:
        found["empty variable"] = found["variable"] = found["home"]
    return found


_MEAN = operator_of("ReduceMeanD", (4, 8), (4, 1), out=1, axes=(1,), keep_dims=True)
_MEAN = replace(_MEAN, inputs=_MEAN.inputs[:1], name="mean")
_NEW = named((operator_of("Relu", (9, 3)), operator_of("Tanh", (9, 3))), "new")


def implementations(life: Life) -> None:
    """Both implementation modes, by every means, and two chips."""
    tables = life.tables
    if tables is None:
        raise NotDecidable("the toolchain's tables of implementation modes cannot be read")
    kinds = ("Exp", "Gelu", "Tanh", "Sqrt", "SoftmaxV2")
    found = [operator_of(kind, (4, 32), dtype="float16") for kind in kinds]
    two = [each for each in found if tables.has_two(each)]
    one = [operator_of("Mul", (4, 32), (4, 32), dtype="float16"), operator_of("Exp", (4, 32))]
    operators = tuple(
        each.named(f"block_{each.type}_{each.inputs[0].dtype.name}") for each in (*two, *one)
    )
    if len(two) < 2:
        raise NotDecidable("the toolchain offers both modes to fewer than two of these operators")
    types = [each.type for each in two] + ["Mul"]
    others = [(each, HIGH_PERFORMANCE) for each in ("Abs", "Add", "Neg", "Relu", "Sub", "Maximum")]
    # Of two lines for one type the first counts.
    again = [(two[-1].type, HIGH_PERFORMANCE)]
    precise, fast = (
        [(kind, mode) for kind in types] for mode in (HIGH_PRECISION, HIGH_PERFORMANCE)
    )
    told = {mode: _told(lines) for mode, lines in {"precise": precise, "fast": fast}.items()}
    modes = {mode: life.cache.options.but(precision_file=file) for mode, file in told.items()}
    modes["none"] = life.cache.options.but(
        select_implmode=SelectMode.HIGH_PRECISION, implmode_types=("Mul",)
    )
    life.learn_modes(operators, **modes)
    life.run(
        "high precision by a file",
        operators,
        ENABLE,
        **_oddly(
            Spelling("\r\n", " ", between="\r\n# a note\r\n"), [*precise, *again], "[ByOpType]"
        ),
    )
    life.run(
        "high performance by a file, against the option beside it",
        operators,
        ENABLE,
        select_implmode=SelectMode.HIGH_PRECISION,
        **_oddly(Spelling(around="\t", trailing=" ", mark=True), [*fast[:2], *others, *fast[2:]]),
    )
    first, second = operators[:2]
    by_name = {
        second.name: HIGH_PERFORMANCE,
        f"scope/{second.name}": HIGH_PRECISION,
        first.name: HIGH_PRECISION,
    }
    file = PrecisionFile.of(dict(fast), by_name)
    life.run(
        "one by name, in a last line that has no end, against the options beside the file",
        operators,
        ENABLE,
        precision_file=PrecisionFile(file.content.rstrip("\n")),
        plainly={"precision_file": file},
        select_implmode=SelectMode.HIGH_PRECISION,
        implmode_types=tuple(types),
    )
    # What is not listed shows by a mode that it has not got by itself.
    by_itself = life.are_alike(first, modes["none"], modes["precise"])
    other = SelectMode.HIGH_PERFORMANCE if by_itself else SelectMode.HIGH_PRECISION
    life.run(
        f"{other.value} by a list of types",
        operators,
        ENABLE,
        select_implmode=other,
        implmode_types=(first.type[:-1], f"{first.type}2", "Abs", "Neg", "Mul", second.type),
    )
    every = SelectMode.HIGH_PERFORMANCE_FOR_ALL
    life.run("high performance for all", operators, ENABLE, select_implmode=every)
    chip = other_soc(life.cache.toolchain.soc, OTHER_SOC)
    if not life.cache.lacks(chip, operators[-1]):
        life.run("another chip", operators, ENABLE, precision_file=told["precise"], soc=chip)
        life.run("force there", (first,), FORCE, precision_file=told["precise"], soc=chip)
    plain = SelectMode.HIGH_PRECISION
    life.run("high precision by its table", operators, ENABLE, select_implmode=plain)
    life.run("by default", operators, ENABLE)


def _told(lines: Sequence[tuple[str, str]]) -> PrecisionFile:
    return PrecisionFile.of(dict(lines))


def _oddly(
    spelling: Spelling, lines: Sequence[tuple[str, str]], section: str = ""
) -> dict[str, Any]:
    """Options with a precision file that is written oddly, and the same written plainly."""
    text = spelling.write(lines, section).decode()
    return {
        "precision_file": PrecisionFile(text),
        "plainly": {"precision_file": PrecisionFile(plainly(text))},
    }


def accidents(life: Life) -> None:
    """Damage, links, entries that age, and another version."""
    cache = life.cache
    operators = named((each for pair in NEIGHBOURS for each in pair), "op")
    change = None
    if Capability.VERSION_STAMP in cache.toolchain.capabilities:
        change = cache.toolchain.stage(Capability.VERSION_STAMP, operators[0], cache.sandbox)
        variables = {**life.given.get("environment", {}), **change.environment}
        life.given = {**life.given, "environment": variables}
    life.given = {**life.given, "umask": 0}
    life.run("enable on nothing", operators, ENABLE)
    chip = other_soc(cache.toolchain.soc, OTHER_SOC)
    if not cache.lacks(chip, operators[0]):
        life.run("another chip", operators[:2], ENABLE, soc=chip)
    for operator, damage in zip(operators, _DAMAGES, strict=False):
        life.damage(operator, damage)
    life.link(operators[-1], ".o", ".json")
    life.lure(operators[-2], other=True)
    life.run("enable on damaged entries", operators, ENABLE)
    life.age(-60.0)
    shelf = Shelf(cache).lay(_IDLE, 1600 * KILOBYTE, 4.0, 3.0, 2.0, 0.2, 0.1)
    cache.leave_alone(shelf.entry(name).stem for name in _IDLE)
    for operator, damage in zip(operators, _ODD, strict=False):
        life.damage(operator, damage)
    life.run(
        "enable below the limit, on odd metadata",
        operators[::-1],
        ENABLE,
        shelf=Shelved(shelf, CacheLimits(9, 50)),
        environment=environment(9, 50),
    )
    limits = CacheLimits(6, 90) if cache.edition.ini else CacheLimits(4, 90)
    if cache.edition.ini:
        edit_ini(cache, ini(6, 90))
    life.link(operators[-1], ".o")
    life.lure(operators[-2])
    life.age(-60.0, oldest=operators[-2:])
    life.link_directories()
    shelf.lay(_IDLE, 1600 * KILOBYTE, 4.0, 3.0, 2.0, 0.2, 0.1)
    life.run(
        "enable over the limit",
        operators[:3],
        ENABLE,
        shelf=Shelved(shelf, limits),
        environment=environment(4, 90) if not cache.edition.ini else environment(6, 20),
    )
    for operator, damage in zip(operators[4:], _HALVES, strict=False):
        life.damage(operator, damage)
    life.link(operators[-3], ".o")
    life.lure(operators[-4])
    life.link_directories()
    life.run("force beside halves", operators[:2], FORCE)
    if change is not None:
        change.apply()
        life.link_directories(_LINKED)
        third = Shelf(cache, _THIRD).lay("x", 16 * KILOBYTE, 0.1)
        life.run("enable of another version", operators[1:4], ENABLE, anew=True)
        life.gone(third.gone(), "x", f"entries of {_THIRD}")
    life.age(-60.0)
    shelf.lay(_IDLE, 1600 * KILOBYTE, 4.0, 3.0, 2.0, 0.2, 0.1)
    life.run(
        "enable over the limit at last",
        operators,
        ENABLE,
        shelf=Shelved(shelf, limits),
        environment=environment(4, 90) if not cache.edition.ini else environment(900, 90),
    )


def _damage(*names: str) -> tuple[Any, ...]:
    by_name = {each.name: each for each in (*DAMAGES, *METADATA_REPLACED)}
    return tuple(by_name[each] for each in names)


_DAMAGES = _damage(
    "object-code-flipped",
    "object-end-flipped",
    "object-one-byte-short",
    "object-missing",
    "metadata-missing",
    "metadata-cut-in-half",
    "digest-wrong",
    "name-of-another",
    "object-empty",
    "metadata-empty",
)
_ODD = _damage("digest-a-number", "metadata-null", "name-missing", "metadata-a-directory")
_IDLE = "abcde"
"""Entries nobody asks for: 8000 KB, the last two of them used within half an hour."""
_THIRD = "Ascend910B3"
"""A chip for which nothing is compiled; the toolchain is not asked for it."""
_LINKED = "Ascend910B4-1"
"""A chip in whose place there is a link."""
_HALVES = _damage("object-missing", "metadata-missing", "metadata-not-json")


def _settle(name: str, life: Life) -> None:
    """Have the cache where a life has it, named as that life names it; a decoy is not to be used.

    The option goes before the variable, and that before HOME. Source: document C, op_cache_dir.
    """
    cache = life.cache
    # Aging on the mount at hand is the business of ``aging/works-on-relatime``.
    keep_access_times(cache.sandbox, keep=False)
    decoy = cache.sandbox / "decoy"
    entry = Entry(f"te_add_{'0' * 64}", CacheLayout(decoy).soc(cache.options.soc))
    entry.directory.mkdir(parents=True)
    for path in (entry.object_path, entry.metadata_path):
        path.write_bytes(b"an entry of another user")
    # Limits of a directory that is not used: everything idle would go.
    for each in CacheLayout(decoy).ini_candidates:
        each.write_text("[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n")
    life.guarded[Aspect.PLACE] = decoy
    if name in ("accidents", "aging"):
        place = cache.sandbox / "kept/here"
        place.mkdir(parents=True)
        (cache.sandbox / "linked").symlink_to(place)
        given: dict[str, Any] = {"cache_dir": cache.sandbox / "linked"}
    elif name == "implementations" and cache.edition.cache_path:
        place = cache.sandbox / "by_variable"
        place.mkdir()
        given = {"cache_dir": None, "environment": {_VARIABLE: str(place)}}
    else:
        # HOME lies deeper than the working directory, so that they do not lead to one place.
        cache.home = cache.sandbox / "算子_home-1.0" / LONG
        cache.home.mkdir(parents=True)
        place = cache.home / "atc_data"
        given = {"cache_dir": os.path.relpath(place, cache.work)}
    if cache.edition.cache_path and given["cache_dir"] is not None:
        given["environment"] = {_VARIABLE: str(decoy)}
    cache.root, cache.layout = place, CacheLayout(place)
    life.given = given


_VARIABLE = "ASCEND_CACHE_PATH"


class Caches(Protocol):
    """Where empty caches come from: the session."""

    def sandbox(self, name: str) -> Path:
        """A new empty directory."""

    def cache(self, sandbox: Path, evidence: Evidence) -> CacheUnderTest:
        """A cache under test in it."""

    def discard(self, sandbox: Path) -> None:
        """Remove a directory."""


class Lives:
    """Lives that were lived in this process, each once, for all checks that ask."""

    def __init__(self, caches: Caches, toolchain: Toolchain) -> None:
        self._caches = caches
        self._toolchain = toolchain
        self._lived: dict[str, Life] = {}
        self._cut_short: dict[str, Exception] = {}

    def life(self, story: Callable[[Life], None], evidence: Evidence) -> Life:
        """A whole life; ``evidence`` gets the steps of its runs.

        Raises:
            NotDecidable: where it cannot go on.
            ToolchainError: where the toolchain fails without a cache, too.
        """
        self._needs(Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT)
        if story is implementations:
            self._needs(Capability.IMPL_MODE_TABLES)
        name = story.__name__
        if name in self._cut_short:
            raise self._cut_short[name]
        lived = self._lived.get(name)
        if lived is not None:
            theirs = lived.cache.evidence
            evidence.sandbox, evidence.control = theirs.sandbox, theirs.control
            evidence.steps += theirs.steps
            evidence.ran(lived.cache.witness)
            lived.cache.evidence = evidence
            return lived
        sandbox = self._caches.sandbox(f"life of {name}")
        evidence.sandbox = str(sandbox)
        cache = self._caches.cache(sandbox, evidence)
        life = Life(cache, self._tables())
        _settle(name, life)
        try:
            story(life)
        except (NotDecidable, ToolchainError) as reason:
            self._cut_short[name] = reason
            raise
        self._lived[name] = life
        return life

    def _needs(self, *capabilities: Capability) -> None:
        for needed in capabilities:
            if needed not in self._toolchain.capabilities:
                pytest.skip(f"{self._toolchain.name}: {needed.lacking}")

    def _tables(self) -> ImplModeTables | None:
        if Capability.IMPL_MODE_TABLES not in self._toolchain.capabilities:
            return None
        try:
            return ImplModeTables.read(self._toolchain.impl_mode_tables())
        except KeyError:
            return None

    def close(self) -> None:
        """Remove the caches of lives without a fault."""
        for life in self._lived.values():
            if not life.found:
                self._caches.discard(life.cache.sandbox)
