"""Benchmarks of static kernels: compiling them, installing packages, and sharing them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from bench_timing import bare_compile, timed

from pytest_ascendcache.conformance.kit.clients import gang
from pytest_ascendcache.observation import (
    Probe,
    StaticKernelsUnderTest,
    meeting_place,
    probe_network,
)
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import PackageManifest
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE
from pytest_ascendcache.toolchains import Toolchain

_OP_COMPILER = "pytest_ascendcache.reference.static_kernel.op_compiler"
_INDEX = AI_CORE / "config/ascend910b/binary_info_config.json"


CARDS = 8
RUNS = 5
NETWORK = probe_network(
    *(Probe("Sigmoid", f"sigmoid{extent}", (extent, 8)) for extent in range(2, 102))
)
"""Kernels that take long to compile and short to run."""


def static_kernels(directory: Path) -> None:
    """Time compiling static kernels, and installing packages of them."""
    _compiling(directory, bare_compile(directory / "bare"))
    _installing(directory)
    _updating(directory)


def _command(*words: str | Path, **environment: str) -> float:
    """Run a command; returns its wall time in seconds."""
    options = {"check": True, "stdout": subprocess.DEVNULL, "env": {**os.environ, **environment}}
    return timed(subprocess.run, [*map(str, words)], **options)[0]


def _compiling(directory: Path, bare: float) -> None:
    """Run op_compiler with two processes; ``bare`` is one forked compile in seconds."""
    dump = directory / "dump"
    dump.mkdir()
    for number in range(250):
        tensor = TensorDesc.of("float32", 4, 8 + number)
        info = OperatorInfo.of(OperatorSpec("Add", (tensor, tensor), (tensor,)))
        write_opinfo(dump / info.file_name(number), info)
    options = ("-p", dump, "-v", "Ascend910B1", "-o", directory / "big", "-j", "2")
    seconds = _command(sys.executable, "-m", _OP_COMPILER, *options)
    rate = 250 / seconds
    print(
        f"op_compiler, 250 operators with -j 2: {rate:.0f} kernels compiled a second, start and "
        f"packing included; {1 / (rate * bare):.2f} x the time of as many bare forked compiles "
        f"({1 / bare:.0f} a second; target: 1.0)"
    )


def _installing(directory: Path) -> None:
    """Compare installing the package of 500 kernels with plainly copying its files."""
    opp = directory / "opp"
    opp.mkdir()
    package = directory / "big.run"
    place = {"ASCEND_OPP_PATH": str(opp)}
    seconds = _command(package, **place)
    files = [path for path in (opp / AI_CORE / "big").rglob("*") if path.is_file()]
    plain = directory / "plain"
    plain.mkdir()
    start = time.perf_counter()
    for number, path in enumerate(files):
        Fs().write_new("plain", plain / str(number), path.read_bytes())
    copying = time.perf_counter() - start
    again, gone = _command(package, **place), _command(package, "--uninstall", **place)
    print(
        f"package of 500 kernels: installed in {seconds:.2f} s, {seconds / copying:.2f} x writing "
        f"and syncing its {len(files)} files (target: 1.5); again {again:.2f} s, uninstalled in "
        f"{gone:.2f} s"
    )


def _updating(directory: Path) -> None:
    """Compare installing a small package next to 10 000 kernels with installing it alone."""
    small = _package(directory, "small", 2)
    alone, beside = directory / "alone", directory / "beside"
    for path in (alone, beside):
        path.mkdir()
    many = _package(directory, "many", 10_000)
    _command(many, ASCEND_OPP_PATH=str(beside))
    seconds = []
    for opp in (alone, beside):
        runs = []
        for _ in range(5):
            runs.append(_command(small, ASCEND_OPP_PATH=str(opp)))
            _command(small, "--uninstall", ASCEND_OPP_PATH=str(opp))
        seconds.append(statistics.median(runs))
    size = (beside / _INDEX).stat().st_size / 1e6
    print(
        f"index of 10000 kernels ({size:.1f} MB): a package is installed beside them in "
        f"{seconds[1] * 1000:.0f} ms, alone in {seconds[0] * 1000:.0f} ms, start included"
    )


def _package(directory: Path, name: str, kernels: int) -> Path:
    """Make a package whose index has ``kernels`` keys for one file, which nothing runs."""
    path = f"ascend910b/Add/{name}.o"
    entries = [
        {
            "simplifiedKey": f"Add/d=0,p=0/0,2,({number:x})/0,2,({number:x})/{name}",
            "binPath": f"{name}/{path}",
            "coreType": 1,
            "binDesc": {"blockDim": 1, "kernelName": "kernel", "workspace": []},
        }
        for number in range(kernels)
    ]
    index = {"Add": {"simplifiedKeyMode": 0, "staticList": entries}}
    manifest = PackageManifest(name, "Ascend910B1", "ascend910b", index, {})
    run = directory / f"{name}.run"
    run.write_bytes(PackagePolicy().content(manifest, {path: b"kernel"}))
    run.chmod(0o750)
    return run


def static_kernel_cards(directory: Path) -> None:
    """Compare eight cards that share static kernels with one card."""
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


def _seconds(toolchain: Toolchain, directory: Path, size: int) -> float:
    (directory / "shelf").mkdir(parents=True)
    sandbox = directory / "sandbox"
    sandbox.mkdir()
    kernels = StaticKernelsUnderTest(toolchain, sandbox, directory / "shelf")
    with meeting_place(size) as place:
        requests = gang(kernels, [NETWORK] * size, place.port, [str(size)] * size)
        seconds, runs = timed(kernels.together, *requests)
    for run in runs:
        if not run.succeeded:
            raise SystemExit(f"a card {run.result.ending}: {run.output}")
    return seconds
