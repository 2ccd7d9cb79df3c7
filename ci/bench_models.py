"""Benchmarks of models: warm and cold conversions, the release gate, and taking models apart."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from bench_timing import pytest, timed

from pytest_ascendcache.observation.model_file import take_apart
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference import atc
from pytest_ascendcache.reference.kernels import KernelOptions, build

FIXTURES = Path(__file__).parents[1] / "fixtures"
_OPTIONS = [
    *("--model=model.onnx", "--framework=5", "--soc_version=Ascend910B1", "--output=out/model"),
    *("--input_shape=input_ids:1,8;attention_mask:1,8", "--op_precision_mode=model.ini"),
]

CONVERSIONS = 8
"""The gate's conversions of the example: fresh, into and from a new cache, under force, from two
caches, and two at once."""


def models(directory: Path) -> None:
    """Compare conversions, the release gate, and taking a large model apart with plain work."""
    _conversions(directory)
    _large_model(directory)


def _conversions(directory: Path) -> None:
    """Compare warm with cold conversions of the example, and its gate with bare ones."""
    example = Path(shutil.copytree(FIXTURES / "release", directory / "example"))
    cold = [_converted(example, f"--op_compiler_cache_dir=c{each}") for each in range(5)]
    warm = [_converted(example, "--op_compiler_cache_dir=c0") for _ in range(5)]
    bare = [_converted(example, "--op_compiler_cache_mode=disable") for _ in range(5)]
    print(
        f"conversion of two encoder layers: warm {min(warm):.2f} s / cold {min(cold):.2f} s = "
        f"{min(warm) / min(cold):.2f}",
        flush=True,
    )
    subprocess.run([sys.executable, "prepare.py"], cwd=example, check=True, capture_output=True)
    rules = ("release/model-cached-is-fresh", "release/model-cards-agree")
    chosen = (f"--ascend-rule={each}" for each in rules)
    seconds = pytest(example, "--ascend-release=release.toml", *chosen)
    print(
        f"gate: {seconds:.1f} s for {CONVERSIONS} conversions of {min(bare):.2f} s bare: "
        f"{seconds / (CONVERSIONS * min(bare)):.2f}",
        flush=True,
    )


def _converted(example: Path, *options: str) -> float:
    mode = [] if any("mode=" in each for each in options) else ["--op_compiler_cache_mode=enable"]
    argv = [sys.executable, "-m", atc.__name__, *_OPTIONS, *mode, *options]
    return timed(subprocess.run, argv, cwd=example, check=True, capture_output=True)[0]


def _read(path: Path) -> None:
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256") if sys.version_info >= (3, 11) else file.read()


def _large_model(directory: Path, gigabytes: int = 1) -> None:
    """Compare taking a model apart with its sha256, and measure the memory it takes."""
    tensor = TensorDesc.of("float32", 8)
    kernel = build(OperatorSpec("Exp", (tensor,), (tensor,)), "k", KernelOptions("Ascend910B1"))
    path, block = directory / "large.om", os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(gigabytes << 10):
            file.write(block)
            file.write(kernel.object)
    ratios = []
    for _ in range(3):
        read, _ = timed(_read, path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, parts = timed(take_apart, path)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert len(parts.kernels) == gigabytes << 10
        ratios.append((seconds / read, seconds, grown))
    ratio, seconds, grown = min(ratios)
    print(
        f"taking {gigabytes} GB apart: {seconds:.2f} s, {ratio:.2f} x its sha256; "
        f"{grown / 1024:.0f} MB of memory more",
        flush=True,
    )
