"""Which combinations of options a run tries. Nothing here touches a file or starts a process."""

from pytest_ascendcache.combinations.cell import Cell, batches, minimise
from pytest_ascendcache.combinations.covering import (
    Constraint,
    Coverage,
    Factor,
    Model,
    all_rows,
    coverage,
    covering_array,
)
from pytest_ascendcache.combinations.factors import Before, LimitSource, combinations_model
from pytest_ascendcache.combinations.plan import Matrix, Plan, plan

__all__ = [
    "Before",
    "Cell",
    "Constraint",
    "Coverage",
    "Factor",
    "LimitSource",
    "Matrix",
    "Model",
    "Plan",
    "all_rows",
    "batches",
    "combinations_model",
    "coverage",
    "covering_array",
    "minimise",
    "plan",
]
