"""The factor model: everything that varies between combinations. The first level of each factor is
the plain one. Sources: documents C and I."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from pytest_ascendcache.combinations.covering import Constraint, Factor, Model
from pytest_ascendcache.contract import CacheMode, Capability, SelectMode

NOT_GIVEN = "not-given"
"""The level of an option that is left out."""


class Before(str, Enum):
    """What the cache holds for the operator before the compile."""

    NONE = "none"
    VALID = "valid"
    DAMAGED = "damaged"
    HALF_OBJECT = "half-object"
    HALF_METADATA = "half-metadata"
    STALE = "stale"
    OTHER_MODE = "other-mode"


class Listed(str, Enum):
    """How ``op_debug_list`` names the operator, or that it names only others."""

    NO_LIST = "no-list"
    BY_NAME = "by-name"
    BY_TYPE = "by-type"
    MIXED = "mixed"
    OTHERS = "others"


class TypeList(str, Enum):
    """Whose types ``--optypelist_for_implmode`` lists."""

    NOT_GIVEN = NOT_GIVEN
    OPERATOR = "operator"
    OTHERS = "others"


class PrecisionLevel(str, Enum):
    """The operator's mode in the file of ``--op_precision_mode``, and what it is listed by."""

    NOT_GIVEN = NOT_GIVEN
    PRECISION_BY_TYPE = "precision-by-type"
    PERFORMANCE_BY_TYPE = "performance-by-type"
    PRECISION_BY_NAME = "precision-by-name"
    OTHERS = "others"


class LimitSource(str, Enum):
    """Where size limit and ratio come from; all but the default ones would age something."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    INI = "ini-before-environment"
    HALF_INI = "half-ini-and-environment"
    OFF = "off"


OPERATORS = ("Exp", "Sqrt", "Tanh", "RealDiv", "Gelu", "SoftmaxV2", "Mul")
DTYPES = ("float16", "float32")
SOCS = ("Ascend910B1", "Ascend310P3")
_PLAIN_SELECT = (SelectMode.HIGH_PRECISION.value, SelectMode.HIGH_PERFORMANCE.value)

FACTORS: dict[str, tuple[str, ...]] = {
    "cache_mode": (NOT_GIVEN, *(mode.value for mode in CacheMode)),
    "debug_level": (NOT_GIVEN, "0", "1", "2", "3", "4"),
    "debug_config": (NOT_GIVEN, "ccec_g", "dump_cce", "ccec_O0,oom"),
    "debug_list": tuple(each.value for each in Listed),
    "select_implmode": (NOT_GIVEN, *(mode.value for mode in SelectMode)),
    "type_list": tuple(each.value for each in TypeList),
    "precision_file": tuple(each.value for each in PrecisionLevel),
    "operator": OPERATORS,
    "dtype": DTYPES,
    "before": tuple(each.value for each in Before),
    "limits": tuple(each.value for each in LimitSource),
    "soc": SOCS,
}
"""Levels by factor."""

OF_ONE_OPERATOR = ("operator", "dtype", "before")
"""The factors that belong to one operator; the others belong to the whole run."""

REDUCED: dict[str, tuple[str, ...]] = {
    "debug_level": (NOT_GIVEN, "2"),
    "debug_config": (NOT_GIVEN, "ccec_g"),
    "debug_list": (Listed.NO_LIST.value, Listed.BY_TYPE.value, Listed.OTHERS.value),
    "select_implmode": (NOT_GIVEN, SelectMode.HIGH_PRECISION.value),
    "type_list": (TypeList.NOT_GIVEN.value, TypeList.OPERATOR.value),
    "precision_file": (PrecisionLevel.NOT_GIVEN.value, PrecisionLevel.PRECISION_BY_TYPE.value),
    "operator": ("Exp", "Mul"),
    "before": (
        Before.NONE.value,
        Before.VALID.value,
        Before.DAMAGED.value,
        Before.OTHER_MODE.value,
    ),
    "limits": (LimitSource.DEFAULT.value, LimitSource.INI.value),
}
"""Levels of the reduced model, whose combinations can all be tried; all levels give millions."""

_CONSTRAINTS = (
    Constraint(
        ("debug_config", "debug_list"),
        lambda config, listed: config != NOT_GIVEN or listed == Listed.NO_LIST.value,
        "the list is a line of the debug configuration",
    ),
    Constraint(
        ("select_implmode", "type_list"),
        lambda select, types: types == NOT_GIVEN or select in _PLAIN_SELECT,
        "the document describes a type list only together with one of the two plain modes",
    ),
    Constraint(
        ("before", "dtype", "operator"),
        lambda before, dtype, operator: (
            before != Before.OTHER_MODE.value or (dtype == "float16" and operator != "Mul")
        ),
        "only with two implementations is there another mode's entry",
    ),
)


def unknown_level(cell: Mapping[str, Collection[str]]) -> str:
    """Why ``cell``, a pattern of levels by factor, names an unknown one; empty if it does not."""
    for factor, levels in cell.items():
        if factor not in FACTORS:
            return f"'{factor}' is no factor; use {', '.join(FACTORS)}."
        for level in levels:
            if level not in FACTORS[factor]:
                return f"'{level}' is no level of {factor}; use {', '.join(FACTORS[factor])}."
    return ""


_IN_USE = (
    Constraint(("cache_mode",), lambda mode: mode == CacheMode.ENABLE.value, "entries are served"),
    Constraint(("debug_level",), lambda level: level in (NOT_GIVEN, "0"), "nothing is debugged"),
    Constraint(
        ("debug_config", "debug_list"),
        lambda config, listed: config == NOT_GIVEN or listed == Listed.OTHERS.value,
        "not the operator",
    ),
    Constraint(
        ("operator",),
        lambda operator: operator in ("Exp", "Gelu", "Mul"),
        "one whose mode the plain tables change, one whose mode they do not, one without modes",
    ),
)


def in_use(model: Model) -> Model:
    """The model restricted to combinations in which the cache may serve the operator: most others
    cannot reveal how limits and entries interact, so pairs are covered once more in this model."""
    return Model(model.factors, (*model.constraints, *_IN_USE))


def combinations_model(
    capabilities: Collection[Capability], reduced: bool = False, socs: tuple[str, ...] = SOCS
) -> Model:
    """The model for a toolchain with these capabilities, without levels that need others;
    ``reduced`` takes the levels of :data:`REDUCED`."""
    levels = {**FACTORS, "soc": socs}
    if reduced:
        levels |= {**REDUCED, "soc": socs[:1]}
    impossible = set()
    if Capability.SINGLE_OP_DEBUG not in capabilities:
        levels["debug_config"] = (NOT_GIVEN,)
        levels["debug_list"] = (Listed.NO_LIST.value,)
    if Capability.KNOWLEDGE_BASE not in capabilities:
        impossible.add(Before.STALE.value)
    if Capability.IMPL_MODE_TABLES not in capabilities:
        # Without the installation's tables the meaning of a mode is unknown.
        levels["select_implmode"] = levels["type_list"] = levels["precision_file"] = (NOT_GIVEN,)
        impossible.add(Before.OTHER_MODE.value)
    levels["before"] = tuple(each for each in levels["before"] if each not in impossible)
    factors = tuple(Factor(name, each) for name, each in levels.items())
    return Model(factors, _CONSTRAINTS)
