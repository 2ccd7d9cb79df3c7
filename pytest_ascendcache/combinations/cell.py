"""One combination of options, and the options, environment and operator it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_ascendcache.combinations.covering import Model, Row
from pytest_ascendcache.combinations.factors import (
    NOT_GIVEN,
    OF_ONE_OPERATOR,
    Before,
    LimitSource,
    Listed,
    PrecisionLevel,
    TypeList,
)
from pytest_ascendcache.contract import (
    CacheMode,
    CompileOptions,
    DebugConfig,
    PrecisionFile,
    SelectMode,
)
from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE, INI_RATIO, INI_SIZE
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.spec import attributes

OTHER_TYPE = "BiasAdd"
"""An operator type that no combination has."""

_INPUTS = {"RealDiv": 2, "Mul": 2}
_SHAPE = (4, 32)


@dataclass(frozen=True)
class Cell:
    """A combination: one row of a model."""

    model: Model
    row: Row

    @cached_property
    def levels(self) -> Mapping[str, str]:
        return self.model.levels(self.row)

    @property
    def special(self) -> dict[str, str]:
        """The levels that are not the plain ones."""
        return {
            factor.name: factor.levels[number]
            for factor, number in zip(self.model.factors, self.row, strict=True)
            if number
        }

    def __str__(self) -> str:
        return " ".join(f"{name}={level}" for name, level in self.special.items()) or "plain"

    @property
    def id(self) -> str:
        """The name of this combination's check, which ``-k`` can select."""
        return "+".join(f"{name}:{level}" for name, level in self.special.items()) or "plain"

    @staticmethod
    def special_in(id_: str) -> dict[str, str]:
        """The levels that an :attr:`id` names."""
        pairs = (each.partition(":") for each in id_.split("+"))
        return {name: level for name, _, level in pairs if level}

    def plain(self, *names: str) -> Cell | None:
        """This combination with some factors plain, or ``None`` if that is not allowed."""
        row = tuple(
            0 if factor.name in names else number
            for factor, number in zip(self.model.factors, self.row, strict=True)
        )
        return Cell(self.model, row) if self.model.allows(row) else None

    @property
    def before(self) -> Before:
        """What the cache holds before the compile."""
        return Before(self.levels["before"])

    @property
    def limits(self) -> LimitSource:
        """Where the size limits come from."""
        return LimitSource(self.levels["limits"])

    @property
    def run_levels(self) -> tuple[str, ...]:
        """The levels that belong to the whole run."""
        return tuple(level for name, level in self.levels.items() if name not in OF_ONE_OPERATOR)

    @cached_property
    def operator(self) -> OperatorSpec:
        """What is compiled. Its name has type and data type, so options can list it by name."""
        kind, dtype = self.levels["operator"], self.levels["dtype"]
        tensor = TensorDesc.of(dtype, *_SHAPE)
        return OperatorSpec(
            kind,
            (tensor,) * _INPUTS.get(kind, 1),
            (tensor,),
            attributes(axes=(-1,) if kind == "SoftmaxV2" else None),
            name=f"cell_{kind.lower()}_{dtype}",
        )

    @property
    def ini(self) -> dict[str, str]:
        """Values of ``op_cache.ini``, in MB and percent."""
        return {
            LimitSource.INI: {INI_SIZE: "4", INI_RATIO: "50"},
            LimitSource.HALF_INI: {INI_SIZE: "900"},
            LimitSource.OFF: {INI_SIZE: "-1", INI_RATIO: "50"},
        }.get(self.limits, {})

    @property
    def environment(self) -> dict[str, str]:
        """The two environment variables of the size limits, in MB and percent."""
        return {
            LimitSource.ENVIRONMENT: {ENV_SIZE: "4", ENV_RATIO: "90"},
            LimitSource.INI: {ENV_SIZE: "900", ENV_RATIO: "90"},
            LimitSource.HALF_INI: {ENV_SIZE: "4", ENV_RATIO: "90"},
            LimitSource.OFF: {ENV_SIZE: "4", ENV_RATIO: "50"},
        }.get(self.limits, {})


