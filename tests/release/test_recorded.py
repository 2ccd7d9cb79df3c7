"""Inputs of a release × one change each: every change is named, and no sound twin is accused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from pytest_ascendcache.release.file import (  # noqa: E402
    Release,
    ReleaseFileError,
    read_release,
)
from pytest_ascendcache.release.manifest import options_digest  # noqa: E402
from pytest_ascendcache.release.problem import story  # noqa: E402
from pytest_ascendcache.release.recorded import input_problems, recorded_inputs  # noqa: E402

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


def test_every_file_that_is_not_what_its_option_takes_is_refused_at_once(tmp_path: Path) -> None:
    place = tmp_path / "r"
    _write(place)
    (place / "fusion.cfg").write_text('{"Switch": ')
    (place / "debug.cfg").write_text("op_debug_config = oom\nwhat\n")
    with pytest.raises(ReleaseFileError) as refused:
        _release(place)
    told = str(refused.value)
    assert all(each in told for each in ("is not JSON", "line 2 is 'what'"))


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


# ---- drawn releases: any inputs, one change of any of them


def _flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


_FILES = {
    "--fusion_switch_file=fusion.cfg": "fusion.cfg",
    "--op_debug_config=debug.cfg": "debug.cfg",
    "--insert_op_conf=aipp.cfg": "aipp.cfg",
    "--op_precision_mode=modes.ini": "modes.ini",
    "--op_bank_path=bank": "bank/tune.json",
    "--mdl_bank_path=graphs": "graphs/tune.json",
    "--keep_dtype=kept.cfg": "kept.cfg",
}
_OPTIONS = {
    "--input_format": ("ND", "NCHW"),
    "--precision_mode": ("force_fp16", "allow_fp32_to_fp16"),
    "--op_select_implmode": ("high_precision", "high_performance"),
    "--buffer_optimize": ("l2_optimize", "off_optimize"),
    "--deterministic": ("0", "1"),
}


def _drawn(place: Path, dice: random.Random) -> list[Path]:
    """Write a release of a few inputs; returns the files whose content decides the kernels."""
    place.mkdir(parents=True)
    framework = dice.choice(("5", "1", "3"))
    words = [f"atc --model=net.onnx --framework={framework} --output=out --log=info"]
    words.append(f"--soc_version=Ascend{dice.choice(('910B1', '310P3'))}")
    files = [place / "net.onnx"]
    if framework == "5":
        _model(place)
        if dice.random() < 0.5:
            model = onnx.load(place / "net.onnx")
            onnx.save(
                *(model, place / "net.onnx"),
                save_as_external_data=True,
                size_threshold=0,
                location="net.data",
            )
            files.append(place / "net.data")
    else:
        name = dice.randbytes(20).hex().encode()
        files[0].write_bytes(bytes((0x0A, len(name))) + name)
    for word, name in dice.sample(sorted(_FILES.items()), dice.randint(0, 4)):
        (place / name).parent.mkdir(exist_ok=True)
        texts = {"modes.ini": "Exp=high_precision\n", "debug.cfg": "op_debug_config = oom\n"}
        (place / name).write_text(texts.get(name, "aipp_op {}" if name == "aipp.cfg" else "{}"))
        words.append(word)
        files.append(place / name)
    for option in dice.sample(sorted(_OPTIONS), dice.randint(0, 3)):
        words.append(f"{option}={dice.choice(_OPTIONS[option])}")
    text = f"atc = '''\n{' '.join(words)}\n'''\n"
    if dice.random() < 0.5:
        package = place / "vendors/mine/op_impl/add.py"
        package.parent.mkdir(parents=True)
        package.write_text("FACTOR = 1\n")
        text += '[environment]\nASCEND_CUSTOM_OPP_PATH = "vendors/mine"\n'
        files.append(package)
    (place / "release.toml").write_text(text)
    return files


def _identity(place: Path) -> tuple[object, ...]:
    release = _release(place)
    return release.soc, recorded_inputs(release), options_digest(release)


def _change(place: Path, files: list[Path], dice: random.Random) -> str:
    """Change one thing that decides the kernels; returns which."""
    path = place / "release.toml"
    text, options = path.read_text(), [each for each in _OPTIONS if each in path.read_text()]
    kind = dice.choice(("file", "file", "option", "chip"))
    if kind == "option" and options:
        option = dice.choice(options)
        one, two = _OPTIONS[option]
        now = one if f"{option}={one}" in text else two
        path.write_text(text.replace(f"{option}={now}", f"{option}={two if now == one else one}"))
        return option
    if kind == "chip":
        path.write_text(text.replace("910B1", "X").replace("310P3", "910B1").replace("X", "310P3"))
        return kind
    file = dice.choice(files)
    if file.name == "modes.ini":
        file.write_text("Exp=high_performance\n")
    else:
        _flip(file, dice)
    return file.name


def _sound(place: Path, dice: random.Random) -> None:
    """Change things that decide no kernel."""
    path = place / "release.toml"
    for old, new in dice.sample((("--log=info", "--log=error"), ("--output=out", "--output=o")), 1):
        path.write_text(path.read_text().replace(old, new))
    path.write_text("# by hand\n" + path.read_text())
    if (place / "modes.ini").exists():
        (place / "modes.ini").write_text("# modes\nExp=high_precision\n")
    (place / "notes.txt").write_text("kept by hand\n")


def _wrong(directory: Path, seeds: range) -> list[str]:
    wrong = []
    for seed in seeds:
        dice, place = random.Random(seed), directory / str(seed)
        files = _drawn(place, dice)
        before = _identity(place)
        twin = Path(shutil.copytree(place, directory / f"twin{seed}"))
        _sound(twin, dice)
        if _identity(twin) != before:
            wrong.append(f"{seed}: a sound twin differs")
        what = _change(place, files, dice)
        try:
            after = _identity(place)
        except (OSError, ReleaseFileError):
            continue  # refused, which is no pass
        if after == before:
            wrong.append(f"{seed}: {what} changed, and nothing is told")
    return wrong


def test_a_change_of_a_drawn_release_is_told_and_its_sound_twin_is_not(tmp_path: Path) -> None:
    assert _wrong(tmp_path, range(60)) == []


@pytest.mark.nightly
def test_changes_of_many_drawn_releases_are_told(tmp_path: Path) -> None:
    assert _wrong(tmp_path, range(1000, 3000)) == []
