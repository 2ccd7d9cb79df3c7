"""``python -m pytest_ascendcache.toolchains.cann_cache DIR`` builds a checkout and prints where."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_ascendcache.toolchains.cann_cache.build import Builder
from pytest_ascendcache.toolchains.cann_cache.plan import SourceError


def main() -> int:
    """Build the checkout that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_ascendcache.toolchains.cann_cache",
        description="Builds the cache layer of a checkout of CANN's public repository ge, and "
        "prints the directory of the toolkit: bin/atc, set_env.sh.",
    )
    parser.add_argument("source", type=Path, metavar="DIR", help="the checkout")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compiles at once")
    options = parser.parse_args()
    try:
        toolkit = Builder(jobs=options.jobs, say=lambda text: print(text, file=sys.stderr)).build(
            options.source
        )
    except SourceError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    print(toolkit.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
