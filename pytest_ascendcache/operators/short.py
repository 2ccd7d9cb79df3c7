"""An operator in one line: its type, data type and shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_ascendcache.operators.formulas import OPERATORS
from pytest_ascendcache.operators.semantics import UnknownOperator, evaluate
from pytest_ascendcache.operators.spec import (
    Attribute,
    AttributeValue,
    OperatorSpec,
    TensorDesc,
    attributes,
    checked_shape,
    checked_type,
)
from pytest_ascendcache.words import instead
from pytest_ascendcache.words.wrong_use import WrongUse

Shape = int | tuple[int, ...]


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
    there is one input, and the output has its shape. Raises ``WrongUse`` for anything else.
    """
    if not isinstance(type, str) or not type[:1].isupper():
        near = instead(str(type), OPERATORS, "types are CANN's, such as 'Add'.")
        raise WrongUse(f"operator(): {type!r} is no operator type; {near}")
    kind, shapes = checked_type(dtype), _shapes(type, shape)
    inputs = tuple(TensorDesc(each, kind, format) for each in shapes)
    spec = OperatorSpec(type, inputs, (), _attributes(type, values), name)
    made = output if output is not None else _output(spec)
    outputs = (TensorDesc(checked_shape(made), kind, format),)
    return OperatorSpec(type, inputs, outputs, spec.attributes, name)


def _shapes(type: str, given: Sequence[object]) -> list[tuple[int, ...]]:
    known = OPERATORS.get(type)
    least = 1 if known is None else known.least
    if all(isinstance(each, int) for each in given):
        return [checked_shape(tuple(given))] * least
    shapes = [checked_shape(each) for each in given]
    if known is not None and not least <= len(shapes) <= known.most:
        raise WrongUse(
            f"operator(): {type} has {_number(least, known.most)}, and {len(shapes)} shapes are "
            "given; give one shape for each input, or numbers for all of them."
        )
    return shapes


def _number(least: int, most: int) -> str:
    number = str(least) if least == most else f"{least} to {most}"
    return f"{number} input{'' if number == '1' else 's'}"


def _attributes(type: str, values: dict[str, AttributeValue]) -> tuple[Attribute, ...]:
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        return attributes(**given)
    except KeyError as error:
        raise WrongUse(
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
        raise WrongUse(
            f"operator(): nothing computes {error}; give shapes and attributes that fit."
        ) from None
    return tuple(result.shape)
