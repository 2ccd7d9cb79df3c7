"""Document C, ``op_cache.ini`` and the two variables: limits and aging.

Each check is a story: entries of chosen size and age, one run, and the entries that are gone
afterwards. The run reuses ``add``, so it stores nothing. If nothing is gone, a run that stores
follows.

Most stories use a shelf of ten entries of 940 KB, last used 12, 11, ... 3 hours ago, ``a`` being
the oldest, under a limit of 8 MB = 8192 KB:

    the ten are 9400 KB; under a ratio of 80 %, 6553 KB may stay: 6 entries (5640), 4 go;
    50 %: 4096 KB, 4 entries (3760), 6 go; 20 %: 1638 KB, 1 entry (940), 9 go.

The free rest is room for the toolchain's own entry of ``add``, also where an MB is 10^6 bytes.
Aging under the defaults (500 MB, 50 %) is judged with six entries of 100 MB: 250 MB may stay, 2
entries, 4 go.
"""

from __future__ import annotations

import os
import re
import string
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import (
    AccessTimes,
    Entry,
    Snapshot,
    keep_access_times,
    probe_file_system,
)
from pytest_ascendcache.conformance.kit.shelf import (
    HOUR,
    KILOBYTE,
    ORPHANS,
    Shelf,
    accessed,
    bytes_of,
    edit_ini,
    environment,
    habits_of,
    ini_path,
    ini_values,
    names_limit,
    newcomer,
    rest,
    rest_entry,
)
from pytest_ascendcache.conformance.kit.vocabulary import (
    ENABLE,
    FORCE,
    HIT,
    NEW,
    elementary,
    needs,
    rule,
)
from pytest_ascendcache.contract import (
    CacheLimits,
    CacheMode,
    Capability,
    expected_limits,
    other_soc,
)
from pytest_ascendcache.contract.aging import HALF_AN_HOUR, MEGABYTE
from pytest_ascendcache.contract.facts import Aged, Place, Words
from pytest_ascendcache.faults import Act, Action, CrashKind, FaultPlan, Tree
from pytest_ascendcache.observation import CacheUnderTest, Interruption, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain

TEN, SIX, MANY = "abcdefghij", "abcdef", string.ascii_letters
HOURS = (12, 11, 10, 9, 8, 7, 6, 5, 4, 3)
ITEM, LARGE_ITEM = 940 * KILOBYTE, 100 * MEGABYTE
GOES = {1: TEN, 20: "abcdefghi", 50: "abcdef", 80: "abcd", 100: "ab"}
"""Ratio under a limit of 8 MB -> which of the ten go."""


@pytest.fixture
def cache(ascend_cache: CacheUnderTest) -> CacheUnderTest:
    """An empty cache, with noatime if possible: ``aging/works-on-relatime`` judges the mount at
    hand."""
    keep_access_times(ascend_cache.sandbox, keep=False)
    return ascend_cache


def beside(cache: CacheUnderTest, *operators: OperatorSpec, soc: str | None = None) -> Shelf:
    """Store these operators. Returns an empty shelf next to their entries, or of another chip."""
    if operators:
        cache.warm(*operators)
    return Shelf(cache, soc)


def ten(cache: CacheUnderTest, *operators: OperatorSpec, soc: str | None = None) -> Shelf:
    """The ten entries of the stories, next to those of the operators. Marking reads every byte, so
    nothing is marked from now on."""
    shelf, cache.marks = beside(cache, *operators, soc=soc), False
    return shelf.lay(TEN, ITEM, *HOURS)


def six(cache: CacheUnderTest, *operators: OperatorSpec) -> Shelf:
    """Six entries of 100 MB, unmarked like the ten."""
    shelf, cache.marks = beside(cache, *operators), False
    return shelf.lay(SIX, LARGE_ITEM, *HOURS[:6])


def limits_by(
    cache: CacheUnderTest, source: str, size: object, ratio: object = None
) -> Mapping[str, str]:
    """Set limits in the file, which needs a ratio too, or return the variables that set them."""
    if source == "environment":
        return environment(size, ratio)
    edit_ini(cache, ini_values(size, ratio or 50))
    return {}


def _assert_success(run: Run) -> None:
    assert run.succeeded, f"the compile {run.result.ending}: {run.output.strip()[-200:]}"


def carried_out(cache: CacheUnderTest, operator: OperatorSpec, **options: Any) -> Run:
    """A run under enable, which has to succeed whatever the limits are."""
    run = cache.attempt(operator, mode=ENABLE, **options)
    _assert_success(run)
    return run


def _assert_stays(cache: CacheUnderTest, entry: Entry) -> None:
    """A valid entry that was just reused must not age."""
    assert entry.is_valid, cache.evidence.found(
        Aged.TOO_MANY, "the entry aged although it had just been reused"
    )


@rule("aging/creates-ini")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_a_run_creates_the_file_where_the_document_says(
    cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode
) -> None:
    cache.compile(add, mode=mode)
    path = cache.root / "op_cache.ini"
    assert path.is_file(), cache.evidence.found(
        Place.MISPLACED, "there is no op_cache.ini in the directory of --op_compiler_cache_dir"
    )
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    assert "[op_compiler_cache]" in lines, "op_cache.ini lacks its section"


@rule("aging/creates-ini")
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_what_a_user_wrote_stays(cache: CacheUnderTest, add: OperatorSpec, mode: CacheMode) -> None:
    cache.warm(add)
    edit_ini(cache, ini_values(700, 80))
    cache.compile(add, mode=mode)
    _assert_700_and_80(cache)


