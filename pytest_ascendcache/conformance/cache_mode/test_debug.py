"""Document C, debug switches: ``--op_debug_level``, ``--op_debug_config``, ``op_debug_list``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import Entry, find_canaries, plant_canary, read_entries
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.states import bring_into, take_debug_config
from pytest_ascendcache.conformance.kit.vocabulary import (
    BYPASSED,
    DISABLE,
    ENABLE,
    HIT,
    MODES,
    NEW,
    NONE,
    REUSED,
    UNCACHED,
    VALID,
    elementary,
    rule,
)
from pytest_ascendcache.contract import (
    CacheMode,
    DebugConfig,
    EntryState,
    bystander_fates,
    expected_outcomes,
    is_under_debug,
    list_excepts,
)
from pytest_ascendcache.contract.facts import Delivery, outcome_fact
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.operators import OperatorSpec

LEVELS = (1, 2, 3, 4)
SWITCHES = {
    "ccec_g": ("ccec_g",),
    "oom": ("oom",),
    "dump_cce": ("dump_cce",),
    "dump_loc": ("dump_loc",),
    "ccec_O0": ("ccec_O0",),
    "check_flag": ("check_flag",),
    "several": ("dump_cce", "ccec_O0", "ccec_g"),
}
LISTS = {
    "name": ("probe_add",),
    "type": ("OpType::Add",),
    "name-among-others": ("elsewhere", "probe_add", "OpType::Conv2D"),
    "type-among-others": ("elsewhere", "OpType::Conv2D", "OpType::Add"),
    "name-and-type": ("probe_add", "OpType::Add"),
}
"""Lists that name ``probe_add`` and not ``probe_exp``."""

LISTED_CASES = [
    *(("type", mode, before) for mode in MODES for before in (NONE, VALID)),
    *((listed, ENABLE, VALID) for listed in LISTS if listed != "type"),
]
"""Every mode and state with one list, and every other list with one mode and state."""

NEAR_MISSES = {
    "name-prefix": ("probe",),
    "name-longer": ("probe_add_2",),
    "type-prefix": ("OpType::Ad",),
    "type-longer": ("OpType::AddN",),
    "type-as-name": ("Add",),
    "name-as-type": ("OpType::probe_add",),
}
"""Lists that name something close to ``probe_add``, a node of type ``Add``."""


def bypasses(cache: CacheUnderTest, operator: OperatorSpec, **debug: Any) -> bool | None:
    """Whether these options keep an operator out of the cache; ``None`` if that is left open."""
    options = cache.options.but(**debug)
    return is_under_debug(options, operator.type, operator.name, cache.edition)


@elementary(every_edition=True)
@rule("debug/level-bypasses")
def test_a_debug_level_serves_nothing(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """The first level and the last; scenarios ask the others."""
    cache.warm(add)
    for level in (LEVELS[0], LEVELS[-1]):
        assert cache.compile(add, mode=ENABLE, debug_level=level)[add] == BYPASSED


@rule("debug/level-bypasses")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", [NONE, VALID])
def test_a_debug_level_bypasses_the_cache(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    before: EntryState,
    mode: CacheMode,
    level: int,
) -> None:
    cache.warm(exp)
    bring_into(cache, add, before)
    options = cache.options.but(cache_mode=mode, debug_level=level)
    run = cache.compile(add, exp, mode=mode, debug_level=level)
    bypassed = bypasses(cache, add, debug_level=level)
    assert run[add] in expected_outcomes(mode, bypassed, before)
    assert run[exp] in expected_outcomes(mode, bypassed, VALID)
    if bypassed:
        assert cache.fate(run, exp) in bystander_fates(options, cache.edition)
        assert run.storing_changes == {}, "the cache was written to"


@elementary("enable-dump_cce")
@rule("debug/config-bypasses")
@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("mode", MODES)
def test_a_debug_config_bypasses_the_cache(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, mode: CacheMode, switches: str
) -> None:
    cache.warm(add)
    config = DebugConfig(SWITCHES[switches])
    options = cache.options.but(cache_mode=mode, debug_config=config)
    run = cache.compile(add, exp, mode=mode, debug_config=config)
    assert run[add] == BYPASSED
    assert run[exp] == UNCACHED
    assert cache.fate(run, add) in bystander_fates(options)
    assert run.storing_changes == {}, "the cache was written to"


@rule("debug/config-bypasses")
def test_a_debug_configuration_is_taken(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """At least one: the checks of all other promises need compiles that succeed."""
    for switches in SWITCHES.values():
        run = cache.attempt(add, mode=ENABLE, debug_config=DebugConfig(switches))
        if run.succeeded:
            return
    cache.compile(add, mode=ENABLE)  # no verdict if nothing can be compiled
    pytest.fail(f"every documented op_debug_config is refused: the compile {run.result.ending}")


@elementary("name-enable-valid")
@rule("debug/list-bypasses-listed")
@pytest.mark.parametrize(("listed", "mode", "before"), LISTED_CASES)
def test_a_listed_operator_always_compiles(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    listed: str,
    mode: CacheMode,
    before: EntryState,
) -> None:
    bring_into(cache, add, before)
    config = DebugConfig(listed=LISTS[listed])
    run = cache.compile(add, exp, mode=mode, debug_config=config)
    excepts = list_excepts(cache.edition)
    assert run[add] in expected_outcomes(mode, True, before, listed=excepts)
    assert run.new_stems(add.type) == [], "the listed operator was stored"


@rule("debug/list-bypasses-listed")
@pytest.mark.parametrize("listed_first", [True, False], ids=["listed-first", "listed-last"])
def test_a_listed_node_compiles_beside_a_twin_that_is_served(
    cache: CacheUnderTest, add: OperatorSpec, listed_first: bool
) -> None:
    """Two nodes that differ only in their names share an entry; one of them is listed. The switch
    does not change the kernel, so no key needs it."""
    twin = replace(add, name="twin")
    cache.warm(twin)
    both = (add, twin) if listed_first else (twin, add)
    listed = DebugConfig(("dump_cce",), (add.name,))
    run = cache.compile(*both, mode=ENABLE, debug_config=listed)
    if cache.as_model and run.marked is not None:
        # In a model nothing tells whose kernel is whose, but one of the two is not a served one.
        served = all(map(find_canaries, run.kernels(add)))
    else:
        served = run.delivered(add) is REUSED
    assert not served, cache.evidence.found(
        Delivery.STALE, "the listed node is served what its twin is"
    )


@rule("debug/list-caches-unlisted")
@pytest.mark.parametrize(("listed", "mode", "before"), LISTED_CASES)
def test_an_unlisted_operator_follows_the_mode(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    mul: OperatorSpec,
    listed: str,
    mode: CacheMode,
    before: EntryState,
) -> None:
    cache.warm(mul)
    bring_into(cache, exp, before)
    config = DebugConfig(listed=LISTS[listed])
    options = cache.options.but(cache_mode=mode, debug_config=config)
    run = cache.compile(add, exp, mode=mode, debug_config=config)
    bypassed = bypasses(cache, exp, debug_config=config)
    assert run[exp] in expected_outcomes(mode, bypassed, before)
    assert cache.fate(run, mul) in bystander_fates(options, cache.edition)


@rule("debug/list-caches-unlisted")
@pytest.mark.parametrize("listed", NEAR_MISSES)
def test_a_list_names_exactly_what_it_says(
    cache: CacheUnderTest, add: OperatorSpec, listed: str
) -> None:
    cache.warm(add)
    config = DebugConfig(listed=NEAR_MISSES[listed])
    run = cache.compile(add, mode=ENABLE, debug_config=config)
    bypassed = bypasses(cache, add, debug_config=config)
    assert run[add] in expected_outcomes(ENABLE, bypassed, VALID)


@rule("debug/list-caches-unlisted")
def test_a_listed_name_is_one_node_not_its_type(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """Another node of its type has its own kernel."""
    other = operator_of("Add", (2, 8), (2, 8), name="second_add")
    cache.warm(add, other)
    config = DebugConfig(listed=(add.name,))
    run = cache.compile(add, other, mode=ENABLE, debug_config=config)
    bypassed = bypasses(cache, other, debug_config=config)
    assert run[other] in expected_outcomes(ENABLE, bypassed, VALID)


@rule("debug/list-caches-unlisted")
def test_an_unlisted_node_is_stored_beside_a_twin_that_is_listed(
    cache: CacheUnderTest, add: OperatorSpec
) -> None:
    """Of two nodes that differ only in their names the listed one comes first and is not stored.
    That it was compiled in this run does not keep the other one from being stored."""
    twin = replace(add, name="twin")
    config = DebugConfig(("dump_cce",), (add.name,))
    bypassed = bypasses(cache, twin, debug_config=config)
    cache.compile(add, twin, mode=ENABLE, debug_config=config)
    run = cache.compile(twin, mode=ENABLE, debug_config=config)
    assert run[twin] in expected_outcomes(ENABLE, bypassed, NONE if bypassed else VALID)


@rule("debug/list-without-options")
def test_which_reading_of_a_list_alone(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.warm(add, exp)
    config = DebugConfig(switches=None, listed=("OpType::Add",))
    run = cache.attempt(add, exp, mode=ENABLE, debug_config=config)
    if not run.succeeded:
        cache.evidence.readings.append("a list without op_debug_config is refused")
        return
    compiled, reused = BYPASSED, HIT
    everything = "any debug configuration counts: every operator compiles"
    readings = {} if list_excepts(cache.edition) else {(compiled, compiled): everything}
    readings |= {
        (compiled, reused): "a list without op_debug_config counts: listed operators compile",
        (reused, reused): "a list without op_debug_config counts as no debugging",
    }
    outcomes = (run[add], run[exp])
    assert outcomes in readings, f"listed: {outcomes[0]}; unlisted: {outcomes[1]}: neither reading"
    cache.evidence.readings.append(readings[outcomes])


DEBUGGED: dict[str, dict[str, Any]] = {
    **{f"level-{level}": {"debug_level": level} for level in LEVELS},
    "config": {"debug_config": DebugConfig(("ccec_O0", "ccec_g"))},
    "list": {"debug_config": DebugConfig(("ccec_O0", "ccec_g"), ("OpType::Add",))},
}


def _needs_bypass(cache: CacheUnderTest, add: OperatorSpec, how: str) -> None:
    if "level" not in how:
        take_debug_config(cache)
    if not bypasses(cache, add, **DEBUGGED[how]):
        pytest.skip(f"{cache.edition} does not say that {how} keeps kernels out of the cache")


@rule("debug/results-not-cached")
@pytest.mark.parametrize("how", DEBUGGED)
def test_a_debug_kernel_is_not_served_later(
    cache: CacheUnderTest, add: OperatorSpec, how: str
) -> None:
    """Neither from the cache nor from the working directory: kernels left there are marked too."""
    _needs_bypass(cache, add, how)
    cache.compile(add, mode=ENABLE, **DEBUGGED[how])
    try:
        left = {plant_canary(entry).token for entry in _entries_below(cache.work)}
    except OSError as error:
        raise NotDecidable(f"{error.filename} cannot be marked ({error.strerror})") from None
    run = cache.compile(add, mode=ENABLE)
    taken = left & find_canaries(run.model(add).read_bytes())
    assert not taken, "a kernel is served that debugging has left in the working directory"
    assert run[add] == NEW
    assert cache.delivers_fresh(run, add), "the kernel is not the normal one"


def _entries_below(directory: Path) -> list[Entry]:
    """Everything below a directory that looks like a valid entry."""
    return [
        entry
        for path, *_ in os.walk(directory)
        for entry in read_entries(Path(path)).values()
        if entry.is_valid
    ]


@rule("debug/results-not-cached")
@pytest.mark.parametrize("how", DEBUGGED)
def test_a_normal_kernel_is_not_served_to_debugging(
    cache: CacheUnderTest, add: OperatorSpec, how: str
) -> None:
    _needs_bypass(cache, add, how)
    cache.warm(add)
    run = cache.compile(add, mode=ENABLE, **DEBUGGED[how])
    assert run[add] == BYPASSED
    run = cache.compile(add, mode=ENABLE)
    assert run[add] == HIT


@rule("debug/results-not-cached")
@pytest.mark.parametrize("listed_first", [True, False], ids=["listed-first", "listed-last"])
def test_a_listed_node_and_its_twin_do_not_share_a_kernel(
    cache: CacheUnderTest, add: OperatorSpec, listed_first: bool
) -> None:
    """Two nodes of one run differ only in their names; one of them is listed."""
    take_debug_config(cache)
    twin = replace(add, name="twin")
    both = (add, twin) if listed_first else (twin, add)
    listed = DebugConfig(("ccec_O0", "ccec_g"), (add.name,))
    run = cache.compile(*both, mode=ENABLE, debug_config=listed)
    own = cache.fresh(twin)
    # In a model nothing tells whose kernel is whose, but one of the two must be no debug kernel.
    kernels = run.kernels(twin) if cache.as_model else [run.kernel(twin)]
    is_own = own in kernels or cache.delivers_fresh(run, twin)
    assert is_own, cache.evidence.found(
        Delivery.ANOTHER, "the node that is not listed has a debug kernel", twin
    )
    again = cache.compile(twin, mode=ENABLE)
    is_own = again.unmarked_sha256(twin) == sha256(own) or cache.delivers_fresh(again, twin)
    assert is_own, "a debug kernel is served later"


KEPT_FILES = {
    0: frozenset[str](),
    1: frozenset({".o", ".json", ".cce", "_loc.json"}),
    2: frozenset({".o", ".json", ".cce", "_loc.json"}),
    3: frozenset({".o", ".json"}),
    4: frozenset({".o", ".json", ".cce"}),
}


def _kinds(kernel_meta: list[Path]) -> frozenset[str]:
    special = ("_loc.json", "_compute.json")
    return frozenset(
        next((each for each in special if path.name.endswith(each)), path.suffix)
        for path in kernel_meta
        if path.is_file()
    )


@rule("debug/outputs")
@pytest.mark.parametrize("level", KEPT_FILES)
def test_what_a_level_keeps(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, level: int
) -> None:
    cache.compile(add, exp, mode=DISABLE, debug_level=level)
    for operator in (add, exp):
        files = [*cache.work.glob(f"**/kernel_meta/**/te_{operator.type.lower()}_*")]
        files = files or [*cache.work.glob("**/kernel_meta/**/*")]  # names are free
        # Files of other kinds are free; level 4 adds the computation of fused operators.
        kept = _kinds(files) & KEPT_FILES[1]
        if level in (1, 2) and not cache.edition.ini:
            kept |= {".o", ".json"}  # which this edition does not mention
        assert sorted(kept) == sorted(KEPT_FILES[level])
        assert [path.name for path in files if path.stat().st_size == 0] == []


@rule("debug/list-bypasses-listed")
def test_a_debug_file_that_was_edited_is_read_again(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Its path, size and time stay: the list in it decides."""
    cache.warm(add, exp)
    path = cache.sandbox / "edited.cfg"
    for listed in (add, exp):
        config = DebugConfig(("ccec_g",), (f"OpType::{listed.type}",))
        path.write_text(config.text(), encoding="utf-8")
        os.utime(path, (1_700_000_000, 1_700_000_000))
        run = cache.compile(add, exp, mode=ENABLE, debug_file=path)
        assert run[listed] == BYPASSED, cache.evidence.found(
            outcome_fact(run[listed], [BYPASSED], listed), f"{listed} is listed now"
        )


