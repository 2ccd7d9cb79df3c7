"""Operators with one or two implementations, and recognising an implementation by its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.contract import CacheMode, ImplModeTables, PrecisionFile
from pytest_ascendcache.contract.facts import Fact, Numbers
from pytest_ascendcache.contract.options import BOTH, HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.contract.subjects import implementing
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.gate import Gate, behind
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain
from pytest_ascendcache.toolchains.atc import IMPL_MODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROSS_ULP = 64.0
"""Error of more than 6 %. No document bounds what an implementation may be off, but this is another
function than the operator's. Unit: ulp of float16."""

_MANY = 128
"""So many results of two kernels show which of them is the more accurate."""

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
    operators = (
        operator_of(kind, (65536,), dtype="float16", name=kind.lower()) for kind in _MEASURED
    )
    measured = tuple(filter(tables.has_two, operators))
    if not measured:
        raise NotDecidable("the toolchain's tables offer both modes to none of the operators here")
    return measured


class Measured(NamedTuple):
    """What a kernel computes, and how far that is off where the exact result is finite. Document I
    says nothing about other inputs."""

    values: NDArray[Any]
    errors: NDArray[Any]

    def computes_like(self, other: Measured) -> bool:
        """Whether another kernel gave equal numbers."""
        import numpy

        return numpy.array_equal(self.values, other.values, equal_nan=True)

    @property
    def worst(self) -> float:
        """The largest error in ulp."""
        return round(float(self.errors.max()), 4)

    @property
    def mean(self) -> float:
        """The mean error in ulp."""
        return round(float(self.errors.mean()), 4)


def measure(
    toolchain: Toolchain, run: Run, operator: OperatorSpec, exhaustive: bool = False
) -> Measured:
    """Run a delivered kernel and compare it with float64. ``exhaustive`` runs it on every float16
    number instead of a sample."""
    import numpy

    from pytest_ascendcache.operators.semantics import evaluate, sample_inputs, ulp_error

    inputs: list[NDArray[Any]] = (
        [numpy.arange(65536, dtype=numpy.uint16).view(numpy.float16)]
        if exhaustive
        else sample_inputs(operator, seeded(1))
    )
    (values, *_) = Gate.of(toolchain).outputs(run.model(operator), operator, inputs)
    with numpy.errstate(all="ignore"):
        exact = evaluate(operator, inputs)[0]
    judged = numpy.isfinite(exact)
    errors = numpy.minimum(ulp_error(values[judged], exact[judged]), NO_NUMBER_ULP)
    return Measured(values, errors)


def is_less_accurate(precise: Measured, fast: Measured) -> bool | None:
    """Whether high precision is less accurate than high performance, which document I rules out: by
    the mean, and the largest error if the means are equal; None if those are, too."""
    one, other = (precise.mean, precise.worst), (fast.mean, fast.worst)
    return None if one == other else one > other


def is_surely_less_accurate(precise: Measured, fast: Measured) -> bool:
    """Whether a sample shows that high precision is the less accurate: chance does not."""
    is_worse = precise.mean > fast.mean and precise.worst > fast.worst
    return is_worse and precise.errors.size >= _MANY


_TWO: WeakKeyDictionary[Toolchain, dict[Any, dict[str, Measured]]] = WeakKeyDictionary()


def two_implementations(
    cache: CacheUnderTest, operators: Iterable[OperatorSpec], soc: str
) -> dict[OperatorSpec, dict[str, Measured]]:
    """What each mode's kernel of these operators computes, compiled without a cache and chosen by
    a precision file. It is remembered for the session. Raises NotDecidable if that fails."""
    known = _TWO.setdefault(behind(cache.toolchain), {})
    keys = {each: (each.named("two"), soc) for each in operators}
    new = {key: key[0].named(f"two_{at}") for at, key in enumerate(keys.values())}
    new = {key: each for key, each in new.items() if key not in known}
    measured: dict[Any, dict[str, Measured]] = {key: {} for key in new}
    for mode in BOTH if new else ():
        file = PrecisionFile.of(dict.fromkeys(sorted({each.type for each in new.values()}), mode))
        request = cache.request(
            *new.values(),
            mode=CacheMode.DISABLE,
            cache_dir=cache.sandbox / "unused",
            soc=soc,
            precision_file=file,
        )
        run = cache.unwatched(request)
        if not run.succeeded:
            raise NotDecidable(f"the two implementations are not compiled: {run.output[-200:]}")
        for key, each in new.items():
            measured[key][mode] = measure(cache.toolchain, run, each)
    known.update(measured)
    return {each: known[key] for each, key in keys.items()}


def chosen_modes(
    run: Run, tables: ImplModeTables, operators: Iterable[OperatorSpec]
) -> dict[OperatorSpec, str]:
    """The modes of those operators of which the run's options select one of two implementations."""
    options = run.result.request.options
    two = [each for each in operators if tables.has_two(each)]
    modes = {each: tables.mode(options, each) for each in two if not tables.is_open(options, each)}
    return {each: mode for each, mode in modes.items() if mode in BOTH}


def wrong_numbers(
    cache: CacheUnderTest,
    run: Run,
    tables: ImplModeTables,
    operators: Iterable[OperatorSpec],
    number: int = 0,
) -> list[Fact]:
    """Operators whose delivered kernel does not compute what the implementation that the run's
    options select does, if there are two and they select one. ``number`` is the run's within the
    check."""
    modes, options = chosen_modes(run, tables, operators), run.result.request.options
    wrong = []
    for operator, two in two_implementations(cache, modes, options.soc).items():
        delivered = measure(cache.toolchain, run, operator)
        if detail := _of_another(delivered, two, modes[operator]):
            fact = Fact.seen(
                Numbers.WRONG, detail, operator, subject=implementing(options), run=number
            )
            wrong.append(fact)
    return wrong


def _of_another(delivered: Measured, two: Mapping[str, Measured], mode: str) -> str:
    """How a kernel computes otherwise than the implementation of its mode; empty if it does not."""
    precise, fast = two[HIGH_PRECISION], two[HIGH_PERFORMANCE]
    if is_surely_less_accurate(precise, fast):
        precise, fast = fast, precise  # the precision file is read the wrong way round
    wanted, other = (precise, fast) if mode == HIGH_PRECISION else (fast, precise)
    if delivered.computes_like(wanted):
        return ""
    off = f"{delivered.worst:g} ulp off"
    if delivered.computes_like(other):
        return f"{off} like the other mode's, and should be of {mode} ({wanted.worst:g} ulp off)"
    # Debugging may change code, so a kernel may be neither of the two.
    if mode == HIGH_PRECISION and is_surely_less_accurate(delivered, fast):
        return f"{off}, which is less accurate than high performance ({fast.worst:g} ulp off)"
    is_gross = delivered.worst > max(GROSS_ULP, wanted.worst, other.worst)
    return f"{off}, and neither implementation is" if is_gross else ""
