"""Reading cache directories: snapshots, entries, ELF objects, canaries, and file systems."""

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

from pytest_ascendcache.caches import (
    AccessTimes,
    CacheLayout,
    Change,
    ElfError,
    Entry,
    FileSystem,
    Snapshot,
    embedded_objects,
    entries_in_place,
    find_canaries,
    keep_access_times,
    plant_canary,
    probe_file_system,
    read_entries,
    same_code,
)
from pytest_ascendcache.caches.elf import add_note, object_size
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.kernels import KernelOptions, build

STEM = f"te_matmulv2_{'0' * 64}"
DAY_NS = 86_400 * 10**9


def kernel(architecture: str) -> bytes:
    tensor = TensorDesc.of("float32", 8)
    options = KernelOptions(soc="Ascend910B1", architecture=architecture)
    return build(OperatorSpec("Abs", (tensor,), (tensor,)), "probe", options).object


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"
OBJECTS = {name: kernel(name) for name in ("x86_64", "aarch64")}
OBJECT = OBJECTS["x86_64"]


def put_fifo(path):
    path.unlink()
    os.mkfifo(path)


@pytest.fixture(params=OBJECTS)
def elf(request):
    return OBJECTS[request.param]


@pytest.fixture
def entry(tmp_path):
    """A valid entry that has not been read yet."""
    fields = {
        "binFileName": STEM,
        "binFileSuffix": ".o",
        "kernelName": f"{STEM}__kernel0",
        "sha256": sha256(OBJECT),
    }
    (tmp_path / f"{STEM}.o").write_bytes(OBJECT)
    (tmp_path / f"{STEM}.json").write_text(json.dumps(fields))
    return Entry(STEM, tmp_path)


def edit(entry: Entry, **changes: object) -> None:
    """Change metadata fields; ``...`` removes one."""
    fields = {**json.loads(entry.metadata_path.read_text()), **changes}
    kept = {key: value for key, value in fields.items() if value is not ...}
    entry.metadata_path.write_text(json.dumps(kept))


# --- snapshots ------------------------------------------------------------------------------


def replace(path: Path) -> None:
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    new.replace(path)


def shift(path: Path, atime: int = 0, mtime: int = 0) -> None:
    info = path.stat()
    os.utime(path, ns=(info.st_atime_ns + atime, info.st_mtime_ns + mtime))


@pytest.mark.parametrize(
    ("action", "path", "expected"),
    [
        (lambda root: (root / "new").write_text("n"), "new", Change.ADDED),
        (lambda root: (root / "sub/new").mkdir(), "sub/new", Change.ADDED),
        (lambda root: (root / "file").unlink(), "file", Change.REMOVED),
        (lambda root: replace(root / "file"), "file", Change.REPLACED),
        (lambda root: (root / "file").write_text("other"), "file", Change.CHANGED),
        (lambda root: (root / "file").write_text("longer text"), "file", Change.CHANGED),
        (lambda root: shift(root / "file", mtime=DAY_NS), "file", Change.TOUCHED),
        (lambda root: (root / "file").chmod(0o600), "file", Change.TOUCHED),
        (lambda root: (root / "sub").chmod(0o700), "sub", Change.TOUCHED),
        (lambda root: list((root / "sub").iterdir()), None, None),
        (lambda root: (root / "file").stat(), None, None),
    ],
)
def test_changes_between_snapshots(tmp_path, action, path, expected):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_text("below")
    (tmp_path / "sub").chmod(0o750)
    (tmp_path / "file").write_text("text!")
    (tmp_path / "file").chmod(0o640)
    before = Snapshot.take(tmp_path)
    action(tmp_path)
    assert before.changes(Snapshot.take(tmp_path)) == ({path: expected} if path else {})


