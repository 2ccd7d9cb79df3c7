"""Reads and writes network files: operators joined by tensors, with constants.

A file is an object with ``network`` (a name), ``tensors`` (described as in ATC's single-operator
JSON, each with a unique name), ``constants`` (values of weights and data by tensor name),
``operators`` (``op``, ``name``, names of ``inputs`` and ``outputs``, ``attr``) and ``outputs``.
A tensor gets its value from one operator, from ``constants``, or, if an operator is compiled for
that value, from ``is_const`` and ``const_value`` of its description. Operators may be in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.singleop import (
    SingleOpError,
    attribute_fields,
    file_content,
    parse_attributes,
    parse_constants,
    parse_tensor,
    parsed_json,
    tensor_fields,
    typed,
)
from pytest_ascendcache.operators.spec import OperatorSpec, TensorDesc
from pytest_ascendcache.words.wrong_use import checked_path


class NetworkError(ValueError):
    """A network file that cannot be used. The text says what is wrong, where, and what to write."""


@dataclass(frozen=True)
class Uniform:
    """A rule for constants: uniformly distributed numbers from ``low`` to ``high``, by ``seed``.

    They are the same on every machine; see ``evaluation.constant_array``.
    """

    seed: int
    low: float
    high: float


@dataclass(frozen=True)
class Node:
    """An operator in a graph, with the names of its input and output tensors."""

    operator: OperatorSpec
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """Operators joined by tensors. ``constants`` are elements in row-major order, or a rule."""

    name: str
    tensors: Mapping[str, TensorDesc]
    constants: Mapping[str, tuple[float | int, ...] | Uniform]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]

    @property
    def operators(self) -> tuple[OperatorSpec, ...]:
        """Every operator in file order, which may contain equal operators."""
        return tuple(node.operator for node in self.nodes)

    @cached_property
    def in_order(self) -> tuple[Node, ...]:
        """The operators in an order in which each comes after those whose outputs it takes.

        Raises ``CycleError`` if there is no such order. A network that was read has one.
        """
        makers = {name: index for index, node in enumerate(self.nodes) for name in node.outputs}
        graph = {
            index: [makers[name] for name in node.inputs if name in makers]
            for index, node in enumerate(self.nodes)
        }
        return tuple(self.nodes[index] for index in TopologicalSorter(graph).static_order())


def read_network(path: Path | str) -> Network:
    """Read a network file.

    Raises:
        NetworkError: the file cannot be read or is not JSON; a field is missing, mistyped or
            unknown; a tensor is declared twice or not at all, or has two values or none; constants
            do not fit; the operators have a cycle; a shape is not static.
    """
    named = checked_path("the path of read_network()", path)
    try:
        document = parsed_json(file_content(named, "NETWORK", "describes a network"), named)
        return _network(typed(document, dict, str(named)), str(named))
    except SingleOpError as error:
        raise NetworkError(str(error)) from None


def write_network(path: Path, network: Network) -> None:
    """Write a network so that :func:`read_network` returns an equal one."""
    # On one line, because constants are long and the indenting encoder is ten times slower.
    document = json.dumps(network_document(network), allow_nan=False)
    path.write_text(document + "\n", encoding="utf-8")


def network_document(network: Network) -> dict[str, Any]:
    """The JSON value that :func:`write_network` writes."""
    return {
        "network": network.name,
        "tensors": [
            {**tensor_fields(tensor), "name": name} for name, tensor in network.tensors.items()
        ],
        "constants": {
            name: asdict(value) if isinstance(value, Uniform) else list(value)
            for name, value in network.constants.items()
        },
        "operators": [_node_fields(node) for node in network.nodes],
        "outputs": list(network.outputs),
    }


def _node_fields(node: Node) -> dict[str, Any]:
    return {
        "op": node.operator.type,
        "name": node.operator.name,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        **attribute_fields(node.operator),
    }


_FIELDS = {"network": str, "tensors": list, "constants": dict, "operators": list, "outputs": list}
_NODE_FIELDS = {"op": str, "name": str, "inputs": list, "outputs": list, "attr": list}


def _network(fields: Mapping[str, Any], where: str) -> Network:
    _check_fields(fields, _FIELDS, where, optional={"constants"})
    tensors = _tensors(fields["tensors"], f"{where}: tensors")
    network = Network(
        name=fields["network"],
        tensors=tensors,
        constants=_constants(fields.get("constants", {}), tensors, f"{where}: constants"),
        nodes=tuple(
            _node(each, tensors, f"{where}: operators[{index}]")
            for index, each in enumerate(fields["operators"])
        ),
        outputs=_names(fields["outputs"], tensors, f"{where}: outputs"),
    )
    for what in ("operators", "outputs"):
        if not fields[what]:
            raise NetworkError(f"{where}: {what}: the list is empty; write at least one.")
    _check_values(network, where)
    _check_order(network, where)
    return network


def _check_fields(
    fields: Mapping[str, Any], known: Mapping[str, type], where: str, optional: set[str]
) -> None:
    for name in [*known, *fields]:
        if name not in known:
            raise NetworkError(f"{where}: {name!r} is no field here; there are {', '.join(known)}.")
        if name in fields:
            typed(fields[name], known[name], f"{where}: {name}")
        elif name not in optional:
            raise NetworkError(f"{where}: the field '{name}' is missing; add it.")


def _tensors(items: list[Any], where: str) -> dict[str, TensorDesc]:
    tensors: dict[str, TensorDesc] = {}
    for index, item in enumerate(items):
        place = f"{where}[{index}]"
        tensor = parse_tensor(typed(item, dict, place), place)
        if not tensor.name or tensor.name in tensors:
            reason = "is taken" if tensor.name else "names nothing"
            raise NetworkError(f"{place}.name: {tensor.name!r} {reason}; give it its own name.")
        if not tensor.is_static:
            raise NetworkError(
                f"{place}.shape: {list(tensor.shape)} is not known before the run; "
                "write every extent."
            )
        tensors[tensor.name] = tensor
    return tensors


def _constants(
    items: Mapping[str, Any], tensors: Mapping[str, TensorDesc], where: str
) -> dict[str, tuple[float | int, ...] | Uniform]:
    constants: dict[str, tuple[float | int, ...] | Uniform] = {}
    for name, value in items.items():
        place = f"{where}.{name}"
        _names([name], tensors, where)
        if isinstance(value, dict):
            constants[name] = _uniform(value, tensors[name], place)
        else:
            constants[name] = parse_constants(value, tensors[name].dtype, place)
            _check_count(len(value), tensors[name], place)
    return constants


def _uniform(fields: Mapping[str, Any], tensor: TensorDesc, where: str) -> Uniform:
    _check_fields(fields, {"seed": int, "low": object, "high": object}, where, optional=set())
    if tensor.dtype.name not in ("float16", "float32", "double"):
        raise NetworkError(f"{where}: a rule makes no {tensor.dtype}; list the elements.")
    low, high = parse_constants([fields["low"], fields["high"]], tensor.dtype, where)
    if fields["seed"] < 0 or not low < high:
        raise NetworkError(
            f"{where}: seed {fields['seed']} from {low} to {high} makes nothing; write a seed of "
            "0 or more and a low below the high."
        )
    return Uniform(fields["seed"], float(low), float(high))


def _check_count(count: int, tensor: TensorDesc, where: str) -> None:
    if count != tensor.elements:
        raise NetworkError(
            f"{where}: {count} elements for shape {list(tensor.shape)}; write {tensor.elements}."
        )


def _node(item: object, tensors: Mapping[str, TensorDesc], where: str) -> Node:
    fields = typed(item, dict, where)
    _check_fields(fields, _NODE_FIELDS, where, optional={"name", "attr"})
    if not fields["op"].strip():
        raise NetworkError(f"{where}.op: the operator type is empty; write one such as 'Add'.")
    inputs = _names(fields["inputs"], tensors, f"{where}.inputs")
    outputs = _names(fields["outputs"], tensors, f"{where}.outputs")
    if not outputs:
        raise NetworkError(f"{where}.outputs: the list is empty; name what the operator gives.")
    operator = OperatorSpec(
        type=fields["op"],
        name=fields.get("name", ""),
        # Without the tensors' names, so that equal kernels are equal operators.
        inputs=tuple(replace(tensors[name], name="") for name in inputs),
        outputs=tuple(replace(tensors[name], name="") for name in outputs),
        attributes=parse_attributes(fields, where),
    )
    return Node(operator, inputs, outputs)


def _names(items: list[Any], tensors: Mapping[str, TensorDesc], where: str) -> tuple[str, ...]:
    for item in items:
        if typed(item, str, where) not in tensors:
            raise NetworkError(f"{where}: no tensor is called {item!r}; list it under 'tensors'.")
    return tuple(items)


def _check_values(network: Network, where: str) -> None:
    """Check that every tensor in use gets its value from exactly one place."""
    places: dict[str, str] = {}
    for name, place in _values(network):
        if name in places:
            raise NetworkError(
                f"{where}: {place}: the tensor {name!r} has its value from {places[name]} already; "
                "let one of them give another tensor."
            )
        places[name] = place
    for index, node in enumerate(network.nodes):
        for name in node.inputs:
            if name not in places:
                raise NetworkError(
                    f"{where}: operators[{index}].inputs: nothing gives the tensor {name!r} a "
                    "value; add an operator that does, or a constant."
                )
    for name in network.outputs:
        if name not in places:
            raise NetworkError(
                f"{where}: outputs: nothing gives the tensor {name!r} a value; add an operator."
            )


def _values(network: Network) -> Iterator[tuple[str, str]]:
    """The tensors that get a value, and the place in the file that provides it."""
    for index, (name, tensor) in enumerate(network.tensors.items()):
        if tensor.is_const:
            _check_count(len(tensor.const_value), tensor, f"tensors[{index}].const_value")
            yield name, f"tensors[{index}].const_value"
    for name in network.constants:
        yield name, f"constants.{name}"
    for index, node in enumerate(network.nodes):
        for name in node.outputs:
            yield name, f"operators[{index}].outputs"


def _check_order(network: Network, where: str) -> None:
    try:
        network.in_order  # noqa: B018 - computed for its error
    except CycleError as error:
        round_trip = " -> ".join(
            f"operators[{index}] ({network.nodes[index].operator.type})" for index in error.args[1]
        )
        raise NetworkError(
            f"{where}: the operators wait for each other: {round_trip}; break the cycle."
        ) from None
