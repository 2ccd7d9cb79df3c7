"""Sets up releases: ``python -m pytest_ascendcache.toolchains.mindspore_ascend DIR RELEASE...``.

Prints the Python of each, and on standard error what it fetches, before it does so.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from pytest_ascendcache.processes.launch import ToolchainError
from pytest_ascendcache.toolchains.mindspore_ascend.releases import (
    ReleaseShelf,
    check_known,
    find_python,
)


def main(arguments: list[str]) -> int:
    """Returns 2 if a release cannot be set up."""
    root, *releases = arguments
    say = partial(print, "ci/verify-mindspore-ascend:", file=sys.stderr, flush=True)
    shelf = ReleaseShelf(Path(root).absolute(), say)
    try:
        check_known(releases)
        wanted = [each for each in releases if shelf.lacks(each)]
        if wanted:
            python = find_python(dict(os.environ))
            if plan := shelf.plan(wanted):
                say(plan)
            for each in wanted:
                shelf.set_up(each, python)
    except ToolchainError as error:
        reason = str(error)
        say(reason if reason.endswith((".", "?")) else f"{reason}.")
        return 2
    for each in releases:
        print(shelf.command(each))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
