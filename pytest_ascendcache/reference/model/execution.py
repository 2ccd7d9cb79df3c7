"""Runs a converted model: its kernels one after the other, on this machine's processor.

Only for a process that may die, like ``kernels.execute``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from pytest_ascendcache.reference.kernels.execute import LoadedKernel
from pytest_ascendcache.reference.model.container import CompiledModel
from pytest_ascendcache.reference.model.graph import Array


def run_model(model: CompiledModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name for inputs by name, both in the types that the ONNX model declares.

    A tensor is released once no further node takes it. Raises ``ValueError`` if an input is
    missing, or has the wrong shape or type, and ``KernelError`` if a kernel cannot be loaded, or
    does not return 0.
    """
    graph = model.graph
    values: dict[str, Array] = dict(graph.weights)
    for name, port in graph.inputs.items():
        values[port.tensor] = _taken(name, inputs, model)
    left = Counter(graph.uses)
    loaded = {
        stem: LoadedKernel(kernel.object, kernel.symbol) for stem, kernel in model.kernels.items()
    }
    for node, stem in zip(graph.nodes, model.order, strict=True):
        arrays = [values[name] for name in node.inputs]
        results = loaded[stem].run(arrays, node.operator.outputs)
        values.update(zip(node.outputs, results, strict=True))
        left.subtract(node.inputs)
        for name in {*node.inputs, *node.outputs}:
            if left[name] <= 0:
                values.pop(name, None)
    return {name: values[port.tensor].astype(port.dtype) for name, port in graph.outputs.items()}


def _taken(name: str, inputs: Mapping[str, Array], model: CompiledModel) -> Array:
    port = model.graph.inputs[name]
    tensor = model.graph.tensors[port.tensor]
    if name not in inputs:
        raise ValueError(
            f"the input [{name}] is missing; give {', '.join(model.graph.inputs)} by name."
        )
    value = inputs[name]
    if value.shape != tensor.shape or value.dtype != np.dtype(port.dtype):
        raise ValueError(
            f"input [{name}] is {value.dtype}{list(value.shape)}; the model takes "
            f"{port.dtype}{list(tensor.shape)}."
        )
    inner = np.dtype(tensor.dtype.numpy)
    narrow = np.ascontiguousarray(value.astype(inner))
    if value.dtype.kind in "iu" and not np.array_equal(narrow, value):
        raise ValueError(f"input [{name}] has numbers beyond {inner}, which its kernels take.")
    return narrow
