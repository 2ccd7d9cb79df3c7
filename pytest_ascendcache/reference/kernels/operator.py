"""Operator definitions, and the context in which they are traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from pytest_ascendcache.operators.spec import AttributeValue, OperatorSpec, TensorDesc
from pytest_ascendcache.reference.kernels.errors import UnsupportedOperator
from pytest_ascendcache.reference.kernels.half import narrow, widen
from pytest_ascendcache.reference.kernels.layout import (
    Strides,
    broadcast_shape,
    broadcast_strides,
    merge,
    row_major,
)
from pytest_ascendcache.reference.kernels.trace import Trace, Type, Value, select

FLOATS = ("float16", "float32")
NUMBERS = (*FLOATS, "int32")
STORABLE = (*NUMBERS, "int8", "uint8", "bool")
WIDE = ("int64",)
"""Element types of 64 bits. An operator supports them only if its definition names them."""
MOVABLE = (*STORABLE, *WIDE)
"""Element types that an operator can copy without knowing their meaning."""


@dataclass(frozen=True)
class OperatorDefinition:
    """How one operator type becomes a kernel.

    * ``trace`` computes the outputs of a :class:`KernelContext`.
    * ``dtypes`` are the element types that inputs may have.
    * ``attributes`` are the names of the attributes the type takes. Names that start with an
      underscore belong to the graph engine and are always accepted.
    * ``inputs`` and ``outputs`` are the lowest and highest number of tensors.
    * ``constant_inputs`` are the positions of integer lists that only the compiler reads.
    * ``two_implementations``: CANN's ``all_ops_impl_mode.ini`` lists both high_precision and
      high_performance for the type.
    * ``epilogue`` maps every element before it is stored; a fused activation is one.
    """

    type: str
    trace: Callable[[KernelContext], None]
    dtypes: tuple[str, ...] = FLOATS
    attributes: tuple[str, ...] = ()
    inputs: tuple[int, int] = (1, 1)
    outputs: tuple[int, int] = (1, 1)
    constant_inputs: tuple[int, ...] = ()
    two_implementations: bool = False
    epilogue: Callable[[KernelContext, Value], Value] | None = None


class Tensor:
    """An input or output in memory, addressed by element offset."""

    def __init__(self, trace: Trace, desc: TensorDesc, role: str, pointer: Value) -> None:
        self.desc = desc
        self.shape = desc.shape
        self.strides = row_major(desc.shape)
        self.role = role
        """The tensor's name in error messages, e.g. ``input 0``."""
        self.dtype = desc.dtype.name
        self.bits = desc.dtype.bits
        self.pointer = pointer
        self.epilogue: Callable[[Value], Value] | None = None
        """Maps a value before it is stored."""
        self._trace = trace

    @property
    def is_float(self) -> bool:
        """Whether elements are loaded and stored as floats.

        Integers are loaded and stored as signed words, 64-bit integers as indices.
        """
        return self.dtype in FLOATS

    def load(self, index: Value) -> Value:
        """The element as a float, a word or an index; see :attr:`is_float`."""
        word = self.load_bits(index)
        if self.dtype == "float16":
            return widen(word)
        if self.dtype == "float32":
            return word.as_float()
        return (word << 24).shift_signed(24) if self.dtype == "int8" else word

    def store(self, index: Value, value: Value) -> None:
        """Round a float, or truncate a word, to the element type and write it.

        Every NaN is written as the same NaN, because its sign and payload differ between machines.
        Raises ``UnsupportedOperator`` if the declared element type cannot hold what is computed.
        """
        value = value if self.epilogue is None else self.epilogue(value)
        if isinstance(value, Value) and (value.type is Type.FLOAT) is not self.is_float:
            computed = "numbers with a fraction" if self.is_float is False else "whole numbers"
            raise UnsupportedOperator(
                f"{self.role} is declared {self.dtype}, but {computed} are computed; declare the "
                "element type of the inputs."
            )
        if self.dtype == "float16":
            word = narrow(value)
        elif self.dtype == "float32":
            bits = value.bits()
            word = select((bits & 0x7FFFFFFF).below(0x7F800001), bits, 0x7FC00000)
        else:
            word = self._trace.operand(value, Type.INDEX if self.bits == 64 else Type.WORD)
        self.store_bits(index, word)

    def load_bits(self, index: Value) -> Value:
        """The element's encoding in the low bits of a word, or all of an index."""
        return self._trace.load(self.pointer, index, self.bits)

    def store_bits(self, index: Value, word: Value) -> None:
        """Write an encoding unchanged."""
        self._trace.store(self.pointer, index, self.bits, word)


