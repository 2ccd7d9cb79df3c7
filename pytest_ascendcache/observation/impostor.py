"""Impostors: kernels with a different output, put in the place of cached ones.

An operator with the impostor's output ran the kernel on disk; one with its own output was compiled.
This does not rest on what the toolchain says, and exposes one that compiles everything and leaves
old files alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

TENSOR = TensorDesc.of("float32", 1, 2, 4, 4)
"""Input and output of operators that can be marked. The impostor processes its 32 elements."""


def misfits(network: Network) -> list[str]:
    """Operators in whose place the impostor would access memory beyond its tensors."""
    return [
        node.operator.name
        for node in network.nodes
        if [(each.elements, each.dtype) for each in (*node.operator.inputs, *node.operator.outputs)]
        != [(TENSOR.elements, TENSOR.dtype)] * 2
    ]


_SLOPE = 1000.0
OPERATOR = OperatorSpec(
    "LeakyRelu",
    (TENSOR,),
    (TENSOR,),
    (Attribute("negative_slope", "float", _SLOPE),),
    name="impostor",
)
NETWORK = Network(
    name="impostor",
    tensors={
        name: TensorDesc.of("float32", *TENSOR.shape, name=name) for name in ("data", "output")
    },
    constants={"data": tuple(float(index - 16) / 8 for index in range(32))},
    nodes=(Node(OPERATOR, ("data",), ("output",)),),
    outputs=("output",),
)
"""A network whose only kernel is the impostor."""


class Marks:
    """What stands in for a cached kernel, so that the outputs show its reuse. It computes LeakyRelu
    with ``slope``."""

    slope: float

    @property
    def usable(self) -> bool:
        """Whether there is anything to put."""
        return True

    def put(self, unit: Any) -> None:
        """Put it in the place of a cached kernel. Raises ``ValueError`` if that kernel cannot be
        marked."""
        raise NotImplementedError

    def output(self, values: NDArray[Any]) -> NDArray[Any]:
        """Its output for an input."""
        import numpy

        return numpy.where(values > 0, values, values * values.dtype.type(self.slope))


@dataclass(frozen=True)
class Impostor(Marks):
    """A kernel as the toolchain under test compiled it: an object and its symbol."""

    object: bytes
    symbol: str
    slope: float = _SLOPE

    @property
    def usable(self) -> bool:
        return bool(self.object)

    def put(self, unit: Any) -> None:
        unit.put_object(self.object, self.symbol)


SLOPES = (0.28125, 0.40625, 0.53125, 0.65625)
"""Slopes of LeakyRelu operators that can be marked in a compiled network."""


@dataclass(frozen=True)
class OtherConstant(Marks):
    """Another slope in the place of :data:`SLOPES` in a compiled network."""

    slope: float = 0.84375

    def put(self, unit: Any) -> None:
        unit.replace_constants(SLOPES, self.slope)
