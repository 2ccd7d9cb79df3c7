"""Fusion: neighbouring operators of a graph become one operator with one kernel and one entry.

A real ATC has many more and other patterns. What matters for a cache is the same: a fused kernel
depends on every one of its parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import pi
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Node
from pytest_ascendcache.operators.spec import attributes
from pytest_ascendcache.reference.errors import invalid_value
from pytest_ascendcache.reference.kernels import fused_type
from pytest_ascendcache.reference.kernels.fused import ACTIVATIONS, ADD_LAYER_NORM, PRODUCERS
from pytest_ascendcache.reference.model.graph import Graph

_PRODUCTS = ("MatMulV2", "BatchMatMulV2")
_ROOT = 2**-0.5
_SLOPE = (2 / pi) ** 0.5

Match = tuple[tuple[Node, ...], Node]
"""The nodes that a pattern replaces, in their order, and the new node."""


Allows = Callable[[tuple[OperatorSpec, ...]], bool]
"""Whether operators may become one."""


class FusionPolicy:
    """Decides which neighbours become one operator."""

    def fuse(self, graph: Graph, allows: Allows, off: frozenset[str]) -> Graph:
        """Apply every pattern wherever it matches, except for passes that are switched ``off``."""
        for name, find in self.passes():
            if {name, "ALL"} & off:
                continue
            for node in graph.nodes:
                match = find(graph, node)
                if match is not None and allows(tuple(each.operator for each in match[0])):
                    graph = graph.without(*match)
        return graph.live()

    def passes(self) -> tuple[tuple[str, Callable[[Graph, Node], Match | None]], ...]:
        """The passes in their order, by the names that a fusion switch file uses."""
        return (
            ("GeluFusion", self.gelu),
            ("MatMulBiasFusion", self.bias),
            ("AddLayerNormFusion", self.add_layer_norm),
            ("ActivationFusion", self.activation),
        )

    def gelu(self, graph: Graph, node: Node) -> Match | None:
        """GELU as separate operators: x / 2 * (1 + erf(x / sqrt 2)), or the form with tanh.

        ``node`` is its last product.
        """
        for x, gone, kind in _written_out(graph, node):
            spec = node.operator
            operator = replace(
                spec,
                type="GeluV2",
                inputs=(graph.tensors[x],),
                attributes=attributes(approximate=kind),
            )
            return gone, Node(operator, (x,), node.outputs)
        return None

    def bias(self, graph: Graph, node: Node) -> Match | None:
        """The sum of a matrix product and a bias for its columns."""
        if node.operator.type != "Add":
            return None
        for product, bias in (node.inputs, node.inputs[::-1]):
            giver = _only(graph, product, *_PRODUCTS)
            if giver is None or len(giver.inputs) != 2:
                continue
            columns = giver.operator.outputs[0].shape[-1:]
            if graph.tensors[bias].shape != columns or node.operator.outputs != (
                giver.operator.outputs
            ):
                continue
            operator = replace(
                giver.operator, inputs=(*giver.operator.inputs, graph.tensors[bias])
            ).named(_together(giver, node))
            return (giver, node), Node(operator, (*giver.inputs, bias), node.outputs)
        return None

    def add_layer_norm(self, graph: Graph, node: Node) -> Match | None:
        """A sum and its LayerNorm. If other nodes take the sum, it becomes a second output."""
        if node.operator.type != "LayerNorm":
            return None
        add = graph.givers.get(node.inputs[0])
        if add is None or add.operator.type != "Add":
            return None
        spec = add.operator
        if not spec.inputs[0].shape == spec.inputs[1].shape == spec.outputs[0].shape:
            return None
        shared = graph.uses[node.inputs[0]] > 1
        if shared and not _first_taker(graph, node.inputs[0], node):
            return None
        made = (*node.outputs, *(add.outputs if shared else ()))
        operator = OperatorSpec(
            fused_type(*ADD_LAYER_NORM),
            (*spec.inputs, *node.operator.inputs[1:]),
            tuple(graph.tensors[name] for name in made),
            tuple(each for each in node.operator.attributes if each.name != "begin_params_axis"),
            _together(add, node),
        )
        return (add, node), Node(operator, (*add.inputs, *node.inputs[1:]), made)

    def activation(self, graph: Graph, node: Node) -> Match | None:
        """An activation and the operator that produces its input."""
        if node.operator.type not in ACTIVATIONS:
            return None
        giver = _only(graph, node.inputs[0], *PRODUCERS)
        if giver is None or giver.operator.outputs != node.operator.outputs:
            return None
        operator = replace(
            giver.operator,
            type=fused_type(giver.operator.type, node.operator.type),
            attributes=(*giver.operator.attributes, *node.operator.attributes),
        ).named(_together(giver, node))
        return (giver, node), Node(operator, giver.inputs, node.outputs)


def _together(*nodes: Node) -> str:
    return "+".join(node.operator.name for node in nodes)


def _only(graph: Graph, tensor: str, *kinds: str) -> Node | None:
    """The node that computes a tensor, if it has one of these types and no other node takes it."""
    giver = graph.givers.get(tensor)
    if giver is None or giver.operator.type not in kinds or graph.uses[tensor] != 1:
        return None
    return giver


def _first_taker(graph: Graph, tensor: str, node: Node) -> bool:
    """Whether a node is the first of those that take a tensor."""
    taker = next(each for each in graph.nodes if tensor in each.inputs)
    return taker.operator.name == node.operator.name


def _scalar(graph: Graph, name: str) -> float | None:
    value = graph.weights.get(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _near(graph: Graph, name: str, wanted: float) -> bool:
    value = _scalar(graph, name)
    return value is not None and abs(value - wanted) <= 2e-3 * abs(wanted)


def _with_scalar(graph: Graph, node: Node, wanted: float) -> str | None:
    """The name of the other operand if one operand of ``node`` is the constant ``wanted``."""
    for tensor, number in (node.inputs, node.inputs[::-1]):
        if _near(graph, number, wanted):
            return tensor
    return None


def _written_out(graph: Graph, last: Node) -> Iterator[tuple[str, tuple[Node, ...], str]]:
    """GELU's input, nodes and ``approximate`` attribute, if ``last`` is the last of its nodes."""
    if last.operator.type != "Mul":
        return
    halves: list[tuple[str, str, tuple[Node, ...]]] = []
    for one, other in (last.inputs, last.inputs[::-1]):
        product = _only(graph, one, "Mul")
        if product is None:
            continue
        if _near(graph, other, 0.5):  # (x * share) * 0.5
            first, second = product.inputs
            halves += [(first, second, (product,)), (second, first, (product,))]
        half = _with_scalar(graph, product, 0.5)
        if half is not None:  # (x * 0.5) * share, or x * (share * 0.5)
            halves += [(half, other, (product,)), (other, half, (product,))]
    for x, share, nodes in halves:
        plus = _only(graph, share, "Add")
        inner = None if plus is None else _with_scalar(graph, plus, 1.0)
        if plus is None or inner is None:
            continue
        function = _only(graph, inner, "Erf", "Tanh")
        if function is None:
            continue
        find = _erf_argument if function.operator.type == "Erf" else _tanh_argument
        argument = find(graph, function.inputs[0], x)
        if argument is not None:
            kind = "none" if function.operator.type == "Erf" else "tanh"
            yield x, (*argument, function, plus, *nodes, last), kind


