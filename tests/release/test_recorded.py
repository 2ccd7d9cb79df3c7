"""Inputs of a release × one change each: every change is named, and no sound twin is accused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from pytest_ascendcache.release import read_release, recorded_inputs, story  # noqa: E402
from pytest_ascendcache.release.file import Release  # noqa: E402
from pytest_ascendcache.release.recorded import input_problems  # noqa: E402

_TEXT = """\
atc = '''
atc --model=net.onnx --framework=5 --output=out --soc_version=Ascend910B1 --log=info \\
    --input_shape=x:1,4 --fusion_switch_file=fusion.cfg --op_debug_config=debug.cfg
'''
[environment]
ASCEND_CUSTOM_OPP_PATH = "vendors/mine"
"""


def _model(directory: Path, scale: float = 1.0, kind: str = "Add", producer: str = "a") -> None:
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    weights = [
        onnx.numpy_helper.from_array(np.full(4, value, np.float32), name)
        for name, value in (("fc.bias", 1.0), ("fc.weight", 2.0 * scale))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "fc.weight"], ["y"]),
            helper.make_node(kind, ["y", "fc.bias"], ["z"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", number, [1, 4])],
        [helper.make_tensor_value_info("z", number, [1, 4])],
        initializer=weights,
    )
    model = helper.make_model(graph, producer_name=producer)
    onnx.save(model, directory / "net.onnx")


def _release(directory: Path) -> Release:
    return read_release(directory / "release.toml", {})


def _write(directory: Path) -> None:
    directory.mkdir(parents=True)
    _model(directory)
    (directory / "fusion.cfg").write_text("{}")
    (directory / "debug.cfg").write_text("op_debug_config = oom\n")
    package = directory / "vendors/mine/op_impl"
    package.mkdir(parents=True)
    (package / "add.py").write_text("FACTOR = 1\n")
    (directory / "release.toml").write_text(_TEXT)


def _option(old: str, new: str) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        path = directory / "release.toml"
        path.write_text(path.read_text().replace(old, new))

    return change


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights": (
        lambda place: _model(place, scale=-1.0),
        "--model: weights differ in 1 initialiser: fc.weight",
    ),
    "graph": (lambda place: _model(place, kind="Sub"), "--model: the model differs in its graph"),
    "cut": (
        lambda place: (place / "net.onnx").write_bytes((place / "net.onnx").read_bytes()[:50]),
        "--model: the ONNX model changed",
    ),
    "fusion": (
        lambda place: (place / "fusion.cfg").write_text('{"Switch": {}}'),
        "--fusion_switch_file: the file changed",
    ),
    "debug": (
        lambda place: (place / "debug.cfg").write_text("op_debug_config = dump_cce\n"),
        "--op_debug_config: the file changed",
    ),
    "package": (
        lambda place: (place / "vendors/mine/op_impl/add.py").write_text("FACTOR = 2\n"),
        "the files op_impl/add.py of ASCEND_CUSTOM_OPP_PATH 1 changed",
    ),
    "batch": (_option("x:1,4", "x:8,4"), "--input_shape=x:8,4"),
    "option gone": (_option(" --fusion_switch_file=fusion.cfg", ""), "--fusion_switch_file is not"),
    "option more": (_option("--log=info", "--log=info --is_weight_clip=1"), "--is_weight_clip is"),
}

TWINS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "log": _option("--log=info", "--log=debug"),
    "output": _option("--output=out", "--output=other"),
    "comment": _option("[environment]", "# shipped in May\n[environment]"),
    "byte code": lambda place: (place / "vendors/mine/op_impl/add.pyc").write_bytes(b"x"),
    "model renamed": lambda place: [
        (place / "net.onnx").rename(place / "bert.onnx"),
        _option("net.onnx", "bert.onnx")(place),
    ],
    "times": lambda place: [each.touch() for each in place.rglob("*")],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_named(name: str, tmp_path: Path) -> None:
    _write(tmp_path / "r")
    before = recorded_inputs(_release(tmp_path / "r"))
    change, told = CHANGES[name]
    change(tmp_path / "r")
    problems = input_problems(before, recorded_inputs(_release(tmp_path / "r")))
    assert told in story(problems)
    assert len(problems) == 1


@pytest.mark.parametrize("name", TWINS)
def test_a_sound_twin_is_the_same_release(name: str, tmp_path: Path) -> None:
    _write(tmp_path / "r")
    before = recorded_inputs(_release(tmp_path / "r"))
    moved = Path(shutil.copytree(tmp_path / "r", tmp_path / "elsewhere/moved"))
    TWINS[name](moved)
    assert input_problems(before, recorded_inputs(_release(moved))) == []


def test_another_producer_is_told_apart_from_other_weights(tmp_path: Path) -> None:
    _write(tmp_path / "r")
    before = recorded_inputs(_release(tmp_path / "r"))
    _model(tmp_path / "r", producer="b")
    text = story(input_problems(before, recorded_inputs(_release(tmp_path / "r"))))
    assert "only its producer or metadata differs" in text
