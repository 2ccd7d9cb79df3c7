"""Static kernel packages: what installing, uninstalling and failing to leaves behind."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.cachedir import Snapshot
from pytest_ascendcache.faults import CrashKind, Tree, crash_states
from pytest_ascendcache.faults.trace import read_log
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.reference.faulty import faulty
from pytest_ascendcache.reference.static_kernel import install, op_compiler

SHELLS = [
    words for words in (("dash",), ("bash",), ("busybox", "sh"), ("sh",)) if shutil.which(words[0])
]
AI_CORE = Path("static_kernel/ai_core")
INDEX = AI_CORE / "config/ascend910b/binary_info_config.json"
TOOLS = ("sh", "sha256sum", "tail", "python3", "dirname")


def relu(*shape):
    tensor = TensorDesc.of("float32", *shape)
    return OperatorInfo.of(OperatorSpec("Relu", (tensor,), (tensor,)))


def compiled(directory, name, *infos, soc="Ascend910B1"):
    """A package with kernels of these operators."""
    dump = directory / f"{name}-dump"
    dump.mkdir()
    for number, info in enumerate(infos):
        write_opinfo(dump / info.file_name(number), info)
    argv = ["-p", str(dump), "-v", soc, "-o", str(directory / name), "-j", "1"]
    assert op_compiler.run(argv, {}) == 0
    return directory / f"{name}.run"


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """``pk`` has shapes 4 and 8, ``pk2`` 8 and 16, ``pk.3`` 4; ``other`` is for another chip."""
    directory = tmp_path_factory.mktemp("packages")
    return {
        "pk": compiled(directory, "pk", relu(4), relu(8)),
        "pk2": compiled(directory, "pk2", relu(8), relu(16)),
        "pk.3": compiled(directory, "pk.3", relu(4)),
        "other": compiled(directory, "other", relu(4), soc="Ascend310P3"),
    }


@pytest.fixture
def opp(tmp_path):
    """An operator package's directory with something in it."""
    (tmp_path / "opp/built-in").mkdir(parents=True)
    (tmp_path / "opp/version.info").write_text("Version=1.0\n")
    return tmp_path / "opp"


def do(package, opp, *arguments):
    """Run a package in this process; its exit status."""
    return install.run([str(package), "--quiet", *arguments], {"ASCEND_OPP_PATH": str(opp)})


def run(words, opp, **changes):
    """Run a command as a user does."""
    environment = {**os.environ, "ASCEND_OPP_PATH": str(opp), **changes}
    return subprocess.run(
        list(map(str, words)), env=environment, capture_output=True, text=True, check=False
    )


def index(opp):
    return json.loads((opp / INDEX).read_bytes())


def kernels(opp):
    """Which package each shape's kernel (deterministic off) comes from, by the index."""
    found = {}
    for entry in index(opp)["Relu"]["staticList"]:
        head, shape = entry["simplifiedKey"].split("/")[:2]
        if head and "d=0" in entry["simplifiedKey"]:
            extent = entry["simplifiedKey"].split("(")[1].split(")")[0]
            found[int(extent, 16)] = entry["binPath"].split("/")[0]
        del shape
    return found


def contents(opp):
    return Tree.read(opp).content


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_every_shell_installs_lists_and_uninstalls(packages, opp, shell):
    before = contents(opp)
    package = packages["pk"]
    assert run([*shell, package, "--check"], opp).returncode == 0
    assert contents(opp) == before
    assert run([*shell, package], opp).stdout.startswith("[pk] is installed: 4 kernels")
    listed = run([*shell, package, "--list"], opp).stdout.splitlines()
    assert listed[0].split() == [
        "pk/ascend910b/Relu/Relu_float_ND_4_0_d0.o",
        "Relu/d=0,p=0/0,2,(4)/0,2,(4)",
    ]
    assert [line.split()[0] for line in listed] == [
        entry["binPath"] for entry in index(opp)["Relu"]["staticList"]
    ]
    ended = run([*shell, package, "--uninstall"], opp)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(opp) == before


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_an_installed_package_uninstalls_itself(packages, opp, shell):
    before = contents(opp)
    assert do(packages["pk"], opp) == 0
    script = opp / AI_CORE / "pk/uninstall.sh"
    # ASCEND_OPP_PATH may have changed since.
    ended = run([*shell, script], opp.parent)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(opp) == before


def test_a_package_is_executable_and_needs_nothing_of_the_project(packages, opp, tmp_path):
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool, path="/usr/bin:/bin") or shutil.which(tool)
        (tmp_path / "bin" / tool).symlink_to(found)
    mode = stat.S_IMODE(packages["pk"].stat().st_mode)
    assert mode & 0o102 == 0o100
    before = contents(opp)
    for words in ([packages["pk"]], [opp / AI_CORE / "pk/uninstall.sh"]):
        ended = run(words, opp, PATH=str(tmp_path / "bin"), PYTHONPATH="")
        assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(opp) == before


def test_carried_modules_import_only_pythons_own(packages):
    script = "import sys; sys.path.insert(0, sys.argv[1]); import pytest_ascendcache.reference"
    script += (
        ".static_kernel.installer; print(*sorted({each.split('.')[0] for each in sys.modules}))"
    )
    argv = [sys.executable, "-I", "-c", script, packages["pk"]]
    names = subprocess.check_output(argv, text=True).split()
    assert "argparse" in names
    assert {"numpy", "llvmlite", "pytest", "tqdm"}.isdisjoint(names)


