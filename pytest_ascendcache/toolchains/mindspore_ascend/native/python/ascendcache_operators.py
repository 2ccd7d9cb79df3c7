"""Operators that MindSpore 1.x has no primitive for, registered as a user's own are."""

from mindspore.ops import PrimitiveWithInfer, prim_attr_register
from mindspore.ops.op_info_register import DataType, TBERegOp, op_info_register


def _registered(name, attribute):
    return (
        TBERegOp(name)
        .fusion_type("ELEMWISE")
        .async_flag(False)
        .binfile_name(name.lower() + ".so")
        .compute_cost(10)
        .kernel_name(name.lower())
        .partial_flag(True)
        .attr(attribute, "required", "float", "all")
        .input(0, "x", False, "required", "all")
        .output(0, "y", False, "required", "all")
        .dtype_format(DataType.F16_Default, DataType.F16_Default)
        .dtype_format(DataType.F32_Default, DataType.F32_Default)
        .get_op_info()
    )


@op_info_register(_registered("LeakyRelu", "negative_slope"))
def _leaky_relu():
    return


@op_info_register(_registered("Swish", "scale"))
def _swish():
    return


class _Elementwise(PrimitiveWithInfer):
    def infer_shape(self, shape):
        return shape

    def infer_dtype(self, dtype):
        return dtype


class LeakyRelu(_Elementwise):
    @prim_attr_register
    def __init__(self, negative_slope=0.0):
        self.init_prim_io_names(inputs=["x"], outputs=["y"])


class Swish(_Elementwise):
    @prim_attr_register
    def __init__(self, scale=1.0):
        self.init_prim_io_names(inputs=["x"], outputs=["y"])
