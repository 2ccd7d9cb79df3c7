"""Audits of existing caches: their findings, and that they change nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.audit import Audit, Check, Removal, audit, holds_a_cache, story, undecided
from pytest_ascendcache.audit.limits import AgingForecast, read_ini
from pytest_ascendcache.audit.reading import ChangedWhileRead, Reader
from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.contract import AgedEntry, CacheLimits, expected_aging
from pytest_ascendcache.contract.editions import named
from pytest_ascendcache.qualification.catalogue import Scene
from pytest_ascendcache.qualification.loading import load_scenes
from pytest_ascendcache.qualification.scenes.caches import (
    INI,
    akg_kernel,
    cann_entry,
    digest,
    edit,
    elf_object,
    graphs,
    installed_kernels,
    kernel_cache,
    put,
    rank_kernel,
    ranks,
    static_outputs,
)

NOTHING: dict[str, str] = {}
SCENES = [
    each
    for each in load_scenes().values()
    if all(rule.startswith("audit/") for rule in each.breaks) and "audit" in each.build.__module__
]


def look(directory: Path, edition: str = "8.0.RC3") -> Audit:
    """Audit a directory by an edition of CANN's documents, without settings in the environment."""
    return audit(directory, environment=NOTHING, edition=named(edition))


@pytest.fixture
def unprivileged(tmp_path: Path) -> Iterator[Path]:
    """A directory of an ordinary user. The test runs as that user even if root started it."""
    if os.geteuid():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="ascendcache-test-") as name:
        os.chown(name, 65534, -1)
        os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


def broken(result: Audit) -> set[str]:
    """Return the ids of the broken rules."""
    return {check.value for check in result.found}


@pytest.mark.parametrize("scene", SCENES, ids=[each.name for each in SCENES])
def test_a_scene_is_blamed_by_exactly_its_rules(scene: Scene, tmp_path: Path) -> None:
    if scene.needs_root and os.geteuid():
        pytest.skip("only root may give a file to another user")
    directory = tmp_path / "scene"
    directory.mkdir()
    arguments = scene.build(directory)
    options = [each.partition("=")[::2] for each in arguments]
    audited = [Path(value) for name, value in options if name == "--ascend-audit"]
    editions = [value for name, value in options if name == "--ascend-edition"]
    rules = set().union(*(broken(look(each, *editions)) for each in audited))
    assert rules == set(scene.breaks)


def test_an_audit_leaves_no_trace(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path / "cann")
    ranks(tmp_path / "job")
    graphs(tmp_path / "graphs")
    static_outputs(tmp_path / "static")
    cache.entries[1].object.unlink()
    (cache.soc / "link").symlink_to("/etc/hostname")
    for path in tmp_path.rglob("*"):
        # Every mount except noatime updates an access time that is older than the other times.
        os.utime(path, (1, path.lstat().st_mtime), follow_symlinks=False)
    before = Snapshot.take(tmp_path)
    directories = {path: path.stat().st_atime_ns for path in tmp_path.rglob("*") if path.is_dir()}
    # Taking a snapshot updates the access times of directories.
    for path in directories:
        os.utime(path, (1, path.stat().st_mtime))
    look(tmp_path)
    assert before.changes(Snapshot.take(tmp_path)) == {}


def test_access_times_of_directories_stay(tmp_path: Path) -> None:
    kernel_cache(tmp_path)
    directories = [tmp_path, tmp_path / "kernel_cache", tmp_path / "kernel_cache/Ascend910B1"]
    for each in directories:
        os.utime(each, (1, each.stat().st_mtime))
    look(tmp_path)
    assert [each.stat().st_atime for each in directories] == [1, 1, 1]


@pytest.mark.parametrize("place", ["", "kernel_cache", "kernel_cache/Ascend910B1"])
def test_a_cann_cache_is_known_from_any_of_its_directories(place: str, tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path / "any")
    put(cache.ini, INI + "max_op_cache_size=20\nremain_cache_size_ratio=50\n")
    result = look(cache.root / place)
    assert result.entries == (4 if place.endswith("B1") else 5)
    assert not result.found
    assert any("of 20 MB" in note for note in result.notes[Check.SIZE])


@pytest.mark.parametrize("part", ["kernel_cache", "kernel_cache/Ascend910B1"])
def test_a_copy_under_another_name_is_known_by_its_files(part: str, tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path / "any")
    copy = shutil.copytree(cache.root / part, tmp_path / "evidence of July")
    assert look(copy).entries == (4 if part.endswith("B1") else 5)
    assert not look(copy).found