def test_a_moved_access_time_alone_is_a_read(tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    before = Snapshot.take(tmp_path).files["file"]
    shift(path, atime=DAY_NS)
    after = Snapshot.take(tmp_path).files["file"]
    # utime also updates the change time. A read does not, and nothing can set it back.
    read = type(after)(**{**after.__dict__, "ctime_ns": before.ctime_ns})
    assert Snapshot({"file": before}).changes(Snapshot({"file": read})) == {"file": Change.READ}
    assert Snapshot({"file": before}).changes(Snapshot({"file": after})) == {"file": Change.TOUCHED}


def test_a_file_in_place_of_a_directory_is_replaced(tmp_path):
    (tmp_path / "name").mkdir()
    before = Snapshot.take(tmp_path)
    (tmp_path / "name").rmdir()
    (tmp_path / "name").write_text("")
    assert before.changes(Snapshot.take(tmp_path)) == {"name": Change.REPLACED}


def test_a_link_with_another_target_is_seen(tmp_path):
    (tmp_path / "link").symlink_to("here")
    before = Snapshot.take(tmp_path)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("elsewhere")
    (change,) = before.changes(Snapshot.take(tmp_path)).values()
    assert change in (Change.REPLACED, Change.CHANGED)


def test_links_are_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "directory").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    files = Snapshot.take(root).files
    assert sorted(files) == ["dangling", "directory", "file", "loop"]
    assert {each.kind for each in files.values()} == {"link"}
    assert files["dangling"].target == "nowhere"
    assert files["file"].sha256 == ""


def test_taking_a_snapshot_moves_no_access_time_of_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    shift(path, atime=-DAY_NS)  # older than the change time, so any read would update it
    before = path.stat().st_atime_ns
    Snapshot.take(tmp_path)
    assert path.stat().st_atime_ns == before


