"""Static kernel packages: the files left by a completed, failed or killed (un)installation."""

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
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.faults import CrashKind, Tree, crash_states
from pytest_ascendcache.faults.trace import read_log
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.faulty import faulty, install
from pytest_ascendcache.reference.static_kernel import installer, op_compiler
from pytest_ascendcache.reference.static_kernel.client.packages import ClientPackagePolicy
from pytest_ascendcache.reference.static_kernel.leases import VARIABLE
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy

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
    """Packages by name. ``pk`` has shapes 4 and 8, ``pk2`` 8 and 16, and ``pk.3`` only 4.

    ``other`` is for another chip.
    """
    directory = tmp_path_factory.mktemp("packages")
    return {
        "pk": compiled(directory, "pk", relu(4), relu(8)),
        "pk2": compiled(directory, "pk2", relu(8), relu(16)),
        "pk.3": compiled(directory, "pk.3", relu(4)),
        "other": compiled(directory, "other", relu(4), soc="Ascend310P3"),
    }


@pytest.fixture
def opp(tmp_path):
    """A directory of an operator package, which already holds files."""
    (tmp_path / "opp/built-in").mkdir(parents=True)
    (tmp_path / "opp/version.info").write_text("Version=1.0\n")
    return tmp_path / "opp"


def do(package, opp, *arguments):
    """Run a package in this process. Returns its exit status."""
    return installer.run([str(package), "--quiet", *arguments], by_hand(opp))


def by_hand(opp):
    """Return the environment of an installation that no process holds."""
    return {"ASCEND_OPP_PATH": str(opp), VARIABLE: "0"}


def run(words, opp, **changes):
    """Run a command as a user does."""
    environment = {**os.environ, **by_hand(opp), **changes}
    return subprocess.run(
        list(map(str, words)), env=environment, capture_output=True, text=True, check=False
    )


def index(opp):
    return json.loads((opp / INDEX).read_bytes())


def kernels(opp):
    """Return the package of each shape's kernel (deterministic off), according to the index."""
    packages = {}
    for entry in index(opp)["Relu"]["staticList"]:
        head, shape = entry["simplifiedKey"].split("/")[:2]
        if head and "d=0" in entry["simplifiedKey"]:
            extent = entry["simplifiedKey"].split("(")[1].split(")")[0]
            packages[int(extent, 16)] = entry["binPath"].split("/")[0]
        del shape
    return packages


def contents(opp):
    return Tree.read(opp).content


def test_a_reader_who_has_heard_enough_is_no_failure(packages, opp):
    ended = run(["sh", "-c", f"'{packages['pk']}' --list | :"], opp)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_a_process_installs_for_itself_alone(packages, opp, tmp_path, quiet):
    """npugraph_ex installs like this for CANN 9.1. Removing the directory removes everything."""
    before = contents(opp)
    directory = tmp_path / "static_kernel_install/20261122_1"
    directory.mkdir(parents=True)
    ended = run([packages["pk"], f"--install-path={directory}", quiet], opp)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert len(index(directory)["Relu"]["staticList"]) == 4
    assert contents(opp) == before
    assert [each.name for each in directory.iterdir()] == ["static_kernel"]


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
        "Relu/d=0,p=0/0,2,(4)/0,2,(4)/",
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
    # ASCEND_OPP_PATH may have changed since the installation.
    ended = run([*shell, script], opp.parent)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(opp) == before


def test_a_package_is_executable_and_needs_nothing_of_the_project(packages, opp, tmp_path):
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        path = shutil.which(tool, path="/usr/bin:/bin") or shutil.which(tool)
        (tmp_path / "bin" / tool).symlink_to(path)
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
    assert {"numpy", "llvmlite", "pytest", "jinja2"}.isdisjoint(names)


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


def test_uninstalling_what_is_not_installed_is_no_error(packages, opp):
    do(packages["pk2"], opp)
    before = Snapshot.take(opp)
    assert do(packages["pk"], opp, "--uninstall") == 0
    assert before.changes(Snapshot.take(opp)) == {}


# Interruptions.


