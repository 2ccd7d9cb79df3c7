"""Command ``ascendcache-atc``: ATC's interface to the reference toolchain."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pytest_ascendcache.operators import SingleOpError, read_single_op
from pytest_ascendcache.reference.edition import played
from pytest_ascendcache.reference.errors import EXIT_FAILED, EXIT_SUCCESS, AtcError
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.policies import Policies

_FAILED = "ATC run failed, Please check the detail log, try 'ascendcache-atc --help'."

_DONE = "ATC run success, welcome to the next use."


def main() -> int:
    """Entry point of the command."""
    return run(sys.argv[1:], os.environ)


def run(argv: Sequence[str], environ: Mapping[str, str], policies: Policies | None = None) -> int:
    """Carry out one command line; returns ATC's exit status: 0, or 255 after the reason."""
    policies = policies or Policies()
    try:
        policies.play(played(environ))
        options = policies.options.parse(argv)
        if options.model is not None:
            from pytest_ascendcache.reference.model.conversion import convert

            convert(policies, options, environ, Log(options.log))
        else:
            operators = read_single_op(options.singleop)
            # Imported late, because it loads LLVM: a bad command line is refused before that.
            from pytest_ascendcache.reference.compiler import Compiler

            Compiler(policies, options, environ, Log(options.log)).run(operators)
    except (SingleOpError, AtcError) as error:
        reason = f"{error.code}: {error}" if isinstance(error, SingleOpError) else error
        print(_FAILED, reason, sep="\n")
        return EXIT_FAILED
    print(_DONE)
    return EXIT_SUCCESS


if __name__ == "__main__":
    sys.exit(main())