def test_a_copy_of_a_ranks_kernels_is_known_by_its_files(tmp_path: Path) -> None:
    kernels = ranks(tmp_path / "job")[1]
    copy = shutil.copytree(kernels[0].metadata.parent, tmp_path / "from card 1")
    result = look(copy)
    assert (result.entries, result.found) == (3, {})
    assert result.inapplicable[Check.RANKS_AGREE]


def test_ranks_may_have_a_directory_of_a_device_each(tmp_path: Path) -> None:
    ranks(tmp_path / "job")
    for rank in range(3):
        device = tmp_path / "devices" / f"device{rank}"
        device.mkdir(parents=True)
        (tmp_path / "job" / f"rank_{rank}").rename(device / f"rank_{rank}")
    (lost,) = (tmp_path / "devices/device1/rank_1/kernel_meta").glob("add*.json")
    for suffix in (".o", ".json", ".info"):
        lost.with_suffix(suffix).unlink()
    result = look(tmp_path / "devices")
    (finding,) = result.found[Check.RANKS_AGREE].first
    assert finding.path == "device1/rank_1/kernel_meta"
    assert "lacks 1 of 3 kernels that other ranks have (add_" in finding.detail
    assert "ranks 0, 2 will wait until it has compiled them" in finding.detail
    assert "HCCL_CONNECT_TIMEOUT (120 s" in finding.detail


def test_a_rank_of_strange_kernels_alone_is_blamed(tmp_path: Path) -> None:
    for rank in range(4):
        for operator in ("square", "gelu") if rank == 1 else ("add", "mul"):
            rank_kernel(tmp_path / f"rank_{rank}/kernel_meta", operator, rank)
    found = look(tmp_path).found[Check.RANKS_AGREE].first
    assert [each.path for each in found] == ["rank_1/kernel_meta"]
    assert "has no kernel that another rank has" in found[0].detail
    assert "for inference instead of training" in found[0].detail
    assert "ranks 0, 2, 3 will wait" in found[0].detail
    for info in tmp_path.rglob("*.info"):
        phase = "inference" if info.parts[-3] == "rank_1" else "training"
        edit(info, lambda fields, phase=phase: fields.update(scenario={"phase": phase}))
    (finding,) = look(tmp_path).found[Check.RANKS_AGREE].first
    assert "in its .info scenario.phase is inference and not training;" in finding.detail
    assert "for another chip" not in finding.detail


def test_an_index_that_exchanges_modes_is_told_by_what_differs(tmp_path: Path) -> None:
    place = installed_kernels(tmp_path)
    index = place / "config/ascend910b/binary_info_config.json"
    (name,) = (each.name for each in place.glob("static_kernel_*"))
    keys = [f"Add/d=0,p={mode}/0,2,(1,8)/" for mode in (1, 2)]
    for path, key in ((place / name / index.relative_to(place), keys[0]), (index, keys[1])):
        kernel = {"simplifiedKey": key, "binPath": f"{name}/ascend910b/Add/Add_float_ND_1_8_0_d0.o"}
        put(path, {"Add": {"simplifiedKeyMode": 0, "staticList": [kernel]}})
    (finding,) = look(tmp_path).found[Check.AGREEMENT].first
    assert "(impl_mode 'high_performance' and 'high_precision')" in finding.detail


def test_a_mark_of_a_layer_goes_only_with_what_it_deletes(tmp_path: Path) -> None:
    kernel = kernel_cache(tmp_path).entries[1]
    files = [kernel.metadata, kernel.object]
    marks = [put(each.with_name(f".wh.{each.name}"), b"") for each in files]
    put(kernel.metadata.with_name(".wh..wh..opq"), b"")
    removals: list[Removal] = []
    audit(tmp_path, suggest=removals.append)
    (removal,) = removals
    assert {*removal.paths} == {str(each.relative_to(tmp_path)) for each in (*files, *marks)}


def test_ranks_of_different_jobs_are_not_compared(tmp_path: Path) -> None:
    ranks(tmp_path / "big", 2)
    ranks(tmp_path / "small", 1)
    for path in (tmp_path / "small").rglob("square*"):
        path.unlink()
    assert not look(tmp_path).found


