"""Opens an ONNX file, with a one-sentence error for everything that can be wrong with it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.errors import AtcError, invalid_value

MODEL, INPUT_SHAPE = "--model", "--input_shape"

_LARGEST = 2**31 - 1
"""The most bytes of a protobuf file. Larger models keep their weights as external data."""


@dataclass(frozen=True)
class OnnxModel:
    """A parsed model: its protobuf, the version of ONNX's operators, and the input shapes."""

    proto: Any
    opset: int
    shapes: Mapping[str, tuple[int, ...]]


def read_model(path: Path, input_shape: str) -> OnnxModel:
    """Read a model and determine the shapes of its inputs.

    Raises ``AtcError`` if the package onnx is missing, the file is no model, external data cannot
    be read, or a shape is not known before the run.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise AtcError(
            "E10001",
            "Value [5] for parameter [--framework] is invalid. Reading ONNX models needs the "
            "Python package onnx; install it: pip install 'pytest-ascendcache[onnx]'.",
        ) from None
    _check_file(path)
    proto = _parsed(onnx, path)
    versions = [each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")]
    if not proto.graph.node or not versions:
        raise _bad_model(path, "It describes no ONNX graph; name an .onnx file.")
    newest = onnx.defs.onnx_opset_version()
    if versions[0] > newest:
        raise _bad_model(
            path,
            f"It is of opset {versions[0]}, and the installed package onnx knows at most {newest}; "
            "export the model with an earlier opset, or install a newer onnx.",
        )
    try:
        onnx.load_external_data_for_model(proto, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        reason = f"Weights kept beside it cannot be read: {_line(error)}"
        raise _bad_model(path, reason) from None
    try:
        # By its path, because a model with external data may be larger than a protobuf.
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, ValueError) as error:
        raise _bad_model(path, f"It is no valid ONNX model: {_line(error)}") from None
    return OnnxModel(proto, versions[0], _shapes(proto.graph, input_shape))


def _check_file(path: Path) -> None:
    try:
        status = path.stat()
    except OSError as error:
        raise _bad_model(path, f"It cannot be read ({error.strerror}).") from None
    if not stat.S_ISREG(status.st_mode):
        raise _bad_model(path, "It is no regular file; name an .onnx file.")
    if not status.st_size:
        raise _bad_model(path, "It is empty; export the model again.")
    if status.st_size > _LARGEST:
        raise _bad_model(
            path,
            f"It has {status.st_size} bytes, more than a protobuf file can hold (2 GB); save its "
            "weights as external data.",
        )


def _parsed(onnx: Any, path: Path) -> Any:
    try:
        return onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise _bad_model(path, f"It cannot be read ({error.strerror}).") from None
    except Exception:  # protobuf's error type differs between its implementations
        reason = "It is no whole ONNX file; copy or export the model again."
        raise _bad_model(path, reason) from None


def _bad_model(path: Path, reason: str) -> AtcError:
    return invalid_value(MODEL, path, reason)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split("\n\n", 1)[0].split())
    return f"{text[:300].rstrip('.')}."


def asked_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """The shapes by name in ``--input_shape``, such as ``name:1,16;other:1,3,224,224``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, separator, extents = part.rpartition(":")
        items = [each.strip() for each in extents.split(",")] if extents.strip() else []
        wrong = not separator or not name or not all(each.lstrip("-").isdigit() for each in items)
        if wrong or name in shapes:
            raise AtcError(
                "E10002",
                f"Value [{text}] for parameter [{INPUT_SHAPE}] is invalid. Reason: [{part}] "
                f"{'names an input twice' if name in shapes else 'is no shape'}; write "
                "input_name1:n1,c1,h1,w1;input_name2:n2,c2.",
            )
        shapes[name] = tuple(map(int, items))
    return shapes


def _shapes(graph: Any, text: str) -> dict[str, tuple[int, ...]]:
    """The shape of every input that is not a weight."""
    asked = asked_shapes(text)
    weights = {each.name for each in graph.initializer}
    inputs = {each.name: each for each in graph.input if each.name not in weights}
    for name in asked:
        if name not in inputs:
            raise AtcError(
                "E10016",
                f"Opname [{name}] for parameter [{INPUT_SHAPE}] is not found in the model; its "
                f"inputs are {', '.join(inputs) or 'none'}.",
            )
    return {name: _shape(name, each, asked.get(name), text) for name, each in inputs.items()}


def _shape(name: str, value: Any, asked: tuple[int, ...] | None, text: str) -> tuple[int, ...]:
    if not value.type.HasField("tensor_type"):
        raise invalid_value(MODEL, name, "This input is no tensor; only tensors are converted.")
    declared = value.type.tensor_type
    dims = [
        each.dim_value if each.HasField("dim_value") and each.dim_value >= 0 else -1
        for each in declared.shape.dim
    ]
    if asked is None:
        if not declared.HasField("shape") or -1 in dims:
            shown = dims if declared.HasField("shape") else "unknown"
            hint = ",".join("1" if each < 0 else str(each) for each in dims)
            raise invalid_value(
                INPUT_SHAPE,
                text,
                f"The input [{name}] of the model has the dynamic shape {shown}; give every "
                f"extent, as in {INPUT_SHAPE}={name}:{hint or '1'}.",
            )
        return tuple(dims)
    fits = len(asked) == len(dims) and all(
        own in (-1, given) for own, given in zip(dims, asked, strict=True)
    )
    if min(asked, default=0) < 0 or (declared.HasField("shape") and not fits):
        raise invalid_value(
            INPUT_SHAPE,
            text,
            f"The input [{name}] of the model has the shape {dims}, where -1 may be any extent; "
            "give one that fits, without -1.",
        )
    return asked
