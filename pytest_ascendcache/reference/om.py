"""The ``.om`` container of one compiled operator, and what all containers share.

A container is a ZIP archive. Its members are uncompressed and have fixed dates and a fixed order,
so that equal kernels give equal files and the object's bytes appear in the file unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.dtypes import FORMAT_NUMBERS, TYPE_NUMBERS
from pytest_ascendcache.operators.singleop import parse_single_op, single_op_document

FORMAT_VERSION = 1
_MANIFEST, _KERNEL, _METADATA = "manifest.json", "kernel.o", "kernel.json"
EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NAME_LIMIT = 128

UNREADABLE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, IndexError, AttributeError),
    *(RuntimeError, zipfile.BadZipFile, zlib.error),
)
"""The errors that reading a damaged archive or its JSON may raise."""


class OmError(ValueError):
    """A file is not a complete ``.om`` container."""


@dataclass(frozen=True)
class OmModel:
    """A compiled operator: the content of a container."""

    operator: OperatorSpec
    soc: str
    symbol: str
    object: bytes
    metadata: dict[str, Any]

    def to_bytes(self) -> bytes:
        """The container's bytes; equal models give equal bytes."""
        manifest = {
            "format": "ascendcache-om",
            "version": FORMAT_VERSION,
            "operator": single_op_document([self.operator]),
            "soc": self.soc,
            "symbol": self.symbol,
            "sha256": hashlib.sha256(self.object).hexdigest(),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            add_member(archive, _MANIFEST, json_bytes(manifest))
            add_member(archive, _KERNEL, self.object)
            add_member(archive, _METADATA, json_bytes(self.metadata))
        return buffer.getvalue()

    @classmethod
    def read(cls, path: Path) -> OmModel:
        """Open a container and check the kernel's digest."""
        with reading(path), zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            data = archive.read(_KERNEL)
            metadata = json.loads(archive.read(_METADATA))
            check_version(path, manifest, FORMAT_VERSION, "compile")
            if manifest["sha256"] != hashlib.sha256(data).hexdigest():
                raise OmError(f"[{path}] carries a kernel whose digest is wrong.")
            (operator,) = parse_single_op(manifest["operator"], str(path))
            return cls(operator, manifest["soc"], manifest["symbol"], data, metadata)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file raises in the ``with`` block into an :class:`OmError`."""
    try:
        yield
    except OmError:
        raise
    except UNREADABLE as error:
        raise OmError(f"[{path}] is not a whole .om file: {error}.") from None


def check_version(path: Path, manifest: Mapping[str, Any], version: int, verb: str) -> None:
    """Raise :class:`OmError` unless a manifest has this version; ``verb`` says what to do again."""
    if manifest["version"] != version:
        raise OmError(
            f"[{path}] has version {manifest['version']}, not {version}; {verb} it again."
        )


def om_name(index: int, operator: OperatorSpec) -> str:
    """The file name of an operator's container, as ATC forms it.

    It is the node's name if that can be a file name, else index, type and every tensor.
    Source: facts ``cann-operator-cache`` section 6.2.
    """
    name = operator.name
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        parts = [str(index), operator.type]
        for tensor in (*operator.inputs, *operator.outputs):
            parts += _tensor_parts(tensor)
        name = "_".join(parts)
    return name[:_NAME_LIMIT] + ".om"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that no reader ever sees half of it."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path for the content of ``path``.

    The ``with`` block writes it. Afterwards it is renamed to ``path``, or deleted on an error.
    """
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def add_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add a member with a fixed date."""
    archive.writestr(zipfile.ZipInfo(name, EPOCH), data)


def json_bytes(value: object) -> bytes:
    """JSON of a value; equal values give equal bytes."""
    return json.dumps(value, sort_keys=True).encode()


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an ``.npz`` file atomically. Arrays may have any names, even ``file``, which is a
    parameter of ``numpy.savez``."""
    import numpy

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                numpy.lib.format.write_array(member, numpy.asarray(array), allow_pickle=False)
    write_whole(path, buffer.getvalue())


def _tensor_parts(tensor: TensorDesc) -> list[str]:
    """Type, format and extents of a tensor; a type or format without a number is spelled out."""
    name = tensor.dtype.name
    return [
        str(TYPE_NUMBERS.get(name, name)),
        str(FORMAT_NUMBERS.get(tensor.format, tensor.format)),
        *map(str, tensor.shape),
    ]
