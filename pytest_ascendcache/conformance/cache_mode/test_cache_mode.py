"""Document C, ``--op_compiler_cache_mode``: the three modes and the directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import AccessTimes, FileSystem, Snapshot, same_code
from pytest_ascendcache.conformance.kit.generated import starts_anew
from pytest_ascendcache.conformance.kit.named_alike import NamedAlike
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.states import bring_into, is_unused, take_debug_config
from pytest_ascendcache.conformance.kit.surroundings import SURROUNDINGS
from pytest_ascendcache.conformance.kit.told import accepted
from pytest_ascendcache.conformance.kit.vocabulary import (
    BYPASSED,
    COMPILED,
    DISABLE,
    ENABLE,
    FORCE,
    HIT,
    KEPT,
    NEW,
    OTHER_SOCS,
    REMOVED,
    REPLACED,
    UNCACHED,
    elementary,
    rule,
)
from pytest_ascendcache.contract import CacheMode, DebugConfig, EntryState, expected_outcomes
from pytest_ascendcache.contract.facts import Place, Subject, SubjectKind, outcome_fact
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.probes import PROBES


@rule("cache-mode/default-is-disable")
def test_default_stores_nothing(cache: CacheUnderTest, add: OperatorSpec) -> None:
    run = cache.compile(add)
    assert run[add] == UNCACHED
    assert is_unused(cache.root), "a directory was made"


@rule("cache-mode/default-is-disable")
def test_default_serves_nothing(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    cache.forget_reads()
    run = cache.compile(add)
    assert run[add] == BYPASSED
    assert run.inert_changes == {}, "the cache was touched"


@rule("cache-mode/default-is-disable")
def test_default_without_a_directory_stores_nothing(
    cache: CacheUnderTest, add: OperatorSpec
) -> None:
    home = cache.elsewhere(_home(cache))
    for _ in range(2):
        assert home.compile(add, cache_dir=None)[add] == UNCACHED
    assert not home.root.exists(), "$HOME/atc_data was made"


def _home(cache: CacheUnderTest) -> Path:
    return cache.home / "atc_data"


@elementary("add")
@rule("cache-mode/enable-stores")
@pytest.mark.parametrize("name", PROBES)
def test_enable_stores_a_valid_entry(
    cache: CacheUnderTest, ascend_operators: dict[str, OperatorSpec], name: str
) -> None:
    operator = ascend_operators[name]
    run = cache.compile(operator, mode=ENABLE)
    for other in (_home(cache), cache.work):
        if not cache.entries() and any(other.rglob("te_*.o")):
            _is_where_it_was_named(cache, run, operator, SubjectKind.OPTION, _DIRECTORY, other)
    assert run[operator] == NEW
    stems = run.new_stems(operator.type)
    assert len(stems) <= 1, "one operator has several entries"
    cache.needs_readable_entries()
    entry = cache.entries()[run.stem(operator) or ""]
    assert entry.problems() == []
    stored, delivered = entry.object_bytes or b"", run.kernel(operator)
    assert same_code(stored, delivered), "the stored object is not the delivered one"


@rule("cache-mode/enable-stores")
def test_enable_stores_every_operator_of_a_run(
    cache: CacheUnderTest, probes: tuple[OperatorSpec, ...]
) -> None:
    run = cache.compile(*probes, mode=ENABLE)
    for operator in probes:
        assert run[operator] == NEW
    stems = {run.stem(operator) for operator in probes}
    assert len(stems) == len(probes), "two operators share an entry"
    assert cache.problems() == []


def _is_where_it_was_named(
    cache: CacheUnderTest,
    run: Run,
    operator: OperatorSpec,
    kind: SubjectKind,
    name: str,
    other: Path | None = None,
) -> None:
    """The run stored the operator in the directory that this option or variable names."""
    fact = outcome_fact(run[operator], [NEW], operator, subject=Subject(kind, name))
    where = f"; the entry is in {other}" if other is not None else ""
    assert run[operator] == NEW, cache.evidence.found(
        fact, f"nothing is stored in the directory of {name}{where}"
    )


_DIRECTORY, _VARIABLE = "--op_compiler_cache_dir", "ASCEND_CACHE_PATH"


@elementary("add")
@rule("cache-mode/enable-reuses")
@pytest.mark.parametrize("name", PROBES)
def test_enable_reuses(
    cache: CacheUnderTest, ascend_operators: dict[str, OperatorSpec], name: str
) -> None:
    operator = ascend_operators[name]
    cache.warm(operator)
    assert cache.compile(operator, mode=ENABLE)[operator] == HIT


@rule("cache-mode/enable-reuses")
def test_enable_reuses_in_another_working_directory(
    cache: CacheUnderTest, add: OperatorSpec
) -> None:
    cache.warm(add)
    cache.work, cache.home = cache.sandbox / "work2", cache.sandbox / "home2"
    assert cache.compile(add, mode=ENABLE)[add] == HIT


@rule("cache-mode/enable-reuses")
def test_enable_reuses_whatever_a_node_is_called(cache: CacheUnderTest) -> None:
    """Nodes of ONNX models have names such as /encoder/layer.0/Add_1; some begin like others."""
    names = ("Add", "Add_1", "Add_10", "/Add", "/encoder/layer.0/Add", "encoder/layer.0/Add_1")
    operators = [
        operator_of("Add", (4, columns), (4, columns), name=name)
        for columns, name in enumerate(names, 24)
    ]
    for expected in (NEW, HIT):
        run = cache.compile(*operators, mode=ENABLE)
        assert {each.name: run[each] for each in operators} == dict.fromkeys(names, expected)


@rule("cache-mode/enable-reuses")
def test_enable_reuses_after_a_run_that_failed(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """A run that reuses two entries and ends at an operator of no known type."""
    cache.warm(add, exp)
    unknown = replace(exp, type="NoSuchOperator", name="unknown")
    if cache.attempt(add, exp, unknown, mode=ENABLE).succeeded:
        raise NotDecidable(f"{unknown} is compiled")
    run = cache.compile(add, exp, mode=ENABLE)
    assert run[add] == run[exp] == HIT


@rule("cache-mode/enable-reuses")
def test_enable_reuses_between_processes_that_share_nothing(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Each process is started anew, with another hash seed: forked ones have one in common."""
    starts_anew(cache)
    for seed, expected in (("1", NEW), ("2", HIT), ("3", HIT)):
        run = cache.compile(add, exp, mode=ENABLE, environment={"PYTHONHASHSEED": seed})
        assert {run[add], run[exp]} == {expected}


