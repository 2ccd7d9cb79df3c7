"""The graph engine's numbers of data types and formats.

Source: CANN's public headers (``ge::DataType``, ``ge::Format``); facts ``static-kernel`` section
2.5 uses them in simplified keys, ``cann-operator-cache`` section 6.2 in names of ``.om`` files.
"""

from __future__ import annotations

TYPE_NUMBERS = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 6,
    "uint16": 7,
    "uint32": 8,
    "int64": 9,
    "uint64": 10,
    "double": 11,
    "bool": 12,
    "complex64": 16,
    "complex128": 17,
    "bfloat16": 27,
    "int4": 29,
    "uint1": 30,
    "complex32": 33,
    "hifloat8": 34,
    "float8_e5m2": 35,
    "float8_e4m3fn": 36,
}
"""By :attr:`DataType.name`."""

FORMAT_NUMBERS = {
    "NCHW": 0,
    "NHWC": 1,
    "ND": 2,
    "NC1HWC0": 3,
    "FRACTAL_Z": 4,
    "C1HWNC0": 9,
    "NC1HWC0_C04": 12,
    "FRACTAL_Z_C04": 13,
    "CHWN": 14,
    "HWCN": 16,
    "NDHWC": 27,
    "FRACTAL_NZ": 29,
    "NCDHW": 30,
    "DHWCN": 31,
    "NDC1HWC0": 32,
    "FRACTAL_Z_3D": 33,
    "CN": 34,
    "NC": 35,
    "DHWNC": 36,
    "FRACTAL_ZN_LSTM": 38,
    "ND_RNN_BIAS": 43,
    "FRACTAL_ZN_RNN": 44,
    "NCL": 47,
}
"""By upper-case name."""
