"""Small networks in which each operator shows whether it was compiled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from pytest_ascendcache.observation.impostor import TENSOR
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.network import Network, Node

DATA = tuple((index * 7 % 32 - 15.5) / 8 for index in range(32))
"""Numbers of both signs, none of them 0, for which no two operators give the same results."""


@dataclass(frozen=True)
class Probe:
    """One operator with one input: a node of a probe network. ``name`` is its type by default."""

    type: str
    name: str = ""
    shape: tuple[int, ...] = TENSOR.shape
    dtype: str = "float32"
    format: str = "ND"
    attributes: tuple[tuple[str, str, float | int | bool | str], ...] = ()

    @property
    def tensor(self) -> TensorDesc:
        """The operator's input and output."""
        return TensorDesc(self.shape, data_type(self.dtype), self.format)

    @property
    def node_name(self) -> str:
        """The name of the node and the prefix of its tensors' names."""
        return self.name or self.type.lower()

    @property
    def node(self) -> Node:
        """The operator as a node."""
        attributes = tuple(Attribute(*each) for each in self.attributes)
        operator = OperatorSpec(
            self.type, (self.tensor,), (self.tensor,), attributes, name=self.node_name
        )
        return Node(operator, (f"{self.node_name}_data",), (f"{self.node_name}_output",))


def probe_network(
    *probes: Probe | str, name: str = "probes", data: tuple[float, ...] = DATA
) -> Network:
    """A network of independent operators, each with its own data and output."""
    chosen = [Probe(each) if isinstance(each, str) else each for each in probes]
    nodes = tuple(each.node for each in chosen)
    tensors = {
        name: TensorDesc(probe.tensor.shape, probe.tensor.dtype, probe.tensor.format, name=name)
        for probe, node in zip(chosen, nodes, strict=True)
        for name in chain(node.inputs, node.outputs)
    }
    return Network(
        name=name,
        tensors=tensors,
        constants={
            node.inputs[0]: tuple(
                data[index % len(data)] for index in range(tensors[node.inputs[0]].elements)
            )
            for node in nodes
        },
        nodes=nodes,
        outputs=tuple(node.outputs[0] for node in nodes),
    )