def recorded(opp, log, package, *arguments):
    """Run a package and return its file operations."""
    program = faulty(install)
    argv = [json.dumps({"log": str(log)}), str(package), "--quiet", *arguments]
    assert program(argv, by_hand(opp)) == 0
    return read_log(log, opp)


def consistent(opp):
    """Whether every kernel in the index is complete."""
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
    """Select the first, second and last state at each point: a package's files are all alike."""
    by_point = {}
    for state in states:
        by_point.setdefault(re.search(r"\((\S+) of|$", state.when)[1], []).append(state)
    return [each for found in by_point.values() for each in [*found[:2], *found[2:][-1:]]]


CUT_SHORT = """
import os, sys
from pytest_ascendcache.reference.faulty import faulty, install
sys.exit(faulty(install)(sys.argv[1:], os.environ))
"""


def test_a_client_whose_install_was_cut_short_leaves_nothing(packages, opp, tmp_path):
    before = Tree.read(opp)
    log = tmp_path / "log"
    options = json.dumps({"log": str(log)})
    installs = [sys.executable, "-c", CUT_SHORT, options, packages["pk"], "--quiet"]
    assert run(installs, opp).returncode == 0  # this installation's holder is dead afterwards
    for state in worthwhile(crash_states(before, read_log(log, opp), CrashKind.KILLED)):
        state.tree.write(opp)
        for script in opp.glob("static_kernel/ai_core/pk/uninstall.sh"):
            script.chmod(0o750)  # the log does not record modes
        assert ClientPackagePolicy().uninstall(opp, packages["pk"], by_hand(opp)) == "", state
        assert contents(opp) == before.content, state


# Files that other installers wrote.

FOREIGN = {
    "Relu": {
        "simplifiedKeyMode": 0,
        "staticList": [
            {
                "simplifiedKey": "Relu/d=0,p=0/0,2,(4)/0,2,(4)/",
                "binPath": "vendor/ascend910b/Relu/a.o",
                "coreType": 1,
                "binDesc": {"blockDim": 8, "kernelName": "a", "workspace": [0]},
            },
            {
                "simplifiedKey": "Relu/d=0,p=0/0,2,(5)/0,2,(5)/",
                "binPath": "vendor/ascend910b/Relu/b.o",
                "coreType": 1,
                "binDesc": {"blockDim": 8, "kernelName": "b", "workspace": [0]},
            },
        ],
    }
}


@pytest.fixture
def vendor(opp):
    """A directory in which CANN's installer installed a package. Its index has another format."""
    directory = opp / AI_CORE / "vendor/ascend910b/Relu"
    directory.mkdir(parents=True)
    for name in ("a.o", "b.o"):
        (directory / name).write_bytes(b"kernel")
    (opp / INDEX).parent.mkdir(parents=True)
    (opp / INDEX).write_text(json.dumps(FOREIGN, indent=4))
    own = opp / AI_CORE / "vendor/config/ascend910b/binary_info_config.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps(FOREIGN))
    (opp / AI_CORE / "config.ini").write_text("load_priority=vendor")
    return opp


def test_kernels_of_other_installers_stay_and_come_back(packages, vendor):
    before = contents(vendor)
    do(packages["pk"], vendor)
    assert kernels(vendor) == {4: "pk", 5: "vendor", 8: "pk"}
    do(packages["pk2"], vendor)
    do(packages["pk"], vendor, "--uninstall")
    assert kernels(vendor) == {4: "vendor", 5: "vendor", 8: "pk2", 16: "pk2"}
    do(packages["pk2"], vendor, "--uninstall")
    assert index(vendor) == FOREIGN
    assert {name for name, *_ in contents(vendor)} == {name for name, *_ in before}


def test_kernels_of_a_package_that_keeps_no_index_stay(packages, vendor):
    shutil.rmtree(vendor / AI_CORE / "vendor/config")
    do(packages["pk"], vendor)
    assert kernels(vendor) == {4: "pk", 5: "vendor", 8: "pk"}
    do(packages["pk"], vendor, "--uninstall")
    assert kernels(vendor) == {5: "vendor"}


