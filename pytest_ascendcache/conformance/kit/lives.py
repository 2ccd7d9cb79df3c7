"""The lives of a cache: sequences of runs in which every run tests what the earlier ones left. Of
each pair of neighbours the first is stored before the second is asked for, so a key that leaves out
the field in which they differ serves the wrong kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pytest_ascendcache.caches import CacheLayout, Entry, keep_access_times
from pytest_ascendcache.conformance.kit.aging_life import aging
from pytest_ascendcache.conformance.kit.between_runs import YEAR
from pytest_ascendcache.conformance.kit.findings import Question
from pytest_ascendcache.conformance.kit.implementations import tables_of
from pytest_ascendcache.conformance.kit.life import DECOYS, AgingShelf, Life, staged_version
from pytest_ascendcache.conformance.kit.neighbours import NEIGHBOURS, operator_of
from pytest_ascendcache.conformance.kit.own_entries import named, renamed
from pytest_ascendcache.conformance.kit.shelf import KILOBYTE, Shelf, edit_ini, environment
from pytest_ascendcache.conformance.kit.shelf import ini_values as ini
from pytest_ascendcache.conformance.kit.spellings import LONG
from pytest_ascendcache.conformance.kit.texts import Spelling, plainly
from pytest_ascendcache.conformance.kit.together import Caches, new_cache, take_over
from pytest_ascendcache.conformance.kit.vocabulary import DISABLE, ENABLE, FORCE, OTHER_SOC, needs
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
from pytest_ascendcache.faults import DAMAGES, METADATA_REPLACED, Damage
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

_VARIABLE = "ASCEND_CACHE_PATH"

FIRST = named((pair[0] for pair in NEIGHBOURS), "first_")
SECOND = named((pair[1] for pair in NEIGHBOURS), "second_")


def modes(life: Life) -> None:
    """Every cache mode, with debug switches in between, on neighbours."""
    third = named((each for pair in NEIGHBOURS for each in pair), "Again")
    directories = _directories(life)
    life.kernels.learn(*FIRST, *SECOND, _MEAN, *_NEW)
    life.run("disable before anything", FIRST[:4], DISABLE)
    life.run("enable on nothing", FIRST, ENABLE, directory=directories["home"])
    elsewhere = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PWD": "/"}
    life.cache.work = life.cache.work.with_name("elsewhere")  # as deep as the first one
    life.cache.work.mkdir()
    for name in DECOYS:
        (life.cache.work / name).write_text("Version=1.2.3\n")
    life.run(
        "enable of neighbours of what is there, elsewhere",
        (*SECOND[::-1], _MEAN, *FIRST[::-1]),
        ENABLE,
        environment=elsewhere,
    )
    life.run("no mode", (*FIRST[:3], _NEW[0]), None)
    life.run("disable", (*SECOND[:3], _NEW[0]), DISABLE)
    listed = DebugConfig(("ccec_g",), (FIRST[0].name, "OpType::Relu", "OpType::Ex", "Su"))
    debug: dict[str, Any] = {}
    if Capability.SINGLE_OP_DEBUG in life.cache.toolchain.capabilities:
        debug["debug_config"] = listed
        life.run("enable beside a list", (*FIRST, *SECOND[1:4], *_NEW), ENABLE, **debug)
    everything = (*FIRST, *map(renamed, (*SECOND, _MEAN)), *_NEW)
    life.run("enable after it", everything, ENABLE, directory=directories["no home"], debug_level=0)
    life.run("force under a debug level", FIRST[:4], FORCE, debug_level=3, **debug)
    life.between.age(-YEAR, 7200.0)
    life.between.add_user_directories()
    shelves = life.between.lay_hundreds()
    life.run("force", third[::2], FORCE, directory=directories["empty variable"])
    life.judge_force(shelves)
    life.run("force again", third[::4], FORCE, directory=directories["variable"])
    life.judge_force(shelves)
    life.run("enable at last", third, ENABLE, directory=directories["whole path"])


def _directories(life: Life) -> dict[str, dict[str, Any]]:
    """Other ways than the life's own to name its cache directory, as arguments of a run. Source:
    document C, op_cache_dir: the option precedes the variable, and the variable HOME."""
    cache = life.cache
    path, variables = str(cache.root), life.arguments.get("environment", {})
    relative = os.path.relpath(path, cache.work)
    ways: dict[str, dict[str, Any]] = {
        "home": {"cache_dir": None},
        "no home": {"cache_dir": path, "environment": variables, "unset": frozenset({"HOME"})},
        "empty variable": {"cache_dir": None, "environment": {_VARIABLE: ""}},
        "variable": {"cache_dir": None, "environment": {_VARIABLE: relative}},
        "whole path": {"cache_dir": path, "environment": variables},
    }
    if not cache.edition.cache_path:
        ways["empty variable"] = ways["variable"] = ways["home"]
    return ways


_MEAN = operator_of("ReduceMeanD", (4, 8), outs=((4, 1),), name="mean", axes=(1,), keep_dims=True)
_NEW = named((operator_of("Relu", (9, 3)), operator_of("Tanh", (9, 3))), "new")


_WITH_BOTH = ("Exp", "Gelu", "Tanh", "Sqrt", "SoftmaxV2")
"""Types to which a toolchain may offer both implementation modes."""


def implementations(life: Life) -> None:
    """Both implementation modes, selected by every option, for two chips."""
    tables = life.entries.tables
    if tables is None:
        raise NotDecidable("the toolchain's tables of implementation modes cannot be read")
    candidates = (operator_of(kind, (4, 32), dtype="float16") for kind in _WITH_BOTH)
    two = [each for each in candidates if tables.has_two(each)]
    # First those to which a list alone gives high performance: only their kernels show it.
    two.sort(
        key=lambda each: tables.selected[SelectMode.HIGH_PERFORMANCE].mode(each) == HIGH_PERFORMANCE
    )
    one = [operator_of("Mul", (4, 32), (4, 32), dtype="float16"), operator_of("Exp", (4, 32))]
    operators = tuple(
        each.named(f"block_{each.type}_{each.inputs[0].dtype.name}") for each in (*two, *one)
    )
    if len(two) < 2:
        raise NotDecidable("the toolchain offers both modes to fewer than two of these operators")
    types = (*(each.type for each in two), "Mul")
    others = [(each, HIGH_PERFORMANCE) for each in ("Abs", "Add", "Neg", "Relu", "Sub", "Maximum")]
    # No document says which of two lines for one type counts, so they are equal.
    repeated = [(two[-1].type, HIGH_PRECISION)]
    precise, fast = (
        [(kind, mode) for kind in types] for mode in (HIGH_PRECISION, HIGH_PERFORMANCE)
    )
    precise_file, fast_file = PrecisionFile.of(dict(precise)), PrecisionFile.of(dict(fast))
    precise_options = life.cache.options.but(precision_file=precise_file)
    fast_options = life.cache.options.but(precision_file=fast_file)
    no_mode = life.cache.options.but(
        select_implmode=SelectMode.HIGH_PRECISION, implmode_types=("Mul",)
    )
    life.kernels.learn_modes(operators, precise_options, fast_options, no_mode)
    life.run(
        "high precision by a file",
        operators,
        ENABLE,
        **_oddly(
            Spelling("\r\n", " ", between="\r\n# a note\r\n"), [*precise, *repeated], "[ByOpType]"
        ),
    )
    life.run(
        "high performance by a file, against the option beside it",
        operators,
        ENABLE,
        select_implmode=SelectMode.HIGH_PRECISION,
        **_oddly(Spelling(around="\t", trailing=" ", mark=True), [*fast[:2], *others, *fast[2:]]),
    )
    first, second = (each.name for each in operators[:2])
    by_name = {second: HIGH_PERFORMANCE, f"scope/{second}": HIGH_PRECISION, first: HIGH_PRECISION}
    file = PrecisionFile.of(dict(fast), by_name)
    life.run(
        "one by name, in a last line that has no end, against the options beside the file",
        operators,
        ENABLE,
        precision_file=PrecisionFile(file.content.rstrip("\n")),
        plain={"precision_file": file},
        select_implmode=SelectMode.HIGH_PRECISION,
        implmode_types=types,
    )
    by_default = life.kernels.are_alike(operators[0], no_mode, precise_options)
    _by_lists_and_tables(life, operators, precise_file, by_default)


def _by_lists_and_tables(
    life: Life, operators: tuple[OperatorSpec, ...], precise_file: PrecisionFile, by_default: bool
) -> None:
    """Select modes by a list of types, for all, for another chip, by a table, and not at all. The
    list selects the mode that the first operator does not have ``by_default`` (precise): only so
    does the kernel show whether the list names it."""
    first, second = operators[:2]
    other = SelectMode.HIGH_PERFORMANCE if by_default else SelectMode.HIGH_PRECISION
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
        life.run("another chip", operators, ENABLE, precision_file=precise_file, soc=chip)
        life.run("force there", (first,), FORCE, precision_file=precise_file, soc=chip)
    plain = SelectMode.HIGH_PRECISION
    life.run("high precision by its table", operators, ENABLE, select_implmode=plain)
    life.run("by default", operators, ENABLE)


def _oddly(
    spelling: Spelling, lines: Sequence[tuple[str, str]], section: str = ""
) -> dict[str, Any]:
    """Arguments with a precision file in odd spelling, and the same file in plain spelling."""
    text = spelling.write(lines, section).decode()
    return {
        "precision_file": PrecisionFile(text),
        "plain": {"precision_file": PrecisionFile(plainly(text))},
    }


def accidents(life: Life) -> None:
    """Damage, links, entries that age, and an upgrade."""
    cache = life.cache
    operators = named((each for pair in NEIGHBOURS for each in pair), "op")
    has_versions = Capability.VERSION_STAMP in cache.toolchain.capabilities
    change = staged_version(life, operators[0], cache.sandbox) if has_versions else None
    life.arguments = {**life.arguments, "umask": 0}
    life.run("enable on nothing", operators, ENABLE)
    chip = other_soc(cache.toolchain.soc, OTHER_SOC)
    if not cache.lacks(chip, operators[0]):
        life.run("another chip", operators[:2], ENABLE, soc=chip)
    _hurt(life, operators, _DAMAGES)
    life.between.link(operators[-1], ".o", ".json")
    life.between.point_outside(operators[-2], other=True)
    life.run("enable on damaged entries", operators, ENABLE)
    life.between.age(-60.0)
    shelf = Shelf(cache).lay(_IDLE, *_SIZE_AND_HOURS)
    cache.leave_alone(shelf.entry(name).stem for name in _IDLE)
    _hurt(life, operators, _ODD)
    life.run(
        "enable below the limit, on odd metadata",
        operators[::-1],
        ENABLE,
        aging=AgingShelf(shelf, CacheLimits(9, 50)),
        environment=environment(9, 50),
    )
    by_file = bool(cache.edition.ini)
    limits = CacheLimits(6 if by_file else 4, 90)
    if by_file:
        edit_ini(cache, ini(6, 90))
    life.between.link(operators[-1], ".o")
    life.between.point_outside(operators[-2])
    life.between.age(-60.0, oldest=operators[-2:])
    life.between.link_directories()
    shelf.lay(_IDLE, *_SIZE_AND_HOURS)
    life.run(
        "enable over the limit",
        operators[:3],
        ENABLE,
        aging=AgingShelf(shelf, limits),
        environment=environment(6, 20) if by_file else environment(4, 90),
    )
    _hurt(life, operators[4:], _HALVES)
    life.between.link(operators[-3], ".o")
    life.between.point_outside(operators[-4])
    life.between.link_directories()
    life.run("force beside halves", operators[:2], FORCE)
    if change is not None:
        change.apply()
        life.between.link_directories(_LINKED)
        life.run("enable of another version", operators[1:4], ENABLE, upgraded=True)
    life.between.age(-60.0)
    shelf.lay(_IDLE, *_SIZE_AND_HOURS)
    life.run(
        "enable over the limit at last",
        operators,
        ENABLE,
        aging=AgingShelf(shelf, limits),
        environment=environment(900, 90) if by_file else environment(4, 90),
    )


def _hurt(life: Life, operators: Sequence[OperatorSpec], damages: Sequence[Damage]) -> None:
    """Damage the entries of the first operators, each in its way."""
    for operator, damage in zip(operators, damages, strict=False):
        life.between.damage(operator, damage)


def _damage(names: str) -> list[Damage]:
    by_name = {damage.name: damage for damage in (*DAMAGES, *METADATA_REPLACED)}
    return [by_name[name] for name in names.split()]


_DAMAGES = _damage(
    "object-code-flipped object-end-flipped object-one-byte-short object-missing metadata-missing "
    "metadata-cut-in-half digest-wrong metadata-an-array object-empty metadata-empty"
)
_ODD = _damage("digest-a-number metadata-null name-a-number metadata-a-directory")
_IDLE, _SIZE_AND_HOURS = "abcde", (1600 * KILOBYTE, 4.0, 3.0, 2.0, 0.2, 0.1)
"""Entries nobody asks for: 8000 KB in all, the last two used less than half an hour ago."""
_LINKED = "Ascend910B4-1"
"""A chip whose directory is replaced by a link."""
_HALVES = _damage("object-missing metadata-missing metadata-not-json")


def _place(story: Callable[[Life], None], life: Life) -> None:
    """Put the cache where this life has it, and set the arguments that name the directory. Another
    one, named with lower precedence, must not be used. Source: document C, op_cache_dir."""
    cache = life.cache
    # Rule aging/works-on-relatime judges aging on the mount at hand.
    keep_access_times(cache.sandbox, keep=False)
    decoy = cache.sandbox / "decoy"
    entry = Entry(f"te_add_{'0' * 64}", CacheLayout(decoy).soc(cache.options.soc))
    entry.directory.mkdir(parents=True)
    for path in (entry.object_path, entry.metadata_path):
        path.write_bytes(b"an entry of another user")
    # A run that reads these limits removes every idle entry.
    for ini_path in CacheLayout(decoy).ini_candidates:
        ini_path.write_text("[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n")
    life.between.guarded[Question.PLACE] = decoy
    arguments: dict[str, Any]
    if story in (accidents, aging):
        root = cache.sandbox / "kept/here"
        root.mkdir(parents=True)
        (cache.sandbox / "linked").symlink_to(root)
        arguments = {"cache_dir": cache.sandbox / "linked"}
    elif story is implementations and cache.edition.cache_path:
        root = cache.sandbox / "by_variable"
        root.mkdir()
        arguments = {"cache_dir": None, "environment": {_VARIABLE: str(root)}}
    else:
        # HOME is deeper than the working directory, so a relative path from either differs.
        cache.home = cache.sandbox / "算子_home-1.0" / LONG
        cache.home.mkdir(parents=True)
        root = cache.home / "atc_data"
        arguments = {"cache_dir": os.path.relpath(root, cache.work)}
    if cache.edition.cache_path and arguments["cache_dir"] is not None:
        arguments["environment"] = {_VARIABLE: str(decoy)}
    cache.root, cache.layout = root, CacheLayout(root)
    life.arguments = arguments


class Lives:
    """The lives of this process. Each is lived once, for all checks that ask for it."""

    def __init__(self, caches: Caches, toolchain: Toolchain) -> None:
        self._caches = caches
        self._toolchain = toolchain
        self._lived: dict[str, Life] = {}
        self._cut_short: dict[str, Exception] = {}

    def life(self, story: Callable[[Life], None], evidence: Evidence) -> Life:
        """The life of a story; ``evidence`` gets the steps of its runs. Raises NotDecidable if the
        life cannot go on. Raises ToolchainError if the toolchain fails without a cache, too."""
        needs(self._toolchain, Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT)
        if story is implementations:
            needs(self._toolchain, Capability.IMPL_MODE_TABLES)
        name = story.__name__
        if name in self._cut_short:
            raise self._cut_short[name]
        if name in self._lived:
            take_over(self._lived[name].cache, evidence)
            return self._lived[name]
        life = Life(new_cache(self._caches, f"life of {name}", evidence), self._tables())
        _place(story, life)
        try:
            life.cache.needs_readable_entries()
            story(life)
        except (NotDecidable, ToolchainError) as reason:
            self._cut_short[name] = reason
            raise
        self._lived[name] = life
        return life

    def _tables(self) -> ImplModeTables | None:
        if Capability.IMPL_MODE_TABLES not in self._toolchain.capabilities:
            return None
        with suppress(NotDecidable):
            return tables_of(self._toolchain)
        return None

    def close(self) -> None:
        """Remove the caches of lives without a fact."""
        for life in self._lived.values():
            if not life.findings.facts:
                self._caches.discard(life.cache.sandbox)
