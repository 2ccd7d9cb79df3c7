"""Stress runs without a toolchain: schedules, histories, the checker, and shrinking."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import Action
from pytest_ascendcache.stress.checker import Kind, Undecided, violations
from pytest_ascendcache.stress.history import (
    CacheSeen,
    Compile,
    Disturbance,
    Disturbed,
    Doing,
    EntrySeen,
    Fault,
    Header,
    JobEnd,
    LaterCompiles,
    RankDelivery,
    Rebuilt,
    Round,
    RoundRecord,
    Seen,
    Setting,
    StressHarm,
    StressHistory,
    StressJob,
)
from pytest_ascendcache.stress.history_file import (
    HistoryError,
    HistoryWriter,
    open_history,
    read_history,
)
from pytest_ascendcache.stress.narrative import tell
from pytest_ascendcache.stress.schedule import Schedule, population
from pytest_ascendcache.stress.shrink import shrink

ADD, EXP, FAST = "a" * 64, "e" * 64, "f" * 64
HEADER = Header(
    7, 2, ("add_0", "exp_1"), "reference 1", {"plain": (ADD, EXP), "high_performance": (ADD, FAST)}
)
SOUND = EntrySeen("te_add_0123", ADD, "m")
HALF = EntrySeen("te_add_0123", "", "m", ("the object file is missing",))
OTHERS = EntrySeen("te_add_0123", EXP, "m")


def record(
    number: int = 0,
    compiles: Sequence[Compile] = (Compile(0, (0,), CacheMode.ENABLE),),
    kernels: Sequence[str] = (ADD,),
    entries: Sequence[EntrySeen] = (SOUND,),
    returncode: int | None = 0,
    struck: str = "",
    touched: Sequence[str] = (),
    residue: Sequence[str] = (),
    disturbed: Sequence[EntrySeen] = (),
    cache: str = "shared",
    later: LaterCompiles | None = None,
) -> RoundRecord:
    """Return a round in which all compiles end in the same way."""
    again = compiles[0] if later else None
    harmed = (Disturbance(StressHarm.DAMAGE, cache, 0, "object-empty"),) if disturbed else ()
    return RoundRecord(
        Round(number, harmed, tuple(compiles), again),
        tuple(
            RankDelivery(number, each.rank, returncode, tuple(kernels), struck) for each in compiles
        ),
        Disturbed(number, (CacheSeen(cache, tuple(disturbed)),)) if disturbed else None,
        Seen(number, (CacheSeen(cache, tuple(entries), tuple(residue)),), tuple(touched)),
        later,
    )


def kinds(*records: RoundRecord, header: Header = HEADER) -> list[Kind]:
    """Return the kinds of violations that the checker finds in a history."""
    return [each.kind for each in violations(StressHistory(header, records))]


SERVED, COMPILED = LaterCompiles(0, 0, (ADD,), (True,)), LaterCompiles(0, 0, (ADD,), (False,))
TWO = (Compile(0, (0,), CacheMode.ENABLE), Compile(1, (0,), CacheMode.FORCE))
OWN = (Compile(1, (0,), CacheMode.ENABLE, shared=False),)
FAST_EXP = (Compile(0, (1,), CacheMode.ENABLE, Setting.PERFORMANCE),)


JOBS = replace(
    HEADER, networks=("net_0", "net_1"), outputs={"run": ("r0", "r1"), "build": ("b", "c")}
)
INSTALL, UNINSTALL = StressJob(0, Doing.INSTALL, 0), StressJob(1, Doing.UNINSTALL, 0)
RUN, BUILD = StressJob(0, Doing.RUN, 1), StressJob(1, Doing.BUILD, 0, of=0)


def worked(
    number: int,
    *jobs: StressJob,
    packages: Sequence[int] = (),
    index: Sequence[str] = (),
    touched: Sequence[str] = (),
    ends: Sequence[JobEnd] | None = None,
    rebuilt: Rebuilt | None = None,
) -> RoundRecord:
    """Return a round of jobs, which succeed unless ``ends`` gives other results."""
    known = {Doing.RUN: JOBS.outputs["run"], Doing.BUILD: JOBS.outputs["build"]}
    well = [
        JobEnd(number, index, 0, known[job.doing][job.number] if job.doing in known else "")
        for index, job in enumerate(jobs)
    ]
    return RoundRecord(
        Round(number, (), (), None, jobs, BUILD if rebuilt else None),
        seen=Seen(number, (), tuple(touched), tuple(packages), tuple(index)),
        ended=tuple(well if ends is None else ends),
        rebuilt=rebuilt,
    )


KILLED, FAILED = JobEnd(0, 0, -9, "", "killed before x"), JobEnd(0, 0, 1)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([record()], id="a hit or a miss"),
        pytest.param([record(compiles=TWO)], id="two at once"),
        pytest.param([record(compiles=FAST_EXP, kernels=[FAST])], id="another setting"),
        pytest.param([record(touched=["shared/kernel_cache", "rank0/work/x"])], id="own places"),
        pytest.param(
            [record(compiles=OWN, touched=["rank1/cache/a"], cache="rank1")], id="own cache"
        ),
        pytest.param(
            [record(returncode=-9, kernels=[""], struck="killed before x", entries=[HALF])],
            id="killed half way",
        ),
        pytest.param(
            [record(returncode=-9, kernels=[""], struck="killed", residue=["te_x.temp"])] * 1
            + [record(1, residue=["te_x.temp"])],
            id="a killed one's residue stays",
        ),
        pytest.param([record(disturbed=[HALF], entries=[HALF])], id="damage nobody looked at"),
        pytest.param(
            [record(disturbed=[HALF], entries=[HALF]), record(1, entries=[HALF])],
            id="damage stays a while",
        ),
        pytest.param([record(later=SERVED)], id="served later"),
        pytest.param(
            [record(disturbed=[HALF], entries=[HALF], later=COMPILED)], id="damage is not mended"
        ),
        pytest.param(
            [worked(0, INSTALL, packages=[0]), worked(1, packages=[0]), worked(2, UNINSTALL)],
            id="a package comes and goes",
        ),
        pytest.param([worked(0, INSTALL, UNINSTALL)], id="both at once, and it goes"),
        pytest.param(
            [worked(0, INSTALL, UNINSTALL, packages=[0])], id="both at once, and it stays"
        ),
        pytest.param([worked(0, RUN, BUILD, touched=["build/rank_0/a"])], id="outputs are right"),
        pytest.param(
            [
                worked(0, INSTALL, ends=[KILLED], packages=[0], index=["lacks"]),
                worked(1, packages=[0], index=["lacks"]),
            ],
            id="what a killed installer left stays for a while",
        ),
        pytest.param([worked(0, UNINSTALL, ends=[FAILED])], id="it was not installed"),
        pytest.param([worked(0, rebuilt=Rebuilt(0, 0, "b", ()))], id="a build is used again"),
    ],
)
def test_nothing_is_found_in_a_right_history(records: list[RoundRecord]) -> None:
    assert kinds(*records, header=JOBS) == []


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        pytest.param([record(kernels=[EXP])], Kind.WRONG_KERNEL, id="another's kernel"),
        pytest.param([record(kernels=["0" * 64])], Kind.WRONG_KERNEL, id="nobody's kernel"),
        pytest.param(
            [record(compiles=FAST_EXP, kernels=[EXP])],
            Kind.WRONG_KERNEL,
            id="another setting's",
        ),
        pytest.param([record(kernels=[""])], Kind.NO_KERNEL, id="nothing delivered"),
        pytest.param([record(returncode=1)], Kind.NO_KERNEL, id="failed"),
        pytest.param([record(returncode=-9)], Kind.NO_KERNEL, id="killed by nobody"),
        pytest.param([record(entries=[HALF])], Kind.MIXED_ENTRY, id="half an entry"),
        pytest.param([record(entries=[OTHERS])], Kind.MIXED_ENTRY, id="another's object"),
        pytest.param(
            [record(), record(1, entries=[replace(SOUND, object=FAST)])],
            Kind.MIXED_ENTRY,
            id="two kernels under one name",
        ),
        pytest.param(
            [
                record(disturbed=[HALF], entries=[HALF]),
                record(1, entries=[replace(HALF, metadata="n")]),
            ],
            Kind.MIXED_ENTRY,
            id="broken otherwise than by the damage",
        ),
        pytest.param([record(residue=["te_x.temp"])], Kind.RESIDUE, id="temporary file"),
        pytest.param(
            [record(touched=["rank1/cache/a"])],
            Kind.FOREIGN_DIRECTORY,
            id="another rank's cache",
        ),
        pytest.param(
            [record(touched=["rank0/cache/a"])],
            Kind.FOREIGN_DIRECTORY,
            id="own, but not given",
        ),
        pytest.param(
            [record(compiles=OWN, touched=["shared/a"], cache="rank1")],
            Kind.FOREIGN_DIRECTORY,
            id="shared, but not given",
        ),
        pytest.param([record(later=COMPILED)], Kind.POISON, id="compiled again by every later run"),
        pytest.param(
            [record(later=replace(COMPILED, returncode=1, kernels=("",)))],
            Kind.NO_KERNEL,
            id="every later run fails",
        ),
        pytest.param(
            [record(later=replace(SERVED, kernels=(EXP,)))],
            Kind.WRONG_KERNEL,
            id="wrong later",
        ),
        pytest.param(
            [
                record(
                    returncode=-9, kernels=[""], struck="killed", entries=[HALF], later=COMPILED
                ),
            ],
            Kind.POISON,
            id="what a killed one left is never mended",
        ),
        pytest.param(
            [record(touched=["rank10/work/a"])], Kind.FOREIGN_DIRECTORY, id="a longer number"
        ),
        pytest.param([worked(0, INSTALL)], Kind.PACKAGE, id="installed, and not there"),
        pytest.param(
            [worked(0, INSTALL, packages=[0]), worked(1)], Kind.PACKAGE, id="gone by itself"
        ),
        pytest.param(
            [worked(0, INSTALL, packages=[0]), worked(1, UNINSTALL, packages=[0])],
            Kind.PACKAGE,
            id="there after it was uninstalled",
        ),
        pytest.param([worked(0, packages=[1])], Kind.PACKAGE, id="nobody installed it"),
        pytest.param(
            [worked(0, INSTALL, packages=[0], index=["lacks"])],
            Kind.INDEX,
            id="not in the index",
        ),
        pytest.param(
            [worked(0, INSTALL, ends=[FAILED], packages=[0])],
            Kind.NO_OUTPUT,
            id="an install fails",
        ),
        pytest.param(
            [
                worked(0, INSTALL, packages=[0]),
                worked(1, UNINSTALL, ends=[replace(FAILED, round=1)]),
            ],
            Kind.NO_OUTPUT,
            id="an uninstall fails",
        ),
        pytest.param([worked(0, RUN, ends=[FAILED])], Kind.NO_OUTPUT, id="a client fails"),
        pytest.param(
            [worked(0, RUN, ends=[JobEnd(0, 0, 0, "r0")])],
            Kind.WRONG_KERNEL,
            id="another's outputs",
        ),
        pytest.param(
            [worked(0, BUILD, ends=[JobEnd(0, 0, 0, "x")])],
            Kind.WRONG_KERNEL,
            id="wrong build",
        ),
        pytest.param(
            [worked(0, BUILD, touched=["build/rank_1/a"])],
            Kind.FOREIGN_DIRECTORY,
            id="a rank's directory that nobody built in",
        ),
        pytest.param(
            [worked(0, rebuilt=Rebuilt(0, 0, "b", ("rank_0/x.o",)))],
            Kind.POISON,
            id="built again by every later run",
        ),
        pytest.param(
            [worked(0, rebuilt=Rebuilt(0, 1, "", ()))],
            Kind.NO_OUTPUT,
            id="no later run builds",
        ),
    ],
)
def test_each_kind_of_violation_is_found(records: list[RoundRecord], kind: Kind) -> None:
    assert kinds(*records, header=JOBS) == [kind]


def test_writers_that_do_not_see_each_others_locks_may_leave_halves() -> None:
    local, nodes = HEADER, replace(HEADER, nodes=2, profile="nfs-nolock")
    assert kinds(record(entries=[HALF]), header=local) == [Kind.MIXED_ENTRY]
    assert kinds(record(entries=[HALF]), header=nodes) == []
    assert kinds(record(entries=[OTHERS]), header=nodes) == [Kind.MIXED_ENTRY]
    assert kinds(record(entries=[HALF], later=COMPILED), header=nodes) == [Kind.POISON]
    without = replace(nodes, profile="no-locks")
    assert kinds(record(entries=[HALF], later=COMPILED), header=without) == []


def test_ranks_are_spread_over_nodes_in_their_order() -> None:
    header = replace(HEADER, ranks=8, nodes=4)
    assert [header.node(rank) for rank in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_hang_and_a_hole_cannot_be_judged() -> None:
    with pytest.raises(Undecided, match="rank 0 did not end"):
        kinds(record(returncode=None))
    with pytest.raises(Undecided, match="round 0 of the history is not whole"):
        kinds(replace(record(), seen=None), record(1))
    with pytest.raises(Undecided, match="round 0 of the history is not whole"):
        kinds(replace(record(later=SERVED), later=None), record(1))
    assert kinds(record(), replace(record(1), seen=None)) == []


# --- schedules ---------------------------------------------------------------------------------


def test_a_seed_decides_everything() -> None:
    def rounds(seed: int) -> list[Round]:
        schedule = Schedule(seed, 4, 8, frozenset({Action.KILL, Action.TEAR, Action.HOLD}))
        return list(islice(schedule.rounds(), 200))

    assert rounds(3) == rounds(3)
    assert rounds(3) != rounds(4)
    compiles = [each for one in rounds(3) for each in one.compiles]
    assert {each.mode for each in compiles} == set(CacheMode)
    assert {each.setting for each in compiles} == set(Setting)
    assert {each.shared for each in compiles} == {True, False}
    assert {each.fault.action for each in compiles if each.fault} == {
        Action.KILL,
        Action.TEAR,
        Action.HOLD,
    }
    assert {each.harm for one in rounds(3) for each in one.disturbances} == set(StressHarm)
    assert all(len({each.rank for each in one.compiles}) == len(one.compiles) for one in rounds(3))


def test_a_seed_decides_the_jobs_too() -> None:
    schedule = Schedule(
        3, 4, 8, doings=frozenset(Doing), networks=2, strikes=frozenset({Action.KILL})
    )
    rounds = list(islice(schedule.rounds(), 200))
    assert rounds == list(islice(schedule.rounds(), 200))
    jobs = [each for one in rounds for each in one.jobs]
    assert {each.doing for each in jobs} == set(Doing)
    assert {each.number for each in jobs} == {0, 1}
    assert {each.fault.action for each in jobs if each.fault} == {Action.KILL}
    assert any(each.of != each.rank for each in jobs)
    assert {one.rebuild.doing for one in rounds if one.rebuild} == {Doing.BUILD}
    compiles = [one.compiles for one in islice(Schedule(3, 4, 8).rounds(), 200)]
    assert compiles == [one.compiles for one in rounds], "the rest is as it is without jobs"


def test_no_fault_is_planned_that_cannot_be_brought_in() -> None:
    rounds = islice(Schedule(1, 4, 8, settings=frozenset({Setting.PLAIN})).rounds(), 100)
    compiles = [each for one in rounds for each in one.compiles]
    assert {each.fault for each in compiles} == {None}
    assert {each.setting for each in compiles} == {Setting.PLAIN}


def test_the_population_does_not_depend_on_its_size() -> None:
    assert population(64)[:8] == population(8)
    assert len(set(population(64))) == 64


# --- histories ---------------------------------------------------------------------------------


def written(path: Path, *records: RoundRecord, header: Header = HEADER) -> StressHistory:
    """Write a history to ``path``. Returns it as the writer keeps it."""
    with HistoryWriter(path, header) as writer:
        for line in StressHistory(header, records).lines():
            writer.write(line)
    return writer.history


def test_a_history_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    fault = (
        Compile(
            1,
            (1, 0),
            CacheMode.FORCE,
            Setting.DEBUG,
            False,
            True,
            Fault(Action.TEAR, 5),
        ),
    )
    records = (
        record(disturbed=[HALF], later=SERVED),
        record(1, compiles=fault, kernels=[EXP, ADD]),
    )
    history = written(path, *records)
    assert history == StressHistory(HEADER, records)
    assert read_history(path) == history


def test_jobs_come_back_as_they_were_written(tmp_path: Path) -> None:
    records = (
        worked(0, replace(INSTALL, fault=Fault(Action.HOLD, 3)), packages=[0]),
        worked(1, RUN, rebuilt=Rebuilt(1, 0, "b", ("x",))),
    )
    path = tmp_path / "h.jsonl"
    lines = "\n".join(tell(written(path, *records, header=JOBS)))
    assert read_history(path) == StressHistory(JOBS, records)
    assert "rank 0: install the package of net_0 -> exit status 0" in lines
    assert "rank 1: build net_0 as rank 0, twice, by itself afterwards" in lines
    path.write_text(path.read_text().replace('"number":1,"of"', '"number":7,"of"'))
    with pytest.raises(HistoryError, match="there is no network 7"):
        read_history(path)


def test_a_history_is_not_kept_in_memory(tmp_path: Path) -> None:
    """A run may take days: the writer keeps no line, and its rounds are read one by one."""
    path = tmp_path / "h.jsonl"
    with HistoryWriter(path, HEADER) as writer:
        line = Round(0, (), ())
        writer.write(line)
        kept = weakref.ref(line)
        del line
        assert kept() is None
    path.write_text(path.read_text() + '{"line": "round", "number": 1')
    header, rounds = open_history(path)
    assert header == HEADER
    with pytest.raises(HistoryError, match=r"h\.jsonl:3"):
        next(rounds)


def test_a_run_that_was_killed_leaves_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    written(path, record(), record(1))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-2]))
    assert [each.is_whole for each in read_history(path).rounds] == [True, False]


def _edit(**changes: object) -> Callable[[str], str]:
    return lambda line: json.dumps({**json.loads(line), **changes})


@pytest.mark.parametrize(
    ("line", "edit", "message"),
    [
        (1, lambda line: line[: len(line) // 2], r"h\.jsonl:1: not a line of a history"),
        (3, lambda line: line[: len(line) // 2], r"h\.jsonl:3: not a line of a history"),
        (2, _edit(line="strange"), r"h\.jsonl:2: not a line of a history"),
        (2, _edit(extra=1), r"h\.jsonl:2: .*unknown field 'extra'"),
        (2, _edit(number="0"), r"h\.jsonl:2: .*'0' is not of type int"),
        (3, _edit(round=9), r"h\.jsonl:3: this line does not belong to the round before it"),
        (1, _edit(schema=2), r"h\.jsonl:1: schema 2; this version reads 1"),
        (1, _edit(ranks=0), r"h\.jsonl:2: there is no rank 0"),
        (1, _edit(operators=[]), r"h\.jsonl:2: some of the operators \(0,\) do not exist"),
        (1, lambda _: "[]", r"h\.jsonl:1: not a line of a history"),
        (1, lambda _: "{}", r"h\.jsonl:1: .*does not say which kind of line it is"),
        (1, lambda _: "[" * 100_000, r"h\.jsonl:1: .*it is not JSON"),
        (2, lambda _: '{"line": "round"}', r"h\.jsonl:2: .*the field '.*' is missing"),
    ],
)
def test_a_damaged_history_is_refused_by_its_line(
    tmp_path: Path, line: int, edit: Callable[[str], str], message: str
) -> None:
    path = tmp_path / "h.jsonl"
    written(path, record())
    lines = path.read_text().splitlines()
    lines[line - 1] = edit(lines[line - 1])
    path.write_text("\n".join(lines))
    with pytest.raises(HistoryError, match=message):
        read_history(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", None])
def test_what_is_no_history_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "h.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"h\.jsonl"):
        read_history(path)


def test_a_history_is_told_step_by_step() -> None:
    lines = "\n".join(tell(StressHistory(HEADER, (record(compiles=TWO, disturbed=[HALF]),))))
    assert "valid entry 0 of shared is damaged: object-empty" in lines
    assert "rank 1: force add_0 (plain) in shared -> exit status 0 at the same time" in lines


# --- shrinking ---------------------------------------------------------------------------------


def test_the_shortest_failing_history_is_found() -> None:
    """A history fails if rank 1 forces exp_1 and rank 0 compiles add_0 in a later round."""
    schedule = Schedule(5, 2, 2, frozenset({Action.KILL}))
    rounds = list(islice(schedule.rounds(), 60))
    executions = 0

    def attempt(candidate: Sequence[Round]) -> StressHistory | None:
        nonlocal executions
        executions += 1
        forced = False
        for index, one in enumerate(candidate):
            if forced and any(each.rank == 0 and 0 in each.operators for each in one.compiles):
                return StressHistory(HEADER, tuple(map(RoundRecord, candidate[: index + 1])))
            forced = forced or any(
                each.mode is CacheMode.FORCE and each.rank == 1 and 1 in each.operators
                for each in one.compiles
            )
        return None

    failing = attempt(rounds)
    assert failing is not None
    shrunk = shrink(failing, attempt, seconds=60, tries=1)
    first, second = (each.round for each in shrunk.history.rounds)
    assert shrunk.done
    assert shrunk.executions == executions - 1
    assert [(each.rank, each.operators, each.fault) for each in first.compiles] == [(1, (1,), None)]
    assert [(each.rank, each.operators) for each in second.compiles] == [(0, (0,))]
    assert not first.disturbances
    assert not second.disturbances


def test_shrinking_ends_with_its_budget() -> None:
    rounds = tuple(map(RoundRecord, islice(Schedule(1, 2, 2).rounds(), 8)))
    history = StressHistory(HEADER, rounds)
    shrunk = shrink(history, lambda _: None, seconds=60, tries=2, most=5)
    assert (shrunk.history, shrunk.executions, shrunk.done) == (history, 5, False)
