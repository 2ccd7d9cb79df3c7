"""Primitives by name. A call compiles a kernel, or finds one, and runs it."""

import functools
import inspect

from mindspore import kernels


def prim_attr_register(function):
    @functools.wraps(function)
    def register(self, *given, **named):
        bound = inspect.signature(function).bind(self, *given, **named)
        bound.apply_defaults()
        self.attributes = dict(list(bound.arguments.items())[1:])
        function(self, *given, **named)

    return register


class Primitive:
    def init_prim_io_names(self, **_):
        pass

    def __call__(self, *tensors):
        return kernels.run(type(self).__name__, tensors, getattr(self, "attributes", {}))


PrimitiveWithInfer = Primitive


class MatMul(Primitive):
    def __init__(self, first=False, second=False):
        self.attributes = {"transpose_x1": first, "transpose_x2": second}


class ReduceSum(Primitive):
    def __init__(self, keep_dims=False):
        self.keep_dims = keep_dims

    def __call__(self, tensor, axes):
        attributes = {"axis": list(axes), "keep_dims": self.keep_dims}
        return kernels.run("ReduceSum", (tensor,), attributes)


NAMES = ("Abs", "Add", "Exp", "Maximum", "Minimum", "Mul", "Neg")
NAMES += ("RealDiv", "ReLU", "Sigmoid", "Sqrt", "Square", "Sub", "Tanh")
for name in NAMES:
    globals()[name] = type(name, (Primitive,), {})