def test_two_looks_at_an_untouched_tree_agree(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_text("text")
    os.mkfifo(tmp_path / "pipe")
    first = Snapshot.take(tmp_path)
    assert first.changes(Snapshot.take(tmp_path)) == {}
    assert first.files["pipe"].kind == "other"


def test_looking_at_a_link_is_not_reading_it(tmp_path):
    # readlink updates a link's access time unless it is newer than its change time.
    (tmp_path / "link").symlink_to("sub")
    first = Snapshot.take(tmp_path)
    assert first.changes(Snapshot.take(tmp_path)) == {}


def test_what_a_state_says(tmp_path):
    path = tmp_path / "sub" / "file"
    path.parent.mkdir()
    path.write_bytes(b"text")
    path.chmod(0o604)
    os.utime(path, ns=(5, 7))
    state = Snapshot.take(tmp_path).files["sub/file"]
    info = path.stat()
    assert (state.kind, state.size, state.mode, state.inode) == ("file", 4, 0o604, info.st_ino)
    assert (state.atime_ns, state.mtime_ns, state.ctime_ns) == (5, 7, info.st_ctime_ns)
    assert (state.owner, state.sha256) == (os.getuid(), sha256(b"text"))


def test_a_root_that_is_missing_or_a_file_is_empty(tmp_path):
    (tmp_path / "file").touch()
    assert Snapshot.take(tmp_path / "missing").files == {}
    assert Snapshot.take(tmp_path / "file").files == {}


# --- entries --------------------------------------------------------------------------------


def test_a_valid_entry(entry):
    assert entry.problems() == []
    assert entry.is_valid
    assert entry.object_bytes == OBJECT
    assert entry.operator_type == "matmulv2"
    assert entry.metadata["binFileName"] == STEM


@pytest.mark.parametrize(
    ("damage", "phrase"),
    [
        (lambda entry: entry.metadata_path.unlink(), "metadata file is missing"),
        (lambda entry: entry.object_path.unlink(), "object file is missing"),
        (lambda entry: put_fifo(entry.metadata_path), "not a JSON object"),
        (lambda entry: put_fifo(entry.object_path), "object file is missing"),
        (lambda entry: entry.metadata_path.write_text(""), "not a JSON object"),
        (lambda entry: entry.metadata_path.write_text("[1]"), "not a JSON object"),
        (lambda entry: entry.metadata_path.write_text('"text"'), "not a JSON object"),
        (lambda entry: entry.metadata_path.write_text("[" * 100_000), "not a JSON object"),
        (lambda entry: entry.metadata_path.write_bytes(b"\xff{}"), "not a JSON object"),
        (lambda entry: edit(entry, binFileName="../evil"), "binFileName is '../evil'"),
        (lambda entry: edit(entry, binFileName=1), "binFileName is 1"),
        (lambda entry: edit(entry, binFileName=...), "binFileName is None"),
        (lambda entry: edit(entry, binFileSuffix=".so"), "binFileSuffix is '.so'"),
        (lambda entry: edit(entry, binFileSuffix=...), "binFileSuffix is None"),
        (lambda entry: edit(entry, kernelName=""), "kernelName is ''"),
        (lambda entry: edit(entry, kernelName=[1]), "kernelName is [1]"),
        (lambda entry: edit(entry, sha256="0" * 64), "sha256"),
        (lambda entry: edit(entry, sha256=sha256(OBJECT).upper()), "sha256"),
        (lambda entry: edit(entry, sha256=...), "sha256"),
        (lambda entry: edit(entry, sha256={}), "sha256"),
        (lambda entry: entry.object_path.write_bytes(b""), "not a whole ELF object"),
        (lambda entry: entry.object_path.write_bytes(POINTER), "a pointer of git-lfs"),
        (lambda entry: entry.object_path.write_bytes(OBJECT[:-1]), "sha256"),
        (lambda entry: entry.object_path.write_bytes(OBJECT[:200]), "not a whole ELF object"),
        (lambda entry: entry.object_path.write_bytes(OBJECT + b"\0"), "sha256"),
    ],
)
def test_problems(entry, damage, phrase):
    damage(entry)
    problems = entry.problems()
    assert any(phrase in each for each in problems), problems
    assert not entry.is_valid


def test_reading_an_entry_moves_no_access_time(entry):
    for path in (entry.metadata_path, entry.object_path):
        shift(path, atime=-DAY_NS)
    before = [path.stat().st_atime_ns for path in (entry.metadata_path, entry.object_path)]
    assert entry.is_valid
    assert before == [path.stat().st_atime_ns for path in (entry.metadata_path, entry.object_path)]


def test_a_damaged_entry_in_a_directory_of_its_own_is_hidden_beside_its_successor_only(
    entry, tmp_path
):
    kept = tmp_path / "damaged"
    kept.mkdir()
    for path in (entry.metadata_path, entry.object_path):
        (kept / path.name).write_bytes(path.read_bytes()[:-9])
    assert set(read_entries(tmp_path)) == {STEM, f"damaged/{STEM}"}
    assert set(entries_in_place(tmp_path)) == {STEM}
    entry.object_path.unlink()
    entry.metadata_path.unlink()
    assert set(entries_in_place(tmp_path)) == {f"damaged/{STEM}"}


def test_read_entries(entry, tmp_path):
    halves = [f"te_aa_{'0' * 64}", f"te_ab_{'0' * 64}", f"te_ab_{'0' * 64}_1"]
    others = ("fusion_result.json", "te_half.o", f"{STEM}_pre.json", "x.lock", "y.temp", "z.h")
    for name in (f"{halves[0]}.o", f"{halves[1]}.json", f"{halves[2]}.o", *others):
        (tmp_path / name).write_text("")
    assert list(read_entries(tmp_path)) == [*halves, STEM]
    assert read_entries(tmp_path)[STEM].problems() == entry.problems() == []
    assert read_entries(tmp_path / "missing") == {}


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        (f"te_add_{'f' * 64}", "add"),
        (f"te_layer_norm_{'f' * 64}", "layer_norm"),
        ("te_add_short", "te_add_short"),
        ("foreign", "foreign"),
    ],
)
def test_operator_type(tmp_path, stem, expected):
    assert Entry(stem, tmp_path).operator_type == expected


# --- ELF ------------------------------------------------------------------------------------


