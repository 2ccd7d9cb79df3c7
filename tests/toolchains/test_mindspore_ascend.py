"""The toolchain ``mindspore-ascend``, as far as it can be tested without a wheel.

A small stand-in for MindSpore (``tests/mindspore_ascend_standin``) has the cache and uses the
adapter's own stand-ins, compiler and runtime. The checks pass on it, and each fails with a fault.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_ascendcache.observation import Probe, probe_network
from pytest_ascendcache.operators.evaluation import evaluate_network
from pytest_ascendcache.toolchains import ToolchainError, TrainRequest
from pytest_ascendcache.toolchains.mindspore_ascend import releases
from pytest_ascendcache.toolchains.mindspore_ascend.releases import (
    Python,
    ReleaseShelf,
    check_known,
    find_python,
)
from pytest_ascendcache.toolchains.mindspore_ascend.script import write_script
from pytest_ascendcache.toolchains.mindspore_ascend.stand_ins import (
    LIBRARY,
    NATIVE,
    build,
    missing_tool,
)
from pytest_ascendcache.toolchains.mindspore_ascend.toolchain import MindSporeAscendToolchain

STANDIN = Path(__file__).parents[1] / "mindspore_ascend_standin"
FOLDER = "mindspore_ascend"
if missing_tool():
    pytest.skip(f"no stand-ins can be built: {missing_tool()}", allow_module_level=True)

_WHEEL = """
extern "C" int rtMemset(void *, unsigned long, unsigned, unsigned long);
extern "C" long aclNobodyKnows(int);
namespace ge { extern const char *NAME; class Shape { public: Shape(); }; }
extern "C" long calls() { ge::Shape shape; char a[4] = {1, 1, 1, 1}; rtMemset(a, 4, 0, 4);
  return aclNobodyKnows(1) + a[0] + (ge::NAME == nullptr); }
"""
"""A library that wants names of CANN, as the wheel's do."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked wheel with one library, which also needs a library that is nowhere."""
    directory = tmp_path_factory.mktemp("wheel")
    (directory / "absent.cc").write_text("")
    (directory / "wheel.cc").write_text(_WHEEL)
    absent, mine = directory / "libascendcl.so", directory / "lib" / "libmine.so"
    mine.parent.mkdir()
    flags = ["-shared", "-fPIC", "-Wl,--no-as-needed"]
    _run("g++", *flags, "-Wl,-soname,libascendcl.so", "-o", absent, directory / "absent.cc")
    _run("g++", *flags, "-o", mine, directory / "wheel.cc", absent)
    absent.unlink()
    return mine.parent


def _run(*command: object) -> None:
    subprocess.run([str(each) for each in command], check=True)


def _built(wheel: Path, release: str, target: Path) -> Path:
    build(wheel, release, _some_library(), target)
    return target / LIBRARY


def _some_library() -> Path:
    """A shared library that takes Python's place, which a static Python does not have."""
    (library, *_) = sorted(Path(np.__file__).parent.rglob("_multiarray_umath*.so"))
    return library


@pytest.fixture(scope="module")
def runtime(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in runtime for releases before 1.8."""
    return _built(wheel, "1.6.2", tmp_path_factory.mktemp("stand-ins"))


# --- the stand-ins --------------------------------------------------------------------------


def test_every_name_is_there_and_absent_libraries_lead_to_it(wheel: Path, runtime: Path) -> None:
    """All names are bound as the library is loaded, as the wheel's are."""
    program = f"import ctypes; print(ctypes.CDLL({str(wheel / 'libmine.so')!r}).calls())"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(runtime.parent), "LD_BIND_NOW": "1"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "0\n"
    assert (runtime.parent / "libascendcl.so").exists()


def test_a_directory_without_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="holds no library"):
        build(tmp_path, "1.6.2", _some_library(), tmp_path / "target")


