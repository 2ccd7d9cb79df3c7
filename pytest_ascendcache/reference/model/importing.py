"""Converts ONNX's graph to ATC's: shapes, constants, and the operators of each node.

It walks the nodes in the file's order. A node that depends only on constants is computed if its
float results are the same everywhere: integers, shapes, movement of data and the four basic
operations. The package onnx infers shapes and types of the other nodes, and a function of
``mapping`` appends their operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from pytest_ascendcache.operators import OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.network import Node
from pytest_ascendcache.operators.spec import AttributeValue, attributes
from pytest_ascendcache.reference.errors import AtcError, invalid_value
from pytest_ascendcache.reference.model.folding import computed
from pytest_ascendcache.reference.model.graph import Array, Graph, Port
from pytest_ascendcache.reference.model.reading import MODEL, OnnxModel

_FOLDED = """
    Add And Cast CastLike Concat ConstantOfShape Div Equal Expand Flatten Gather GatherElements
    GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pad Range
    ReduceMax ReduceMin ReduceProd ReduceSum Reshape ScatterND Slice Split Squeeze Sub Tile
    Transpose Trilu Unsqueeze Where
"""
FOLDED = frozenset(_FOLDED.split())
"""The ONNX types that are computed here if every input is constant."""

_KERNEL_TYPES = {
    **dict.fromkeys(("float16", "float32", "int32", "int8", "uint8", "bool")),
    "int64": "int32",
}
"""Element types of tensors, and the type that kernels use instead, if any."""

_INFERRED_FROM = 4096
"""The most elements of a constant that shape inference gets: shapes and axes are short."""


class NotMapped(Exception):
    """Why a node cannot become ATC's operators. The text continues "it": "has ...; use ..."."""


def attribute(node: Any, name: str, default: Any) -> Any:
    """An attribute of an ONNX node; a text is decoded."""
    import onnx

    for each in node.attribute:
        if each.name == name:
            value = onnx.helper.get_attribute_value(each)
            return value.decode() if isinstance(value, bytes) else value
    return default


def optional_input(node: Any, place: int) -> str:
    """The name of an input of an ONNX node, or "" if it is not connected."""
    return node.input[place] if len(node.input) > place else ""


class Tensors:
    """The tensors of a graph that is being converted, by their ONNX names: types, constants, other
    names, and what becomes of them in ATC's graph."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._arrays: dict[str, Array] = {}
        self._alias: dict[str, str] = {}
        self._tensors: dict[str, TensorDesc] = {}
        self._weights: dict[str, Array] = {}
        self._names: set[str] = set()
        self._current = ""
        """The node in whose name new tensors are made."""

    def array(self, name: str) -> Array | None:
        """The elements of a constant, or ``None`` if they are known only at run time."""
        return self._arrays.get(self._alias.get(name, name))

    def integers(self, name: str, what: str) -> tuple[int, ...]:
        """The elements of a constant list. Raises ``NotMapped`` if it is not constant."""
        value = self.array(name)
        if value is None:
            raise NotMapped(f"takes its {what} from [{name}], which is known only at run time")
        return tuple(int(each) for each in value.reshape(-1))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an ONNX tensor."""
        if name in self._arrays:
            return tuple(self._arrays[name].shape)
        return tuple(each.dim_value for each in self._types[name].tensor_type.shape.dim)

    def dtype(self, name: str) -> str:
        """The element type that kernels use for an ONNX tensor."""
        kind = self._outer_dtype(name)
        if kind not in _KERNEL_TYPES:
            raise NotMapped(f"has {kind} elements in [{name}]; use {', '.join(_KERNEL_TYPES)}")
        return _KERNEL_TYPES[kind] or kind

    def constant(self, value: Array) -> str:
        """The name of a new weight with this value."""
        name = _fresh(f"{self._current}:const", self._names)
        self._arrays[name] = value
        return name

    def temporary(self, like: str, shape: tuple[int, ...]) -> str:
        """The name of a new tensor between the operators of one node."""
        name = _fresh(f"{self._current}:inner", self._names)
        self._tensors[name] = TensorDesc(shape, data_type(self.dtype(like)))
        return name

    def _tensor(self, name: str) -> TensorDesc:
        """The description of a tensor, which becomes a weight if it is constant."""
        if name not in self._tensors:
            self._tensors[name] = TensorDesc(self.shape(name), data_type(self.dtype(name)))
            if name in self._arrays:
                self._weights[name] = self._narrow(name, self._arrays[name])
        return self._tensors[name]

    def _narrow(self, name: str, value: Array) -> Array:
        if value.dtype != np.int64:
            return np.ascontiguousarray(value)
        limits = np.iinfo(np.int32)
        if value.size and (value.min() < limits.min or value.max() > limits.max):
            raise NotMapped(f"has a constant beyond int32 in [{name}]; kernels only have int32")
        return np.ascontiguousarray(value.astype(np.int32))

    def _outer_dtype(self, name: str) -> str:
        """The element type of an ONNX tensor, as numpy names it."""
        import onnx

        if name in self._arrays:
            return str(self._arrays[name].dtype)
        number = self._types[name].tensor_type.elem_type
        return str(onnx.helper.tensor_dtype_to_np_dtype(number))


