"""Fused operators: one kernel that does the work of several neighbouring operators of a graph.

A fused type is named after its parts, e.g. ``fused_op_Conv2D_Relu``, as CANN names such kernels
(facts ``cann-operator-cache`` section 1.3). It has the attributes of all parts. The value that one
part passes to the next stays in a register and is not rounded to the element type.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pytest_ascendcache.reference.kernels import comparison, images, matrix  # noqa: F401  (registers parts)
from pytest_ascendcache.reference.kernels.elementwise import FORMULAS
from pytest_ascendcache.reference.kernels.layout import row_major
from pytest_ascendcache.reference.kernels.normalisation import normalise
from pytest_ascendcache.reference.kernels.operator import KernelContext
from pytest_ascendcache.reference.kernels.registry import definition, register_fused
from pytest_ascendcache.reference.kernels.trace import Value

PREFIX = "fused_op"

PRODUCERS = ("MatMulV2", "BatchMatMulV2", "Conv2D", "Add", "BatchNorm", "AccumulateNV2")
"""Types that an activation can be fused into."""

ACTIVATIONS = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "GeluV2", "HardSigmoid", "HardSwish")
"""Types that can be fused into the operator that produces their input."""

ADD_LAYER_NORM = ("Add", "LayerNorm")


def fused_type(*parts: str) -> str:
    """The name of the type that does the work of ``parts``, in their order."""
    return "_".join((PREFIX, *parts))


def fused_parts(type_name: str) -> tuple[str, ...]:
    """The types that a fused type consists of; an ordinary type consists of itself."""
    return _PARTS.get(type_name, (type_name,))


_PARTS: dict[str, tuple[str, ...]] = {}


def _register(parts: Sequence[str]) -> None:
    _PARTS[fused_type(*parts)] = tuple(parts)


for _producer in PRODUCERS:
    for _activation in ACTIVATIONS:
        _register((_producer, _activation))
        register_fused(
            fused_type(_producer, _activation),
            definition(_producer),
            definition(_activation),
            epilogue=FORMULAS[_activation],
        )


def add_layer_norm(op: KernelContext) -> None:
    """LayerNorm of the sum of inputs 0 and 1, which have one shape.

    Inputs 2 and 3 are gamma and beta. Outputs: y, then the sum if declared.
    """
    first, second, gamma, beta = (op.input(place) for place in range(4))
    shape = first.shape
    axis = op.axis("begin_norm_axis", len(shape), -1)
    outer, inner = shape[:axis], shape[axis:]
    for tensor, wanted in ((second, shape), (gamma, inner), (beta, inner)):
        op.expect_shape(tensor, wanted, first.dtype)
    for each in op.outputs:
        op.expect_shape(each, shape, first.dtype)
    count = prod(inner)
    if not count:
        op.fail(f"has nothing to normalise in {list(shape)}; use positive extents")
    with op.trace.nest(outer) as indices:
        start = op.offset(indices, row_major(shape)[:axis])

        def load(place: Value) -> Value:
            return first.load(start + place) + second.load(start + place)

        mean, root = normalise(op, load, count, op.number("epsilon", 1e-7))
        with op.trace.nest((count,)) as (place,):
            total = load(place)
            for each in op.outputs[1:]:
                each.store(start + place, total)
            result = (total - mean) * root * gamma.load(place) + beta.load(place)
            op.output().store(start + place, result)


_register(ADD_LAYER_NORM)
register_fused(
    fused_type(*ADD_LAYER_NORM),
    definition("Add"),
    definition("LayerNorm"),
    trace=add_layer_norm,
    inputs=(4, 4),
    outputs=(1, 2),
)
