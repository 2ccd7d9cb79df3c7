"""Releases that convert a model. What a scene does not mention is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import DEFAULT_SOC
from pytest_ascendcache.observation.model_file import take_apart
from pytest_ascendcache.qualification.catalogue import scene
from pytest_ascendcache.qualification.scenes.caches import SceneKernel
from pytest_ascendcache.qualification.scenes.release import (
    judge,
    run_atc,
    write_golden,
    write_release,
)
from pytest_ascendcache.release.file import read_release
from pytest_ascendcache.release.manifest import KernelDigest

CACHED, CARDS = "release/model-cached-is-fresh", "release/model-cards-agree"
MANIFEST, REPRODUCIBLE = "release/model-manifest", "release/model-reproducible"
UNCHANGED, NEAR = "release/outputs-unchanged", "release/outputs-near"

_PRECISION = "SoftmaxV2=high_precision\nLayerNorm=high_precision\n"
_PLACES, _WIDTH = 8, 16


def _write_model(
    path: Path, epsilon: float = 1e-5, last_row: float = 1.0, places: int = _PLACES
) -> None:
    """Write an ONNX model: MatMul with bias and Relu, a residual Add, LayerNormalization, Softmax.

    ``last_row`` is a factor of the last row of MatMul's weights, ``places`` the number of vectors.
    """
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(7)
    shapes: dict[str, tuple[tuple[int, ...], float]] = {
        "w": ((_WIDTH, _WIDTH), 0.3),
        "b": ((_WIDTH,), 2.0),
        **dict.fromkeys(("gamma", "beta"), ((_WIDTH,), 0.5)),
    }
    values = {
        name: (random.standard_normal(shape) * scale).astype(numpy.float32)
        for name, (shape, scale) in shapes.items()
    }
    values["w"][-1] *= last_row
    weights = [numpy_helper.from_array(value, name) for name, value in values.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Add", ["product", "b"], ["biased"], name="bias"),
        helper.make_node("Relu", ["biased"], ["active"], name="relu"),
        helper.make_node("Add", ["active", "x"], ["total"], name="residual"),
        helper.make_node(
            "LayerNormalization",
            ["total", "gamma", "beta"],
            ["normed"],
            name="norm",
            epsilon=epsilon,
        ),
        helper.make_node("Softmax", ["normed"], ["y"], name="shares"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, places, _WIDTH])
        for name in ("x", "y")
    )
    graph = helper.make_graph(nodes, "scene", [x], [y], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


def _release(directory: Path, precision: str = _PRECISION, **keys: Any) -> Path:
    """Write a release that is right except for the arguments."""
    directory.mkdir(exist_ok=True)
    _write_model(directory / "model.onnx")
    (directory / "model.ini").write_text(precision, encoding="utf-8")
    options = {
        "model": "model.onnx",
        "framework": 5,
        "soc_version": DEFAULT_SOC,
        "op_compiler_cache_mode": "force",
        "op_precision_mode": "model.ini",
    }
    return write_release(directory, {"options": options}, **keys)


def _convert(path: Path, cache: str = "", defect: str = "") -> Path:
    """Convert a release's model with one of its caches, or without a cache. Returns the ``.om``."""
    directory = path.parent
    options = {
        **read_release(path, {}).conversion_options,
        "output": str(directory / "out" / "model"),
        "op_compiler_cache_mode": "enable" if cache else "disable",
        "op_compiler_cache_dir": str(directory / (cache or "none")),
    }
    run_atc(directory, options, defect)
    return directory / "out/model.om"


def _entries(directory: Path, kind: str) -> Iterator[Path]:
    """The metadata files of an operator type in a release's cache."""
    yield from (directory / "cache/kernel_cache" / DEFAULT_SOC).glob(f"te_{kind}_*.json")


@scene(what="nothing is wrong: a model for two cards with its cache")
def model_released_as_it_should_be(directory: Path) -> list[str]:
    path = _release(directory, caches="cache", cards=2, manifest="kernels.json")
    _convert(path, "cache")
    _manifest(path)
    return judge(path)


@scene(CACHED, UNCHANGED, what="a fused kernel of the cache is another model's")
def model_cache_with_a_swapped_fused_kernel(directory: Path) -> list[str]:
    path = _release(directory, caches="cache")
    _convert(path, "cache")
    (entry,) = _entries(directory, "fused_op_add_layernorm")
    # The same operator with another epsilon, compiled under the entry's own name.
    _write_model(directory / "model.onnx", epsilon=1.0)
    (directory / "cache").rename(directory / "own")
    _convert(path, "cache")
    (other,) = _entries(directory, "fused_op_add_layernorm")
    data = other.with_suffix(".o").read_bytes().replace(other.stem.encode(), entry.stem.encode())
    (directory / "cache").rename(directory / "other")
    (directory / "own").rename(directory / "cache")
    SceneKernel(entry, entry.with_suffix(".o")).replace_object(data)
    _write_model(directory / "model.onnx")
    return judge(path)


@scene(CACHED, UNCHANGED, what="the key of a fused kernel lacks an attribute of its second part")
def model_by_a_toolchain_whose_fused_keys_collide(directory: Path) -> list[str]:
    defect = "fused-key-without-epsilon"
    path = _release(directory, caches="cache")
    _write_model(directory / "model.onnx", epsilon=1.0)
    _convert(path, "cache", defect)
    _write_model(directory / "model.onnx")
    return judge(path, defect)


