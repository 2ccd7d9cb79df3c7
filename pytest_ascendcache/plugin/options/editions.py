"""The values of ``--ascend-edition``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition


def read_editions(names: Sequence[str], compares: bool) -> tuple[Edition, ...]:
    """The editions that ``--ascend-edition`` names: one a product, or two that are compared.

    Raises:
        pytest.UsageError: for one that does not exist, and for too many.
    """
    if not names:
        return ()  # most runs: who only has the plugin installed pays for no contract
    from pytest_ascendcache.contract import NoEditionError
    from pytest_ascendcache.contract.editions import editions, named
    from pytest_ascendcache.words import instead

    found: list[Edition] = []
    for name in names:
        try:
            found.append(named(name))
        except NoEditionError:
            known = [each.name for each in editions()]
            raise pytest.UsageError(
                f"--ascend-edition={name}: no such edition; {instead(name, known)}"
            ) from None
    products = [each.product for each in found]
    if compares and len(found) == 2:
        if len(set(products)) == 2:
            raise pytest.UsageError(
                f"--ascend-edition={found[0].name} and --ascend-edition={found[1].name} are of two "
                "products; name two editions of one."
            )
        return tuple(found)
    for each in found:
        if products.count(each.product) > 1:
            raise pytest.UsageError(
                f"--ascend-edition={each.name}: a run judges by one edition of a product; name "
                "one, or compare two with --ascend-rules."
            )
    return tuple(found)
