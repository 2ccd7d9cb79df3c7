"""Builders: each makes operators of a type from the values of its family's parameters, or ``None``
for values that fit no operator. The outputs' shapes follow, so that a toolchain can compile it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from pytest_ascendcache.combinations.family import Build, Values
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.dtypes import TYPE_NUMBERS
from pytest_ascendcache.operators.opinfo import ABSENT
from pytest_ascendcache.operators.spec import attributes


def _tensors(values: Values, *shapes: Sequence[int], format: str = "ND") -> Iterator[TensorDesc]:
    """A tensor of the element type ``dtype`` for each shape."""
    return (TensorDesc.of(values["dtype"], *shape, format=format) for shape in shapes)


def _constant(values: Sequence[int], dtype: str) -> TensorDesc:
    tensor = TensorDesc.of(dtype, len(values))
    return replace(tensor, is_const=True, const_value=tuple(values))


def _layout(values: Values) -> str:
    return str(values.get("format", "ND")) if len(values["shape"]) == 4 else "ND"


def _from_front(axis: int, rank: int) -> int | None:
    """The axis counted from the front, or ``None`` if a tensor of this rank does not have it."""
    return axis % rank if -rank <= axis < rank else None


def _axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Those of ``axes`` that a tensor of this rank has."""
    return tuple(axis for axis in axes if -rank <= axis < rank)


# --- element-wise ---------------------------------------------------------------------------


def unary(*names: str) -> Build:
    """A builder for one input; the parameters ``names`` are attributes."""

    def build(type_name: str, values: Values) -> OperatorSpec:
        (tensor,) = _tensors(values, values["shape"], format=_layout(values))
        given = attributes(**{name: values[name] for name in names})
        return OperatorSpec(type_name, (tensor,), (tensor,), given)

    return build


def binary(type_name: str, values: Values) -> OperatorSpec:
    """Two inputs, of which one, the second unless ``swapped``, broadcasts: it has extent 1 in the
    dimensions ``narrow`` and lacks the first ``lower`` dimensions, or all of them for ``None``."""
    shape, lower = values["shape"], values["lower"]
    narrow = {place % len(shape) for place in values["narrow"]}
    other = tuple(1 if place in narrow else extent for place, extent in enumerate(shape))
    other = () if lower is None else other[min(lower, len(shape) - 1) :]
    first, second = (other, shape) if values["swapped"] else (shape, other)
    one, two, result = _tensors(values, first, second, shape, format=_layout(values))
    return OperatorSpec(type_name, (one, two), (result,))


def comparison(type_name: str, values: Values) -> OperatorSpec:
    """As :func:`binary`, with a bool output."""
    numbers = binary(type_name, values)
    return replace(numbers, outputs=(replace(numbers.outputs[0], dtype=data_type("bool")),))


def select(type_name: str, values: Values) -> OperatorSpec:
    """As :func:`binary`, preceded by a condition of the output's shape."""
    numbers = binary(type_name, values)
    place = 1 if values["swapped"] else 0
    condition = replace(numbers.inputs[place], dtype=data_type("bool"))
    return replace(numbers, inputs=(condition, *numbers.inputs))


def accumulate(type_name: str, values: Values) -> OperatorSpec:
    """``count`` inputs of one shape."""
    (tensor,), count = _tensors(values, values["shape"]), values["count"]
    return OperatorSpec(type_name, (tensor,) * count, (tensor,), attributes(N=count))


def bias_add(type_name: str, values: Values) -> OperatorSpec | None:
    """A vector added along the channels of ``data_format``."""
    shape, order = values["shape"], values["data_format"] or "NHWC"
    if len(shape) < 2:
        return None
    x, bias = _tensors(values, shape, (shape[1 if order == "NCHW" else -1],))
    given = attributes(data_format=values["data_format"])
    return OperatorSpec(type_name, (x, bias), (x,), given)


def cast(type_name: str, values: Values) -> OperatorSpec:
    """A conversion to the type ``to``, which the attribute repeats if ``named``."""
    to = values["to"]
    x, y = (TensorDesc.of(each, *values["shape"]) for each in (values["dtype"], to))
    given = attributes(dst_type=TYPE_NUMBERS[to] if values["named"] else None)
    return OperatorSpec(type_name, (x,), (y,), given)


