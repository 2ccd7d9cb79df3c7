"""The editions of ``--ascend-edition``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition


def read_editions(names: Sequence[str], compares: bool) -> tuple[Edition, ...]:
    """The named editions: one for each product, or two of one product where the run ``compares``.

    Raises ``pytest.UsageError`` for an edition that does not exist, and for too many.
    """
    if not names:
        return ()  # runs that do not use the plugin must not pay for importing the contract
    from pytest_ascendcache.contract import NoEditionError
    from pytest_ascendcache.contract.editions import editions, named
    from pytest_ascendcache.words import instead

    chosen: list[Edition] = []
    for name in names:
        try:
            chosen.append(named(name))
        except NoEditionError:
            known = [each.name for each in editions()]
            raise pytest.UsageError(
                f"--ascend-edition={name}: no such edition; {instead(name, known)}"
            ) from None
    products = [each.product for each in chosen]
    if compares and len(chosen) == 2:
        if len(set(products)) == 2:
            raise pytest.UsageError(
                f"--ascend-edition={chosen[0].name} and --ascend-edition={chosen[1].name} are of "
                "two products; name two editions of one."
            )
        return tuple(chosen)
    for each in chosen:
        if products.count(each.product) > 1:
            raise pytest.UsageError(
                f"--ascend-edition={each.name}: a run judges by one edition of a product; name "
                "one, or compare two with --ascend-rules."
            )
    return tuple(chosen)
