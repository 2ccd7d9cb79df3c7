"""Running a network's kernels in sequence. A bad kernel may crash the process that does this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.operators.spec import OperatorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ExecutionPolicy:
    """Runs the operators of a network, each with its own kernel, in the order of their data."""

    def run(
        self, network: Network, kernels: Mapping[OperatorSpec, tuple[str, bytes]]
    ) -> dict[str, NDArray[Any]]:
        """Run the network. Returns its outputs by name.

        ``kernels`` maps each operator, without its name, to symbol and object of its kernel. Raises
        ``KernelError`` if a kernel cannot be loaded or run.
        """
        from pytest_ascendcache.operators.evaluation import network_constants, network_outputs
        from pytest_ascendcache.reference.kernels.execute import LoadedKernel

        loaded = {
            operator: LoadedKernel(data, symbol) for operator, (symbol, data) in kernels.items()
        }
        values = network_constants(network)
        for node in self.order(network):
            inputs = [values[name] for name in node.inputs]
            results = loaded[node.operator.named("")].run(inputs, node.operator.outputs)
            values.update(zip(node.outputs, results, strict=True))
        return network_outputs(network, values)

    def order(self, network: Network) -> tuple[Node, ...]:
        """The operators, each after those whose outputs it needs."""
        return network.in_order
