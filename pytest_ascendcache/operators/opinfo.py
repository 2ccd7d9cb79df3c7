"""Operator information: what a dump records about an executed operator, one file for each.

Static kernel compilation starts from these files, and compiles for the shapes in them.
Source: document T, products; facts ``static-kernel`` sections 1.2, 2.5 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any

from pytest_ascendcache.operators.dtypes import DataType, data_type
from pytest_ascendcache.operators.spec import Attribute, OperatorSpec, TensorDesc

ABSENT = TensorDesc((), data_type("UNDEFINED"), "RESERVED")
"""The input of an :class:`OperatorSpec` that is optional and not connected."""

_WHOLE_NUMBERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


class OpInfoError(ValueError):
    """Operator information that cannot be used.

    The text says what is wrong, where, and what to write instead.
    """


@dataclass(frozen=True)
class View:
    """The place of a tensor in a larger one: ``stride`` per dimension, ``offset``, in elements."""

    stride: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class InfoTensor:
    """An input or output.

    ``tensor`` has shape (as stored), type, format, and the elements if the kernel depends on them
    (``is_const``). ``index`` is its place in the operator's prototype.
    """

    tensor: TensorDesc
    index: int
    param_type: str = "required"
    sub_format: int = 0
    c0_format: int = 0
    view: View | None = None


Parameter = InfoTensor | None | tuple[InfoTensor, ...]
"""A tensor, ``None`` for an optional one that is missing, or the tensors of a dynamic input."""


@dataclass(frozen=True)
class OperatorInfo:
    """An operator as it was executed.

    ``impl_mode`` is ``high_performance``, ``high_precision``, empty, or a value that keys ignore.
    ``extra`` has the fields that do not matter to a compiler, such as ``platform_info``.
    """

    type: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: tuple[Attribute, ...] = ()
    impl_mode: str = ""
    deterministic: bool = False
    tune_mode: str = "all"
    bin_filename: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls, operator: OperatorSpec, impl_mode: str = "", deterministic: bool = False
    ) -> OperatorInfo:
        """The information that a dump records about an operator.

        Raises ``OpInfoError`` if a shape is known only at run time.
        """
        if not operator.is_static:
            raise OpInfoError(
                f"{operator}: a shape with -1 has no operator information; give every extent."
            )
        return cls(
            type=operator.type,
            inputs=_parameters(operator.inputs),
            outputs=_parameters(operator.outputs),
            attributes=operator.attributes,
            impl_mode=impl_mode,
            deterministic=deterministic,
        )

    def operator(self, name: str = "") -> OperatorSpec:
        """The operator to compile; ``name`` becomes its node name."""
        return OperatorSpec(
            type=self.type,
            inputs=_tensors(self.inputs),
            outputs=_tensors(self.outputs),
            attributes=self.attributes,
            name=name,
        )

    @property
    def tensors(self) -> tuple[InfoTensor, ...]:
        """All tensors, inputs first."""
        return tuple(chain.from_iterable(map(members, (*self.inputs, *self.outputs))))

    def file_name(self, number: int) -> str:
        """``<OpType>_<dtype>_<format>_<dims>_<number>.json``, named after the first input.

        That is the first tensor of a dynamic input. The name of a missing input is left out.
        """
        parts = [self.type]
        for first in members(self.inputs[0])[:1] if self.inputs else ():
            shape = map(str, first.tensor.shape)
            parts += [type_name(first.tensor.dtype), first.tensor.format, *shape]
        return "_".join([*parts, str(number)]) + ".json"


def members(parameter: Parameter) -> tuple[InfoTensor, ...]:
    """The tensors of a parameter."""
    if parameter is None:
        return ()
    return parameter if isinstance(parameter, tuple) else (parameter,)


def type_name(dtype: DataType) -> str:
    """A data type as dumps spell it."""
    return "float" if dtype.name == "float32" else dtype.name


def _parameters(tensors: tuple[TensorDesc, ...]) -> tuple[Parameter, ...]:
    """The parameters of an operator. Neighbouring tensors of one dynamic input become one."""
    parameters: list[Parameter] = []
    for index, (_, group) in enumerate(groupby(enumerate(tensors), _belonging)):
        members = [tensor for _, tensor in group]
        if members[0].dynamic_input:
            parameters.append(tuple(_described(each, index, "dynamic") for each in members))
        elif members[0].is_absent:
            parameters.append(None)
        else:
            parameters.append(_described(members[0], index, "required"))
    return tuple(parameters)


def _belonging(placed: tuple[int, TensorDesc]) -> object:
    place, tensor = placed
    return tensor.dynamic_input or place


def _described(tensor: TensorDesc, index: int, param_type: str) -> InfoTensor:
    """A tensor without an origin that equals the tensor.

    Kernels depend on constants that are shapes, axes and the like. Constants of a float type are
    data, which the kernel gets when it runs.
    """
    depends = tensor.is_const and tensor.dtype.name in _WHOLE_NUMBERS
    same_shape = tensor.origin_shape == tensor.shape
    plain = replace(
        tensor,
        name=tensor.dynamic_input or tensor.name,
        dynamic_input="",
        is_const=depends,
        const_value=tensor.const_value if depends else (),
        origin_shape=None if same_shape else tensor.origin_shape,
        origin_format="" if tensor.origin_format == tensor.format else tensor.origin_format,
    )
    return InfoTensor(plain, index, param_type)


def _tensors(parameters: tuple[Parameter, ...]) -> tuple[TensorDesc, ...]:
    tensors: list[TensorDesc] = []
    for place, parameter in enumerate(parameters):
        if parameter is None:
            tensors.append(ABSENT)
        elif isinstance(parameter, InfoTensor):
            tensors.append(parameter.tensor)
        else:
            name = parameter[0].tensor.name or f"input{place}" if parameter else ""
            tensors += [replace(each.tensor, name="", dynamic_input=name) for each in parameter]
    return tuple(tensors)