_LAUNCH = """
import ctypes, json, sys
sys.path.insert(0, {native!r})
from te_fusion import kernels, tasks
lib = ctypes.CDLL({library!r})
class Binary(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("data", ctypes.c_char_p), ("length", ctypes.c_uint64)]
class Arguments(ctypes.Structure):
    _fields_ = [("arguments", ctypes.c_void_p)]
one, two = (kernels.Tensor(name, "float32", [3]) for name in ("in0", "out0"))
step = kernels.Step("Square", [one], [two], {{}})
data = tasks._built(kernels.source("square", [step], [one], [two], '{{"chip": "x"}}'))
handle, stub = ctypes.c_void_p(), ctypes.c_void_p(0x100)
binary = Binary(1, 1, data, len(data))
assert lib.rtDevBinaryRegister(ctypes.byref(binary), ctypes.byref(handle)) == 0
assert lib.rtFunctionRegister(handle, stub, b"square", None, 0) == 0
assert lib.rtFunctionRegister(handle, stub, b"cube", None, 0) != 0
source, target = (ctypes.c_float * 3)(1, 4, 9), (ctypes.c_float * 3)()
given = (ctypes.c_void_p * 2)(ctypes.addressof(source), ctypes.addressof(target))
address = ctypes.c_void_p(ctypes.addressof(given))
info = Arguments(ctypes.addressof(given))
model, stream = ctypes.c_void_p(7), ctypes.c_void_p(8)
{launch}
print(list(target))
"""
LAUNCHES = {
    ("1.6.2", "with-flag"): "lib.rtKernelLaunchWithFlag(stub, 1, address, 16, None, stream, 0)",
    ("1.6.2", "plain"): "lib.rtKernelLaunch(stub, 1, address, 16, None, stream)",
    (
        "1.7.0",
        "second",
    ): "lib.rtKernelLaunchWithFlagV2(stub, 1, ctypes.byref(info), None, stream, 0)",
    (
        "1.10.0",
        "with-flag",
    ): "lib.rtKernelLaunchWithFlag(stub, 1, ctypes.byref(info), None, stream, 0)",
    ("1.6.2", "recorded"): (
        "lib.rtModelBindStream(model, stream, 0); "
        "lib.rtKernelLaunch(stub, 1, address, 16, None, stream); assert list(target) == [0] * 3; "
        "lib.rtModelExecute(model, stream, 0)"
    ),
}


@pytest.mark.parametrize(("release", "kind"), LAUNCHES, ids=lambda each: each)
def test_each_calling_convention_runs_the_bytes_that_were_registered(
    wheel: Path, tmp_path: Path, release: str, kind: str
) -> None:
    library = _built(wheel, release, tmp_path / "stand-ins")
    launch = LAUNCHES[release, kind]
    text = _LAUNCH.format(native=str(NATIVE / "python"), library=str(library), launch=launch)
    environment = {**os.environ, "ASCENDCACHE_STANDIN_LOG": str(tmp_path / "log")}
    command = [sys.executable, "-c", text]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout == "[1.0, 16.0, 81.0]\n", ended.stderr
    (ran,) = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert ran == {"event": "run", "kernel": "square", "identity": {"chip": "x"}}


_FUSED = """
import ctypes, json, sys
sys.path.insert(0, {native!r})
from te_fusion import kernels, tasks
def tensor(name): return {{"name": name, "data_type": "float32", "shape": [4], "valid": True}}
operators = [
    {{"type": "Data", "output_desc": [tensor("x")]}},
    {{"type": "Square", "input_desc": [tensor("x")], "output_desc": [tensor("a")]}},
    {{"type": "Neg", "input_desc": [tensor("a")], "output_desc": [tensor("b")]}},
]
steps, given, results = kernels.fused(operators)
data = tasks._built(kernels.source("k", steps, given, results, "{{}}"))
open({place!r}, "wb").write(data)
x, y = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_float * 4)()
a = (ctypes.c_void_p * 2)(ctypes.addressof(x), ctypes.addressof(y))
ctypes.CDLL({place!r}).k(a)
print(list(y))
"""


def test_a_fused_operator_computes_all_its_steps(tmp_path: Path) -> None:
    text = _FUSED.format(native=str(NATIVE / "python"), place=str(tmp_path / "k.so"))
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert ended.stdout == "[-1.0, -4.0, -9.0, -16.0]\n"


# --- scripts --------------------------------------------------------------------------------


