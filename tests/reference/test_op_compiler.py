"""The command ascendcache-op-compiler: its packages, errors and exit status."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.reference.kernels.execute import LoadedKernel
from pytest_ascendcache.reference.policies import Policies, StaticKernelPolicies
from pytest_ascendcache.reference.static_kernel import op_compiler
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy

COMMAND = [sys.executable, "-m", "pytest_ascendcache.reference.static_kernel.op_compiler"]
FAULTY = [sys.executable, "-m", "pytest_ascendcache.reference.faulty", "op-compiler"]


def relu(*shape, kind="Relu", impl_mode=""):
    tensor = TensorDesc.of("float32", *shape)
    return OperatorInfo.of(OperatorSpec(kind, (tensor,), (tensor,)), impl_mode)


@pytest.fixture
def dump(tmp_path):
    """A directory with operator information of two shapes."""
    directory = tmp_path / "dump"
    directory.mkdir()
    for number, info in enumerate((relu(4), relu(8))):
        write_opinfo(directory / info.file_name(number), info)
    return directory


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def run(*arguments, cwd=None, **environment):
    """Run the command as a user does."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env={**os.environ, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def compile_here(dump, out, *arguments, policies=None, jobs=1):
    """Run the command in this process. Returns the one package it has made."""
    argv = ["-p", str(dump), "-v", "Ascend910B1", "-o", str(out), "-j", str(jobs), *arguments]
    assert op_compiler.run(argv, {}, policies) == 0
    return max(out.glob("*.run"), key=lambda path: path.stat().st_mtime_ns)


def manifest(package):
    return json.loads(zipfile.ZipFile(package).read("package.json"))


def kernels(package):
    """Objects and metadata by path, without the package's other files."""
    archive = zipfile.ZipFile(package)
    paths = [each for each in manifest(package)["files"] if each.endswith(".o")]
    return {
        path: (
            archive.read(f"payload/{path}"),
            json.loads(archive.read(f"payload/{path[:-2]}.json")),
        )
        for path in paths
    }


def test_every_shape_has_a_pair_of_kernels_that_work(dump, out):
    ended = run("-p", dump, "-v", "ASCEND910b1", "-j", "2", "-o", out)
    assert (ended.returncode, ended.stderr) == (0, "")
    (package,) = out.iterdir()
    assert f"generate run package {package.name} success" in ended.stdout
    entries = kernels(package)
    assert sorted(entries) == [
        f"ascend910b/Relu/Relu_float_ND_{stem}_d{deterministic}.o"
        for stem in ("4_0", "8_1")
        for deterministic in (0, 1)
    ]
    for path, (data, metadata) in entries.items():
        extent = int(path.split("_")[3])
        assert metadata["sha256"] == hashlib.sha256(data).hexdigest()
        assert metadata["deterministic"] == ("true" if path.endswith("_d1.o") else "false")
        values = np.linspace(-1, 1, extent, dtype=np.float32)
        kernel = LoadedKernel(data, metadata["kernelName"])
        (result,) = kernel.run([values], [TensorDesc.of("float32", extent)])
        np.testing.assert_array_equal(result, np.maximum(values, 0))


def test_the_index_has_the_documents_fields(dump, out):
    index = manifest(compile_here(dump, out, "--output", str(out / "pk")))["index"]
    assert list(index) == ["Relu"]
    assert index["Relu"]["simplifiedKeyMode"] == 0
    first = index["Relu"]["staticList"][0]
    assert first["simplifiedKey"] == "Relu/d=0,p=0/0,2,(4)/0,2,(4)/"
    assert first["binPath"] == "pk/ascend910b/Relu/Relu_float_ND_4_0_d0.o"
    assert first["coreType"] == 1
    assert sorted(first["binDesc"]) == ["blockDim", "kernelName", "workspace"]
    keys = [each["simplifiedKey"] for each in index["Relu"]["staticList"]]
    assert len(set(keys)) == len(keys) == 4


def test_equal_requests_give_equal_kernels(dump, out):
    one = compile_here(dump, out, "-o", str(out / "one"), jobs=1)
    two = compile_here(dump, out, "-o", str(out / "two"), jobs=2)
    assert kernels(one) == kernels(two)
    (out / "one.run").unlink()
    again = compile_here(dump, out, "-o", str(out / "one"))
    (out / "again").mkdir()
    shutil.copy(again, out / "again/one.run")
    assert manifest(one) == manifest(out / "again/one.run")


