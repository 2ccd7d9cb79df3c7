"""Running a network: its kernels, one after the other. Only for a process that may die."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_ascendcache.operators.evaluation import network_constants, network_outputs
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.operators.spec import OperatorSpec
from pytest_ascendcache.reference.kernels.execute import LoadedKernel


def run_network(network: Network, kernels: Mapping[OperatorSpec, tuple[str, bytes]]) -> Any:
    """The network's outputs by name. ``kernels`` are symbol and object by nameless operator.

    Raises:
        KernelError: where a kernel cannot be loaded or does not run.
    """
    loaded = {operator: LoadedKernel(data, symbol) for operator, (symbol, data) in kernels.items()}
    values = network_constants(network)
    for node in network.in_order:
        inputs = [values[name] for name in node.inputs]
        results = loaded[node.operator.named("")].run(inputs, node.operator.outputs)
        values.update(zip(node.outputs, results, strict=True))
    return network_outputs(network, values)
