"""Aging: what the document expects, what the reference selects, and what its command removes."""

from __future__ import annotations

import os
import time

import pytest

from pytest_ascendcache.contract import AgedEntry, CacheLimits, expected_aging
from pytest_ascendcache.reference.cache.aging import AgingPolicy, SeenUnit, Unit
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import Limits
from pytest_ascendcache.reference.policies import Policies
from tests.reference_sandbox import ABS, ADD, EXP, LOCK, OTHER_SOC, SOC, Sandbox

MB = 2**20
HOUR = 3600
NOW = 1_700_000_000
SIZE, RATIO = "ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"


@pytest.fixture
def atc(tmp_path, capsys):
    return Sandbox(tmp_path, capsys)


# Entries as name: (MB, idle seconds), the ratio in percent, the entries that a run must remove,
# and those that it may remove. The limit is 8 MB.
CASES = {
    "below": ({"a": (7, 9999)}, 50, "", ""),
    "at-the-limit": ({"a": (4, 9999), "b": (4, 8888)}, 50, "", "ab"),
    "above": ({"a": (5, 9999), "b": (4, 8888)}, 50, "a", "ab"),
    "above-and-in-use": ({"a": (9, 1799), "b": (9, 0)}, 50, "", ""),
    "half-an-hour": ({"a": (9, 1800), "b": (9, 0)}, 50, "", "a"),
    "oldest": ({"a": (3, 2000), "b": (3, 3000), "c": (3, 4000)}, 50, "bc", "bc"),
    "until-the-share": ({"a": (5, 4000), "b": (2, 3000), "c": (2, 2000)}, 50, "a", "ab"),
    "the-whole-limit": ({"a": (1, 4000), "b": (4, 3000), "c": (4, 2000)}, 100, "a", "ab"),
    "all": ({"a": (9, 4000), "b": (9, 3000)}, 1, "ab", "ab"),
    "future": ({"a": (9, 4000), "b": (9, -4000)}, 1, "a", "a"),
    "equally-old": ({"a": (3, 4000), "b": (3, 4000), "c": (3, 4000)}, 50, "", "abc"),
    "large-and-equally-old": ({"a": (9, 4000), "b": (9, 4000)}, 50, "ab", "ab"),
    "between-two-megabytes": ({"a": (3.9, 4000), "b": (3.9, 3000)}, 50, "", "ab"),
    "at-eight-million-bytes": ({"a": (4e6 / MB, 4000), "b": (4e6 / MB, 3000)}, 50, "", "ab"),
    "none": ({}, 50, "", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_expectation(case):
    entries, ratio, must, may = CASES[case]
    listed = [AgedEntry(name, size * MB, idle) for name, (size, idle) in entries.items()]
    expected = expected_aging(listed, 0, CacheLimits(8, ratio))
    assert expected.must_go == set(must)
    assert expected.must_stay == set(entries) - set(may)
    assert expected.allows(must)
    assert not entries or expected.allows(entries) == (set(entries) == set(may))


def test_other_files_count():
    entries = [AgedEntry("a", 4 * MB, 9999)]
    assert expected_aging(entries, 3 * MB, CacheLimits(8)).must_stay == {"a"}
    assert expected_aging(entries, 5 * MB, CacheLimits(8)).must_go == {"a"}
    assert expected_aging(entries, 500 * MB, CacheLimits(-1)).must_stay == {"a"}


def unit(name, size, idle):
    from pathlib import Path

    return Unit((SeenUnit(Path(name), size * MB, (NOW - idle) * 10**9),))


@pytest.mark.parametrize("case", CASES)
def test_the_reference_chooses_what_the_document_allows(case):
    entries, ratio, *_ = CASES[case]
    units = [unit(name, *each) for name, each in entries.items()]
    chosen = AgingPolicy().choose(units, Limits(8, ratio), NOW * 10**9)
    listed = [AgedEntry(name, size * MB, idle) for name, (size, idle) in entries.items()]
    expected = expected_aging(listed, 0, CacheLimits(8, ratio))
    assert expected.allows(str(each.files[0].path) for each in chosen)
    idle = [each.accessed_ns for each in chosen]
    assert idle == sorted(idle)


def test_the_reference_reads_exceeds_and_over():
    at_the_limit, half_an_hour = [unit("a", 8, 9999)], [unit("a", 9, 1800)]
    assert AgingPolicy().choose(at_the_limit, Limits(8, 50), NOW * 10**9) == []
    assert AgingPolicy().choose(half_an_hour, Limits(8, 50), NOW * 10**9) == []
    assert AgingPolicy().choose(half_an_hour, Limits(8, 50), NOW * 10**9 + 1) == half_an_hour


def fill(directory, name, megabytes, hours):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(int(megabytes * MB))
    used = time.time() - hours * HOUR
    os.utime(path, (used, used))
    return path


def names(directory):
    return sorted(
        str(each.relative_to(directory)) for each in directory.rglob("*") if each.name != LOCK
    )


def left(atc, **environ):
    """Run atc on Abs with a limit of 8 MB. Return the SoC directory's other files."""
    atc(environ={SIZE: "8", RATIO: "50", **environ})
    return [name for name in names(atc.soc()) if "te_abs_" not in name]


def test_units_are_paired_by_name_and_go_whole(atc):
    atc()
    for name, hours in (("te_a", 5), ("te_b", 3)):
        for end in (".o", ".json", ".h"):
            fill(atc.soc(), name + end, 1.5, hours)
    assert left(atc) == []


def test_the_youngest_file_of_a_unit_counts(atc):
    atc()
    fill(atc.soc(), "te_a.o", 9, 5)
    fill(atc.soc(), "te_a.json", 0.1, 0)
    assert left(atc) == ["te_a.json", "te_a.o"]


def test_what_is_no_entry_goes_when_idle(atc):
    atc()
    for name in (".te_a.o.1.ff.temp", "te_a_pre.json", "notes.txt", "below/te_a.o", "te_b.json"):
        fill(atc.soc(), name, 2, 5)
    fill(atc.soc(), "te_a.lock", 2, 5)
    assert left(atc, **{RATIO: "1"}) == ["below", "te_a.lock"]


def test_a_fresh_temporary_file_stays(atc):
    atc()
    fill(atc.soc(), ".te_a.o.1.ff.temp", 9, 0)
    assert left(atc) == [".te_a.o.1.ff.temp"]


def test_links_are_not_followed_and_do_not_count(atc):
    atc()
    outside = fill(atc.root, "outside/te_x.o", 20, 5)
    (atc.soc() / "te_x.o").symlink_to(outside)
    (atc.soc() / "linked").symlink_to(outside.parent)
    assert left(atc) == ["linked", "te_x.o"]
    fill(atc.soc(), "te_x.json", 9, 5)
    os.utime(atc.soc() / "te_x.o", (0, 0), follow_symlinks=False)
    assert left(atc) == ["linked"]
    assert outside.exists()


def test_a_link_for_the_soc_is_not_aged(atc):
    atc()
    atc.soc().rename(atc.root / "elsewhere")
    atc.soc().symlink_to(atc.root / "elsewhere")
    fill(atc.root / "elsewhere", "te_a.o", 9, 5)
    atc(environ={SIZE: "8"})
    assert (atc.root / "elsewhere/te_a.o").exists()


def test_the_operators_own_idle_entry_goes_and_is_compiled_again(atc):
    atc()
    for path in atc.soc().glob("te_abs_*"):
        os.utime(path, (0, 0))
    fill(atc.soc(), "te_a.o", 9, 0)
    log = atc(environ={SIZE: "8"}, log="info").err
    assert "aged [te_abs_" in log
    assert "compile [" in log
    assert "reuse" in atc(environ={SIZE: "8"}, log="info").err


def test_another_soc_is_left_alone(atc):
    atc()
    atc(soc_version=OTHER_SOC)
    fill(atc.soc(OTHER_SOC), "te_a.o", 9, 5)
    atc(environ={SIZE: "8"})
    assert "te_a.o" in names(atc.soc(OTHER_SOC))
    atc(environ={SIZE: "8"}, soc_version=OTHER_SOC)
    assert "te_a.o" not in names(atc.soc(OTHER_SOC))


@pytest.mark.parametrize("options", [{"op_compiler_cache_mode": "disable"}, {"op_debug_level": 3}])
def test_a_run_that_does_not_use_the_cache_ages_nothing(atc, options):
    atc()
    fill(atc.soc(), "te_a.o", 9, 5)
    done = atc(environ={SIZE: "8", RATIO: "junk"}, debug_dir=atc.home, **options)
    assert "te_a.o" in names(atc.soc())
    assert done.err == ""


def test_a_bad_value_is_a_warning_on_standard_error(atc):
    done = atc(environ={RATIO: "abc"})
    assert done.err.startswith("[WARNING] W40012: value [abc] for environment variable ")
    assert done.err.endswith("; [500 MB and 50 %] are used\n")


@pytest.mark.parametrize(("environ", "renewed"), [({}, True), ({SIZE: "-1"}, False)])
def test_a_hit_is_noted_unless_the_limit_is_minus_one(atc, environ, renewed):
    atc(ADD)
    files = list(atc.soc().glob("te_add_*"))
    for path in files:
        os.utime(path, (1_500_000_000, 1_400_000_000))
    assert "reuse" in atc(ADD, environ=environ, log="info").err
    for path in files:
        assert (path.stat().st_atime > 1_500_000_000) is renewed
        assert path.stat().st_mtime == 1_400_000_000


class Hooked(Fs):
    """Runs an action right before the operation at a point."""

    def __init__(self, point, action):
        self.point, self.action, self.points = point, action, []

    def watch(self, step):
        self.points.append(step.point)
        if step.point == self.point:
            self.action()


def test_contents_are_not_touched_while_aging(atc):
    atc()
    fill(atc.soc(), "te_a.o", 9, 5)
    fs = Hooked("", None)
    AgingPolicy().age(fs, atc.soc(), Limits(8, 50), time.time_ns())
    assert set(fs.points) == {"aging.list", "aging.stat", "aging.lock", "aging.remove"}


def test_below_the_limit_no_lock_is_taken(atc):
    atc()
    fs = Hooked("", None)
    assert AgingPolicy().age(fs, atc.soc(), Limits(8, 50), time.time_ns()) == []
    assert set(fs.points) == {"aging.list", "aging.stat"}


def test_an_entry_used_while_the_lock_was_awaited_stays(atc):
    atc()
    path = fill(atc.soc(), "te_a.o", 9, 5)
    fs = Hooked("aging.lock", lambda: os.utime(path))
    assert AgingPolicy().age(fs, atc.soc(), Limits(8, 50), time.time_ns()) == []
    assert path.exists()


def test_metadata_goes_first(atc):
    atc()
    for end in (".o", ".json", ".h"):
        fill(atc.soc(), f"te_a{end}", 4, 5)
    (gone,) = AgingPolicy().age(Fs(), atc.soc(), Limits(8, 50), time.time_ns())
    assert [each.path.suffix for each in gone.files] == [".json", ".o", ".h"]


@pytest.mark.parametrize("point", ["aging.list", "aging.stat", "aging.lock", "aging.remove"])
def test_a_compile_goes_on_where_aging_cannot(atc, point):
    def refuse():
        raise PermissionError(13, "Permission denied")

    atc()
    fill(atc.soc(), "te_a.o", 9, 5)
    done = atc(EXP, ABS, environ={SIZE: "8"}, policies=Policies(fs=Hooked(point, refuse)))
    assert done.code == 0
    assert "te_a.o" in names(atc.soc(SOC))
