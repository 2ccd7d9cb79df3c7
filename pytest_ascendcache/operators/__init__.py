"""What is compiled: operators, tensors, attributes, and the files that describe them.

This room knows neither options nor caches. It is the only code that the suite and the reference
toolchain share.
"""

from pytest_ascendcache.operators.dtypes import DataType as DataType
from pytest_ascendcache.operators.dtypes import data_type as data_type
from pytest_ascendcache.operators.opinfo import OperatorInfo as OperatorInfo
from pytest_ascendcache.operators.opinfo import OpInfoError as OpInfoError
from pytest_ascendcache.operators.opinfo_json import read_opinfo as read_opinfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo as write_opinfo
from pytest_ascendcache.operators.simplified_key import simplified_key as simplified_key
from pytest_ascendcache.operators.singleop import SingleOpError as SingleOpError
from pytest_ascendcache.operators.singleop import read_single_op as read_single_op
from pytest_ascendcache.operators.singleop import single_op_text as single_op_text
from pytest_ascendcache.operators.singleop import write_single_op as write_single_op
from pytest_ascendcache.operators.spec import Attribute as Attribute
from pytest_ascendcache.operators.spec import OperatorSpec as OperatorSpec
from pytest_ascendcache.operators.spec import TensorDesc as TensorDesc