def test_an_operator_that_is_only_tuned_gets_no_kernel(dump, out):
    path = dump / "Relu_float_ND_4_0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tune_mode": "tune"}))
    assert len(kernels(compile_here(dump, out))) == 2


def test_files_are_counted_as_they_are_compiled(dump):
    (dump / "below").mkdir()
    write_opinfo(dump / "below/Relu_float_ND_4_0.json", relu(4))
    ended = run("--count", "-p", dump)
    assert (ended.returncode, ended.stdout) == (0, "json file number: 3\n")


def test_short_and_long_options_are_the_same(dump, out):
    long = ["--op_params_dir", dump, "--soc_version=Ascend910B1", "--job", "1", "--log", "NULL"]
    long += [
        "--output",
        out,
        "--enable_super_kernel",
        "--super_kernel_options",
        "a=b",
        "-f",
        "true",
    ]
    assert run(*long).returncode == 0
    assert run("--op_p", dump, "--soc", "Ascend910B1", "--out", out, "-m", "opc").returncode == 0
    assert len(list(out.glob("static_kernel_*.run"))) == 2


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_option(option):
    ended = run(option)
    assert ended.returncode == 0
    for each in ("-p", "-v", "-j", "-o", "-l", "-f", "--count", "--enable_super_kernel"):
        assert f" {each}" in ended.stdout


def test_output_names_a_directory_or_a_package(dump, tmp_path):
    def made(output, *arguments):
        ended = run("-p", dump, "-v", "Ascend910B1", "-j", "1", *arguments, cwd=tmp_path / output)
        assert ended.returncode == 0, ended.stderr
        return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.run"))

    (tmp_path / "a").mkdir()
    assert made("a", "-o", "package") == ["a/package.run"]
    assert made("a", "-o", "../other.run") == ["a/package.run", "other.run"]
    assert len(made("a")) == 3
    assert len(list((tmp_path / "a").glob("static_kernel_*.run"))) == 1


# Refused command lines.


def refused(ended, *words):
    """Check that a run made nothing and printed the reason in one sentence."""
    assert ended.returncode == 1
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert lines[-1] == "static compiler fail"
    assert len(lines) == 2, ended.stderr
    assert lines[0].startswith("[ERROR] ")
    for each in words:
        assert each in lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["There are no options"]),
        (["-Z"], ["Option -Z not recognized"]),
        (["--unknown"], ["--unknown not recognized"]),
        (["--op"], ["--op not a unique prefix"]),
        (["-p"], ["-p requires argument"]),
        (["-p", "{dump}"], ["Option -v is missing"]),
        (["-p", "{dump}", "-v", "Ascend999"], ["[Ascend999] is not a known chip", "Ascend910B1"]),
        (["-v", "Ascend910B1"], ["Option -p is missing"]),
        (["--count"], ["Option -p is missing"]),
        (["-p", "{out}/none", "-v", "Ascend910B1"], ["none] is not a directory"]),
        (["-p", "{out}", "-v", "Ascend910B1"], ["holds no *.json"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-j", "x"], ["-j [x] is not a number"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-l", "loud"], ["-l [loud] is not known", "debug"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-m", "abc"], ["-m [abc] is not known"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-m", "tune"], ["-m [tune] is not known"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-f", "1"], ["-f [1] is not known; write one of"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-k", "k"], ["-k [k] asks for a debug kernel"]),
        (["-d", "f"], ["-d [f] asks for debug kernels"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-o", "{out}/no/"], ["there is no directory"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-o", "{out}/no/pk"], ["there is no directory"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-o", ""], ["-o is empty"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-o", "{file}"], ["exists already"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "-o", "{out}/a b"], ["[a b] cannot name"]),
        (["-p", "{dump}", "-v", "Ascend910B1", "extra"], ["Argument [extra]"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_command_lines_are_refused_in_one_sentence(dump, out, tmp_path, arguments, words):
    (tmp_path / "file").write_text("")
    names = {"dump": dump, "out": out, "file": tmp_path / "file"}
    before = Snapshot.take(tmp_path)
    ended = run(*(each.format(**names) for each in arguments), cwd=tmp_path)
    refused(ended, *words)
    assert before.changes(Snapshot.take(tmp_path)) == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"op_type": None}, "'op_type' is missing"),
        ({"attrs": None}, "'attrs' is missing"),
        ({"inputs": "null"}, ".inputs: "),
        ({"op_type": "NoSuchOperator"}, "NoSuchOperator"),
        ({"bin_filename": "../evil"}, None),
    ],
)
def test_an_operator_that_cannot_be_compiled_is_named(dump, out, change, words):
    path = dump / "Relu_float_ND_4_0.json"
    document = {**json.loads(path.read_text()), **change}
    path.write_text(
        json.dumps({key: value for key, value in document.items() if value is not None})
    )
    before = Snapshot.take(out)
    ended = run("-p", dump, "-v", "Ascend910B1", "-j", "1", "-o", out)
    if words is None:
        (package,) = out.iterdir()
        assert ended.returncode == 0
        assert all(each.startswith("ascend910b/Relu/") for each in kernels(package))
        assert not any(".." in Path(each).parts for each in kernels(package))
        return
    assert ended.returncode == 1
    assert words in ended.stderr
    assert str(path) in ended.stderr
    assert "success" not in ended.stdout
    assert before.changes(Snapshot.take(out)) == {}
    write_opinfo(path, relu(4))
    assert run("-p", dump, "-v", "Ascend910B1", "-j", "1", "-o", out).returncode == 0