class Attributes:
    """The attributes of an operator, each of the type that its definition asks for.

    Every method raises :class:`UnsupportedOperator` if the operator has another value, or none
    where there is no default.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        self.spec = spec

    def fail(self, why: str) -> NoReturn:
        """Raise :class:`UnsupportedOperator` with "operator <type> <why>."."""
        raise UnsupportedOperator(f"operator {self.spec.type} {why}.")

    def flag(self, name: str, default: bool = False) -> bool:
        """A bool attribute."""
        return bool(self._typed(name, default, bool, "a bool"))

    def integer(self, name: str, default: int | None = None) -> int:
        """An int attribute, required if there is no default."""
        return int(self._typed(name, default, int, "an int"))

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute, required if there is no default."""
        value = self._typed(name, default, (int, float), "a float")
        if not abs(value) <= 3.4028234663852886e38:
            self._bad_attribute(name, value, "a finite binary32 float")
        return float(value)

    def text(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """A string attribute: one of ``allowed``, or ``default`` if the operator lacks it."""
        value = self.spec.attribute(name)
        if value is None:
            return default
        if not isinstance(value, str) or value not in allowed:
            self._bad_attribute(name, value, f"one of {', '.join(allowed)}")
        return value

    def integers(
        self, name: str, default: tuple[int, ...] | None = None, length: int | None = None
    ) -> tuple[int, ...]:
        """A list_int attribute, of ``length`` elements if given.

        A single int counts as a list of one element.
        """
        kind = "a list_int" if length is None else f"a list_int of {length} elements"
        value = self._attribute(name, default, kind)
        items = value if isinstance(value, tuple) else (value,)
        whole = [each for each in items if isinstance(each, int) and not isinstance(each, bool)]
        if len(whole) != len(items) or length not in (None, len(whole)):
            self._bad_attribute(name, value, kind)
        return tuple(whole)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A required list_float attribute of finite numbers; see :meth:`integers`."""
        value = self._attribute(name, None, "a list_float")
        items = value if isinstance(value, tuple) else (value,)
        numbers = tuple(
            float(each)
            for each in items
            if isinstance(each, (int, float)) and not isinstance(each, bool)
        )
        if len(numbers) != len(items) or not all(abs(each) <= 3.4e38 for each in numbers):
            self._bad_attribute(name, value, "a list_float of finite numbers")
        return numbers

    def _typed(self, name: str, default: AttributeValue | None, kind: Any, noun: str) -> Any:
        value = self._attribute(name, default, noun)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self._bad_attribute(name, value, noun)
        return value

    def _attribute(self, name: str, default: AttributeValue | None, kind: str) -> AttributeValue:
        value = self.spec.attribute(name)
        if value is None:
            value = default
        if value is None:
            self.fail(f"lacks the required attribute {name}; set it to {kind}")
        return value

    def _bad_attribute(self, name: str, value: AttributeValue, kind: str) -> NoReturn:
        self.fail(f"has {value!r} for the attribute {name}; use {kind}")


class KernelContext(Attributes):
    """What an operator definition sees: tensors, attributes, and the trace it appends to.

    ``inputs`` has the operator's order, with ``None`` for an optional input that is not connected.
    The kernel takes the pointers of the connected inputs, then those of the outputs.
    """

    def __init__(
        self,
        definition: OperatorDefinition,
        spec: OperatorSpec,
        trace: Trace,
        precise: bool,
        check_arguments: bool = False,
    ) -> None:
        super().__init__(spec)
        self.trace = trace
        self.precise = precise
        """False while the high_performance implementation is traced."""
        self._definition = definition
        self._check()
        tensors = {f"input {position}": each for position, each in enumerate(spec.inputs)}
        tensors |= {f"output {position}": each for position, each in enumerate(spec.outputs)}
        connected = [role for role, desc in tensors.items() if not desc.is_absent]
        if check_arguments:
            trace.reject_unusable(None, 8)
        pointers = {role: trace.argument(place) for place, role in enumerate(connected)}
        if check_arguments:
            for role, pointer in pointers.items():
                trace.reject_unusable(pointer, tensors[role].dtype.bits // 8)
        made = [
            Tensor(trace, desc, role, pointers[role]) if role in pointers else None
            for role, desc in tensors.items()
        ]
        self.inputs = tuple(made[: len(spec.inputs)])
        self.outputs = tuple(each for each in made[len(spec.inputs) :] if each is not None)
        if definition.epilogue is not None:
            for each in self.outputs:
                each.epilogue = partial(definition.epilogue, self)

    def input(self, position: int) -> Tensor:
        """A required input. Fails if it is not connected."""
        tensor = self.optional_input(position)
        if tensor is None:
            self.fail(f"lacks its input {position}; connect it")
        return tensor

    def optional_input(self, position: int) -> Tensor | None:
        """An input, or ``None`` if it is not connected."""
        return self.inputs[position] if position < len(self.inputs) else None

    def output(self) -> Tensor:
        """The first output."""
        return self.outputs[0]

    def elementwise(self, formula: Callable[..., Value]) -> None:
        """Like :meth:`broadcast`, with one element type for all inputs and the output."""
        for position in range(1, len(self.inputs)):
            self.expect_dtype_of_first(self.input(position))
        self.broadcast(formula, self.input(0).dtype)

    def broadcast(self, formula: Callable[..., Value], dtype: str) -> None:
        """Compute output 0, of type ``dtype``, as ``formula(*elements)``, one for each input.

        Inputs broadcast as in numpy.
        """
        inputs = [self.input(position) for position in range(len(self.inputs))]
        shape = self.common_shape(inputs)
        self.expect_shape(self.output(), shape, dtype)
        self.walk(shape, [broadcast_strides(each.shape, len(shape)) for each in inputs], formula)

    def common_shape(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        """The shape that tensors broadcast to. Fails if they are incompatible."""
        shape = broadcast_shape([each.shape for each in tensors])
        if shape is None:
            shapes = " and ".join(str(list(each.shape)) for each in tensors)
            self.fail(f"cannot broadcast the shapes {shapes}; make unequal extents 1")
        return shape

    def walk(
        self, shape: Sequence[int], strides: Sequence[Strides], formula: Callable[..., Value]
    ) -> None:
        """Fill output 0, which has ``shape``, with ``formula(*elements)``.

        Each input is read with its element of ``strides``.
        """
        extents, (to, *of) = merge(shape, row_major(shape), *strides)
        with self.trace.nest(extents) as indices:
            elements = [
                self.input(position).load(self.offset(indices, steps))
                for position, steps in enumerate(of)
            ]
            self.output().store(self.offset(indices, to), formula(*elements))

    def offset(self, indices: Sequence[Value], strides: Strides, start: int = 0) -> Value:
        """``start`` plus the offset of the element that the loop counters ``indices`` select."""
        total = self.trace.index(start)
        for index, step in zip(indices, strides, strict=True):
            total = total + index * step
        return total

    def constant_integers(self, position: int, name: str) -> tuple[int, ...] | None:
        """The attribute ``name``, else the constant input ``position``, else ``None``.

        CANN passes such a list either way.
        """
        if self.spec.attribute(name) is not None:
            return self.integers(name)
        if self.optional_input(position) is None:
            return None
        desc = self.spec.inputs[position]
        if not desc.is_const:
            self.fail(
                f"needs {name} when it is compiled, but input {position} is not constant; "
                f"give it is_const and const_value, or set the attribute {name}"
            )
        return tuple(int(each) for each in desc.const_value)

    def axes(self, axes: Sequence[int], rank: int, name: str = "axes") -> tuple[int, ...]:
        """``axes`` counted from the front, sorted, without duplicates.

        Fails with the attribute's ``name`` for an axis that a tensor of this rank does not have.
        """
        for axis in axes:
            if not -rank <= axis < rank:
                self.fail(
                    f"has {name} {list(axes)}, but input 0 has {rank} dimensions; "
                    f"use axes from {-rank} to {rank - 1}"
                )
        return tuple(sorted({axis % rank for axis in axes}))

    def axis(self, name: str, rank: int, default: int | None = None) -> int:
        """An int attribute that names one axis, counted from the front."""
        return self.axes((self.integer(name, default),), rank, name)[0]

    def expect_shape(self, tensor: Tensor, shape: Sequence[int], dtype: str | None = None) -> None:
        """Fail unless the tensor declares this shape and, if given, this element type."""
        if tensor.shape != tuple(shape):
            self.fail(
                f"declares shape {list(tensor.shape)} for {tensor.role}, "
                f"but its inputs and attributes ask for {list(shape)}; declare that"
            )
        if dtype is not None and tensor.dtype != dtype:
            self.fail(f"declares {tensor.dtype} for {tensor.role}; declare {dtype}")

    def expect_dtype_of_first(self, tensor: Tensor) -> None:
        """Fail unless an input has the element type of input 0."""
        if tensor.dtype != self.input(0).dtype:
            self.fail(
                f"has {self.input(0).dtype} for input 0 and {tensor.dtype} for {tensor.role}; "
                "use one type for both"
            )

    def _check(self) -> None:
        spec, definition = self.spec, self._definition
        for noun, tensors, (lowest, highest) in (
            ("input", spec.inputs, definition.inputs),
            ("output", spec.outputs, definition.outputs),
        ):
            if not lowest <= len(tensors) <= highest:
                wanted = str(lowest) if lowest == highest else f"{lowest} to {highest}"
                self.fail(f"has {len(tensors)} {noun}(s); give it {wanted}")
            for position, tensor in enumerate(tensors):
                self._check_tensor(tensor, f"{noun} {position}", position >= lowest)
        for attribute in spec.attributes:
            if attribute.name not in definition.attributes and not attribute.name.startswith("_"):
                known = ", ".join(definition.attributes) or "none"
                self.fail(f"does not know the attribute {attribute.name!r}; it knows {known}")

    def _check_tensor(self, tensor: TensorDesc, role: str, optional: bool) -> None:
        if tensor.is_absent:
            if not optional:
                self.fail(f"lacks its {role}; connect it")
            return
        allowed = dtypes = self._definition.dtypes
        if not role.startswith("input"):
            allowed = (*STORABLE, *(each for each in WIDE if each in dtypes))
        if role in (f"input {position}" for position in self._definition.constant_inputs):
            allowed = ("int32", "int64")
        if tensor.dtype.name not in allowed:
            instead = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            self.fail(f"has no kernel for {tensor.dtype} ({role}); use {instead}")
        if not tensor.is_static:
            self.fail(
                f"has the dynamic shape {list(tensor.shape)} for {role}; only static shapes are "
                "compiled here, so give every extent"
            )
