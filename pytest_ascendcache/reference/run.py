"""Command ``ascendcache-run``: run the kernel of an ``.om`` on arrays.

Meant to be a throw-away process: a damaged object can end it in any way.
"""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.errors import EXIT_FAILED, EXIT_SUCCESS
from pytest_ascendcache.reference.om import Model, OmError, write_whole


def main() -> int:
    """Entry point of the command."""
    return run(sys.argv[1:], os.environ)


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:  # noqa: ARG001 - as atc.run
    """Run one kernel: ``MODEL.om INPUTS.npz OUTPUTS.npz``, arrays named ``0``, ``1``, ..."""
    parser = argparse.ArgumentParser(
        prog="ascendcache-run", description="Runs the kernel of an .om file on numpy arrays."
    )
    parser.add_argument("model", type=Path, help=".om file of ascendcache-atc")
    parser.add_argument("inputs", type=Path, help=".npz file with arrays 0, 1, ...")
    parser.add_argument("outputs", type=Path, help=".npz file to write")
    given = parser.parse_args(argv)
    try:
        _run(given.model, given.inputs, given.outputs)
    except (OmError, OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        print(f"ascendcache-run: {error}")
        return EXIT_FAILED
    return EXIT_SUCCESS


def _run(model_path: Path, inputs_path: Path, outputs_path: Path) -> None:
    import io

    import numpy

    from pytest_ascendcache.reference.kernels.execute import run_object

    model = Model.read(model_path)
    with numpy.load(inputs_path, allow_pickle=False) as archive:
        inputs = [archive[str(index)] for index in range(len(model.operator.inputs))]
    for index, (array, tensor) in enumerate(zip(inputs, model.operator.inputs, strict=True)):
        if array.shape != tensor.shape or array.dtype != numpy.dtype(tensor.dtype.numpy):
            raise ValueError(
                f"input {index} is {array.dtype}{list(array.shape)}; the kernel takes "
                f"{tensor.dtype}{list(tensor.shape)}."
            )
    outputs = run_object(model.object, model.symbol, inputs, list(model.operator.outputs))
    buffer = io.BytesIO()
    named: Any = {str(index): array for index, array in enumerate(outputs)}
    numpy.savez(buffer, **named)
    write_whole(outputs_path, buffer.getvalue())


if __name__ == "__main__":
    sys.exit(main())
