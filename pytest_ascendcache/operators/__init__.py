"""What is compiled: operators, tensors, attributes, and the files that describe them.

This room knows no options and no cache. It is the one thing the harness and the reference
toolchain share.
"""

from pytest_ascendcache.operators.dtypes import DataType, data_type
from pytest_ascendcache.operators.singleop import (
    SingleOpError,
    read_single_op,
    write_single_op,
)
from pytest_ascendcache.operators.spec import Attribute, OperatorSpec, TensorDesc

__all__ = [
    "Attribute",
    "DataType",
    "OperatorSpec",
    "SingleOpError",
    "TensorDesc",
    "data_type",
    "read_single_op",
    "write_single_op",
]