def test_a_script_reads_its_data_and_names_no_tensor(tmp_path: Path) -> None:
    texts = set()
    for number, name in enumerate(("one", "other")):
        network = probe_network(Probe("Square", name=name), name=name)
        request = TrainRequest(network, tmp_path / str(number), tmp_path)
        request.directory.mkdir()
        settings = json.loads(write_script(request, leaves=True).read_text())
        assert np.load(settings["data"])[settings["inputs"][0]].shape == (1, 2, 4, 4)
        texts.add((request.directory / "network.py").read_text())
    (text,) = texts
    compile(text, "network.py", "exec")
    assert "ops.Square()" in text


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        (Probe("Conv2D"), r"Conv2D is not known; use Abs, .*Tanh"),
        (Probe("Square", format="NHWC"), "a script cannot ask for format NHWC"),
    ],
)
def test_what_a_script_cannot_say_is_refused(tmp_path: Path, probe: Probe, reason: str) -> None:
    with pytest.raises(ToolchainError, match=reason):
        write_script(TrainRequest(probe_network(probe), tmp_path, tmp_path), leaves=True)


# --- setting up -----------------------------------------------------------------------------


def test_a_release_that_is_not_known_is_named() -> None:
    check_known(releases.RELEASES)
    with pytest.raises(ToolchainError, match=r"the release 1\.6\.3 is not one .*1\.6\.2"):
        check_known(["1.6.3"])


def test_without_python_3_9_it_says_what_to_do() -> None:
    with pytest.raises(ToolchainError, match=r"MINDSPORE_PYTHON=/no/python is no CPython 3\.9"):
        find_python({"MINDSPORE_PYTHON": "/no/python"})
    with pytest.raises(ToolchainError, match="is no CPython 3"):
        find_python({"MINDSPORE_PYTHON": sys.executable})


def test_a_plan_says_what_is_fetched_and_kept(tmp_path: Path) -> None:
    shelf = ReleaseShelf(tmp_path / "shelf", print)
    plan = shelf.plan(["1.6.2", "1.9.0"])
    assert "fetching 382 MB and keeping 1245 MB" in plan
    assert "MB are free" in plan
    (shelf.root / "1.6.2" / "wheel").mkdir(parents=True)
    assert "fetching 240 MB" in shelf.plan(["1.6.2", "1.9.0"])


def test_a_full_disk_is_told_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 10**8

    monkeypatch.setattr(releases.shutil, "disk_usage", lambda _: Full)  # type: ignore[attr-defined]
    with pytest.raises(ToolchainError, match=r"has 100 MB free and 1104 MB are needed"):
        ReleaseShelf(tmp_path, print).plan(["1.6.2"])


def _shelf(tmp_path: Path, pip: str) -> tuple[ReleaseShelf, Python]:
    """A shelf whose environment has this program as its Python."""
    shelf = ReleaseShelf(tmp_path / "shelf", lambda _: None)
    python = shelf.root / "python39" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{pip}\n")
    python.chmod(0o755)
    (shelf.root / "python39" / "installed").touch()
    return shelf, Python(str(python), _some_library())


_PLACE = 'while [ "$1" != --dest ]; do shift; done; mkdir -p "$2"; '


@pytest.mark.parametrize(
    ("pip", "reason"),
    [
        ("exit 1", r"could not download mindspore-ascend==1\.6\.2 \(see above\)"),
        (f'{_PLACE}echo cut > "$2/m.whl"', r"did not arrive whole; run the command again"),
    ],
)
def test_a_broken_download_is_told_and_leaves_no_release(
    tmp_path: Path, pip: str, reason: str
) -> None:
    shelf, python = _shelf(tmp_path, pip)
    with pytest.raises(ToolchainError, match=reason):
        shelf.set_up("1.6.2", python)
    assert not (shelf.root / "1.6.2" / "wheel").exists()
    assert shelf.lacks("1.6.2")


