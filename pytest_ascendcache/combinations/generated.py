"""Operators nobody chose: seeded, of every type, each with neighbours that differ in one field.

A family of operators has a few *parameters* (a data type, a shape, an attribute, which input
broadcasts) and says how an operator follows from their values. A base takes random values; each of
its neighbours has one parameter changed, so a key that leaves any field out meets two operators
that differ in just that field. Shapes follow from the parameters, so every operator is one a
toolchain can compile. The same seed gives the same operators.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import prod
from typing import Any

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc, data_type
from pytest_ascendcache.operators.opinfo import ABSENT

_NEARLY_EQUAL, _REDRAWN = 2, 2
MOST_ELEMENTS = 8192
"""Elements of one tensor at most, but for the one long dimension of a family."""

Values = Mapping[str, Any]
Draw = Callable[[random.Random], Any]

_EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31)
_LONG = (4093, 4096, 4099, 5003)
_ODD_AND_LONG = (3, 5, 275)
"""4125 elements: an odd tail behind many full vectors."""

_LONG_ROWS = (3, 4099)
"""Rows that a sum in float16, or a counter of 12 bits, does not reach the end of."""

_FLOATS = ("float16", "float32")
_NUMBERS = (*_FLOATS, "int32")
_STORABLE = (*_NUMBERS, "int8", "uint8", "bool")


@dataclass(frozen=True)
class Family:
    """Operators of one type: how each parameter is drawn, and the operator for their values.

    ``build`` returns ``None`` for values that make no operator of this type. ``corners`` are
    values that chance seldom brings together; a base with each of them is made every time.
    """

    type: str
    parameters: Mapping[str, Draw]
    build: Callable[[str, Values], OperatorSpec | None]
    corners: tuple[Values, ...] = ()

    def base(self, rng: random.Random) -> tuple[dict[str, Any], OperatorSpec]:
        """Random values, and their operator."""
        while True:
            values = {name: draw(rng) for name, draw in self.parameters.items()}
            operator = self.build(self.type, values)
            if operator is not None:
                return values, operator

    def in_corners(self, values: Values) -> Iterator[OperatorSpec]:
        """The operator with the values of each corner."""
        for corner in self.corners:
            operator = self.build(self.type, {**values, **corner})
            if operator is not None:
                yield operator

    def neighbours(self, values: Values, rng: random.Random) -> Iterator[OperatorSpec]:
        """Operators with one parameter changed: shapes and orders a little, twice, then others
        drawn anew."""
        base = self.build(self.type, values)
        for name in sorted(_NEARLY.keys() & self.parameters):
            nearly = rng.sample(found := list(_NEARLY[name](values[name])), len(found))
            yield from islice(self._changed(base, values, name, nearly), _NEARLY_EQUAL)
        others = sorted(self.parameters.keys() - _NEARLY.keys())
        for name in rng.sample(others, min(len(others), _REDRAWN)):
            drawn = [self.parameters[name](rng) for _ in range(8)]
            yield from islice(self._changed(base, values, name, drawn), 1)

    def _changed(
        self, base: OperatorSpec | None, values: Values, name: str, candidates: Iterable[Any]
    ) -> Iterator[OperatorSpec]:
        for candidate in candidates:
            operator = self.build(self.type, {**values, name: candidate})
            if operator is not None and operator != base:
                yield operator


def generate(
    passes: int = 1,
    seed: int = 0,
    families: Sequence[Family] | None = None,
    near: bool = True,
) -> tuple[OperatorSpec, ...]:
    """Different operators, neighbours next to each other: about 340 a pass, of every type in each.

    They are named ``generated_<n>``. Without ``near`` there are no neighbours, about 130 a pass.
    """
    rng = random.Random(seed)
    found: dict[OperatorSpec, None] = {}
    for family in (*(FAMILIES if families is None else families),) * passes:
        values, base = family.base(rng)
        around = family.neighbours(values, rng) if near else ()
        for operator in chain((base,), around, family.in_corners(values)):
            found.setdefault(operator)
    return tuple(each.named(f"generated_{number}") for number, each in enumerate(found))


def groups(operators: Sequence[OperatorSpec], count: int) -> list[list[OperatorSpec]]:
    """Operators in ``count`` groups, none beside its neighbours."""
    return [list(operators[first::count]) for first in range(count)]


# --- parameters -----------------------------------------------------------------------------


def _one_of(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


def _shape(low: int = 1, high: int = 8, long: bool = True) -> Draw:
    """A shape of ``low`` to ``high`` dimensions: short ones, odd, prime, and a long one."""

    def draw(rng: random.Random) -> tuple[int, ...]:
        rank = rng.randint(low, high)
        if long and rank < 4 and rng.random() < 0.15:
            shape = [1] * rank
            shape[rng.randrange(rank)] = rng.choice(_LONG)
            return tuple(shape)
        shape = [rng.choice(_EXTENTS) for _ in range(rank)]
        while prod(shape) > MOST_ELEMENTS:
            longest = max(range(rank), key=shape.__getitem__)
            shape[longest] = rng.choice(_EXTENTS[:5])
        return tuple(shape)

    return draw


def _near_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes that a careless key takes for this one: a 1 more, less or elsewhere, two extents
    changed about, one extent longer."""
    for place in range(len(shape) + 1):
        if len(shape) < 8:
            yield (*shape[:place], 1, *shape[place:])
    for place, extent in enumerate(shape):
        rest = (*shape[:place], *shape[place + 1 :])
        if extent == 1 and rest:
            yield rest
            yield (*rest[:1], 1, *rest[1:])
            yield (*rest, 1)
        yield (*rest[:place], extent + 1, *rest[place:])
        yield (extent, *rest)