@rule("cache-mode/enable-reuses")
@pytest.mark.parametrize("where", [*SURROUNDINGS, "HOME-is-not-set"])
def test_enable_reuses_and_stores_in_another_environment(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, where: str
) -> None:
    cache.warm(add)
    around = SURROUNDINGS.get(where)
    options: dict[str, Any] = {"unset": frozenset({"HOME"})} if around is None else vars(around)
    run = cache.compile(add, exp, mode=ENABLE, **options)
    assert run[add] == HIT
    assert run[exp] == NEW


def _age(cache: CacheUnderTest, operator: OperatorSpec, days: float) -> None:
    entry = cache.entry(operator)
    for path in (entry.object_path, entry.metadata_path):
        then = path.stat().st_mtime - days * 24 * 3600
        os.utime(path, (then, then))


@rule("cache-mode/enable-reuses")
def test_enable_reuses_an_entry_of_last_year(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    _age(cache, add, 365)
    assert cache.compile(add, mode=ENABLE)[add] == HIT


@rule("cache-mode/enable-reuses")
def test_enable_reuses_with_debug_level_0_given(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """An example of the document: ``enable`` together with ``--op_debug_level=0``."""
    cache.warm(add)
    assert cache.compile(add, mode=ENABLE, debug_level=0)[add] == HIT


@elementary("valid")
@rule("cache-mode/force-purges-soc")
@pytest.mark.parametrize("before", EntryState)
def test_force_compiles_and_replaces(
    cache: CacheUnderTest, add: OperatorSpec, before: EntryState
) -> None:
    bring_into(cache, add, before)
    run = cache.compile(add, mode=FORCE)
    assert run[add] in expected_outcomes(FORCE, False, before)
    assert cache.problems() == []


@rule("cache-mode/force-purges-soc")
def test_force_removes_entries_of_other_operators(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.warm(add, mul, exp)
    _age(cache, mul, 365)
    _age(cache, exp, -1)  # written by a clock that is ahead
    run = cache.compile(add, mode=FORCE)
    assert run[add] == REPLACED
    assert cache.fate(run, mul) is REMOVED
    assert cache.fate(run, exp) is REMOVED


@rule("cache-mode/force-purges-soc")
@pytest.mark.parametrize("kept", ["metadata", "object"])
def test_force_removes_halves_too(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, kept: str
) -> None:
    cache.warm(mul)
    half = cache.entry(mul)
    (half.object_path if kept == "metadata" else half.metadata_path).unlink()
    run = cache.compile(add, mode=FORCE)
    assert cache.fate(run, mul) is REMOVED


@rule("cache-mode/force-purges-soc")
def test_force_removes_entries_beside_a_stray_directory(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec
) -> None:
    """The document does not say what becomes of other directories; the entries have to go."""
    cache.warm(add, mul)
    for name in ("a", "z"):  # before and after the entries, in either order of removal
        (cache.entry(add).directory / name).mkdir()
        (cache.entry(add).directory / name / "file").touch()
    run = cache.compile(add, mode=FORCE)
    assert run[add] == REPLACED
    assert cache.fate(run, mul) is REMOVED


@rule("cache-mode/force-spares-other-soc")
@pytest.mark.parametrize("other_soc", OTHER_SOCS, indirect=True)
def test_force_spares_other_soc(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, other_soc: str
) -> None:
    cache.warm(add, mul, soc=other_soc)
    cache.warm(add)
    run = cache.compile(add, mode=FORCE)
    assert run[add] == REPLACED
    assert cache.fate(run, add, soc=other_soc) is KEPT
    assert cache.fate(run, mul, soc=other_soc) is KEPT
    assert cache.compile(add, mode=ENABLE, soc=other_soc)[add] == HIT


@rule("cache-mode/force-spares-other-soc")
def test_force_spares_a_soc_whose_name_begins_alike(
    cache: CacheUnderTest, add: OperatorSpec
) -> None:
    """As the name of Ascend910B2C begins like Ascend910B2. Other directories, too."""
    cache.warm(add)
    beside = NamedAlike(cache.entry(add).directory)
    assert cache.compile(add, mode=FORCE)[add] == REPLACED
    beside.are_untouched(cache.evidence, "force")


@rule("cache-mode/force-spares-other-soc")
@pytest.mark.parametrize("longer", ["Ascend910B2C", "Ascend910B4-1"])
def test_force_spares_a_soc_whose_name_its_own_begins_with(
    cache: CacheUnderTest, add: OperatorSpec, longer: str
) -> None:
    shorter = longer[: len("Ascend910B2")]
    for chip in (shorter, longer):
        if reason := cache.lacks(chip, add):
            pytest.skip(f"{cache.toolchain.name}: {reason}")
    cache.warm(add, soc=shorter)
    run = cache.compile(add, mode=FORCE, soc=longer)
    assert cache.fate(run, add, soc=shorter) is KEPT


@rule("cache-mode/key-separates")
def test_nothing_is_served_from_a_directory_that_is_named_alike(
    cache: CacheUnderTest, add: OperatorSpec
) -> None:
    """Cold, warm, and with a damaged entry, beside other chips and caches that hold it marked."""
    cache.needs_reuse()
    cache.warm(add)
    cache.mark()
    chip = cache.entry(add).directory
    beside = [NamedAlike(cache.root), NamedAlike(chip)]
    shutil.rmtree(chip)
    for expected in (NEW, HIT, HIT):
        run = cache.compile(add, mode=ENABLE)
        assert run[add] == expected, f"{run[add]} beside directories whose names are alike"
        for each in beside:
            each.are_untouched(cache.evidence, str(expected))
    cache.entry(add).object_path.write_bytes(b"damaged")
    assert cache.compile(add, mode=ENABLE)[add].delivered is COMPILED
    for each in beside:
        each.are_untouched(cache.evidence, "a damaged entry")


@rule("cache-mode/force-then-enable")
def test_enable_reuses_what_force_stored(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.warm(add)
    cache.compile(add, exp, mode=FORCE)
    for _ in range(2):
        run = cache.compile(add, exp, mode=ENABLE)
        assert run[add] == HIT
        assert run[exp] == HIT


@rule("cache-mode/force-then-enable")
def test_force_refreshes_every_time(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    for _ in range(2):
        assert cache.compile(add, mode=FORCE)[add] == REPLACED


@elementary()
@rule("cache-mode/disable-is-inert")
def test_disable_serves_nothing(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    assert cache.compile(add, mode=DISABLE)[add] == BYPASSED


@rule("cache-mode/disable-is-inert")
@pytest.mark.parametrize("before", EntryState)
def test_disable_changes_and_reads_nothing(
    cache: CacheUnderTest,
    add: OperatorSpec,
    mul: OperatorSpec,
    ascend_file_system: FileSystem,
    before: EntryState,
) -> None:
    bring_into(cache, add, before)
    cache.warm(mul)
    cache.forget_reads()
    run = cache.compile(add, mode=DISABLE)
    assert run[add] in expected_outcomes(DISABLE, False, before)
    # The changes include access times, so that reading leaves a trace.
    assert run.inert_changes == {}
    if ascend_file_system.access_times is AccessTimes.NONE:
        cache.evidence.readings.append(
            "this mount keeps no access times: whether disable reads could not be seen"
        )
    assert not _home(cache).exists(), "$HOME/atc_data was made"


@rule("cache-mode/disable-is-inert")
@pytest.mark.parametrize("missing", ["object", "metadata"])
def test_disable_leaves_halves_alone(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, missing: str
) -> None:
    cache.warm(add, mul)
    for operator in (add, mul):
        entry = cache.entry(operator)
        (entry.object_path if missing == "object" else entry.metadata_path).unlink()
    cache.forget_reads()
    run = cache.compile(add, mode=DISABLE)
    assert run[add] == BYPASSED
    assert run.inert_changes == {}


@rule("cache-mode/disable-is-inert")
def test_disable_creates_no_directory(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.compile(add, mode=DISABLE)
    assert is_unused(cache.root)
    cache.compile(add, mode=DISABLE, cache_dir=None)
    assert not _home(cache).exists(), "$HOME/atc_data was made"


@rule("cache-mode/rejects-unknown-mode")
@pytest.mark.parametrize("value", ["on", "enable,force", "0", "enab", "enable2", "forced"])
def test_unknown_mode_is_refused(cache: CacheUnderTest, add: OperatorSpec, value: str) -> None:
    cache.warm(add)
    run = cache.attempt(add, raw_mode=value)
    assert not run.succeeded, accepted(cache.evidence, "--op_compiler_cache_mode", value)
    assert run.result.returncode != 0, "the exit status says success"
    assert run.result.delivered == (None,), "a kernel was delivered"
    for word in ("op_compiler_cache_mode", "enable", "force", "disable"):
        assert word in run.output, f"the error does not name {word}"
    assert run.entry_changes == {}, "the cache was touched"


@rule("cache-mode/rejects-unknown-mode")
def test_a_mode_in_capitals_is_no_other_mode(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    run = cache.attempt(add, raw_mode="ENABLE")
    assert not run.succeeded or run[add] == HIT


def _by_variable(cache: CacheUnderTest) -> tuple[CacheUnderTest, dict[str, str]]:
    """A cache in another directory, and the variable that names it."""
    other = cache.elsewhere(cache.sandbox / "from_environment")
    return other, {_VARIABLE: str(other.root)}


def _needs_cache_path(cache: CacheUnderTest) -> None:
    if not cache.edition.cache_path:
        pytest.skip(f"{cache.edition} has no ASCEND_CACHE_PATH")


def _used(
    cache: CacheUnderTest,
    operator: OperatorSpec,
    where: str,
    named: Path | None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """A compile whose directory is not named as in the positive control; it has to succeed."""
    run = cache.attempt(operator, mode=ENABLE, cache_dir=named, environment=environment)
    assert run.succeeded, f"with {where} the compile {run.result.ending}"
    return run


@rule("cache-mode/directory-precedence")
def test_option_beats_environment(cache: CacheUnderTest, add: OperatorSpec) -> None:
    other, environment = _by_variable(cache)
    run = cache.compile(add, mode=ENABLE, environment=environment)
    assert run[add] == NEW
    assert not any(Snapshot.take(other.root).files), "something was put into ASCEND_CACHE_PATH"
    assert not _home(cache).exists(), "something was put into $HOME/atc_data"


@rule("cache-mode/directory-precedence")
def test_only_the_directory_of_the_option_is_read(cache: CacheUnderTest, add: OperatorSpec) -> None:
    other, environment = _by_variable(cache)
    other.warm(add)
    cache.elsewhere(_home(cache)).warm(add)
    run = cache.compile(add, mode=ENABLE, environment=environment)
    assert run[add] == NEW


@elementary()
@rule("cache-mode/directory-precedence")
def test_environment_beats_home(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """Nor does it count where the option names a directory."""
    _needs_cache_path(cache)
    other, environment = _by_variable(cache)
    other.root.mkdir()  # most editions say that it has to exist
    run = cache.compile(add, mode=ENABLE, environment=environment)
    _is_where_it_was_named(cache, run, add, SubjectKind.OPTION, f"{_DIRECTORY} over {_VARIABLE}")
    run = _used(other, add, "ASCEND_CACHE_PATH alone", None, environment)
    _is_where_it_was_named(other, run, add, SubjectKind.VARIABLE, _VARIABLE)
    assert not _home(cache).exists(), "something was put into $HOME/atc_data"
    run = _used(other, add, "ASCEND_CACHE_PATH alone", None, environment)
    assert run[add] == HIT


_UNUSED = {
    "default": ("cache-mode/directory-precedence", {}),
    "disable": ("cache-mode/disable-is-inert", {"mode": DISABLE}),
    "debug-level": ("debug/level-bypasses", {"mode": ENABLE, "debug_level": 1}),
    "debug-config": (
        "debug/config-bypasses",
        {"mode": ENABLE, "debug_config": DebugConfig(("dump_cce",))},
    ),
}
"""Runs that do not use the cache, with the rules that say so."""


@pytest.mark.parametrize("place", [_VARIABLE, "HOME"])
@pytest.mark.parametrize(
    "options",
    [pytest.param(options, marks=rule(each), id=key) for key, (each, options) in _UNUSED.items()],
)
def test_a_cache_that_no_option_names_is_not_used_either(
    cache: CacheUnderTest, add: OperatorSpec, options: dict[str, Any], place: str
) -> None:
    """The variable and HOME say where the cache is, not whether it is used."""
    if "debug_config" in options:
        take_debug_config(cache)
    other, environment = cache.elsewhere(_home(cache)), dict[str, str]()
    if place == _VARIABLE:
        _needs_cache_path(cache)
        other, environment = _by_variable(cache)
    other.warm(add)
    run = other.compile(add, cache_dir=None, environment=environment, **options)
    assert run[add] == BYPASSED
    assert run.inert_changes == {}


@rule("cache-mode/directory-precedence")
def test_force_purges_the_directory_it_uses(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec
) -> None:
    other, environment = _by_variable(cache)
    other.warm(mul)
    cache.warm(mul)
    run = cache.compile(add, mode=FORCE, environment=environment)
    assert cache.fate(run, mul) is REMOVED
    assert other.entry(mul).is_valid, "force reached into ASCEND_CACHE_PATH"
    if cache.edition.cache_path:
        run = other.compile(add, mode=FORCE, cache_dir=None, environment=environment)
        assert other.fate(run, mul) is REMOVED
    home = cache.elsewhere(_home(cache))
    home.warm(mul)
    run = home.compile(add, mode=FORCE, cache_dir=None)
    assert home.fate(run, mul) is REMOVED


@rule("cache-mode/directory-precedence")
def test_a_relative_directory_is_below_the_working_directory(
    cache: CacheUnderTest, add: OperatorSpec
) -> None:
    """Which PWD does not name: a launcher that changes the directory leaves its own one there."""
    below = cache.elsewhere(cache.work / "relative")
    stale = {"PWD": str(cache.home)}
    for outcome in (NEW, HIT):
        run = below.compile(add, mode=ENABLE, cache_dir="relative", environment=stale)
        assert run[add] == outcome
    if cache.edition.cache_path:
        by_variable = {_VARIABLE: "relative", **stale}
        run = below.attempt(add, mode=ENABLE, cache_dir=None, environment=by_variable)
        assert not run.succeeded or run[add] == HIT, "a relative path of the variable"


@rule("cache-mode/directory-precedence")
def test_home_is_the_default(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """Also that of a user of a domain."""
    place = cache.sandbox / "LAB+jo@lab.example"
    home = cache.elsewhere(place / "atc_data")
    home.home = place
    assert _used(home, add, "HOME alone", None)[add] == NEW
    empty = {_VARIABLE: ""}
    assert _used(home, add, "HOME and an empty variable", None, empty)[add] == HIT


@rule("cache-mode/directory-precedence")
@pytest.mark.parametrize("named", [_DIRECTORY, _VARIABLE])
@pytest.mark.parametrize("mode", [FORCE, ENABLE], ids=lambda each: each.value)
def test_no_other_directory_stands_for_one_that_cannot_be_made(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, named: str, mode: CacheMode
) -> None:
    """The request may be refused, or compiled without a cache."""
    file = cache.sandbox / "file"
    file.touch()
    others, options = [cache.elsewhere(_home(cache))], dict[str, Any](cache_dir=file / "cache")
    if named == _VARIABLE:
        _needs_cache_path(cache)
        options = {"cache_dir": None, "environment": {_VARIABLE: str(file / "cache")}}
    elif cache.edition.cache_path:
        other, options["environment"] = _by_variable(cache)
        others.append(other)
    for other in others:
        other.warm(mul)
    before = [set(other.entries()) for other in others]
    run = others[0].attempt(add, mode=mode, **options)
    subject = Subject(SubjectKind.EVENT, "unusable directory")
    for other, entries in zip(others, before, strict=True):
        now, where = set(other.entries()), f"{named}={file / 'cache'}, and"
        assert entries <= now, cache.evidence.found(
            Place.TOUCHED, f"{where} entries of {other.root} are gone", mul, subject=subject
        )
        assert now <= entries, cache.evidence.found(
            Place.MISPLACED, f"{where} a new entry is in {other.root}", add, subject=subject
        )
    served = run.succeeded and run.served_from(add)
    assert not served, "the kernel comes from a directory that was not named"


@rule("cache-mode/directory-precedence")
def test_missing_directory_is_created(cache: CacheUnderTest, add: OperatorSpec) -> None:
    deep: Path = cache.sandbox / "a" / "b" / "c"
    other = cache.elsewhere(deep)
    run = _used(other, add, "a directory that is missing", deep)
    assert run[add] == NEW


@rule("cache-mode/directory-precedence")
def test_a_missing_directory_of_the_variable(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """Some editions leave it to the user to make it, one creates it: both readings are fine."""
    _needs_cache_path(cache)
    deep: Path = cache.sandbox / "a" / "b" / "c"
    other = cache.elsewhere(deep)
    environment = {"ASCEND_CACHE_PATH": str(deep)}
    run = other.attempt(add, mode=ENABLE, cache_dir=None, environment=environment)
    if run.succeeded:
        assert run[add] == NEW
    assert not _home(cache).exists(), "something was put into $HOME/atc_data"
    what = "created" if run.succeeded else "refused"
    cache.evidence.readings.append(f"an ASCEND_CACHE_PATH that does not exist is {what}")
