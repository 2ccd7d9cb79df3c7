"""An operator in one line: its type, data type and shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_ascendcache.operators.dtypes import DataType, data_type, type_names
from pytest_ascendcache.operators.formulas import OPERATORS
from pytest_ascendcache.operators.semantics import UnknownOperator, evaluate
from pytest_ascendcache.operators.spec import (
    Attribute,
    AttributeValue,
    OperatorSpec,
    TensorDesc,
    attributes,
)
from pytest_ascendcache.words import instead

Shape = int | tuple[int, ...]


class OperatorError(TypeError, ValueError):
    """An operator that cannot be described in one line. The text says what to write instead."""


def operator(
    type: str,
    dtype: str,
    *shape: Shape,
    name: str = "",
    output: tuple[int, ...] | None = None,
    format: str = "ND",
    **values: AttributeValue,
) -> OperatorSpec:
    """An operator of CANN: ``operator("Add", "float16", 4, 8)``.

    Numbers are one shape for all inputs; tuples are the shape of one input each:
    ``operator("MatMulV2", "float16", (4, 8), (8, 2))``. Further keywords are attributes:
    ``operator("SoftmaxV2", "float16", 4, 8, axes=(-1,))``. The number of inputs and the shape of
    the output (``output``) follow from the type where this package knows what it computes; else
    there is one input, and the output has its shape. Raises ``OperatorError`` for anything else.
    """
    if not isinstance(type, str) or not type[:1].isalpha() or not type[:1].isupper():
        near = instead(str(type), OPERATORS, "types are CANN's, such as 'Add'.")
        raise OperatorError(f"operator(): {type!r} is no operator type; {near}")
    kind, shapes = _dtype(dtype), _shapes(type, shape)
    inputs = tuple(TensorDesc(each, kind, format) for each in shapes)
    spec = OperatorSpec(type, inputs, (), _attributes(type, values), name)
    made = output if output is not None else _output(spec)
    outputs = (TensorDesc(_shape(type, made), kind, format),)
    return OperatorSpec(type, inputs, outputs, spec.attributes, name)


def _dtype(name: object) -> DataType:
    try:
        return data_type(name)  # type: ignore[arg-type]  # a user may write anything
    except (KeyError, TypeError):
        names = type_names()
        raise OperatorError(
            f"operator(): {name!r} is no data type; {instead(str(name), names)}"
        ) from None


def _shapes(type: str, given: Sequence[object]) -> list[tuple[int, ...]]:
    known = OPERATORS.get(type)
    least = 1 if known is None else known.least
    if all(isinstance(each, int) for each in given):
        return [_shape(type, given)] * least
    shapes = [_shape(type, each) for each in given]
    if known is not None and not least <= len(shapes) <= known.most:
        raise OperatorError(
            f"operator(): {type} has {_number(least, known.most)}, and {len(shapes)} shapes are "
            "given; give one shape for each input, or numbers for all of them."
        )
    return shapes


def _number(least: int, most: int) -> str:
    number = str(least) if least == most else f"{least} to {most}"
    return f"{number} input{'' if number == '1' else 's'}"


def _shape(type: str, given: object) -> tuple[int, ...]:
    numbers = tuple(given) if isinstance(given, (tuple, list)) else None
    if numbers is None or not all(
        isinstance(each, int) and not isinstance(each, bool) and each >= -1 for each in numbers
    ):
        raise OperatorError(
            f"operator(): {given!r} is no shape; write numbers, as in operator({type!r}, "
            "'float16', 4, 8)."
        )
    return numbers


def _attributes(type: str, values: dict[str, AttributeValue]) -> tuple[Attribute, ...]:
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        return attributes(**given)
    except KeyError as error:
        raise OperatorError(
            f"operator(): an attribute of {type} is a {error.args[0].__name__}; give a number, a "
            "text, True or False, or a tuple of these."
        ) from None


def _output(spec: OperatorSpec) -> tuple[int, ...]:
    """The shape of the output, from what the operator computes."""
    first = spec.inputs[0].shape if spec.inputs else ()
    if spec.type not in OPERATORS or not spec.is_static:
        return first
    try:
        (result,) = evaluate(spec, [np.ones(each.shape) for each in spec.inputs])
    except UnknownOperator:
        return first
    except ValueError as error:
        raise OperatorError(f"operator(): {error}") from None
    return tuple(result.shape)
