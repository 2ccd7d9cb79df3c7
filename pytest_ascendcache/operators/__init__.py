"""What is compiled: operators, tensors, attributes, and the files that describe them.

This room knows neither options nor caches. It is the only code that the suite and the reference
toolchain share.
"""

from pytest_ascendcache.operators.dtypes import DataType, data_type
from pytest_ascendcache.operators.opinfo import OperatorInfo, OpInfoError
from pytest_ascendcache.operators.opinfo_json import read_opinfo, write_opinfo
from pytest_ascendcache.operators.simplified_key import simplified_key
from pytest_ascendcache.operators.singleop import (
    SingleOpError,
    read_single_op,
    single_op_text,
    write_single_op,
)
from pytest_ascendcache.operators.spec import Attribute, OperatorSpec, TensorDesc

__all__ = [
    "Attribute",
    "DataType",
    "OpInfoError",
    "OperatorInfo",
    "OperatorSpec",
    "SingleOpError",
    "TensorDesc",
    "data_type",
    "read_opinfo",
    "read_single_op",
    "simplified_key",
    "single_op_text",
    "write_opinfo",
    "write_single_op",
]