def test_every_file_that_is_wrong_is_named(dump, out):
    (dump / "a.json").write_text("{")
    (dump / "b.json").write_text("[]")
    ended = run("-p", dump, "-v", "Ascend910B1", "-o", out)
    assert ended.returncode == 1
    assert [line.split(":")[0] for line in ended.stderr.splitlines()] == [
        f"[ERROR] File [{dump}/a.json] is not JSON",
        f"[ERROR] {dump}/b.json",
        "static compiler fail",
    ]


def test_what_can_be_compiled_is_packed_if_asked_for(dump, out):
    """One file is damaged, and one operator cannot be compiled."""
    bad = dump / relu(8).file_name(1)
    bad.write_text(bad.read_text().replace("Relu", "NoSuchOperator"))
    (dump / "broken.json").write_text("{")
    arguments = ["-p", dump, "-v", "Ascend910B1", "-o", f"{out}/", "-j", "1"]
    assert run(*arguments).returncode == 1
    assert list(out.iterdir()) == []
    ended = run(*arguments, "--keep-going")
    assert ended.returncode == 3
    assert "left out: " in ended.stderr
    assert "NoSuchOperator" in ended.stderr
    assert "broken.json" in ended.stderr
    assert "static compiler success" not in ended.stdout
    (package,) = out.glob("*.run")
    assert set(manifest(package)["index"]) == {"Relu"}


def test_a_view_has_the_kernel_of_a_whole_tensor(dump, out):
    for path in dump.iterdir():
        document = json.loads(path.read_text())
        document["inputs"][0].update(is_view=True, stride=[2], offset=1)
        path.write_text(json.dumps(document))
    ended = run("-p", dump, "-v", "Ascend910B1", "-o", f"{out}/", "-j", "1")
    assert ended.returncode == 0
    assert ended.stderr.count("has a view") == 2
    (package,) = out.glob("*.run")
    keys = {each["simplifiedKey"] for each in manifest(package)["index"]["Relu"]["staticList"]}
    assert "Relu/d=0,p=0/0,2,(4)/0,2,(4)/" in keys


def test_nothing_to_compile_is_an_error(dump, out):
    for path in dump.iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "tune_mode": "tune"}))
    refused(run("-p", dump, "-v", "Ascend910B1", "-o", out), "None of the 2 files", "tune_mode")


def test_a_directory_that_cannot_be_written_is_told_before_anything_is_compiled(dump):
    write_opinfo(dump / "bad.json", relu(4, kind="NoSuchOperator"))
    ended = run("-p", dump, "-v", "Ascend910B1", "-o", "/proc")  # root cannot write there either
    refused(ended, "No package is made: ", "[/proc/.static_kernel_")


