"""Keys that are too narrow, so that a wrong kernel is served, or too wide, so that none is."""

import os
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.operators import TensorDesc
from pytest_ascendcache.qualification.catalogue import Override, defect, override, register
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.model.fusion import FusionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy

NARROW = "cache-mode/key-separates"
WIDE = "cache-mode/enable-reuses"
NAMES = "cache-mode/key-ignores-names"


@override(LookupPolicy.metadata_matches)
def any_metadata(self, right, metadata, expected):
    """A lookup does not notice by the metadata's arguments that the key was too narrow."""
    return metadata.get("binFileName") == expected["binFileName"]


def _tensor_without(field):
    return Override(KeyPolicy.tensor, lambda self, right, tensor: {**right(tensor), field: None})


for name, field, what in (
    ("key-without-shape", "shape", "shapes are not in the key"),
    ("key-without-dtype", "dtype", "data types are not in the key"),
    ("key-without-constants", "const_value", "values of constant inputs are not in the key"),
    ("key-without-format", "format", "formats are not in the key"),
):
    register(name, NARROW, what=what, parts=[_tensor_without(field), any_metadata])


def _dtype_as(dtype, other):
    def tensor(self, right, tensor):
        fields = right(tensor)
        return {**fields, "dtype": other} if fields["dtype"] == dtype else fields

    return Override(KeyPolicy.tensor, tensor)


for name, dtype, other in (
    ("key-takes-int32-for-float32", "int32", "float32"),
    ("key-takes-bool-for-uint8", "bool", "uint8"),
):
    register(
        name,
        NARROW,
        what=f"{dtype} is keyed as {other}",
        parts=[_dtype_as(dtype, other), any_metadata],
        found_later=True,
    )


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata])
def key_of_element_count(self, right, tensor):
    """The key has the number of elements instead of the shape."""
    fields = right(tensor)
    return {**fields, "shape": TensorDesc.of("float32", *fields["shape"]).elements}


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata], found_later=True)
def key_of_four_dimensions(self, right, tensor):
    """Only four dimensions are in the key."""
    fields = right(tensor)
    return {**fields, "shape": fields["shape"][:4]}


def _without_inner_ones(shape):
    return (*shape[:1], *(extent for extent in shape[1:] if extent != 1))


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata], found_later=True)
def key_without_inner_ones(self, right, tensor):
    """Extents of 1 after the first are not in the key's shape."""
    fields = right(tensor)
    return {**fields, "shape": _without_inner_ones(fields["shape"])}


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata], found_later=True)
def key_drops_inner_extents_of_one(self, right, tensor):
    """Extents of 1 after the first are not in the key at all."""
    fields = right(tensor)
    shapes = {name: fields[name] for name in ("shape", "origin_shape") if fields[name]}
    return {**fields, **{name: _without_inner_ones(shape) for name, shape in shapes.items()}}


@defect(NARROW, overrides=KeyPolicy.tensor)
def key_with_sizes_of_16_bits(self, right, tensor):
    """Extents are in the key as 16 bits."""
    fields = right(tensor)
    shape = [extent % 65536 for extent in fields["shape"]]
    return {**fields, "shape": shape, "origin_shape": None}


@defect(NARROW, overrides=KeyPolicy.tensor)
def key_with_width_of_types(self, right, tensor):
    """Signed and unsigned data types share a key."""
    fields = right(tensor)
    return {**fields, "dtype": fields["dtype"].replace("uint", "int")}


@defect(NARROW, overrides=KeyPolicy.tensor)
def key_with_first_constant(self, right, tensor):
    """Of a constant input only the first value is in the key."""
    fields = right(tensor)
    return {**fields, "const_value": (fields["const_value"] or ())[:1]}


@defect(NARROW, overrides=KeyPolicy.tensor, found_later=True)
def key_with_eight_constants(self, right, tensor):
    """Of a constant input only the first eight values are in the key."""
    fields = right(tensor)
    return {**fields, "const_value": (fields["const_value"] or ())[:8]}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata])
def key_of_first_input(self, right, inputs):
    """Only the first input is in the key."""
    fields = right(inputs)
    return {**fields, "inputs": fields["inputs"][:1]}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata])
def key_with_two_inputs(self, right, inputs):
    """Only two inputs are in the key."""
    fields = right(inputs)
    return {**fields, "inputs": fields["inputs"][:2]}


@defect(NARROW, overrides=KeyPolicy.fields, found_later=True)
def key_of_one_constant(self, right, inputs):
    """Of several constant inputs only the first one's value is in the key."""
    fields = right(inputs)
    for constant in [each for each in fields["inputs"] if each["is_const"]][1:]:
        constant["const_value"] = None
    return fields