def test_installing_again_changes_nothing(packages, opp):
    assert do(packages["pk"], opp) == 0
    before = Snapshot.take(opp)
    assert do(packages["pk"], opp) == 0
    assert before.changes(Snapshot.take(opp)) == {}


@pytest.mark.parametrize("damage", ["lose", "change", "manifest", "config"])
def test_installing_again_mends(packages, opp, damage):
    assert do(packages["pk"], opp) == 0
    whole = contents(opp)
    kernel = opp / AI_CORE / "pk/ascend910b/Relu/Relu_float_ND_4_0_d0.o"
    if damage == "lose":
        kernel.unlink()
    elif damage == "change":
        kernel.write_bytes(kernel.read_bytes()[:-1] + b"?")
    elif damage == "manifest":
        (opp / AI_CORE / "pk/package.json").write_text("{")
    else:
        (opp / AI_CORE / "config.ini").unlink()
    assert do(packages["pk"], opp) == 0
    assert contents(opp) == whole


def test_the_last_package_has_its_way_and_the_first_comes_back(packages, opp):
    do(packages["pk"], opp)
    assert kernels(opp) == {4: "pk", 8: "pk"}
    do(packages["pk2"], opp)
    assert kernels(opp) == {4: "pk", 8: "pk2", 16: "pk2"}
    do(packages["pk"], opp)
    assert kernels(opp) == {4: "pk", 8: "pk2", 16: "pk2"}
    assert do(packages["pk2"], opp, "--uninstall") == 0
    assert kernels(opp) == {4: "pk", 8: "pk"}


@pytest.mark.parametrize(
    "removed", list(itertools.permutations(["pk", "pk2", "pk.3"])), ids="-".join
)
def test_uninstalling_in_any_order_leaves_the_index_of_what_is_left(packages, opp, removed):
    before = contents(opp)
    left = sorted(removed)
    for name in left:
        assert do(packages[name], opp) == 0
    for name in removed:
        assert do(packages[name], opp, "--uninstall") == 0
        left.remove(name)
        fresh = opp.with_name(f"without-{name}")
        fresh.mkdir()
        for each in left:
            assert do(packages[each], fresh) == 0
        if left:
            assert Tree.read(fresh / AI_CORE).content == Tree.read(opp / AI_CORE).content
    assert contents(opp) == before


def test_packages_of_two_chips_have_an_index_each(packages, opp):
    do(packages["pk"], opp)
    do(packages["other"], opp)
    config = opp / AI_CORE / "config"
    assert sorted(path.name for path in config.iterdir()) == ["ascend310p", "ascend910b"]
    do(packages["other"], opp, "--uninstall")
    assert sorted(path.name for path in config.iterdir()) == ["ascend910b"]


def test_uninstalling_what_is_not_installed_is_no_error(packages, opp):
    do(packages["pk2"], opp)
    before = Snapshot.take(opp)
    assert do(packages["pk"], opp, "--uninstall") == 0
    assert before.changes(Snapshot.take(opp)) == {}


# Interruptions.


def recorded(opp, log, package, *arguments):
    """The file operations of one run of a package."""
    program = faulty(install.run)
    argv = [json.dumps({"log": str(log)}), str(package), "--quiet", *arguments]
    assert program(argv, {"ASCEND_OPP_PATH": str(opp)}) == 0
    return read_log(log, opp)


def consistent(opp):
    """The index names only kernels that are there, whole."""
    if not (opp / INDEX).exists():
        return True
    directory = opp / AI_CORE
    for entry in index(opp)["Relu"]["staticList"]:
        kernel = directory / entry["binPath"]
        metadata = json.loads(kernel.with_suffix(".json").read_bytes())
        if metadata["sha256"] != hashlib.sha256(kernel.read_bytes()).hexdigest():
            return False
    return True


def worthwhile(states):
    """The first, second and last state at each point: files of a package are all alike."""
    by_point = {}
    for state in states:
        by_point.setdefault(re.search(r"\((\S+) of|$", state.when)[1], []).append(state)
    return [each for found in by_point.values() for each in [*found[:2], *found[2:][-1:]]]


KINDS = (CrashKind.KILLED, CrashKind.MID_WRITE, CrashKind.POWER_LOSS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
@pytest.mark.parametrize("act", ["install", "uninstall", "replace"])
def test_the_next_run_repairs_whatever_was_cut_short(packages, opp, tmp_path, kind, act):
    if act != "uninstall":
        do(packages["pk2"], opp)
    clean = Tree.read(opp)
    do(packages["pk"], opp)
    installed = Tree.read(opp)
    if act == "install":
        clean.write(opp)
    if act == "replace":
        (opp / AI_CORE / "pk/ascend910b/Relu/Relu_float_ND_4_0_d0.o").write_bytes(b"")
    before = Tree.read(opp)
    arguments = ["--uninstall"] if act == "uninstall" else []
    operations = recorded(opp, tmp_path / "log", packages["pk"], *arguments)
    states = worthwhile(crash_states(before, operations, kind))
    assert states or kind is CrashKind.MID_WRITE
    for number, state in enumerate(states):
        state.tree.write(opp)
        assert act == "replace" or consistent(opp), state
        if number % 2:
            assert do(packages["pk"], opp) == 0
            assert contents(opp) == installed.content, state
        else:
            assert do(packages["pk"], opp, "--uninstall") == 0
            assert contents(opp) == clean.content, state