BAD_FILES = {
    "missing": None,
    "empty": "",
    "no-value": "op_debug_config =\n",
    "no-equals-sign": "op_debug_config ccec_g\n",
    "other-words": "debug everything, please\n",
    "empty-list": "op_debug_config = ccec_g\nop_debug_list =\n",
    "binary": "\x7fELF\x02\x01\x00\udc80",
    "a-directory": None,
}


READ_AS_NOTHING = {"empty": {HIT}, "no-value": {HIT}, "empty-list": {HIT, BYPASSED}}
"""What may become of a valid entry if a file that sets nothing is no error."""


@rule("debug/rejects-bad-file")
@pytest.mark.parametrize("contents", BAD_FILES)
def test_a_bad_debug_file_is_refused(
    cache: CacheUnderTest, add: OperatorSpec, contents: str
) -> None:
    cache.warm(add)
    path = cache.sandbox / "bad.cfg"
    text = BAD_FILES[contents]
    if text is not None:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    elif contents == "a-directory":
        path.mkdir()
    run = cache.attempt(add, mode=ENABLE, debug_file=path)
    if run.succeeded and run[add] in READ_AS_NOTHING.get(contents, ()):
        return
    assert not run.succeeded, "the file was accepted"
    assert run.result.returncode != 0, "the exit status says success"
    assert "bad.cfg" in run.output, "the error does not name the file"
    assert run.entry_changes == {}, "the cache was touched"