# Package names.


class Stuck(PackagePolicy):
    """A clock that shows the same microsecond for several packages."""

    def __init__(self):
        self.asked = 0

    def name(self, now, process):  # noqa: ARG002 - replaces the time
        self.asked += 1
        return super().name(datetime(2026, 1, 2, 3, 4, 5, self.asked // 4), process)


def test_packages_of_one_microsecond_have_different_names(dump, out):
    for _ in range(6):
        policies = Policies(static_kernel=StaticKernelPolicies(packages=Stuck()))
        compile_here(dump, out, policies=policies)
    names = {path.name for path in out.iterdir()}
    assert len(names) == 6
    assert {name.split("_")[2][:12] for name in names} == {"260102030405"}


# Interruption.


def planned(dump, out, tmp_path, **plan):
    log = tmp_path / "log"
    command = [*FAULTY, json.dumps({"log": str(log), **plan})]
    return [*command, "-p", str(dump), "-v", "Ascend910B1", "-j", "1", "-o", str(out)]


@pytest.mark.parametrize(
    ("point", "do"),
    [("package.write", "tear"), ("package.rename", "kill"), ("package.sync", "kill")],
)
def test_the_next_run_removes_what_a_killed_one_left(dump, out, tmp_path, point, do):
    command = planned(dump, out, tmp_path, point=point, nth=0, do=do)
    assert subprocess.run(command, check=False, capture_output=True).returncode < 0
    assert [path.name for path in out.iterdir() if path.name.startswith(".")]
    compile_here(dump, out)
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == []
    for package in out.glob("*.run"):
        assert subprocess.run([package, "--check"], check=False).returncode == 0


@pytest.mark.parametrize("point", ["package.create", "package.write", "package.rename"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_failing_disk_leaves_no_package(dump, out, tmp_path, point, error):
    command = planned(dump, out, tmp_path, point=point, nth=0, do=error)
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    refused(ended, "No package is made: ", os.strerror(getattr(__import__("errno"), error)))
    assert list(out.iterdir()) == []


_BLOCKS = """
from pytest_ascendcache.reference.kernels.elementwise import elementwise
import os

@elementwise("Blocks")
def blocks(_, x):
    with open({reached!r}, "w") as file:
        file.write(f"{{os.getpid()}}\\n")
    open({go!r}).read()
    return x + x
"""


@pytest.fixture
def blocking(tmp_path, out):
    """A compile that blocks in a worker. Yields the command's process and the worker's pid."""
    reached, go = tmp_path / "reached", tmp_path / "go"
    os.mkfifo(reached)
    os.mkfifo(go)
    source = tmp_path / "custom/op_impl/ai_core/tbe/impl/blocks.py"
    source.parent.mkdir(parents=True)
    source.write_text(_BLOCKS.format(reached=str(reached), go=str(go)))
    dump = tmp_path / "blocking"
    dump.mkdir()
    write_opinfo(dump / "blocks.json", relu(4, kind="Blocks"))
    command = [*COMMAND, "-p", str(dump), "-v", "Ascend910B1", "-j", "2", "-o", str(out)]
    environment = {**os.environ, "ASCEND_CUSTOM_OPP_PATH": str(tmp_path / "custom")}
    # If tests run in the background, SIGINT is ignored, and a child process inherits that. It does
    # not inherit a handler, so with one it starts with the default action.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    worker = int(reached.read_text())
    try:
        yield process, worker
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_workers_end_with_a_killed_compiler(blocking, out):
    process, worker = blocking
    watched = os.pidfd_open(worker)
    process.kill()
    process.wait()
    ended, _, _ = select.select([watched], [], [], 60)
    os.close(watched)
    assert ended
    assert list(out.glob("*.run")) == []


def test_a_killed_worker_is_told(blocking, out):
    process, worker = blocking
    os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "A process that compiles was killed" in errors
    assert "(-j)" in errors
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_compiler_leaves_nothing(blocking, out, number):
    process, _ = blocking
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines() == [
        "[ERROR] Interrupted; no package is made.",
        "static compiler fail",
    ]
    assert list(out.iterdir()) == []