def test_a_release_is_set_up_once(tmp_path: Path, wheel: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.whl", "w") as archive:
        archive.write(wheel / "libmine.so", "mindspore/lib/libmine.so")
    shelf, python = _shelf(tmp_path, f'{_PLACE}cp {tmp_path}/m.whl "$2"')
    command = shelf.set_up("1.6.2", python)
    assert not shelf.lacks("1.6.2")
    text = command.read_text()
    assert f"PYTHONPATH={NATIVE / 'python'}" in text
    assert (shelf.root / "1.6.2" / "stand-ins" / LIBRARY).exists()
    assert not list((shelf.root / "1.6.2").rglob("*.whl"))


def test_without_a_release_nothing_applies_and_the_command_is_said(tmp_path: Path) -> None:
    toolchain = MindSporeAscendToolchain(tmp_path / "python", 30)
    assert "ci/verify-mindspore-ascend sets up everything" in toolchain.unusable
    assert toolchain.capabilities == frozenset()


# --- the suite on the stand-in --------------------------------------------------------------


@pytest.fixture
def python(tmp_path: Path, runtime: Path) -> Path:
    """A Python in which the stand-in is installed as a release."""
    return standin(tmp_path / "release", runtime)


def standin(directory: Path, runtime: Path, version: str = "1.6.2") -> Path:
    info = directory / f"site/mindspore_ascend-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: mindspore-ascend\nVersion: {version}\n")
    (directory / "shelf").mkdir()
    python = directory / "python"
    path = ":".join(map(str, (NATIVE / "python", STANDIN, directory / "site")))
    python.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={path} STANDIN_RUNTIME={runtime}\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return python


def judged(pytester: pytest.Pytester, python: Path, *arguments: str) -> dict[str, str]:
    """The verdicts of the suite by check."""
    pytester.runpytest_subprocess(
        "--ascend-cache",
        "--ascend-select=whole",
        f"--ascend-toolchain=mindspore-ascend:{python}",
        "--ascend-report=report.json",
        *("-p", "no:cacheprovider"),
        *arguments,
    )
    report = json.loads((pytester.path / "report.json").read_text())
    return {each["check"].rpartition("::")[2]: each["verdict"] for each in report["checks"]}


SAMPLE = (
    "made_for or another_release or (each_damage and (cut or missing)) or with_a_slash or info_says"
    " or graph or documents_network or story0 or level_keeps or second_run_compiles"
).replace("_a_slash", "-a-slash")


def test_a_good_cache_passes(pytester: pytest.Pytester, python: Path) -> None:
    verdicts = judged(pytester, python, "-k", SAMPLE)
    assert set(verdicts.values()) <= {"pass", "not applicable"}, verdicts
    assert sum(each == "pass" for each in verdicts.values()) >= 18


FAULTS = {
    "narrow-key": ("made_for and chip", "fail"),
    "trusts-info": ("without_a_readable_info and not cap", "fail"),
    "says-nothing": ("info_says", "fail"),
    "dies-of-damage": ("metadata-cut-in-half and each", "fail"),
    "swallows-slashes": ("of-many-levels", "fail"),
    "levels-apart": ("level_keeps", "fail"),
    "wrong-numbers": ("every_operator and graph", "fail"),
    "forked-apart": ("process_of_its_own_finds and graph", "fail"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(
    pytester: pytest.Pytester, python: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    chosen, verdict = FAULTS[fault]
    monkeypatch.setenv("STANDIN_FAULT", fault)
    verdicts = judged(pytester, python, "-k", chosen)
    assert verdict in verdicts.values(), verdicts


def test_an_empty_cache_path_is_no_root(tmp_path: Path, python: Path) -> None:
    """The suite says "without a path" with an empty one, which MindSpore takes for the root."""
    toolchain = MindSporeAscendToolchain(python, 60)
    network = probe_network("Square")
    environment = {"MS_COMPILER_CACHE_PATH": "", "RANK_ID": ""}
    request = TrainRequest(network, tmp_path / "run", tmp_path / "work", environment)
    assert "MS_COMPILER_CACHE_PATH" not in toolchain.environment(request)
    try:
        result = toolchain.start_rank(request).wait()
    finally:
        toolchain.close()
    assert result.outputs is not None, result.output
    exact: Any = evaluate_network(network)
    name = network.outputs[0]
    assert np.allclose(result.outputs[name], exact[name])
    assert [each.kernel for each in toolchain.ran(request)]
    assert len(toolchain.compiles_of(request)) == 1
