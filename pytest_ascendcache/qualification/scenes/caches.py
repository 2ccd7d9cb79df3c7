"""Sound caches of every layout; a scene makes one thing wrong.

Objects have little more than ELF headers, because checks of files do not run kernels.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NAMES = b"\0.comment\0.shstrtab\0.text\0"
COMPILER = "clang version 15.0.5 (a compiler of kernels)"


def elf_object(content: bytes, compiler: str = COMPILER) -> bytes:
    """A complete ELF64 object with ``content`` as its code and ``compiler`` in its comment."""
    comment = compiler.encode() + b"\0"
    start = _HEADER.size
    parts = (comment, _NAMES, content)
    offsets = [start, start + len(comment), start + len(comment) + len(_NAMES)]
    table = offsets[2] + len(content)
    sections = [_SECTION.pack(*(0,) * 10)]
    for name, kind, offset, part in zip((1, 10, 20), (1, 3, 1), offsets, parts, strict=True):
        sections.append(_SECTION.pack(name, kind, 0, 0, offset, len(part), 0, 0, 1, 0))
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01" + bytes(9), 1, 0x1029, 1, 0, 0, table, 0, 64, 0, 0, 64, 4, 2
    )
    return header + b"".join(parts) + b"".join(sections)


def digest(data: bytes) -> str:
    """The SHA-256 of bytes as metadata spells it."""
    return hashlib.sha256(data).hexdigest()


def put(path: Path, content: bytes | str | Mapping[str, Any]) -> Path:
    """Write a file that other users cannot read. A mapping becomes JSON."""
    if not path.parent.exists():
        for missing in reversed([each for each in path.parents if not each.exists()]):
            missing.mkdir(mode=0o750)
            missing.chmod(0o750)
    if isinstance(content, Mapping):
        content = json.dumps(content, indent=4, sort_keys=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o640)
    return path


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the fields of a metadata file."""
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields, indent=4, sort_keys=True))


@dataclass(frozen=True)
class SceneKernel:
    """An entry's two main files."""

    metadata: Path
    object: Path

    def replace_object(self, data: bytes) -> None:
        """Replace the object and its digest in the metadata."""
        self.object.write_bytes(data)
        edit(self.metadata, lambda fields: fields.update(sha256=digest(data)))


def _entry(directory: Path, stem: str, data: bytes) -> SceneKernel:
    """Write the two main files of an entry."""
    metadata = put(directory / f"{stem}.json", _metadata(stem, data))
    return SceneKernel(metadata, put(directory / f"{stem}.o", data))


def _metadata(stem: str, data: bytes) -> dict[str, Any]:
    return {
        "binFileName": stem,
        "binFileSuffix": ".o",
        "blockDim": 1,
        "coreType": "AiCore",
        "kernelName": f"{stem}__kernel0",
        "magic": "RT_DEV_BINARY_MAGIC_ELF",
        "parameters": [0, 0],
        "sha256": digest(data),
        "workspace": {"num": 0, "size": [], "type": []},
    }


def cann_entry(
    directory: Path, number: int, compiler: str = COMPILER, code: bytes = b""
) -> SceneKernel:
    """One entry of CANN's cache; its object contains its name and ``code``."""
    stem = f"te_add_{digest(str(number).encode())}"
    return _entry(directory, stem, elf_object(stem.encode() + code, compiler))


@dataclass(frozen=True)
class KernelCache:
    """CANN's cache. ``root`` is the directory of ``--op_compiler_cache_dir``."""

    root: Path
    entries: tuple[SceneKernel, ...]

    @property
    def soc(self) -> Path:
        """The directory of the first chip."""
        return self.root / "kernel_cache" / "Ascend910B1"

    @property
    def ini(self) -> Path:
        """Where CANN keeps its settings."""
        return self.root / "kernel_cache" / "op_cache.ini"


INI = "[op_compiler_cache]\nadk_version=7.7\nops_version=7.7\n"


def kernel_cache(root: Path, entries: int = 4) -> KernelCache:
    """A cache of two chips with locks, a pre-compile result and settings, as CANN leaves them."""
    cache = root / "kernel_cache"
    made = [cann_entry(cache / "Ascend910B1", number) for number in range(entries)]
    cann_entry(cache / "Ascend310P3", 310)
    put(cache / "op_cache.ini", INI)
    stem = made[0].metadata.stem
    put(made[0].metadata.with_suffix(".lock"), b"")
    put(cache / "Ascend910B1" / "op_cache_file_del.lock", b"")
    put(cache / "Ascend910B1" / f"{stem}_pre.json", {"coreType": "AiCore", "pattern": "Opaque"})
    return KernelCache(root, tuple(made))


