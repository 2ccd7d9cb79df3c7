"""Toolchains: a fork and a process give equal files, and every started process ends."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

from pytest_ascendcache.contract import (
    CacheMode,
    Capability,
    CompileOptions,
    DebugConfig,
    PrecisionFile,
    SelectMode,
)
from pytest_ascendcache.operators import OperatorSpec, TensorDesc, read_single_op
from pytest_ascendcache.processes.launch import Command, ProcessLauncher
from pytest_ascendcache.processes.sleeping import wait_until
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import (
    CompileRequest,
    KernelRunError,
    ToolchainError,
    atc_toolchain,
)

X = TensorDesc.of("float32", 4)
ABS, EXP = OperatorSpec("Abs", (X,), (X,), name="abs"), OperatorSpec("Exp", (X,), (X,), name="exp")
ENABLE = CompileOptions(cache_mode=CacheMode.ENABLE)
EXTRAS = {Capability.FAULT_POINTS, Capability.DEBUG_CONFIG}
"""Capabilities that depend on other programs and packages of this machine."""
SOC_DIRECTORY = "kernel_cache/Ascend910B1"


def request_in(root: Path, *operators: OperatorSpec, **changes) -> CompileRequest:
    """A request with directories below ``root``."""
    request = CompileRequest(
        operators=operators or (ABS,),
        options=ENABLE,
        cache_dir=root / "cache",
        output=root / "out",
        work=root / "work",
        home=root / "home",
    )
    return replace(request, **changes)


def tree(root: Path) -> dict[str, bytes]:
    """Return every file's content below a directory, by relative path."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*.*")
        if path.is_file()
    }


def status(pid: int) -> str:
    """Return the state letter of a process, or ``X`` if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_gone(pid: int) -> bool:
    """Whether a killed process is gone. The kernel takes a moment to carry out a kill."""
    return wait_until(lambda: status(pid) in "XZ", 30)


def children(parent: int) -> list[int]:
    """Return the living children of a process."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            pids.append(int(path.parent.name))
    return pids