def options_of(cells: Sequence[Cell]) -> CompileOptions:
    """The options of one run that compiles these cells, whose :attr:`Cell.run_levels` are equal."""
    levels = cells[0].levels
    mode, level = levels["cache_mode"], levels["debug_level"]
    select = levels["select_implmode"]
    operators = [cell.operator for cell in cells]
    return CompileOptions(
        cache_mode=None if mode == NOT_GIVEN else CacheMode(mode),
        debug_level=None if level == NOT_GIVEN else int(level),
        debug_config=_debug_config(levels, operators),
        soc=levels["soc"],
        select_implmode=None if select == NOT_GIVEN else SelectMode(select),
        implmode_types=_type_list(TypeList(levels["type_list"]), operators),
        precision_file=_precision_file(PrecisionLevel(levels["precision_file"]), operators),
    )


def _debug_config(
    levels: Mapping[str, str], operators: Sequence[OperatorSpec]
) -> DebugConfig | None:
    switches = levels["debug_config"]
    if switches == NOT_GIVEN:
        return None
    names, types = _names(operators), [f"OpType::{each}" for each in _types(operators)]
    # The others include names and types that are prefixes of the operator's, or that extend it.
    near = [f"{name}_2" for name in names] + [name[:-1] for name in names]
    near += [f"{each}2" for each in types] + [each[:-1] for each in types]
    listed = {
        Listed.NO_LIST: None,
        Listed.BY_NAME: names,
        Listed.BY_TYPE: types,
        Listed.MIXED: ["another_name", *names, f"OpType::{OTHER_TYPE}"],
        Listed.OTHERS: ["another_name", f"OpType::{OTHER_TYPE}", *near],
    }[Listed(levels["debug_list"])]
    return DebugConfig(tuple(switches.split(",")), None if listed is None else tuple(listed))


def _type_list(types: TypeList, operators: Sequence[OperatorSpec]) -> tuple[str, ...] | None:
    if types is TypeList.NOT_GIVEN:
        return None
    return tuple(_types(operators)) if types is TypeList.OPERATOR else (OTHER_TYPE,)


def _precision_file(
    level: PrecisionLevel, operators: Sequence[OperatorSpec]
) -> PrecisionFile | None:
    others = {OTHER_TYPE: HIGH_PRECISION}
    if level is PrecisionLevel.NOT_GIVEN:
        return None
    if level is PrecisionLevel.OTHERS:
        return PrecisionFile.of(others)
    if level is PrecisionLevel.PRECISION_BY_NAME:
        by_type = dict.fromkeys(_types(operators), HIGH_PERFORMANCE)
        return PrecisionFile.of(by_type, dict.fromkeys(_names(operators), HIGH_PRECISION))
    by_precision = level is PrecisionLevel.PRECISION_BY_TYPE
    mode = HIGH_PRECISION if by_precision else HIGH_PERFORMANCE
    return PrecisionFile.of({**others, **dict.fromkeys(_types(operators), mode)})


def _names(operators: Iterable[OperatorSpec]) -> list[str]:
    return list(dict.fromkeys(each.name for each in operators))


def _types(operators: Iterable[OperatorSpec]) -> list[str]:
    return list(dict.fromkeys(each.type for each in operators))


def batches(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Group the cells that one run can compile together: their run levels are equal and their
    operators differ. A stale entry needs an environment of its own, so it is alone."""
    by_levels: dict[tuple[str, ...], list[list[Cell]]] = {}
    for cell in cells:
        groups = by_levels.setdefault(cell.run_levels, [])
        group = next((each for each in groups if _joins(cell, each)), None)
        if group is None:
            groups.append([cell])
        else:
            group.append(cell)
    return [tuple(group) for groups in by_levels.values() for group in groups]


def _joins(cell: Cell, group: Sequence[Cell]) -> bool:
    together = [cell, *group]
    return all(each.before is not Before.STALE for each in together) and cell.operator not in [
        each.operator for each in group
    ]


def minimise(cell: Cell, fails: Callable[[Cell], bool]) -> Cell:
    """Set factors to their plain level, one at a time or those together that a constraint ties, as
    long as the combination ``fails``: breaks the same promise."""
    tied = [constraint.factors for constraint in cell.model.constraints]
    smaller = True
    while smaller:
        smaller = False
        for names in [*((name,) for name in cell.special), *tied]:
            candidate = cell.plain(*names)
            if candidate is not None and candidate != cell and fails(candidate):
                cell, smaller = candidate, True
                break
    return cell