def test_ranks_with_each_others_kernels_are_noted(tmp_path: Path) -> None:
    ranks(tmp_path)
    assert Check.RANKS_AGREE not in look(tmp_path).notes
    (tmp_path / "rank_0").rename(tmp_path / "moved")
    (tmp_path / "rank_1").rename(tmp_path / "rank_0")
    (tmp_path / "moved").rename(tmp_path / "rank_1")
    result = look(tmp_path)
    assert Check.RANKS_AGREE not in result.found
    (note,) = result.notes[Check.RANKS_AGREE]
    assert "ranks 0, 1 have kernels whose names are for cards 1, 0" in note
    assert "if no rank table maps them so" in note


def test_duplicates_of_ranks_are_counted(tmp_path: Path) -> None:
    ranks(tmp_path)
    (note,) = look(tmp_path).notes[Check.RANK_DUPLICATES]
    assert note.startswith("3 ranks, 6 kernels (")


def test_findings_are_counted_beyond_those_that_are_named(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path, entries=150)
    for entry in cache.entries:
        entry.object.unlink()
    result = look(tmp_path)
    findings = result.found[Check.WHOLE_ENTRIES]
    assert (findings.count, len(findings.first)) == (150, 100)
    assert [each.path for each in findings.first] == sorted(each.path for each in findings.first)
    lines = story(result, Check.WHOLE_ENTRIES).splitlines()
    assert lines[0].startswith("150 faults, ")
    assert lines[-1] == "  and 145 more"


