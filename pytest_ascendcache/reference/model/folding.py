"""Computes ONNX nodes whose inputs are all constant, at any version of the operators.

The package onnx computes them, but not the forms of old versions in which some operators take as
attributes what later versions take as inputs; such a node is written in the later form first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pytest_ascendcache.reference.model.graph import Array

_LATER: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "Unsqueeze": (13, ("axes",)),
    "Squeeze": (13, ("axes",)),
    "Pad": (11, ("pads", "value")),
    "Slice": (10, ("starts", "ends", "axes")),
    "Split": (13, ("split",)),
    "ReduceSum": (13, ("axes",)),
}
"""Operators by the version from which on they take these attributes as inputs, in this order."""

_NEW = 13
"""A version in which all of them do."""


def computed(node: Any, arrays: Mapping[str, Array], opset: int) -> Sequence[Any]:
    """Return the outputs of a node for constant inputs. Raises what numpy and onnx raise for
    inputs that do not fit."""
    from onnx.reference import ReferenceEvaluator

    version, names = _LATER.get(node.op_type, (0, ()))
    values = dict(arrays)
    if opset < version:
        node, opset = _later(node, names, values), _NEW
    with np.errstate(all="ignore"):
        results: Any = ReferenceEvaluator(node, opsets={"": opset}).run(None, values)
    return list(results)


def _later(node: Any, names: Sequence[str], values: dict[str, Array]) -> Any:
    """Return a node with attributes moved to inputs, whose values are added to ``values``."""
    import onnx

    given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    inputs = list(node.input)
    for name in names:
        if name not in given:
            inputs.append("")
            continue
        value = given.pop(name)
        kind = np.dtype(np.int64) if isinstance(value, list) else values[inputs[0]].dtype
        inputs.append(f"{node.output[0]}:{name}")
        values[inputs[-1]] = np.asarray(value, kind)
    while inputs and not inputs[-1]:
        inputs.pop()
    return onnx.helper.make_node(node.op_type, inputs, list(node.output), node.name, **given)
