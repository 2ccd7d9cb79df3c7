"""Packages that the toolchain's server runs in a fork, with the same results as a process.

Only a package whose code the server has loaded runs in a fork.
"""

from __future__ import annotations

import os
import shutil
import zipfile

import pytest

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.reference.static_kernel import op_compiler
from pytest_ascendcache.reference.static_kernel.archive import CARRIED
from pytest_ascendcache.reference.static_kernel.resident import resident
from pytest_ascendcache.toolchains import Program, StaticRequest


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A package, which each test copies."""
    directory = tmp_path_factory.mktemp("made")
    tensor = TensorDesc.of("float32", 4)
    info = OperatorInfo.of(OperatorSpec("Relu", (tensor,), (tensor,)))
    (directory / "dump").mkdir()
    write_opinfo(directory / "dump" / info.file_name(0), info)
    arguments = ["-p", f"{directory}/dump", "-v", "Ascend910B1", "-o", f"{directory}/pk", "-j", "1"]
    assert op_compiler.run(arguments, {}) == 0
    return directory / "pk.run"


@pytest.fixture
def package(made, tmp_path):
    return shutil.copy(made, tmp_path / "pk.run")


@pytest.fixture(scope="module")
def toolchains():
    """Two reference toolchains: one forks known packages, the other executes all of them."""
    both = {start: reference_toolchain(start) for start in ("fork", "process")}
    yield both
    for each in both.values():
        each.close()


def ended(toolchain, opp, command):
    arguments = tuple(map(str, command))
    request = StaticRequest(Program.PACKAGE, arguments, opp.parent / "work", opp)
    return toolchain.start_static(request).wait()


def test_a_package_is_known_by_all_its_bytes(package):
    program = resident([str(package), "--list"], os.environ)
    assert (program.words, program.arguments) == ((), (str(package), "--list"))


def _another_byte(package):
    data = bytearray(package.read_bytes())
    data[len(data) // 2] ^= 1
    package.write_bytes(data)


def _another_module(package):
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr("json.py", "raise SystemExit(7)")


def _another_line(package):
    data = package.read_bytes()
    package.write_bytes(data.replace(b"    sum=", b"    touch here\n    sum=", 1))


@pytest.mark.parametrize(
    "change",
    [
        _another_byte,
        _another_module,
        _another_line,
        lambda package: package.chmod(0o640),
        lambda package: package.write_text('#!/bin/sh\nexec /the/package "$@"\n'),
        lambda package: package.unlink(),
    ],
    ids=["byte", "module", "line", "not-executable", "wrapper", "gone"],
)
def test_any_other_file_is_executed(package, change):
    change(package)
    if package.exists() and os.geteuid() == 0 and not package.stat().st_mode & 0o111:
        assert not os.access(package, os.X_OK)
    assert resident([str(package)], os.environ) is None


def test_without_the_python_it_asks_for_it_is_executed(package, tmp_path):
    assert resident([str(package)], {"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize("changed", ["uninstall.sh", CARRIED])
def test_what_an_install_left_is_known_until_it_is_changed(package, toolchains, tmp_path, changed):
    opp = tmp_path / "opp"
    opp.mkdir()
    assert ended(toolchains["fork"], opp, [package]).returncode == 0
    script = opp / "static_kernel/ai_core/pk/uninstall.sh"
    program = resident([str(script)], os.environ)
    assert program.arguments == (str(script.with_name(CARRIED)), "--uninstall")
    with script.with_name(changed).open("ab") as file:
        file.write(b"\n")
    assert resident([str(script)], os.environ) is None


@pytest.mark.parametrize(
    "arguments",
    [[], ["--list"], ["--check"], ["--uninstall"], ["--quiet"], ["--nonsense"], ["--help"]],
    ids=" ".join,
)
def test_forked_and_executed_end_alike(package, toolchains, tmp_path, arguments):
    assert [each.packages is None for each in toolchains.values()] == [False, True]
    seen = []
    for name, toolchain in toolchains.items():
        opp = tmp_path / name / "opp"
        opp.mkdir(parents=True)
        results = [ended(toolchain, opp, [package, *arguments])]
        script = opp / "static_kernel/ai_core/pk/uninstall.sh"
        before = Snapshot.take(opp)
        if script.exists():
            results.append(ended(toolchain, opp, [script]))
        states = [
            {path: (state.kind, state.mode, state.sha256) for path, state in each.files.items()}
            for each in (before, Snapshot.take(opp))
        ]
        endings = [(each.returncode, each.output.replace(str(opp), "OPP")) for each in results]
        seen.append((endings, states))
    assert seen[0] == seen[1]
