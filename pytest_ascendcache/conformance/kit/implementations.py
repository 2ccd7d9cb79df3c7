"""Operators with one or two implementations, and recognising an implementation by its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.contract import ImplModeTables
from pytest_ascendcache.contract.facts import Fact, Numbers
from pytest_ascendcache.contract.options import BOTH, HIGH_PRECISION
from pytest_ascendcache.contract.subjects import implementing
from pytest_ascendcache.observation import Accuracy, NotDecidable, Run
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import Toolchain
from pytest_ascendcache.toolchains.atc import IMPL_MODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRECISE_ULP = 1.0
"""Error that high precision does not exceed and high performance does. Unit: ulp of float16."""

FAST_ULP = 64.0
"""Error that high performance does not exceed. Unit: ulp of float16."""

NO_NUMBER_ULP = 1e6
"""Error recorded for NaN or infinity in place of a number, because JSON has no infinity."""


def _operator(kind: str, operands: int = 1, dtype: str = "float16", name: str = "") -> OperatorSpec:
    shapes = [(16, 32)] * operands
    return operator_of(kind, *shapes, dtype=dtype, name=f"impl_{name or kind.lower()}")


EXP = _operator("Exp")
SQRT = _operator("Sqrt")
TANH = _operator("Tanh")
MUL = _operator("Mul", operands=2)
EXP_FLOAT32 = _operator("Exp", dtype="float32", name="exp_float32")
PROBES = (EXP, SQRT, TANH, _operator("Gelu"), _operator("RealDiv", operands=2), MUL, EXP_FLOAT32)
"""Types that the tables give different modes, the same mode, or no mode."""

HALVES = TensorDesc.of("float16", 65536)
_MEASURED = ("Exp", "FastGelu", "Gelu", "Mish", "Sigmoid", "Sqrt", "Tanh")


def tables_of(toolchain: Toolchain) -> ImplModeTables:
    """The toolchain's tables of implementation modes. Raises NotDecidable if one is missing."""
    try:
        return ImplModeTables.read(toolchain.impl_mode_tables())
    except KeyError as missing:
        raise NotDecidable(f"{toolchain.name} has no table {missing}.ini") from None


def put_tables(package: Path, texts: Mapping[str, str]) -> None:
    """Give an operator package tables of its own. What it links to stays as it is."""
    place = package
    for part in IMPL_MODE.parts:
        place /= part
        if place.is_symlink():
            original = place.resolve()
            place.unlink()
            place.mkdir()
            for each in original.iterdir():
                (place / each.name).symlink_to(each)
        place.mkdir(exist_ok=True)
    for name, text in texts.items():
        table = place / f"{name}.ini"
        table.unlink(missing_ok=True)
        table.write_text(text, encoding="utf-8")


def measured_operators(tables: ImplModeTables) -> tuple[OperatorSpec, ...]:
    """Unary operators with two implementations, whose input has every float16 number. Raises
    NotDecidable if the tables offer both modes to none of these operators."""
    operators = (OperatorSpec(kind, (HALVES,), (HALVES,), name=kind.lower()) for kind in _MEASURED)
    measured = tuple(filter(tables.has_two, operators))
    if not measured:
        raise NotDecidable("the toolchain's tables offer both modes to none of the operators here")
    return measured


def accuracy(
    toolchain: Toolchain, run: Run, operator: OperatorSpec, mode: str, exhaustive: bool = False
) -> Accuracy:
    """Run a delivered kernel and compare it with float64.

    ``exhaustive`` runs it on every float16 number instead of a sample. Only inputs whose exact
    result is finite count: document I says nothing about the others.
    """
    import numpy

    from pytest_ascendcache.operators.semantics import evaluate, sample_inputs, ulp_error

    inputs: list[NDArray[Any]] = (
        [numpy.arange(65536, dtype=numpy.uint16).view(numpy.float16)]
        if exhaustive
        else sample_inputs(operator, seeded(1))
    )
    (measured, *_) = Gate.of(toolchain).outputs(run.model(operator), operator, inputs)
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


def chosen_modes(
    run: Run, tables: ImplModeTables, operators: Iterable[OperatorSpec]
) -> dict[OperatorSpec, str]:
    """The modes of those operators of which the run's options select one of two implementations."""
    options = run.result.request.options
    modes = {each: tables.mode(options, each) for each in operators if tables.has_two(each)}
    return {each: mode for each, mode in modes.items() if mode in BOTH}


def wrong_numbers(
    toolchain: Toolchain,
    run: Run,
    tables: ImplModeTables,
    operators: Iterable[OperatorSpec],
    number: int = 0,
) -> list[Fact]:
    """Operators whose delivered kernel does not have the mode that the run's options select.

    Operators with one implementation or without a selected mode are left out. ``number`` is that of
    the run within the check.
    """
    wrong = []
    for operator, mode in chosen_modes(run, tables, operators).items():
        worst = accuracy(toolchain, run, operator, mode).max_ulp
        if (worst <= PRECISE_ULP) is not (mode == HIGH_PRECISION) or worst > FAST_ULP:
            detail = f"{worst:g} ulp off, and should be of {mode}"
            subject = implementing(run.result.request.options)
            fact = Fact.seen(Numbers.WRONG, detail, operator, subject=subject, run=number)
            wrong.append(fact)
    return wrong
