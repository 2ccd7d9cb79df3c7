"""The lives a cache is put through: runs that ask as much as they can of each other.

Operators come in pairs of neighbours: the first one is stored before the second is asked for, so
that a key that leaves out what they differ in serves the wrong kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from pytest_ascendcache.caches import CacheLayout, Entry, keep_access_times
from pytest_ascendcache.conformance.kit.life import Aspect, Life, named
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, edit_ini, environment
from pytest_ascendcache.conformance.kit.shelf import ini_values as ini
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
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

YEAR = 365 * 86400.0


def _operator(
    kind: str, *shapes: tuple[int, ...], dtype: str = "float32", out: int = 0, **attributes: Any
) -> OperatorSpec:
    tensors = tuple(TensorDesc.of(dtype, *shape) for shape in shapes)
    kinds = {float: "float", int: "int", bool: "bool", tuple: "list_int"}
    given = tuple(Attribute(k, kinds[type(v)], v) for k, v in attributes.items())
    return OperatorSpec(kind, tensors, (tensors[out],), given)


NEIGHBOURS: tuple[tuple[OperatorSpec, OperatorSpec], ...] = (
    (_operator("Add", (4, 8), (4, 8)), _operator("Mul", (4, 8), (4, 8))),
    (_operator("Sub", (6, 4), (6, 4)), _operator("Sub", (4, 6), (4, 6))),
    (_operator("Relu", (4, 8)), _operator("Relu", (4, 8), dtype="float16")),
    (_operator("Mul", (5, 8), (1, 8)), _operator("Mul", (5, 8), (5, 1))),
    (_operator("Sub", (3, 8), (3, 8)), _operator("Sub", (1, 8), (3, 8), out=1)),
    (_operator("SoftmaxV2", (4, 8), axes=(-1,)), _operator("SoftmaxV2", (4, 8), axes=(0,))),
    (
        _operator("LeakyRelu", (4, 8), negative_slope=0.1),
        _operator("LeakyRelu", (4, 8), negative_slope=0.10001),
    ),
    (_operator("Abs", (1, 2, 3, 4, 5)), _operator("Abs", (1, 2, 3, 5, 4))),
    (_operator("Exp", (70000,)), _operator("Exp", (70000 - 65536,))),
    (_operator("Neg", (2, 1, 8)), _operator("Neg", (2, 8))),
)
"""Two operators each that differ in one field."""

FIRST = named((pair[0] for pair in NEIGHBOURS), "first_")
SECOND = named((pair[1] for pair in NEIGHBOURS), "second_")


def modes(life: Life) -> None:
    """Every mode, with debug switches between, over neighbours."""
    third = named((each for pair in NEIGHBOURS for each in pair), "Again")
    life.run("enable on nothing", FIRST, ENABLE)
    elsewhere = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PWD": "/"}
    life.run(
        "enable of neighbours of what is there, elsewhere",
        (*SECOND[::-1], *FIRST[::-1]),
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
    life.run("enable after it", (*FIRST, *SECOND, *_NEW), ENABLE)
    life.run("force under a debug level", FIRST[:4], FORCE, debug_level=1, **beside)
    life.age(-YEAR, 7200.0)
    life.run("force", third[::2], FORCE)
    life.run("force again", third[::4], FORCE)
    life.run("enable at last", third, ENABLE)


_NEW = named((_operator("Relu", (9, 3)), _operator("Tanh", (9, 3))), "new")


def implementations(life: Life) -> None:
    """Both implementation modes, by every means, and two chips."""
    tables = life.tables
    if tables is None:
        raise NotDecidable("the toolchain's tables of implementation modes cannot be read")
    kinds = ("Exp", "Gelu", "Tanh", "Sqrt")
    found = [_operator(kind, (4, 32), dtype="float16") for kind in kinds]
    two = [each for each in found if tables.has_two(each)]
    one = [_operator("Mul", (4, 32), (4, 32), dtype="float16"), _operator("Exp", (4, 32))]
    operators = tuple(
        each.named(f"block_{each.type}_{each.inputs[0].dtype.name}") for each in (*two, *one)
    )
    if len(two) < 2:
        raise NotDecidable("the toolchain offers both modes to fewer than two of these operators")
    types = sorted({each.type for each in operators})
    precise, fast = (
        PrecisionFile.of(dict.fromkeys(types, mode)) for mode in (HIGH_PRECISION, HIGH_PERFORMANCE)
    )
    life.run("high precision by file", operators, ENABLE, precision_file=precise)
    life.run("high performance by file", operators, ENABLE, precision_file=fast)
    first, second = operators[:2]
    by_name = {second.name: HIGH_PERFORMANCE, first.name: HIGH_PRECISION}
    file = PrecisionFile.of({**dict.fromkeys(types, HIGH_PERFORMANCE)}, by_name)
    # Its last line has no end.
    file = PrecisionFile(file.content.rstrip("\n"))
    life.run(
        "one by name, against the options beside the file",
        operators,
        ENABLE,
        precision_file=file,
        select_implmode=SelectMode.HIGH_PRECISION,
        implmode_types=tuple(types),
    )
    listed = (first.type, second.type)
    life.run(
        "high precision by a list of types",
        (first, second, operators[-1]),
        ENABLE,
        select_implmode=SelectMode.HIGH_PRECISION,
        implmode_types=listed,
    )
    every = SelectMode.HIGH_PERFORMANCE_FOR_ALL
    life.run("high performance for all", operators, ENABLE, select_implmode=every)
    chip = other_soc(life.cache.toolchain.soc, OTHER_SOC)
    if not life.cache.lacks(chip, operators[-1]):
        life.run("another chip", operators, ENABLE, precision_file=precise, soc=chip)
        life.run("force there", (first,), FORCE, precision_file=fast, soc=chip)
    life.run("high precision again", operators, ENABLE, precision_file=precise)


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
    life.lure(operators[-2])
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
        shelf=(shelf, CacheLimits(9, 50)),
        environment=environment(9, 50),
    )
    limits = CacheLimits(4, 50) if cache.edition.ini else CacheLimits(4, 90)
    if cache.edition.ini:
        edit_ini(cache, ini(4, 50))
    life.link(operators[-1], ".o")
    life.lure(operators[-2])
    life.age(-60.0, oldest=operators[-2:])
    shelf.lay(_IDLE, 1600 * KILOBYTE, 4.0, 3.0, 2.0, 0.2, 0.1)
    life.run(
        "enable over the limit",
        operators[:3],
        ENABLE,
        shelf=(shelf, limits),
        environment=environment(4, 90) if not cache.edition.ini else environment(900, 90),
    )
    for operator, damage in zip(operators[4:], _HALVES, strict=False):
        life.damage(operator, damage)
    life.link(operators[-3], ".o")
    life.lure(operators[-4])
    life.run("force beside halves", operators[:2], FORCE)
    if change is not None:
        change.apply()
        life.run("enable of another version", operators[1:4], ENABLE, anew=True)
    life.run("enable at last", operators, ENABLE)


def _damage(*names: str) -> tuple[Any, ...]:
    by_name = {each.name: each for each in DAMAGES}
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
_ODD = _damage("digest-a-number", "metadata-null", "name-missing")
_IDLE = "abcde"
"""Entries nobody asks for: 8000 KB, the last two of them used within half an hour."""
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
    life.guarded[Aspect.PLACE] = decoy
    if name == "accidents":
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
        cache.home = cache.sandbox / "home" / "of" / "a-user"
        cache.home.mkdir(parents=True)
        place = cache.sandbox / "算子_cache-1.0" / "deep"
        given = {"cache_dir": f"../{place.parent.name}/{place.name}"}
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
