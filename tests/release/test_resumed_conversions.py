"""A run reuses conversions that an interrupted run finished if they are complete and valid."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import helper, numpy_helper

from pytest_ascendcache.conformance.kit.conversion_shelf import (
    Conversion,
    ConversionPlace,
    ConversionShelf,
)
from pytest_ascendcache.observation.model_file import ModelKernel, ModelParts
from pytest_ascendcache.release.file import read_release
from pytest_ascendcache.release.inputs import package_stamps, read_digests
from pytest_ascendcache.toolchains import ConvertRequest, ConvertResult

EXAMPLE = Path(__file__).parents[2] / "fixtures/release"
KEY = {"options": {"model": "model.onnx"}}

# The script records each conversion as it begins. The third one uses the filled cache. It leaves
# half a model and a damaged cache, and ends the run.
_INTERRUPTED = """
import os, pathlib, signal
from pytest_ascendcache.toolchains.atc import AtcToolchain

right = AtcToolchain.convert_together

def convert(self, requests):
    begun = pathlib.Path("begun.txt")
    with begun.open("a") as file:
        file.writelines(f"{each.output.parent.parent.name}\\n" for each in requests)
    if len(begun.read_text().split()) == 3:
        requests[0].output.parent.mkdir(parents=True)
        requests[0].output.with_suffix(".om").write_bytes(b"half of one")
        for path in requests[0].cache_dir.rglob("*.o"):
            path.write_bytes(path.read_bytes()[:100])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.%s)
        signal.pause()
    return right(self, requests)

AtcToolchain.convert_together = convert
"""


@pytest.mark.parametrize("name", ["SIGKILL", pytest.param("SIGINT", marks=pytest.mark.nightly)])
def test_a_gate_that_was_interrupted_goes_on(pytester: pytest.Pytester, name: str) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    for path in EXAMPLE.iterdir():
        shutil.copy(path, pytester.path)
    release = pytester.path / "release.toml"
    release.write_text(re.sub("(caches|cards|manifest) = .*", "", release.read_text()))
    pytester.makeconftest(_INTERRUPTED % name)
    words = (
        *("--ascend-release=release.toml", "--ascend-resume=run.jsonl", "--ascend-language=en"),
        *("--ascend-rule=release/model-cached-is-fresh", "-k", "new_cache"),
    )
    first = pytester.runpytest_subprocess(*words)
    assert first.ret == {"SIGKILL": -signal.SIGKILL, "SIGINT": pytest.ExitCode.INTERRUPTED}[name]
    kept = pytester.path / "run.jsonl.conversions"
    assert kept.is_dir()
    second = pytester.runpytest_subprocess(*words)
    assert second.ret == 0
    begun = (pytester.path / "begun.txt").read_text().split()
    assert begun == ["fresh", "cold", "plain", "plain", "warm", "force"]
    second.stdout.fnmatch_lines(
        [
            "bert-small: 2 conversions that an interrupted run finished in * s are in "
            "*/run.jsonl.conversions; those that still hold are not made again",
            "*bert-small, new cache: 19 of 19 kernels served",
            "*bert-small: 5 conversions, * s the longest",
            "*bert-small: 2 of them are an interrupted run's, which took * s for them",
        ]
    )
    # The run is complete, so a later run converts again.
    assert not kept.exists()


def test_conversions_are_kept_where_atc_can_work(pytester: pytest.Pytester) -> None:
    for path in EXAMPLE.iterdir():
        shutil.copy(path, pytester.path)
    (pytester.path / "release.toml").write_text(
        re.sub("caches = .*", "", (EXAMPLE / "release.toml").read_text())
    )
    (pytester.path / "taken.jsonl.conversions").touch()
    for journal, message in (
        ("my run.jsonl", "* conversions are kept in *, which contains ' ', and ATC does not *"),
        ("taken.jsonl", "*taken.jsonl.conversions, which is not a directory; name another file."),
    ):
        result = pytester.runpytest_subprocess(
            "--ascend-release=release.toml", f"--ascend-resume={journal}"
        )
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])


@pytest.fixture
def shelf(tmp_path: Path) -> ConversionShelf:
    return ConversionShelf(tmp_path / "shelf", "run 1", outlives=True)


def _later(shelf: ConversionShelf) -> ConversionShelf:
    """Return the shelf as a later run of pytest sees it."""
    return ConversionShelf(shelf.directory, "run 2", outlives=True)


def _request(place: ConversionPlace) -> ConvertRequest:
    own = place.directory / "cold"
    return ConvertRequest({}, "enable", place.cache, own / "out/model", own / "work", own / "home")


def _converted(place: ConversionPlace, text: bytes = b"a model") -> Conversion:
    """Make a successful conversion, with a model and a cache."""
    request = _request(place)
    model = request.output.with_suffix(".om")
    model.parent.mkdir(parents=True)
    model.write_bytes(text)
    place.cache.mkdir()
    (place.cache / "te_add.o").write_text("as the first one left it")
    result = ConvertResult(request, ("atc",), 0, 60.0, "success", {}, model, 2.5)
    parts = ModelParts((ModelKernel("te_add", "0" * 64, 7, "te_add"),), "1" * 64, len(text))
    return Conversion(result, parts, "run 1")


def _keep(shelf: ConversionShelf) -> Path:
    """Keep a conversion on a shelf; returns its directory."""
    with shelf.place("new-cache", KEY) as place:
        place.begin()
        place.keep("cold", [_converted(place)], others_follow=True)
        return place.directory


def test_a_finished_conversion_is_found_by_a_later_run(shelf: ConversionShelf) -> None:
    _keep(shelf)
    later = _later(shelf)
    assert later.earlier() == (1, 2.5)
    assert shelf.earlier() == (0, 0.0)
    with later.place("new-cache", KEY) as place:
        (found,) = place.found("cold", [_request(place)]) or []
        assert found == replace(_expected(place), run="run 1")
        assert place.found("warm", [_request(place)]) is None
        (place.cache / "te_add.o").write_text("an interrupted conversion was here")
        assert place.resume("warm")
        assert (place.cache / "te_add.o").read_text() == "as the first one left it"


def _expected(place: ConversionPlace) -> Conversion:
    request = _request(place)
    model = request.output.with_suffix(".om")
    result = ConvertResult(request, ("atc",), 0, 60.0, "success", {}, model, 2.5)
    parts = ModelParts((ModelKernel("te_add", "0" * 64, 7, "te_add"),), "1" * 64, 7)
    return Conversion(result, parts, "run 1")


def _record(place: Path) -> Path:
    return place / "conversion-cold.json"


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda place: _record(place).unlink(), id="without its record"),
        pytest.param(
            lambda place: _record(place).write_bytes(_record(place).read_bytes()[:-9]),
            id="with half a record",
        ),
        pytest.param(lambda place: _record(place).write_text("[1]"), id="with another file"),
        pytest.param(
            lambda place: _record(place).write_text(
                json.dumps({**json.loads(_record(place).read_text()), "conversions": []})
            ),
            id="with a conversion too few",
        ),
        pytest.param(
            lambda place: (place / "cold/out/model.om").write_bytes(b"a modem"),
            id="whose model is another of its size",
        ),
        pytest.param(lambda place: (place / "cold/out/model.om").unlink(), id="without its model"),
    ],
)
def test_a_conversion_that_is_not_whole_is_made_again(
    shelf: ConversionShelf, spoil: Callable[[Path], object]
) -> None:
    spoil(_keep(shelf))
    with _later(shelf).place("new-cache", KEY) as place:
        assert place.found("cold", [_request(place)]) is None


def test_a_conversion_that_failed_is_not_kept(shelf: ConversionShelf) -> None:
    with shelf.place("new-cache", KEY) as place:
        place.begin()
        failed = replace(_converted(place), parts=None)
        place.keep("cold", [failed], others_follow=True)
        assert place.found("cold", [_request(place)]) == [failed]  # in this run
    with _later(shelf).place("new-cache", KEY) as place:
        assert place.found("cold", [_request(place)]) is None
        assert not place.resume("warm")


def test_another_key_is_another_place(shelf: ConversionShelf) -> None:
    _keep(shelf)
    with _later(shelf).place("new-cache", {**KEY, "code": "changed"}) as place:
        assert place.found("cold", [_request(place)]) is None


def test_a_place_is_one_processes_alone(shelf: ConversionShelf) -> None:
    code = """
