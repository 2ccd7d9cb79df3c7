"""Caches as real toolchains of all editions leave them: unusual, and sound.

``freedom`` is the sentence that leaves it, ``twin`` the scene next to it, on the other side of the
line.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.scenes.audit import (
    INI_OF_8,
    Job,
    Made,
    changed,
    tiled,
    with_debugging,
)
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
    rank_kernels,
    ranks,
    stages,
    static_outputs,
)

PLACE = "如果要自行指定算子编译磁盘缓存的路径,则需要通过--op_compiler_cache_dir参数指定。"
INI_FILE = "ATC工具运行后,会在--op_compiler_cache_dir参数指定路径下自动生成op_cache.ini文件"
AGES = "且超过半小时缓存文件未被访问时,缓存文件就会老化"
KEPT = "其中包含Square算子的`.o`文件、`.json`文件、`.info`文件以及其他文件。"
RANKS = "在多卡运行时,执行网络模型将会在多个`device`目录下均生成`rank_{ID}/kernel_meta`文件夹"
PACKAGE_NAME = "static_kernel_${datetime}.run         // 编译好的静态Kernel文件"


def _free(
    make: Callable[[Path], Made], freedom: str, **claims: Any
) -> Callable[[Callable[[Made], object]], None]:
    """Register a scene that is merely different from what ``make`` makes."""
    return changed(make, freedom=freedom, **claims)


def _renamed(kernel: SceneKernel, stem: str) -> None:
    """Give an entry another name, in its files and in its object, too."""
    data = elf_object(stem.encode())
    kernel.object.unlink()
    fields = json.loads(kernel.metadata.read_text())
    kernel.metadata.unlink()
    fields |= {"binFileName": stem, "kernelName": f"{stem}__kernel0", "sha256": digest(data)}
    put(kernel.metadata.with_name(f"{stem}.json"), fields)
    put(kernel.metadata.with_name(f"{stem}.o"), data)


@_free(kernel_cache, PLACE, twin="metadata-of-another", what="names in mixed case, as CANN 5 wrote")
def names_in_mixed_case(cache: KernelCache) -> None:
    for number, each in enumerate(cache.entries[1:]):
        _renamed(each, f"te_MatMulV2_{digest(str(number).encode())}")


@_free(kernel_cache, PLACE, twin="orphan-object", what="kernels of custom operators beside CANN's")
def custom_operators(cache: KernelCache) -> None:
    for number, each in enumerate(cache.entries[1:]):
        _renamed(each, f"AddCustom_{digest(str(number).encode())[:32]}")


@_free(kernel_cache, PLACE, twin="orphan-metadata", what="a result of autofuse: a library, no .o")
def a_library_of_autofuse(cache: KernelCache) -> None:
    stem = f"te_autofuse_{'a' * 64}"
    library = put(cache.soc / f"lib{stem}.so", elf_object(stem.encode()))
    fields = {"binFileName": library.stem, "binFileSuffix": ".so", "kernelName": stem}
    put(cache.soc / f"{stem}.json", {**fields, "sha256": digest(library.read_bytes())})


@_free(
    kernel_cache, PLACE, twin="object-of-another", what="a library with the digest of its kernel"
)
def a_library_that_carries_its_kernel(cache: KernelCache) -> None:
    kernel = elf_object(b"a kernel of autofuse")
    library = put(cache.soc / "libautofuse_pointwise_0_abs_add.so", elf_object(b"code" + kernel))
    fields = {"binFileName": library.stem, "binFileSuffix": ".so", "kernelName": "autofuse_0_abs"}
    put(library.with_suffix(".json"), {**fields, "sha256": digest(kernel)})


@_free(kernel_cache, PLACE, twin="tiling-key-of-a-float", what="a tiling key beyond 63 bits")
def a_large_tiling_key(cache: KernelCache) -> None:
    tiled(cache.entries[1], 10**19)


@_free(kernel_cache, PLACE, twin="metadata-cut", what="metadata on one line, with more fields")
def metadata_on_one_line(cache: KernelCache) -> None:
    for each in cache.entries:
        fields = json.loads(each.metadata.read_text())
        more = {"compileTime": 1.5, "host": "训练01", "supportInfo": {"inputs": []}}
        put(each.metadata, json.dumps({**fields, **more}, separators=(",", ":")))


@_free(kernel_cache, PLACE, twin="object-cut", what="objects without a note of their compiler")
def objects_without_compiler(cache: KernelCache) -> None:
    for each in cache.entries:
        each.replace_object(elf_object(each.object.stem.encode(), ""))


@_free(kernel_cache, PLACE, twin="kernel-with-debugging", what="all have debugging information")
def all_with_debugging(cache: KernelCache) -> None:
    for each in cache.entries:
        with_debugging(each)


@_free(kernel_cache, PLACE, twin="object-of-another", what="equal objects are hard links")
def hard_links(cache: KernelCache) -> None:
    store = cache.root / "kernel_cache" / "objects"
    store.mkdir(mode=0o750)
    for each in cache.entries:
        os.link(each.object, store / each.object.name)
        os.link(each.metadata, store / each.metadata.name)


@_free(kernel_cache, PLACE, twin="metadata-for-everybody", what="others may read, nobody may write")
def read_only_for_all(cache: KernelCache) -> None:
    for path in sorted((cache.root / "kernel_cache").rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)


@_free(kernel_cache, PLACE, twin="directory-for-everybody", what="a group writes, setgid")
def shared_by_a_group(cache: KernelCache) -> None:
    for path in (cache.root / "kernel_cache").rglob("*"):
        path.chmod(0o2770 if path.is_dir() else 0o660)


@_free(kernel_cache, AGES, twin="over-the-limit", what="times of 1970 and of 2038, kept by a copy")
def times_far_away(cache: KernelCache) -> None:
    for number, path in enumerate(sorted(cache.soc.iterdir())):
        second = 0 if number % 2 else 2_145_916_800
        os.utime(path, (second, second))


@_free(kernel_cache, PLACE, twin="lost-volume", what="kernel_cache in kernel_cache: an example's")
def the_directory_twice(cache: KernelCache) -> None:
    inner = cache.root / "kernel_cache"
    inner.rename(cache.root / "inner")
    (cache.root / "kernel_cache").mkdir(mode=0o750)
    (cache.root / "inner").rename(cache.root / "kernel_cache" / "kernel_cache")


@_free(kernel_cache, PLACE, twin="lost-volume", what="a chip that force emptied beside full ones")
def an_empty_chip(cache: KernelCache) -> None:
    (cache.soc.with_name("Ascend910_9382")).mkdir(mode=0o750)


@_free(kernel_cache, PLACE, twin="link-in-cache", what="what a volume has by itself: lost+found")
def a_volume_of_its_own(cache: KernelCache) -> None:
    for place in (cache.root, cache.root / "kernel_cache"):
        (place / "lost+found").mkdir(mode=0o700)
        put(place / "README.md", "# cache\n")
        put(place / ".gitignore", "*\n")


@_free(kernel_cache, PLACE, twin="temporary-file-left", what="what NFS keeps of an open file")
def a_file_that_is_open_on_nfs(cache: KernelCache) -> None:
    put(cache.soc / ".nfs000000000123456700000001", cache.entries[0].object.read_bytes())


@_free(kernel_cache, PLACE, twin="metadata-block-dim-text", what="parts of a kernel, old form")
def parts_of_the_old_form(cache: KernelCache) -> None:
    stem = f"te_mix_{'b' * 64}"
    for part in ("aic", "aiv"):
        data = elf_object(f"{stem}_mix_{part}".encode())
        put(cache.soc / f"{stem}_mix_{part}.o", data)
        fields = {"binFileName": f"{stem}_mix_{part}", "binFileSuffix": ".o"}
        fields |= {"kernelName": f"{stem}_mix_{part}", "sha256": digest(data)}
        put(cache.soc / f"{stem}_mix_{part}.json", fields)
    listed = [{"jsonFileName": f"{stem}_mix_{part}"} for part in ("aic", "aiv")]
    put(cache.soc / f"{stem}.json", {"jsonList": listed, "magic": "RT_DEV_BINARY_MAGIC_ELF"})


@_free(kernel_cache, PLACE, twin="orphan-object", what="a header that the fields name")
def a_header_beside_a_kernel(cache: KernelCache) -> None:
    entry = cache.entries[1]
    edit(entry.metadata, lambda fields: fields.update(headerFileSuffix=".h"))
    put(entry.metadata.with_suffix(".h"), "#pragma once\n")


@_free(kernel_cache, PLACE, twin="soc-of-older-compiler", what="chips by three kinds of names")
def chips_by_other_names(cache: KernelCache) -> None:
    for number, name in enumerate(("Ascend910_9382", "Ascend910ProB", "BS9SX1AA"), 7):
        cann_entry(cache.soc.with_name(name), number)


@_free(kernel_cache, INI_FILE, twin="ini-half", what="an ini with notes, blanks and more sections")
def an_ini_with_notes(cache: KernelCache) -> None:
    text = INI_OF_8.replace("size=", "size = ").replace("\n", "\n\n# 单位 MB\n")
    put(cache.ini, f"# written by hand\n\n{text}\n[others]\nowner = team\n")


@_free(kernel_cache, INI_FILE, twin="ini-invalid", what="an ini without limit: -1")
def an_ini_without_limit(cache: KernelCache) -> None:
    put(cache.ini, INI + "max_op_cache_size=-1\nremain_cache_size_ratio=100\n")


@_free(kernel_cache, INI_FILE, twin="ini-stale", what="two ini files that say the same")
def two_equal_ini_files(cache: KernelCache) -> None:
    put(cache.root / "op_cache.ini", INI)


@_free(ranks, RANKS, twin="rank-gone", what="the ranks of a job's second machine: 8 to 10")
def the_second_machine(job: Job) -> None:
    root = job[0][0].metadata.parents[2]
    for rank in job:
        (root / f"rank_{rank}").rename(root / f"rank_{rank + 8}")


@_free(
    lambda root: root, RANKS, twin="rank-lacks-kernel", what="device0 to device3 around each rank"
)
def a_directory_for_each_device(root: Path) -> None:
    for card in range(4):
        rank_kernels(root / f"device{card}", card, "square", "add")


@_free(stages, RANKS, twin="rank-of-a-stage-lacks-kernel", what="two stages of a pipeline")
def two_stages(_: Job) -> None:
    """They share one kernel of four."""


@_free(ranks, RANKS, twin="rank-gone", what="one card")
def a_single_card(job: Job) -> None:
    for rank in (1, 2):
        shutil.rmtree(job[rank][0].metadata.parents[1])


@_free(ranks, KEPT, twin="rank-kernel-without-info", what="what MindSpore leaves beside kernels")
def beside_the_kernels_of_a_rank(job: Job) -> None:
    for kernels in job.values():
        meta = kernels[0].metadata.parent
        put(meta / "Initialize.info", {"job": "initialize"}).chmod(0o400)
        put(meta / "file.lock", b"")
        put(meta / "square_1_compile.log", b"compiled\n")
        for each in kernels:
            each.metadata.with_suffix(".info").chmod(0o400)


@_free(ranks, KEPT, twin="info-empty", what="an .info of one line with the whole request")
def long_requests(job: Job) -> None:
    for kernels in job.values():
        for each in kernels:
            path = each.metadata.with_suffix(".info")
            request = {"job_id": 7, "job_content": {"op_list": [{"attr": None}] * 300}}
            put(path, json.dumps({**json.loads(path.read_text()), **request}))


@_free(akg_kernel, KEPT, twin="akg-library-changed", what="AKG's rights: 0700, 0755 and 0400")
def rights_of_akg(kernel: SceneKernel) -> None:
    kernel.metadata.parent.chmod(0o700)
    kernel.object.chmod(0o755)
    kernel.metadata.chmod(0o400)


@_free(graphs, KEPT, twin="graph-without-digest", what="graphs of parallel modes and of a server")
def graphs_of_parallel_modes(made: list[Path]) -> None:
    for path in made:
        put(path.with_name("group_0.ckpt"), b"groups")
        path.chmod(0o400)


@_free(
    installed_kernels,
    PACKAGE_NAME,
    twin="index-names-missing-kernel",
    what="shapes beside the index, as 8.1's installer leaves them",
)
def shapes_beside_the_index(place: Path) -> None:
    for name in ("Add", "MatMulV2"):
        put(place / f"config/ascend910b/shape_info/{name}.json", {"shapes": [[1, 8], [2, 8]]})
    put(place / "version.info", "Version=7.7\nversion_dir=8.1.RC1\ntimestamp=20250301_000012\n")


@_free(
    static_outputs,
    PACKAGE_NAME,
    twin="package-changed",
    what="a package of CANN 8.1: a second in its name, more lines in its head",
)
def a_package_of_another_release(run: Path) -> None:
    package(run.with_name("static_kernel_261121150000.run"), b"payload" * 9)
    data = run.read_bytes()
    put(run, data.replace(b"exit 0\n", b"exit 0\n", 1))


@_free(
    static_outputs,
    PACKAGE_NAME,
    twin="static-work-left",
    what="logs of a compile, targets chosen and gathered, and nothing else",
)
def targets_chosen_and_gathered(run: Path) -> None:
    for kind in ("selected", "gathered"):
        put(run.parent / f"41_opcompile_{kind}" / "Add_d0.json", {"op_type": "Add", "inputs": []})
    put(run.parent / "41_compile_log" / "static_kernel_Add_1_0_d0_compile_succ.log", b"ok\n")


@_free(
    static_outputs,
    PACKAGE_NAME,
    twin="static-package-missing",
    what="a run of the second card: the first packs the operators of both",
)
def operators_of_the_second_card(run: Path) -> None:
    put(run.parent / "41_opcompile_gathered" / "Add_d0.json", {"op_type": "Add", "inputs": []})
    second = run.parent.with_name(run.parent.name.replace("41", "42"))
    put(second / "42_opcompile_selected" / "Add_d0.json", {"op_type": "Add", "inputs": []})


@_free(
    static_outputs,
    PACKAGE_NAME,
    twin="package-of-another-tree",
    what="an index of packages: one here, one that was deleted, one from before the tree moved",
)
def packages_of_earlier_processes(run: Path) -> None:
    gone = run.with_name("static_kernel_261121140000123456_40.run")
    paths = (str(run), str(gone), f"/nowhere/{run.parent.name}/{run.name}")
    index = run.parents[1] / "static_kernel_cache" / "CANN-8.1_Ascend910B1.json"
    put(index, {str(at) * 64: path for at, path in enumerate(paths)})


@_free(
    lambda root: root,
    PACKAGE_NAME,
    twin="package-cut",
    what="the tree of the first clients, without a directory around it",
)
def the_first_tree(root: Path) -> None:
    run = root / "20250811150000123456_41_kernel_aot_optimization_build_outputs"
    put(run / "41_debug" / "Add_float_ND_1_8_0.json", {"op_type": "Add", "bin_info": ""})
    package(run / "static_kernel_250811150000.run")
