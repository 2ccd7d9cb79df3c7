"""The ``.om`` container: one compiled operator, its kernel object carried unchanged.

A ZIP archive whose members are stored uncompressed, with fixed dates and order, so that equal
kernels give equal files and the object's bytes can be found as they are.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.numbers import FORMAT_NUMBERS, TYPE_NUMBERS
from pytest_ascendcache.operators.singleop import parse_single_op, single_op_document

FORMAT_VERSION = 1
_MANIFEST, _KERNEL, _METADATA = "manifest.json", "kernel.o", "kernel.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NAME_LIMIT = 128


_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged archive or its JSON may raise."""


class OmError(ValueError):
    """A file that is not a whole ``.om`` container."""


@dataclass(frozen=True)
class Model:
    """What a container holds."""

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
            for name, data in (
                (_MANIFEST, _json(manifest)),
                (_KERNEL, self.object),
                (_METADATA, _json(self.metadata)),
            ):
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
        return buffer.getvalue()

    @classmethod
    def read(cls, path: Path) -> Model:
        """Open a container and check the kernel's digest.

        Raises:
            OmError: where the file is not a whole container.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                manifest = json.loads(archive.read(_MANIFEST))
                data = archive.read(_KERNEL)
                metadata = json.loads(archive.read(_METADATA))
            if manifest["version"] != FORMAT_VERSION:
                raise OmError(
                    f"[{path}] has version {manifest['version']}, not {FORMAT_VERSION}; "
                    "compile it again."
                )
            if manifest["sha256"] != hashlib.sha256(data).hexdigest():
                raise OmError(f"[{path}] carries a kernel whose digest is wrong.")
            (operator,) = parse_single_op(manifest["operator"], str(path))
            return cls(operator, manifest["soc"], manifest["symbol"], data, metadata)
        except OmError:
            raise
        except _UNREADABLE as error:
            raise OmError(f"[{path}] is not a whole .om file: {error}.") from None


def om_name(index: int, operator: OperatorSpec) -> str:
    """File name of an operator's container, as ATC names it.

    The node's own name where it can be a file name, else index, type and every tensor.
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
    """Write a file so that nobody ever sees half of it."""
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
    """Type, format and extents; what has no number is spelled out."""
    name = tensor.dtype.name
    return [
        str(TYPE_NUMBERS.get(name, name)),
        str(FORMAT_NUMBERS.get(tensor.format, tensor.format)),
        *map(str, tensor.shape),
    ]


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1).encode()
