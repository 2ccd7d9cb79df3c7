"""The fused attention operator, as ``aclnnFlashAttentionScore`` dumps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ascendcache.reference.kernels import functions as f
from pytest_ascendcache.reference.kernels.layout import broadcast_strides, row_major
from pytest_ascendcache.reference.kernels.operator import FLOATS, KernelContext, Tensor
from pytest_ascendcache.reference.kernels.reductions import Sum
from pytest_ascendcache.reference.kernels.registry import register
from pytest_ascendcache.reference.kernels.trace import Value, select

_MASKED = -3.3895313892515355e38
"""The value of a masked score. If all scores of a row are masked, all get an equal share."""

_OPTIONAL = {3: "real_shift", 4: "drop_mask", 5: "padding_mask", 7: "prefix"}
_COPIES = 8
"""How often each maximum and each sum is written, to fill an NPU's vectors."""


@dataclass(frozen=True)
class _Heads:
    """A tensor as batch, heads, places and features, with the stride of each in elements."""

    extents: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]


def _heads(op: KernelContext, tensor: Tensor, layout: str, heads: int) -> _Heads:
    shape = tensor.shape
    if len(shape) != len(layout):
        op.fail(f"has {list(shape)} for {tensor.role}, which is not {layout}")
    if layout[-1] == "H":
        if heads < 1 or shape[-1] % heads:
            op.fail(f"cannot split {shape[-1]} into {heads} heads; use a divisor for head_num")
        shape = (*shape[:-1], heads, shape[-1] // heads)
        layout = layout[:-1] + "ND"
    steps = dict(zip(layout, row_major(shape), strict=True))
    extents = dict(zip(layout, shape, strict=True))
    b, n, s, d = "BNSD"
    return _Heads(
        (extents[b], extents[n], extents[s], extents[d]), (steps[b], steps[n], steps[s], steps[d])
    )


class _Scores:
    """The scaled and masked product of each query with each key."""

    def __init__(self, op: KernelContext, query: _Heads, key: _Heads) -> None:
        self._op = op
        self._query, self._key = query, key
        self._scale = op.number("scale_value", 1.0)
        batch, heads, places, _ = query.extents
        self._mask = op.optional_input(6)
        whole = (batch, heads, places, key.extents[2])
        shape = self._mask.shape if self._mask is not None else ()
        if self._mask is not None and (
            self._mask.dtype not in ("bool", "uint8")
            or any(a not in (1, b) for a, b in zip(shape[::-1], whole[::-1], strict=False))
            or not 2 <= len(shape) <= 4
        ):
            op.fail(f"has {list(shape)} for atten_mask; use bool that broadcasts to {list(whole)}")
        self._mask_steps = broadcast_strides(shape, 4)

    def at(self, where: Sequence[Value], shared: Value, place: Value) -> Value:
        """The score of one query and one key.

        ``where`` is the query's batch, head and place; the key has the head ``shared`` and
        ``place``.
        """
        op, trace = self._op, self._op.trace
        start = op.offset(where, self._query.steps[:3])
        other = op.offset((where[0], shared, place), self._key.steps[:3])
        total = Sum(op)
        with trace.nest((self._query.extents[3],)) as (feature,):
            factor = op.input(0).load(start + feature * self._query.steps[3])
            total.add(factor * op.input(1).load(other + feature * self._key.steps[3]))
        score = total.get() * self._scale
        if self._mask is None:
            return score
        masked = self._mask.load_bits(op.offset((*where, place), self._mask_steps))
        return select(masked.equals(0), score, _MASKED)


@register(
    "FlashAttentionScore",
    dtypes=(*FLOATS, "bool", "uint8"),
    attributes=(
        *("scale_value", "keep_prob", "pre_tockens", "next_tockens", "head_num", "input_layout"),
        *("inner_precise", "sparse_mode", "pse_type", "seed", "offset", "out_dtype"),
        "softmax_out_layout",
    ),
    inputs=(3, 8),
    outputs=(4, 4),
)
def flash_attention(op: KernelContext) -> None:
    """softmax(query . key * scale_value) . value.

    If the query has more heads, several of them share one head of key and value. Outputs: the
    maximum of each row and the sum of its powers, both eight times; an empty tensor; the attention.
    The scores are computed again for each feature, so they take no memory.
    """
    layout = op.text("input_layout", "BNSD", ("BNSD", "BSND", "BSH", "SBH"))
    heads = op.integer("head_num")
    query = _heads(op, op.input(0), layout, heads)
    batch, number, places, features = query.extents
    for position, name in _OPTIONAL.items():
        if op.optional_input(position) is not None:
            op.fail(f"has the input {name}; leave it out")
    if op.number("keep_prob", 1.0) != 1 or op.integer("sparse_mode", 0) not in (0, 1):
        op.fail("supports only keep_prob 1 and sparse_mode 0 or 1")
    for each in (op.input(1), op.input(2)):
        op.expect_dtype_of_first(each)
    own = op.input(1).shape[-1] // features if layout[-1] == "H" and features else heads
    key, value = (_heads(op, op.input(each), layout, own) for each in (1, 2))
    _, shared, length, _ = key.extents
    if key.extents != (batch, shared, length, features) or (
        value.extents != key.extents or not shared or number != heads or heads % shared
    ):
        op.fail("has key, value and head_num that do not fit its query; see their shapes")
    for band in ("pre_tockens", "next_tockens"):
        if op.integer(band, 1 << 30) < max(places, length):
            op.fail(f"supports only {band} of the whole length; give a mask instead")
    highest, total, nothing, attention = op.outputs
    for each in (highest, total):
        op.expect_shape(each, (batch, heads, places, _COPIES), "float32")
    op.expect_shape(nothing, (0,))
    op.expect_shape(attention, op.input(0).shape, op.input(0).dtype)
    trace, scores, group = op.trace, _Scores(op, query, key), heads // shared
    with trace.nest((batch, shared, group, places)) as (item, common, member, row):
        where = (item, common * group + member, row)
        largest = trace.variable(_MASKED)
        with trace.nest((length,)) as (place,):
            score, so_far = scores.at(where, common, place), largest.get()
            largest.set(select(score > so_far, score, so_far))
        powers = Sum(op)
        with trace.nest((length,)) as (place,):
            powers.add(f.exp(scores.at(where, common, place) - largest.get()))
        most, share = largest.get(), powers.get()
        with trace.nest((_COPIES,)) as (copy,):
            line = op.offset((*where, copy), highest.strides)
            highest.store(line, most)
            total.store(line, share)
        with trace.nest((features,)) as (feature,):
            mixed = Sum(op)
            with trace.nest((length,)) as (place,):
                power = f.exp(scores.at(where, common, place) - most)
                wanted = op.offset((item, common, place, feature), value.steps)
                mixed.add(power * op.input(2).load(wanted))
            target = op.offset((*where, feature), query.steps)
            attention.store(target, mixed.get() / share)