def bucketize(type_name: str, values: Values) -> OperatorSpec:
    """The number of ``boundaries`` below each element."""
    x, y = (TensorDesc.of(each, *values["shape"]) for each in (values["dtype"], "int32"))
    boundaries = Attribute("boundaries", "list_float", values["boundaries"])
    given = (boundaries, *attributes(right=values["right"]))
    return OperatorSpec(type_name, (x,), (y,), given)


# --- reductions and normalisation -----------------------------------------------------------


def reduce(type_name: str, values: Values) -> OperatorSpec | None:
    """A reduction along ``axes``: an attribute of types that end in D, else a constant input."""
    shape = values["shape"]
    axes = _axes_of(values["axes"], len(shape))
    reduced = {axis % len(shape) for axis in axes}
    if not axes or len(reduced) < len(axes):
        return None
    one = (1,) if values["keep_dims"] else ()
    parts = (one if axis in reduced else (extent,) for axis, extent in enumerate(shape))
    x, y = _tensors(values, shape, tuple(chain.from_iterable(parts)))
    keep_dims = values["keep_dims"]
    if type_name.endswith("D"):
        return OperatorSpec(type_name, (x,), (y,), attributes(axes=axes, keep_dims=keep_dims))
    indices = _constant(axes, values["index"])
    return OperatorSpec(type_name, (x, indices), (y,), attributes(keep_dims=keep_dims))


def softmax(type_name: str, values: Values) -> OperatorSpec | None:
    """A softmax along ``axes``, or along the default axis for ``None``."""
    (tensor,) = _tensors(values, values["shape"])
    if values["axes"] is None:
        return OperatorSpec(type_name, (tensor,), (tensor,))
    axes = _axes_of(values["axes"], len(tensor.shape))
    if len({axis % len(tensor.shape) for axis in axes}) < max(len(axes), 1):
        return None
    return OperatorSpec(type_name, (tensor,), (tensor,), attributes(axes=axes))


def layer_norm(type_name: str, values: Values) -> OperatorSpec | None:
    """LayerNorm with outputs y, mean and variance."""
    shape, first, weighed = values["shape"], values["begin_norm_axis"], values["begin_params_axis"]
    normalised, weighed_from = _from_front(first, len(shape)), _from_front(weighed, len(shape))
    if normalised is None or weighed_from is None:
        return None
    kept = (*shape[:normalised], *(1,) * (len(shape) - normalised))
    x, vector, mean = _tensors(values, shape, shape[weighed_from:], kept)
    given = attributes(begin_norm_axis=first, begin_params_axis=weighed, epsilon=values["epsilon"])
    return OperatorSpec(type_name, (x, vector, vector), (x, mean, mean), given)


def optional_layer_norm(type_name: str, values: Values) -> OperatorSpec:
    """LayerNorm over the last ``dims`` dimensions; gamma and beta are optional inputs."""
    shape, inner = values["shape"], values["shape"][-values["dims"] :]
    x, vector = _tensors(values, shape, inner)
    weights = (vector if values[each] else ABSENT for each in ("gamma", "beta"))
    epsilon = attributes(epsilon=values["epsilon"])
    return OperatorSpec(type_name, (x, _constant(inner, "int32"), *weights), (x,), epsilon)


def batch_norm(type_name: str, values: Values) -> OperatorSpec:
    """BatchNorm for inference."""
    (x,) = _tensors(values, values["shape"], format="NCHW")
    (vector,) = _tensors(values, (values["shape"][1],))
    given = attributes(epsilon=values["epsilon"], is_training=False)
    return OperatorSpec(type_name, (x, *(vector,) * 4), (x,), given)


# --- matrix products and images -------------------------------------------------------------


