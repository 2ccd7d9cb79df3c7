"""Directories as the field has them, with what an audit owes each: the pool of the generator.

A directory that is *unsound* has something that a run would fail on, load unverified, or wait for;
an audit never calls it good. A *sound* one is unusual, and nobody is to be accused because of it.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.scenes.caches import (
    INI,
    SceneKernel,
    akg_kernel,
    cann_entry,
    digest,
    edit,
    elf_object,
    graphs,
    installed_kernels,
    kernel_cache,
    package,
    put,
    rank_kernel,
    ranks,
    static_outputs,
)

GREEN, WARN, UNDECIDED, FAIL = range(4)
"""What an audit says of a directory, from "may be shipped" on."""

Build = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """A directory, and the least (of an unsound one) or most (of a sound one) to be said of it."""

    name: str
    build: Build
    least: int = GREEN
    most: int = FAIL


UNSOUND: list[Case] = []
SOUND: list[Case] = []


def unsound(least: int) -> Callable[[Build], Build]:
    """Register a directory that no audit may call good."""

    def register(build: Build) -> Build:
        UNSOUND.append(Case(build.__name__, build, least=least))
        return build

    return register


def sound(most: int = GREEN) -> Callable[[Build], Build]:
    """Register a directory that no audit may accuse."""

    def register(build: Build) -> Build:
        SOUND.append(Case(build.__name__, build, most=most))
        return build

    return register


def metadata_of(stem: str, data: bytes, **fields: Any) -> dict[str, Any]:
    """The metadata of an object, with some fields changed; those that are None are missing."""
    known = {
        "binFileName": stem,
        "binFileSuffix": ".o",
        "blockDim": 1,
        "coreType": "AiCore",
        "kernelName": f"{stem}__kernel0",
        "magic": "RT_DEV_BINARY_MAGIC_ELF",
        "sha256": digest(data),
        **fields,
    }
    return {key: value for key, value in known.items() if value is not None}


def entry(directory: Path, stem: str, **fields: Any) -> SceneKernel:
    """Write an entry of any name."""
    data = elf_object(stem.encode())
    kernel = SceneKernel(directory / f"{stem}.json", directory / f"{stem}.o")
    put(kernel.object, data)
    put(kernel.metadata, metadata_of(stem, data, **fields))
    return kernel


def custom(directory: Path, number: int = 1) -> SceneKernel:
    """Write an entry of an Ascend C operator, which is not named te_."""
    stem = f"AddCustom_{digest(str(number).encode())[:32]}"
    return entry(directory, stem, kernelName=stem, kernelList=[{"kernelName": f"{stem}_0"}])


def cards(root: Path, name: str, count: int = 4, own: bool = True) -> list[list[SceneKernel]]:
    """Write kernel_meta of several cards in directories that count: name is "device{}"."""
    return [
        [
            rank_kernel(root / name.format(number) / "kernel_meta", operator, number if own else 0)
            for operator in ("square", "add", "matmul")
        ]
        for number in range(count)
    ]


def lose(kernel: SceneKernel) -> None:
    """Remove all files of a rank's kernel."""
    for suffix in (".info", ".json", ".o"):
        kernel.metadata.with_suffix(suffix).unlink()


def scratch(root: Path, pid: int, place: str | None = None) -> Path:
    """Write what a run of ATC or torch_npu leaves where it worked: no cache."""
    number = "13682945517213378854"
    meta = root / "kernel_meta"
    kernel = entry(meta / f"kernel_meta_{number}" / "kernel_meta", f"te_add_{digest(b'x')}")
    put(meta / f"kernel_meta_temp_{number}" / f"task_pid_{pid}_{pid + 1}.txt", "")
    path = place or str(meta / f"kernel_meta_{number}")
    put(meta / "buildPidInfo.json", json.dumps([[pid, path]]))
    return kernel.object


def dead_pid() -> int:
    """A process id that no process has."""
    return int(Path("/proc/sys/kernel/pid_max").read_text()) + 7


# ---- what stands in the place of an entry's file


def _object_becomes(make: Callable[[Path], object]) -> Build:
    def build(root: Path) -> None:
        path = kernel_cache(root).entries[1].object
        path.unlink()
        make(path)

    return build


def _listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


for _name, _make in {
    "object_is_a_link_to_another": lambda path: path.symlink_to(
        next(each for each in path.parent.glob("*.o"))
    ),
    "object_is_a_link_to_dev_zero": lambda path: path.symlink_to("/dev/zero"),
    "object_is_a_pipe": os.mkfifo,
    "object_is_a_socket": _listen,
    "object_is_a_directory": lambda path: path.mkdir(mode=0o750),
    "object_is_a_dangling_link": lambda path: path.symlink_to("gone"),
}.items():
    UNSOUND.append(Case(_name, _object_becomes(_make), least=FAIL))