def test_what_another_installer_removed_does_not_come_back(packages, vendor):
    do(packages["pk"], vendor)
    # The other installer leaves the entry of shape 4, which now belongs to another package.
    document = index(vendor)
    document["Relu"]["staticList"] = [
        each for each in document["Relu"]["staticList"] if "vendor" not in each["binPath"]
    ]
    (vendor / INDEX).write_text(json.dumps(document))
    shutil.rmtree(vendor / AI_CORE / "vendor")
    do(packages["pk2"], vendor)
    do(packages["pk"], vendor, "--uninstall")
    assert kernels(vendor) == {8: "pk2", 16: "pk2"}


@pytest.mark.parametrize("listed", ["pk", "other"])
def test_what_is_in_the_way_is_left_alone(packages, vendor, listed, capfd):
    (vendor / AI_CORE / "vendor").rename(vendor / AI_CORE / "pk")
    (vendor / AI_CORE / "other").mkdir()
    (vendor / AI_CORE / "config.ini").write_text(f"load_priority={listed}\n")
    before = contents(vendor / AI_CORE / "pk")
    assert do(packages["pk"], vendor) == 1
    assert "is in the way" in capfd.readouterr().err
    assert contents(vendor / AI_CORE / "pk") == before


@pytest.mark.parametrize("link", ["static_kernel", AI_CORE, AI_CORE / "config", INDEX.parent])
def test_links_are_not_followed(packages, opp, tmp_path, link, capfd):
    (tmp_path / "elsewhere").mkdir()
    (opp / link).parent.mkdir(parents=True, exist_ok=True)
    (opp / link).symlink_to(tmp_path / "elsewhere")
    assert do(packages["pk"], opp) == 1
    assert "is a link" in capfd.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_broken_index_is_made_anew(packages, opp):
    do(packages["pk"], opp)
    whole = contents(opp)
    (opp / INDEX).write_bytes((opp / INDEX).read_bytes()[:100])
    assert do(packages["pk"], opp) == 0
    assert contents(opp) == whole


# Our installer together with CANN's.


def cann_installs(opp, name):
    """Change files as CANN 8.1's installer does, those that all packages share included."""
    directory, own = opp / AI_CORE / name, json.loads(json.dumps(FOREIGN).replace("vendor", name))
    (directory / "ascend910b/Relu").mkdir(parents=True)
    for kernel in ("a.o", "b.o"):
        (directory / "ascend910b/Relu" / kernel).write_bytes(b"kernel")
    for path in (directory / "config/ascend910b", opp / INDEX.parent / "shape_info"):
        path.mkdir(parents=True, exist_ok=True)
    (directory / "config/ascend910b/binary_info_config.json").write_text(json.dumps(own))
    with (opp / AI_CORE / "config.ini").open("a") as file:
        file.write(f",{name}" if file.tell() else f"load_priority={name}")
    script = f'#!/bin/sh\n"$(dirname "$0")"/{name}/scripts/uninstall.py --all\n'
    (opp / AI_CORE / "uninstall.sh").write_text(script)
    (opp / AI_CORE / "uninstall.sh").chmod(0o755)
    (opp / AI_CORE / "version.info").write_text("Version=8.1\n")
    shared = index(opp) if (opp / INDEX).exists() else {}
    listed = {
        each["simplifiedKey"]: each
        for part in (shared, own)
        for each in part.get("Relu", {"staticList": []})["staticList"]
    }
    (opp / INDEX).write_text(
        json.dumps({"Relu": {"simplifiedKeyMode": 0, "staticList": list(listed.values())}})
    )


def cann_uninstalls(opp, name):
    """Change files as CANN 8.1's uninstaller does.

    It rebuilds the shared index from the indexes of the packages in ``config.ini``.
    """
    config = opp / AI_CORE / "config.ini"
    names = config.read_text().partition("=")[2].split(",")
    names.remove(name)
    if not names:
        shutil.rmtree(opp / AI_CORE)
        return
    config.write_text(f"load_priority={','.join(names)}")
    owns = [opp / AI_CORE / each / "config/ascend910b" / INDEX.name for each in names]
    owns = [json.loads(each.read_text()) for each in owns if each.exists()]
    if owns:
        listed = {each["simplifiedKey"]: each for own in owns for each in own["Relu"]["staticList"]}
        (opp / INDEX).write_text(
            json.dumps({"Relu": {"simplifiedKeyMode": 0, "staticList": list(listed.values())}})
        )
    else:
        shutil.rmtree(opp / INDEX.parent)
    shutil.rmtree(opp / AI_CORE / name)