def _assert_700_and_80(cache: CacheUnderTest) -> None:
    texts = [path.read_text() for path in cache.layout.ini_candidates if path.exists()]
    for key, value in cache.edition.ini_values(ini_values(700, 80)).items():
        line = re.compile(rf"^[ \t]*{key}[ \t]*[=:][ \t]*{value}[ \t]*$", re.MULTILINE)
        assert any(map(line.search, texts)), f"{key}={value} is gone"


@rule("aging/creates-ini")
def test_what_a_user_wrote_survives_an_upgrade(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec
) -> None:
    needs(toolchain, Capability.VERSION_STAMP)
    change = toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
    cache.compile(add, mode=ENABLE, environment=change.environment)
    edit_ini(cache, ini_values(700, 80))
    change.apply()
    cache.compile(add, mode=ENABLE, environment=change.environment)
    _assert_700_and_80(cache)


@rule("aging/ini-for-all-users")
def test_the_file_acts_on_every_process(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """The second user names the directory by the variable, if there is one."""
    cache.warm(add)
    edit_ini(cache, ini_values(8, 50))
    by_variable = {"ASCEND_CACHE_PATH": str(cache.root)} if cache.edition.cache_path else {}
    for user, named in (("first", {}), ("second", by_variable)):
        cache.home = cache.sandbox / user
        shelf = ten(cache)
        variables = {"USER": user, "LOGNAME": user, **named}
        by_option = None if named else cache.root
        run = cache.compile(add, mode=ENABLE, environment=variables, cache_dir=by_option)
        if named and run[add] != HIT:
            raise NotDecidable("ASCEND_CACHE_PATH alone does not name the cache")
        shelf.check(run, CacheLimits(8, 50), goes=GOES[50])


BY_HAND = (
    "#配置文件格式,必须包含\n[op_compiler_cache]\n"
    "#限制某个芯片下缓存文件夹的磁盘空间的大小,单位为MB\n{}=8\n"
    "#设置需要保留缓存的空间大小比例\n{}=80\n"
)
"""The file that the document prints, where it says "若op_cache.ini文件不存在,则需要手动创建"."""


@elementary("written")
@rule("aging/ini-for-all-users")
@pytest.mark.parametrize("place", ["documented", "generated", "written", "written-in-GBK"])
def test_a_file_made_by_hand_counts(cache: CacheUnderTest, add: OperatorSpec, place: str) -> None:
    """The file is there before the first run, replaces the one that the run made, or is put in
    every place where CANN looks after the run. Chinese editors may write its notes in GBK."""
    if not cache.edition.ini:
        pytest.skip(f"{cache.edition} has no op_cache.ini")
    data = BY_HAND.format(*cache.edition.ini).encode("gbk" if "GBK" in place else "utf-8")
    if place == "documented":
        cache.root.mkdir()
        (cache.root / "op_cache.ini").write_bytes(data)
    cache.warm(add)
    if place != "documented":
        for path in cache.layout.ini_candidates:
            if path.exists() or place != "generated":
                path.write_bytes(data)
    shelf = ten(cache)
    shelf.check(cache.compile(add, mode=ENABLE), CacheLimits(8, 80), goes=GOES[80])


@rule("aging/ini-for-all-users")
def test_the_environment_acts_on_its_own_process(cache: CacheUnderTest, add: OperatorSpec) -> None:
    ten(cache, add).ages(add, 8, 50, goes=GOES[50])
    again = ten(cache)
    again.check(cache.compile(add, mode=ENABLE), CacheLimits(), goes="")


@rule("aging/needs-both")
@pytest.mark.parametrize("ago", [0, 1000, -2 * HOUR])
def test_recently_used_entries_stay_over_the_limit(
    cache: CacheUnderTest, add: OperatorSpec, ago: float
) -> None:
    """Also entries that, by another host's clock, will be used in two hours."""
    shelf = beside(cache, add).lay(TEN, ITEM, *[ago / HOUR] * 10)
    shelf.ages(add, 8, 20, goes="")


@rule("aging/needs-both")
@pytest.mark.parametrize(("size", "ratio"), [(8, 1), (4097, 50)])
def test_idle_entries_stay_below_the_limit(
    cache: CacheUnderTest, add: OperatorSpec, size: int, ratio: int
) -> None:
    # 8 x 940 KB = 7520 KB of 8192 KB: far above the retained share, but not above the limit.
    # 4097 MB are 1 MB to a toolchain that counts bytes in 32 bits.
    shelf = beside(cache, add).lay(TEN[:8], ITEM, *HOURS[:8])
    shelf.ages(add, size, ratio, goes="")


@rule("aging/needs-both")
def test_only_idle_entries_go(cache: CacheUnderTest, add: OperatorSpec) -> None:
    # 20 % asks for nine to go, but only five have been idle for more than 1800 s.
    shelf = beside(cache, add).lay(TEN, ITEM, *HOURS[:5], *[1000 / HOUR] * 5)
    shelf.ages(add, 8, 20, goes="abcde")


@elementary()
@rule("aging/needs-both")
def test_an_idle_entry_goes_over_the_limit(cache: CacheUnderTest, add: OperatorSpec) -> None:
    # 9 MB and a little, one idle for 2000 s. Without it the rest is below 8 MB, 100 %.
    shelf = beside(cache, add).lay("a", 8 * MEGABYTE, 2000 / HOUR).lay("b", MEGABYTE, 0)
    shelf.ages(add, 8, 100, goes="a")


CLOCKS = {
    "a": -2.0,
    "b": -24 * 40,
    "c": 60 / HOUR,
    "d": 2000 / HOUR,
    "e": 36.0,
    "f": 24 * 400,
    "g": 24 * 365 * 15,
    "h": None,
    "i": -24 * 365 * 14,
    "j": -24 * 365 * 84,
}
"""Hours since the last access of the ten, by clocks that are wrong: ``None`` stands for 1970, and
``i`` and ``j`` are so far ahead that seconds no longer fit into 31 and 32 bits."""


@rule("aging/needs-both")
@pytest.mark.parametrize(("ratio", "goes"), [(1, "defgh"), (90, "fgh")])
def test_times_of_any_clock_are_told_apart(
    cache: CacheUnderTest, add: OperatorSpec, ratio: int, goes: str
) -> None:
    """Files may be copied, restored, or written by another host. However far a time is from now,
    entries idle for hours or decades go, and entries with a time ahead are not idle. Under 90 %
    seven entries may stay, so the three oldest go."""
    _needs_an_order(cache)
    hours = [time.time() / HOUR if each is None else each for each in CLOCKS.values()]
    shelf = beside(cache, add).lay(TEN, ITEM, *hours)
    shelf.ages(add, 8, ratio, goes=goes)


def _needs_an_order(cache: CacheUnderTest) -> None:
    if not cache.edition.idle:
        pytest.skip(f"{cache.edition} does not say which entries are old")


@rule("aging/oldest-first")
@pytest.mark.parametrize(
    ("hours", "goes"),
    [
        (tuple(reversed(HOURS)), "efghij"),
        ((3, 12, 5, 10, 7, 8, 9, 6, 11, 4), "bdefgi"),
        (tuple(3 + minutes / 60 for minutes in (0, 9, 1, 8, 2, 7, 3, 6, 4, 5)), "bdfhij"),
    ],
    ids=["reversed", "mixed", "minutes-apart"],
)
def test_the_least_recently_accessed_go_first(
    cache: CacheUnderTest, add: OperatorSpec, hours: tuple[float, ...], goes: str
) -> None:
    _needs_an_order(cache)
    shelf = beside(cache, add).lay(TEN, ITEM, *hours)
    shelf.ages(add, 8, 50, goes=goes)


@rule("aging/oldest-first")
def test_age_counts_and_not_size(cache: CacheUnderTest, add: OperatorSpec) -> None:
    _needs_an_order(cache)
    # 3 x 1 MB + 2 x 3 MB = 9 MB; 50 % of 8 MB are 4 MB: three small and the older large one
    # go, and 3 MB stay.
    shelf = beside(cache, add).lay("abc", MEGABYTE, 9, 8, 7).lay("de", 3 * MEGABYTE, 6, 5)
    shelf.ages(add, 8, 50, goes="abcd")


@rule("aging/keeps-ratio")
@pytest.mark.parametrize("ratio", GOES)
def test_aging_stops_at_the_retained_share(
    cache: CacheUnderTest, add: OperatorSpec, ratio: int
) -> None:
    ten(cache, add).ages(add, 8, ratio, goes=GOES[ratio])


@rule("aging/keeps-ratio")
def test_the_share_is_one_of_the_limit(cache: CacheUnderTest, add: OperatorSpec) -> None:
    # 10 x 1880 KB = 18800 KB. 50 % of the limit are 4096 KB: 2 stay (3760); 50 % of the cache
    # would be 9400 KB: 4 would stay.
    shelf = beside(cache, add).lay(TEN, 2 * ITEM, *HOURS)
    shelf.ages(add, 8, 50, goes="abcdefgh")


@rule("aging/keeps-ratio")
def test_a_second_run_removes_nothing_more(cache: CacheUnderTest, add: OperatorSpec) -> None:
    shelf = ten(cache, add)
    shelf.ages(add, 8, 50, goes=GOES[50])
    gone = shelf.gone()
    cache.compile(add, mode=ENABLE, environment=environment(8, 50))
    shelf.compare(gone)


@rule("aging/hit-renews")
@pytest.mark.parametrize("ago", [0.1, 1, 5, 40])
def test_a_reused_entry_survives_the_next_aging(
    cache: CacheUnderTest, add: OperatorSpec, mul: OperatorSpec, exp: OperatorSpec, ago: float
) -> None:
    """The entries were last used this many hours ago. A use six minutes after another one counts
    too: a toolchain that notes uses only every few minutes shortens the half hour by that much."""
    cache.warm(add, mul, exp)
    entries = [cache.entry(operator) for operator in (add, mul)]
    cache.mark()
    for entry in entries:
        rest_entry(cache, entry, ago * HOUR)
    started = int(time.time())
    run = cache.compile(add, mul, mode=ENABLE)
    assert run[add] == run[mul] == HIT
    for entry in entries:
        # A toolchain may look at only one of the two files.
        assert max(accessed(cache, entry)) >= started, "the reuse did not renew the access time"
    # The ten were used later than the entries were (or are idle, if those were not), but go first,
    # because the entries were reused.
    shelf = Shelf(cache).lay(TEN, ITEM, *[max(ago * 0.9, 0.6)] * 10)
    shelf.let_store(cache.compile(exp, mode=ENABLE, environment=environment(8, 1)), TEN)
    shelf.compare(TEN)
    for entry in entries:
        _assert_stays(cache, entry)


@rule("aging/hit-renews")
def test_what_is_reused_while_aging_waits_for_its_lock_stays(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """A run with idle entries to remove is held before its lock, as a writer holds it."""
    needs(toolchain, Action.HOLD)
    cache.warm(add, exp)
    shelf, used = _over_a_megabyte(cache), cache.entry(exp)
    aging = _aging_to_interrupt(cache, toolchain, add, shelf, used)
    removals = [each.number for each in aging.operations if each.act is Act.REMOVE]
    if used.object_path.exists():
        raise NotDecidable("an entry idle for five hours did not age")
    if not removals:
        raise NotDecidable("no removal of an idle entry was seen")
    before = [each for each in aging.holdable if each.number < removals[0]]
    locks = [each for each in before if each.act is Act.LOCK]
    if not locks:
        pytest.skip("no lock was seen for which a run with entries to remove could have to wait")
    aging.reset()
    with aging.held(locks[0]) as waiting:  # it may have the others by then, which the reuse needs
        reuse = cache.attempt(exp, mode=ENABLE)
        waiting.release()
        run = waiting.result()
    _assert_success(reuse)
    _assert_success(run)
    _assert_stays(cache, used)


@rule("aging/soft-limit")
@pytest.mark.parametrize("source", ["ini", "environment"])
def test_a_compile_over_the_limit_is_carried_out_and_stored(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, source: str
) -> None:
    cache.warm(add)
    variables = limits_by(cache, source, 1, 1)
    # 9.4 MB used a minute ago: nothing may go, and the cache stays over its limit of 1 MB.
    shelf = Shelf(cache).lay(TEN, ITEM, *[1 / 60] * 10)
    run = carried_out(cache, exp, environment=variables)
    assert run[exp] == NEW
    assert cache.compile(exp, mode=ENABLE, environment=variables)[exp] == HIT
    shelf.compare("")


@rule("aging/minus-one")
@pytest.mark.parametrize("source", ["ini", "environment"])
def test_nothing_ages_at_minus_one(cache: CacheUnderTest, add: OperatorSpec, source: str) -> None:
    cache.warm(add)
    variables = limits_by(cache, source, -1)
    shelf = six(cache)  # 600 MB, which is also more than the default limit
    run = cache.compile(add, mode=ENABLE, environment=variables)
    shelf.check(run, CacheLimits(-1), goes="")


@rule("aging/minus-one")
@pytest.mark.parametrize("source", ["ini", "environment"])
def test_a_reuse_at_minus_one_renews_nothing(
    cache: CacheUnderTest, add: OperatorSpec, source: str
) -> None:
    cache.warm(add)
    variables = limits_by(cache, source, -1)
    entry = cache.entry(add)
    cache.mark()
    # In an hour: later than the change time, so no relatime mount moves the access time by itself.
    rest_entry(cache, entry, -HOUR)
    before = accessed(cache, entry)
    run = cache.compile(add, mode=ENABLE, environment=variables)
    assert run[add] == HIT
    if probe_file_system(cache.sandbox).access_times is AccessTimes.STRICT:
        cache.evidence.readings.append("every read moves access times here: renewal not judged")
        return
    assert accessed(cache, entry)[:2] == before[:2], "the access time was renewed"


@rule("aging/needs-both")
@pytest.mark.parametrize("source", ["ini", "environment"])
def test_minus_one_does_not_last(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, source: str
) -> None:
    """A run that switches aging off uses an entry. With aging on again the entry goes once it is
    idle. By a variable aging is off for the run that makes the directory, too."""
    cache.marks = False
    if source == "environment":
        cache.compile(add, mode=ENABLE, environment=environment(-1))
    cache.warm(add)
    before = {path: path.read_bytes() for path in cache.layout.ini_candidates if path.exists()}
    cache.compile(add, mode=ENABLE, environment=limits_by(cache, source, -1))
    for path in cache.layout.ini_candidates:
        if path in before:
            path.write_bytes(before[path])
        elif source == "ini":
            path.unlink(missing_ok=True)
    entry = cache.entry(add)
    rest_entry(cache, entry, 20 * HOUR)
    ten(cache).ages(exp, 8, 50, goes=GOES[50])
    if entry.object_path.exists() and _is_never_idle(cache, add, exp):
        raise NotDecidable("an entry's own files do not tell this toolchain when it was used")
    assert not entry.object_path.exists(), cache.evidence.found(
        Aged.TOO_FEW, "an entry stays that was used while aging was off"
    )


def _is_never_idle(cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec) -> bool:
    """Whether another entry stays, too, that was used with aging on, whatever the times of its
    files: such a toolchain keeps records of its own."""
    cache.warm(exp)
    entry = cache.entry(exp)
    rest_entry(cache, entry, 20 * HOUR)
    cache.compile(add, newcomer(), mode=ENABLE, environment=environment(1, 1))
    return entry.object_path.exists()


HALF = {
    "size-alone": (ini_values(8), environment()),
    "ratio-alone": (ini_values(None, 80), environment()),
    "size-alone-beside-environment": (ini_values(8), environment(8, 20)),
    "ratio-alone-beside-environment": (ini_values(None, 80), environment(8, 20)),
    "ratio-alone-beside-size": (ini_values(None, 80), environment(8)),
    "ratio-bad-beside-environment": (ini_values(8, 0), environment(8, 20)),
    "size-bad-beside-size": (ini_values(0, 80), environment(8)),
    "minus-one-alone-beside-environment": (ini_values(-1), environment(8, 20)),
}
SOURCES = {
    "ini-first": (ini_values(8, 80), environment(8, 20)),
    "larger-ini-first": (ini_values(500, 50), environment(8, 20)),
    "smaller-ini-first": (ini_values(8, 20), environment(500, 50)),
    "ini-off-first": (ini_values(-1, 50), environment(8, 20)),
    "ini-before-environment-off": (ini_values(8, 80), environment(-1)),
    "ini-alone": (ini_values(8, 80), environment()),
    "environment-size-alone": (ini_values(), environment(8)),
    "environment-ratio-alone": (ini_values(), environment(None, 1)),
}


def _ages_by(
    cache: CacheUnderTest, add: OperatorSpec, ini: Mapping[str, str], variables: Mapping[str, str]
) -> None:
    """Set the limits; the entries that go show which of them counted."""
    cache.warm(add)
    edit_ini(cache, ini)
    shelf = ten(cache)
    limits = expected_limits(ini, variables)
    run = cache.compile(add, mode=ENABLE, environment=variables)
    shelf.check(run, limits, goes=GOES[limits.ratio] if limits.megabytes == 8 else "")


@rule("aging/ini-needs-both-keys")
@pytest.mark.parametrize("case", HALF)
def test_half_a_file_does_not_count(cache: CacheUnderTest, add: OperatorSpec, case: str) -> None:
    _ages_by(cache, add, *HALF[case])


@rule("aging/ini-beats-environment")
@pytest.mark.parametrize("case", SOURCES)
def test_which_source_counts(cache: CacheUnderTest, add: OperatorSpec, case: str) -> None:
    _ages_by(cache, add, *SOURCES[case])


@rule("cache-mode/enable-reuses")
def test_limits_of_a_directory_that_is_not_used(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """The variable names it beside the option. Its limits would remove all idle entries."""
    if not cache.edition.ini:
        pytest.skip(f"{cache.edition} has no op_cache.ini")
    cache.warm(add)
    unused = cache.sandbox / "unused" / "op_cache.ini"
    unused.parent.mkdir()
    values = cache.edition.ini_values(ini_values(1, 1))
    lines = [f"{key}={value}\n" for key, value in values.items()]
    unused.write_text("".join(["[op_compiler_cache]\n", *lines]))
    shelf = ten(cache)
    variables = {"ASCEND_CACHE_PATH": str(unused.parent)}
    run = cache.compile(add, mode=ENABLE, environment=variables)
    shelf.check(run, CacheLimits(), goes="")


@rule("aging/ini-beats-environment")
@pytest.mark.parametrize("ratio", [None, 80])
def test_the_default_is_500_megabytes_and_half(
    cache: CacheUnderTest, add: OperatorSpec, ratio: int | None
) -> None:
    shelf = six(cache, add)
    run = cache.compile(add, mode=ENABLE, environment=environment(None, ratio))
    # 600 MB: 250 MB may stay, 4 go. Under 80 %: 400 MB and not quite 4 entries: 3 go.
    goes = "abc" if ratio else "abcd"
    shelf.check(run, CacheLimits(500, ratio or 50), goes=goes)


@rule("aging/needs-both")
def test_gigabytes_count_to_the_last(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """A limit above 2^32 bytes, and as many entries: a number of 32 bits is another one."""
    if not habits_of(cache).counts_holes:
        raise NotDecidable("it is not known that entries without disk space count by their sizes")
    shelf, cache.marks = beside(cache, add), False
    for number, goes in ((25, ""), (52, MANY[:27])):
        shelf.lay(MANY[:number], LARGE_ITEM, *range(60, 60 - number, -1))
        run = cache.attempt(add, mode=ENABLE, environment=environment(5050, 50))
        if _was_refused_by_name(cache, run, shelf, "max_op_cache_size", "5050"):
            return
        shelf.check(run, CacheLimits(5050, 50), goes=goes)


BAD_SIZES = ("0", "-2", "abc", "1.5", "1MB", "")
BAD_RATIOS = ("0", "101", "-1", "abc", "50.5", "50%", "")


def _assert_named(cache: CacheUnderTest, run: Run, limit: str, value: str) -> None:
    """A warning names a limit, by the file's or the variable's name, and its bad value. An empty
    value counts as not set."""
    named = not value or names_limit(run.output, limit, value)
    detail = f"no warning names {limit} and its value {value!r}"
    subject = replace(Shelf(cache).limiting(run), name=limit, value=value)
    assert named, cache.evidence.found(Words.MISSING, detail, subject=subject)


def _was_refused_by_name(
    cache: CacheUnderTest, run: Run, shelf: Shelf, limit: str, value: str
) -> bool:
    """Whether the run was refused for its bad limit, by name, and nothing is gone."""
    clean = (run.returncode or 0) > 0 and not shelf.gone() and not any(run.result.delivered)
    if clean and names_limit(run.output, limit, value):
        cache.evidence.readings.append(f"{limit}={value} is refused")
        return True
    _assert_success(run)
    return False


@rule("aging/bad-values")
@pytest.mark.parametrize("source", ["ini", "environment"])
@pytest.mark.parametrize("value", BAD_SIZES)
def test_a_bad_size_is_named_and_the_default_used(
    cache: CacheUnderTest, add: OperatorSpec, source: str, value: str
) -> None:
    cache.warm(add)
    variables = limits_by(cache, source, value)
    shelf = six(cache)
    run = cache.attempt(add, mode=ENABLE, environment=variables)
    if _was_refused_by_name(cache, run, shelf, "max_op_cache_size", value):
        return
    shelf.check(run, CacheLimits(), goes="abcd")
    _assert_named(cache, run, "max_op_cache_size", value)


@rule("aging/bad-values")
@pytest.mark.parametrize("source", ["ini", "environment"])
@pytest.mark.parametrize("value", BAD_RATIOS)
def test_a_bad_ratio_is_named_and_the_default_used(
    cache: CacheUnderTest, add: OperatorSpec, source: str, value: str
) -> None:
    cache.warm(add)
    edit_ini(cache, ini_values(8, value) if source == "ini" else {})
    variables = environment(8, value if source == "environment" else None)
    shelf = ten(cache)
    run = cache.attempt(add, mode=ENABLE, environment=variables)
    if _was_refused_by_name(cache, run, shelf, "remain_cache_size_ratio", value):
        return
    shelf.check(run, CacheLimits(8, 50), goes=GOES[50])
    _assert_named(cache, run, "remain_cache_size_ratio", value)


@rule("aging/bad-values")
@pytest.mark.parametrize("source", ["ini", "environment"])
def test_a_huge_size_purges_nothing(cache: CacheUnderTest, add: OperatorSpec, source: str) -> None:
    """The document names no largest size, so this one may be valid or too large."""
    cache.warm(add)
    variables = limits_by(cache, source, "9" * 30)
    shelf = ten(cache)
    run = cache.attempt(add, mode=ENABLE, environment=variables)
    _was_refused_by_name(cache, run, shelf, "max_op_cache_size", "9" * 30)
    shelf.compare("")


@rule("aging/bad-values")
@pytest.mark.parametrize(
    "text",
    [b"", b"\0\xff\xfe\x80", b"max_op_cache_size=1\nremain_cache_size_ratio=1\n", b"[" * 5000],
    ids=["empty", "binary", "without-section", "brackets"],
)
def test_a_broken_file_purges_nothing(
    cache: CacheUnderTest, add: OperatorSpec, text: bytes
) -> None:
    if not cache.edition.ini:
        pytest.skip(f"{cache.edition} has no op_cache.ini")
    cache.warm(add)
    ini_path(cache).write_bytes(text)
    shelf = ten(cache)
    run = cache.attempt(add, mode=ENABLE)
    _was_refused_by_name(cache, run, shelf, "op_cache.ini", "")
    shelf.compare("")


@pytest.fixture(params=["another", "alike"])
def neighbour(request: pytest.FixtureRequest, cache: CacheUnderTest) -> str:
    """Another chip, or one whose name begins like that of the chip under test, as Ascend910B2C."""
    return other_soc(cache.options.soc) if request.param == "another" else f"{cache.options.soc}C"


@rule("aging/per-soc")
def test_entries_of_another_chip_do_not_count(
    cache: CacheUnderTest, add: OperatorSpec, neighbour: str
) -> None:
    # 6 x 940 KB here and 9400 KB there: over 8 MB together, not here.
    here = beside(cache, add).lay(SIX, ITEM, *HOURS[:6])
    there = ten(cache, soc=neighbour)
    here.ages(add, 8, 50, goes="")
    there.compare("")


@rule("aging/per-soc")
def test_entries_of_another_chip_do_not_go(
    cache: CacheUnderTest, add: OperatorSpec, neighbour: str
) -> None:
    here, there = ten(cache, add), ten(cache, soc=neighbour)
    here.ages(add, 8, 50, goes=GOES[50])
    there.compare("")


@rule("aging/orphans")
@pytest.mark.parametrize("kind", ORPHANS)
def test_an_orphan_does_not_keep_the_cache_over_its_limit(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, kind: str
) -> None:
    beside(cache, add).orphan("z", kind, 9 * MEGABYTE, 12)
    _goes_below_its_limit(cache, add, exp)


@rule("aging/orphans")
def test_what_a_killed_run_left_does_not_keep_the_cache_over_its_limit(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """The files are the toolchain's own, wherever and however it calls them, of another kernel's
    size and long idle."""
    cache.warm(exp)
    cache.marks = False
    compiling = cache.interruption(add, mode=ENABLE)
    whole, chip = Tree.read(cache.root).items, f"{cache.layout.soc(cache.options.soc).name}/"
    left: list[str] = []
    states = compiling.states(CrashKind.KILLED)
    if not states:
        raise NotDecidable("no operation on a file was seen that could be disturbed")
    for state in states:
        files = {name for name, each in state.tree.items.items() if each.data is not None}
        new = sorted(name for name in files - whole.keys() if chip in name)
        if len(new) > len(left):
            left, fullest = new, state
    if not left:
        pytest.skip("a killed run leaves no file in the chip's directory")
    compiling.enter(fullest)
    for path in (cache.root / name for name in left):
        with path.open("ab") as grown:
            grown.truncate(9 * MEGABYTE)
        rest(path, 12 * HOUR, modified=time.time() - 12 * HOUR)
    _goes_below_its_limit(cache, add, exp)


def _goes_below_its_limit(cache: CacheUnderTest, *operators: OperatorSpec) -> None:
    for each in operators:  # the second run may see what the first one did not, and stores
        cache.compile(each, mode=ENABLE, environment=environment(8, 50))
    left = _bytes_of_the_chip(cache)
    assert left <= 8 * MEGABYTE, cache.evidence.found(
        Aged.TOO_FEW, f"{left} bytes stay for ever, under a limit of 8 MB"
    )


_MAY_GO = ("object-alone", "metadata-alone", "unreadable-metadata", "temporary")
"""Orphans that a run may remove at any time: what is damaged, and what no process writes."""


@rule("aging/orphans")
@pytest.mark.parametrize("kind", ORPHANS)
def test_an_orphan_counts(cache: CacheUnderTest, add: OperatorSpec, kind: str) -> None:
    # 5 MB of an orphan in use, or being written, and 7520 KB of idle entries: only together over
    # 8 MB. More than 50 % is in use, so all eight go.
    files = beside(cache, add).orphan("z", kind, 5 * MEGABYTE, 0)
    shelf = Shelf(cache).lay(TEN[:8], ITEM, *HOURS[:8])
    run = cache.compile(add, mode=ENABLE, environment=environment(8, 50))
    if any(map(Path.exists, files)):
        shelf.let_store(run, TEN[:8])
    if kind in _MAY_GO and not (shelf.gone() or any(map(Path.exists, files))):
        cache.evidence.readings.append("it was removed at once, so the cache is below its limit")
        return
    shelf.check(run, CacheLimits(8, 50), goes=TEN[:8])
    assert all(map(Path.exists, files)), cache.evidence.found(
        Aged.TOO_MANY, "it was not idle, and is gone"
    )


@rule("aging/orphans")
def test_what_is_no_file_keeps_nothing_else(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    shelf = _over_a_megabyte(cache)
    barred = shelf.entry("b").object_path
    barred.unlink()
    barred.mkdir()
    (barred / "part").write_bytes(bytes(KILOBYTE))
    linked = shelf.entry("d").object_path
    linked.unlink()
    linked.symlink_to(cache.sandbox / "nowhere")
    nine_hours_ago = time.time() - 9 * HOUR
    os.utime(linked, (nine_hours_ago, nine_hours_ago), follow_symlinks=False)
    shelf.let_store(carried_out(cache, add, environment=environment(1, 1)), "acefghij")
    _assert_all_went_but(cache, shelf, "bd", "the object of b is a directory, that of d a link")


@rule("aging/keeps-ratio")
def test_an_entry_that_cannot_be_removed_keeps_no_other(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec
) -> None:
    """The first file to be removed cannot be: all other idle entries go in the same run."""
    needs(toolchain, Action.EACCES)
    cache.warm(add)
    shelf = _over_a_megabyte(cache)
    aging = _aging_to_interrupt(cache, toolchain, add, shelf)
    removals = [
        (each, name)
        for each in aging.operations
        for name in TEN
        if each.act is Act.REMOVE and shelf.entry(name).stem in each.path
    ]
    if not removals:
        raise NotDecidable("no removal of an idle entry was seen")
    at, kept = removals[0]
    run = aging.strike(Action.EACCES, at)
    _assert_success(run)
    _assert_all_went_but(cache, shelf, kept, f"{Action.EACCES.value} at {at}")


def _over_a_megabyte(cache: CacheUnderTest) -> Shelf:
    """Ten entries of 160 KB; eight of them still exceed 1 MB. 1 % may stay, so no entry."""
    cache.marks = False
    return Shelf(cache).lay(TEN, 160 * KILOBYTE, *HOURS)


def _aging_to_interrupt(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, shelf: Shelf, *used: Entry
) -> Interruption[Run]:
    """A recorded run that ages this shelf and entries that were used five hours ago. It stores an
    operator, too: no document says that a run ages which only reuses."""
    new = newcomer()
    request = cache.request(add, new, mode=ENABLE, environment=environment(1, 1))

    def age(plan: FaultPlan) -> Run:
        shelf.rest()  # restored files have new times
        for entry in used:
            rest_entry(cache, entry, 5 * HOUR)
        return cache.unwatched(replace(request, output=cache.new_output(), plan=plan))

    return Interruption(cache.root, cache.sandbox / "record", toolchain.fault_route(), age)


def _assert_all_went_but(cache: CacheUnderTest, shelf: Shelf, kept: str, why: str) -> None:
    shelf.needs_file_times({*TEN} - {*kept})
    stays = "".join(each for each in TEN if each not in kept and any(shelf.there(each)))
    assert stays == "", cache.evidence.found(
        Aged.TOO_FEW, f"{why}: of the entries that are idle too, {stays} stay"
    )


@pytest.fixture(params=["at-hand", "noatime", "shm"])
def mounted(
    request: pytest.FixtureRequest, ascend_cache: CacheUnderTest
) -> Iterator[CacheUnderTest]:
    cache, kind = ascend_cache, request.param
    if kind == "noatime" and not keep_access_times(cache.sandbox, keep=False):
        pytest.skip("no directory without access times can be had here")
    shm = Path("/dev/shm")
    if kind == "shm" and not shm.is_dir():
        pytest.skip("there is no /dev/shm here")
    if kind == "shm":
        with tempfile.TemporaryDirectory(dir=shm, prefix="ascendcache-") as name:
            keep_access_times(Path(name), keep=True)
            yield _reported(cache.elsewhere(Path(name) / "cache"), Path(name))
        return
    yield _reported(cache, cache.sandbox)


def _reported(cache: CacheUnderTest, directory: Path) -> CacheUnderTest:
    cache.evidence.readings.append(f"judged on {probe_file_system(directory)}")
    return cache


@rule("aging/works-on-relatime")
def test_idle_entries_go_in_one_run(mounted: CacheUnderTest, add: OperatorSpec) -> None:
    ten(mounted, add).ages(add, 8, 50, goes=GOES[50])


@rule("aging/works-on-relatime")
def test_entries_unused_for_days_go(mounted: CacheUnderTest, add: OperatorSpec) -> None:
    """A relatime mount renews an access time older than a day at any read."""
    shelf = beside(mounted, add).lay(TEN, ITEM, *[24 * hours for hours in HOURS])
    shelf.ages(add, 8, 50, goes=GOES[50])


@rule("aging/works-on-relatime")
def test_looking_renews_nothing(mounted: CacheUnderTest, add: OperatorSpec) -> None:
    shelf = ten(mounted, add)
    survivors = [shelf.entry(name) for name in TEN if name not in GOES[50]]
    before = [accessed(mounted, entry)[:2] for entry in survivors]
    shelf.ages(add, 8, 50, goes=GOES[50])
    after = [accessed(mounted, entry)[:2] for entry in survivors]
    assert after == before, "the scan renewed what it judges"


@rule("aging/works-on-relatime")
def test_a_hit_is_noted(mounted: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec) -> None:
    mounted.warm(add, exp)
    mounted.mark()
    rest_entry(mounted, mounted.entry(add), 5 * HOUR)
    assert mounted.compile(add, mode=ENABLE)[add] == HIT
    shelf = Shelf(mounted).lay(TEN, ITEM, *[4] * 10)
    shelf.let_store(mounted.compile(exp, mode=ENABLE, environment=environment(8, 1)), TEN)
    shelf.compare(TEN)
    _assert_stays(mounted, mounted.entry(add))


def _bytes_of_the_chip(cache: CacheUnderTest) -> int:
    return bytes_of(Snapshot.take(cache.layout.soc(cache.options.soc)), "")


@rule("aging/boundaries")
def test_at_exactly_the_limit(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    cache.mark()
    # Seven entries of 940 KB, and one that fills 8 MB to the byte.
    last = 8 * MEGABYTE - 7 * ITEM - _bytes_of_the_chip(cache)
    shelf = Shelf(cache).lay(TEN[:7], ITEM, *HOURS[:7]).lay("h", last, 5)
    cache.compile(add, mode=ENABLE, environment=environment(8, 50))
    # 7 x 940 + 1612 = 8192 KB; 50 % are 4096 KB, that is h and two more (3492).
    reading = {"": "does not age: it has to exceed it", "abcde": "ages: it has to reach it"}
    gone = shelf.gone()
    assert gone in reading, f"at exactly the limit {gone} are gone"
    cache.evidence.readings.append(f"a cache of exactly its limit {reading[gone]}")


@rule("aging/boundaries")
def test_at_exactly_the_retained_share(cache: CacheUnderTest, add: OperatorSpec) -> None:
    cache.warm(add)
    cache.mark()
    # Without a to d exactly 4 MB are left: half of 8 MB.
    last = 4 * MEGABYTE - 2 * ITEM - _bytes_of_the_chip(cache)
    shelf = (
        Shelf(cache).lay("abcd", 2 * ITEM, 12, 11, 10, 9).lay("ef", ITEM, 8, 7).lay("g", last, 6)
    )
    shelf.let_store(cache.compile(add, mode=ENABLE, environment=environment(8, 50)), "abcd")
    reading = {"abcd": "is enough", "abcde": "is not enough: one more entry goes"}
    gone = shelf.gone()
    assert gone in reading, f"at exactly the retained share {gone} are gone"
    cache.evidence.readings.append(f"exactly the retained share {reading[gone]}")


@rule("aging/boundaries")
def test_around_half_an_hour(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """The scan happens at some moment of the run, so the reading is an interval."""
    cache.warm(add)
    seconds = (3500, 1860, 1815, 1801, 1800, 1799, 1795, 1785, 1740, 1000)
    started = time.time()
    shelf = Shelf(cache).lay(TEN, ITEM, *[each / HOUR for each in seconds])
    run = cache.compile(add, mode=ENABLE, environment=environment(8, 1))
    shelf.let_store(run, TEN[:2])
    took = time.time() - started
    gone = shelf.gone()
    assert TEN.startswith(gone), f"an entry went and one that was idle for longer stayed: {gone}"
    # No document says at which moment after half an hour an entry ages; a minute is none.
    must = sum(each > HALF_AN_HOUR + 60 for each in seconds)
    may = sum(each + took + 1 >= HALF_AN_HOUR for each in seconds)
    shelf.needs_file_times(TEN[:must], TEN[may:])
    assert must <= len(gone) <= may, (
        f"observed: {len(gone)} entries are gone; the oldest that stays was idle for "
        f"{[*seconds, None][len(gone)]} s\nexpected: what was idle for {HALF_AN_HOUR} s goes"
    )
    youngest = seconds[len(gone) - 1]
    cache.evidence.readings.append(
        f"an entry idle for at most {youngest} + {took:.1f} s aged, one idle for at least "
        f"{seconds[len(gone)]} s did not"
    )
