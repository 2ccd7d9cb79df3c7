"""Data types and formats of ATC's single-operator description.

Source: CANN's single-operator parser, facts ``cann-operator-cache`` section 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataType:
    """One element type.

    ``name`` is the spelling written to files, ``bits`` the size of one element,
    ``numpy`` the numpy type that holds it exactly, or ``None`` where numpy has none.
    """

    name: str
    bits: int
    numpy: str | None = None

    def __str__(self) -> str:
        return self.name


_TYPES = (
    DataType("bool", 8, "bool"),
    DataType("int4", 4),
    DataType("int8", 8, "int8"),
    DataType("uint8", 8, "uint8"),
    DataType("int16", 16, "int16"),
    DataType("uint16", 16, "uint16"),
    DataType("int32", 32, "int32"),
    DataType("uint32", 32, "uint32"),
    DataType("int64", 64, "int64"),
    DataType("uint64", 64, "uint64"),
    DataType("float16", 16, "float16"),
    DataType("float32", 32, "float32"),
    DataType("double", 64, "float64"),
    DataType("bfloat16", 16),
    DataType("complex32", 32),
    DataType("complex64", 64, "complex64"),
    DataType("complex128", 128, "complex128"),
    DataType("uint1", 1),
    DataType("hifloat8", 8),
    DataType("hifloat4", 4),
    DataType("float8_e5m2", 8),
    DataType("float8_e4m3fn", 8),
    DataType("UNDEFINED", 0),
)
_ALIASES = {"half": "float16", "fp16": "float16", "float": "float32"}
_BY_NAME = {each.name: each for each in _TYPES}

FORMATS = frozenset(
    {
        "ND",
        "NCHW",
        "NHWC",
        "NC",
        "CHWN",
        "HWCN",
        "CN",
        "NCL",
        "NLC",
        "NDHWC",
        "NCDHW",
        "DHWCN",
        "DHWNC",
        "NC1HWC0",
        "NC1HWC0_C04",
        "C1HWNC0",
        "FRACTAL_Z",
        "FRACTAL_Z_C04",
        "FRACTAL_NZ",
        "FRACTAL_Z_3D",
        "NDC1HWC0",
        "FRACTAL_ZN_LSTM",
        "FRACTAL_ZN_RNN",
        "ND_RNN_BIAS",
        "RESERVED",
    }
)
"""Formats by their upper-case name. Files may spell them in any case."""


def data_type(name: str) -> DataType:
    """Return the type ``name`` stands for, aliases (``half``, ``fp16``, ``float``) included.

    Raises:
        KeyError: for a name ATC does not know.
    """
    return _BY_NAME[_ALIASES.get(name, name)]


def type_names() -> list[str]:
    """Every accepted spelling, for error messages."""
    return sorted([*_BY_NAME, *_ALIASES])