@pytest.mark.parametrize("added", list(itertools.permutations(["pk", "pk2", "real"])), ids="-".join)
@pytest.mark.parametrize(
    "removed", list(itertools.permutations(["pk", "pk2", "real"])), ids="-".join
)
def test_packages_of_cann_and_ours_come_and_go_in_any_order(packages, opp, added, removed):
    has = {"pk": {4, 8}, "pk2": {8, 16}, "real": {4, 5}}
    before, left = contents(opp), []
    for step, names in ((1, added), (-1, removed)):
        for name in names:
            if name == "real":
                (cann_installs if step > 0 else cann_uninstalls)(opp, name)
            else:
                assert do(packages[name], opp, *(["--uninstall"] if step < 0 else [])) == 0
            left = [each for each in left if each != name] + [name] * (step > 0)
            if not left:  # CANN's uninstaller leaves an empty directory
                empty = {("static_kernel", None, None)} if name == "real" else set()
                assert contents(opp) == before | empty
                continue
            assert (opp / AI_CORE / "config.ini").read_text() == f"load_priority={','.join(left)}"
            wanted = {extent: each for each in left for extent in has[each]}
            assert kernels(opp) == wanted
            script = opp / AI_CORE / "uninstall.sh"
            named = re.search(r"/([^/]+)/scripts", script.read_text())[1] if script.exists() else ""
            assert name == "real" or not named or named in left


def test_canns_command_for_all_packages_finds_ours(packages, opp):
    before = contents(opp)
    cann_installs(opp, "real")
    do(packages["pk"], opp)
    do(packages["pk2"], opp)
    script = opp / AI_CORE / "uninstall.sh"
    script.write_text(script.read_text().replace("/real/", "/pk2/"))
    assert do(packages["pk2"], opp, "--uninstall") == 0
    assert "/pk/scripts" in script.read_text()
    ended = run([script], opp)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert contents(opp) == before


def test_a_list_with_a_line_end_in_it_is_read(packages, opp):
    """An earlier release of ours wrote a line end, after which CANN's installer appended a name."""
    do(packages["pk"], opp)
    cann_installs(opp, "real")
    (opp / AI_CORE / "config.ini").write_text("load_priority=pk\n,real\n")
    assert do(packages["pk2"], opp) == 0
    assert (opp / AI_CORE / "config.ini").read_text() == "load_priority=pk,real,pk2"


@pytest.fixture(params=["plain", "through a loader"])
def vendors_installer(tmp_path, request):
    """A process that ``ps`` shows like CANN's installer. It ends after a line on its input.

    A loader's words stand before Python's, as an emulator's do in a container of another machine.
    """
    script = tmp_path / "unpacked/static_kernel/ai_core/real/scripts/install.py"
    script.parent.mkdir(parents=True)
    script.write_text("print(flush=True)\ninput()\nprint('ended', flush=True)")
    words = [sys.executable, "./static_kernel/ai_core/real/scripts/install.py"]
    if request.param != "plain":
        loaders = re.findall(
            r"^\S+ .*?(/\S*/ld-(?:linux|musl)-\S+)$", Path("/proc/self/maps").read_text(), re.M
        )
        words[:0] = loaders[:1] or pytest.skip("this C library has no loader that starts programs")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, text=True, cwd=tmp_path / "unpacked"
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_ours_waits_for_canns(packages, opp, vendors_installer):
    environment = {**os.environ, **by_hand(opp)}
    started = subprocess.Popen([packages["pk"]], env=environment)
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(1)
    assert not (opp / AI_CORE / "pk").exists()
    vendors_installer.communicate("\n")
    assert started.wait(60) == 0


