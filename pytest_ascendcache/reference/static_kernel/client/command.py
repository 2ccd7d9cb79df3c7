"""The command ``ascendcache-aclgraph``: run networks as captured graphs, with static kernels.

It is the document's script as a command: it reads networks from files and prints their outputs.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from pytest_ascendcache.operators.network import NetworkError, read_network
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.client.api import close_undisturbed, end_by_signals
from pytest_ascendcache.reference.static_kernel.client.config import (
    MODES,
    TREES,
    CompilerConfig,
    Profiling,
)
from pytest_ascendcache.reference.static_kernel.client.errors import CardsError, StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.session import Session

EXIT_SUCCESS, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130


def main() -> int:
    return run(sys.argv[1:], os.environ)


def run(argv: Sequence[str], environ: Mapping[str, str], policies: Policies | None = None) -> int:
    """Carry out one command line. Returns 0, or 1 after printing the reasons.

    After a network whose static kernels cannot be made, the next one is tried.
    """
    options = _parser().parse_args(argv)
    end_by_signals()
    script = options.networks[0].absolute().parent
    session = Session(policies or Policies(), environ, script, forks=True)
    status = EXIT_SUCCESS
    try:
        for number, path in enumerate(options.networks):
            try:
                _run_network(session, options, path, number)
            except (NetworkError, StaticKernelError) as error:
                print(f"[ERROR] {path}: {error}", flush=True)
                status = EXIT_FAILED
                if isinstance(error, CardsError) or _ends_the_job(session, options, error):
                    break
    except KeyboardInterrupt:
        print("[ERROR] interrupted.", flush=True)
        status = EXIT_INTERRUPTED
    finally:
        close_undisturbed(session)
    return status


def _ends_the_job(session: Session, options: argparse.Namespace, error: Exception) -> bool:
    """Tell the other cards of an error if they wait for this one. Returns whether they did."""
    waited_for = isinstance(error, NetworkError) or not session.has_met
    return options.static_shape_kernel and waited_for and session.abandon(str(error))


def _run_network(session: Session, options: argparse.Namespace, path: Path, number: int) -> None:
    recorded = options.record_op_args and number >= options.profile_from
    profiling = Profiling(recorded, options.skip_first)
    outputs = session.run(read_network(path), _config(options), profiling)
    for name, value in outputs.items():
        print(f"{name}:  {numpy.array2string(value, threshold=16)}", flush=True)
    if options.outputs is not None:
        _write(outputs, options.outputs / f"{number}.npz")


def _config(options: argparse.Namespace) -> CompilerConfig:
    config = CompilerConfig()
    config.mode = options.mode
    config.soc_version = options.soc_version
    aclgraph = config.experimental_config.aclgraph
    aclgraph._aclnn_static_shape_kernel = options.static_shape_kernel
    aclgraph._aclnn_static_shape_kernel_build_dir = options.build_dir
    aclgraph.output_tree = options.output_tree
    aclgraph.op_compiler = options.op_compiler
    return config


@functools.cache  # forked runs share the parser
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ascendcache-aclgraph",
        description="Runs networks as captured graphs; with --static-shape-kernel their kernels "
        "are compiled for their shapes, installed below ASCEND_OPP_PATH, and uninstalled at the "
        "end.",
        epilog="environment: ASCEND_OPP_PATH; several cards: RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, "
        "MASTER_ADDR, MASTER_PORT",
        allow_abbrev=False,
    )
    parser.add_argument("networks", type=Path, nargs="+", metavar="NETWORK.json")
    parser.add_argument("--mode", default=MODES[0], help=" or ".join(MODES))
    parser.add_argument(
        "--static-shape-kernel", action="store_true", help="compile static kernels (default: off)"
    )
    parser.add_argument(
        "--build-dir", help="where output goes (default: the directory of the first network)"
    )
    parser.add_argument(
        "--output-tree", default=TREES[0], help="folder names of the document, or of later versions"
    )
    parser.add_argument(
        "--op-compiler",
        default="",
        help="command to compile with (default: op_compiler on PATH, else the embedded one)",
    )
    parser.add_argument("--soc_version", default="Ascend910B1", help="what the card is")
    parser.add_argument(
        "--record-op-args", action="store_true", help="as if a profiler recorded operators"
    )
    parser.add_argument(
        "--skip-first", type=int, default=0, metavar="N", help="steps before that profiler begins"
    )
    parser.add_argument(
        "--profile-from",
        type=int,
        default=0,
        metavar="N",
        help="number of the first network that it records (default: 0, all of them)",
    )
    parser.add_argument(
        "--outputs", type=Path, metavar="DIR", help="write each network's outputs to DIR/<n>.npz"
    )
    return parser


def _write(outputs: Mapping[str, Any], path: Path) -> None:
    from pytest_ascendcache.reference.om import write_arrays

    try:
        write_arrays(path, outputs)
    except OSError as error:
        raise StaticKernelError(
            f"--outputs: {path} cannot be written ({error.strerror}); name a directory where it "
            "can."
        ) from None


if __name__ == "__main__":
    sys.exit(main())
