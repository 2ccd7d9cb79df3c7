"""Sample inputs for a release's model, and the outputs of a float32 run to compare with.

Both need numpy, and a run the package onnx too; neither is imported before it is needed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import Release

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

_SEED = 20


class SamplesError(Exception):
    """Says in one sentence why the model cannot be run."""


def sample_inputs(release: Release) -> Arrays:
    """Return the release's own inputs, or some for the shapes of its ONNX model, the same every
    time. Floating-point inputs are normally distributed. Whole numbers are row numbers if the input
    indexes a table, the first and the last row among them; otherwise 0 and 1, as in a mask. Raises
    ``SamplesError`` if a file cannot be read, or the model does not tell its inputs."""
    if release.inputs is not None:
        return _read(release.inputs)
    import numpy as np

    shapes = asked_shapes(release.options.get(atc.INPUT_SHAPE, ""))
    random = np.random.default_rng(_SEED)
    found: Arrays = {}
    graph = _onnx(release).graph
    rows = _rows(graph)
    for name, dtype, declared in _inputs(graph):
        shape = shapes.get(name, declared)
        if min(shape, default=0) < 0:
            raise SamplesError(
                f"the input {name} of {release.model} has the dynamic shape {list(declared)}; "
                f'write inputs = "samples.npz" in {release.path}, or give --input_shape.'
            )
        if np.dtype(dtype).kind == "f":
            found[name] = random.standard_normal(shape).astype(dtype)
        else:
            largest = int(np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else 1
            most = min(rows.get(name, 2), largest + 1)
            found[name] = random.integers(0, most, shape).astype(dtype)
            if name in rows:
                found[name].flat[:1], found[name].flat[-1:] = 0, most - 1
    return found


def asked_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Parse ``--input_shape``, such as ``name:1,16;other:1,3,224,224``; skips unreadable parts."""
    found = {}
    for part in text.split(";"):
        name, separator, extents = part.strip().rpartition(":")
        items = [each.strip() for each in extents.split(",")]
        if separator and all(each.lstrip("-").isdigit() for each in items):
            found[name] = tuple(map(int, items))
    return found


def float32_outputs(release: Release, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    """Run the ONNX model in float32 with onnxruntime, or with the slower package onnx. Raises
    ``SamplesError`` if neither can run it."""
    proto = _onnx(release)
    names = [each.name for each in proto.graph.output]
    path = str(release.model)
    try:
        try:
            import onnxruntime

            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except ImportError:
            from onnx.reference import ReferenceEvaluator

            session = ReferenceEvaluator(path)
        values = session.run(names, dict(inputs))
    except Exception as error:  # either may raise anything, and none of it is a verdict
        reason = " ".join(str(error).split())[:200]
        raise SamplesError(f"{path} cannot be run in float32 ({reason}).") from None
    return dict(zip(names, values, strict=True))


def _read(path: Path) -> Arrays:
    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise SamplesError(
            f"the sample inputs {path} cannot be read ({error}); write an .npz file with an array "
            "for each input of the model."
        ) from None


def _onnx(release: Release) -> Any:
    if release.options.get("framework") != "5":
        raise SamplesError(
            f"{release.model} is not ONNX (--framework=5), so nothing else can run it here."
        )
    try:
        import onnx
    except ImportError:
        raise SamplesError(
            "the package onnx is not installed; pip install 'pytest-ascendcache[onnx]'."
        ) from None
    try:
        return onnx.load(str(release.model), load_external_data=False)
    except Exception as error:  # protobuf's error differs between its implementations
        raise SamplesError(f"{release.model} cannot be read ({error}).") from None


def _rows(graph: Any) -> dict[str, int]:
    """Return the inputs that only index tables of the model, with the rows of the shortest."""
    tables = {each.name: tuple(each.dims) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute:
            tables[node.output[0]] = tuple(node.attribute[0].t.dims)
    found: dict[str, int] = {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            dims = tables.get(node.input[0], ()) if node.op_type == "Gather" and place == 1 else ()
            axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
            rows = dims[axis] if -len(dims) <= axis < len(dims) else 0
            found[name] = min(rows, found.get(name, rows))
    return {name: rows for name, rows in found.items() if rows}


def _inputs(graph: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return name, numpy type and shape of every input but weights; -1 is a dynamic extent."""
    import onnx

    weights = {each.name for each in graph.initializer}
    found = []
    for each in graph.input:
        if each.name in weights:
            continue
        tensor = each.type.tensor_type
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim
        )
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        found.append((each.name, dtype, shape))
    return found