def rank_kernel(directory: Path, name: str, device: int) -> SceneKernel:
    """One kernel of a rank: three files whose name contains the device."""
    stem = f"{name}_{int(digest(name.encode())[:12], 16)}_{device}"
    data = elf_object(f"{stem}__kernel0 code of {name}".encode())
    put(directory / f"{stem}.info", {"op_name": name, "device_id": device})
    return _entry(directory, stem, data)


def rank_kernels(root: Path, rank: int, *names: str) -> list[SceneKernel]:
    """The kernels of a rank."""
    return [rank_kernel(root / f"rank_{rank}" / "kernel_meta", name, rank) for name in names]


def ranks(root: Path, size: int = 3) -> dict[int, list[SceneKernel]]:
    """The caches of all ranks of a job after a run."""
    return {rank: rank_kernels(root, rank, "square", "add", "matmul") for rank in range(size)}


def akg_kernel(root: Path, number: int = 1) -> SceneKernel:
    """One fused kernel of AKG, and the file that a compile locks."""
    stem = f"Fused_Mul_Add_fusion_{number}879951421442370"
    directory = root / "akg_kernel_meta"
    code, library = elf_object(b"object"), elf_object(b"library")
    put(directory / f"{stem}.info", {"op": "Fused"})
    put(directory / f"{stem}.o", code)
    put(root / "kernel_build_tmp.key", b"")
    fields = {"kernelName": stem, "objSha256": digest(code), "sha256": digest(library)}
    return SceneKernel(
        put(directory / f"{stem}.json", fields), put(directory / f"{stem}.so", library)
    )


def mindir(name: str) -> bytes:
    """A compiled network as MindSpore stores it: versions, and a graph of this name."""
    texts = ((1, "0.1.1"), (2, "MindSpore"), (5, "2.10.0"), (7, name * 4))
    return b"".join(bytes((at << 3 | 2, len(text))) + text.encode() for at, text in texts)


def graphs(root: Path, size: int = 2) -> list[Path]:
    """The graph caches of a job's ranks."""
    made = []
    for rank in range(size):
        directory = root / f"rank_{rank}" / "graph_cache"
        for number in range(2):
            content = mindir(f"graph {number} of rank {rank}")
            made.append(put(directory / f"MS_WORKERcompile_cache_{number}.mindir", content))
        put(directory / "MS_WORKERcompile_dependency.hash", digest(b"scripts"))
    return made


def package(path: Path, payload: bytes = b"\x1f\x8bpayload") -> Path:
    """A self-extracting package with the head makeself writes."""
    head = f'#!/bin/sh\nSHA="{digest(payload)}"\nskip="5"\nfilesizes="{len(payload)}"\nexit 0\n'
    return put(path, head.encode() + payload)


def stages(root: Path) -> dict[int, list[SceneKernel]]:
    """Write the kernels of two stages of a pipeline, two ranks each, and return them by rank."""
    names = ("square", "matmul", "add", "exp"), ("square", "softmax", "tanh", "mul")
    return {rank: rank_kernels(root, rank, *names[rank // 2]) for rank in range(4)}


def static_outputs(root: Path) -> Path:
    """Write the output of one compile of static kernels as later clients do; return its package."""
    run = root / "aclnn_static_shape_kernel_outputs" / "ts20261121150000123456_pid41_outputs"
    put(run / "41_opcompile" / "Add_float_ND_1_8_0.json", {"op_type": "Add", "inputs": []})
    put(run / "41_debug" / "Add_float_ND_1_8_0.json", {"op_type": "Add", "bin_info": ""})
    return package(run / "static_kernel_261121150000123456_41.run")


def installed_kernels(root: Path) -> Path:
    """Write ``static_kernel/ai_core`` with one package, and return it."""
    place = root / "static_kernel" / "ai_core"
    stem, name = "Add_float_ND_1_8_0_d0", "static_kernel_261121150000"
    kernel = f"{name}/ascend910b/Add/{stem}.o"
    data = elf_object(b"static")
    put(place / kernel, data)
    put((place / kernel).with_suffix(".json"), _metadata(stem, data))
    listed = [{"simplifiedKey": "Add/d=0,p=0/0,2,(1,8)", "binPath": kernel, "coreType": 1}]
    index = {"Add": {"simplifiedKeyMode": 0, "staticList": listed}}
    put(place / "config" / "ascend910b" / "binary_info_config.json", index)
    put(place / "config.ini", f"load_priority={name}\n")
    put(place / "version.info", "Version=7.7\n")
    return place