def _near_orders(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Orders with two neighbouring places changed about, late ones among them."""
    for place in range(len(order) - 1):
        yield (*order[:place], order[place + 1], order[place], *order[place + 2 :])


def _near_lists(numbers: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """Lists with one number moved a little, late ones among them, one less or one more."""
    for place in range(len(numbers)):
        yield (*numbers[:place], numbers[place] + _STEP / 2, *numbers[place + 1 :])
    yield numbers[:-1]
    yield (*numbers, numbers[-1] + _STEP)


_STEP = 1 / 16
"""Between two numbers of a list; float16 has all of them, and what lies halfway between two."""

_NEARLY: Mapping[str, Callable[[Any], Iterator[Any]]] = {
    "shape": _near_shapes,
    "perm": _near_orders,
    "boundaries": _near_lists,
}
"""Parameters that are changed a little; the others are drawn anew."""


def _attribute(name: str, kind: str, values: Values) -> tuple[Attribute, ...]:
    """The attribute of that name; none where its value is ``None``."""
    value = values[name]
    return () if value is None else (Attribute(name, kind, value),)


def _constant(values: Sequence[int], dtype: str) -> TensorDesc:
    tensor = TensorDesc.of(dtype, len(values))
    return replace(tensor, is_const=True, const_value=tuple(values))


# --- families -------------------------------------------------------------------------------


def _unary(*attributes: tuple[str, Draw]) -> Callable[[str, Values], OperatorSpec]:
    def build(kind: str, values: Values) -> OperatorSpec:
        tensor = TensorDesc.of(values["dtype"], *values["shape"], format=_layout(values))
        given = chain.from_iterable(_attribute(name, "float", values) for name, _ in attributes)
        return OperatorSpec(kind, (tensor,), (tensor,), tuple(given))

    return build


def _layout(values: Values) -> str:
    return str(values["format"]) if len(values["shape"]) == 4 else "ND"


def _unary_family(
    kind: str,
    dtypes: Sequence[str] = _FLOATS,
    *attributes: tuple[str, Draw],
    corners: tuple[Values, ...] = (),
) -> Family:
    parameters = {"dtype": _one_of(*dtypes), "shape": _shape(), "format": _FORMAT}
    long = {"dtype": "float16", "shape": _ODD_AND_LONG}
    return Family(kind, {**parameters, **dict(attributes)}, _unary(*attributes), (long, *corners))


_FORMAT = _one_of("ND", "NCHW", "NHWC")
_SLOPES = _one_of(None, 0.0, 0.25, -0.5, 0.1, 0.1000001)


def _binary(kind: str, values: Values) -> OperatorSpec:
    """``narrow`` are the places of dimensions of extent 1, ``lower`` dimensions left out in
    front (all of them for ``None``); which input has them says ``swapped``."""
    shape = values["shape"]
    narrow = {place % len(shape) for place in values["narrow"]}
    other = tuple(1 if place in narrow else extent for place, extent in enumerate(shape))
    lower = values["lower"]
    other = () if lower is None else other[min(lower, len(shape) - 1) :]
    first, second = (other, shape) if values["swapped"] else (shape, other)
    one, two, result = (
        TensorDesc.of(values["dtype"], *each, format=_layout(values))
        for each in (first, second, shape)
    )
    return OperatorSpec(kind, (one, two), (result,))


def _like_binary(kind: str, build: Callable[[str, Values], OperatorSpec | None]) -> Family:
    """Operators of two numbers, or with more, that broadcast as :func:`_binary` has them."""
    return replace(_binary_family(kind), build=build)


def _binary_family(
    kind: str, dtypes: Sequence[str] = _NUMBERS, corners: tuple[Values, ...] = ()
) -> Family:
    return Family(
        kind,
        {
            "dtype": _one_of(*dtypes),
            "shape": _shape(),
            "narrow": _one_of((), (), (0,), (1,), (-1,), (-2,), (0, 2), (1, 3)),
            "lower": _one_of(0, 0, 1, 2),
            "swapped": _one_of(False, True),
            "format": _FORMAT,
        },
        _binary,
        (
            *(
                {
                    "dtype": "float16",
                    "shape": _ODD_AND_LONG,
                    "narrow": (1,),
                    "lower": 0,
                    "swapped": each,
                }
                for each in (False, True)
            ),
            *corners,
        ),
    )


def _bias_add(kind: str, values: Values) -> OperatorSpec | None:
    shape, order = values["shape"], values["data_format"] or "NHWC"
    if len(shape) < 2:
        return None
    channels = shape[1 if order == "NCHW" else -1]
    x, bias = TensorDesc.of(values["dtype"], *shape), TensorDesc.of(values["dtype"], channels)
    return OperatorSpec(kind, (x, bias), (x,), _attribute("data_format", "string", values))


_CAST_NUMBERS = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "bool": 12}


def _cast(kind: str, values: Values) -> OperatorSpec:
    to = values["to"]
    attributes = (Attribute("dst_type", "int", _CAST_NUMBERS[to]),) if values["named"] else ()
    x, y = (TensorDesc.of(each, *values["shape"]) for each in (values["dtype"], to))
    return OperatorSpec(kind, (x,), (y,), attributes)


def _axes_of(given: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes of a list that a tensor of this rank has."""
    return tuple(axis for axis in given if -rank <= axis < rank)


def _reduce(kind: str, values: Values) -> OperatorSpec | None:
    shape = values["shape"]
    axes = _axes_of(values["axes"], len(shape))
    reduced = {axis % len(shape) for axis in axes}
    if not axes or len(reduced) < len(axes):
        return None
    one = (1,) if values["keep_dims"] else ()
    parts = (one if axis in reduced else (extent,) for axis, extent in enumerate(shape))
    x = TensorDesc.of(values["dtype"], *shape)
    y = TensorDesc.of(values["dtype"], *chain.from_iterable(parts))
    keep = _attribute("keep_dims", "bool", values)
    if kind.endswith("D"):
        return OperatorSpec(kind, (x,), (y,), (Attribute("axes", "list_int", axes), *keep))
    return OperatorSpec(kind, (x, _constant(axes, values["index"])), (y,), keep)


_AXES = _one_of((0,), (1,), (-1,), (2,), (0, 1), (1, 2), (-1, 0), (0, 2), (0, 1, 2, 3), (4,))


def _reduce_family(kind: str, dtypes: Sequence[str]) -> Family:
    parameters = {
        "dtype": _one_of(*dtypes),
        "shape": _shape(),
        "axes": _AXES,
        "keep_dims": _one_of(None, False, True),
    }
    if not kind.endswith("D"):
        parameters["index"] = _one_of("int32", "int64")
    corner = {"dtype": "float16", "shape": _LONG_ROWS, "axes": (-1,)}
    return Family(kind, parameters, _reduce, (corner,))


def _softmax(kind: str, values: Values) -> OperatorSpec | None:
    tensor = TensorDesc.of(values["dtype"], *values["shape"])
    if values["axes"] is None:
        return OperatorSpec(kind, (tensor,), (tensor,))
    axes = _axes_of(values["axes"], len(tensor.shape))
    if len({axis % len(tensor.shape) for axis in axes}) < max(len(axes), 1):
        return None
    return OperatorSpec(kind, (tensor,), (tensor,), (Attribute("axes", "list_int", axes),))


def _layer_norm(kind: str, values: Values) -> OperatorSpec | None:
    shape, first, weighed = values["shape"], values["begin_norm_axis"], values["begin_params_axis"]
    rank = len(shape)
    if not -rank <= first < rank or not -rank <= weighed < rank:
        return None
    normalised = range(first % rank, rank)
    kept = tuple(1 if axis in normalised else extent for axis, extent in enumerate(shape))
    x = TensorDesc.of(values["dtype"], *shape)
    vector = TensorDesc.of(values["dtype"], *shape[weighed % rank :])
    mean = TensorDesc.of(values["dtype"], *kept)
    attributes = (
        Attribute("begin_norm_axis", "int", first),
        Attribute("begin_params_axis", "int", weighed),
        *_attribute("epsilon", "float", values),
    )
    return OperatorSpec(kind, (x, vector, vector), (x, mean, mean), attributes)


def _optional_layer_norm(kind: str, values: Values) -> OperatorSpec:
    """Gamma and beta are connected or not, each by itself."""
    shape, inner = values["shape"], values["shape"][-values["dims"] :]
    x, vector = (TensorDesc.of(values["dtype"], *each) for each in (shape, inner))
    given = (vector if values[each] else ABSENT for each in ("gamma", "beta"))
    epsilon = _attribute("epsilon", "float", values)
    return OperatorSpec(kind, (x, _constant(inner, "int32"), *given), (x,), epsilon)


def _matmul(left: str, right: str, batched: bool) -> Callable[[str, Values], OperatorSpec]:
    def build(kind: str, values: Values) -> OperatorSpec:
        rows, depth, columns = values["extents"]
        batch = values["batch"] if batched else ()
        narrow = tuple(1 for _ in batch) if batched and values["narrow"] else batch
        turned = (values[left], values[right])
        first = (depth, rows) if turned[0] else (rows, depth)
        second = (columns, depth) if turned[1] else (depth, columns)
        dtype = values["dtype"]
        inputs = [TensorDesc.of(dtype, *batch, *first), TensorDesc.of(dtype, *narrow, *second)]
        if values.get("bias"):
            inputs.append(TensorDesc.of(dtype, columns))
        flags = (*_attribute(left, "bool", values), *_attribute(right, "bool", values))
        result = TensorDesc.of(dtype, *batch, rows, columns)
        return OperatorSpec(kind, tuple(inputs), (result,), flags)

    return build


def _matmul_family(kind: str, left: str, right: str, batched: bool) -> Family:
    flag = _one_of(None, False, True)
    square = _one_of((4, 4, 4), (3, 3, 3), (7, 5, 1), (1, 17, 2), (2, 2053, 3), (5, 1, 8))
    parameters: dict[str, Draw] = {"dtype": _one_of(*_FLOATS), "extents": square}
    parameters |= {left: flag, right: flag}
    if batched:
        parameters["batch"] = _one_of((), (2,), (1,), (2, 3), (3, 1, 2))
        parameters["narrow"] = _one_of(False, True)
    else:
        parameters["bias"] = _one_of(False, True)
    corner = {"dtype": "float16", "extents": (2, 2053, 3)}
    return Family(kind, parameters, _matmul(left, right, batched), (corner,))


def _transpose(kind: str, values: Values) -> OperatorSpec:
    """``perm`` is an order of eight places, of which the tensor's own are taken."""
    shape = values["shape"]
    perm = tuple(place for place in values["perm"] if place < len(shape))
    x = TensorDesc.of(values["dtype"], *shape)
    y = TensorDesc.of(values["dtype"], *(shape[place] for place in perm))
    if kind.endswith("D"):
        return OperatorSpec(kind, (x,), (y,), (Attribute("perm", "list_int", perm),))
    return OperatorSpec(kind, (x, _constant(perm, values["index"])), (y,))


def _order(rng: random.Random) -> tuple[int, ...]:
    """Eight places: the first six as they are or not, so that some differ late in the list."""
    kept = rng.choice((0, 0, 2, 4))
    return (*range(kept), *rng.sample(range(kept, 8), 8 - kept))


def _reshape(kind: str, values: Values) -> OperatorSpec | None:
    shape, first = values["shape"], values["split"]
    if prod(shape) % first:
        return None
    result = (first, prod(shape) // first)
    x, y = (TensorDesc.of(values["dtype"], *each) for each in (shape, result))
    return OperatorSpec(kind, (x, _constant(result, values["index"])), (y,))


def _flatten(kind: str, values: Values) -> OperatorSpec | None:
    shape, axis = values["shape"], 1 if values["axis"] is None else values["axis"]
    if not -len(shape) <= axis <= len(shape):
        return None
    at = axis if axis >= 0 else axis + len(shape)
    result = (prod(shape[:at]), prod(shape[at:]))
    x, y = (TensorDesc.of(values["dtype"], *each) for each in (shape, result))
    return OperatorSpec(kind, (x,), (y,), _attribute("axis", "int", values))


def _extent(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    return (size + before + after - kernel) // stride + 1


def _conv(kind: str, values: Values) -> OperatorSpec | None:
    (height, width), (high, wide), groups = values["image"], values["kernel"], values["groups"]
    (down, right), dilation, pads = values["strides"], values["dilation"], values["pads"]
    depth, filters = values["channels"], groups * 2
    reach = ((high - 1) * dilation + 1, (wide - 1) * dilation + 1)
    made = (
        _extent(height, reach[0], down, *pads[:2]),
        _extent(width, reach[1], right, *pads[2:]),
    )
    if min(made) < 1:
        return None

    def tensor(*shape: int) -> TensorDesc:
        return TensorDesc.of(values["dtype"], *shape, format="NCHW")

    inputs = [tensor(2, depth * groups, height, width), tensor(filters, depth, high, wide)]
    if values["bias"]:
        inputs.append(TensorDesc.of(values["dtype"], filters))
    attributes = (
        Attribute("strides", "list_int", (1, 1, down, right)),
        Attribute("pads", "list_int", pads),
        *(
            ()
            if values["dilation"] == 1
            else (Attribute("dilations", "list_int", (1, 1, dilation, dilation)),)
        ),
        *((Attribute("groups", "int", groups),) if groups > 1 else ()),
    )
    return OperatorSpec(kind, tuple(inputs), (tensor(2, filters, *made),), attributes)


def _pool(kind: str, values: Values) -> OperatorSpec | None:
    (height, width), (high, wide), (down, right) = (
        values[name] for name in ("image", "kernel", "strides")
    )
    same = values["padding"] == "SAME"
    made = (-(-height // down), -(-width // right))
    if not same:
        made = (_extent(height, high, down, 0, 0), _extent(width, wide, right, 0, 0))
    if min(made) < 1:
        return None
    x = TensorDesc.of(values["dtype"], 2, 3, height, width, format="NCHW")
    y = TensorDesc.of(values["dtype"], 2, 3, *made, format="NCHW")
    attributes = (
        Attribute("ksize", "list_int", (1, 1, high, wide)),
        Attribute("strides", "list_int", (1, 1, down, right)),
        Attribute("padding" if kind == "MaxPool" else "padding_mode", "string", values["padding"]),
    )
    return OperatorSpec(kind, (x,), (y,), attributes)


def _comparison(kind: str, values: Values) -> OperatorSpec:
    numbers = _binary(kind, values)
    return replace(numbers, outputs=(replace(numbers.outputs[0], dtype=data_type("bool")),))


def _select(kind: str, values: Values) -> OperatorSpec:
    numbers = _binary(kind, values)
    place = 1 if values["swapped"] else 0
    condition = replace(numbers.inputs[place], dtype=data_type("bool"))
    return replace(numbers, inputs=(condition, *numbers.inputs))


def _gelu(kind: str, values: Values) -> OperatorSpec:
    tensor = TensorDesc.of(values["dtype"], *values["shape"])
    given = _attribute("approximate", "string", values)
    return OperatorSpec(kind, (tensor,), (tensor,), given)


def _accumulate(kind: str, values: Values) -> OperatorSpec:
    tensor, count = TensorDesc.of(values["dtype"], *values["shape"]), values["count"]
    return OperatorSpec(kind, (tensor,) * count, (tensor,), (Attribute("N", "int", count),))


def _batch_norm(kind: str, values: Values) -> OperatorSpec:
    x = TensorDesc.of(values["dtype"], *values["shape"], format="NCHW")
    vector = TensorDesc.of(values["dtype"], values["shape"][1])
    given = (*_attribute("epsilon", "float", values), Attribute("is_training", "bool", False))
    return OperatorSpec(kind, (x, *(vector,) * 4), (x,), given)


def _bucketize(kind: str, values: Values) -> OperatorSpec:
    x = TensorDesc.of(values["dtype"], *values["shape"])
    y = TensorDesc.of("int32", *values["shape"])
    given = (
        Attribute("boundaries", "list_float", values["boundaries"]),
        Attribute("right", "bool", values["right"]),
    )
    return OperatorSpec(kind, (x,), (y,), given)


def _steps(count: int, *moved: int) -> tuple[float, ...]:
    """A list of so many numbers around 0; those at some places are moved half a step, up and
    down by turns."""
    numbers = [(place - count // 2) * _STEP for place in range(count)]
    for number, place in enumerate(moved):
        numbers[place] += _STEP / 2 if number % 2 == 0 else -_STEP / 2
    return tuple(numbers)


_LISTS = (
    *(_steps(12, *moved) for moved in ((), (0,), (8,), (11,), (3, 10))),
    *(_steps(40, *moved) for moved in ((), (0,), (17,), (39,), (19, 38))),
)
"""Long lists of which two differ in a number or two: early, amid, late, or so that the sum is one.
Five of each length, as :func:`groups` has in different groups."""


def _along(values: Values) -> tuple[tuple[TensorDesc, ...], TensorDesc, int] | None:
    """Parts along an axis, the tensor that they make, and the axis."""
    shape, axis = values["shape"], values["axis"]
    if not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    parts = tuple(
        TensorDesc.of(values["dtype"], *shape[:place], extent, *shape[place + 1 :])
        for extent in values["extents"]
    )
    whole = (*shape[:place], sum(values["extents"]), *shape[place + 1 :])
    return parts, TensorDesc.of(values["dtype"], *whole), axis


def _concat(kind: str, values: Values) -> OperatorSpec | None:
    found = _along(values)
    if found is None:
        return None
    parts, whole, axis = found
    given = (Attribute("concat_dim", "int", axis), Attribute("N", "int", len(parts)))
    return OperatorSpec(kind, parts, (whole,), given)


def _split(kind: str, values: Values) -> OperatorSpec | None:
    found = _along(values)
    if found is None:
        return None
    parts, whole, axis = found
    given = (
        Attribute("size_splits", "list_int", values["extents"]),
        Attribute("split_dim", "int", axis),
        Attribute("num_split", "int", len(parts)),
    )
    return OperatorSpec(kind, (whole,), parts, given)


def _gather(kind: str, values: Values) -> OperatorSpec | None:
    shape, axis = values["shape"], values["axis"]
    if not -len(shape) <= axis < len(shape) or shape[axis] < 2:
        return None
    place = axis % len(shape)
    made = (*shape[:place], *values["places"], *shape[place + 1 :])
    x, y = TensorDesc.of(values["dtype"], *shape), TensorDesc.of(values["dtype"], *made)
    places = TensorDesc.of(values["index"], *values["places"])
    return OperatorSpec(kind, (x, places, _constant((axis,), "int32")), (y,))


def _unsqueeze(kind: str, values: Values) -> OperatorSpec | None:
    shape, axes = values["shape"], values["axes"]
    rank = len(shape) + len(axes)
    places = {axis % rank for axis in axes if -rank <= axis < rank}
    if rank > 8 or len(places) < len(axes):
        return None
    rest = iter(shape)
    made = tuple(1 if place in places else next(rest) for place in range(rank))
    x, y = TensorDesc.of(values["dtype"], *shape), TensorDesc.of(values["dtype"], *made)
    return OperatorSpec(kind, (x, _constant(axes, "int64")), (y,))


def _broadcast_to(kind: str, values: Values) -> OperatorSpec:
    made = _binary(kind, {**values, "swapped": False, "format": "ND"})
    asked = _constant(made.outputs[0].shape, values["index"])
    return replace(made, inputs=(made.inputs[1], asked))


def _slice(kind: str, values: Values) -> OperatorSpec | None:
    shape, axis = values["shape"], values["axis"]
    if not -len(shape) <= axis < len(shape):
        return None
    first, last, step = values["range"]
    taken = len(range(*slice(first, last, step).indices(shape[axis])))
    if not taken:
        return None
    place = axis % len(shape)
    made = (*shape[:place], taken, *shape[place + 1 :])
    x, y = TensorDesc.of(values["dtype"], *shape), TensorDesc.of(values["dtype"], *made)
    given = (_constant((each,), values["index"]) for each in (first, last, axis, step))
    return OperatorSpec(kind, (x, *given), (y,))


def _global_pool(kind: str, values: Values) -> OperatorSpec:
    x = TensorDesc.of(values["dtype"], 2, 3, *values["image"], format="NCHW")
    return OperatorSpec(kind, (x,), (TensorDesc.of(values["dtype"], 2, 3, 1, 1, format="NCHW"),))


_IMAGES: dict[str, Draw] = {
    "dtype": _one_of(*_FLOATS),
    "image": _one_of((5, 5), (7, 4), (8, 8), (1, 9)),
    "kernel": _one_of((1, 1), (2, 2), (3, 3), (2, 3), (1, 3)),
    "strides": _one_of((1, 1), (2, 2), (1, 2), (2, 1)),
}
_WITH_A_SCALAR = tuple(
    {"shape": (4, 8), "narrow": (), "lower": None, "swapped": each} for each in (False, True)
)
_PADDING: dict[str, Draw] = {"padding": _one_of("SAME", "VALID")}

FAMILIES = (
    _unary_family("Abs", _NUMBERS, corners=({"shape": ()},)),
    *(_unary_family(kind, _NUMBERS) for kind in ("Neg", "Square", "Relu")),
    *(
        _unary_family(kind)
        for kind in (
            *("Sqrt", "Rsqrt", "Reciprocal", "Sigmoid", "Tanh"),
            *("Gelu", "FastGelu", "Mish"),
        )
    ),
    _unary_family(
        "LeakyRelu",
        _FLOATS,
        ("negative_slope", _SLOPES),
        corners=tuple({"shape": (4, 8), "negative_slope": each} for each in (0.0, -0.0)),
    ),
    _unary_family("Swish", _FLOATS, ("scale", _one_of(None, 0.0, 0.5, -1.0, 1.0))),
    *(
        _unary_family(
            kind,
            _FLOATS,
            ("base", _one_of(None, -1.0, 2.0, 0.5)),
            ("scale", _one_of(None, 1.0, 2.0)),
            ("shift", _one_of(None, 0.0, 0.25)),
        )
        for kind in ("Exp", "Log")
    ),
    _binary_family("Add", corners=_WITH_A_SCALAR),
    *(_binary_family(kind) for kind in ("Sub", "Mul", "Maximum", "Minimum")),
    _binary_family("RealDiv", _FLOATS),
    Family(
        "BiasAdd",
        {
            "dtype": _one_of(*_NUMBERS),
            "shape": _one_of((2, 3, 3), (4, 5, 5), (2, 7, 1, 7), (3, 2), (1, 4099)),
            "data_format": _one_of(None, "NHWC", "NCHW"),
        },
        _bias_add,
    ),
    Family(
        "Cast",
        {
            "dtype": _one_of(*_STORABLE),
            "to": _one_of(*_STORABLE),
            "shape": _shape(),
            "named": _one_of(False, True),
        },
        _cast,
        # Types of one width, told apart by the output alone.
        tuple({"dtype": "float32", "to": to, "named": False} for to in ("bool", "int8", "uint8")),
    ),
    *(
        _reduce_family(f"{kind}{suffix}", _NUMBERS if kind != "ReduceMean" else _FLOATS)
        for kind in ("ReduceSum", "ReduceMean", "ReduceMax")
        for suffix in ("", "D")
    ),
    Family(
        "SoftmaxV2",
        {
            "dtype": _one_of(*_FLOATS),
            "shape": _shape(),
            "axes": _one_of(None, (-1,), (0,), (1,), (-2,), (0, 1)),
        },
        _softmax,
        (
            {"dtype": "float16", "shape": _LONG_ROWS, "axes": (-1,)},
            # One list of axes over shapes that differ in a 1.
            *({"shape": shape, "axes": (1,)} for shape in ((5, 1, 7), (5, 7), (5, 7, 1))),
        ),
    ),
    Family(
        "LayerNorm",
        {
            "dtype": _one_of(*_FLOATS),
            "shape": _one_of((4, 1, 8), (3, 7), (2, 1, 1, 13), (2, 2053)),
            "begin_norm_axis": _one_of(0, 1, 2, -1),
            "begin_params_axis": _one_of(0, 1, 2, -1),
            "epsilon": _one_of(None, 0.0, 1e-3),
        },
        _layer_norm,
    ),
    *(
        _matmul_family(kind, "transpose_x1", "transpose_x2", batched=False)
        for kind in ("MatMul", "MatMulV2")
    ),
    *(
        _matmul_family(kind, "adj_x1", "adj_x2", batched=True)
        for kind in ("BatchMatMul", "BatchMatMulV2")
    ),
    *(
        Family(
            kind,
            {
                "dtype": _one_of(*_STORABLE),
                "shape": _one_of(
                    *((2,) * 8, (2, 3, 2), (1, 2, 1, 3, 2, 2, 1, 2), (31, 17), (3,) * 6, (4,) * 4)
                ),
                "perm": _order,
                **({} if kind.endswith("D") else {"index": _one_of("int32", "int64")}),
            },
            _transpose,
            # Long lists that differ at their end only.
            tuple(
                {"shape": (2,) * 8, "perm": (1, 0, 2, 3, 4, 5, *last)} for last in ((6, 7), (7, 6))
            ),
        )
        for kind in ("Transpose", "TransposeD")
    ),
    Family(
        "Reshape",
        {
            "dtype": _one_of(*_STORABLE),
            "shape": _one_of((4, 6), (24,), (2, 3, 4, 1), (1, 5, 12)),
            "split": _one_of(1, 2, 4, 6, 12),
            "index": _one_of("int32", "int64"),
        },
        _reshape,
    ),
    Family(
        "Flatten",
        {"dtype": _one_of(*_STORABLE), "shape": _shape(), "axis": _one_of(None, 0, 1, 2, -1)},
        _flatten,
    ),
    Family(
        "Conv2D",
        {
            **_IMAGES,
            "pads": _one_of((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 0, 0)),
            "dilation": _one_of(1, 2),
            "groups": _one_of(1, 2, 3),
            "channels": _one_of(1, 3),
            "bias": _one_of(False, True),
        },
        _conv,
    ),
    *(
        Family(kind, {**_IMAGES, **_PADDING}, _pool)
        for kind in ("MaxPool", "MaxPoolV3", "AvgPoolV2")
    ),
    Family(
        "GlobalAveragePool",
        {name: _IMAGES[name] for name in ("dtype", "image")},
        _global_pool,
        ({"dtype": "float16", "image": (3, 2053)},),
    ),
    _unary_family("Erf"),
    Family(
        "GeluV2",
        {
            "dtype": _one_of(*_FLOATS),
            "shape": _shape(),
            "approximate": _one_of(None, "none", "tanh"),
        },
        _gelu,
    ),
    _binary_family("Pow", _FLOATS),
    *(_like_binary(kind, _comparison) for kind in ("Equal", "Less", "Greater")),
    _like_binary("SelectV2", _select),
    Family(
        "AccumulateNV2",
        {"dtype": _one_of(*_FLOATS), "shape": _shape(), "count": _one_of(1, 2, 3, 9)},
        _accumulate,
    ),
    Family(
        "BatchNorm",
        {
            "dtype": _one_of(*_FLOATS),
            "shape": _one_of((2, 3, 5, 5), (1, 7, 1, 4), (3, 1, 8, 2), (1, 2, 1, 2053)),
            "epsilon": _one_of(None, 1e-5, 1e-3),
        },
        _batch_norm,
    ),
    *(_reduce_family(kind, _NUMBERS) for kind in ("ReduceMin", "ReduceMinD")),
    *(
        Family(
            kind,
            {
                "dtype": _one_of(*_STORABLE),
                "shape": _one_of((2, 3, 4), (5,), (1, 2, 1, 3), (4, 4), (3, 1, 2, 2, 2)),
                "axis": _one_of(0, 1, -1, -2),
                "extents": _one_of((1, 2), (2, 1), (3,), (1, 1, 1), (5, 3)),
            },
            build,
            # Many parts, of which only late ones differ.
            tuple(
                {"shape": (2, 3), "axis": 1, "extents": (*(1,) * 9, *last, 1, 1)}
                for last in ((1, 2), (2, 1))
            ),
        )
        for kind, build in (("ConcatD", _concat), ("SplitVD", _split))
    ),
    Family(
        "GatherV2",
        {
            "dtype": _one_of(*_STORABLE),
            "shape": _one_of((2, 3, 4), (5, 7), (3, 2, 1, 2), (31, 3)),
            "axis": _one_of(0, 1, -1),
            "places": _one_of((3,), (2, 2), (1,), (1, 3), (3, 1)),
            "index": _one_of("int32", "int64"),
        },
        _gather,
    ),
    Family(
        "UnsqueezeV3",
        {
            "dtype": _one_of(*_STORABLE),
            "shape": _one_of((2, 3), (6,), (1, 2, 3), (2, 1, 2, 2)),
            "axes": _one_of((0,), (1,), (-1,), (0, 2), (0, -1)),
        },
        _unsqueeze,
    ),
    Family(
        "BroadcastTo",
        {
            "dtype": _one_of(*_STORABLE),
            "shape": _one_of((2, 3), (4, 1, 5), (2, 2, 2, 2), (3, 7)),
            "narrow": _one_of((), (0,), (-1,), (0, 1)),
            "lower": _one_of(0, 1, 2),
            "index": _one_of("int32", "int64"),
        },
        _broadcast_to,
    ),
    Family(
        "StridedSliceV2",
        {
            "dtype": _one_of(*_STORABLE),
            "shape": _one_of((7, 5), (3, 8, 2), (13,), (2, 1, 9, 4)),
            "axis": _one_of(0, 1, -1),
            "range": _one_of((0, 2, 1), (1, 8, 2), (-2, 99, 1), (5, 0, -2), (0, 99, 3)),
            "index": _one_of("int32", "int64"),
        },
        _slice,
        # Several constants, of which only the third or the fourth differs.
        tuple(
            {"shape": (4, 4), "axis": axis, "range": each}
            for axis, each in ((0, (3, -5, -1)), (1, (3, -5, -1)), (0, (0, 4, 2)), (0, (0, 4, 3)))
        ),
    ),
    Family(
        "Bucketize",
        {
            "dtype": _one_of(*_FLOATS),
            "shape": _shape(long=False),
            "boundaries": _one_of((0.5,), (-0.5, 0.25, 1.0), _steps(20)),
            "right": _one_of(False, True),
        },
        _bucketize,
        tuple({"shape": (4, 31), "boundaries": each} for each in _LISTS),
    ),
    Family(
        "LayerNormV4",
        {
            "dtype": _one_of("float16"),
            "shape": _one_of((4, 1, 8), (3, 7), (2, 13)),
            "dims": _one_of(1, 2),
            "gamma": _one_of(False, True),
            "beta": _one_of(False, True),
            "epsilon": _one_of(None, 0.0, 1e-3),
        },
        _optional_layer_norm,
        # Either one is left out, and what is there looks the same.
        tuple(
            {"shape": (3, 8), "dims": 1, "gamma": gamma, "beta": not gamma, "epsilon": None}
            for gamma in (True, False)
        ),
    ),
)
"""One family a type; together they hold every type with reference semantics."""
