"""Siblings of generated mutants that the suite did not notice when they were first tried."""

from __future__ import annotations

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.incremental.surroundings import (
    SurroundingsPolicy,
    invalid_variable,
)

REUSES = "incremental/reuses"


@defect(REUSES, overrides=SurroundingsPolicy.size, found_later=True)
def a_gang_of_one_is_refused(self, right, environ):
    """A size of one is no size."""
    size = right(environ)
    if size == 1:
        raise invalid_variable("RANK_SIZE", size, "there is nobody to meet")
    return size
