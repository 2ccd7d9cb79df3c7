"""Operators with and without two implementations, and telling by numbers which one was served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.contract import ImplModeTables
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import Accuracy, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import Toolchain

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

PRECISE_ULP = 1.0
"""High precision stays within this; high performance does not. Unit: ulp of float16."""

FAST_ULP = 64.0
"""What high performance stays within. Unit: ulp of float16."""

NO_NUMBER_ULP = 1e6
"""What NaN or infinity in the place of a number counts as; JSON has no infinity."""


def _operator(kind: str, operands: int = 1, dtype: str = "float16", name: str = "") -> OperatorSpec:
    tensor = TensorDesc.of(dtype, 16, 32)
    inputs = (tensor,) * operands
    return OperatorSpec(kind, inputs, (tensor,), name=f"impl_{name or kind.lower()}")


EXP = _operator("Exp")
SQRT = _operator("Sqrt")
TANH = _operator("Tanh")
MUL = _operator("Mul", operands=2)
EXP_FLOAT32 = _operator("Exp", dtype="float32", name="exp_float32")
PROBES = (
    EXP,
    SQRT,
    TANH,
    _operator("Gelu"),
    _operator("RealDiv", operands=2),
    MUL,
    EXP_FLOAT32,
)
"""Some types in every table with different values, some with equal ones, some in none."""

HALVES = TensorDesc.of("float16", 65536)
_MEASURED = ("Exp", "FastGelu", "Gelu", "Mish", "Sigmoid", "Sqrt", "Tanh")


def measured_operators(tables: ImplModeTables) -> tuple[OperatorSpec, ...]:
    """Unary operators with two implementations here, for one input of every float16 number."""
    operators = (OperatorSpec(kind, (HALVES,), (HALVES,), name=kind.lower()) for kind in _MEASURED)
    found = tuple(operator for operator in operators if tables.has_two(operator))
    if not found:
        raise NotDecidable("the toolchain's tables offer both modes to none of the operators here")
    return found


def accuracy(
    toolchain: Toolchain, run: Run, operator: OperatorSpec, mode: str, exhaustive: bool = False
) -> Accuracy:
    """Run a delivered kernel and compare it with float64.

    ``exhaustive`` runs it on every float16 number instead of a sample. Judged are the inputs
    whose exact result is finite: of the others document I says nothing.
    """
    import numpy

    from pytest_ascendcache.operators.semantics import evaluate, sample_inputs, ulp_error

    inputs: list[NDArray[Any]] = (
        [numpy.arange(65536, dtype=numpy.uint16).view(numpy.float16)]
        if exhaustive
        else sample_inputs(operator, seeded(1))
    )
    (measured, *_) = toolchain.run_kernel(run.model(operator), operator, inputs)
    with numpy.errstate(all="ignore"):
        exact = evaluate(operator, inputs)[0]
    judged = numpy.isfinite(exact)
    errors = numpy.minimum(ulp_error(measured[judged], exact[judged]), NO_NUMBER_ULP)
    return Accuracy(
        operator=operator.type,
        mode=mode,
        max_ulp=round(float(errors.max()), 4),
        mean_ulp=round(float(errors.mean()), 4),
        inputs=int(judged.sum()),
    )


def wrong_numbers(
    toolchain: Toolchain, run: Run, tables: ImplModeTables, operators: Iterable[OperatorSpec]
) -> list[str]:
    """Operators whose delivered kernel is not of the mode the run's options select.

    Those without a selected mode, or with one implementation, are not looked at.
    """
    wrong = []
    for operator in operators:
        mode = tables.mode(run.result.request.options, operator)
        if not tables.has_two(operator) or mode not in (HIGH_PRECISION, HIGH_PERFORMANCE):
            continue
        worst = accuracy(toolchain, run, operator, mode).max_ulp
        if (worst <= PRECISE_ULP) is not (mode == HIGH_PRECISION) or worst > FAST_ULP:
            wrong.append(f"{operator} is {worst:g} ulp off, and should be of {mode}")
    return wrong
