"""Caches as users might leave them. What a scene does not mention is sound."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.qualification.catalogue import scene
from pytest_ascendcache.qualification.scenes.caches import (
    INI,
    KernelCache,
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
    ranks,
    stages,
    static_outputs,
)

WHOLE, DIGESTS, OBJECTS = "audit/whole-entries", "audit/digests", "audit/whole-objects"
METADATA, INSIDE, PLAIN = "audit/metadata", "audit/names-inside", "audit/plain-files"
OWNER, MODES, SETTINGS = "audit/one-owner", "audit/private-modes", "audit/ini"
LEFTOVERS, SIZE, AGREE = "audit/leftovers", "audit/size", "audit/ranks-agree"
DUPLICATES, TOOLCHAIN = "audit/rank-duplicates", "audit/one-toolchain"
AGREEMENT, EMPTY = "audit/agreement", "audit/not-empty"
INI_OF_7 = INI + "ascend_max_op_cache_size=100\nascend_remain_cache_size_ratio=50\n"
INI_OF_8 = INI_OF_7.replace("ascend_", "")

Job = dict[int, list[SceneKernel]]
"""The kernels of each rank."""
Made = TypeVar("Made")


def audited(*directories: Path) -> list[str]:
    return [*(f"--ascend-audit={each}" for each in directories), f"{PACKAGE}.audit.test_audit"]


def changed(
    make: Callable[[Path], Made], *breaks: str, **claims: Any
) -> Callable[[Callable[[Made], object]], None]:
    """Register a scene: ``make`` makes a sound cache, and a function changes something."""

    def decorate(change: Callable[[Made], object]) -> None:
        def build(directory: Path) -> list[str]:
            change(make(directory))
            return audited(directory)

        scene(*breaks, name=change.__name__.replace("_", "-"), **claims)(build)

    return decorate


@scene(what="every layout, and nothing is wrong")
def sound_caches(directory: Path) -> list[str]:
    places = [directory / name for name in ("cann", "job", "akg", "graphs", "static")]
    kernel_cache(places[0])
    ranks(places[1])
    akg_kernel(places[2])
    graphs(places[3])
    static_outputs(places[4])
    installed_kernels(places[4])
    return audited(*places)


@changed(kernel_cache, WHOLE, what="an object without metadata")
def orphan_object(cache: KernelCache) -> None:
    cache.entries[1].metadata.unlink()


@changed(kernel_cache, WHOLE, what="metadata without an object")
def orphan_metadata(cache: KernelCache) -> None:
    cache.entries[1].object.unlink()


@changed(ranks, WHOLE, what="a rank's kernel without .info")
def rank_kernel_without_info(job: Job) -> None:
    job[1][0].metadata.with_suffix(".info").unlink()


@changed(ranks, WHOLE, what="a rank's kernel whose compile was interrupted: .info alone")
def rank_kernel_interrupted(job: Job) -> None:
    job[1][0].metadata.unlink()
    job[1][0].object.unlink()


@scene(WHOLE, what="an AKG kernel that was never finished")
def akg_kernel_unfinished(directory: Path) -> list[str]:
    akg_kernel(directory, 1)
    akg_kernel(directory, 2).metadata.unlink()
    return audited(directory)


@changed(graphs, WHOLE, what="a graph without the digest of its scripts")
def graph_without_digest(made: list[Path]) -> None:
    made[0].with_name("MS_WORKERcompile_dependency.hash").unlink()


@changed(installed_kernels, WHOLE, what="an index that names a kernel that is not installed")
def index_names_missing_kernel(place: Path) -> None:
    _list_kernel(place, "static_kernel_1/ascend910b/Add/gone.o")


@changed(installed_kernels, WHOLE, what="the common index is gone, a package keeps its own")
def common_index_gone(place: Path) -> None:
    config = "config/ascend910b/binary_info_config.json"
    put(place / "static_kernel_261121150000" / config, (place / config).read_bytes())
    (place / config).unlink()


@changed(installed_kernels, AGREEMENT, what="a common index that exchanges shapes")
def index_exchanges_shapes(place: Path) -> None:
    config = "config/ascend910b/binary_info_config.json"
    put(place / "static_kernel_261121150000" / config, (place / config).read_bytes())
    other = {"simplifiedKey": "Add/d=0,p=0/0,2,(8,1)"}
    edit(place / config, lambda fields: fields["Add"]["staticList"][0].update(other))


@changed(installed_kernels, AGREEMENT, what="installed kernels that were made for another chip")
def installed_for_another_chip(place: Path) -> None:
    (path,) = place.glob("static_kernel_*/ascend910b/Add/*.o")
    path.write_bytes(elf_object(b"static", "a compiler for Ascend310P3"))
    edit(path.with_suffix(".json"), lambda fields: fields.update(sha256=digest(path.read_bytes())))


def _list_kernel(place: Path, path: str) -> None:
    index = place / "config/ascend910b/binary_info_config.json"
    edit(index, lambda fields: fields["Add"]["staticList"].append({"binPath": path}))


@changed(kernel_cache, DIGESTS, what="an object with a flipped byte")
def object_flipped(cache: KernelCache) -> None:
    data = bytearray(cache.entries[1].object.read_bytes())
    data[70] ^= 1
    cache.entries[1].object.write_bytes(data)


@changed(kernel_cache, DIGESTS, what="the object of another entry")
def object_of_another(cache: KernelCache) -> None:
    cache.entries[1].object.write_bytes(cache.entries[2].object.read_bytes())


@changed(akg_kernel, DIGESTS, what="an AKG library that was built again")
def akg_library_changed(kernel: SceneKernel) -> None:
    kernel.object.write_bytes(elf_object(b"built again"))


@changed(static_outputs, DIGESTS, what="a package with another payload than its head says")
def package_changed(run: Path) -> None:
    run.write_bytes(run.read_bytes()[:-1] + b"!")


@changed(kernel_cache, OBJECTS, what="an object cut short")
def object_cut(cache: KernelCache) -> None:
    os.truncate(cache.entries[1].object, 100)


@changed(ranks, OBJECTS, what="an empty object of a rank")
def object_empty(job: Job) -> None:
    job[1][0].object.write_bytes(b"")


@changed(graphs, OBJECTS, what="an empty graph")
def graph_empty(made: list[Path]) -> None:
    made[0].write_bytes(b"")


@changed(static_outputs, OBJECTS, what="a package cut short")
def package_cut(run: Path) -> None:
    package(run, b"payload" * 100)
    os.truncate(run, run.stat().st_size - 300)


@changed(kernel_cache, METADATA, what="a tiling key that a tool has made a float")
def tiling_key_of_a_float(cache: KernelCache) -> None:
    tiled(cache.entries[1], 1e19)


def tiled(kernel: SceneKernel, key: float) -> None:
    """Give a kernel a tiling key."""
    name = f"{kernel.object.stem}__kernel0"
    edit(
        kernel.metadata,
        lambda fields: fields.update(kernelList=[{"kernelName": name, "tilingKey": key}]),
    )


@changed(kernel_cache, METADATA, what="metadata that ends in the middle")
def metadata_cut(cache: KernelCache) -> None:
    os.truncate(cache.entries[1].metadata, 100)


@changed(kernel_cache, METADATA, what="a digest that is a number")
def metadata_digest_number(cache: KernelCache) -> None:
    edit(cache.entries[1].metadata, lambda fields: fields.update(sha256=5))


@changed(kernel_cache, METADATA, what="a field its reader expects to be a number is a text")
def metadata_block_dim_text(cache: KernelCache) -> None:
    edit(cache.entries[1].metadata, lambda fields: fields.update(blockDim="1"))


@changed(
    kernel_cache, METADATA, what="metadata copied to another key: it names another kernel's object"
)
def metadata_of_another(cache: KernelCache) -> None:
    cache.entries[1].metadata.write_bytes(cache.entries[2].metadata.read_bytes())


@changed(kernel_cache, METADATA, what="a pre-compile result without a pattern")
def pre_compile_without_pattern(cache: KernelCache) -> None:
    stem = cache.entries[0].metadata.stem
    edit(cache.soc / f"{stem}_pre.json", lambda fields: fields.pop("pattern"))


@changed(ranks, METADATA, what="an empty .info")
def info_empty(job: Job) -> None:
    job[1][0].metadata.with_suffix(".info").write_bytes(b"")


@changed(graphs, METADATA, what="a digest of scripts that was cut short")
def graph_digest_cut(made: list[Path]) -> None:
    os.truncate(made[0].with_name("MS_WORKERcompile_dependency.hash"), 10)


@changed(kernel_cache, INSIDE, what="metadata that names an object outside of the cache")
def name_leads_out(cache: KernelCache) -> None:
    edit(cache.entries[1].metadata, lambda fields: fields.update(binFileName="../../../hosts"))


@changed(installed_kernels, INSIDE, what="an index that names a kernel outside the installation")
def index_leads_out(place: Path) -> None:
    _list_kernel(place, "/usr/lib/kernel.o")


@changed(kernel_cache, PLAIN, what="a link", unread=True)
def link_in_cache(cache: KernelCache) -> None:
    outside = cache.root.with_name("outside")
    outside.mkdir()
    (cache.soc / "kernels").symlink_to(outside)


@changed(
    kernel_cache,
    WHOLE,
    what="a pipe with the name of an object: opening it waits for ever",
    unread=True,
)
def pipe_in_cache(cache: KernelCache) -> None:
    cache.entries[1].object.unlink()
    os.mkfifo(cache.entries[1].object, 0o640)


@scene(WHOLE, what="a directory with the name of a graph")
def directory_for_a_graph(directory: Path) -> list[str]:
    path = graphs(directory, size=1)[0]
    path.unlink()
    path.mkdir(mode=0o750)
    return audited(directory)


@changed(kernel_cache, OWNER, what="an entry of another user", needs_root=True)
def entry_of_another_user(cache: KernelCache) -> None:
    os.chown(cache.entries[1].object, 12345, -1)


@changed(kernel_cache, MODES, what="metadata everybody may write")
def metadata_for_everybody(cache: KernelCache) -> None:
    cache.entries[1].metadata.chmod(0o666)


@changed(kernel_cache, MODES, what="a directory everybody may write")
def directory_for_everybody(cache: KernelCache) -> None:
    cache.soc.chmod(0o1777)


def _ini(name: str, text: str, what: str, edition: str = "", breaks: str = SETTINGS) -> None:
    """Register a scene: a sound cache but for the text of its ini, judged as a release of CANN."""

    def build(directory: Path) -> list[str]:
        put(kernel_cache(directory).ini, text)
        return [*audited(directory), *([f"--ascend-edition={edition}"] if edition else [])]

    scene(*filter(None, [breaks]), what=what, name=name)(build)


_ini("ini-half", INI + "max_op_cache_size=100\n", "an ini with one of its two values")
_ini("ini-invalid", INI_OF_8.replace("50", "0"), "an ini with a ratio out of range")
_ini(
    "ini-of-a-former-release",
    INI_OF_7,
    "an ini of CANN 7.0 that 8.0 is to read: its keys have other names now",
    "8.0",
)
_ini("ini-of-a-later-release", INI_OF_8, "an ini of CANN 8.0 that 7.0 is to read", "7.0")
_ini(
    "ini-before-there-was-one",
    INI_OF_7,
    "limits in an ini of CANN 6.0, which has no such file",
    "6.0",
)
_ini(
    "ini-of-its-own-release",
    INI_OF_7,
    "nothing is wrong: an ini of CANN 7.0 that 7.0 reads",
    "7.0",
    breaks="",
)
_ini("ini-indented", " " + INI, "an ini whose section does not start its line")
_ini("ini-with-crlf", INI.replace("\n", "\r\n"), "an ini with CRLF behind its versions")
_ini("ini-with-blanks", INI.replace("=", " = "), "an ini with blanks beside its versions")
_ini("ini-empty", "", "an ini that was cut to nothing")
_ini(
    "ini-one-version",
    "[op_compiler_cache]\nadk_version=7.7\n",
    "an ini with one of two versions: no upgrade is noticed any more",
)


@changed(kernel_cache, SETTINGS, what="two ini files that disagree")
def ini_stale(cache: KernelCache) -> None:
    put(cache.root / "op_cache.ini", INI.replace("7.7", "7.5"))


@changed(kernel_cache, LEFTOVERS, what="a temporary file of a writer that was killed")
def temporary_file_left(cache: KernelCache) -> None:
    put(cache.soc / f"{cache.entries[1].object.name}_4711_1700000000_99.temp", b"half")


@changed(kernel_cache, LEFTOVERS, what="the first half of an object, as rsync was to name it")
def temporary_file_of_rsync(cache: KernelCache) -> None:
    put(cache.soc / f".{cache.entries[1].object.name}.aB3xQz", elf_object(b"half")[:100])


@changed(kernel_cache, LEFTOVERS, what="the lock of a kernel that is gone")
def lock_left(cache: KernelCache) -> None:
    put(cache.soc / f"te_mul_{'0' * 64}.lock", b"")


@changed(static_outputs, LEFTOVERS, what="the working directory of a compile of static kernels")
def static_work_left(run: Path) -> None:
    put(run.parent / "41_opcompile_extent" / "Add_d0.json", {"op_type": "Add"})


@changed(static_outputs, INSIDE, what="an index of packages that names another directory's")
def package_of_another_tree(run: Path) -> None:
    theirs = package(run.parents[2] / "theirs" / run.name)
    index = run.parents[1] / "static_kernel_cache" / "CANN-8.1_Ascend910B1.json"
    put(index, {"0" * 64: str(run), "1" * 64: str(theirs)})


@changed(static_outputs, LEFTOVERS, what="operators that were selected, and no package of them")
def static_package_missing(run: Path) -> None:
    put(run.parent / "41_opcompile_selected" / "Add_float_ND_1_8_0.json", {"op_type": "Add"})
    run.unlink()


@changed(kernel_cache, SIZE, what="more than the limit")
def over_the_limit(cache: KernelCache) -> None:
    put(cache.ini, INI + "max_op_cache_size=1\nremain_cache_size_ratio=50\n")
    cache.entries[1].replace_object(elf_object(bytes(2 << 20)))


@changed(ranks, AGREE, what="a rank that lacks a kernel")
def rank_lacks_kernel(job: Job) -> None:
    for suffix in (".o", ".json", ".info"):
        job[1][2].metadata.with_suffix(suffix).unlink()


@changed(stages, AGREE, what="a rank of the second stage that lacks a kernel")
def rank_of_a_stage_lacks_kernel(job: Job) -> None:
    for suffix in (".o", ".json", ".info"):
        job[3][0].metadata.with_suffix(suffix).unlink()


@changed(ranks, AGREE, what="a rank whose kernels were all deleted")
def rank_emptied(job: Job) -> None:
    for path in job[1][2].metadata.parent.iterdir():
        path.unlink()
    job[1][2].metadata.parent.rmdir()


@changed(ranks, AGREE, what="a rank that was deleted")
def rank_gone(job: Job) -> None:
    job[1][0].metadata.parents[1].rename(job[1][0].metadata.parents[2].with_name("rank-1-was-here"))


@changed(graphs, AGREE, what="a rank with fewer graphs than the others")
def rank_lacks_graph(made: list[Path]) -> None:
    made[-1].unlink()


@changed(ranks, DUPLICATES, what="ranks with different kernels of one name")
def ranks_with_different_kernels(job: Job) -> None:
    job[1][0].replace_object(elf_object(b"something else"))


@changed(kernel_cache, TOOLCHAIN, what="a kernel with debugging information among others")
def kernel_with_debugging(cache: KernelCache) -> None:
    with_debugging(cache.entries[1])


def with_debugging(kernel: SceneKernel) -> None:
    """Give a kernel debugging information, as its compiler does under a debug switch."""
    kernel.replace_object(elf_object(kernel.object.stem.encode() + b"\0.debug_info\0"))


@changed(kernel_cache, TOOLCHAIN, what="one kernel of an older compiler")
def kernel_of_older_compiler(cache: KernelCache) -> None:
    cache.entries[1].replace_object(elf_object(b"old", "clang version 14.0.1"))


@changed(kernel_cache, TOOLCHAIN, what="a SoC whose kernels are older than those of the other")
def soc_of_older_compiler(cache: KernelCache) -> None:
    cann_entry(cache.soc.with_name("Ascend310P3"), 1, "clang version 14.0.1")


@changed(kernel_cache, AGREEMENT, what="metadata of a kernel for another chip")
def kernel_of_another_chip(cache: KernelCache) -> None:
    edit(cache.entries[1].metadata, lambda fields: fields.update(socVersion="Ascend310P3"))


@changed(kernel_cache, AGREEMENT, what="metadata with two digests")
def digest_given_twice(cache: KernelCache) -> None:
    path = cache.entries[1].metadata
    path.write_text(path.read_text().replace("{", '{"sha256": "' + "0" * 64 + '",', 1))


@changed(installed_kernels, AGREEMENT, what="an installed package that is not selected")
def package_not_selected(place: Path) -> None:
    put(place / "config.ini", "load_priority=\n")


@scene(EMPTY, what="a cache without a single entry: a volume that is not mounted")
def lost_volume(directory: Path) -> list[str]:
    put(directory / "kernel_cache" / "op_cache.ini", INI)
    return audited(directory)
