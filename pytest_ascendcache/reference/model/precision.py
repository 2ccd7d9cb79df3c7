"""``--precision_mode``: which float type a model's operators use.

ATC's default for inference is ``force_fp16``. The model's inputs and outputs keep their types, and
casts convert them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pytest_ascendcache.operators import OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.network import Node
from pytest_ascendcache.operators.spec import attributes
from pytest_ascendcache.reference.model.graph import Array, Graph, Port

HALF, SINGLE = data_type("float16"), data_type("float32")

_LARGEST = float(np.finfo(np.float16).max)


def in_half_precision(graph: Graph) -> Graph:
    """The graph with float16 instead of float32, and casts at its inputs and outputs."""
    tensors = {name: _half(each) for name, each in graph.tensors.items()}
    weights = {name: _half_array(each) for name, each in graph.weights.items()}
    nodes = [_half_node(each) for each in graph.nodes]
    inputs, outputs = dict(graph.inputs), dict(graph.outputs)
    before: list[Node] = []
    for name, port in graph.inputs.items():
        if graph.tensors[port.tensor].dtype == SINGLE:
            outer = f"{port.tensor}:outer"
            tensors[outer] = graph.tensors[port.tensor]
            before.append(_cast(f"{name}:cast", outer, port.tensor, tensors))
            inputs[name] = Port(outer, port.dtype)
    for name, port in graph.outputs.items():
        if graph.tensors[port.tensor].dtype == SINGLE:
            outer = f"{name}:outer"
            tensors[outer] = graph.tensors[port.tensor]
            nodes.append(_cast(f"{name}:cast", port.tensor, outer, tensors))
            outputs[name] = Port(outer, port.dtype)
    return Graph(graph.name, tensors, weights, (*before, *nodes), inputs, outputs)


def _cast(name: str, source: str, target: str, tensors: Mapping[str, TensorDesc]) -> Node:
    kind = int(tensors[target].dtype == HALF)
    operator = OperatorSpec(
        "Cast", (tensors[source],), (tensors[target],), attributes(dst_type=kind), name
    )
    return Node(operator, (source,), (target,))


def _half(tensor: TensorDesc) -> TensorDesc:
    return replace(tensor, dtype=HALF) if tensor.dtype == SINGLE else tensor


def _half_array(value: Array) -> Array:
    """A weight as float16. Larger numbers become its largest: as infinity times zero is NaN."""
    if value.dtype != np.float32:
        return value
    finite = np.where(np.isfinite(value), np.clip(value, -_LARGEST, _LARGEST), value)
    return np.ascontiguousarray(finite.astype(np.float16))


def _half_node(node: Node) -> Node:
    operator = node.operator
    casts = operator.type == "Cast" and operator.outputs[0].dtype == SINGLE
    halved = replace(
        operator,
        inputs=tuple(map(_half, operator.inputs)),
        outputs=tuple(map(_half, operator.outputs)),
        attributes=attributes(dst_type=1) if casts else operator.attributes,
    )
    return replace(node, operator=halved)
