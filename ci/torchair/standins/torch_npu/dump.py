"""Dumps the information of operators that run, as CANN does: a file for each distinct record.

``OPERATORS`` maps ATen calls to CANN's operators, with their inputs and attributes. Other calls are
not dumped, as CANN dumps no views; add a line for an operator of yours.
"""

import json
import os
from collections import Counter
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

aten = torch.ops.aten
_TYPES = {
    torch.float32: "float",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.bool: "bool",
}
_TARGETS = (
    "MatMul",
    "BatchMatMul",
    "Transpose",
    "Gelu",
    "SoftmaxV2",
    "LayerNorm",
    "FlashAttention",
)
"""The operators in the folder ``<pid>``, by the beginnings of their names; ``_debug`` has all."""
_NOT_COMPILED = {"ReduceSum", "ReduceMin", "ReduceMax", "GatherV2", "Range", "Sort"}
_numbers = Counter()


def _attributes(**values):
    kinds = {bool: "bool", int: "int", float: "float", str: "string", list: "list_int"}
    return [
        {"name": name, "dtype": kinds[type(value)], "index": index, "value": value}
        for index, (name, value) in enumerate(values.items())
    ]


def _matmul(x1, x2, bias=None):
    transposed = x2.dim() == 2 and not x2.is_contiguous() and x2.t().is_contiguous()
    second = x2.t() if transposed else x2
    attributes = _attributes(transpose_x1=False, transpose_x2=transposed, offset_x=0)
    return "MatMulV2", [x1, second, bias, None], attributes


def _addmm(bias, x1, x2, **_):
    return _matmul(x1, x2, bias)


def _bmm(x1, x2):
    return (
        "BatchMatMulV2",
        [x1, x2, None, None],
        _attributes(adj_x1=False, adj_x2=False, offset_x=0),
    )


def _binary(kind):
    def named(x1, x2, **_):
        second = x2 if isinstance(x2, torch.Tensor) else torch.tensor(x2, dtype=x1.dtype)
        return kind, [x1, second], []

    return named


def _masked_fill(x, mask, value):
    return "MaskedFill", [x, mask, torch.tensor(value, dtype=x.dtype)], []


def _reverse(x, number, *_):
    return "Sub", [torch.tensor(number, dtype=x.dtype), x], []


def _unary(kind):
    return lambda x, **_: (kind, [x], [])


def _layer_norm(x, shape, weight, bias, epsilon):
    axis = x.dim() - len(shape)
    attributes = _attributes(begin_norm_axis=axis, begin_params_axis=axis, epsilon=epsilon)
    return "LayerNorm", [x, weight, bias], attributes


def _softmax(x, axis, half_to_float):
    return "SoftmaxV2", [x], _attributes(axes=[axis % x.dim()], half_to_float=half_to_float)


def _embedding(weight, places, *_, **__):
    axis = torch.tensor([0])
    axis.value_depend = True  # a constant input, whose value is dumped
    return "GatherV2", [weight, places, axis], _attributes(batch_dims=0)