def test_canns_sees_ours_at_work_and_not_afterwards(packages, opp, tmp_path):
    """CANN's installer looks in ``ps -ef`` for a line like ours before it begins."""
    reached, go = tmp_path / "reached", tmp_path / "go"
    for fifo in (reached, go):
        os.mkfifo(fifo)
    plan = {"log": str(tmp_path / "log"), "point": "install.config.rename", "nth": 0, "do": "hold"}
    plan.update(reached=str(reached), go=str(go))
    argv = [sys.executable, "-m", "pytest_ascendcache.reference.faulty", "installer"]
    argv += [json.dumps(plan), packages["pk"], "--quiet"]
    with (
        os.fdopen(os.open(reached, os.O_RDWR), "rb", buffering=0) as arrived,
        os.fdopen(os.open(go, os.O_RDWR), "wb", buffering=0) as release,
        subprocess.Popen(argv, env={**os.environ, **by_hand(opp)}) as process,
    ):
        assert arrived.read(4) == b"here"
        shown = subprocess.check_output(["ps", "-o", "args=", "-p", str(process.pid)], text=True)
        release.write(b"g")
    assert re.search("python.*uninstall.py", shown)
    assert process.returncode == 0


def holding(package, opp):
    """Start a process that installs a package, and uninstalls it after a line on its input."""
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.argv[1]], check=True, stdout=subprocess.DEVNULL)\n"
        "print(flush=True)\n"
        "input()\n"
        "sys.exit(subprocess.run([sys.argv[2]], stdout=subprocess.DEVNULL).returncode)\n"
    )
    script = opp / AI_CORE / package.stem / "uninstall.sh"
    environment = {key: each for key, each in os.environ.items() if key != VARIABLE}
    process = subprocess.Popen(
        [sys.executable, "-c", code, package, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment, "ASCEND_OPP_PATH": str(opp)},
    )
    process.stdout.readline()
    return process


