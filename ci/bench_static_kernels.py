"""Benchmarks of static kernels: compiling them, installing packages of them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import Manifest
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE

_COMMAND = "pytest_ascendcache.reference.static_kernel.op_compiler"
_INDEX = AI_CORE / "config/ascend910b/binary_info_config.json"


def timed(*words: str | Path, **environment: str) -> float:
    """Wall time of a command in seconds, its start included."""
    start = time.perf_counter()
    subprocess.run(
        list(map(str, words)),
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return time.perf_counter() - start


def compiling(directory: Path, bare: float) -> None:
    """The command with two processes; ``bare`` is one forked compile of such an operator."""
    dump = directory / "dump"
    dump.mkdir()
    for number in range(250):
        tensor = TensorDesc.of("float32", 4, 8 + number)
        info = OperatorInfo.of(OperatorSpec("Add", (tensor, tensor), (tensor,)))
        write_opinfo(dump / info.file_name(number), info)
    words = [sys.executable, "-m", _COMMAND, "-p", dump, "-v", "Ascend910B1", "-o"]
    seconds = timed(*words, directory / "big", "-j", "2")
    rate = 250 / seconds
    print(
        f"op_compiler, 250 operators with -j 2: {rate:.0f} kernels compiled a second, start and "
        f"packing included; {1 / (rate * bare):.2f} x the time of as many bare forked compiles "
        f"({1 / bare:.0f} a second; target: 1.0)"
    )


def installing(directory: Path) -> None:
    """The package of 500 kernels, against copying its files plainly."""
    opp = directory / "opp"
    opp.mkdir()
    package = directory / "big.run"
    place = {"ASCEND_OPP_PATH": str(opp)}
    seconds = timed(package, **place)
    files = [path for path in (opp / AI_CORE / "big").rglob("*") if path.is_file()]
    plain = directory / "plain"
    plain.mkdir()
    start = time.perf_counter()
    for number, path in enumerate(files):
        Fs().write_new("plain", plain / str(number), path.read_bytes())
    copying = time.perf_counter() - start
    again, gone = timed(package, **place), timed(package, "--uninstall", **place)
    print(
        f"package of 500 kernels: installed in {seconds:.2f} s, {seconds / copying:.2f} x writing "
        f"and syncing its {len(files)} files (target: 1.5); again {again:.2f} s, uninstalled in "
        f"{gone:.2f} s"
    )


def updating(directory: Path) -> None:
    """A small package beside others with 10 000 kernels, and alone."""
    small = _package(directory, "small", 2)
    alone, beside = directory / "alone", directory / "beside"
    for path in (alone, beside):
        path.mkdir()
    many = _package(directory, "many", 10_000)
    timed(many, ASCEND_OPP_PATH=str(beside))
    seconds = []
    for opp in (alone, beside):
        runs = []
        for _ in range(5):
            runs.append(timed(small, ASCEND_OPP_PATH=str(opp)))
            timed(small, "--uninstall", ASCEND_OPP_PATH=str(opp))
        seconds.append(statistics.median(runs))
    size = (beside / _INDEX).stat().st_size / 1e6
    print(
        f"index of 10000 kernels ({size:.1f} MB): a package is installed beside them in "
        f"{seconds[1] * 1000:.0f} ms, alone in {seconds[0] * 1000:.0f} ms, start included"
    )


def _package(directory: Path, name: str, kernels: int) -> Path:
    """A package whose index has that many keys; they share one file, which nobody runs."""
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
    manifest = Manifest(name, "Ascend910B1", "ascend910b", index, {})
    run = directory / f"{name}.run"
    run.write_bytes(PackagePolicy().content(manifest, {path: b"kernel"}))
    run.chmod(0o750)
    return run
