"""C texts of operators: all arithmetic of a network that MindSpore runs on the stand-in runtime."""

from collections import namedtuple
from math import prod

TYPES = {
    "float32": "float",
    "float": "float",
    "float16": "_Float16",
    "int32": "int",
    "int64": "long",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "signed char",
}
Tensor = namedtuple("Tensor", "variable type shape")
Step = namedtuple("Step", "kind inputs outputs attributes")

_UNARY = {
    "abs": "x < 0 ? -x : x",
    "exp": "expf(x)",
    "log": "logf(x)",
    "neg": "-x",
    "relu": "x > 0 ? x : 0",
    "rsqrt": "1 / sqrtf(x)",
    "reciprocal": "1 / x",
    "sigmoid": "1 / (1 + expf(-x))",
    "sqrt": "sqrtf(x)",
    "square": "x * x",
    "tanh": "tanhf(x)",
    "cast": "x",
    "leakyrelu": "x > 0 ? x : x * {negative_slope}f",
    "swish": "x / (1 + expf(-{scale}f * x))",
    "tensormove": "x",
    "reshape": "x",
    "flatten": "x",
    "expanddims": "x",
    "squeeze": "x",
}
_BINARY = {
    "add": "x + y",
    "tensoradd": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "realdiv": "x / y",
    "div": "x / y",
    "maximum": "x > y ? x : y",
    "minimum": "x < y ? x : y",
}
_REDUCE = {
    "reducesum": ("0", "t + x"),
    "reducemean": ("0", "t + x"),
    "reducemax": ("-3.4e38f", "x > t ? x : t"),
    "reducemin": ("3.4e38f", "x < t ? x : t"),
}
_DEFAULTS = {"negative_slope": 0.0, "scale": 1.0}


class Unknown(Exception):
    """An operator without a body here."""


def tensors(described, prefix):
    """Tensors as the compile server describes them, without optional ones that are not given."""
    flat = []
    for each in described:
        flat += list(each) if isinstance(each, (list, tuple)) else [each]
    return [
        Tensor(f"{prefix}{number}", each["dtype"], list(each["ori_shape"] or each["shape"]))
        for number, each in enumerate(each for each in flat if each)
    ]


def fused(operators):
    """The steps of a fused operator, its arguments and its results."""
    made, steps, arguments, taken, order = {}, [], [], set(), []

    def tensor(described, variable):
        kind = described.get("data_type") or described["dtype"]
        return Tensor(variable, kind, list(described.get("ori_shape") or described["shape"]))

    for each in operators:
        outputs = [one for one in each["output_desc"] if one.get("valid", True)]
        if each["type"] == "Data":
            variable = f"in{len(arguments)}"
            made[outputs[0]["name"]] = tensor(outputs[0], variable)
            arguments.append(made[outputs[0]["name"]])
            continue
        inputs = []
        for given in each["input_desc"]:
            for one in given if isinstance(given, list) else [given]:
                if one.get("valid", True):
                    taken.add(one["name"])
                    inputs.append(made[one["name"]])
        results = []
        for one in outputs:
            made[one["name"]] = tensor(one, f"t{len(made)}")
            order.append(one["name"])
            results.append(made[one["name"]])
        attributes = {
            one["name"]: one.get("value")
            for one in each.get("attr_desc") or each.get("attrs") or []
            if isinstance(one, dict)
        }
        steps.append(Step(each["type"], inputs, results, attributes))
    return steps, arguments, [made[name] for name in order if name not in taken]


def source(name, steps, arguments, results, identity):
    """The C text of a kernel: its addresses are those of the arguments, then of the results."""
    body = []
    given = {each.variable for each in (*arguments, *results)}
    for number, each in enumerate((*arguments, *results)):
        body.append(f"{_type(each)} *{each.variable} = a[{number}];")
    for step in steps:
        for each in step.outputs:
            if each.variable not in given:
                given.add(each.variable)
                body.append(f"static {_type(each)} {each.variable}[{max(1, prod(each.shape))}];")
        body.append(_step(step))
    return _TEXT % {
        "identity": identity.replace("\\", "\\\\").replace('"', '\\"'),
        "arguments": len(arguments) + len(results),
        "name": name,
        "body": "\n  ".join(body),
    }


_TEXT = """\
#include <math.h>
const char ascendcache_identity[] = "%(identity)s";
const int ascendcache_arguments = %(arguments)d;
void %(name)s(void **a) {
  %(body)s
}
"""


def _type(tensor):
    if tensor.type not in TYPES:
        raise Unknown(f"the stand-in compiler has no type {tensor.type}")
    return TYPES[tensor.type]