@scene(CACHED, UNCHANGED, what="the key of a fused kernel lacks the implementation mode")
def model_by_a_toolchain_whose_fused_keys_lack_the_mode(directory: Path) -> list[str]:
    defect = "fused-key-without-implementation"
    other = _PRECISION.replace("LayerNorm=high_precision", "LayerNorm=high_performance")
    path = _release(directory, other, caches="cache")
    _convert(path, "cache", defect)
    _release(directory, caches="cache")
    return judge(path, defect)


@scene(CACHED, what="the cache has only kernels of another model")
def model_with_the_cache_of_another(directory: Path) -> list[str]:
    path = _release(directory, caches="cache")
    _write_model(path.parent / "model.onnx", places=4)
    _convert(path, "cache")
    _write_model(path.parent / "model.onnx")
    return judge(path)


@scene(CACHED, what="the cache has two of the model's five kernels")
def model_with_a_cache_that_serves_few(directory: Path) -> list[str]:
    path = _release(directory, caches="cache")
    _convert(path, "cache")
    for kind in ("fused_op", "softmaxv2"):
        for entry in _entries(directory, kind):
            entry.unlink()
            entry.with_suffix(".o").unlink()
    return judge(path)


@scene("release/precision-file-kept", what="no precision file, and a model with types of two modes")
def model_without_precision_file(directory: Path) -> list[str]:
    directory.mkdir(exist_ok=True)
    _write_model(directory / "model.onnx")
    options = {"model": "model.onnx", "framework": 5, "soc_version": DEFAULT_SOC}
    path = write_release(directory, {"options": options})
    return judge(path, rules=("release/precision-file-kept", "release/debug-off"))


@scene(UNCHANGED, CACHED, what="a weight comes from the cache because it begins like the right one")
def model_by_a_toolchain_that_keeps_weights(directory: Path) -> list[str]:
    defect = "weights-by-their-beginning"
    path = _release(directory, caches="cache")
    _write_model(path.parent / "model.onnx", last_row=1.5)
    _convert(path, "cache", defect)
    _write_model(path.parent / "model.onnx")
    return judge(path, defect, (CACHED, UNCHANGED, NEAR))


@scene(CARDS, what="the last card fuses less than the others")
def model_that_one_card_fuses_otherwise(directory: Path) -> list[str]:
    return judge(_release(directory, cards=3), "last-card-fuses-no-activation")


@scene(CARDS, what="large kernels are cut short on every card but the first")
def model_with_kernels_cut_on_some_cards(directory: Path) -> list[str]:
    return judge(_release(directory, cards=2), "other-cards-cut-large-kernels")


@scene(CARDS, what="the toolchain tunes a model's kernels for the card")
def model_by_a_toolchain_that_tells_cards_apart(directory: Path) -> list[str]:
    return judge(_release(directory, cards=2), "kernels-of-the-card")


@scene(MANIFEST, what="a kernel of the model is not the golden one")
def model_with_another_golden_kernel(directory: Path) -> list[str]:
    path = _release(directory, manifest="kernels.json")
    _manifest(path, alter="fused_op")
    return judge(path)


@scene(MANIFEST, what="the golden manifest lacks a kernel of the model")
def model_with_a_kernel_too_many(directory: Path) -> list[str]:
    path = _release(directory, manifest="kernels.json")
    _manifest(path, leave_out="softmaxv2")
    return judge(path)


@scene(MANIFEST, what="the golden digests of two kernels are swapped")
def model_with_golden_kernels_swapped(directory: Path) -> list[str]:
    path = _release(directory, manifest="kernels.json")
    _manifest(path)
    manifest = json.loads((directory / "kernels.json").read_text(encoding="utf-8"))
    first, second = sorted(manifest["model"])[:2]
    for field in ("sha256", "size"):
        one, other = manifest["model"][first], manifest["model"][second]
        one[field], other[field] = other[field], one[field]
    (directory / "kernels.json").write_text(json.dumps(manifest), encoding="utf-8")
    return judge(path)


@scene(REPRODUCIBLE, what="the largest kernel of a model contains the process id of its run")
def model_by_a_toolchain_that_stamps_one_kernel(directory: Path) -> list[str]:
    rules = REPRODUCIBLE, "release/debug-off"
    return judge(_release(directory), "largest-kernel-by-process", rules)


@scene(REPRODUCIBLE, what="every run of the toolchain makes different kernels")
def model_by_a_toolchain_that_tunes_by_chance(directory: Path) -> list[str]:
    # The rules that compare with a fresh conversion are undecided.
    rules = REPRODUCIBLE, "release/debug-off"
    return judge(_release(directory), "kernels-by-chance", rules)


@scene(NEAR, what="fusing a bias into its product drops it")
def model_that_loses_a_bias(directory: Path) -> list[str]:
    return judge(_release(directory), "loses-the-bias")


@scene(NEAR, what="fusing an activation drops it")
def model_that_loses_an_activation(directory: Path) -> list[str]:
    return judge(_release(directory), "forgets-a-relu")


@scene(NEAR, what="a fused LayerNorm swaps scale and shift")
def model_with_scale_and_shift_swapped(directory: Path) -> list[str]:
    return judge(_release(directory), "swaps-scale-and-shift")


def _manifest(path: Path, **changes: Any) -> None:
    """Write the golden manifest of a release's model."""
    found = take_apart(_convert(path)).by_symbol
    kernels = {name: KernelDigest(name, *each) for name, each in found.items()}
    write_golden(path, kernels, of_model=True, **changes)