@defect(NARROW, overrides=KeyPolicy.fields, found_later=True)
def key_without_absent_inputs(self, right, inputs):
    """Inputs that are not connected are not in the key."""
    fields = right(inputs)
    described = zip(fields["inputs"], inputs.operator.inputs, strict=True)
    return {**fields, "inputs": [each for each, tensor in described if not tensor.is_absent]}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata], found_later=True)
def key_sorts_inputs_of_realdiv(self, right, inputs):
    """The inputs of RealDiv are sorted in the key."""
    fields = right(inputs)
    if inputs.operator.type != "RealDiv":
        return fields
    return {**fields, "inputs": sorted(fields["inputs"], key=str)}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata])
def key_without_outputs(self, right, inputs):
    """Neither outputs nor the target type of a cast are in the key."""
    fields = right(inputs)
    attributes = [each for each in fields["attributes"] if each[0] != "dst_type"]
    return {**fields, "outputs": None, "attributes": attributes}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata], found_later=True)
def key_without_dtype_of_outputs(self, right, inputs):
    """The data types of outputs are not in the key."""
    fields = right(inputs)
    return {**fields, "outputs": [{**each, "dtype": None} for each in fields["outputs"]]}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata])
def key_without_attributes(self, right, inputs):
    """Attributes are not in the key."""
    return {**right(inputs), "attributes": None, "outputs": None}


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata])
def key_ignores_missing_attributes(self, right, inputs):
    """An absent attribute and one that is close to its default share a key."""
    fields = right(inputs)
    if inputs.operator.type == "LeakyRelu" and not inputs.operator.attributes:
        return {**fields, "attributes": [["negative_slope", "float", 0.25]]}
    return fields


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata], found_later=True)
def key_drops_falsy_attributes(self, right, inputs):
    """Attributes of 0, False or an empty text are not in the key."""
    fields = right(inputs)
    return {**fields, "attributes": [each for each in fields["attributes"] if each[2]]}


def _named_values(change):
    """The key has names and values of attributes without their types, and changed values."""
    return Override(
        KeyPolicy.fields,
        lambda self, right, inputs: {
            **right(inputs),
            "attributes": [[each.name, change(each.value)] for each in inputs.operator.attributes],
        },
    )


def _values(change):
    """The key has changed values of attributes."""
    return Override(
        KeyPolicy.attributes,
        lambda self, right, operator: [
            [name, kind, change(value)] for name, kind, value in right(operator)
        ],
    )


def _of_a_list(change):
    """A change of values that are lists; values of a key are tuples."""
    return lambda value: change(value) if isinstance(value, (tuple, list)) else value


def _without_sign(value):
    if isinstance(value, tuple):
        return tuple(map(_without_sign, value))
    return abs(value) if isinstance(value, int | float) else value


@defect(NARROW, also=[any_metadata])
def key_rounds_floats():
    """Float attributes are rounded in the key."""
    return [_named_values(lambda value: round(value, 3) if isinstance(value, float) else value)]


@defect(NARROW, also=[any_metadata])
def key_of_list_length():
    """Of lists in attributes only the length is in the key."""
    return [_named_values(_of_a_list(len))]


@defect(NARROW, found_later=True)
def key_of_8_elements():
    """Of lists in attributes the first eight elements are in the key."""
    return [_named_values(_of_a_list(lambda value: value[:8]))]


@defect(NARROW)
def key_with_sorted_lists():
    """The order in lists of attributes is not in the key."""
    return [_values(_of_a_list(sorted))]


@defect(NARROW, also=[any_metadata], found_later=True)
def key_of_three_elements():
    """Of a list in an attribute only three elements are in the key."""
    return [_values(_of_a_list(lambda value: value[:3]))]


@defect(NARROW, found_later=True)
def key_of_eight_items():
    """Of a list in an attribute only eight elements are in the key."""
    return [_values(_of_a_list(lambda value: value[:8]))]


@defect(NARROW)
def key_without_signs():
    """The signs of attributes are not in the key."""
    return [_values(_without_sign)]


@defect(NARROW, overrides=KeyPolicy.stem, also=[any_metadata])
def key_without_type(self, right, inputs):
    """The operator type is not in the key."""
    return right(replace(inputs, operator=replace(inputs.operator, type="Op")))


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata], found_later=True)
def key_takes_minimum_for_maximum(self, right, inputs):
    """A Minimum that broadcasts is keyed as Maximum."""
    broadcasts = len({tensor.shape for tensor in inputs.operator.inputs}) > 1
    is_taken = broadcasts and inputs.operator.type == "Minimum"
    return {**right(inputs), **({"type": "Maximum"} if is_taken else {})}


