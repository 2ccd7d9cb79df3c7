"""A model in ATC's terms: operators joined by tensors, with weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_ascendcache.operators import TensorDesc
from pytest_ascendcache.operators.network import Node

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True)
class Port:
    """An input or output as the model's user sees it.

    ``tensor`` holds it inside the graph, in an element type that kernels have; ``dtype`` is the
    user's element type, as numpy names it.
    """

    tensor: str
    dtype: str


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they can run; ``weights`` are the tensors no node computes."""

    name: str
    tensors: Mapping[str, TensorDesc]
    weights: Mapping[str, Array]
    nodes: tuple[Node, ...]
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]

    @cached_property
    def givers(self) -> dict[str, Node]:
        """The node that computes a tensor, by the tensor's name."""
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def uses(self) -> Counter[str]:
        """How often a tensor is used, as an input of a node or as an output of the graph."""
        uses = Counter(name for node in self.nodes for name in node.inputs)
        uses.update(port.tensor for port in self.outputs.values())
        return uses

    def without(self, gone: Iterable[Node], new: Node) -> Graph:
        """The graph without the nodes ``gone``, and with ``new`` in the place of the last one."""
        names = {node.operator.name for node in gone}
        last = max(place for place, node in enumerate(self.nodes) if node.operator.name in names)
        nodes = [
            new if place == last else node
            for place, node in enumerate(self.nodes)
            if place == last or node.operator.name not in names
        ]
        return replace(self, nodes=tuple(nodes))

    def live(self) -> Graph:
        """The graph without nodes and tensors that no output depends on."""
        wanted = {port.tensor for port in self.outputs.values()}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if wanted & set(node.outputs):
                kept.append(node)
                wanted |= set(node.inputs)
        wanted |= {port.tensor for port in self.inputs.values()}
        wanted |= {name for node in kept for name in node.outputs}
        return replace(
            self,
            nodes=tuple(reversed(kept)),
            tensors={name: each for name, each in self.tensors.items() if name in wanted},
            weights={name: each for name, each in self.weights.items() if name in wanted},
        )
