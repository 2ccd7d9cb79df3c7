"""What a network computes, according to the reference semantics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_ascendcache.operators.network import Network, Uniform
from pytest_ascendcache.operators.semantics import evaluate
from pytest_ascendcache.operators.spec import TensorDesc

Array = npt.NDArray[Any]


def evaluate_network(network: Network) -> dict[str, Array]:
    """The value of every tensor of the network, by name, in its declared type.

    Operators are computed in float64, and their outputs rounded once, to their declared types.
    Raises ``UnknownOperator`` if an operator has no reference semantics, and ``ValueError`` if the
    inputs or attributes of an operator do not fit.
    """
    values = network_constants(network)
    for node in network.in_order:
        results = evaluate(node.operator, [values[name] for name in node.inputs])
        for name, result in zip(node.outputs, results, strict=True):
            with np.errstate(all="ignore"):
                values[name] = result.astype(_numpy_type(network.tensors[name]))
    return values


def network_constants(network: Network) -> dict[str, Array]:
    """The value of every tensor that no operator computes, by name."""
    values = {
        name: _shaped(tensor.const_value, tensor)
        for name, tensor in network.tensors.items()
        if tensor.is_const
    }
    for name, constant in network.constants.items():
        values[name] = constant_array(constant, network.tensors[name])
    return values


def constant_array(constant: tuple[float | int, ...] | Uniform, tensor: TensorDesc) -> Array:
    """The elements of a constant as an array of its tensor's shape and type."""
    if not isinstance(constant, Uniform):
        return _shaped(constant, tensor)
    # SplitMix64, so that the numbers do not depend on a library's random generator.
    with np.errstate(over="ignore"):
        state = np.arange(1, tensor.elements + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        state += np.uint64(constant.seed % 2**64) * np.uint64(0xD1B54A32D192ED03)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    unit = (state >> np.uint64(11)).astype(np.float64) / 2**53
    return _shaped(constant.low + (constant.high - constant.low) * unit, tensor)


def _shaped(values: Any, tensor: TensorDesc) -> Array:
    return np.asarray(values).astype(_numpy_type(tensor)).reshape(tensor.shape)


def _numpy_type(tensor: TensorDesc) -> np.dtype[Any]:
    if tensor.dtype.numpy is None:
        raise ValueError(f"tensor {tensor.name!r}: numpy cannot hold {tensor.dtype}.")
    return np.dtype(tensor.dtype.numpy)


def network_outputs(network: Network, values: Mapping[str, Array]) -> dict[str, Array]:
    """The network's outputs among the values of all tensors."""
    return {name: values[name] for name in network.outputs}