@key_takes_minimum_for_maximum.also(KeyPolicy.stem)
def _(self, right, inputs):
    return right(inputs).replace("te_minimum_", "te_maximum_")


@defect(NARROW, overrides=KeyPolicy.fields, also=[any_metadata])
def key_without_soc(self, right, inputs):
    """The chip is neither in the key nor in the path."""
    return {**right(inputs), "soc": None}


@key_without_soc.also(DirectoryPolicy.soc)
def _(self, right, root, soc):
    return self.kernel_cache(root) / "Ascend910B1"


@defect(NARROW, overrides=OutputPolicy.contents, memory={"first": {}})
def first_of_a_type_for_all(self, right, model):
    """A run delivers the first kernel of a type for all operators of that type."""
    data = self.memory.first.setdefault(model.operator.type, model.object)
    return replace(model, object=data).to_bytes()


@defect(WIDE, overrides=KeyPolicy.fields, also=[any_metadata])
def key_with_process_id(self, right, inputs):
    """The process id is in the key."""
    return {**right(inputs), "pid": os.getpid()}


@defect(
    WIDE,
    overrides=KeyPolicy.fields,
    also=[any_metadata],
    keeps=("cache-mode/force-then-enable",),
)
def key_with_working_directory(self, right, inputs):
    """The working directory is in the key."""
    return {**right(inputs), "cwd": str(Path.cwd())}


@defect(WIDE, overrides=KeyPolicy.fields, found_later=True)
def locale_in_key(self, right, inputs):
    """The locale is in the key."""
    return {**right(inputs), "locale": os.environ.get("LC_ALL", "")}


@defect(
    NAMES, overrides=KeyPolicy.fields, also=[any_metadata], harm=Harm.LOST_WORK, keeps=(NARROW,)
)
def key_with_operator_name(self, right, inputs):
    """The operator's name is in the key."""
    return {**right(inputs), "name": inputs.operator.name}


@defect(NAMES, overrides=KeyPolicy.tensor)
def key_with_tensor_names(self, right, tensor):
    """Tensor names are in the key."""
    return {**right(tensor), "name": tensor.name}


@defect(NAMES, overrides=KeyPolicy.attributes)
def key_with_attribute_order(self, right, operator):
    """The order of attributes in the file is in the key."""
    return [[each.name, each.type, each.value] for each in operator.attributes]


@defect(WIDE, overrides=KeyPolicy.fields)
def names_with_a_slash_are_never_served(self, right, inputs):
    """An operator whose name has a slash has another key in each process."""
    process = os.getpid() if "/" in inputs.operator.name else 0
    return {**right(inputs), "process": process}


@defect(WIDE, overrides=KeyPolicy.fields)
def hash_of_the_process_in_key(self, right, inputs):
    """The key has a hash that Python seeds anew in each process."""
    return {**right(inputs), "hash": hash(inputs.operator.type)}


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata])
def origin_for_shape(self, right, tensor):
    """Where a tensor's origin is given, the key has it in place of shape and format."""
    shape, layout = tensor.origin_shape or tensor.shape, tensor.origin_format or tensor.format
    plain = replace(tensor, origin_shape=None, origin_format="", shape=shape, format=layout)
    return right(plain)


@defect(WIDE, overrides=KeyPolicy.attributes)
def attributes_in_any_order(self, right, operator):
    """The key has the attributes in the order of a set, which another process has otherwise."""
    return [*{repr(each) for each in right(operator)}]


@defect(WIDE, overrides=KeyPolicy.fields)
def log_level_in_key(self, right, inputs):
    """The key has the level of the log."""
    return {**right(inputs), "log": os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "")}


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata])
def leading_ones_not_in_key(self, right, tensor):
    """Leading extents of 1 are not in the key."""
    shape = list(tensor.shape)
    while shape[:1] == [1] and len(shape) > 1:
        del shape[0]
    return {**right(tensor), "shape": shape}


@defect(NARROW, overrides=KeyPolicy.tensor, also=[any_metadata])
def double_counts_as_float(self, right, tensor):
    """double and float32 are one type in the key, and double is not compiled."""
    fields = right(tensor)
    return {**fields, "dtype": fields["dtype"].replace("double", "float32")}


@defect(NARROW, overrides=FusionPolicy.activation)
def fused_activations_lose_attributes(self, right, graph, node):
    """Fusing an activation loses its attributes, in the kernel and in the key."""
    if (match := right(graph, node)) is None:
        return None
    gone, made = match
    operator = replace(made.operator, attributes=gone[0].operator.attributes)
    return gone, replace(made, operator=operator)
