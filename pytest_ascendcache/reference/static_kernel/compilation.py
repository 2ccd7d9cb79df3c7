"""Compiling static kernels: which operators, how, and which files and index entries result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.opinfo import OperatorInfo, OpInfoError
from pytest_ascendcache.operators.opinfo_json import opinfo_document, read_opinfo
from pytest_ascendcache.operators.simplified_key import simplified_key, value_depend_indexes
from pytest_ascendcache.reference.kernels import operator_types
from pytest_ascendcache.reference.static_kernel.options import OpCompilerError

DETERMINISTIC = (False, True)
"""The values of the deterministic setting, in the order of the suffixes ``_d0`` and ``_d1``."""
_CORE_TYPES = {"MIX": 0, "AiCore": 1, "VectorCore": 2}


@dataclass(frozen=True)
class Job:
    """One kernel to compile. ``source`` is the first file that requests it."""

    info: OperatorInfo
    key: str
    stem: str
    source: Path


@dataclass(frozen=True)
class KernelFile:
    """One compiled kernel: its path in the package, object, metadata and index entry."""

    path: str
    data: bytes
    metadata: bytes
    type: str
    entry: dict[str, Any]
    value_depend: tuple[int, ...]


class StaticKernelPolicy:
    """Decides which kernels are compiled, how, and under which names."""

    def files(self, directory: Path) -> list[Path]:
        """All operator-information files in a directory tree, sorted."""
        return sorted(path for path in directory.rglob("*.json") if path.is_file())

    def read(self, files: Sequence[Path]) -> tuple[list[tuple[Path, OperatorInfo]], list[str]]:
        """Read operator-information files.

        Returns the operators whose tune mode requests a static kernel, each with its file, and a
        message for each unusable file.
        """
        found, problems = [], []
        for path in files:
            try:
                info = read_opinfo(path)
                if info.tune_mode in ("all", "static_kernel"):
                    simplified_key(info)
                    found.append((path, info))
            except OpInfoError as error:
                text = str(error)
                problems.append(text if str(path) in text else f"{path}: {text}")
        return found, problems

    def jobs(self, operators: Sequence[tuple[Path, OperatorInfo]]) -> list[Job]:
        """One job per key: equal operators are compiled once, whatever their files are called."""
        jobs: dict[str, Job] = {}
        stems: set[tuple[str, str]] = set()
        for path, info in operators:
            key = self.key(info)
            if key in jobs:
                continue
            stem = given = re.sub(r"[^A-Za-z0-9._-]", "_", info.bin_filename or path.stem)
            number = 0
            while (info.type, stem) in stems:
                number += 1
                stem = f"{given}_{number}"
            stems.add((info.type, stem))
            jobs[key] = Job(info, key, stem, path)
        return list(jobs.values())

    def key(self, info: OperatorInfo) -> str:
        """The simplified key. Operators with the same key share a kernel."""
        return simplified_key(info, deterministic=False)

    def symbol(self, job: Job) -> str:
        """The kernel's symbol in its object. It depends on the key alone."""
        kind = re.sub(r"\W", "_", job.info.type, flags=re.ASCII).lower()
        return f"static_{kind}_{hashlib.sha256(job.key.encode()).hexdigest()}__kernel0"

    def compile(self, job: Job, soc: str, tuning: Mapping[str, int]) -> bytes:
        """Compile the kernel. Returns its object."""
        from pytest_ascendcache.reference.kernels import Implementation, KernelOptions, build

        precise = job.info.impl_mode != "high_performance"
        mode = Implementation.HIGH_PRECISION if precise else Implementation.HIGH_PERFORMANCE
        options = KernelOptions(soc=soc, implementation=mode, tuning=tuning)
        return build(job.info.operator(), self.symbol(job), options).object

    def views(self, operators: Sequence[tuple[Path, OperatorInfo]]) -> list[str]:
        """A message for each operator that has a view as a tensor.

        Its kernel is compiled for the whole tensor, which the runtime uses if it finds no kernel
        with strides.
        """
        return [
            f"{path}: {info.type} has a view; its kernel is compiled for a whole tensor"
            for path, info in operators
            if any(tensor.view is not None for tensor in info.tensors)
        ]

    def whole(
        self, compiled: list[tuple[Job, bytes]], failures: Sequence[str]
    ) -> list[tuple[Job, bytes]]:
        """The kernels to pack, provided that none failed.

        Raises ``OpCompilerError`` if operators have no kernel; it lists all of them.
        """
        if failures:
            head = f"{len(failures)} of {len(failures) + len(compiled)} operators have no kernel:"
            known = f"one of {', '.join(operator_types())}."
            several = [each.replace(f"; use {known}", ".") for each in failures]
            ending = [f"Use {known}"] if several != [*failures] else []
            raise OpCompilerError("\n".join([head, *several, *ending]))
        return compiled

    def kernel_files(self, job: Job, data: bytes, package: str, soc: str) -> list[KernelFile]:
        """The kernel's files for both values of the deterministic setting, with equal objects."""
        return [
            self.kernel_file(job, data, package, soc, deterministic)
            for deterministic in DETERMINISTIC
        ]

    def kernel_file(
        self, job: Job, data: bytes, package: str, directory: str, deterministic: bool
    ) -> KernelFile:
        """The kernel's files and index entry for one value of the deterministic setting.

        The metadata is that of facts ``static-kernel`` section 2.5, plus the object's digest.
        """
        stem = f"{job.stem}_d{int(deterministic)}"
        path = f"{directory}/{job.info.type}/{stem}.o"
        info = replace(job.info, deterministic=deterministic)
        key = simplified_key(info)
        launch = {"blockDim": 1, "kernelName": self.symbol(job)}
        metadata = {
            **launch,
            "binFileName": stem,
            "binFileSuffix": ".o",
            "coreType": "AiCore",
            "deterministic": str(deterministic).lower(),
            "magic": "RT_DEV_BINARY_MAGIC_ELF",
            "sha256": hashlib.sha256(data).hexdigest(),
            "supportInfo": {
                **opinfo_document(info),
                "simplifiedKey": [key],
                "simplifiedKeyMode": 0,
            },
            "workspace": {"num": 0, "size": [], "type": []},
        }
        entry = {
            "simplifiedKey": key,
            "binPath": f"{package}/{path}",
            "coreType": _CORE_TYPES["AiCore"],
            "binDesc": {**launch, "workspace": []},
        }
        return KernelFile(
            path=path,
            data=data,
            metadata=json.dumps(metadata, indent=4, sort_keys=True).encode(),
            type=job.info.type,
            entry=entry,
            value_depend=tuple(value_depend_indexes(info)),
        )
