"""An operator: its type, tensors and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from math import copysign, prod

from pytest_ascendcache.operators.dtypes import DataType, data_type, type_names
from pytest_ascendcache.words import instead
from pytest_ascendcache.words.wrong_use import WrongUse

AttributeValue = (
    bool
    | int
    | float
    | str
    | tuple[bool, ...]
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[str, ...]
    | tuple[tuple[int, ...], ...]
)

_LISTED = 3
"""How many equal tensors in a row a text lists; more are counted."""


def _negative_zeros(values: tuple[object, ...]) -> tuple[int, ...]:
    """The places of -0.0, which compares equal to 0.0 but makes a different kernel."""
    if 0 not in values:
        return ()
    return tuple(
        place
        for place, each in enumerate(values)
        if isinstance(each, float) and each == 0 and copysign(1, each) < 0
    )


def checked_type(name: object) -> DataType:
    """The data type of a name that a user wrote. Raises ``WrongUse`` if there is none."""
    try:
        return data_type(name)  # type: ignore[arg-type]  # a user may write anything
    except (KeyError, TypeError):
        known = type_names()
        raise WrongUse(f"{name!r} is no data type; {instead(str(name), known)}") from None


def checked_shape(given: object) -> tuple[int, ...]:
    """A shape that a user wrote. Raises ``WrongUse`` for what is no shape."""
    numbers = tuple(given) if isinstance(given, (tuple, list)) else None
    if numbers is None or not all(
        isinstance(each, int) and not isinstance(each, bool) and each >= -1 for each in numbers
    ):
        raise WrongUse(f"{given!r} is no shape; write whole numbers, such as 4, 8.")
    return numbers


@dataclass(frozen=True)
class TensorDesc:
    """Shape, type and layout of one input or output.

    ``shape`` counts elements per dimension. -1 is a dimension known only at run time;
    ``shape_range`` bounds it (lowest and highest extent, -1 for no upper bound).
    ``const_value`` holds the elements of a constant input in row-major order.
    """

    shape: tuple[int, ...]
    dtype: DataType
    format: str = "ND"
    name: str = ""
    origin_format: str = ""
    origin_shape: tuple[int, ...] | None = None
    shape_range: tuple[tuple[int, int], ...] = ()
    dynamic_input: str = ""
    is_const: bool = False
    const_value: tuple[float | int | bool, ...] = ()
    _negative_zeros: tuple[int, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DataType) or not isinstance(self.shape, tuple):
            raise WrongUse(
                f"TensorDesc({self.shape!r}, {self.dtype!r}) has no tuple as shape and no DataType "
                "as dtype; write TensorDesc.of('float16', 4, 8)."
            )
        if places := _negative_zeros(self.const_value):
            object.__setattr__(self, "_negative_zeros", places)

    @classmethod
    def of(cls, dtype: str, *shape: int, format: str = "ND", name: str = "") -> TensorDesc:
        """A static tensor, e.g. ``TensorDesc.of("float16", 16, 32)``."""
        return cls(checked_shape(shape), checked_type(dtype), format=format, name=name)

    @property
    def is_static(self) -> bool:
        """Whether every extent is known when the kernel is compiled."""
        return all(extent >= 0 for extent in self.shape)

    @property
    def is_absent(self) -> bool:
        """Whether this describes an optional input that is not connected."""
        return self.format == "RESERVED" and self.dtype.name == "UNDEFINED"

    @property
    def elements(self) -> int:
        """The number of elements of a static tensor; 1 for a scalar."""
        return prod(self.shape)


@dataclass(frozen=True)
class Attribute:
    """A named constant of an operator; ``type`` is ATC's name of its type, e.g. ``list_int``."""

    name: str
    type: str
    value: AttributeValue
    _negative_zeros: tuple[int, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        if places := _negative_zeros(values):
            object.__setattr__(self, "_negative_zeros", places)


def attributes(**values: AttributeValue | None) -> tuple[Attribute, ...]:
    """Attributes with ATC's names of their types, without those that are ``None``.

    An empty tuple is a ``list_int``.
    """
    return tuple(
        Attribute(name, _attribute_type(value), value)
        for name, value in values.items()
        if value is not None
    )


def _attribute_type(value: object) -> str:
    if isinstance(value, tuple):
        return f"list_{_attribute_type(value[0] if value else 0)}"
    return {bool: "bool", int: "int", float: "float", str: "string"}[type(value)]


@dataclass(frozen=True, repr=False)
class OperatorSpec:
    """An operator that a toolchain compiles.

    ``type`` is the operator type (``SoftmaxV2``), ``name`` the node's name. Two specs that differ
    only in ``name`` describe the same kernel. ``fuzzy`` carries ATC's deprecated ``compile_flag``.
    """

    type: str
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    attributes: tuple[Attribute, ...] = ()
    name: str = ""
    fuzzy: bool = False

    def __post_init__(self) -> None:
        tensors = (self.inputs, self.outputs)
        if not all(isinstance(each, tuple) for each in tensors):
            raise WrongUse(
                f"OperatorSpec({self.type!r}, ...) has no tuples of TensorDesc as inputs and "
                f"outputs; write operator({self.type!r}, 'float16', 4, 8), or tuples."
            )

    def attribute(self, name: str) -> AttributeValue | None:
        """The value of the attribute ``name``, or ``None`` if the operator lacks it."""
        return next((each.value for each in self.attributes if each.name == name), None)

    def named(self, name: str) -> OperatorSpec:
        """This operator under another node name."""
        return replace(self, name=name)

    @property
    def is_static(self) -> bool:
        """Whether every shape is known when the kernel is compiled."""
        return all(tensor.is_static for tensor in (*self.inputs, *self.outputs))

    def __str__(self) -> str:
        tensors = groupby(f"{each.dtype}{list(each.shape)}" for each in self.inputs)
        counted = [(text, len([*equal])) for text, equal in tensors]
        texts = (
            f"{count} x {text}" if count > _LISTED else ", ".join([text] * count)
            for text, count in counted
        )
        return f"{self.type}({', '.join(texts)})"

    def __repr__(self) -> str:
        return f"<{self.name or 'operator'}: {self}>"
