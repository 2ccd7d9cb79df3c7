"""Interrupting the reference: it carries out the plan, and the harness notices if it does not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import (
    Act,
    Action,
    CrashKind,
    FaultGate,
    FaultPlan,
    FaultPoints,
    Operation,
    TraceError,
    Tree,
)
from pytest_ascendcache.observation import CacheUnderTest, Interruption, NotDecidable, spread
from pytest_ascendcache.observation.evidence import PositiveControl
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import (
    AtcToolchain,
    ProcessLauncher,
    ToolchainError,
)

X = TensorDesc.of("float32", 4)
ADD = OperatorSpec("Add", (X, X), (X,), name="add")
ENABLE = CacheMode.ENABLE


@pytest.fixture(scope="module", params=["fork", "process"])
def started(request):
    toolchain = reference_toolchain(request.param)
    yield toolchain
    toolchain.close()


def points(compiling):
    return [each.point for each in compiling.operations]


def at(compiling, point):
    return next(each for each in compiling.operations if each.point == point)


def test_both_ways_of_starting_do_the_same(started, tmp_path):
    cache = CacheUnderTest(started, tmp_path, PositiveControl())
    compiling = cache.interruption(ADD, mode=ENABLE)
    assert points(compiling)[-3:] == ["store.clear", "store.object.rename", "store.metadata.rename"]
    assert compiling.strike(Action.KILL, compiling.operations[-1]).returncode == -9
    assert cache.recovery(ADD) is None


def test_a_recording_explains_what_a_compile_left(cache):
    compiling = cache.interruption(ADD, mode=ENABLE)
    assert compiling.states(CrashKind.KILLED)[-1].tree.content == Tree.read(cache.root).content
    compiling.reset()
    assert not cache.root.exists()


@pytest.mark.parametrize("action", [Action.ENOSPC, Action.EIO, Action.EACCES, Action.EROFS])
def test_an_error_strikes_where_it_is_planned(cache, action):
    compiling = cache.interruption(ADD, mode=ENABLE)
    run = compiling.strike(action, at(compiling, "store.object.write"))
    assert run.succeeded
    assert cache.delivers_fresh(run, ADD)
    assert cache.entries() == {}
    assert cache.recovery(ADD) is None


def test_a_short_write_is_made_good(cache):
    compiling = cache.interruption(ADD, mode=ENABLE)
    run = compiling.strike(Action.SHORT, at(compiling, "store.object.write"))
    assert run.succeeded
    assert cache.problems() == []


def test_a_lasting_error_lasts(cache):
    compiling = cache.interruption(ADD, mode=ENABLE)
    run = compiling.strike(Action.EROFS, compiling.operations[0])
    assert run.returncode == 255
    assert not cache.root.exists()
    run = compiling.strike(Action.ENOSPC, at(compiling, "open.ini.create"))
    assert run.succeeded
    assert [path.name for path in cache.root.rglob("*") if path.is_file()] == [
        ".op_cache.lock",
        ".op_cache.lock",
    ]


def test_a_fault_that_does_not_strike_is_noticed(cache):
    compiling = cache.interruption(ADD, mode=ENABLE)
    elsewhere = replace(compiling.operations[0], point="store.nowhere")
    with pytest.raises(NotDecidable, match="did not reach it"):
        compiling.strike(Action.KILL, elsewhere)
    with pytest.raises(NotDecidable, match="did not reach it"):
        compiling.held(elsewhere)


def test_a_compile_that_fails_cannot_be_recorded(cache):
    with pytest.raises(NotDecidable, match="ended with 255"):
        cache.interruption(ADD, mode=ENABLE, soc="Ascend1")


def test_a_toolchain_without_a_route_says_so(tmp_path):
    launcher = ProcessLauncher({"atc": ("/bin/true",)})
    bare = AtcToolchain("bare", "1", launcher, frozenset(), 60, {})
    with pytest.raises(ToolchainError, match="cannot be watched"):
        CacheUnderTest(bare, tmp_path, PositiveControl()).interruption(ADD, mode=ENABLE)


def test_a_record_that_explains_nothing_is_not_believed(tmp_path):
    root, logs = tmp_path / "root", tmp_path / "logs"
    root.mkdir()

    class Ended:
        returncode = 0

    def start(plan: FaultPlan) -> Ended:
        plan.log.write_text("")
        (root / "unseen").write_text("done behind the recorder's back")
        return Ended()

    compiling = Interruption(root, logs, FaultPoints(), start)
    with pytest.raises(NotDecidable, match=r"does not explain .* unseen"):
        compiling.states(CrashKind.KILLED)


@pytest.mark.parametrize("misses", [0, 2, 3])
def test_a_command_that_does_other_work_in_each_run_is_struck_again(tmp_path, misses):
    root, logs = tmp_path / "root", tmp_path / "logs"
    root.mkdir()
    begun = []

    class Ended:
        returncode = 0

    def start(plan: FaultPlan) -> Ended:
        begun.append((root / "once").exists())
        (root / "once").write_text("undone before each run")
        point = "elsewhere" if 1 < len(begun) <= 1 + misses else "here"
        done = {"number": 0, "point": point, "nth": 1, "act": "create", "path": f"{root}/once"}
        plan.log.write_text(json.dumps(done | {"data": "", "offset": 0, "target": ""}))
        return Ended()

    compiling = Interruption(root, logs, FaultPoints(), start)
    if misses < 3:
        assert compiling.strike(Action.ENOSPC, compiling.operations[0]).returncode == 0
    else:
        with pytest.raises(NotDecidable, match="did not reach it"):
            compiling.strike(Action.ENOSPC, compiling.operations[0])
    assert begun == [False] * (1 + min(misses + 1, 3))


@pytest.mark.parametrize("text", ["{", '{"nth": 1}', "[]", "\xff"])
def test_a_log_that_is_none_is_refused(tmp_path, text):
    log = tmp_path / "log"
    log.write_bytes(text.encode("latin-1"))
    with pytest.raises(TraceError, match="log"):
        FaultPoints().operations(FaultPlan(log), tmp_path)


def test_who_is_held_stands_still_until_released(cache):
    compiling = cache.interruption(ADD, mode=ENABLE)
    compiling.reset()
    with compiling.held(at(compiling, "store.metadata.rename")) as held:
        assert len(list(cache.root.rglob("*.temp"))) == 1
        assert cache.entries() != {}
        assert cache.problems() != []
        held.release()
        assert held.result().succeeded
    assert cache.problems() == []


@pytest.mark.parametrize("how", ["killed", "left"])
def test_who_is_held_can_be_killed(cache, how):
    compiling = cache.interruption(ADD, mode=ENABLE)
    compiling.reset()
    with compiling.held(at(compiling, "store.metadata.rename")) as held:
        if how == "killed":
            held.kill()
    assert held.result().returncode == -9
    assert cache.recovery(ADD) is None


def test_a_gate_nobody_comes_to_is_left_at_the_deadline(tmp_path):
    with FaultGate(tmp_path / "gate") as gate:
        assert not gate.wait(time.monotonic())


def test_the_recovery_says_what_is_wrong(cache):
    cache.marks = False
    cache.warm(ADD)
    with pytest.raises(NotDecidable, match="tells a reuse from a compile"):
        cache.recovery(ADD)
    cache.marks = True
    assert cache.recovery(ADD) is None


def test_a_plan_on_the_command_line(tmp_path):
    single = tmp_path / "op.json"
    single.write_text(json.dumps([{"op": "Add", "input_desc": [], "output_desc": []}]))
    plan = json.dumps({"log": str(tmp_path / "log")})
    command = [sys.executable, "-m", "pytest_ascendcache.reference.faulty", "atc", plan]
    ended = subprocess.run([*command, f"--singleop={single}"], capture_output=True, check=False)
    assert ended.returncode == 255
    assert (tmp_path / "log").read_bytes() == b""


def test_cases_are_spread_evenly():
    assert spread([1, 2, 3], 3) == [1, 2, 3]
    assert spread(list(range(100)), 4) == [0, 33, 66, 99]


def test_an_operation_says_what_it_is():
    operation = Operation(7, "store.object.write", 0, Act.WRITE, "a/b/k.o")
    assert str(operation) == "operation 7 (store.object.write of k.o)"
    assert str(FaultPlan(None, Action.EIO, operation)) == f"EIO at {operation}"