def matmul(left: str, right: str, batched: bool) -> Build:
    """A builder for matrix products; ``left`` and ``right`` are attributes that transpose."""

    def build(type_name: str, values: Values) -> OperatorSpec:
        rows, depth, columns = values["extents"]
        batch = values["batch"] if batched else ()
        narrow = tuple(1 for _ in batch) if batched and values["narrow"] else batch
        first = (depth, rows) if values[left] else (rows, depth)
        second = (columns, depth) if values[right] else (depth, columns)
        bias = [(columns,)] if values.get("bias") else []
        *inputs, result = _tensors(
            values, (*batch, *first), (*narrow, *second), *bias, (*batch, rows, columns)
        )
        flags = attributes(**{left: values[left], right: values[right]})
        return OperatorSpec(type_name, tuple(inputs), (result,), flags)

    return build


def gemm(type_name: str, values: Values) -> OperatorSpec:
    """alpha * (a x b) + beta * c; alpha and beta have one element."""
    product = matmul("transpose_a", "transpose_b", batched=False)(type_name, values)
    assert product is not None
    (one,) = _tensors(values, (1,))
    inputs = (*product.inputs, product.outputs[0], one, one)
    return replace(product, inputs=inputs)


def _extent(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    return (size + before + after - kernel) // stride + 1


def conv(type_name: str, values: Values) -> OperatorSpec | None:
    """A convolution of an NCHW image."""
    (height, width), (high, wide), groups = values["image"], values["kernel"], values["groups"]
    (down, right), dilation, pads = values["strides"], values["dilation"], values["pads"]
    depth, filters = values["channels"], groups * 2
    reach = ((high - 1) * dilation + 1, (wide - 1) * dilation + 1)
    made = (_extent(height, reach[0], down, *pads[:2]), _extent(width, reach[1], right, *pads[2:]))
    if min(made) < 1:
        return None
    image, weight = (2, depth * groups, height, width), (filters, depth, high, wide)
    x, filter_, y = _tensors(values, image, weight, (2, filters, *made), format="NCHW")
    bias = _tensors(values, (filters,)) if values["bias"] else ()
    given = attributes(
        strides=(1, 1, down, right),
        pads=pads,
        dilations=None if dilation == 1 else (1, 1, dilation, dilation),
        groups=None if groups == 1 else groups,
    )
    return OperatorSpec(type_name, (x, filter_, *bias), (y,), given)


def pool(type_name: str, values: Values) -> OperatorSpec | None:
    """A pooling of an NCHW image with ``padding`` SAME or VALID."""
    (height, width), (high, wide), (down, right) = (
        values[name] for name in ("image", "kernel", "strides")
    )
    made = (-(-height // down), -(-width // right))
    if values["padding"] == "VALID":
        made = (_extent(height, high, down, 0, 0), _extent(width, wide, right, 0, 0))
    if min(made) < 1:
        return None
    x, y = _tensors(values, (2, 3, height, width), (2, 3, *made), format="NCHW")
    padding = "padding" if type_name == "MaxPool" else "padding_mode"
    given = attributes(
        ksize=(1, 1, high, wide), strides=(1, 1, down, right), **{padding: values["padding"]}
    )
    return OperatorSpec(type_name, (x,), (y,), given)


def global_pool(type_name: str, values: Values) -> OperatorSpec:
    """A pooling of whole NCHW images."""
    x, y = _tensors(values, (2, 3, *values["image"]), (2, 3, 1, 1), format="NCHW")
    return OperatorSpec(type_name, (x,), (y,))


# --- movement -------------------------------------------------------------------------------


def transpose(type_name: str, values: Values) -> OperatorSpec:
    """``perm`` is an order of eight places, of which the tensor's own count."""
    shape = values["shape"]
    perm = tuple(place for place in values["perm"] if place < len(shape))
    x, y = _tensors(values, shape, [shape[place] for place in perm])
    if type_name.endswith("D"):
        return OperatorSpec(type_name, (x,), (y,), attributes(perm=perm))
    return OperatorSpec(type_name, (x, _constant(perm, values["index"])), (y,))


def reshape(type_name: str, values: Values) -> OperatorSpec | None:
    """Two dimensions, the first of extent ``split``."""
    shape, first = values["shape"], values["split"]
    if prod(shape) % first:
        return None
    result = (first, prod(shape) // first)
    x, y = _tensors(values, shape, result)
    return OperatorSpec(type_name, (x, _constant(result, values["index"])), (y,))


def flatten(type_name: str, values: Values) -> OperatorSpec | None:
    """Two dimensions: those before ``axis``, by default 1, and those from it on."""
    shape, axis = values["shape"], 1 if values["axis"] is None else values["axis"]
    if not -len(shape) <= axis <= len(shape):
        return None
    at = axis if axis >= 0 else axis + len(shape)
    x, y = _tensors(values, shape, (prod(shape[:at]), prod(shape[at:])))
    return OperatorSpec(type_name, (x,), (y,), attributes(axis=values["axis"]))


def _along(values: Values) -> tuple[tuple[TensorDesc, ...], TensorDesc] | None:
    """Parts of ``extents`` along ``axis``, and the tensor that they make."""
    shape, extents = values["shape"], values["extents"]
    place = _from_front(values["axis"], len(shape))
    if place is None:
        return None
    *parts, whole = _tensors(
        values,
        *((*shape[:place], extent, *shape[place + 1 :]) for extent in (*extents, sum(extents))),
    )
    return tuple(parts), whole


def concat(type_name: str, values: Values) -> OperatorSpec | None:
    if (tensors := _along(values)) is None:
        return None
    parts, whole = tensors
    given = attributes(concat_dim=values["axis"], N=len(parts))
    return OperatorSpec(type_name, parts, (whole,), given)


def split(type_name: str, values: Values) -> OperatorSpec | None:
    if (tensors := _along(values)) is None:
        return None
    parts, whole = tensors
    given = attributes(
        size_splits=values["extents"], split_dim=values["axis"], num_split=len(parts)
    )
    return OperatorSpec(type_name, (whole,), parts, given)


def gather(type_name: str, values: Values) -> OperatorSpec | None:
    """Slices at indices that have the shape ``places``."""
    shape, axis = values["shape"], values["axis"]
    place = _from_front(axis, len(shape))
    if place is None or shape[place] < 2:
        return None
    x, y = _tensors(values, shape, (*shape[:place], *values["places"], *shape[place + 1 :]))
    places = TensorDesc.of(values["index"], *values["places"])
    return OperatorSpec(type_name, (x, places, _constant((axis,), "int32")), (y,))


def unsqueeze(type_name: str, values: Values) -> OperatorSpec | None:
    """Extents of 1 inserted at ``axes`` of the result."""
    shape, axes = values["shape"], values["axes"]
    rank = len(shape) + len(axes)
    places = {axis % rank for axis in _axes_of(axes, rank)}
    if rank > 8 or len(places) < len(axes):
        return None
    rest = iter(shape)
    x, y = _tensors(values, shape, [1 if at in places else next(rest) for at in range(rank)])
    return OperatorSpec(type_name, (x, _constant(axes, "int64")), (y,))


def broadcast_to(type_name: str, values: Values) -> OperatorSpec:
    """The second input of :func:`binary` broadcast to the shape of the first."""
    made = binary(type_name, {**values, "swapped": False, "format": "ND"})
    shape = _constant(made.outputs[0].shape, values["index"])
    return replace(made, inputs=(made.inputs[1], shape))


def pad(type_name: str, values: Values) -> OperatorSpec:
    """Zeros before and after every dimension: as many as ``paddings`` says, again and again."""
    shape, given = values["shape"], values["paddings"]
    paddings = tuple(given[place % len(given)] for place in range(2 * len(shape)))
    padded = [sum(paddings[2 * at : 2 * at + 2]) + extent for at, extent in enumerate(shape)]
    x, y = _tensors(values, shape, padded)
    return OperatorSpec(type_name, (x, _constant(paddings, values["index"])), (y,))


def slice_(type_name: str, values: Values) -> OperatorSpec | None:
    """``range``, i.e. begin, end and step, along ``axis``."""
    shape, axis = values["shape"], values["axis"]
    place = _from_front(axis, len(shape))
    if place is None:
        return None
    first, last, step = values["range"]
    taken = len(range(*slice(first, last, step).indices(shape[place])))
    if not taken:
        return None
    x, y = _tensors(values, shape, (*shape[:place], taken, *shape[place + 1 :]))
    constants = (_constant((each,), values["index"]) for each in (first, last, axis, step))
    return OperatorSpec(type_name, (x, *constants), (y,))
