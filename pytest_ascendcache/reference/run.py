"""Command ``ascendcache-run``: runs the kernels of an ``.om`` file on arrays.

It is meant to be a throw-away process, because a damaged object can end it in any way.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_ascendcache.reference.errors import EXIT_FAILED, EXIT_SUCCESS
from pytest_ascendcache.reference.om import OmError, OmModel, write_arrays


def main() -> int:
    """Entry point of the command."""
    return run(sys.argv[1:], os.environ)


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:  # noqa: ARG001 - as atc.run
    """Run ``MODEL.om INPUTS.npz OUTPUTS.npz``; returns the exit status.

    The arrays of a single kernel are named ``0``, ``1``, ... for its connected inputs and its
    outputs, those of a converted model like its inputs and outputs.
    """
    given = _parser().parse_args(argv)
    try:
        _run(given.model, given.inputs, given.outputs)
    except (OmError, OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        print(f"ascendcache-run: {error}")
        return EXIT_FAILED
    return EXIT_SUCCESS


@functools.cache  # a forked run inherits it
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ascendcache-run",
        description="Runs a converted model, or the kernel of an .om file, on numpy arrays.",
    )
    parser.add_argument("model", type=Path, help=".om file of ascendcache-atc")
    parser.add_argument(
        "inputs", type=Path, help=".npz file with arrays 0, 1, ..., of a model by the inputs' names"
    )
    parser.add_argument("outputs", type=Path, help=".npz file to write")
    return parser


def _run(model_path: Path, inputs_path: Path, outputs_path: Path) -> None:
    import numpy

    from pytest_ascendcache.reference.kernels.execute import LoadedKernel
    from pytest_ascendcache.reference.model.container import is_model

    if is_model(model_path):
        _run_model(model_path, inputs_path, outputs_path)
        return
    model = OmModel.read(model_path)
    tensors = [each for each in model.operator.inputs if not each.is_absent]
    with numpy.load(inputs_path, allow_pickle=False) as archive:
        inputs = [archive[str(index)] for index in range(len(tensors))]
    for index, (array, tensor) in enumerate(zip(inputs, tensors, strict=True)):
        if array.shape != tensor.shape or array.dtype != numpy.dtype(tensor.dtype.numpy):
            raise ValueError(
                f"input {index} is {array.dtype}{list(array.shape)}; the kernel takes "
                f"{tensor.dtype}{list(tensor.shape)}."
            )
    kernel = LoadedKernel(model.object, model.symbol)
    outputs = kernel.run(inputs, model.operator.outputs)
    write_arrays(outputs_path, {str(index): array for index, array in enumerate(outputs)})


def _run_model(model_path: Path, inputs_path: Path, outputs_path: Path) -> None:
    import numpy

    from pytest_ascendcache.reference.model.container import read_container
    from pytest_ascendcache.reference.model.execution import run_model

    model = read_container(model_path)
    with numpy.load(inputs_path, allow_pickle=False) as archive:
        inputs = {name: archive[name] for name in archive.files}
    write_arrays(outputs_path, run_model(model, inputs))


if __name__ == "__main__":
    sys.exit(main())
