"""Data types and formats of ATC's single-operator description, with the graph engine's numbers.

Sources: CANN's single-operator parser (facts ``cann-operator-cache`` section 6.1) and its public
headers (``ge::DataType``, ``ge::Format``). Simplified keys (facts ``static-kernel`` section 2.5)
and names of ``.om`` files (``cann-operator-cache`` section 6.2) contain the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataType:
    """An element type.

    ``name`` is the spelling written to files, ``bits`` the size of one element, ``numpy`` the numpy
    type that holds it exactly, or ``None`` if numpy has none.
    """

    name: str
    bits: int
    numpy: str | None = None

    def __str__(self) -> str:
        return self.name


_TABLE: tuple[tuple[str, int, str | None, int | None], ...] = (
    ("bool", 8, "bool", 12),
    ("int4", 4, None, 29),
    ("int8", 8, "int8", 2),
    ("uint8", 8, "uint8", 4),
    ("int16", 16, "int16", 6),
    ("uint16", 16, "uint16", 7),
    ("int32", 32, "int32", 3),
    ("uint32", 32, "uint32", 8),
    ("int64", 64, "int64", 9),
    ("uint64", 64, "uint64", 10),
    ("float16", 16, "float16", 1),
    ("float32", 32, "float32", 0),
    ("double", 64, "float64", 11),
    ("bfloat16", 16, None, 27),
    ("complex32", 32, None, 33),
    ("complex64", 64, "complex64", 16),
    ("complex128", 128, "complex128", 17),
    ("uint1", 1, None, 30),
    ("hifloat8", 8, None, 34),
    ("hifloat4", 4, None, None),
    ("float8_e5m2", 8, None, 35),
    ("float8_e4m3fn", 8, None, 36),
    ("UNDEFINED", 0, None, None),
)
"""Name, bits, numpy type and number of each element type."""
_BY_NAME = {name: DataType(name, bits, numpy) for name, bits, numpy, _ in _TABLE}
_ALIASES = {"half": "float16", "fp16": "float16", "float": "float32"}

TYPE_NUMBERS = {name: number for name, _, _, number in _TABLE if number is not None}
"""Numbers by :attr:`DataType.name`."""

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
"""Numbers by upper-case name."""

FORMATS = frozenset({*FORMAT_NUMBERS, "NLC", "RESERVED"})
"""Formats by upper-case name. Files may spell them in any case."""


def data_type(name: str) -> DataType:
    """Return the type called ``name``, which may be an alias (``half``, ``fp16``, ``float``).

    Raises ``KeyError`` if ATC does not know the name.
    """
    return _BY_NAME[_ALIASES.get(name, name)]


def type_names() -> list[str]:
    """Every accepted spelling, for error messages."""
    return sorted([*_BY_NAME, *_ALIASES])