def sections(data: bytes) -> dict[str, bytes]:
    """Return the sections' contents by name, read independently of the code under test."""
    offset = struct.unpack_from("<Q", data, 40)[0]
    _, count, names_index = struct.unpack_from("<HHH", data, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * index) for index in range(count)]
    start = raw[names_index][4]
    contents = {}
    for name, kind, _, _, where, size, *_ in raw:
        text = data[start + name : data.index(b"\0", start + name)].decode()
        contents[text] = b"" if kind == 8 else data[where : where + size]
    return contents


def machine(data: bytes) -> int:
    """Return the ``e_machine`` number of an object."""
    return int.from_bytes(data[18:20], "little")


def test_machines():
    assert {name: machine(data) for name, data in OBJECTS.items()} == {
        "x86_64": 62,
        "aarch64": 183,
    }


def test_a_note_leaves_every_section_as_it_was(elf):
    noted = add_note(elf, ".note.test", "owner", b"description")
    before, after = sections(elf), sections(noted)
    note = after.pop(".note.test")
    assert note == struct.pack("<III", 6, 11, 1) + b"owner\0\0\0" + b"description\0"
    names = ".shstrtab" if ".shstrtab" in before else ".strtab"
    assert after.pop(names) == before.pop(names) + b".note.test\0"
    assert after == before
    assert object_size(noted) == len(noted)
    assert machine(noted) == machine(elf)


def test_notes_can_be_added_twice(elf):
    twice = add_note(add_note(elf, ".note.a", "owner", b"first"), ".note.b", "owner", b"second")
    assert {".note.a", ".note.b"} <= set(sections(twice))
    assert sections(twice)[".text"] == sections(elf)[".text"]


