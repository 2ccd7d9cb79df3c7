"""Benchmark of static kernels on several cards."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from pathlib import Path

from pytest_ascendcache.conformance.kit.clients import gang
from pytest_ascendcache.observation import (
    Probe,
    StaticKernelsUnderTest,
    meeting_place,
    probe_network,
)
from pytest_ascendcache.qualification.toolchain import reference_toolchain

CARDS = 8
RUNS = 5
NETWORK = probe_network(
    *(Probe("Sigmoid", f"sigmoid{extent}", (extent, 8)) for extent in range(2, 102))
)
"""Kernels that take long to compile and not to run."""


def cards(directory: Path) -> None:
    """How much longer eight cards take than one, from the start to the end of the network."""
    with closing(reference_toolchain()) as toolchain:
        runs = [
            [_seconds(toolchain, directory / f"{number}-{size}", size) for size in (1, CARDS)]
            for number in range(RUNS)
        ]
    one, many = (statistics.median(each) for each in zip(*runs[1:], strict=True))
    print(
        f"static kernels, {len(NETWORK.nodes)} shapes: one card {one:.2f} s, {CARDS} cards of one "
        f"node {many:.2f} s: {many / one:.2f} times (target: 1.3)"
    )


def _seconds(toolchain: object, directory: Path, size: int) -> float:
    (directory / "shelf").mkdir(parents=True)
    sandbox = directory / "sandbox"
    sandbox.mkdir()
    kernels = StaticKernelsUnderTest(toolchain, sandbox, directory / "shelf")
    with meeting_place(size) as place:
        requests = gang(kernels, [NETWORK] * size, place.port, [str(size)] * size)
        start = time.perf_counter()
        runs = kernels.together(*requests)
        seconds = time.perf_counter() - start
    for run in runs:
        if not run.succeeded:
            raise SystemExit(f"a card {run.result.ending}: {run.output}")
    return seconds