def _attention(query, key, value, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    mask = attn_mask
    if mask is not None and mask.dtype != torch.bool:
        return None  # an NPU fuses only masks of bool; see _in_parts
    if causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu(1)
    attributes = _attributes(scale_value=scale, head_num=query.shape[1], input_layout="BNSD")
    return "FlashAttentionScore", [query, key, value, None, None, None, mask], attributes


def _in_parts(query, key, value, dropout=0.0, causal=False, *, attn_mask=None, scale=None):
    """Return the calls of attention that is not fused."""
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        first, second, third = (each.flatten(0, 1) for each in (query, key, value))
        scores = torch.bmm(first * scale, second.transpose(1, 2)).view(*query.shape[:-1], -1)
        shares = aten._softmax(scores + attn_mask, -1, False)
        torch.bmm(shares.flatten(0, 1), third)


def _with_sums(attention):
    """Return attention after the maxima and sums of its rows, each eight times, and nothing."""
    rows = torch.empty(*attention.shape[:-1], 8)
    return [rows, rows, torch.empty(0, dtype=attention.dtype), attention]


def _mean(x, axes, keep=False, **_):
    return "ReduceMean", [x], _attributes(axes=[each % x.dim() for each in axes], keep_dims=keep)


def _cat(tensors, axis=0):
    dimension = axis % tensors[0].dim()
    return "ConcatD", [tensors], _attributes(concat_dim=dimension, N=len(tensors))


def _where(condition, x1, x2):
    return "SelectV2", [condition, x1, x2], []


def _arange(*limits, **_):
    start, limit, step = (limits[0], *limits[1:], 1)[:3] if limits[1:] else (0, limits[0], 1)
    return "Range", [torch.tensor([each]) for each in (start, limit, step)], []


def _triangle(kind):
    return lambda x, diagonal=0: (kind, [x], _attributes(diagonal=diagonal))


def _sort(x, *, stable=False, dim=-1, descending=False):
    return "Sort", [x], _attributes(axis=dim, descending=descending, stable=bool(stable))


def _power(x, exponent):
    if exponent == 2:
        return "Square", [x], []
    return "Pow", [x, torch.tensor(exponent, dtype=x.dtype)], []


def _cast(x, *, dtype=None, **_):
    # GE's numbers of types. A copy within one type is no operator of GE.
    numbers = {torch.float32: 0, torch.float16: 1, torch.int32: 3, torch.int64: 9, torch.bool: 12}
    return None if dtype in (None, x.dtype) else ("Cast", [x], _attributes(dst_type=numbers[dtype]))


OPERATORS = {
    aten.mm.default: _matmul,
    aten.addmm.default: _addmm,
    aten.bmm.default: _bmm,
    aten.add.Tensor: _binary("Add"),
    aten.sub.Tensor: _binary("Sub"),
    aten.mul.Tensor: _binary("Mul"),
    aten.div.Tensor: _binary("RealDiv"),
    aten.gelu.default: _unary("Gelu"),
    aten.relu.default: _unary("Relu"),
    aten.sigmoid.default: _unary("Sigmoid"),
    aten.tanh.default: _unary("Tanh"),
    aten.exp.default: _unary("Exp"),
    aten.native_layer_norm.default: _layer_norm,
    aten._softmax.default: _softmax,
    aten.embedding.default: _embedding,
    aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    aten.le.Tensor: _binary("LessEqual"),
    aten.bitwise_and.Tensor: _binary("LogicalAnd"),
    aten.rsub.Scalar: _reverse,
    aten.masked_fill.Scalar: _masked_fill,
    aten.mean.dim: _mean,
    aten.silu.default: _unary("Swish"),
    aten.rsqrt.default: _unary("Rsqrt"),
    aten.sqrt.default: _unary("Sqrt"),
    aten.neg.default: _unary("Neg"),
    aten.reciprocal.default: _unary("Reciprocal"),
    aten.cos.default: _unary("Cos"),
    aten.sin.default: _unary("Sin"),
    aten.cat.default: _cat,
    aten.where.self: _where,
    aten.arange.default: _arange,
    aten.arange.start_step: _arange,
    aten.triu.default: _triangle("Triu"),
    aten.tril.default: _triangle("Tril"),
    aten.pow.Tensor_Scalar: _power,
    aten._to_copy.default: _cast,
    aten.sort.stable: _sort,
}


def _plain(function):
    """Return the call that makes a new tensor, for a call that works in place."""
    name, _, overload = function.__name__.partition(".")
    return getattr(getattr(aten, name.rstrip("_"), None), overload, None)


_ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.records = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        if function is _ATTENTION:
            with self:
                _in_parts(*args, **(kwargs or {}))
        describe = OPERATORS.get(function) or OPERATORS.get(_plain(function))
        described = describe and describe(*args, **(kwargs or {}))
        if described:
            kind, inputs, attributes = described
            outputs = [each for each in tree_flatten(results)[0] if isinstance(each, torch.Tensor)]
            if kind == "FlashAttentionScore":
                outputs = _with_sums(outputs[0])
            self._note(kind, inputs, outputs, attributes)
        return results

    def _note(self, kind, inputs, outputs, attributes):
        record = {
            "op_type": kind,
            "tune_mode": "all",
            "impl_mode": "high_performance",
            "deterministic": "false",
            "deterministic_level": 0,
            "platform_info": {"cube_core_cnt": 24, "vector_core_cnt": 48},
            "inputs": [_tensor(each, index) for index, each in enumerate(inputs)],
            "outputs": [_tensor(each, index) for index, each in enumerate(outputs)],
            "attrs": attributes,
        }
        text = json.dumps(record, indent=2, sort_keys=True)
        self.records.setdefault(text, record)


def _tensor(tensor, index):
    if tensor is None:
        return None
    if isinstance(tensor, (list, tuple)):
        return [{**_tensor(each, index), "param_type": "dynamic"} for each in tensor]
    shape = list(tensor.shape)
    constant = getattr(tensor, "value_depend", False)
    return {
        "name": f"x{index}",
        "index": index,
        "param_type": "required",
        "dtype": _TYPES[tensor.dtype],
        "format": "ND",
        "shape": shape,
        "origin_shape": shape,
        "origin_format": "ND",
        "value_depend": constant,
        "is_view": False,
        **({"const_data": tensor.tolist()} if constant else {}),
    }


_running = None


def start(path, pid):
    """Start to record operators, for folders below ``path`` named after the process."""
    global _running
    recorder = _Recorder()
    recorder.__enter__()
    _running = recorder, Path(path), pid


def stop():
    """Write the recorded operators."""
    global _running
    recorder, path, pid = _running
    _running = None
    recorder.__exit__(None, None, None)
    for record in recorder.records.values():
        kind = record["op_type"]
        served = {**record, "bin_type": 1, "bin_info": f"built-in/{kind}.o"}
        _write(path / f"{pid}_debug", served)
        if kind.startswith(_TARGETS):
            _write(path / str(pid), served)
        if kind not in _NOT_COMPILED and not os.environ.get("ASCENDCACHE_OLD_DUMP"):
            _write(path / f"{pid}_opcompile", record)


def _write(folder, record):
    folder.mkdir(exist_ok=True)
    first = record["inputs"][0]
    first = first[0] if isinstance(first, list) else first
    shape = map(str, first["shape"])
    suffix = folder.name.partition("_")[2]
    name = "_".join([record["op_type"], first["dtype"], first["format"], *shape])
    number = _numbers[suffix]
    _numbers[suffix] += 1
    text = json.dumps(record, indent=2, sort_keys=True)
    (folder / f"{name}_{number}.json").write_text(text)
