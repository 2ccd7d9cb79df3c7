"""From ONNX's graph to ATC's: shapes, constants, and the operators of each node.

One walk in the file's order: what depends on constants alone is computed (integers, shapes,
movement of data, and the four basic operations, whose float results are the same everywhere),
shapes and types of the rest are inferred by the package onnx, and ``mapping`` says which operators
do the work.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from pytest_ascendcache.operators import OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.network import Node
from pytest_ascendcache.operators.spec import AttributeValue, attributes
from pytest_ascendcache.reference.errors import AtcError, invalid_value
from pytest_ascendcache.reference.model.graph import Array, Graph, Port
from pytest_ascendcache.reference.model.mapping import MAPPED, NotMapped, attribute
from pytest_ascendcache.reference.model.reading import MODEL, OnnxModel

_FOLDED = """
    Add And Cast CastLike Concat ConstantOfShape Div Equal Expand Flatten Gather GatherElements
    GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pad Range
    ReduceMax ReduceMin ReduceProd ReduceSum Reshape ScatterND Slice Split Squeeze Sub Tile
    Transpose Trilu Unsqueeze Where
"""
FOLDED = frozenset(_FOLDED.split())
"""What is computed here where every input is constant."""

_KERNEL_TYPES = {
    **dict.fromkeys(("float16", "float32", "int32", "int8", "uint8", "bool")),
    "int64": "int32",
}
"""Element types of tensors, and what they become where kernels have another."""

_INFERRED_FROM = 4096
"""Elements of a constant that shape inference may look at: shapes and axes are short."""


class Importer:
    """The walk. ``mapping`` calls its public methods for the node that is being mapped."""

    def __init__(self, model: OnnxModel, name: str) -> None:
        self.opset = model.opset
        self._model, self._graph = model, model.proto.graph
        self._name = name
        self._types: dict[str, Any] = {}
        self._arrays: dict[str, Array] = {}
        self._alias: dict[str, str] = {}
        self._tensors: dict[str, TensorDesc] = {}
        self._weights: dict[str, Array] = {}
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._node_names: set[str] = set()
        self._current = ""

    def graph(self) -> Graph:
        """The whole graph.

        Raises:
            AtcError: for a node that has no counterpart.
        """
        inputs = {name: self._input(name, shape) for name, shape in self._model.shapes.items()}
        self._read_weights()
        self._check_types()
        for number, each in enumerate(self._graph.node):
            self._current = each.name or f"{each.op_type}_{number}"
            self._node(each)
        outputs = {each.name: self._output(each.name, inputs) for each in self._graph.output}
        if not outputs:
            raise invalid_value(MODEL, self._name, "The graph has no output.")
        return Graph(
            self._name, self._tensors, self._weights, tuple(self._nodes), inputs, outputs
        ).live()

    # --- for mapping ---------------------------------------------------------------------

    def array(self, name: str) -> Array | None:
        """The elements of a constant, ``None`` of what is known only at run time."""
        return self._arrays.get(self._alias.get(name, name))

    def integers(self, name: str, what: str) -> tuple[int, ...]:
        """The elements of a constant list.

        Raises:
            NotMapped: where it is not constant.
        """
        found = self.array(name)
        if found is None:
            raise NotMapped(f"takes its {what} from [{name}], which is known only at run time")
        return tuple(int(each) for each in found.reshape(-1))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one of ONNX's tensors."""
        if name in self._arrays:
            return tuple(self._arrays[name].shape)
        return tuple(each.dim_value for each in self._types[name].tensor_type.shape.dim)

    def dtype(self, name: str) -> str:
        """The element type that kernels have for one of ONNX's tensors."""
        import onnx

        if name in self._arrays:
            kind = str(self._arrays[name].dtype)
        else:
            number = self._types[name].tensor_type.elem_type
            kind = str(onnx.helper.tensor_dtype_to_np_dtype(number))
        if kind not in _KERNEL_TYPES:
            raise NotMapped(f"has {kind} elements in [{name}]; use {', '.join(_KERNEL_TYPES)}")
        return _KERNEL_TYPES[kind] or kind

    def constant(self, value: Array) -> str:
        """A weight that the mapping makes up."""
        name = _fresh(f"{self._current}:const", self._names)
        self._arrays[name] = value
        return name

    def temporary(self, like: str, shape: tuple[int, ...], dtype: str = "") -> str:
        """A tensor between the operators of one node."""
        name = _fresh(f"{self._current}:inner", self._names)
        self._tensors[name] = TensorDesc(shape, data_type(dtype or self.dtype(like)))
        return name

    def same(self, output: str, source: str) -> None:
        """``output`` is nothing but ``source``."""
        self._alias[output] = self._alias.get(source, source)

    def emit(
        self,
        kind: str,
        inputs: list[str],
        outputs: list[str],
        constants: dict[int, tuple[int, ...]] | None = None,
        **given: AttributeValue,
    ) -> None:
        """Append an operator; ``constants`` are integer lists it is compiled for, by place."""
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
            tuple(self._tensor(name) for name in outputs),
            attributes(**given),
            _fresh(self._current, self._node_names),
        )
        self._nodes.append(Node(operator, tuple(taken), tuple(outputs)))

    # --- tensors -------------------------------------------------------------------------

    def _tensor(self, name: str) -> TensorDesc:
        """The description of a tensor, which is a weight where it is constant."""
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
            raise NotMapped(f"has a constant beyond int32 in [{name}]; kernels have int32 alone")
        return np.ascontiguousarray(value.astype(np.int32))

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
        import onnx

        self._current = name
        if name in self._arrays:
            dtype = str(self._arrays[name].dtype)
        elif name in self._types:
            number = self._types[name].tensor_type.elem_type
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(number))
        else:
            raise invalid_value(MODEL, self._name, f"Nothing gives the output [{name}].")
        source = self._alias.get(name, name)
        if source not in inputs and source not in self._arrays:
            return Port(source, dtype)
        inner = self.temporary(source, self.shape(source))
        self.emit("Identity", [source], [inner])
        return Port(inner, dtype)

    # --- nodes ---------------------------------------------------------------------------

    def _check_types(self) -> None:
        """Refuse the first node that cannot be converted, before anything is computed."""
        for number, each in enumerate(self._graph.node):
            known = each.op_type in MAPPED or each.op_type in FOLDED
            if each.domain not in ("", "ai.onnx") or not (
                known or each.op_type in ("Constant", "Shape", "Size")
            ):
                domain = each.domain or "ai.onnx"
                name = each.name or f"{each.op_type}_{number}"
                raise AtcError(
                    "E19010",
                    f"No parser is registered for Op [{name}, optype "
                    f"[{domain}::{self.opset}::{each.op_type}]]; of ai.onnx there are "
                    f"{', '.join(sorted(MAPPED))}.",
                )

    def _node(self, each: Any) -> None:
        self._names.update(each.output)
        if self._computed(each):
            return
        if each.op_type not in MAPPED:
            raise _cannot(
                each.op_type,
                self._current,
                "is known only for constants, and an input is known only at run time",
            )
        try:
            self._infer(each)
            MAPPED[each.op_type](self, each)
        except NotMapped as error:
            raise _cannot(each.op_type, self._current, str(error)) from None

    def _computed(self, each: Any) -> bool:
        """Compute a node whose inputs are constant; whether it was one."""
        names = [name for name in each.input if name]
        if each.op_type in ("Shape", "Size"):
            extents = np.array(self.shape(names[0]), np.int64)
            if each.op_type == "Size":
                value = np.array(extents.prod(dtype=np.int64), np.int64)
            else:
                first, last = attribute(each, "start", 0), attribute(each, "end", None)
                value = extents[first:last]
            self._arrays[each.output[0]] = value
            return True
        arrays = {name: self._arrays.get(self._alias.get(name, name)) for name in names}
        foldable = each.op_type in FOLDED or each.op_type == "Constant"
        if not foldable or any(value is None for value in arrays.values()):
            return False
        from onnx.reference import ReferenceEvaluator

        try:
            with np.errstate(all="ignore"):
                results = ReferenceEvaluator(each, opsets={"": self.opset}).run(None, arrays)
        except Exception as error:  # whatever numpy and onnx say of a bad constant
            raise _cannot(
                each.op_type, self._current, f"cannot be computed ({type(error).__name__}: {error})"
            ) from None
        for name, value in zip(each.output, results, strict=False):
            self._arrays[name] = np.asarray(value)
        return True

    def _infer(self, each: Any) -> None:
        """Note types and shapes of what a node gives."""
        import onnx
        from onnx import numpy_helper

        types, data = {}, {}
        for name in filter(None, each.input):
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
            schema = onnx.defs.get_schema(each.op_type, self.opset, "")
            made = onnx.shape_inference.infer_node_outputs(
                schema, each, types, data, opset_imports=list(self._model.proto.opset_import)
            )
        except (onnx.shape_inference.InferenceError, onnx.defs.SchemaError) as error:
            raise NotMapped(
                f"does not fit its inputs: {' '.join(str(error).split())[:300]}"
            ) from None
        for name in filter(None, each.output):
            kind = made.get(name)
            dims = None if kind is None else kind.tensor_type.shape.dim
            if (
                kind is None
                or dims is None
                or not kind.tensor_type.HasField("shape")
                or not all(dim.HasField("dim_value") for dim in dims)
            ):
                if name in self._wanted:
                    raise NotMapped(f"gives [{name}] a shape that is known only at run time")
                continue
            self._types[name] = kind

    @cached_property
    def _wanted(self) -> frozenset[str]:
        """Tensors that something takes."""
        taken = {name for each in self._graph.node for name in each.input}
        return frozenset(taken | {each.name for each in self._graph.output})

    def is_used(self, name: str) -> bool:
        """Whether something takes a tensor."""
        return bool(name) and name in self._wanted


def _fresh(wanted: str, taken: set[str]) -> str:
    """A name that nothing has yet."""
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def _cannot(kind: str, name: str, why: str) -> AtcError:
    return AtcError("E19999", f"Op [{name}, optype [{kind}]] cannot be converted: it {why}.")
