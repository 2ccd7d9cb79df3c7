"""Impostors: kernels that give another output, put in the place of cached ones.

An operator whose output is the impostor's ran the kernel on disk; one that gives its own was
compiled. Nobody has to be asked, and a toolchain that compiles everything and leaves old files
alone is seen through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

TENSOR = TensorDesc.of("float32", 1, 2, 4, 4)
"""What operators that can be marked take and give; the impostor fits its 32 elements."""


def misfits(network: Network) -> list[str]:
    """Operators in whose place the impostor would read or write beyond its tensors."""
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


class Marks(Protocol):
    """What is put in the place of something cached, so that its reuse shows in the outputs."""

    @property
    def usable(self) -> bool:
        """Whether there is anything to be put."""

    def put(self, unit: Any) -> None:
        """Put it in a cached unit's place.

        Raises:
            ValueError: where that unit cannot be marked.
        """

    def output(self, values: NDArray[Any]) -> NDArray[Any]:
        """What it gives for an input."""


@dataclass(frozen=True)
class Impostor:
    """The kernel as the toolchain under test compiled it: an object and its symbol."""

    object: bytes
    symbol: str

    @property
    def usable(self) -> bool:
        """Whether there is a kernel."""
        return bool(self.object)

    def put(self, unit: Any) -> None:
        """See :class:`Marks`."""
        unit.put_object(self.object, self.symbol)

    def output(self, values: NDArray[Any]) -> NDArray[Any]:
        """What it gives for an input."""
        return _leaky(values, _SLOPE)


SLOPES = (0.28125, 0.40625, 0.53125, 0.65625)
"""Slopes of LeakyRelu operators that can be marked in a compiled network."""


@dataclass(frozen=True)
class OtherConstant:
    """Another slope in the place of :data:`SLOPES` in a compiled network."""

    slope: float = 0.84375
    usable: bool = True

    def put(self, unit: Any) -> None:
        """See :class:`Marks`."""
        unit.replace_constants(SLOPES, self.slope)

    def output(self, values: NDArray[Any]) -> NDArray[Any]:
        """What a LeakyRelu with it gives for an input."""
        return _leaky(values, self.slope)


def _leaky(values: NDArray[Any], slope: float) -> NDArray[Any]:
    import numpy

    return numpy.where(values > 0, values, values * values.dtype.type(slope))
