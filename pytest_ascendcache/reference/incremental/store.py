"""Kernels on disk: ``.o``, ``.json`` and ``.info``, published atomically.

``.info`` is the commit point: it decides reuse, so it is removed first and published last.
``.json`` contains the object's digest, which is checked before a kernel is loaded. So whatever
interrupts a compile, the next run finds a complete kernel or none. (MindSpore writes all three in
place; a half-written ``.json`` then makes later runs fail. Facts section 1.4.)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.cache.entry import (
    EntryFiles,
    LookupPolicy,
    StorePolicy,
    kernel_name,
)
from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.incremental.info import InfoInputs, InfoPolicy, info_path

LOCK_NAME = ".kernel_meta.lock"


class ReusePolicy:
    """Decides which kernels on disk are reused."""

    def find(self, fs: Fs, entry: EntryFiles, inputs: InfoInputs, info: InfoPolicy) -> bytes | None:
        """The kernel's object, or ``None`` if ``.info`` does not match or the object is damaged."""
        if not info.allows_reuse(fs, entry, inputs):
            return None
        return self.verified(fs, entry, inputs.operator)

    def verified(self, fs: Fs, entry: EntryFiles, operator: OperatorSpec) -> bytes | None:
        """The object, or ``None`` if ``.json`` does not describe it."""
        return LookupPolicy().verified(fs, entry, kernel_json(operator, entry.stem))


class KernelMetaPolicy:
    """Publishes kernels atomically and synced to disk."""

    def publish(
        self, fs: Fs, entry: EntryFiles, data: bytes, inputs: InfoInputs, info: InfoPolicy
    ) -> bool:
        """Write the three files. Returns whether that succeeded.

        A failure is not an error: the compile has succeeded, and the network can run.
        """
        try:
            with fs.lock("meta.store.lock", entry.directory / LOCK_NAME):
                self.replace_files(fs, self.contents(entry, data, inputs, info))
        except (OSError, LockUnavailable):
            return False
        return True

    def contents(
        self, entry: EntryFiles, data: bytes, inputs: InfoInputs, info: InfoPolicy
    ) -> dict[Path, bytes]:
        """Path and content of the three files, in the order in which they are published."""
        fields = kernel_json(inputs.operator, entry.stem)
        return {
            entry.object: data,
            entry.metadata: StorePolicy().metadata_text(data, fields),
            info_path(entry): info.text(inputs),
        }

    def replace_files(self, fs: Fs, contents: Mapping[Path, bytes]) -> None:
        """Publish the files in this order, in place of whatever has their names."""
        written: dict[Path, Path] = {}
        try:
            for path, data in contents.items():
                point = f"meta.store{path.suffix}"
                written[path] = fs.write_temporary(point, path, data)
            for path in reversed(list(contents)):
                self.clear(fs, path)
            for path, temporary in written.items():
                fs.replace(f"meta.store{path.suffix}.rename", temporary, path)
        except BaseException:
            for temporary in written.values():
                fs.remove("meta.store.abandon", temporary)
            raise

    def clear(self, fs: Fs, path: Path) -> None:
        """Remove what has this name: a file, a link, or an empty directory."""
        StorePolicy().clear(fs, path)


def kernel_json(operator: OperatorSpec, stem: str) -> dict[str, Any]:
    """The ``.json`` without the digest. Source: facts ``mindspore-incremental`` section 1.3."""
    return {
        "binFileName": stem,
        "binFileSuffix": ".o",
        "blockDim": 1,
        "kernelName": kernel_name(stem),
        "magic": "RT_DEV_BINARY_MAGIC_ELF",
        "opParaSize": 0,
        "parameters": [0] * (len(operator.inputs) + len(operator.outputs)),
        "workspace": {"num": 0, "size": [], "type": []},
    }