def _erf_argument(graph: Graph, name: str, x: str) -> tuple[Node, ...] | None:
    """The node that computes x / sqrt 2."""
    node = _only(graph, name, "RealDiv", "Mul")
    if node is None:
        return None
    if node.operator.type == "RealDiv":
        fits = node.inputs[0] == x and _near(graph, node.inputs[1], 1 / _ROOT)
        return (node,) if fits else None
    return (node,) if _with_scalar(graph, node, _ROOT) == x else None


def _tanh_argument(graph: Graph, name: str, x: str) -> tuple[Node, ...] | None:
    """The nodes that compute sqrt(2 / pi) * (x + 0.044715 * x**3)."""
    scaled = _only(graph, name, "Mul")
    total = None if scaled is None else _with_scalar(graph, scaled, _SLOPE)
    add = None if total is None else _only(graph, total, "Add")
    if scaled is None or add is None or x not in add.inputs:
        return None
    (other,) = (each for each in add.inputs if each != x) if len(set(add.inputs)) == 2 else ("",)
    term = _only(graph, other, "Mul") if other else None
    cube = None if term is None else _with_scalar(graph, term, 0.044715)
    power = None if cube is None else _only(graph, cube, "Pow")
    if term is None or power is None or power.inputs[0] != x:
        return None
    return (power, term, add, scaled) if _near(graph, power.inputs[1], 3.0) else None


def switched_off(path: str) -> frozenset[str]:
    """The passes that the file of ``--fusion_switch_file`` turns off, including ATC's others."""
    if not path:
        return frozenset()
    parameter = "--fusion_switch_file"
    try:
        switches = json.loads(Path(path).read_text(encoding="utf-8-sig"))["Switch"]
        pairs = [pair for group in switches.values() for pair in group.items()]
    except OSError as error:
        raise invalid_value(parameter, path, f"It cannot be read ({error.strerror}).") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        hint = 'It has no switches; write {"Switch": {"GraphFusion": {"ALL": "off"}}}.'
        raise invalid_value(parameter, path, hint) from None
    for name, value in pairs:
        if value not in ("on", "off"):
            raise invalid_value(parameter, path, f"[{name}] is neither on nor off.")
    return frozenset(name for name, value in pairs if value == "off")
