"""The operators that checks compile: small and static, with types every toolchain supports."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec, read_single_op

PROBES = ("add", "mul", "sqrt", "exp", "softmax", "mean", "leaky_relu", "matmul")
"""The names of the operators in ``probes.json``, in its order."""


@lru_cache(maxsize=1)
def _read() -> tuple[OperatorSpec, ...]:
    return read_single_op(Path(__file__).parent / "probes.json")


def probe_operators() -> dict[str, OperatorSpec]:
    """The probe operators by name."""
    return dict(zip(PROBES, _read(), strict=True))
