"""Operators as nodes of an ONNX model, for options that compilers accept only with models.

Source: facts ``cann-operator-cache`` section 3.3; needs the package ``onnx``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.launch import ToolchainError

_SAME = ("Abs", "Add", "Exp", "LeakyRelu", "Mul", "Neg", "Relu", "Sigmoid", "Sqrt", "Sub", "Tanh")
_TYPES = {"RealDiv": "Div", **{each: each for each in _SAME}}
"""ONNX's names of operators that become one kernel with the same meaning."""

_ATTRIBUTES = {"LeakyRelu": {"negative_slope": "alpha"}}
_OPSET, _IR_VERSION = 11, 6
"""Old enough for every release of the toolkit."""


def can_write_models() -> bool:
    """Whether the package ``onnx`` is installed."""
    return find_spec("onnx") is not None


def write_model(path: Path, operators: Sequence[OperatorSpec]) -> None:
    """Write a model whose nodes are these operators, each with its own inputs and outputs. Raises
    ``ToolchainError`` for an operator without a counterpart in ONNX."""
    import numpy
    import onnx
    from onnx import helper

    nodes, inputs, outputs = [], list[Any](), list[Any]()
    for operator in operators:
        if operator.type not in _TYPES:
            raise ToolchainError(
                f"{operator} cannot be a node of a model; use one of {', '.join(_TYPES)}."
            )
        names = _ATTRIBUTES.get(operator.type, {})
        ends: dict[str, list[str]] = {"in": [], "out": []}
        for kind, tensors, declared in (
            ("in", operator.inputs, inputs),
            ("out", operator.outputs, outputs),
        ):
            for number, tensor in enumerate(tensors):
                name = f"{operator.name}_{kind}{number}"
                element = helper.np_dtype_to_tensor_dtype(numpy.dtype(tensor.dtype.numpy))
                declared.append(helper.make_tensor_value_info(name, element, tensor.shape))
                ends[kind].append(name)
        node = helper.make_node(_TYPES[operator.type], ends["in"], ends["out"], operator.name)
        for each in operator.attributes:
            attribute = helper.make_attribute(names.get(each.name, each.name), each.value)
            node.attribute.append(attribute)
        nodes.append(node)
    graph = helper.make_graph(nodes, "ascendcache", inputs, outputs)
    opsets = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    onnx.save(model, str(path))