@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not installed")
def test_readelf_takes_a_noted_object(elf, tmp_path):
    path = tmp_path / "noted.o"
    path.write_bytes(add_note(elf, ".note.test", "owner", b"\x01\x02\x03\x04"))
    done = subprocess.run(
        ["readelf", "--wide", "--all", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert ".note.test" in done.stdout
    assert "owner" in done.stdout
    assert "probe" in done.stdout


@pytest.mark.parametrize("damage", ["empty", "text", "class", "count", "table", "section", "names"])
def test_broken_objects_are_refused(damage):
    data = bytearray(OBJECT)
    if damage == "empty":
        data.clear()
    elif damage == "text":
        data[:4] = b"TEXT"
    elif damage == "class":
        data[4] = 1
    elif damage == "count":
        struct.pack_into("<H", data, 60, 0)
    elif damage == "table":
        struct.pack_into("<Q", data, 40, 1 << 62)
    elif damage == "section":
        table = struct.unpack_from("<Q", data, 40)[0]
        struct.pack_into("<Q", data, table + 64 + 24, len(data))
        struct.pack_into("<Q", data, table + 64 + 32, 1)
    elif damage == "names":
        struct.pack_into("<H", data, 62, 9999)
    with pytest.raises(ElfError):
        object_size(bytes(data))
    with pytest.raises(ElfError):
        add_note(bytes(data), ".note.test", "owner", b"")


def test_every_truncation_is_refused(elf):
    size = object_size(elf)
    for length in range(size):
        with pytest.raises(ElfError):
            add_note(elf[:length], ".note.test", "owner", b"description")


def test_every_flipped_byte_is_an_object_or_an_elf_error():
    for index in range(len(OBJECT)):
        for mask in (0x01, 0x80, 0xFF):
            data = bytearray(OBJECT)
            data[index] ^= mask
            try:
                assert 0 < object_size(bytes(data)) <= len(data)
            except ElfError:
                continue


def test_embedded_objects_are_found_unchanged():
    first, second = OBJECTS.values()
    garbage = b"\x7fELF" + b"\x7fELF\x02\x01" + os.urandom(64) + b"\x7f"
    carried = garbage + first + b"\0" * 7 + second + garbage + first[: len(first) // 2]
    assert list(embedded_objects(carried)) == [first, second]
    assert list(embedded_objects(first + second)) == [first, second]


def test_an_object_behind_what_looks_like_a_header():
    header = bytearray(OBJECT[:64])
    struct.pack_into("<Q", header, 40, 1 << 40)
    assert list(embedded_objects(bytes(header) + OBJECT)) == [OBJECT]


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" * 50])
def test_no_objects(data):
    assert list(embedded_objects(data)) == []


def test_an_object_behind_thousands_of_headers():
    headers = b"\x7fELF\x02\x01" * 10_000
    assert list(embedded_objects(headers + OBJECT + headers)) == [OBJECT]


# --- canaries -------------------------------------------------------------------------------


def test_a_canary_keeps_times_modes_and_validity(entry):
    paths = (entry.object_path, entry.metadata_path)
    for path in paths:
        path.chmod(0o640)
        os.utime(path, ns=(1_500_000_000_123_456_789, 1_400_000_000_987_654_321))
    inodes = [path.stat().st_ino for path in paths]
    canary = plant_canary(entry)
    for path in paths:
        info = path.stat()
        assert info.st_atime_ns == 1_500_000_000_123_456_789
        assert info.st_mtime_ns == 1_400_000_000_987_654_321
        assert stat.S_IMODE(info.st_mode) == 0o640
    assert inodes == [path.stat().st_ino for path in paths]
    marked = Entry(STEM, entry.directory)
    assert marked.problems() == []
    assert find_canaries(marked.object_bytes) == {canary.token}
    assert (canary.stem, canary.original_sha256) == (STEM, sha256(OBJECT))


def test_canaries_differ_and_are_found_anywhere(entry):
    first = plant_canary(entry)
    carried = b"PK\x03\x04" + entry.object_path.read_bytes() + b"tail"
    second = plant_canary(Entry(STEM, entry.directory))
    assert first.token != second.token
    assert find_canaries(carried) == {first.token}
    assert find_canaries(entry.object_path.read_bytes()) == {first.token, second.token}
    assert find_canaries(OBJECT) == frozenset()
    assert find_canaries(b"ascendcache-canary:" + b"0" * 31) == frozenset()


def test_an_aarch64_entry_can_be_marked(entry):
    entry.object_path.write_bytes(OBJECTS["aarch64"])
    edit(entry, sha256=sha256(OBJECTS["aarch64"]))
    canary = plant_canary(entry)
    marked = Entry(STEM, entry.directory)
    assert marked.is_valid
    assert find_canaries(marked.object_bytes) == {canary.token}


def test_only_valid_entries_are_marked(entry):
    edit(entry, sha256="0" * 64)
    before = Snapshot.take(entry.directory)
    with pytest.raises(ValueError, match="sha256"):
        plant_canary(entry)
    assert before.changes(Snapshot.take(entry.directory)) == {}


# --- file systems and layout ------------------------------------------------------------------


@pytest.mark.parametrize("parent", [None, "/dev/shm"])
def test_probe(parent):
    if parent and not os.access(parent, os.W_OK):
        pytest.skip(f"{parent} is not there or cannot be written")
    with tempfile.TemporaryDirectory(dir=parent) as name:
        file_system = probe_file_system(Path(name))
        assert file_system == probe_file_system(Path(name))
        assert list(Path(name).iterdir()) == []
    assert file_system.access_times in AccessTimes
    assert file_system.type == "tmpfs" if parent else file_system.type


def test_probe_agrees_with_a_read(tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    shift(path, atime=-2 * DAY_NS)
    before = path.stat().st_atime_ns
    path.read_text()
    moves = path.stat().st_atime_ns != before
    assert moves is (probe_file_system(tmp_path).access_times is not AccessTimes.NONE)


def test_a_directory_can_be_made_noatime_and_back(tmp_path):
    if not keep_access_times(tmp_path, keep=False):
        pytest.skip("this file system knows no such flag")
    inside = tmp_path / "inside"
    inside.mkdir()
    assert probe_file_system(inside).access_times is AccessTimes.NONE
    assert keep_access_times(inside, keep=True)
    assert probe_file_system(tmp_path).access_times is AccessTimes.NONE
    assert list(tmp_path.iterdir()) == [inside]


def sparse(path: Path, size: int, **data: bytes) -> None:
    """Write a sparse file with some ``data``, passed as at_<offset>."""
    with path.open("wb") as file:
        file.truncate(size)
        for at, piece in data.items():
            file.seek(int(at.removeprefix("at_")))
            file.write(piece)


def test_holes_are_not_read_and_what_is_in_between_counts(tmp_path):
    large = 1 << 40
    path = tmp_path / "file"
    digests = set()
    for size, data in (
        (large, {}),
        (large + 1, {}),
        (large, {"at_0": b"x"}),
        (large, {"at_0": b"y"}),
        (large, {"at_8589934592": b"x"}),
        (large, {"at_0": b"x", "at_8589934592": b"x"}),
    ):
        sparse(path, size, **data)
        (state,) = Snapshot.take(tmp_path).files.values()
        assert (state.size, state.kind) == (size, "file")
        digests.add(state.sha256)
    assert len(digests) == 6


@pytest.mark.parametrize("size", [0, 1, 40_000, 65_536, 65_537, 3_000_000])
@pytest.mark.parametrize("pieces", [{}, {"at_0": b"x"}, {"at_0": b"x", "at_900000": b"y\0"}])
@pytest.mark.parametrize("has_space", [False, True])
def test_holes_make_no_difference(tmp_path, size, pieces, has_space):
    """Nor does disk space without data, which a reader may turn into data."""
    path = tmp_path / "file"
    sparse(path, size, **pieces)
    if has_space and path.stat().st_size:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    (state,) = Snapshot.take(tmp_path).files.values()
    assert state.sha256 == sha256(path.read_bytes())


def test_file_system_text():
    assert str(FileSystem("ext4", AccessTimes.RELATIME)) == "ext4, relatime"


def test_layout(tmp_path):
    layout = CacheLayout(tmp_path / "cache")
    assert layout.socs() == []
    for soc in ("Ascend910B1", "Ascend310P3"):
        layout.soc(soc).mkdir(parents=True)
    (layout.kernel_cache / "op_cache.ini").touch()
    assert layout.socs() == ["Ascend310P3", "Ascend910B1"]
    assert layout.soc("Ascend310P3") == tmp_path / "cache/kernel_cache/Ascend310P3"
    assert layout.ini_candidates == (
        tmp_path / "cache/kernel_cache/op_cache.ini",
        tmp_path / "cache/op_cache.ini",
    )


# --- kernels with the same code, undisturbed files -------------------------------------------


def _named(name: str, elements: int = 8, kind: str = "Abs") -> bytes:
    tensor = TensorDesc.of("float32", elements)
    options = KernelOptions(soc="Ascend910B1", architecture="x86_64")
    return build(OperatorSpec(kind, (tensor,), (tensor,)), name, options).object


def test_a_mark_and_a_key_in_a_name_change_no_code(entry):
    before = entry.object_bytes
    plant_canary(entry)
    assert same_code(entry.object_path.read_bytes(), before)
    one, other = (_named(f"te_abs_{digit * 64}__kernel0") for digit in "ab")
    assert one != other
    assert same_code(one, other)


@pytest.mark.parametrize(
    "other", [_named("probe", elements=16), _named("probe", kind="Exp"), OBJECT[:-1], b""]
)
def test_anything_else_is_other_code(other):
    assert not same_code(OBJECT, other)


def test_a_moved_time_disturbs_nothing(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    before = Snapshot.take(tmp_path)
    os.utime(path, (1, 1))
    after = Snapshot.take(tmp_path)
    assert before.changes(after) == {"file": Change.TOUCHED}
    assert before.disturbed(after) == {}
    path.chmod(0o600)
    assert before.disturbed(Snapshot.take(tmp_path)) == {"file": Change.TOUCHED}
    path.write_text("y")
    assert before.disturbed(Snapshot.take(tmp_path)) == {"file": Change.CHANGED}