def test_the_last_command_of_a_shell_does_not_wait_for_itself(packages, opp):
    """bash turns itself into its last command, which has the number of the shell then."""
    before = contents(opp)
    package = packages["pk"]
    environment = {key: each for key, each in os.environ.items() if key != VARIABLE}
    ended = subprocess.run(
        ["bash", "-c", f"{package} && {package} --uninstall"],
        env={**environment, "ASCEND_OPP_PATH": str(opp)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "is uninstalled" in ended.stdout
    assert contents(opp) == before


def test_force_and_a_person_need_not_wait_for_holders(packages, opp):
    before = contents(opp)
    process = holding(packages["pk"], opp)
    words = [opp / AI_CORE / "pk/uninstall.sh"]
    ended = run(words, opp)
    assert ended.returncode == 1
    assert f"process {process.pid} holds it; see --force" in ended.stdout
    assert run([*words, "--force"], opp).returncode == 0
    assert contents(opp) == before
    process.kill()
    process.communicate()


# Invalid packages.


def test_damage_anywhere_is_refused_before_anything_is_touched(packages, opp, tmp_path):
    data = packages["pk"].read_bytes()
    before = Snapshot.take(opp)
    places = [data.index(b"sha256=") + 20, data.index(b"Static kernel"), data.index(b"exec")]
    places += range(data.index(b"exec") + 60, len(data), len(data) // 6)
    for place in places:
        package = tmp_path / "damaged.run"
        package.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        for arguments in ([], ["--check"]):
            ended = run(["sh", package, *arguments], opp)
            assert ended.returncode == 2, (place, ended.stderr)
            assert "damaged" in ended.stderr
    for size in (20, 90, 300, len(data) // 2, len(data) - 1):
        package.write_bytes(data[:size])
        assert run(["sh", package], opp).returncode == 2, size
    assert before.changes(Snapshot.take(opp)) == {}


def forged(packages, tmp_path, change):
    """Return a copy of the package ``pk``, with files and manifest changed by ``change``."""
    path = tmp_path / "forged.run"
    with zipfile.ZipFile(packages["pk"]) as source, zipfile.ZipFile(path, "w") as target:
        members = {each: source.read(each) for each in source.namelist()}
        manifest = json.loads(members["package.json"])
        change(members, manifest)
        members["package.json"] = json.dumps(manifest).encode()
        for name, data in members.items():
            target.writestr(name, data)
    return path


@pytest.mark.parametrize("evil", ["../../evil", "/evil", "a/../../evil", "a//b", "./a", "a\\b"])
def test_a_path_that_leads_out_of_the_package_is_refused(packages, opp, tmp_path, evil, capfd):
    def change(members, manifest):
        members[f"payload/{evil}"] = b"evil"
        manifest["files"][evil] = hashlib.sha256(b"evil").hexdigest()

    assert do(forged(packages, tmp_path, change), opp) == 2
    assert "leads out of the package" in capfd.readouterr().err
    assert not (opp / "static_kernel").exists()


@pytest.mark.parametrize("name", ["..", "a/b", "a,b", "config", ".hidden", "", "a\n", 7, "x" * 300])
def test_a_name_that_is_no_directory_is_refused(packages, opp, tmp_path, name, capfd):
    def change(members, manifest):  # noqa: ARG001 - the members stay
        manifest["name"] = name

    assert do(forged(packages, tmp_path, change), opp) == 2
    assert "cannot name a package" in capfd.readouterr().err
    assert not (opp / "static_kernel").exists()


@pytest.mark.parametrize("what", ["missing", "more", "changed", "index", "format", "link"])
def test_contents_that_do_not_fit_are_refused(packages, opp, tmp_path, what):
    kernel = "payload/ascend910b/Relu/Relu_float_ND_4_0_d0.o"

    def change(members, manifest):
        if what == "missing":
            del members[kernel]
        elif what == "more":
            members["payload/extra"] = b""
        elif what == "changed":
            members[kernel] += b"?"
        elif what == "index":
            manifest["index"]["Relu"]["staticList"][0]["binPath"] = "pk2/ascend910b/x.o"
        elif what == "format":
            manifest["version"] = 99

    path = forged(packages, tmp_path, change)
    if what == "link":
        with zipfile.ZipFile(path, "a") as archive:
            member = zipfile.ZipInfo("payload/link")
            member.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(member, "/etc/passwd")
    assert do(path, opp) == 2
    assert not (opp / "static_kernel").exists()


# The command line.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--unpack"], "--unpack"),
        (["--check", "--list"], "not allowed with"),
        (["extra"], "extra"),
        (["--install-path"], "--install-path"),
        (["--install-path="], "--install-path is not set"),
        (["--install-path=/does/not/exist"], "[/does/not/exist], which is not a directory"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_sentence(packages, opp, arguments, words):
    before = Snapshot.take(opp)
    ended = run([packages["pk"], *arguments], opp)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert words in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert before.changes(Snapshot.take(opp)) == {}


def test_without_a_place_nothing_is_installed(packages, opp):
    ended = run([packages["pk"]], "")
    assert ended.returncode == 1
    assert "ASCEND_OPP_PATH is not set" in ended.stderr
    assert run([packages["pk"], f"--install-path={opp}"], "").returncode == 0
    assert (opp / INDEX).exists()


def test_quiet_says_nothing_and_help_installs_nothing(packages, opp):
    ended = run([packages["pk"], "--quiet"], opp)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert run([packages["pk"], "--uninstall", "--quiet"], opp).stdout == ""
    helped = run([packages["pk"], "--help"], opp)
    assert helped.stdout.startswith("usage: pk.run [--install-path=DIR]")
    assert not (opp / "static_kernel").exists()


# Reselection.


def test_reselection_finds_what_is_installed_and_trusts_no_damage(packages, opp):
    fs, selection = Fs(), SelectionPolicy()

    def find(info, soc="Ascend910B1"):
        return selection.find(fs, opp, selection.read_index(fs, opp, soc), info)

    assert find(relu(4)) is None
    do(packages["pk"], opp)
    (path,) = opp.glob("static_kernel/ai_core/pk/*/Relu/Relu_float_ND_4_0_d0.o")
    symbol, data = find(relu(4))
    assert symbol.encode() in data == path.read_bytes()
    assert find(relu(4), "Ascend910B3") == (symbol, data)
    assert find(relu(5)) is None
    assert find(relu(4), "Ascend310P3") is None
    path.write_bytes(data[:-1] + b"?")
    assert find(relu(4)) is None
    assert find(replace(relu(4), deterministic=True)) is not None  # Relu_float_ND_4_0_d1.o
    path.write_bytes(data)
    assert find(relu(4)) is not None
    path.with_suffix(".json").write_text("[]")
    assert find(relu(4)) is None
    (opp / INDEX).write_text("[")
    assert find(relu(8)) is None
