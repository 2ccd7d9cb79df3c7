"""Command ``ascendcache-train``: run a network as one rank, with incremental build.

The document's ``test_square.py`` as a command: the network is a file, and its outputs are printed.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.network import NetworkError, read_network
from pytest_ascendcache.reference.errors import EXIT_SUCCESS, AtcError, invalid_value
from pytest_ascendcache.reference.incremental.info import Phase
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.options import LOG_LEVELS
from pytest_ascendcache.reference.policies import Policies

EXIT_FAILED = 1
"""What a Python script that raises ends with, as the document's does."""


def main() -> int:
    """Entry point of the command."""
    return run(sys.argv[1:], os.environ)


def run(argv: Sequence[str], environ: Mapping[str, str], policies: Policies | None = None) -> int:
    """Carry out one command line; the exit status is 0, or 1 with the reason said."""
    given = _parser().parse_args(argv)
    policies = policies or Policies()
    incremental = policies.incremental
    try:
        surroundings = incremental.surroundings.read(environ)
        meeting = incremental.rendezvous.open(surroundings.gang)
    except AtcError as error:
        return _fail(str(error))
    try:
        request = _request(given)
        # The compiler loads LLVM; a bad request is refused before that.
        from pytest_ascendcache.reference.incremental.build import IncrementalBuild

        outputs = IncrementalBuild(
            incremental, policies.fs, request, surroundings, Log(given.log)
        ).run(meeting)
        if given.outputs is not None:
            _write(outputs, given.outputs)
    except (NetworkError, AtcError) as error:
        status = _fail(str(error))
        meeting.abandon(str(error))
        return status
    for name, value in outputs.items():
        print(f"{name}:  {value}")
    return EXIT_SUCCESS


@functools.cache  # a forked run finds it made
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ascendcache-train",
        description="Runs a network as one rank; kernels are kept in "
        "rank_<RANK_ID>/kernel_meta below MS_COMPILER_CACHE_PATH or the working directory.",
        epilog="environment: RANK_ID, RANK_SIZE (or MS_WORKER_NUM), DEVICE_ID, MS_SCHED_HOST, "
        "MS_SCHED_PORT, HCCL_CONNECT_TIMEOUT, MS_COMPILER_CACHE_PATH",
        allow_abbrev=False,
    )
    parser.add_argument("network", type=Path, help="JSON file that describes the network")
    parser.add_argument("--soc_version", default="Ascend910B1", help="chip to compile for")
    parser.add_argument("--phase", default="training", help="training (default) or inference")
    parser.add_argument("--outputs", type=Path, help=".npz file to write the outputs to, by name")
    parser.add_argument("--log", default="warning", choices=LOG_LEVELS, help="what is said")
    return parser


def _request(given: argparse.Namespace) -> Any:
    from pytest_ascendcache.reference.incremental.build import RunRequest
    from pytest_ascendcache.reference.kernels import SOCS

    if given.phase not in [each.value for each in Phase]:
        raise invalid_value("--phase", given.phase, "It must be training or inference.")
    if given.soc_version not in SOCS:
        raise invalid_value(
            "--soc_version", given.soc_version, f"It must be one of {', '.join(SOCS)}."
        )
    network = read_network(given.network)
    return RunRequest(network, given.network, given.soc_version, Phase(given.phase))


def _write(outputs: Mapping[str, Any], path: Path) -> None:
    from pytest_ascendcache.reference.om import write_arrays

    try:
        write_arrays(path, outputs)
    except OSError as error:
        raise AtcError(
            "E40023",
            f"Path [{path}] for [--outputs] is invalid. Reason: it cannot be written "
            f"({error.strerror}); name a file that can.",
        ) from None


def _fail(reason: str) -> int:
    print(f"[ERROR] {reason}", flush=True)
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