def servers() -> set[int]:
    """Return the fork servers that this process has started."""
    return {
        pid
        for pid in children(os.getpid())
        if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


@pytest.fixture
def own_fork():
    """A fork toolchain that a test may break, and the process id of its server."""
    before = servers()
    toolchain = reference_toolchain("fork", deadline=20)

    def server() -> int:
        (pid,) = servers() - before
        return pid

    yield toolchain, server
    toolchain.close()


# --- fork and process -----------------------------------------------------------------------


def test_fork_and_process_give_the_same_files(reference, tmp_path):
    fixture = Path(__file__).parents[2] / "fixtures/single_add.json"
    operators = (*read_single_op(fixture), ABS, EXP)
    config = DebugConfig(switches=("dump_cce", "dump_loc"), listed=("exp",))
    trees = {}
    for name, toolchain in (("fork", reference), ("process", reference_toolchain("process"))):
        root = tmp_path / name
        request = request_in(root, *operators, options=ENABLE.but(debug_config=config))
        (result,) = toolchain.compile_together([request])
        assert result.succeeded, result.output
        assert [path.name for path in result.delivered] == ["add.om", "abs.om", "exp.om"]
        trees[name] = {area: tree(root / area) for area in ("out", "cache", "work", "home")}
    assert trees["fork"] == trees["process"]
    kept = trees["fork"]["work"]
    assert {re.sub("[0-9a-f]{64}", "", name) for name in kept} == {
        f"kernel_meta/te_exp_{end}" for end in (".o", ".json", ".cce", "_loc.json")
    }
    stored = [name for name in trees["fork"]["cache"] if name.endswith(".o")]
    assert sorted(Path(name).name.split("_")[1] for name in stored) == ["abs", "add"]


def test_fork_and_process_fail_alike(reference, tmp_path):
    ended = []
    for name, toolchain in (("fork", reference), ("process", reference_toolchain("process"))):
        request = request_in(tmp_path / name, raw_mode="sometimes")
        (result,) = toolchain.compile_together([request])
        ended.append((result.returncode, result.output, result.delivered))
        assert not result.succeeded
        assert result.ending == "ended with exit status 255"
    assert ended[0] == ended[1]
    assert "[sometimes]" in ended[0][1]


def test_a_result_can_be_repeated_by_hand(reference, tmp_path):
    (result,) = reference.compile_together(
        [request_in(tmp_path / "a b", environment={"ASCEND_CACHE_PATH": "x y"})]
    )
    assert result.argv[:3] == (sys.executable, "-m", "pytest_ascendcache.reference.atc")
    assert result.command.startswith(f"cd '{tmp_path}/a b/work' && HOME='{tmp_path}/a b/home' ")
    assert "ASCEND_CACHE_PATH='x y'" in result.command
    assert f"--op_compiler_cache_dir={tmp_path}/a b/cache" in result.argv


def test_operators_of_one_name_are_all_delivered(reference, tmp_path):
    request = request_in(tmp_path, ABS.named("same"), EXP.named("same"), EXP.named(""))
    (result,) = reference.compile_together([request])
    assert result.succeeded
    assert len(set(result.delivered)) == 3


def test_many_requests_at_once(reference, tmp_path):
    shared = tmp_path / "cache"
    requests = [request_in(tmp_path / str(index), cache_dir=shared) for index in range(16)]
    results = reference.compile_together(requests)
    assert [each.request.output for each in results] == [each.output for each in requests]
    assert all(each.succeeded for each in results)
    assert len({each.delivered[0].read_bytes() for each in results}) == 1
    assert len([name for name in tree(shared) if name.endswith((".o", ".json"))]) == 2


@pytest.mark.parametrize("start", ["fork", "process"])
def test_umask(reference, tmp_path, start):
    toolchain = reference if start == "fork" else reference_toolchain("process")
    requests = [
        request_in(tmp_path / oct(mask), umask=mask, options=CompileOptions())
        for mask in (0o000, 0o027, 0o077)
    ]
    results = toolchain.compile_together(requests)
    modes = [stat.S_IMODE(each.delivered[0].stat().st_mode) for each in results]
    assert modes == [0o666, 0o640, 0o600]


@pytest.mark.parametrize("start", ["fork", "process"])
def test_a_large_environment_arrives(reference, tmp_path, start):
    toolchain = reference if start == "fork" else reference_toolchain("process")
    environment = {f"LARGE_{index}": "x" * 60_000 for index in range(10)}
    environment["ASCEND_CACHE_PATH"] = str(tmp_path / "from_environment")
    request = request_in(tmp_path, cache_dir=None, environment=environment)
    (result,) = toolchain.compile_together([request])
    assert result.succeeded, result.output
    assert (tmp_path / "from_environment" / SOC_DIRECTORY).is_dir()


def test_a_child_does_not_see_what_another_was_given(reference, tmp_path):
    for name in ("first", "second"):
        environment = {"ASCEND_CACHE_PATH": str(tmp_path / "left")} if name == "first" else {}
        request = request_in(tmp_path / name, cache_dir=None, environment=environment)
        (result,) = reference.compile_together([request])
        assert result.succeeded
    assert (tmp_path / "left" / SOC_DIRECTORY).is_dir()
    assert (tmp_path / "second/home/atc_data" / SOC_DIRECTORY).is_dir()


# A custom operator package can run code in the compiling process.
def package(root: Path, code: str) -> dict[str, str]:
    path = root / "custom/op_impl/ai_core/tbe/impl/code.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"import os, signal, subprocess, sys, time\n{code}\n")
    return {"ASCEND_CUSTOM_OPP_PATH": str(root / "custom")}


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize("start", ["fork", "process"])
def test_a_child_that_is_killed(reference, tmp_path, start):
    toolchain = reference if start == "fork" else reference_toolchain("process")
    killed, fine = toolchain.compile_together(
        [
            request_in(tmp_path / "killed", environment=package(tmp_path, KILL)),
            request_in(tmp_path / "fine"),
        ]
    )
    assert killed.returncode == -9
    assert killed.ending == "was ended by signal 9"
    assert killed.delivered == (None,)
    assert fine.succeeded


HANG = "print('before', flush=True); child = subprocess.Popen(['sleep', '600'])\n"
HANG += "open('pids', 'w').write(f'{os.getpid()} {child.pid}'); time.sleep(600)"


def test_a_forked_child_that_hangs_is_killed_with_its_children(tmp_path):
    toolchain = reference_toolchain("fork", deadline=0.5)
    try:
        toolchain.compile_together([request_in(tmp_path / "warm")])
        request = request_in(tmp_path, environment=package(tmp_path, HANG))
        (result,) = toolchain.compile_together([request])
        assert result.returncode is None
        assert result.ending == "did not end within 0.5 s and was killed"
        assert result.output == "before\n"
        pids = [int(each) for each in (tmp_path / "work/pids").read_text().split()]
        assert len(pids) == 2
        assert all(is_gone(pid) for pid in pids)
        (result,) = toolchain.compile_together([request_in(tmp_path / "next")])
        assert result.succeeded
    finally:
        toolchain.close()


def test_what_a_forked_child_leaves_behind_is_killed(reference, tmp_path):
    code = "child = subprocess.Popen(['sleep', '600'])\nopen('pid', 'w').write(str(child.pid))"
    request = request_in(tmp_path, environment=package(tmp_path, code))
    (result,) = reference.compile_together([request])
    assert result.succeeded
    assert is_gone(int((tmp_path / "work/pid").read_text()))


def test_close_leaves_no_process(own_fork, tmp_path):
    toolchain, server = own_fork
    (result,) = toolchain.compile_together([request_in(tmp_path)])
    assert result.succeeded
    pids = [server(), *children(server())]
    assert len(pids) > 1  # spare children are waiting
    toolchain.close()
    assert all(is_gone(pid) for pid in pids)
    toolchain.close()  # closing twice is allowed
    (result,) = toolchain.compile_together([request_in(tmp_path)])
    assert result.succeeded  # and so is starting again afterwards


def test_nothing_is_started_before_the_first_request():
    before = servers()
    toolchain = reference_toolchain("fork")
    assert servers() == before
    toolchain.close()


def test_a_killed_server_is_replaced(own_fork, tmp_path):
    toolchain, server = own_fork
    toolchain.compile_together([request_in(tmp_path)])
    pids = [server(), *children(server())]
    os.kill(pids[0], 9)
    assert all(is_gone(pid) for pid in pids)
    (result,) = toolchain.compile_together([request_in(tmp_path)])
    assert result.succeeded
    assert server() not in pids


def test_a_server_killed_in_the_middle_is_an_error_of_the_toolchain(own_fork, tmp_path):
    toolchain, server = own_fork
    toolchain.compile_together([request_in(tmp_path / "warm")])
    spares = children(server())
    code = "os.kill(os.getppid(), signal.SIGKILL); open('pid', 'w').write(str(os.getpid()))\n"
    code += "time.sleep(600)"
    request = request_in(tmp_path, environment=package(tmp_path, code))
    with pytest.raises(ToolchainError, match="fork server"):
        toolchain.compile_together([request])
    assert all(is_gone(pid) for pid in spares)
    (result,) = toolchain.compile_together([request_in(tmp_path / "next")])
    assert result.succeeded


def test_spares_that_were_killed_are_noticed(own_fork, tmp_path):
    toolchain, server = own_fork
    toolchain.compile_together([request_in(tmp_path / "warm")])
    for pid in children(server()):
        os.kill(pid, 9)
        assert is_gone(pid)
    impatient = reference_with_deadline(toolchain, 5.0)
    results = impatient.compile_together([request_in(tmp_path / str(index)) for index in range(8)])
    # A request may get such a child before the server has replaced it, but never waits for it.
    assert {each.returncode for each in results} <= {0, -9}
    assert results[-1].succeeded


def reference_with_deadline(toolchain, deadline):
    """Return the same running toolchain with another deadline."""
    return type(toolchain)(
        toolchain.name,
        toolchain.version,
        toolchain.launcher,
        toolchain.capabilities,
        deadline,
        os.environ,
    )


# --- running kernels ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(reference, tmp_path_factory):
    (result,) = reference.compile_together([request_in(tmp_path_factory.mktemp("model"))])
    return result.delivered[0]


VALUES = numpy.float32([1, -2, 0, -0.5])


@pytest.mark.parametrize("start", ["fork", "process"])
def test_run_kernel(reference, model, start):
    toolchain = reference if start == "fork" else reference_toolchain("process")
    (found,) = toolchain.run_kernel(model, ABS, [VALUES])
    assert found.dtype == numpy.float32
    assert found.tolist() == [1, 2, 0, 0.5]


def test_run_kernel_errors(reference, model, tmp_path):
    damaged = tmp_path / "damaged.om"
    damaged.write_bytes(model.read_bytes()[:-30])
    for path, values, phrase in (
        (damaged, VALUES, "damaged.om"),
        (tmp_path / "missing.om", VALUES, "missing.om"),
        (model, VALUES[:3], "float32[3]"),
    ):
        with pytest.raises(KernelRunError, match=re.escape(phrase)) as error:
            reference.run_kernel(path, ABS, [values])
        assert str(error.value).startswith("running Abs(float32[4]) ended with exit status 255: ")


@pytest.mark.parametrize("change", [Capability.KNOWLEDGE_BASE, Capability.TOOLCHAIN_CHANGE])
def test_staged_changes(reference, tmp_path, change):
    wide = OperatorSpec("Abs", (TensorDesc.of("float32", 64),) * 1, (X,), name="abs")
    wide = replace(wide, outputs=wide.inputs)
    staged = reference.stage(change, wide, tmp_path / "staged")
    kernels = []
    for name in ("before", "again", "after"):
        if name == "after":
            staged.apply()
        request = request_in(
            tmp_path / name,
            staged.operator,
            environment=staged.environment,
            options=CompileOptions(),
        )
        (result,) = reference.compile_together([request])
        assert result.succeeded, result.output
        kernels.append(result.delivered[0].read_bytes())
    assert kernels[0] == kernels[1] != kernels[2]


@pytest.mark.parametrize("change", [Capability.RUN_KERNELS, Capability.DEBUG_CONFIG])
def test_what_cannot_be_staged(reference, tmp_path, change):
    with pytest.raises(ToolchainError, match=change.value):
        reference.stage(change, ABS, tmp_path)


# --- a scripted atc -------------------------------------------------------------------------


@pytest.fixture
def scripted(tmp_path):
    """A toolchain around a shell script; ``$output`` is the directory of ``--output``."""

    def make(script: str, deadline: float = 20.0, first: str = "#!/bin/sh"):
        program = tmp_path / "bin" / "atc"
        program.parent.mkdir(exist_ok=True)
        find = 'for a in "$@"; do case $a in --output=*) output=${a#--output=};; esac; done'
        program.write_text(f"{first}\n{find}\n{script}\n")
        program.chmod(0o755)
        return atc_toolchain(str(program), deadline)

    return make


@pytest.mark.parametrize("kind", ["missing", "directory", "not executable", "empty name"])
def test_no_such_program(tmp_path, kind):
    program = tmp_path / "atc"
    if kind == "directory":
        program.mkdir()
    elif kind == "not executable":
        program.write_text("#!/bin/sh\n")
        program.chmod(0o644)
    with pytest.raises(ToolchainError, match="set_env") as error:
        atc_toolchain("" if kind == "empty name" else str(program), 1.0)
    if kind != "empty name":
        assert f"'{program}'" in str(error.value)


@pytest.mark.parametrize("first", ["#!/no/such/interpreter", "\x7fELF\x02"])
def test_a_program_that_cannot_be_started(scripted, tmp_path, first):
    toolchain = scripted("", first=first)
    with pytest.raises(ToolchainError, match=r"atc' cannot be started: "):
        toolchain.compile_together([request_in(tmp_path)])


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_start_on_a_full_disk_leaves_nothing_open(monkeypatch, tmp_path, fails):
    """The file for the output, the file of the request, or the guard itself cannot be had."""
    steps = iter(range(1, 4))

    def scarce(make):
        def made(*args, **named):
            if next(steps) == fails:
                raise OSError(errno.ENOSPC, "No space left on device")
            return make(*args, **named)

        return made

    monkeypatch.setattr(tempfile, "TemporaryFile", scarce(tempfile.TemporaryFile))
    monkeypatch.setattr(subprocess, "Popen", scarce(subprocess.Popen))
    before = {*Path("/proc/self/fd").iterdir()}
    with pytest.raises(ToolchainError, match="no process can be started: No space left on device"):
        ProcessLauncher({"it": ("true",)}).start(Command("it", (), {}, tmp_path))
    assert {*Path("/proc/self/fd").iterdir()} == before


def test_a_program_found_on_path_with_its_version(scripted, tmp_path, monkeypatch):
    scripted("exit 0")
    (tmp_path / "version.info").write_text("Name=x\nVersion=8.1.RC1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    toolchain = atc_toolchain("atc", 1.0)
    assert (toolchain.name, toolchain.version) == ("atc", "8.1.RC1")
    assert toolchain.capabilities - EXTRAS == {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT}
    (result,) = toolchain.compile_together([request_in(tmp_path)])
    assert result.argv[0] == f"{tmp_path}/bin/atc"


def test_without_version_file(scripted):
    assert scripted("").version == "version unknown"


@pytest.mark.parametrize(
    ("script", "returncode", "ending"),
    [
        ("kill -SEGV $$", -11, "was ended by signal 11"),
        ("kill -KILL $$", -9, "was ended by signal 9"),
        ("echo garbage; exit 0", 0, "reported success but did not deliver every operator"),
        ("mkdir $output/abs.om", 0, "reported success but did not deliver every operator"),
        ("exit 3", 3, "ended with exit status 3"),
        ("echo x > $output/abs.om; exit 3", 3, "ended with exit status 3"),
    ],
)
def test_how_a_program_ends(scripted, tmp_path, script, returncode, ending):
    (result,) = scripted(f"echo said; echo error >&2\n{script}").compile_together(
        [request_in(tmp_path)]
    )
    assert (result.returncode, result.ending) == (returncode, ending)
    assert not result.succeeded
    assert result.output.startswith("said\nerror\n")


def test_a_program_that_delivers(scripted, tmp_path):
    (result,) = scripted("echo x > $output/abs.om").compile_together([request_in(tmp_path)])
    assert result.succeeded
    assert result.delivered == (tmp_path / "out/abs.om",)
    assert result.ending == "ended with exit status 0"


def test_the_end_of_a_long_output_is_kept(scripted, tmp_path):
    script = "yes 0123456789 | head -n 100000; printf '\\377 last'"
    (result,) = scripted(script).compile_together([request_in(tmp_path)])
    assert len(result.output) <= 16_384
    assert result.output.endswith("\N{REPLACEMENT CHARACTER} last")


HANGING = 'sleep 600 & echo "$$ $!" > pids; echo hanging; trap "" TERM INT HUP; wait; wait; sleep 9'


def test_a_hanging_program_is_killed_with_its_group(scripted, tmp_path):
    started = time.monotonic()
    first, second = scripted(HANGING, deadline=0.5).compile_together(
        [request_in(tmp_path / "first"), request_in(tmp_path / "second")]
    )
    assert time.monotonic() - started < 5
    for result in (first, second):
        assert result.returncode is None
        assert result.ending == "did not end within 0.5 s and was killed"
        assert result.output == "hanging\n"
        leader, child = map(int, (result.request.work / "pids").read_text().split())
        assert status(leader) == "X"
        assert is_gone(child)
        with pytest.raises(ProcessLookupError):
            os.kill(leader, 0)


def test_what_a_program_leaves_behind_is_killed(scripted, tmp_path):
    toolchain = scripted("sleep 600 & echo $! > pid; echo x > $output/abs.om")
    (result,) = toolchain.compile_together([request_in(tmp_path)])
    assert result.succeeded
    assert is_gone(int((tmp_path / "work/pid").read_text()))


def test_started_programs_are_ended_when_a_later_one_cannot_start(scripted, tmp_path):
    toolchain = scripted("echo $$ > pid; exec sleep 600")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/out").write_text("in the way")
    with pytest.raises((ToolchainError, OSError)):
        toolchain.compile_together([request_in(tmp_path), request_in(tmp_path / "broken")])
    written = tmp_path / "work/pid"  # missing if it was killed before it could write
    assert not written.exists() or status(int(written.read_text() or 0)) == "X"


def test_endless_output_is_neither_kept_nor_in_the_way(scripted, tmp_path):
    script = "yes noise | head -c 50000000; printf 'last\\377words'; echo x > $output/abs.om"
    (result,) = scripted(script).compile_together([request_in(tmp_path)])
    assert result.succeeded
    assert result.output.endswith("last\ufffdwords")
    assert len(result.output) <= 16_384


def test_a_program_that_prints_for_ever_is_killed(scripted, tmp_path):
    (result,) = scripted("exec yes", deadline=0.5).compile_together([request_in(tmp_path)])
    assert result.returncode is None
    assert set(result.output.splitlines()) <= {"y", ""}


def test_a_program_that_left_its_group_is_killed_too(scripted, tmp_path):
    script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do :; done"
    (result,) = scripted(f"{script}; echo x > $output/abs.om").compile_together(
        [request_in(tmp_path)]
    )
    assert result.succeeded
    assert is_gone(int((tmp_path / "work/pid").read_text()))


ASKING = """
import signal, sys
from pathlib import Path
from pytest_ascendcache.contract import CompileOptions
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import CompileRequest, atc_toolchain
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
root, tensor = Path(sys.argv[1]), TensorDesc.of("float32", 4)
operators = (OperatorSpec("Abs", (tensor,), (tensor,), name="abs"),)
where = {"output": root / "out", "work": root / "work", "home": root / "home"}
request = CompileRequest(operators, CompileOptions(), None, **where)
atc_toolchain(str(root / "bin/atc"), 600.0).compile_together([request])
"""


@pytest.fixture(params=[signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def ignored(request):
    """A signal that this test run ignores, as nohup does with SIGHUP and ``&`` with SIGINT."""
    before = signal.signal(request.param, signal.SIG_IGN)
    yield request.param
    signal.signal(request.param, before)


def test_a_program_does_not_ignore_what_the_test_run_ignores(scripted, tmp_path, ignored):
    script = f"kill -{int(ignored)} $$; echo x > $output/abs.om"
    (result,) = scripted(script).compile_together([request_in(tmp_path)])
    assert result.returncode == -ignored


def test_a_judged_run_under_nohup_is_as_any_other(pytester):
    check = "--ascend-rule=static-kernel/ends-when-told", "-k", "test_a_signal_ends_it and HUP"
    command = [sys.executable, "-m", "pytest", "--ascend-cache", "-p", "no:cacheprovider", *check]
    result = pytester.run("sh", "-c", "trap '' HUP INT TERM; exec \"$@\"", "sh", *command)
    assert result.ret == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_no_program_outlives_a_test_run_that_is_ended(scripted, tmp_path, number):
    scripted("sleep 600 & echo $$ $! > $output/pids.new; mv $output/pids.new $output/pids; wait")
    with subprocess.Popen([sys.executable, "-c", ASKING, str(tmp_path)]) as asking:
        pids = tmp_path / "out/pids"
        assert wait_until(lambda: pids.exists() or asking.poll() is not None, 60)
        assert asking.poll() is None
        asking.send_signal(number)
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())


def test_a_program_does_not_outlive_its_guard(scripted, tmp_path):
    script = "echo $$ > pid; kill -9 $PPID; exec sleep 600"
    with pytest.raises(ToolchainError, match="guard"):
        scripted(script).compile_together([request_in(tmp_path)])
    assert is_gone(int((tmp_path / "work/pid").read_text()))


CACHE_VARIABLES = (
    "ASCEND_CACHE_PATH",
    "ASCEND_MAX_OP_CACHE_SIZE",
    "ASCEND_REMAIN_CACHE_SIZE_RATIO",
    "ASCEND_WORK_PATH",
    "ASCEND_OP_COMPILE_SAVE_KERNEL_META",
    "ASCEND_OP_COMPILER_WORK_PATH_IN_KERNEL_META",
    "MIN_COMPILE_RESOURCE_USAGE_CTRL",
    "NPU_COLLECT_PATH",
    "PARA_DEBUG_PATH",
    "TUNE_BANK_PATH",
)


def test_the_environment_is_cleaned(scripted, tmp_path, monkeypatch):
    for name in CACHE_VARIABLES:
        monkeypatch.setenv(name, "/the/users/own")
    monkeypatch.setenv("ASCEND_OPP_PATH", "/installed/opp")
    monkeypatch.setenv("KEPT", "kept")
    requested = {"TUNE_BANK_PATH": "/asked/for"}
    (result,) = scripted("env").compile_together([request_in(tmp_path, environment=requested)])
    variables = dict(line.split("=", 1) for line in result.output.splitlines() if "=" in line)
    assert "/the/users/own" not in variables.values()
    assert variables["TUNE_BANK_PATH"] == "/asked/for"
    assert variables["HOME"] == str(tmp_path / "home")
    # A real atc needs its installation.
    assert (variables["ASCEND_OPP_PATH"], variables["KEPT"]) == ("/installed/opp", "kept")
    assert result.environment == {"HOME": str(tmp_path / "home"), **requested}


def test_the_reference_sees_none_of_the_users_variables(tmp_path, monkeypatch):
    for name in (*CACHE_VARIABLES, "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH"):
        monkeypatch.setenv(name, "/the/users/own")
    (result,) = reference_toolchain("process").compile_together(
        [request_in(tmp_path, cache_dir=None)]
    )
    assert result.succeeded, result.output
    assert (tmp_path / "home/atc_data" / SOC_DIRECTORY).is_dir()


@pytest.mark.parametrize(
    ("changes", "given", "absent"),
    [
        ({"options": CompileOptions()}, ["--soc_version=Ascend910B1"], ["cache_mode", "debug"]),
        ({"cache_dir": None}, ["--op_compiler_cache_mode=enable"], ["cache_dir"]),
        ({"options": ENABLE.but(debug_level=0)}, ["--op_debug_level=0"], ["debug_config"]),
        ({"options": ENABLE.but(soc="Ascend310P3")}, ["--soc_version=Ascend310P3"], ["debug"]),
        ({"raw_mode": "odd"}, ["--op_compiler_cache_mode=odd"], ["enable"]),
        ({}, ["--op_compiler_cache_mode=enable"], ["implmode", "precision_mode"]),
        (
            {"options": ENABLE.but(select_implmode=SelectMode.HIGH_PRECISION_FOR_ALL)},
            ["--op_select_implmode=high_precision_for_all"],
            ["optypelist", "precision_mode"],
        ),
        (
            {"options": ENABLE.but(implmode_types=("Exp", "Sqrt"))},
            ["--optypelist_for_implmode=Exp,Sqrt"],
            ["select_implmode"],
        ),
        ({"raw_options": {"op_select_implmode": "odd"}}, ["--op_select_implmode=odd"], ["high"]),
        ({"debug_file": Path("/own.cfg")}, ["--op_debug_config=/own.cfg"], ["debug_level"]),
    ],
)
def test_arguments(scripted, tmp_path, changes, given, absent):
    script = 'for a in "$@"; do echo "$a"; done; pwd'
    (result,) = scripted(script).compile_together([request_in(tmp_path, **changes)])
    *arguments, work = result.output.splitlines()
    assert work == str(tmp_path / "work")
    assert arguments == list(result.argv[1:])
    assert set(given) <= set(arguments)
    for each in absent:
        assert not any(each in argument for argument in arguments)


def test_the_debug_configuration_is_written_where_the_option_says(scripted, tmp_path):
    config = DebugConfig(switches=("oom",), listed=("abs", "OpType::Exp"))
    script = 'for a in "$@"; do case $a in --op_debug_config=*) cat ${a#*=};; esac; done'
    request = request_in(tmp_path, options=ENABLE.but(debug_config=config))
    (result,) = scripted(script).compile_together([request])
    assert result.output == config.text()


def test_the_precision_file_is_passed_byte_by_byte(scripted, tmp_path):
    file = PrecisionFile("Exp=high_precision\r\nSqrt=high_performance")
    script = 'for a in "$@"; do case $a in --op_precision_mode=*) cat ${a#*=};; esac; done'
    request = request_in(tmp_path, options=ENABLE.but(precision_file=file))
    (result,) = scripted(script).compile_together([request])
    assert result.output == file.content


@pytest.mark.parametrize("place", ["beside", "named"])
def test_an_installation_has_implementation_mode_tables(scripted, tmp_path, monkeypatch, place):
    monkeypatch.delenv("ASCEND_OPP_PATH", raising=False)
    assert Capability.IMPL_MODE_TABLES not in scripted("").capabilities
    with pytest.raises(ToolchainError, match="tables"):
        scripted("").impl_mode_tables()
    opp = tmp_path / ("opp" if place == "beside" else "elsewhere")
    directory = opp / "built-in/op_impl/ai_core/tbe/impl_mode"
    directory.mkdir(parents=True)
    (directory / "all_ops_impl_mode.ini").write_text("Exp=high_precision")
    if place == "named":
        monkeypatch.setenv("ASCEND_OPP_PATH", str(opp))
    toolchain = scripted("")
    offered = {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT, Capability.IMPL_MODE_TABLES}
    assert toolchain.capabilities - EXTRAS == offered
    assert toolchain.impl_mode_tables() == {"all_ops_impl_mode": "Exp=high_precision"}


def test_kernels_cannot_be_run_with_a_plain_atc(scripted, tmp_path):
    assert Capability.RUN_KERNELS not in scripted("").capabilities
    with pytest.raises(ToolchainError):
        scripted("").stage(Capability.KNOWLEDGE_BASE, ABS, tmp_path)


def test_the_server_outlives_a_child_that_ends_while_its_asker_goes() -> None:
    """The test stops the server in between, so that the server sees both events at once."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "pytest_ascendcache.reference.forkserver"]
        server = subprocess.Popen([*command, str(theirs.fileno())], pass_fds=[theirs.fileno()])

    def ask() -> int:
        """Start a command; return the descriptor on which the server reports."""
        request = {
            "program": "atc",
            "argv": ["--version"],
            "environ": {},
            "cwd": "/",
            "umask": None,
        }
        status, report = os.pipe()
        with tempfile.TemporaryFile() as document, open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            document.write(json.dumps(request).encode())
            document.flush()
            descriptors = [document.fileno(), nowhere.fileno(), nowhere.fileno(), report]
            socket.send_fds(ours, [b"?"], descriptors)
        os.close(report)
        return status

    try:
        for _ in range(3):
            status = ask()
            child = int(os.read(status, 64).split()[0])
            server.send_signal(signal.SIGSTOP)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.close(status)
            server.send_signal(signal.SIGCONT)
        status, report = ask(), b""
        while report.count(b"\n") < 2:
            assert select.select([status], [], [], 60)[0], "the server says nothing any more"
            chunk = os.read(status, 64)
            assert chunk, "the server has ended"
            report += chunk
        os.close(status)
        assert report.split()[1] == b"0"
        assert server.poll() is None
    finally:
        ours.close()
        server.wait(30)


IGNORED = """
import pathlib, signal, sys, time
from pytest_ascendcache.processes.launch import Command, ProcessLauncher
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(each, signal.SIG_IGN)
told = "import signal; print([signal.getsignal(each).name for each in (1, 3)])"
launcher = ProcessLauncher({"it": (sys.executable, "-c", told)})
running = launcher.start(Command("it", (), {}, pathlib.Path()))
ended = running.wait(time.monotonic() + 60)
print(ended.returncode, ended.output)
"""


def test_what_nohup_ignores_still_ends_a_toolchain(tmp_path: Path) -> None:
    """Under nohup and in a shell's background, signals are ignored. Commands would inherit that."""
    ended = subprocess.run(
        [sys.executable, "-c", IGNORED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "0 ['SIG_DFL', 'SIG_DFL']"
