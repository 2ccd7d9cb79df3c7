"""Prints the edition of CANN's documents for a checkout of ge. Run by ``ci/verify-cann``."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_ascendcache.contract.editions import chosen_for
from pytest_ascendcache.toolchains.cann_cache.checkout import Checkout
from pytest_ascendcache.toolchains.cann_cache.plan import BuildPlan, SourceError


def main() -> int:
    """``edition.py DIR`` prints the value for ``--ascend-edition``; returns 2 if it is unsure."""
    try:
        release = Checkout.open(Path(sys.argv[1]), BuildPlan.load()).release
    except SourceError as error:
        print(f"ci/verify-cann: {error}", file=sys.stderr)
        return 2
    chosen = chosen_for(release)
    if chosen.unsure:
        print(f"ci/verify-cann: {chosen.unsure}; name --ascend-edition.", file=sys.stderr)
        return 2
    print(chosen.edition.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
