"""Stress runs on the reference, started like a user's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import Action
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.stress.checker import violations
from pytest_ascendcache.stress.executor import Executor
from pytest_ascendcache.stress.ground import prepare
from pytest_ascendcache.stress.history import (
    Compile,
    Doing,
    Fault,
    Header,
    LaterCompiles,
    Round,
    Setting,
    StressJob,
)
from pytest_ascendcache.stress.history_file import HistoryWriter, read_history
from pytest_ascendcache.stress.jobs import NETWORKS
from pytest_ascendcache.stress.schedule import population

RANDOM = ("--ascend-cache", "--ascend-rule=robust/stress", "-k", "ranks_at_random")
SMALL = ("--ascend-ranks=2", "--override-ini=ascend_stress_operators=2")
"""Options that make steps cheap, because shortening a history takes hundreds of steps."""


def test_a_clean_run_passes_and_can_be_carried_out_again(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        *RANDOM,
        "--ascend-stress=6steps",
        "--ascend-seed=3",
        "--override-ini=ascend_stress_history=h.jsonl",
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*stress: seed 3, 4 ranks x 8 operators, * 0 violations"])
    result.stdout.fnmatch_lines(["*runs of the compiler: [1-9]*; operators delivered: [1-9]*"])
    history = read_history(pytester.path / "h.jsonl")
    assert history.steps >= 6
    assert violations(history) == []
    again = pytester.runpytest_subprocess(
        *RANDOM, "--ascend-stress=h.jsonl", "--override-ini=ascend_stress_history=again.jsonl"
    )
    assert again.ret == 0
    replayed = read_history(pytester.path / "again.jsonl")
    assert [each.round for each in replayed.rounds] == [each.round for each in history.rounds]


@pytest.mark.nightly  # by day, ci/qualify tries defects and test_stress.py shortens histories
def test_a_defect_fails_with_the_shortest_history(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        *RANDOM,
        *SMALL,
        "--ascend-strict",
        "--ascend-stress=60steps",
        "--ascend-seed=2",
        "--override-ini=ascend_stress_history=h.jsonl",
        "--ascend-defect=force-reaches-other-ranks",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*directory of another in round *: rank*",
            "*shortest history that still fails: * steps*",
            "*carry it out again: --ascend-stress=*h.shortest.jsonl",
            "harm *files outside touched: directory of another in round *: rank*",
            "repeat *--ascend-seed=2 *--ascend-stress=60steps -o *",
        ]
    )
    history = read_history(pytester.path / "h.jsonl")
    assert violations(history)
    shortest = read_history(pytester.path / "h.shortest.jsonl")
    assert violations(shortest)
    assert shortest.steps < history.steps
    # How far the run gets in its time depends on the machine.
    assert len(shortest.rounds) <= 3 or "no time for more" in result.stdout.str()
    again = pytester.runpytest_subprocess(
        *RANDOM,
        "--ascend-strict",
        "--ascend-stress=h.shortest.jsonl",
        "--ascend-defect=force-reaches-other-ranks",
    )
    assert again.ret == 1


ON_NODES = (
    *("--ascend-nodes=2", "--ascend-rule=robust/stress", "-k", "nfs-nolock"),
    *("--ascend-stress=nodes.jsonl", "--override-ini=ascend_stress_history=h.jsonl"),
)


@pytest.mark.parametrize(
    "defect", ["", pytest.param("a-taken-name-is-noted-as-broken", marks=pytest.mark.nightly)]
)
def test_ranks_on_nodes_share_a_directory(pytester: pytest.Pytester, defect: str) -> None:
    """A rank that looked up names too early is killed. A rank on another node creates the names."""
    operators = tuple(each.name for each in population(2))
    header = Header(1, 2, operators, "reference", {}, 2, "nfs-nolock")
    plain = [Compile(rank, (0,), CacheMode.ENABLE) for rank in (0, 1)]
    early = replace(plain[1], fault=Fault(Action.KILL, 13))  # at the write of its object
    with HistoryWriter(pytester.path / "nodes.jsonl", header) as writer:
        for number, one in enumerate((early, plain[0], plain[1], plain[1])):
            writer.write(Round(number, (), (one,), plain[0] if number == 3 else None))
    options = [f"--ascend-defect={defect}"] if defect else []
    result = pytester.runpytest_subprocess(*ON_NODES, *options)
    if "skipped" in result.parseoutcomes():
        pytest.skip("nodes cannot be had on this machine")
    result.stdout.fnmatch_lines(["*stress on 2 nodes, nfs-nolock"])
    assert result.ret == (1 if defect else 0)
    rounds = read_history(pytester.path / "h.nfs-nolock.jsonl").rounds
    assert rounds[0].deliveries[0].killed
    if defect:
        result.stdout.fnmatch_lines(["*no kernel in round *: rank 1 under enable ended with 70*"])
    else:
        assert rounds[3].later == LaterCompiles(3, 0, rounds[3].deliveries[0].kernels, (True,))


@pytest.mark.parametrize(
    "defect", [pytest.param("", marks=pytest.mark.nightly), "list-rests-on-its-lock"]
)
def test_ranks_on_nodes_install_at_once(pytester: pytest.Pytester, defect: str) -> None:
    """A rank stops in the middle of an install. A rank on another node installs another package."""
    operators = tuple(each.name for each in population(1))
    networks = tuple(each.name for each in NETWORKS)
    header = Header(1, 2, operators, "reference", {}, 2, "nfs-nolock", networks=networks)
    held = StressJob(0, Doing.INSTALL, 0, fault=Fault(Action.HOLD, 10))
    jobs = (held, StressJob(1, Doing.INSTALL, 1))
    with HistoryWriter(pytester.path / "nodes.jsonl", header) as writer:
        writer.write(Round(0, (), (), None, jobs))
        writer.write(
            Round(1, (), (), None, (StressJob(1, Doing.RUN, 0), StressJob(0, Doing.BUILD, 1)))
        )
    options = [f"--ascend-defect={defect}"] if defect else []
    result = pytester.runpytest_subprocess(*ON_NODES, "--ascend-strict", *options)
    if "skipped" in result.parseoutcomes():
        pytest.skip("nodes cannot be had on this machine")
    assert result.ret == (1 if defect else 0)
    rounds = read_history(pytester.path / "h.nfs-nolock.jsonl").rounds
    assert rounds[0].ended[0].struck.startswith("made to wait")
    assert rounds[0].seen is not None
    assert rounds[0].seen.packages == (0, 1)
    if defect:
        result.stdout.fnmatch_lines(["*index of something else in round 0: the index lacks *"])


def test_nothing_of_it_is_collected_unless_asked_for(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--ascend-cache", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*stress*")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--ascend-stress=no.jsonl", "--ascend-stress: *no.jsonl: No such file *; name a *"),
        ("--ascend-stress=bad.jsonl", "--ascend-stress: *bad.jsonl:1: not a line of*"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(
    pytester: pytest.Pytester, option: str, message: str
) -> None:
    pytester.makefile(".jsonl", bad="{")
    result = pytester.runpytest_subprocess("--ascend-cache", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_stress_is_not_left_out_where_other_rules_are_selected(
    pytester: pytest.Pytester,
) -> None:
    rule = "--ascend-rule=cache-mode/enable-stores"
    result = pytester.runpytest_subprocess("--ascend-stress=10m", rule)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = "--ascend-stress=10m runs nothing where other rules are selected; add *"
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_a_history_of_nodes_is_not_carried_out_on_one(pytester: pytest.Pytester) -> None:
    header = Header(1, 2, ("add_0",), "reference 1", {"plain": ("a" * 64,)}, 2, "nfs-nolock")
    with HistoryWriter(pytester.path / "h.jsonl", header):
        pass
    result = pytester.runpytest_subprocess("--ascend-stress=h.jsonl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *was recorded on 2 nodes, and --ascend-nodes says 1; add *=2."]
    )


def test_a_replay_and_a_seed_exclude_each_other(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-cache", "--ascend-stress=x.jsonl", "--ascend-seed=1"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_kills_and_holds_strike_where_they_are_planned(tmp_path: Path) -> None:
    toolchain = reference_toolchain()
    try:
        (tmp_path / "ground").mkdir()
        ground = prepare(toolchain, population(2), 2, 1, tmp_path / "ground")
        assert ground.actions == {Action.KILL, Action.TEAR, Action.HOLD}
        assert ground.settings == set(Setting)
        assert ground.jobs.doings == set(Doing)
        modes = [ground.header.kernel(each, 1) for each in (Setting.PRECISION, Setting.PERFORMANCE)]
        assert len(set(modes)) == 2, "both modes of exp_1 have one kernel"
        executor = Executor(ground, tmp_path / "run")
        torn = Compile(0, (0,), CacheMode.ENABLE, fault=Fault(Action.TEAR, 2))
        beside = Compile(1, (1,), CacheMode.ENABLE, shared=False)
        held = Compile(0, (0,), CacheMode.ENABLE, fault=Fault(Action.HOLD, 0))
        forcing = Compile(1, (0,), CacheMode.FORCE)
        with HistoryWriter(tmp_path / "h.jsonl", ground.header) as writer:
            first = executor.carry_out(Round(0, (), (torn, beside)), writer)
            second = executor.carry_out(Round(1, (), (held, forcing)), writer)
    finally:
        toolchain.close()
    assert [each.killed for each in first.deliveries] == [True, False]
    assert first.deliveries[0].struck.startswith("killed in the middle of ")
    assert second.deliveries[0].struck.startswith("made to wait before ")
    assert [each.returncode for each in second.deliveries] == [0, 0]
    assert violations(writer.history) == []