@pytest.mark.parametrize("name", ["te_add\n\x1b[31m.json", "te_\udcff.json", "te_新.json"])
def test_any_name_can_be_shown(name: str, tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    put(cache.soc / name, b"[]")
    result = look(tmp_path)
    text = story(result, Check.METADATA)
    assert len(text.splitlines()) == 2
    assert text.encode()  # fails for a lone surrogate
    json.dumps([each.as_dict() for each in result.found[Check.METADATA].first])


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"sha256": ' + b"9" * 5000 + b"}",
        b"\xff\xfe{}",
        b"null",
        b'{"jsonList": [1, {"jsonFileName": 2}], "binFileName": []}',
        b'{"binFileName": "a\\u0000b", "binFileSuffix": ".o", "kernelName": "k", "sha256": ""}',
    ],
)
def test_metadata_may_be_anything(content: bytes, tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    cache.entries[1].metadata.write_bytes(content)
    assert broken(look(tmp_path)) <= {Check.METADATA.value, Check.NAMES_INSIDE.value}
    assert broken(look(tmp_path))


def test_results_of_autofuse_have_no_digest_and_are_no_fault(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    stem = f"te_ascbackend_{'a' * 64}"
    put(cache.soc / f"lib{stem}.so", elf_object(b"host"))
    put(cache.soc / f"{stem}.json", {"binFileName": f"lib{stem}", "binFileSuffix": ".so"})
    assert not look(tmp_path).found


def test_other_peoples_files_are_none_of_its_business(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path / "cache")
    put(tmp_path / "notes" / "te_add.json", b"not JSON").chmod(0o666)
    (tmp_path / "latest").symlink_to("cache")
    put(cache.soc / "README", "kept by hand")
    assert not look(tmp_path).found


def test_what_is_linked_is_not_looked_at(tmp_path: Path) -> None:
    elsewhere = kernel_cache(tmp_path / "elsewhere")
    elsewhere.entries[0].object.unlink()
    cache = kernel_cache(tmp_path / "cache")
    shutil.rmtree(cache.soc)
    cache.soc.symlink_to(elsewhere.soc)
    assert broken(look(cache.root)) == {Check.PLAIN_FILES.value}


def test_the_directory_itself_may_be_named_by_a_link(tmp_path: Path) -> None:
    kernel_cache(tmp_path / "cache")
    (tmp_path / "link").symlink_to("cache")
    assert look(tmp_path / "link").entries == 5


def test_an_unreadable_file_is_not_decided(unprivileged: Path) -> None:
    cache = kernel_cache(unprivileged)
    cache.entries[1].object.chmod(0)
    result = look(unprivileged)
    assert undecided(result, Check.DIGESTS).startswith("1 name in ")
    assert "Permission denied" in undecided(result, Check.DIGESTS)
    assert undecided(result, Check.PRIVATE_MODES) == ""


def test_an_unreadable_directory_decides_nothing(unprivileged: Path) -> None:
    cache = kernel_cache(unprivileged)
    cache.soc.chmod(0)
    try:
        result = look(unprivileged)
    finally:
        cache.soc.chmod(0o700)
    assert all("cannot be looked into" in undecided(result, check) for check in Check)


def test_a_file_that_comes_while_it_is_read_decides_nothing(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    put(cache.soc / "te_old.o_1_2_3.temp", b"")

    def meanwhile(_: Removal) -> None:
        put(cache.soc / "te_new.o_1_2_3.temp", b"")

    result = audit(tmp_path, environment=NOTHING, suggest=meanwhile)
    assert "changed while it was read" in undecided(result, Check.DIGESTS)
    assert "when nobody compiles, or audit a copy" in undecided(result, Check.RANKS_AGREE)


def test_a_directory_that_goes_away_decides_nothing(tmp_path: Path) -> None:
    result = look(tmp_path / "gone")
    assert "went away" in undecided(result, Check.DIGESTS)


def test_a_fault_that_is_being_mended_is_none(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    name = cache.entries[1].object.name
    with Reader().folder(cache.soc, "") as folder:
        before = folder.look(name)
        folder.confirm(name, before)
        cache.entries[1].replace_object(elf_object(b"a compile that went on meanwhile"))
        with pytest.raises(ChangedWhileRead, match="was written"):
            folder.confirm(name, before)


def test_what_would_age_is_what_the_document_says() -> None:
    sizes = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    limits = CacheLimits(megabytes=20, ratio=50)
    now = 1_000_000.0
    aging = AgingForecast()
    entries = []
    for number, size in enumerate(sizes):
        idle = (number * 7 % 10) * 600.0 + 1
        aging.add_entry(size << 20, now - idle, str(number))
        aging.total += size << 20
        entries.append(AgedEntry(str(number), size << 20, idle))
    expected = expected_aging(entries, 0, limits)
    assert aging.would_go(limits, now) == (
        len(expected.must_go),
        sum(each.size for each in entries if each.name in expected.must_go),
    )
    assert expected.must_go
    assert set(aging.oldest) <= expected.must_go


def test_what_would_age_is_reported(tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    put(cache.ini, INI + "max_op_cache_size=1\nremain_cache_size_ratio=50\n")
    entry = cache.entries[1]
    entry.replace_object(elf_object(bytes(2 << 20)))
    os.utime(entry.metadata, (1, 1))
    (finding,) = look(tmp_path).found[Check.SIZE].first
    assert finding.path == "kernel_cache/Ascend910B1"
    assert "of 1 MB (kernel_cache/op_cache.ini), 1 entries (2.0 MB) would age now" in finding.detail
    assert entry.metadata.name in finding.detail


def test_of_two_cards_with_other_scripts_none_is_most_cards(tmp_path: Path) -> None:
    made = graphs(tmp_path, 3)
    made[4].with_name("MS_WORKERcompile_dependency.hash").write_text(digest(b"another"))
    assert "those of most cards" in look(tmp_path).found[Check.RANKS_AGREE].first[0].detail
    shutil.rmtree(tmp_path / "rank_0")
    detail = look(tmp_path).found[Check.RANKS_AGREE].first[0].detail
    assert detail.startswith("its graphs and those of card 1 are of different scripts")


def test_duplicates_of_several_jobs_are_told_apart(tmp_path: Path) -> None:
    for job in ("bert", "resnet"):
        ranks(tmp_path / job)
    notes = look(tmp_path).notes[Check.RANK_DUPLICATES]
    assert [each.partition(" ")[0] for each in notes] == [
        "bert/rank_#/kernel_meta:",
        "resnet/rank_#/kernel_meta:",
    ]


def test_memory_does_not_grow_with_the_cache(tmp_path: Path) -> None:
    directory = tmp_path / "kernel_cache" / "Ascend910B1"

    def peak() -> int:
        tracemalloc.start()
        look(tmp_path)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    for number in range(500):
        cann_entry(directory, number)
    small = peak()
    for number in range(500, 3000):
        cann_entry(directory, number)
    assert peak() - small < 2500 * 100  # bytes; a name alone needs more than that


@pytest.mark.parametrize("content", ["README", "notes"])
def test_what_is_no_cache_is_not_taken_for_one(content: str, tmp_path: Path) -> None:
    put(tmp_path / content / "te_x.json", b"{}")
    assert not holds_a_cache(tmp_path)


@pytest.mark.parametrize("suffix", [".o", ".json"])
def test_a_directory_in_place_of_a_file_is_noticed(suffix: str, tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path)
    path = cache.entries[1].metadata.with_suffix(suffix)
    path.unlink()
    path.mkdir(mode=0o750)
    assert broken(look(tmp_path)) == {Check.WHOLE_ENTRIES.value}


def test_packages_of_our_own_have_a_digest_of_all_that_follows(tmp_path: Path) -> None:
    run = static_outputs(tmp_path)
    body = b"# a script\nexit 0\npayload"
    head = f"#!/bin/sh\nsha256={digest(body)}\n".encode()
    run.write_bytes(head + body)
    assert not look(tmp_path).found
    run.write_bytes(head + body[:-1])
    assert broken(look(tmp_path)) == {Check.DIGESTS.value}


def test_installed_kernels_without_an_index_are_never_found(tmp_path: Path) -> None:
    place = installed_kernels(tmp_path)
    (place / "config/ascend910b/binary_info_config.json").unlink()
    assert broken(look(tmp_path)) == {Check.WHOLE_ENTRIES.value}


def test_a_graph_of_zeros_was_lost(tmp_path: Path) -> None:
    graphs(tmp_path)[0].write_bytes(bytes(900))
    assert broken(look(tmp_path)) == {Check.WHOLE_OBJECTS.value}


def test_what_an_installer_leaves_is_not_foreign(tmp_path: Path) -> None:
    place = installed_kernels(tmp_path) / "static_kernel_261121150000"
    holder = "5bce98f7.85ff466e-67b7-4d82-b69f-bdab95339ef0.4026531836.138.506"
    for name in ("installer.pyz", "package.json", f"leases/{holder}"):
        put(place / name, "{}")
    account = look(tmp_path).account
    assert (account.foreign.count, account.unread.count) == (0, 0)


def test_installed_kernels_may_be_listed_and_gone(tmp_path: Path) -> None:
    place = installed_kernels(tmp_path)
    (place / "config.ini").write_text("load_priority=static_kernel_261121150000,gone,../evil\n")
    result = look(tmp_path)
    assert broken(result) == {Check.WHOLE_ENTRIES.value, Check.NAMES_INSIDE.value}


@pytest.mark.parametrize("kind", ["a link to nothing", "a directory", "a pipe"])
def test_an_object_counts_whatever_is_in_its_metadata_s_place(tmp_path: Path, kind: str) -> None:
    cache = kernel_cache(tmp_path)
    before = look(tmp_path)
    place = cache.entries[0].metadata
    size = place.stat().st_size
    place.unlink()
    if kind == "a link to nothing":
        place.symlink_to("gone")
    elif kind == "a directory":
        place.mkdir()
    else:
        os.mkfifo(place)
    after = look(tmp_path)
    assert (after.files, after.bytes) == (before.files - 1, before.bytes - size)
    soc = "kernel_cache/Ascend910B1"
    assert after.units[soc].aging.total == before.units[soc].aging.total - size
    assert after.found.keys() == {Check.WHOLE_ENTRIES}


def test_where_asking_for_a_name_is_forbidden_objects_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_cache(tmp_path)
    allowed = look(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    forbidden = look(tmp_path)
    assert (forbidden.files, forbidden.bytes) == (allowed.files, allowed.bytes)
    assert not forbidden.found


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("[op_compiler_cache]\nmax_op_cache_size=20\nremain_cache_size_ratio=50\n", ()),
        ("[op_compiler_cache] # limits=8\nversion=1\n", ()),
        ("[op_compiler_cache] of us\n;max_op_cache_size=20\n //max_op_cache_size=9\n", ()),
        (
            "[op_compiler_cache]\nmax_op_cache_size=20\nremain_cache_size_ratio=50\n"
            "max_op_cache_size_old=7\n",
            (),
        ),
        (
            "\ufeff[op_compiler_cache]\nversion=1\n",
            (
                "begins with a byte order mark, which editors do not show: [op_compiler_cache] is "
                "not found, and nothing in it counts",
            ),
        ),
        (
            "[op_compiler_cache] max_op_cache_size=20 remain_cache_size_ratio=50\n",
            (
                "has 'max_op_cache_size=20 remain_cache_size_r' behind [op_compiler_cache]: each "
                "key needs a line of its own",
            ),
        ),
        (
            "[op_compiler_cache]\nMax_Op_Cache_Size=20\nremain_cache_ratio_size=50\n",
            (
                "sets 'Max_Op_Cache_Size', which nothing reads: write max_op_cache_size",
                "sets 'remain_cache_ratio_size', which nothing reads: write "
                "remain_cache_size_ratio",
            ),
        ),
        (
            "[op_compiler_cache]\nmax_op_cache_size=20480\nremain_cache_size_ratio=0.8\n",
            (
                "sets remain_cache_size_ratio='0.8', which does not count: remain_cache_size_ratio "
                "takes 1 to 100 (percent); nor does max_op_cache_size='20480', for the file counts "
                "only with both",
            ),
        ),
        (
            "[op_compiler_cache]\nmax_op_cache_size=2G\nremain_cache_size_ratio=0\n",
            (
                "sets max_op_cache_size='2G', remain_cache_size_ratio='0', which does not count: "
                "max_op_cache_size takes -1 or 1 and more (MB), remain_cache_size_ratio takes 1 to "
                "100 (percent)",
            ),
        ),
    ],
)
def test_limits_that_nothing_reads_are_named(text: str, problems: tuple[str, ...]) -> None:
    assert read_ini(text.encode()).problems == problems


def test_a_large_file_of_limits_is_not_called_empty_and_each_fault_of_it_is_counted_once(
    tmp_path: Path,
) -> None:
    cache = kernel_cache(tmp_path)
    for kernel in cache.entries:
        edit(kernel.metadata, lambda fields: fields.update(adk_version="7.7"))
    put(cache.ini, INI + "max_op_cache_size=500MB\nremain_cache_size_ratio=50\n")
    assert look(tmp_path).found[Check.INI].count == 1
    cache.ini.write_bytes(b"#" * (17 << 20))
    (finding,) = look(tmp_path).found[Check.INI].first
    assert finding.detail == f"has {17 << 20} bytes: no settings are that large"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data + b"x" * 999, "is longer than its head says, by 999 bytes"),
        (lambda data: data + b"x", "is longer than its head says, by 1 byte"),
        (lambda data: data.replace(b"\n", b"\r\n"), "its lines end in CR LF"),
        (lambda data: data[:-60] + b"?" + data[-59:], "sha256 of the payload is"),
        (lambda data: data[:-40], "is cut: a ZIP archive has its directory at the end"),
    ],
)
def test_what_happened_to_a_package_is_not_said_the_other_way_round(
    change: Callable[[bytes], bytes], told: str, tmp_path: Path
) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("kernel.o", elf_object(b"static"))
    rest = b"exec python3 $0\n" + archive.getvalue()
    path = static_outputs(tmp_path)
    path.write_bytes(change(f"#!/bin/sh\nsha256={digest(rest)}\n".encode() + rest))
    found = [each for one in look(tmp_path).found.values() for each in one.first]
    assert len(found) == 1
    assert told in found[0].detail


def test_a_library_of_akg_that_is_missing_is_not_called_another_object(tmp_path: Path) -> None:
    akg_kernel(tmp_path).object.unlink()
    assert broken(look(tmp_path)) == {"audit/whole-entries"}


def test_kernels_without_a_digest_are_noted(tmp_path: Path) -> None:
    (path,) = installed_kernels(tmp_path).rglob("*.o")
    edit(path.with_suffix(".json"), lambda fields: fields.pop("sha256"))
    (note,) = look(tmp_path).notes[Check.DIGESTS]
    assert "1 kernels have no digest in their metadata" in note


def test_a_file_that_only_root_may_read_is_noted_or_not_judged(tmp_path: Path) -> None:
    (path,) = installed_kernels(tmp_path).rglob("*.o")
    path.chmod(0)
    result = look(tmp_path)
    if os.geteuid():
        assert any(undecided(result, each) for each in Check)
    else:
        assert "only root may read" in result.notes[Check.PRIVATE_MODES][0]


def test_no_card_is_compared_by_what_lies_too_deep(tmp_path: Path) -> None:
    place = ranks(tmp_path / ".job", 2)[1][0].metadata.parent
    shutil.copytree(place, place / "kernel_meta")
    result = look(tmp_path)
    assert broken(look(place)) == {"audit/leftovers"}
    assert broken(result) == {"audit/leftovers"}