def _step(step):
    kind = step.kind.replace("_", "").lower()
    for suffix in ("v2", "d"):
        if kind.endswith(suffix) and kind not in _BINARY and kind not in _UNARY:
            kind = kind[: -len(suffix)]
    if kind in _UNARY:
        given = {key: value for key, value in step.attributes.items() if value is not None}
        values = {key: repr(float(given.get(key, _DEFAULTS[key]))) for key in _DEFAULTS}
        return _elementwise(_UNARY[kind].format(**values), step)
    if kind in _BINARY:
        return _elementwise(_BINARY[kind], step)
    if kind in _REDUCE:
        return _reduction(kind, step)
    if kind in ("matmul", "batchmatmul"):
        return _product(step)
    if kind == "transpose":
        return _transposed(step)
    raise Unknown(f"the stand-in compiler has no body for {step.kind}")


def _place(shape, target):
    """The index into a tensor that is broadcast to a target, from the target's coordinates."""
    terms, stride = [], 1
    padded = [1] * (len(target) - len(shape)) + list(shape)
    for axis in reversed(range(len(target))):
        if padded[axis] != 1:
            terms.append(f"i{axis} * {stride}")
        stride *= padded[axis]
    return " + ".join(terms) or "0"


def _loops(shape, axes=None):
    """Loops over all axes of a shape, or over these."""
    return "".join(
        f"for (long i{n} = 0; i{n} < {shape[n]}; ++i{n}) "
        for n in (range(len(shape)) if axes is None else axes)
    )


def _work(step):
    """The C type that an operator computes in."""
    kinds = {each.type for each in step.inputs}
    return "float" if kinds & {"float16", "float32", "float"} else "long"


def _elementwise(formula, step):
    (result,) = step.outputs
    text = _loops(result.shape) + "{ "
    for variable, each in zip("xy", step.inputs):
        shape = each.shape if prod(each.shape) != prod(result.shape) else result.shape
        place = _place(shape, result.shape)
        text += f"{_work(step)} {variable} = {each.variable}[{place}]; "
    return f"{text}{result.variable}[{_place(result.shape, result.shape)}] = {formula}; }}"


def _axes(step):
    axes = step.attributes.get("axis", step.attributes.get("axes"))
    if axes is None or axes == [] or axes == ():
        axes = range(len(step.inputs[0].shape))
    axes = [axes] if isinstance(axes, int) else list(axes)
    rank = len(step.inputs[0].shape)
    return sorted({each + rank if each < 0 else each for each in axes})


def _reduction(kind, step):
    start, formula = _REDUCE[kind]
    (source_,), (result,) = step.inputs, step.outputs
    axes = _axes(step)
    shape = source_.shape
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    stride, terms = 1, []
    for axis in reversed(kept):
        terms.append(f"i{axis} * {stride}")
        stride *= shape[axis]
    scale = f" / {prod(shape[axis] for axis in axes)}" if kind == "reducemean" else ""
    work, into = _work(step), " + ".join(terms) or "0"
    return (
        f"{_loops(shape, kept)}{{ {work} t = {start}; {_loops(shape, axes)}{{ "
        f"{work} x = {source_.variable}[{_place(shape, shape)}]; t = {formula}; }} "
        f"{result.variable}[{into}] = t{scale}; }}"
    )


def _flag(step, *names):
    return any(str(step.attributes.get(each)).lower() == "true" for each in names)


def _product(step):
    left, right = step.inputs[:2]
    (result,) = step.outputs
    across = _flag(step, "transpose_x1", "transpose_a", "adj_x1")
    down = _flag(step, "transpose_x2", "transpose_b", "adj_x2")
    rows, columns = result.shape[-2:]
    inner = left.shape[-2] if across else left.shape[-1]
    one = f"k * {rows} + i" if across else f"i * {inner} + k"
    other = f"j * {inner} + k" if down else f"k * {columns} + j"
    return (
        f"for (long b = 0; b < {prod(result.shape[:-2])}; ++b) "
        f"for (long i = 0; i < {rows}; ++i) for (long j = 0; j < {columns}; ++j) "
        f"{{ float t = 0; for (long k = 0; k < {inner}; ++k) "
        f"t += (float){left.variable}[b * {rows * inner} + {one}] * "
        f"(float){right.variable}[b * {inner * columns} + {other}]; "
        f"{result.variable}[b * {rows * columns} + i * {columns} + j] = t; }}"
    )


def _transposed(step):
    (result,) = step.outputs
    source_ = step.inputs[0]
    order = step.attributes["perm"]
    stride, terms = 1, []
    for axis in reversed(range(len(source_.shape))):
        terms.append(f"i{order.index(axis)} * {stride}")
        stride *= source_.shape[axis]
    into, taken = _place(result.shape, result.shape), " + ".join(terms)
    return f"{_loops(result.shape)}{result.variable}[{into}] = {source_.variable}[{taken}];"