import fcntl, pathlib, sys
(lock,) = pathlib.Path(sys.argv[1]).glob("*.lock")
with lock.open() as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""
    command = [sys.executable, "-c", code, str(shelf.directory)]
    with shelf.place("new-cache", KEY):
        held = subprocess.run(command, capture_output=True, text=True)
    assert "BlockingIOError" in held.stderr
    assert subprocess.run(command).returncode == 0


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release with a model that has external data, a precision file, a bank and a package."""
    for each in ("bank", "custom"):
        (tmp_path / each).mkdir()
        (tmp_path / each / "file").write_text("first")
    (tmp_path / "custom/file.pyc").touch()
    weight = numpy_helper.from_array(numpy.ones(1000, numpy.float32), "w")
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1000])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1000])
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = helper.make_model(helper.make_graph([node], "one", [x], [y], [weight]))
    name = "a" * 150 + ".bin"
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location=name)
    (tmp_path / "model.ini").write_text("Exp=high_precision\n")
    (tmp_path / "release.toml").write_text(
        'atc = "atc --model=model.onnx --framework=5 --soc_version=Ascend910B1 '
        '--op_precision_mode=model.ini --op_bank_path=bank"\n'
        '[environment]\nASCEND_CUSTOM_OPP_PATH = "custom"\n'
    )
    return tmp_path / "release.toml"


def _known(path: Path) -> dict[str, str]:
    release = read_release(path, {})
    return {**read_digests(release), **package_stamps(release)}


def test_all_that_a_command_reads_is_known(release: Path) -> None:
    digests = _known(release)
    names = {str(Path(each).relative_to(release.parent)) for each in digests}
    data = f"{'a' * 150}.bin"
    assert names == {"model.onnx", data, "model.ini", "bank/file", "custom/file"}
    for name in sorted(names):
        path = release.parent / name
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"#")
        changed = _known(release)
        assert {key for key in digests if digests[key] != changed[key]} == {str(path)}
        digests = changed
