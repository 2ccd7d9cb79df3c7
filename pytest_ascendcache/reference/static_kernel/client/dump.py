"""Dumping operator information: the operators that a process executed, one file each.

Source: facts ``static-kernel`` sections 1.2, 1.3 and 2.2.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import opinfo_text
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.client.tree import Outputs

NOT_TARGETS = frozenset(
    {
        "ArgMaxWithValue",
        "ArgMinWithValue",
        "FusedInferAttentionScore",
        "GatherV2",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "ReduceSum",
    }
)
"""Operator types without static kernels. Source: facts section 1.3."""

Files = Mapping[str, bytes]
"""The contents of files by name."""


class DumpPolicy:
    """Decides which operators are recorded, and which of them are compiled."""

    def is_target(self, operator: OperatorSpec) -> bool:
        """Whether a static kernel is compiled for this operator."""
        return operator.type not in NOT_TARGETS

    def records(self, operators: Iterable[OperatorSpec]) -> list[OperatorInfo]:
        """The operators' information. Equal operators are recorded once."""
        return list(dict.fromkeys(OperatorInfo.of(each.named("")) for each in operators))

    def recorded(self, records: list[OperatorInfo]) -> list[OperatorInfo]:
        """The records for the folder of all operators."""
        return records

    def select(self, files: Files, done: Collection[str]) -> dict[str, bytes]:
        """The files of operators without a static kernel; ``done`` are the digests of others."""
        return {name: data for name, data in files.items() if digest(data) not in done}

    def gather(self, cards: Iterable[Files]) -> dict[str, bytes]:
        """Merge the files of several cards: equal files once, and all that differ."""
        gathered: dict[str, bytes] = {}
        for files in cards:
            for name, data in files.items():
                if data not in gathered.values():
                    gathered[self.free(name, gathered)] = data
        return gathered

    def free(self, name: str, taken: Collection[str]) -> str:
        """The name itself if it is not taken, else a free name ``<stem>_<n>.json``."""
        free, number = name, 0
        while free in taken:
            number += 1
            free = f"{name.removesuffix('.json')}_{number}.json"
        return free


class Dump:
    """The dumps of one process. The numbers in file names continue from one dump to the next."""

    def __init__(self, policy: DumpPolicy, fs: Fs) -> None:
        self._policy = policy
        self._fs = fs
        self._numbers: Counter[str] = Counter()

    def write(self, operators: Iterable[OperatorSpec], outputs: Outputs) -> dict[str, bytes]:
        """Record operators in the folders of a compile. Returns the files in the target folder."""
        records = self._policy.records(operators)
        targets = [each for each in records if self._policy.is_target(each.operator())]
        self._write(outputs.everything, "debug", self._policy.recorded(records))
        files = self._write(outputs.target, "target", targets)
        if outputs.opcompile is not None:
            self._write(outputs.opcompile, "opcompile", targets)
        return files

    def _write(self, folder: Path, kind: str, records: list[OperatorInfo]) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for record in records:
            # There is one counter per kind of folder for the whole process (facts section 1.2).
            files[record.file_name(self._numbers[kind])] = opinfo_text(record).encode()
            self._numbers[kind] += 1
        if files:
            self.write_files(folder, files)
        return files

    def write_files(self, folder: Path, files: Files) -> None:
        """Create a folder and write files into it."""
        self._fs.make_directories("dump.mkdir", folder)
        for name, data in files.items():
            self._fs.write_whole("dump", folder / name, data)


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files with operator information in a folder; empty if it does not exist."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))}


def digest(data: bytes) -> str:
    """The digest that identifies an operator's information."""
    return hashlib.sha256(data).hexdigest()
