"""Operator information of a process: what it executed, in the folders of one compile.

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
"""Types no static kernel is compiled for. Source: facts section 1.3."""

Files = Mapping[str, bytes]
"""File name -> content."""


class DumpPolicy:
    """What is recorded, and which of it is compiled."""

    def is_target(self, operator: OperatorSpec) -> bool:
        """Whether static kernels are for this operator."""
        return operator.type not in NOT_TARGETS

    def records(self, operators: Iterable[OperatorSpec]) -> list[OperatorInfo]:
        """What is recorded of operators: equal ones once."""
        return list(dict.fromkeys(OperatorInfo.of(each.named("")) for each in operators))

    def recorded(self, records: list[OperatorInfo]) -> list[OperatorInfo]:
        """What the folder of all operators has."""
        return records

    def select(self, files: Files, done: Collection[str]) -> dict[str, bytes]:
        """The files of operators that have no static kernel yet; ``done`` are digests."""
        return {name: data for name, data in files.items() if digest(data) not in done}

    def gather(self, cards: Iterable[Files]) -> dict[str, bytes]:
        """The files of several cards: equal ones once, different ones of one name all."""
        gathered: dict[str, bytes] = {}
        for files in cards:
            for name, data in files.items():
                if data not in gathered.values():
                    gathered[self.free(name, gathered)] = data
        return gathered

    def free(self, name: str, taken: Collection[str]) -> str:
        """A name like this one that is not taken: ``<stem>_<n>.json``."""
        free, number = name, 0
        while free in taken:
            number += 1
            free = f"{name.removesuffix('.json')}_{number}.json"
        return free


class Dump:
    """The dumps of one process: numbers in file names go on from one to the next."""

    def __init__(self, policy: DumpPolicy, fs: Fs) -> None:
        self._policy = policy
        self._fs = fs
        self._numbers: Counter[str] = Counter()

    def write(self, operators: Iterable[OperatorSpec], outputs: Outputs) -> dict[str, bytes]:
        """Record operators in the folders of a compile; the target's files."""
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
            # Counters are of the folder's kind and of the whole process (facts section 1.2).
            files[record.file_name(self._numbers[kind])] = opinfo_text(record).encode()
            self._numbers[kind] += 1
        if files:
            self.write_files(folder, files)
        return files

    def write_files(self, folder: Path, files: Files) -> None:
        """Write files into a folder that is made for them."""
        self._fs.make_directories("dump.mkdir", folder)
        for name, data in files.items():
            temporary = self._fs.write_temporary("dump", folder / name, data)
            self._fs.replace("dump.rename", temporary, folder / name)


def read_folder(folder: Path) -> dict[str, bytes]:
    """The operator information in a folder; nothing where there is none."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.json"))}


def digest(data: bytes) -> str:
    """What tells one operator's information from another's."""
    return hashlib.sha256(data).hexdigest()
