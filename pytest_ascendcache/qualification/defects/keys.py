"""Keys that are too narrow, so that a wrong kernel is served, or too wide, so that none is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy
from pytest_ascendcache.reference.policies import Policies

NARROW = "cache-mode/key-separates"
WIDE = "cache-mode/enable-reuses"
NAMES = "cache-mode/key-ignores-names"


def _tensor_key(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Policies:
    class Wrong(KeyPolicy):
        def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
            return change(super().tensor(tensor))

    return having(Wrong(), AnyMetadata())


def _key(change: Callable[[dict[str, Any], KeyInputs], dict[str, Any]]) -> Policies:
    class Wrong(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return change(super().fields(inputs), inputs)

    return having(Wrong(), AnyMetadata())


class AnyMetadata(LookupPolicy):
    """Does not notice by the number of arguments that the key was too narrow."""

    def metadata_matches(self, metadata: dict[str, Any], expected: dict[str, Any]) -> bool:
        return bool(metadata.get("binFileName") == expected["binFileName"])


@defect(NARROW, what="shapes are not in the key")
def key_without_shape() -> Policies:
    return _tensor_key(lambda fields: {**fields, "shape": None})


@defect(NARROW, what="the number of elements is in the key, not the shape")
def key_of_element_count() -> Policies:
    def count(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "shape": TensorDesc.of("float32", *fields["shape"]).elements}

    return _tensor_key(count)


@defect(NARROW, what="data types are not in the key")
def key_without_dtype() -> Policies:
    return _tensor_key(lambda fields: {**fields, "dtype": None})


@defect(NARROW, what="values of constant inputs are not in the key")
def key_without_constants() -> Policies:
    return _tensor_key(lambda fields: {**fields, "const_value": None})


@defect(NARROW)
class FirstOfATypeForAll(OutputPolicy):
    """A run delivers the first kernel of a type for all operators of that type."""

    def __init__(self):
        self.first: dict[str, bytes] = {}

    def contents(self, model):
        data = self.first.setdefault(model.operator.type, model.object)
        return replace(model, object=data).to_bytes()


@defect(NARROW, what="formats are not in the key")
def key_without_format() -> Policies:
    return _tensor_key(lambda fields: {**fields, "format": None})


@defect(NARROW, what="only the first input is in the key")
def key_of_first_input() -> Policies:
    return _key(lambda fields, _: {**fields, "inputs": fields["inputs"][:1]})


@defect(NARROW, what="outputs are not in the key, nor what a cast casts to")
def key_without_outputs() -> Policies:
    def drop(fields: dict[str, Any], inputs: KeyInputs) -> dict[str, Any]:
        attributes = [each for each in fields["attributes"] if each[0] != "dst_type"]
        return {**fields, "outputs": None, "attributes": attributes}

    return _key(drop)


@defect(NARROW, what="attributes are not in the key")
def key_without_attributes() -> Policies:
    return _key(lambda fields, _: {**fields, "attributes": None, "outputs": None})


@defect(NARROW, what="float attributes are rounded in the key")
def key_rounds_floats() -> Policies:
    def rounded(operator: OperatorSpec) -> list[Any]:
        return [
            [each.name, round(each.value, 3) if isinstance(each.value, float) else each.value]
            for each in operator.attributes
        ]

    return _key(lambda fields, inputs: {**fields, "attributes": rounded(inputs.operator)})


@defect(NARROW, what="lists in attributes are keyed by their length")
def key_of_list_length() -> Policies:
    def shortened(operator: OperatorSpec) -> list[Any]:
        return [
            [each.name, len(each.value) if isinstance(each.value, tuple) else each.value]
            for each in operator.attributes
        ]

    return _key(lambda fields, inputs: {**fields, "attributes": shortened(inputs.operator)})


@defect(NARROW, what="an absent attribute and its default's neighbour share a key")
def key_ignores_missing_attributes() -> Policies:
    def defaulted(fields: dict[str, Any], inputs: KeyInputs) -> dict[str, Any]:
        if inputs.operator.type == "LeakyRelu" and not inputs.operator.attributes:
            return {**fields, "attributes": [["negative_slope", "float", 0.25]]}
        return fields

    return _key(defaulted)


@defect(NARROW, what="the operator type is not in the key")
def key_without_type() -> Policies:
    class Wrong(KeyPolicy):
        def stem(self, inputs: KeyInputs) -> str:
            nameless = replace(inputs, operator=replace(inputs.operator, type="Op"))
            return super().stem(nameless)

    return having(Wrong(), AnyMetadata())


@defect(NARROW, what="the SoC is neither in the key nor in the path")
def key_without_soc() -> Policies:
    class Wrong(DirectoryPolicy):
        def soc(self, root: Path, soc: str) -> Path:
            return self.kernel_cache(root) / "Ascend910B1"

    policies = _key(lambda fields, _: {**fields, "soc": None})
    return replace(policies, directory=Wrong())


@defect(WIDE, what="the process id is in the key")
def key_with_process_id() -> Policies:
    return _key(lambda fields, _: {**fields, "pid": os.getpid()})


@defect(
    WIDE,
    what="the working directory is in the key",
    keeps=("cache-mode/force-then-enable", "cache-mode/force-spares-other-soc"),
)
def key_with_working_directory() -> Policies:
    return _key(lambda fields, _: {**fields, "cwd": str(Path.cwd())})


@defect(NAMES, what="the operator's name is in the key", harm=Harm.LOST_WORK, keeps=(NARROW,))
def key_with_operator_name() -> Policies:
    return _key(lambda fields, inputs: {**fields, "name": inputs.operator.name})


@defect(NAMES, overrides=KeyPolicy.tensor)
def key_with_tensor_names(self, right, tensor):
    """Tensor names are in the key."""
    return {**right(tensor), "name": tensor.name}


@defect(NAMES, overrides=KeyPolicy.attributes)
def key_with_attribute_order(self, right, operator):
    """The order of attributes in the file is in the key."""
    return [[each.name, each.type, each.value] for each in operator.attributes]


def _tensors(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Policies:
    """Another description of tensors in the key."""

    class Wrong(KeyPolicy):
        def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
            fields = super().tensor(tensor)
            return {**fields, **change(fields)}

    return having(Wrong())


def _attribute_values(change: Callable[[Any], Any]) -> Policies:
    """Other values of attributes in the key."""

    class Wrong(KeyPolicy):
        def attributes(self, operator: OperatorSpec) -> list[Any]:
            return [[name, kind, change(each)] for name, kind, each in super().attributes(operator)]

    return having(Wrong())


@defect(NARROW, what="sizes are in the key as 16 bits")
def key_with_sizes_of_16_bits() -> Policies:
    def change(fields: dict[str, Any]) -> dict[str, Any]:
        return {"shape": [each % 65536 for each in fields["shape"]], "origin_shape": None}

    return _tensors(change)


@defect(NARROW, what="signed and unsigned data types share a key")
def key_with_width_of_types() -> Policies:
    return _tensors(lambda fields: {"dtype": fields["dtype"].replace("uint", "int")})


@defect(NARROW, what="of a constant input only the first value is in the key")
def key_with_first_constant() -> Policies:
    return _tensors(lambda fields: {"const_value": (fields["const_value"] or ())[:1]})


@defect(NARROW, what="only two inputs are in the key")
def key_with_two_inputs() -> Policies:
    return _key(lambda fields, _: {**fields, "inputs": fields["inputs"][:2]})


@defect(NARROW, what="the order in lists of attributes is not in the key")
def key_with_sorted_lists() -> Policies:
    return _attribute_values(lambda each: sorted(each) if isinstance(each, tuple) else each)


@defect(NARROW, what="the signs of attributes are not in the key")
def key_without_signs() -> Policies:
    def change(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(change, value))
        return abs(value) if isinstance(value, int | float) else value

    return _attribute_values(change)
