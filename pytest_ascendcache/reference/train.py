"""Command ``ascendcache-train``: runs a network as one rank, with incremental build.

It stands for the document's script ``test_square.py``: it reads the network from a file and prints
its outputs.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.network import NetworkError, read_network
from pytest_ascendcache.reference.errors import (
    EXIT_SUCCESS,
    AtcError,
    as_invalid_path,
    invalid_value,
)
from pytest_ascendcache.reference.incremental.info import NetworkPhase
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.om import write_arrays
from pytest_ascendcache.reference.options import LOG_LEVELS
from pytest_ascendcache.reference.policies import Policies

EXIT_FAILED = 1
"""The exit status of a Python script that raises, such as the document's."""


def main() -> int:
    """Entry point of the command."""
    return run(sys.argv[1:], os.environ)


def run(argv: Sequence[str], environ: Mapping[str, str], policies: Policies | None = None) -> int:
    """Carry out one command line; returns 0, or prints the reason and returns 1."""
    given = _parser().parse_args(argv)
    policies = policies or Policies()
    incremental = policies.incremental
    try:
        surroundings = replace(
            incremental.surroundings.read(environ), versions=policies.installation.stamp(environ)
        )
        meeting = incremental.rendezvous.open(surroundings.gang)
    except AtcError as error:
        return _fail(str(error))
    try:
        request = _request(given)
        # Imported late, because it loads LLVM: a bad request is refused before that.
        from pytest_ascendcache.reference.incremental.build import IncrementalBuild

        outputs = IncrementalBuild(
            incremental, policies.fs, request, surroundings, Log(given.log)
        ).run(meeting)
        if given.outputs is not None:
            with as_invalid_path(given.outputs, "--outputs"):
                write_arrays(given.outputs, outputs)
    except (NetworkError, AtcError) as error:
        status = _fail(str(error))
        meeting.abandon(str(error))
        return status
    for name, value in outputs.items():
        print(f"{name}:  {value}")
    return EXIT_SUCCESS


@functools.cache  # a forked run inherits it
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
    parser.add_argument("--log", default="warning", choices=LOG_LEVELS, help="level of messages")
    return parser


def _request(given: argparse.Namespace) -> Any:
    from pytest_ascendcache.reference.incremental.build import RunRequest
    from pytest_ascendcache.reference.kernels import SOCS

    if given.phase not in [each.value for each in NetworkPhase]:
        raise invalid_value("--phase", given.phase, "It must be training or inference.")
    if given.soc_version not in SOCS:
        raise invalid_value(
            "--soc_version", given.soc_version, f"It must be one of {', '.join(SOCS)}."
        )
    network = read_network(given.network)
    return RunRequest(network, given.network, given.soc_version, NetworkPhase(given.phase))


def _fail(reason: str) -> int:
    print(f"[ERROR] {reason}", flush=True)
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