class Importer(Tensors):
    """Walks ONNX's graph.

    ``mapped`` has, for each supported ONNX type, a function that converts a node. It calls the
    public methods of this class and of :class:`Tensors`.
    """

    def __init__(
        self, model: OnnxModel, name: str, mapped: Mapping[str, Callable[[Importer, Any], None]]
    ) -> None:
        super().__init__()
        self.opset = model.opset
        self._mapped = mapped
        self._model, self._graph = model, model.proto.graph
        self._name = name
        self._nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._output_name = ""

    def graph(self) -> Graph:
        """The converted graph. Raises ``AtcError`` if a node cannot be converted."""
        try:
            inputs = {name: self._input(name, shape) for name, shape in self._model.shapes.items()}
            self._read_weights()
        except (TypeError, ValueError, KeyError) as error:  # numpy and onnx about damaged tensors
            reason = f"It has a tensor that no version of ONNX allows ({error!r})"[:300]
            raise invalid_value(MODEL, self._name, reason) from None
        self._check_types()
        for number, node in enumerate(self._graph.node):
            self._current = node.name or f"{node.op_type}_{number}"
            self._node(node)
        outputs = {each.name: self._output(each.name, inputs) for each in self._graph.output}
        if not outputs:
            raise invalid_value(MODEL, self._name, "The graph has no output.")
        return Graph(
            self._name, self._tensors, self._weights, tuple(self._nodes), inputs, outputs
        ).live()

    def same(self, source: str) -> None:
        """Convert the node to no operator: its output is the tensor ``source``."""
        self._alias[self._output_name] = self._alias.get(source, source)

    def emit(
        self,
        kind: str,
        inputs: list[str],
        outputs: list[str] | None = None,
        constants: dict[int, tuple[int, ...]] | None = None,
        **given: AttributeValue | None,
    ) -> None:
        """Append an operator, which by default returns the node's first output.

        ``constants`` are integer lists that are inserted as inputs at their places, and that the
        operator is compiled for. ``given`` are attributes.
        """
        made = [self._output_name] if outputs is None else outputs
        taken = list(inputs)
        for place, values in sorted((constants or {}).items()):
            taken.insert(place, self.constant(np.array(values, np.int32)))
        taken = [self._alias.get(name, name) for name in taken]
        described = [self._tensor(name) for name in taken]
        for place, values in (constants or {}).items():
            described[place] = replace(described[place], is_const=True, const_value=values)
        operator = OperatorSpec(
            kind,
            tuple(described),
            tuple(self._tensor(name) for name in made),
            attributes(**given),
            _fresh(self._current, self._node_names),
        )
        self._nodes.append(Node(operator, tuple(taken), tuple(made)))

    def _input(self, name: str, shape: tuple[int, ...]) -> Port:
        import onnx

        (value,) = (each for each in self._graph.input if each.name == name)
        number = value.type.tensor_type.elem_type
        self._types[name] = onnx.helper.make_tensor_type_proto(number, shape)
        self._names.add(name)
        self._current = name
        try:
            self._tensor(name)
        except NotMapped as error:
            raise _cannot("Data", name, str(error)) from None
        return Port(name, str(onnx.helper.tensor_dtype_to_np_dtype(number)))

    def _read_weights(self) -> None:
        from onnx import numpy_helper

        for each in self._graph.initializer:
            self._arrays[each.name] = np.asarray(numpy_helper.to_array(each))
            self._names.add(each.name)

    def _output(self, name: str, inputs: dict[str, Port]) -> Port:
        self._current = name
        if name not in self._arrays and name not in self._types:
            raise invalid_value(MODEL, self._name, f"Nothing gives the output [{name}].")
        dtype = self._outer_dtype(name)
        source = self._alias.get(name, name)
        if source not in inputs and source not in self._arrays:
            return Port(source, dtype)
        inner = self.temporary(source, self.shape(source))
        self.emit("Identity", [source], [inner])
        return Port(inner, dtype)

    def _check_types(self) -> None:
        """Refuse all types that cannot be converted, before anything is computed: each is named
        with its first node, and the list of types follows once."""
        known = {*self._mapped, *FOLDED, "Constant", "Shape", "Size"}
        missing: dict[str, str] = {}
        for number, node in enumerate(self._graph.node):
            if node.domain not in ("", "ai.onnx") or node.op_type not in known:
                kind = f"{node.domain or 'ai.onnx'}::{self.opset}::{node.op_type}"
                missing.setdefault(kind, node.name or f"{node.op_type}_{number}")
        if missing:
            nodes = ", ".join(f"Op [{name}, optype [{kind}]]" for kind, name in missing.items())
            raise AtcError(
                "E19010",
                f"No parser is registered for {nodes}; of ai.onnx there are "
                f"{', '.join(sorted(self._mapped))}.",
            )

    def _node(self, node: Any) -> None:
        self._names.update(node.output)
        if self._computed(node):
            return
        if node.op_type not in self._mapped:
            raise _cannot(
                node.op_type,
                self._current,
                "is known only for constants, and an input is known only at run time",
            )
        self._output_name = node.output[0]
        try:
            self._infer(node)
            self._mapped[node.op_type](self, node)
        except NotMapped as error:
            raise _cannot(node.op_type, self._current, str(error)) from None
        except (TypeError, ValueError, KeyError, IndexError) as error:
            reason = f"is written as no version of the operator allows ({error!r})"
            raise _cannot(node.op_type, self._current, reason) from None

    def _computed(self, node: Any) -> bool:
        """Compute a node if its inputs are constant; returns whether they are."""
        names = [name for name in node.input if name]
        if node.op_type in ("Shape", "Size"):
            extents = np.array(self.shape(names[0]), np.int64)
            if node.op_type == "Size":
                value = np.array(extents.prod(dtype=np.int64), np.int64)
            else:
                first, last = attribute(node, "start", 0), attribute(node, "end", None)
                value = extents[first:last]
            self._arrays[node.output[0]] = value
            return True
        arrays = {name: self._arrays.get(self._alias.get(name, name)) for name in names}
        foldable = node.op_type in FOLDED or node.op_type == "Constant"
        if not foldable or any(value is None for value in arrays.values()):
            return False
        try:
            constants = {name: value for name, value in arrays.items() if value is not None}
            results = computed(node, constants, self.opset)
        except Exception as error:  # numpy and onnx raise anything for a bad constant
            raise _cannot(
                node.op_type, self._current, f"cannot be computed ({type(error).__name__}: {error})"
            ) from None
        for name, value in zip(node.output, results, strict=False):
            self._arrays[name] = np.asarray(value)
        return True

    def _infer(self, node: Any) -> None:
        """Record types and shapes of a node's outputs."""
        import onnx
        from onnx import numpy_helper

        types, data = {}, {}
        for name in filter(None, node.input):
            source = self._alias.get(name, name)
            value = self._arrays.get(source)
            if value is not None:
                number = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                types[name] = onnx.helper.make_tensor_type_proto(number, value.shape)
                if value.size <= _INFERRED_FROM:
                    data[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
            else:
                types[name] = self._types[source]
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset, "")
            if not schema.has_type_and_shape_inference_function:  # LessOrEqual before 16
                schema = onnx.defs.get_schema(node.op_type, onnx.defs.onnx_opset_version(), "")
            made = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=list(self._model.proto.opset_import)
            )
        except (
            onnx.shape_inference.InferenceError,
            onnx.defs.SchemaError,
            onnx.checker.ValidationError,
        ) as error:
            raise NotMapped(
                f"does not fit its inputs: {' '.join(str(error).split())[:300]}"
            ) from None
        for name in filter(None, node.output):
            kind = made.get(name)
            if (
                kind is not None
                and kind.tensor_type.HasField("shape")
                and all(dim.HasField("dim_value") for dim in kind.tensor_type.shape.dim)
            ):
                self._types[name] = kind
            elif name in self._wanted:
                raise NotMapped(f"gives [{name}] a shape that is known only at run time")

    @cached_property
    def _wanted(self) -> frozenset[str]:
        """The names of tensors that a node takes or that are outputs."""
        taken = {name for each in self._graph.node for name in each.input}
        return frozenset(taken | {each.name for each in self._graph.output})

    def is_used(self, name: str) -> bool:
        """Whether a node takes a tensor or the graph returns it."""
        return bool(name) and name in self._wanted


def _fresh(wanted: str, taken: set[str]) -> str:
    """A new name like ``wanted``, which is added to ``taken``."""
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def _cannot(kind: str, name: str, why: str) -> AtcError:
    return AtcError("E19999", f"Op [{name}, optype [{kind}]] cannot be converted: it {why}.")