@unsound(FAIL)
def metadata_is_a_pipe(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    path.unlink()
    os.mkfifo(path)


@unsound(FAIL)
def metadata_is_a_directory(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    path.unlink()
    path.mkdir(mode=0o750)


@sound(WARN)
def info_of_a_rank_is_a_link(root: Path) -> None:
    info = ranks(root)[1][0].metadata.with_suffix(".info")
    info.rename(info.with_name("elsewhere"))
    info.symlink_to("elsewhere")


@sound(WARN)
def library_of_akg_is_a_link(root: Path) -> None:
    library = akg_kernel(root).object
    library.rename(library.with_name("elsewhere"))
    library.symlink_to("elsewhere")


@unsound(FAIL)
def graph_is_a_pipe(root: Path) -> None:
    path = graphs(root)[0]
    path.unlink()
    os.mkfifo(path)


def _autofused(root: Path) -> Path:
    """Write metadata of a library that is a link to a place beside the audited directory."""
    cache, stem = kernel_cache(root), f"te_ascbackend_{'a' * 64}"
    put(cache.soc / f"{stem}.json", {"binFileName": f"lib{stem}", "binFileSuffix": ".so"})
    target = root.with_name(f"store-of-{root.name}")
    (cache.soc / f"lib{stem}.so").symlink_to(target)
    return target


@unsound(FAIL)
def autofuse_library_is_a_link_to_nothing(root: Path) -> None:
    _autofused(root)


@sound(WARN)
def autofuse_library_is_a_link(root: Path) -> None:
    put(_autofused(root), elf_object(b"library"))


def _stored(root: Path, store: Path) -> list[SceneKernel]:
    """Write a cache whose objects are links to files in a store, named after their digests."""
    entries = kernel_cache(root).entries
    for each in entries:
        kept = store / digest(each.object.read_bytes())
        kept.parent.mkdir(parents=True, exist_ok=True)
        each.object.rename(kept)
        each.object.symlink_to(kept)
    return entries


@sound(WARN)
def objects_are_links_to_a_store_outside(root: Path) -> None:
    _stored(root, root.with_name(f"store-of-{root.name}"))


@sound(WARN)
def objects_are_links_to_a_store_beside(root: Path) -> None:
    _stored(root, root / "store")


@sound(WARN)
def objects_are_links_to_files_among_them(root: Path) -> None:
    _stored(root, root / "kernel_cache/Ascend910B1")


@sound(WARN)
def objects_are_links_to_files_of_other_names(root: Path) -> None:
    for each in kernel_cache(root).entries:
        kept = each.object.rename(each.object.with_name(f"te_{digest(each.object.read_bytes())}.o"))
        each.object.symlink_to(kept.name)


@unsound(FAIL)
def a_file_of_a_store_is_another(root: Path) -> None:
    entries = _stored(root, root.with_name(f"store-of-{root.name}"))
    entries[1].object.resolve().write_bytes(elf_object(b"another"))


@unsound(FAIL)
def a_store_is_cut(root: Path) -> None:
    os.truncate(_stored(root, root / "store")[2].object.resolve(), 100)


@unsound(UNDECIDED)
def an_object_that_only_a_note_leads_to(root: Path) -> None:
    soc = kernel_cache(root).soc
    (soc / "README").symlink_to(put(soc / "kernel.bin", elf_object(b"code")).name)


@sound(WARN)
def installed_object_is_a_link(root: Path) -> None:
    place = installed_kernels(root)
    (path,) = place.rglob("*.o")
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere").name)


@unsound(UNDECIDED)
def chip_is_a_link_to_elsewhere(root: Path) -> None:
    elsewhere = kernel_cache(root.with_name("elsewhere"))
    cache = kernel_cache(root / "cache")
    shutil.rmtree(cache.soc)
    cache.soc.symlink_to(elsewhere.soc)


# ---- names that are not te_


@unsound(FAIL)
def custom_object_is_cut(root: Path) -> None:
    os.truncate(custom(kernel_cache(root).soc).object, 100)


@unsound(FAIL)
def custom_object_is_missing(root: Path) -> None:
    custom(kernel_cache(root).soc).object.unlink()


@unsound(FAIL)
def custom_metadata_is_missing(root: Path) -> None:
    custom(kernel_cache(root).soc).metadata.unlink()


@unsound(UNDECIDED)
def source_of_an_operator_package_is_cut(root: Path) -> None:
    place = root / "vendors/customize/op_impl/ai_core/tbe"
    custom(place / "kernel/ascend910b/add_custom")
    put(place / "customize_impl/dynamic/add_custom.py", b"def add_custom(x):\n    return 'ca")


@unsound(UNDECIDED)
def list_of_an_operator_package_is_cut(root: Path) -> None:
    place = root / "vendors/customize/op_impl/ai_core/tbe"
    custom(place / "kernel/ascend910b/add_custom")
    put(place / "config/ascend910b/aic-ascend910b-ops-info.json", b'{"AddCustom": {"input0": ')


@unsound(FAIL)
def operator_package_with_a_flipped_object(root: Path) -> None:
    place = root / "op_impl/ai_core/tbe/kernel/ascend910b/add_custom"
    custom(place, 2)
    custom(place).object.write_bytes(elf_object(b"another"))


@unsound(FAIL)
def operator_package_without_metadata(root: Path) -> None:
    place = root / "op_impl/ai_core/tbe/kernel/ascend910b/add_custom"
    custom(place, 2)
    custom(place).metadata.unlink()


@unsound(FAIL)
def old_metadata_without_core_type(root: Path) -> None:
    kernel = entry(kernel_cache(root).soc, f"Conv2D_{digest(b'1')}", coreType=None, magic=None)
    kernel.object.write_bytes(elf_object(b"another"))


@unsound(UNDECIDED)
def unknown_object_among_entries(root: Path) -> None:
    put(kernel_cache(root).soc / "-rf.o", b"what is this")


@unsound(UNDECIDED)
def unknown_elf_file_among_entries(root: Path) -> None:
    put(kernel_cache(root).soc / "payload", elf_object(b"code"))


@unsound(UNDECIDED)
def object_of_another_suffix(root: Path) -> None:
    put(kernel_cache(root).soc / "kernel.bin", elf_object(b"code"))


@unsound(UNDECIDED)
def unknown_library_of_a_rank(root: Path) -> None:
    put(ranks(root)[1][0].metadata.parent / "libhook.so", elf_object(b"code"))


# ---- cards


@unsound(WARN)
def device_lacks_a_kernel(root: Path) -> None:
    lose(cards(root, "device{}")[2][1])


@unsound(WARN)
def card_lacks_a_kernel(root: Path) -> None:
    lose(cards(root, "card_{}")[3][0])


@unsound(WARN)
def numbered_directory_lacks_a_kernel(root: Path) -> None:
    lose(cards(root, "{}", 3)[1][0])


@unsound(WARN)
def process_lacks_a_kernel(root: Path) -> None:
    lose(cards(root, "job/npu-{}/cache", 4)[1][0])


@unsound(WARN)
def device_is_cold(root: Path) -> None:
    shutil.rmtree(cards(root, "device_{}")[1][0].metadata.parent)


@unsound(WARN)
def rank_is_cold(root: Path) -> None:
    for path in ranks(root)[1][0].metadata.parent.iterdir():
        path.unlink()


@unsound(WARN)
def rank_is_a_copy_of_another(root: Path) -> None:
    ranks(root, 1)
    shutil.copytree(root / "rank_0", root / "rank_1")


@unsound(WARN)
def device_has_kernels_of_another(root: Path) -> None:
    made = cards(root, "device{}")
    lose(made[1][0])
    rank_kernel(made[1][0].metadata.parent, "square", 0)


@unsound(WARN)
def rank_with_cann_cache_lacks_an_entry(root: Path) -> None:
    for rank in range(3):
        for number in range(4 if rank != 1 else 3):
            cann_entry(root / f"rank_{rank}/kernel_cache/Ascend910B1", number)


@unsound(WARN)
def cards_have_other_bytes_under_one_name(root: Path) -> None:
    stem = f"te_gelu_{'1' * 64}"
    for card in range(2):
        place = root / f"card-{card}/kernel_cache/Ascend910B1"
        cann_entry(place, 1)
        data = elf_object(stem.encode() + bytes([card]))
        put(place / f"{stem}.o", data)
        put(place / f"{stem}.json", metadata_of(stem, data))


@unsound(WARN)
def last_rank_has_no_kernels_at_all(root: Path) -> None:
    ranks(root, 3)
    (root / "rank_3").mkdir(mode=0o750)


@unsound(FAIL)
def kernels_without_a_rank_are_damaged(root: Path) -> None:
    rank_kernel(root / "kernel_meta", "add", 0)
    rank_kernel(root / "kernel_meta", "mul", 0).object.write_bytes(b"")


# ---- what a file says, and where it stands


@unsound(FAIL)
def kernel_name_of_another(root: Path) -> None:
    one, two = kernel_cache(root).entries[1:3]
    name = json.loads(two.metadata.read_text())["kernelName"]
    edit(one.metadata, lambda fields: fields.update(kernelName=name))


@unsound(FAIL)
def digest_given_twice(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    path.write_text(path.read_text().replace("{", '{"sha256": "' + "0" * 64 + '",', 1))


@unsound(FAIL)
def kernel_of_another_chip(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    edit(path, lambda fields: fields.update(SocInfo={"socVersion": "Ascend310P3"}))


@unsound(FAIL)
def kernel_of_another_short_chip(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    edit(path, lambda fields: fields.update(soc_version="Ascend310P"))


@unsound(WARN)
def object_of_another_machine(root: Path) -> None:
    one = kernel_cache(root).entries[1]
    data = bytearray(one.object.read_bytes())
    data[18:20] = (0x3E).to_bytes(2, "little")
    one.replace_object(bytes(data))


@unsound(FAIL)
def header_is_missing(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    edit(path, lambda fields: fields.update(headerFileSuffix=".h"))


@unsound(FAIL)
def index_and_kernel_differ(root: Path) -> None:
    place = installed_kernels(root)
    index = place / "config/ascend910b/binary_info_config.json"
    described = {"blockDim": 8, "kernelName": "another__kernel0", "workspace": []}
    edit(index, lambda fields: fields["Add"]["staticList"][0].update(binDesc=described))


@unsound(FAIL)
def index_has_two_kernels_of_one_key(root: Path) -> None:
    place = installed_kernels(root)
    (path,) = place.rglob("*.o")
    other = entry(path.parent, "Add_float_ND_1_9_0_d0")
    index = place / "config/ascend910b/binary_info_config.json"

    def twice(fields: dict[str, Any]) -> None:
        listed = fields["Add"]["staticList"]
        listed.append({**listed[0], "binPath": str(other.object.relative_to(place))})

    edit(index, twice)


@unsound(WARN)
def package_that_nothing_selects(root: Path) -> None:
    (installed_kernels(root) / "config.ini").write_text("load_priority=\n")


@unsound(FAIL)
def request_of_another_operator(root: Path) -> None:
    run = static_outputs(root)
    path = run.parent / "41_opcompile" / "Add_float_ND_1_8_0.json"
    edit(path, lambda fields: fields.update(op_type="Mul"))


@unsound(WARN)
def info_of_another_card(root: Path) -> None:
    edit(
        ranks(root)[1][0].metadata.with_suffix(".info"),
        lambda fields: fields.update(device_id=5),
    )


@unsound(WARN)
def version_of_metadata_is_not_the_stamp(root: Path) -> None:
    for kernel in kernel_cache(root).entries:
        edit(kernel.metadata, lambda fields: fields.update(adk_version="6.9"))


@unsound(WARN)
def limits_where_nobody_reads_them(root: Path) -> None:
    limits = INI + "max_op_cache_size=2000\nremain_cache_size_ratio=50\n"
    put(kernel_cache(root).soc / "op_cache.ini", limits)


@unsound(WARN)
def names_that_differ_in_case(root: Path) -> None:
    one = kernel_cache(root).entries[1]
    stem = one.metadata.stem.replace("te_add", "te_Add")
    entry(one.metadata.parent, stem)


# ---- where the search stops


@unsound(FAIL)
def damage_eight_levels_down(root: Path) -> None:
    kernel_cache(root / "a/b/c/d/e/f/g/h").entries[1].object.write_bytes(b"")


@unsound(FAIL)
def damage_in_a_doubled_kernel_cache(root: Path) -> None:
    kernel_cache(root / "kernel_cache").entries[1].object.write_bytes(b"")


@unsound(UNDECIDED)
def object_of_eight_terabytes(root: Path) -> None:
    os.truncate(kernel_cache(root).entries[1].object, 8 << 40)


@unsound(UNDECIDED)
def metadata_of_a_terabyte(root: Path) -> None:
    os.truncate(kernel_cache(root).entries[1].metadata, 1 << 40)


@unsound(UNDECIDED)
def graph_of_four_gigabytes(root: Path) -> None:
    os.truncate(graphs(root)[1], 4 << 30)


@unsound(WARN)
def lost_volume(root: Path) -> None:
    (root / "kernel_cache/Ascend910B1").mkdir(parents=True, mode=0o750)
    put(root / "kernel_cache/op_cache.ini", INI)


@unsound(WARN)
def nothing_at_all(root: Path) -> None:
    root.mkdir(exist_ok=True)


@unsound(WARN)
def scratch_of_a_dead_owner(root: Path) -> None:
    scratch(root, dead_pid(), "/app/x/kernel_meta/kernel_meta_13682945517213378854")


# ---- cut or altered, with a digest of what is left; and what no digest is recorded of


def restamp(kernel: SceneKernel, change: Callable[[bytes], bytes]) -> None:
    """Change an object, and record the digest of what it is then."""
    kernel.replace_object(change(kernel.object.read_bytes()))


for _name, _change in {
    "half": lambda data: data[: len(data) // 2],
    "head": lambda data: data[:64],
    "all_but_a_byte": lambda data: data[:-1],
    "text": lambda _: b"what is this",
    "zeros": lambda data: bytes(len(data)),
}.items():

    def _cut_of_cann(root: Path, change: Callable[[bytes], bytes] = _change) -> None:
        restamp(kernel_cache(root).entries[1], change)

    def _cut_of_a_rank(root: Path, change: Callable[[bytes], bytes] = _change) -> None:
        restamp(ranks(root)[1][0], change)

    def _graph(root: Path, change: Callable[[bytes], bytes] = _change) -> None:
        path = graphs(root)[1]
        path.write_bytes(change(path.read_bytes()))

    def _package(root: Path, change: Callable[[bytes], bytes] = _change) -> None:
        path = static_outputs(root)
        path.write_bytes(change(path.read_bytes()))

    def _ge(root: Path, change: Callable[[bytes], bytes] = _change) -> None:
        path = ge_graphs(root)
        path.write_bytes(change(path.read_bytes()))

    UNSOUND.append(Case(f"restamped_object_is_{_name}", _cut_of_cann, least=FAIL))
    UNSOUND.append(Case(f"restamped_object_of_a_rank_is_{_name}", _cut_of_a_rank, least=FAIL))
    UNSOUND.append(Case(f"graph_is_{_name}", _graph, least=UNDECIDED))
    UNSOUND.append(Case(f"package_is_{_name}", _package, least=UNDECIDED))
    UNSOUND.append(Case(f"graph_of_ge_is_{_name}", _ge, least=UNDECIDED))


def offline_model(content: bytes = b"model") -> bytes:
    """A converted model as GE writes it: a head of 256 bytes with the length of the rest."""
    head = b"IMOD" + (256).to_bytes(4, "little") + bytes(68) + len(content).to_bytes(4, "little")
    return head.ljust(256, b"\0") + content


def ge_graphs(root: Path, key: str = "bert_b8") -> Path:
    """Write a graph cache of GE, and return its graph."""
    name = f"{key}_20261120101112"
    listed = [{"graph_key": key, "cache_file_name": f"{name}.om", "var_desc_file_name": ""}]
    put(root / "graphs" / f"{key}.idx", {"cache_file_list": listed})
    put(root / "graphs" / f"{key}.lock", "")
    return put(root / "graphs" / f"{name}.om", offline_model())


@unsound(FAIL)
def graph_of_ge_is_missing(root: Path) -> None:
    ge_graphs(root).unlink()


@unsound(FAIL)
def graph_of_another_key(root: Path) -> None:
    ge_graphs(root)
    (root / "graphs/bert_b8.idx").rename(root / "graphs/bert_b16.idx")


@unsound(UNDECIDED)
def half_a_model_beside_a_cache(root: Path) -> None:
    kernel_cache(root)
    put(root / "models/bert.om", offline_model()[:200])


@unsound(UNDECIDED)
def half_a_library_of_an_operator_package(root: Path) -> None:
    operator_package(root)
    put(root / "vendors/customize/op_api/lib/libcust_opapi.so", elf_object(b"host")[:-8])


@unsound(UNDECIDED)
def library_that_is_a_link_to_elsewhere(root: Path) -> None:
    kernel_cache(root)
    (root / "libhook.so").symlink_to("/usr/bin/env")


@unsound(FAIL)
def operator_package_whose_index_names_more(root: Path) -> None:
    operator_package(root)
    (path,) = root.rglob("kernel/config/ascend910b/add_custom.json")
    edit(path, lambda fields: fields["binList"].append({"binPath": "ascend910b/gone.o"}))


@unsound(FAIL)
def chip_copied_from_another(root: Path) -> None:
    soc = kernel_cache(root).soc
    shutil.copytree(soc, soc.with_name("Ascend310B4"))


@unsound(FAIL)
def kernels_made_for_another_chip(root: Path) -> None:
    cann_entry(root / "kernel_cache/Ascend310P3", 1, "kernels, Ascend910B1")


@unsound(FAIL)
def chip_in_a_field_of_any_name(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    edit(path, lambda fields: fields.update(build={"target": "Ascend310P3"}))


@unsound(FAIL)
def entry_that_is_a_copy_of_another(root: Path) -> None:
    one, two = kernel_cache(root).entries[1:3]
    name = json.loads(two.metadata.read_text())["kernelName"]
    one.replace_object(two.object.read_bytes())
    edit(one.metadata, lambda fields: fields.update(kernelName=name))


@unsound(WARN)
def card_that_is_a_link_to_another(root: Path) -> None:
    ranks(root, 3)
    (root / "rank_3").symlink_to("rank_2")


@unsound(WARN)
def card_with_graphs_of_other_scripts(root: Path) -> None:
    path = graphs(root, 3)[4].with_name("MS_WORKERcompile_dependency.hash")
    path.write_text(digest(b"another train.py"))


@unsound(WARN)
def card_with_kernels_for_another_chip(root: Path) -> None:
    for rank, kernels in ranks(root, 3).items():
        chip = "Ascend310" if rank == 1 else "Ascend910A"
        for kernel in kernels:
            info = kernel.metadata.with_suffix(".info")
            edit(info, lambda fields, chip=chip: fields.update(SocInfo={"socVersion": chip}))


@unsound(WARN)
def list_of_packages_that_are_not_installed(root: Path) -> None:
    operator_package(root)
    put(root / "vendors/config.ini", "load_priority=customize,gone\n")


@unsound(WARN)
def lock_that_is_a_directory(root: Path) -> None:
    kernel_cache(root).entries[1].metadata.with_suffix(".lock").mkdir()


@unsound(WARN)
def half_a_download(root: Path) -> None:
    put(kernel_cache(root).soc / f"te_mul_{'1' * 64}.o.filepart", elf_object(b"half")[:80])


# ---- objects beside JSON files that describe none, and other things that nobody judged


for _stem, _described in {
    "mul_custom": {},
    "add_compute": {},
    f"te_add_{'7' * 64}": {"jsonList": []},
    f"te_add_{'8' * 64}": {"jsonList": 5},
    f"te_add_{'9' * 64}_pre": {"pattern": "Opaque"},
}.items():

    def _undescribed(root: Path, stem: str = _stem, described: dict[str, Any] = _described) -> None:
        soc = kernel_cache(root).soc
        put(soc / f"{stem}.json", described)
        put(soc / f"{stem}.o", b"garbage")

    UNSOUND.append(Case(f"object_beside_{_stem[:8]}{_stem[-5:]}", _undescribed, least=UNDECIDED))


@unsound(FAIL)
def object_called_like_debug_output_is_cut(root: Path) -> None:
    os.truncate(entry(kernel_cache(root).soc, "add_compute").object, 100)


@unsound(FAIL)
def pre_build_result_is_cut(root: Path) -> None:
    ranks(root)
    put(root / "rank_0/kernel_meta/tbe_prebuild_res/square_1234567_0.json", '{"pattern": ')


@unsound(WARN)
def cache_copied_one_level_too_deep(root: Path) -> None:
    soc = kernel_cache(root).soc
    shutil.copytree(soc, soc / soc.name)


@unsound(WARN)
def rank_whose_kernels_lie_one_level_too_deep(root: Path) -> None:
    place = ranks(root, 2)[1][0].metadata.parent
    shutil.move(shutil.copytree(place, root / "aside"), place / "kernel_meta")
    for path in place.glob("*.*"):
        path.unlink()


@unsound(WARN)
def chip_directory_that_no_chip_is_called(root: Path) -> None:
    soc = kernel_cache(root).soc
    soc.rename(soc.with_name("Ascend910B1 copy"))


@unsound(FAIL)
def kernels_of_310_in_the_directory_of_310p3(root: Path) -> None:
    cann_entry(root / "kernel_cache/Ascend310P3", 1, "kernels, Ascend310")


@unsound(FAIL)
def kernels_of_the_first_910_in_the_directory_of_910b1(root: Path) -> None:
    cann_entry(root / "kernel_cache/Ascend910B1", 1, "kernels, Ascend910")


@unsound(WARN)
def rank_with_kernels_for_two_chips(root: Path) -> None:
    for chip, kernel in zip(("Ascend310P3", "Ascend910B1"), ranks(root, 1)[0], strict=False):
        info = kernel.metadata.with_suffix(".info")
        edit(info, lambda fields, chip=chip: fields.update(SocInfo={"socVersion": chip}))


@unsound(FAIL)
def info_records_nothing(root: Path) -> None:
    put(ranks(root)[1][0].metadata.with_suffix(".info"), {})


@unsound(FAIL)
def code_without_symbols(root: Path) -> None:
    one = kernel_cache(root).entries[0]
    data = one.object.read_bytes().replace(one.object.stem.encode(), b"." * len(one.object.stem))
    one.replace_object(data[:-56] + (6).to_bytes(8, "little") + data[-48:])  # it is executable


@unsound(FAIL)
def copy_of_installed_kernels_without_any_package(root: Path) -> None:
    place = installed_kernels(root)
    shutil.rmtree(place / "static_kernel_261121150000")
    (root / "static_kernel").rename(root / "opp.bak")


@unsound(UNDECIDED)
def index_of_installed_kernels_alone(root: Path) -> None:
    kernel_cache(root)
    put(root / "saved/binary_info_config.json", {})


@sound()
def copy_of_installed_kernels(root: Path) -> None:
    installed_kernels(root).rename(root / "packages.bak")


@unsound(FAIL)
def installed_metadata_names_another_object(root: Path) -> None:
    (path,) = installed_kernels(root).rglob("*_d0.json")
    edit(path, lambda fields: fields.update(binFileName="other_kernel"))


@unsound(FAIL)
def index_of_installed_kernels_names_none(root: Path) -> None:
    index = installed_kernels(root) / "config/ascend910b/binary_info_config.json"
    edit(index, lambda fields: fields["Add"].update(staticList=[]))


def documented_outputs(root: Path) -> Path:
    """Write the outputs of a run as the document shows them, and return its package."""
    run = root / "aclnn_static_shape_kernel_outputs/20260101101112123456_41_outputs"
    for place in ("41", "41_debug"):
        put(run / place / "Add_float_ND_1_8_0.json", {"op_type": "Add", "inputs": []})
    return package(run / "static_kernel_260101101112123456.run")


@unsound(WARN)
def documented_outputs_without_a_package(root: Path) -> None:
    documented_outputs(root).unlink()


@unsound(FAIL)
def record_of_nothing(root: Path) -> None:
    put(documented_outputs(root).parent / "41/Add_float_ND_1_8_0.json", {})


def summed(root: Path, change: Callable[[bytes], bytes] = bytes, behind: bytes = b"") -> None:
    """Write a package that has a checksum only (``makeself --nomd5``)."""
    payload = b"\x1f\x8bhello world"
    head = f'#!/bin/sh\nCRCsum="396763238"\nskip="5"\nfilesizes="{len(payload)}"\nexit 0\n'
    path = documented_outputs(root)
    path.write_bytes(head.encode() + change(payload) + behind)


@unsound(FAIL)
def package_with_another_checksum(root: Path) -> None:
    summed(root, lambda data: data.replace(b"w", b"W"))


@sound()
def package_with_a_signature_behind_it(root: Path) -> None:
    summed(root, behind=b"signed\n")  # the head of a package reads what it says and no more


@unsound(FAIL)
def index_of_ge_names_nothing(root: Path) -> None:
    edit(ge_graphs(root).parent / "bert_b8.idx", lambda fields: fields.update(cache_file_list=[]))


@unsound(UNDECIDED)
def rank_on_a_volume_that_is_not_mounted(root: Path) -> None:
    ranks(root, 2)
    (root / "rank_2").symlink_to("/nowhere/rank_2")


@unsound(UNDECIDED)
def rank_that_is_a_file(root: Path) -> None:
    ranks(root, 2)
    put(root / "rank_2", b"")


@unsound(UNDECIDED)
def limits_are_a_link(root: Path) -> None:
    kernel_cache(root)
    (root / "op_cache.ini").symlink_to("/etc/hostname")


@unsound(WARN)
def limits_that_everybody_may_write(root: Path) -> None:
    kernel_cache(root)
    limits = INI + "max_op_cache_size=500\nremain_cache_size_ratio=50\n"
    put(root / "op_cache.ini", limits).chmod(0o666)


@unsound(WARN)
def everybody_may_replace_the_cache(root: Path) -> None:
    kernel_cache(root / "cache")
    (root / "cache").chmod(0o777)


@unsound(FAIL)
def digest_of_an_object_of_akg_is_a_number(root: Path) -> None:
    edit(akg_kernel(root).metadata, lambda fields: fields.update(objSha256=7))


@unsound(WARN)
def installed_kernel_that_no_index_names(root: Path) -> None:
    (path,) = installed_kernels(root).rglob("*.o")
    entry(path.parent, "Add_float_ND_1_9_0_d0")


@unsound(FAIL)
def installed_metadata_names_no_kernel(root: Path) -> None:
    (path,) = installed_kernels(root).rglob("*_d0.json")
    edit(path, lambda fields: fields.pop("kernelName"))


@unsound(FAIL)
def requests_of_two_kernels_are_swapped(root: Path) -> None:
    one, two = requests(root)[:2]
    text = one.read_text()
    one.write_text(two.read_text())
    two.write_text(text)


@unsound(WARN)
def entry_that_a_layer_of_an_image_deletes(root: Path) -> None:
    kernel = kernel_cache(root).entries[1]
    for path in (kernel.metadata, kernel.object):
        put(path.with_name(f".wh.{path.name}"), b"")


@unsound(WARN)
def chip_that_a_layer_of_an_image_deletes(root: Path) -> None:
    put(kernel_cache(root).soc.with_name(".wh.Ascend910B1"), b"")


@unsound(WARN)
def directory_whose_lower_layers_are_deleted(root: Path) -> None:
    put(kernel_cache(root).soc / ".wh..wh..opq", b"")


@sound()
def layer_that_deletes_what_is_not_here(root: Path) -> None:
    soc = kernel_cache(root).soc
    put(soc / ".wh.te_add_0123456789abcdef0123456789abcdef.json", b"")
    put(root / "etc/.wh.hosts", b"")
    put(root / "etc/hosts", "127.0.0.1")


def packed_run(root: Path, *packed: str, zipped: bool = False) -> None:
    """Write a run that selected Add and Exp of 8 elements, with a package that has some keys."""
    run = static_outputs(root).parent
    (first,) = run.glob("*.run")
    shape = {"shape": [1, 8], "origin_shape": [8], "dtype": "float", "format": "ND"}
    for name in ("Add", "Exp"):
        said = {"op_type": name, "inputs": [shape], "outputs": [shape]}
        put(run / f"41_opcompile/{name}_float_ND_1_8_0.json", said)
    listed = [
        {"simplifiedKey": key, "binPath": f"p/ascend910b/{key.split('/')[0]}/{at}_d0.o"}
        for at, key in enumerate(packed)
    ]
    index = {
        key.split("/")[0]: {"staticList": [each]} for key, each in zip(packed, listed, strict=True)
    }
    name, content = "ai_core/config/binary_info_config.json", json.dumps(index).encode()
    file = io.BytesIO()
    if zipped:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, content)
        head = f"#!/bin/sh\nif sha256={digest(file.getvalue())}; then\n"
        put(first, head.encode() + file.getvalue())
        return
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    package(first, file.getvalue())


ADD_OF_8, EXP_OF_8 = (f"{name}/d=0,p=0/0,2,(1,8)/0,2,(1,8)/" for name in ("Add", "Exp"))


@sound()
def package_of_the_operators_beside_it(root: Path) -> None:
    packed_run(root / "tar", ADD_OF_8, EXP_OF_8.replace("1,8", "8"))
    packed_run(root / "zip", ADD_OF_8, EXP_OF_8, "Mul/d=0,p=0/0,2,(1,9)/0,2,(1,9)/", zipped=True)


@sound()
def package_of_some_of_the_operators_beside_it(root: Path) -> None:
    packed_run(root, ADD_OF_8)


@sound()
def package_whose_keys_are_not_known(root: Path) -> None:
    packed_run(root, "Add/of-tomorrow", "Exp/of-tomorrow")


@unsound(WARN)
def package_of_another_run(root: Path) -> None:
    packed_run(root, *(each.replace("8", "10") for each in (ADD_OF_8, EXP_OF_8)))


@unsound(WARN)
def zipped_package_of_other_operators(root: Path) -> None:
    packed_run(root, ADD_OF_8.replace("Add", "Mul"), zipped=True)


@unsound(FAIL)
def request_of_a_rank_is_of_another_operator(root: Path) -> None:
    for kernels in ranks(root, 2).values():
        info = kernels[0].metadata.with_suffix(".info")
        edit(info, lambda fields: fields.update(op_name="Add"))


@unsound(WARN)
def several_cards_in_the_directory_of_one_rank(root: Path) -> None:
    for card in range(4):
        for name in ("square", "add"):
            kernel = rank_kernel(root / "rank_0/kernel_meta", name, card)
            said = {"scenario": {"cards": "several", "phase": "training"}}
            edit(
                kernel.metadata.with_suffix(".info"), lambda fields, said=said: fields.update(said)
            )


@sound()
def one_card_after_another_in_the_directory_of_a_rank(root: Path) -> None:
    for card in (0, 3):
        rank_kernel(root / "rank_0/kernel_meta", "square", card)


@unsound(WARN)
def kernels_of_two_versions_of_operators(root: Path) -> None:
    for kernels in ranks(root, 2).values():
        for kernel, version in zip(kernels, ("built-in", "7.6.0", "7.6.0"), strict=True):
            said = {"target": {"compiler": "LLVM"}, "versions": f"ops_version={version}\n"}
            edit(
                kernel.metadata.with_suffix(".info"), lambda fields, said=said: fields.update(said)
            )


@sound()
def requests_that_name_operators_in_their_own_way(root: Path) -> None:
    for kernels in ranks(root, 2).values():
        for kernel, name in zip(
            kernels, ("Default/Square-op1", "BiasAdd", "MatMulV2"), strict=True
        ):
            info = kernel.metadata.with_suffix(".info")
            edit(info, lambda fields, name=name: fields.update(op_name=name))


def requests(root: Path) -> list[Path]:
    """Write the kernels of a rank whose .info name them, and return those."""
    infos = [each.metadata.with_suffix(".info") for each in ranks(root, 1)[0]]
    for info in infos:
        edit(info, lambda fields, info=info: fields.update(op_list=[{"kernel_name": info.stem}]))
    return infos


@unsound(WARN)
def chip_in_small_letters(root: Path) -> None:
    soc = kernel_cache(root).soc
    soc.rename(soc.with_name("ascend910b1"))


@unsound(WARN)
def rank_in_a_capital_letter(root: Path) -> None:
    ranks(root, 2)
    (root / "rank_1").rename(root / "Rank_1")


@unsound(FAIL)
def header_is_empty(root: Path) -> None:
    path = kernel_cache(root).entries[1].metadata
    edit(path, lambda fields: fields.update(headerFileSuffix=".h"))
    put(path.with_suffix(".h"), b"")


@unsound(UNDECIDED)
def weight_of_a_graph_of_ge_is_empty(root: Path) -> None:
    put(ge_graphs(root).parent / "weight/weight_5f3a", b"")


@unsound(WARN)
def limits_in_capital_letters(root: Path) -> None:
    ini = kernel_cache(root).ini
    ini.rename(ini.with_name("OP_CACHE.INI"))


@unsound(WARN)
def limits_in_a_text_file(root: Path) -> None:
    kernel_cache(root)
    put(root / "op_cache.ini.txt", INI + "max_op_cache_size=2000\nremain_cache_size_ratio=50\n")


# ---- sound, and unusual


@sound()
def installed_kernel_behind_a_later_one(root: Path) -> None:
    place = installed_kernels(root)
    (path,) = place.rglob("*.o")
    entry(place / "static_kernel_1/ascend910b/Add", path.stem)
    (place / "config.ini").write_text(f"load_priority=static_kernel_1,{path.parents[2].name}\n")


@sound()
def requests_that_name_their_kernels(root: Path) -> None:
    one, two = requests(root)[:2]
    edit(one, lambda fields: fields["op_list"].append({"kernel_name": two.stem}))


@sound()
def weights_of_a_graph_of_ge(root: Path) -> None:
    put(ge_graphs(root).parent / "weight/weight_5f3a", b"weights")


@sound()
def limits_kept_beside_those_that_count(root: Path) -> None:
    put(kernel_cache(root).ini.with_name("op_cache.ini.txt"), INI)


@sound()
def pre_builds_of_mindspore(root: Path) -> None:
    ranks(root)
    put(root / "rank_0/kernel_meta/tbe_prebuild_res/square_1234567_0.json", {"pattern": "x"})
    put(root / "rank_0/kernel_meta/not_support_fusion_op.cache", "Square\n")


@sound()
def libraries_of_a_rank(root: Path) -> None:
    for kernels in ranks(root, 2).values():
        for kernel in kernels:
            stem = kernel.metadata.stem
            kernel.object.rename(kernel.object.with_name(f"lib{stem}.so"))
            name = {"binFileName": f"lib{stem}", "binFileSuffix": ".so"}
            edit(kernel.metadata, lambda fields, name=name: fields.update(name))


@sound()
def custom_kernel_called_pre(root: Path) -> None:
    entry(kernel_cache(root).soc, "rms_pre")


@sound(WARN)
def chip_is_a_link_to_what_is_beside_it(root: Path) -> None:
    soc = kernel_cache(root).soc
    soc.rename(soc.with_name("store"))
    soc.symlink_to("store")


@sound()
def graph_of_ge_by_its_whole_path(root: Path) -> None:
    graph = ge_graphs(root)
    listed = [{"graph_key": "bert_b8", "cache_file_name": str(graph.absolute())}]
    edit(graph.parent / "bert_b8.idx", lambda fields: fields.update(cache_file_list=listed))


@sound()
def outputs_as_the_document_shows_them(root: Path) -> None:
    documented_outputs(root)


@sound()
def package_with_a_checksum_only(root: Path) -> None:
    summed(root)


@sound()
def first_910_under_both_of_its_names(root: Path) -> None:
    cann_entry(root / "kernel_cache/Ascend910A", 1, "kernels, Ascend910")


@sound()
def operator_packages_in_their_order(root: Path) -> None:
    operator_package(root)
    put(root / "vendors/config.ini", "load_priority=customize\n")


@sound()
def model_with_a_long_length(root: Path) -> None:
    kernel_cache(root)
    path = put(root / "llm.om", offline_model(bytes(20)))
    head = path.read_bytes()[:256]
    path.write_bytes(head[:184] + (20).to_bytes(8, "little") + head[192:] + bytes(20))


@sound()
def graph_cache_of_ge(root: Path) -> None:
    ge_graphs(root)
    put(root / "graphs/cache.conf", {"cache_manual_check": False})


@sound()
def models_beside_a_cache(root: Path) -> None:
    kernel_cache(root)
    put(root / "models/bert.om", offline_model())
    put(root / "models/bert.onnx", b"\x08\x08")


@sound()
def two_variants_of_a_chip(root: Path) -> None:
    for chip in ("Ascend910B1", "Ascend910B"):
        cann_entry(root / "kernel_cache" / chip, 1)


@sound(WARN)
def scratch_of_a_newer_release(root: Path) -> None:
    kernel_cache(root / "cache")
    number = "13682945517213378854"
    place = root / "kernel_meta" / f"kernel_meta_{number}" / "kernel_meta"
    put(place / f"te_add_{digest(b'k')}.o", elf_object(b"half")[:90])
    owner = [{"kernel_meta_hash": f"kernel_meta_{number}", "pid": dead_pid(), "time": "1763"}]
    put(root / "kernel_meta/buildPidInfo.json", json.dumps(owner))


@sound()
def cann_cache(root: Path) -> None:
    kernel_cache(root)


@sound()
def doubled_kernel_cache(root: Path) -> None:
    kernel_cache(root / "kernel_cache")


@sound()
def cache_eight_levels_down(root: Path) -> None:
    kernel_cache(root / "a/b/c/d/e/f/g/h")


@sound()
def installed_by_cann_8_1(root: Path) -> None:
    place = installed_kernels(root)
    (path,) = place.rglob("*.o")
    stem = path.stem
    put(place / f"config/ascend910b/shape_info/{stem}.json", {"op_type": "Add", "inputs": []})
    put(place / "uninstall.sh", "#!/bin/sh\nexit 0\n")
    package = path.parents[2]
    put(package / "uninstall.sh", "#!/bin/sh\nexit 0\n")
    put(package / "scripts/install.py", "import sys\n")
    put(package / "version.info", "Version=7.7\n")
    put(package / f"config/ascend910b/shape_info/{stem}.json", {"op_type": "Add"})
    put(
        package / "config/ascend910b/binary_info_config.json",
        ((place / "config/ascend910b/binary_info_config.json").read_text()),
    )


@sound()
def four_ranks(root: Path) -> None:
    ranks(root, 4)


@sound()
def four_devices(root: Path) -> None:
    cards(root, "device{}")


@sound()
def cards_of_two_hosts(root: Path) -> None:
    for rank in range(16):
        for operator in ("square", "add"):
            rank_kernel(root / f"rank_{rank}/kernel_meta", operator, rank % 8)


@sound()
def second_host_alone(root: Path) -> None:
    for rank in range(8, 16):
        rank_kernel(root / f"rank_{rank}/kernel_meta", "add", rank % 8)


@sound()
def kernels_without_a_rank(root: Path) -> None:
    rank_kernel(root / "kernel_meta", "add", 0)
    put(root / "kernel_meta/file.lock", "")
    put(root / "kernel_meta/Initialize.info", {"job_type": "Initialize"})
    (root / "kernel_meta/tbe_prebuild_res").mkdir(mode=0o750)


@sound()
def all_of_mindspore(root: Path) -> None:
    ranks(root, 2)
    graphs(root, 2)
    akg_kernel(root)
    put(root / "rank_0/somas_meta/somas_1.json", {"somas": 1})
    put(root / "rank_0/graph_cache/group_0.ckpt", b"checkpoint")


@sound()
def static_kernel_outputs(root: Path) -> None:
    run = static_outputs(root)
    put(run.parents[1] / "static_kernel_cache/CANN-9.0.0_Ascend910B1.json", {"0" * 64: str(run)})
    put(run.parents[1] / "static_kernel_cache/CANN-9.0.0_Ascend910B1.lock", "")
    put(run.parent / "static_kernel_Add_ab12_0_d0_compile_succ.log", "done\n")


@sound()
def a_package_has_a_second_name(root: Path) -> None:
    run = static_outputs(root)
    run.with_name("static_kernel_latest.run").symlink_to(run.name)
    later = package(run.parents[1] / "ts20261121150000234567_pid42_outputs/kept.bin")
    later.with_suffix(".run").symlink_to(later.name)


@unsound(FAIL)
def a_cut_package_has_its_name_from_a_link(root: Path) -> None:
    run = static_outputs(root)
    kept = run.rename(run.with_name("kept.bin"))
    kept.write_bytes(kept.read_bytes()[:-3])
    run.symlink_to(kept.name)


@sound()
def a_package_is_used_again(root: Path) -> None:
    run = static_outputs(root)
    put(run.parent / "41_opcompile_selected/Add_float_ND_1_8_0.json", {"op_type": "Add"})
    again = run.parent.with_name("ts20261121150000234567_pid42_outputs")
    shutil.copytree(run.parent, again, ignore=shutil.ignore_patterns("*.run"))
    recorded = {"package": str(run), "sha256": "0" * 64}
    put(run.parents[1] / "static_kernel_cache/packages.json", {"0" * 64: recorded})


@sound()
def caches_of_two_users(root: Path) -> None:
    for user in ("li", "wang"):
        kernel_cache(root / user)
    if os.geteuid() == 0:
        for path in (root / "wang", *(root / "wang").rglob("*")):
            os.chown(path, 4242, -1)


@sound()
def custom_operators_in_the_cache(root: Path) -> None:
    custom(kernel_cache(root).soc)


@sound()
def operator_package(root: Path) -> None:
    place = root / "vendors/customize/op_impl/ai_core/tbe"
    kernel = custom(place / "kernel/ascend910b/add_custom")
    put(
        place / "kernel/config/ascend910b/add_custom.json",
        {
            "binList": [
                {"binInfo": {"jsonFilePath": f"ascend910b/add_custom/{kernel.metadata.name}"}}
            ]
        },
    )
    put(root / "vendors/customize/op_proto/lib/libcust_proto.so", elf_object(b"host"))
    put(place / "config/ascend910b/aic-ascend910b-ops-info.json", {"AddCustom": {}})
    put(place / "customize_impl/dynamic/add_custom.py", "def add_custom(): pass\n")


@sound()
def old_metadata(root: Path) -> None:
    entry(kernel_cache(root).soc, f"te_Mul_{digest(b'1')}", coreType=None, magic=None)


@sound()
def foreign_files(root: Path) -> None:
    cache = kernel_cache(root)
    stem = cache.entries[1].metadata.stem
    for name in ("README", "NOTES.md", f"{stem}.json~", f".{stem}.json.swp", ".gitignore"):
        put(cache.soc / name, "kept by hand\n")
    put(root / "notes/te_add.json", "not JSON")
    put(root / "train.py", "import mindspore\n")


@sound()
def digest_in_capitals(root: Path) -> None:
    edit(
        kernel_cache(root).entries[1].metadata,
        lambda fields: fields.update(sha256=fields["sha256"].upper()),
    )


@sound()
def autofuse_results(root: Path) -> None:
    cache, stem = kernel_cache(root), f"te_ascbackend_{'a' * 64}"
    put(cache.soc / f"lib{stem}.so", elf_object(b"host"))
    put(cache.soc / f"{stem}.json", {"binFileName": f"lib{stem}", "binFileSuffix": ".so"})


@sound()
def merged_cores(root: Path) -> None:
    soc = kernel_cache(root).soc
    stem = f"te_matmul_{digest(b'mix')}"
    entry(
        soc,
        stem,
        coreType="MIX",
        kernelName=stem,
        kernelList=[{"kernelName": f"{stem}_mix_aic"}, {"kernelName": f"{stem}_mix_aiv"}],
    )


@sound()
def a_link_to_what_is_read_anyway(root: Path) -> None:
    kernel_cache(root / "2026-11")
    (root / "latest").symlink_to("2026-11")


@sound()
def read_only_files(root: Path) -> None:
    for kernels in ranks(root, 2).values():
        for kernel in kernels:
            kernel.metadata.with_suffix(".info").chmod(0o400)


@sound()
def caches_of_two_versions(root: Path) -> None:
    kernel_cache(root / "cann-8.1/cache", 4)
    kernel_cache(root / "cann-8.2/cache", 2)


@sound()
def caches_of_two_jobs(root: Path) -> None:
    ranks(root / "job1", 2)
    for rank in range(2):
        rank_kernel(root / f"job2/rank_{rank}/kernel_meta", "softmax", rank)


@sound()
def debug_outputs(root: Path) -> None:
    meta = root / "kernel_meta"
    kernel = entry(meta, f"te_add_{digest(b'd')}")
    put(kernel.metadata.with_suffix(".cce"), "// code\n")
    put(meta / f"{kernel.metadata.stem}_loc.json", {"loc": []})
    put(meta / f"{kernel.metadata.stem}_compute.json", {"compute": []})


@sound()
def scratch_of_a_living_owner(root: Path) -> None:
    scratch(root, os.getpid())


@sound()
def tuning_bank_beside_a_cache(root: Path) -> None:
    kernel_cache(root / "cache")
    put(root / "bank/Ascend910B1/add.json", {"Add": {"tile": 4}})


@sound()
def cache_renamed(root: Path) -> None:
    kernel_cache(root / "x")
    (root / "x/kernel_cache").rename(root / "evidence of July")
