"""Races: readers and writers that meet in the worst moments.

Luck is not needed: a process is made to stand still right before one of its file operations
while another one does all of its work.
"""

from __future__ import annotations

import pytest

from pytest_ascendcache.caches import Entry, find_canaries
from pytest_ascendcache.conformance.kit.states import residue
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, rule
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.faults import Act, Action, CrashKind, Operation
from pytest_ascendcache.observation import CacheUnderTest, Interruption, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec

KILLED, MID_WRITE = CrashKind.KILLED, CrashKind.MID_WRITE

_TRIES = 0.3
"""Seconds after which who was let go before a lock has found it taken. No verdict rests on it: who
is slower finds it free."""


@pytest.fixture
def _holds(cache: CacheUnderTest) -> None:
    """Needs a toolchain that can be made to stand still."""
    if Action.HOLD not in cache.toolchain.fault_route().actions:
        pytest.skip(f"{cache.toolchain.name}: it cannot be held at a file operation")


@pytest.fixture
def marked(cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec) -> Entry:
    """A marked entry beside another; from here on nothing is marked."""
    cache.needs_reuse()
    cache.warm(add, exp)
    cache.mark()
    cache.marks = False
    return cache.entry(add)


@rule("robust/no-torn-entry")
@pytest.mark.parametrize("kind", [KILLED, MID_WRITE], ids=lambda each: each.name)
def test_a_reader_meets_a_writer_at_every_moment(
    cache: CacheUnderTest, add: OperatorSpec, marked: Entry, kind: CrashKind
) -> None:
    old = marked.object
    writing = cache.interruption(add, mode=FORCE)
    for state in writing.states(kind):
        writing.enter(state)
        whole = Entry(marked.stem, marked.directory).is_valid
        run = cache.attempt(add, mode=ENABLE)
        where = f"while a writer is {state.when.removeprefix('before ')}"
        assert run.succeeded, f"{where}: the compile {run.result.ending}"
        if find_canaries(run.model(add).read_bytes()):
            assert whole, f"{where}: the object of one writer with metadata of another is served"
            assert run.kernel(add) == old, f"{where}: half a kernel is served"
        else:
            assert cache.delivers_fresh(run, add), f"{where}: a wrong kernel is delivered"


@rule("robust/no-torn-entry")
@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("forced", ["the-same", "another"])
def test_a_reader_is_overtaken_by_a_writer(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, marked: Entry, forced: str
) -> None:
    old = marked.object
    reading = cache.interruption(add, mode=ENABLE)
    reads = [each for each in reading.holdable if each.act is Act.READ]
    own = [each for each in reads if marked.stem in each.path]
    for operation in reading.worthwhile(own):
        reading.reset()
        with reading.held(operation) as reader:
            writer = cache.attempt(add if forced == "the-same" else exp, mode=FORCE)
            reader.release()
            run = reader.result()
        where = f"overtaken by a writer before {operation}"
        assert writer.succeeded, f"{where}: the writer {writer.result.ending}"
        assert run.succeeded, f"{where}: the reader {run.result.ending}"
        assert _is(run, add, old) or cache.delivers_fresh(run, add), f"{where}: a wrong kernel"
        assert cache.problems() == [], where


def _is(run: Run, operator: OperatorSpec, kernel: bytes | None) -> bool:
    return bool(find_canaries(run.model(operator).read_bytes())) and run.kernel(operator) == kernel


@rule("cache-mode/parallel-force")
@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("forced", ["the-same", "another"])
def test_force_meets_a_writer_at_every_moment(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, forced: str
) -> None:
    cache.marks = False
    cache.warm(exp)
    other = add if forced == "the-same" else exp
    writing = cache.interruption(add, mode=ENABLE)
    locks = [each for each in writing.operations if each.act is Act.LOCK]
    forcing = cache.interruption(other, mode=FORCE)
    waits = [each for each in forcing.operations if each.act is Act.LOCK]
    for operation in writing.operations:
        if not operation.act.changes:
            continue
        writing.reset()
        with writing.held(operation) as writer:
            if locks and waits and operation.number > locks[-1].number:
                # Force has to wait for the writer: let both go once it is about to.
                with forcing.held(waits[0], may_end=True) as second:
                    second.release()
                    writer.release()
                    force = second.result()
            else:
                force = cache.attempt(other, mode=FORCE)
                writer.release()
            run = writer.result()
        where = f"while a writer stands before {operation}"
        assert force.succeeded, f"{where}: force {force.result.ending}"
        assert run.succeeded, f"{where}: the writer {run.result.ending}"
        assert cache.delivers_fresh(force, other), f"{where}: force delivers a wrong kernel"
        assert cache.delivers_fresh(run, add), f"{where}: the writer delivers a wrong kernel"
        assert cache.problems() == [], where
        cache.trust_marks()
        problem = cache.recovery(add)
        cache.marks = False
        assert problem is None, f"{where}: {problem}"


@rule("cache-mode/force-purges-soc")
@pytest.mark.usefixtures("_holds")
def test_force_that_has_to_wait_purges(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, mul: OperatorSpec
) -> None:
    """A writer stands before its last change; force comes, and both go on."""
    cache.marks = False
    cache.warm(exp)
    old = cache.entry(exp)
    writing = cache.interruption(add, mode=ENABLE)
    changes = [each for each in writing.holdable if each.act.changes]
    forcing = cache.interruption(mul, mode=FORCE)
    waits = [each for each in forcing.holdable if each.act is Act.LOCK]
    if not changes:
        raise NotDecidable("a run that stores was not seen to change a file")
    if not waits:
        pytest.skip("force was not seen to take a lock for which it could have to wait")
    writing.reset()
    if not old.is_valid:
        raise NotDecidable("the entry of before force cannot be put back")
    with writing.held(changes[-1]) as writer, forcing.held(waits[0], may_end=True) as second:
        second.release()
        second.ends_within(_TRIES)
        writer.release()
        force = second.result()
        writer.result()
    assert force.succeeded, f"beside a writer force {force.result.ending}"
    assert not old.object_path.exists(), "an entry is still there that is older than force"


@rule("robust/same-key-race")
@pytest.mark.usefixtures("_holds")
def test_two_writers_meet_at_every_moment(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.marks = False
    cache.warm(exp)
    writing = cache.interruption(add, mode=ENABLE)
    locks = [each for each in writing.operations if each.act is Act.LOCK]
    changes = [each for each in writing.holdable if each.act.changes]
    for operation in writing.worthwhile(changes):
        writing.reset()
        with writing.held(operation) as first:
            if locks and operation.number > locks[-1].number:
                # The second has to wait for the first: let both go once it is about to.
                with writing.held(locks[-1], may_end=True) as other:
                    other.release()
                    first.release()
                    second = other.result()
            else:
                second = cache.attempt(add, mode=ENABLE)
                first.release()
            runs = (first.result(), second)
        where = f"while another stands before {operation}"
        for run in runs:
            assert run.succeeded, f"{where}: a compile {run.result.ending}"
            assert cache.delivers_fresh(run, add), f"{where}: a wrong kernel is delivered"
        entries = [each for each in cache.entries().values() if each.operator_type == "add"]
        assert len(entries) == 1, f"{where}: one key has {len(entries)} entries"
        assert cache.problems() == [], where
        assert residue(cache) == [], where


@rule("robust/same-key-race")
@pytest.mark.usefixtures("_holds")
def test_two_runs_meet_whose_operators_come_in_opposite_orders(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Each run has kept one operator and is about to look up the one that the other has kept.

    Runs that hold on to what they have kept would wait for each other for ever.
    """
    cache.marks = False
    one = cache.interruption(add, exp, mode=ENABLE)
    stems = {each.operator_type: stem for stem, each in cache.entries().items()}
    one.reset()
    other = cache.interruption(exp, add, mode=ENABLE)
    first = _turn(one, stems["add"], stems["exp"])
    second = _turn(other, stems["exp"], stems["add"])
    runs = _meeting(one, first, other, second)
    if _stuck(runs):  # once, a busy machine may be to blame
        runs = _meeting(one, first, other, second)
    if _stuck(runs):
        one.reset()
        with one.held(first) as alone:
            alone.release()
        if not alone.result().succeeded:
            raise NotDecidable("held and let go, a run does not succeed even when it is alone")
        cache.evidence.saw(Harm.HANG, "two runs wait for each other, and neither ends")
    for run in runs:
        assert run.succeeded, f"beside a run with the other order, a compile {run.result.ending}"
        for operator in (add, exp):
            assert cache.delivers_fresh(run, operator), f"{operator}: a wrong kernel is delivered"
    assert cache.problems() == []
    assert residue(cache) == []


def _turn(run: Interruption[Run], kept: str, following: str) -> Operation:
    """The operation with which a run turns from an entry that it has kept to the next one."""
    changes = [each.number for each in run.operations if each.act.changes and kept in each.path]
    turns = [each for each in run.holdable if changes and each.number > max(changes)]
    later = [each for each in turns if following in each.path]
    if not later:
        raise NotDecidable(f"{kept} is not kept before {following} is looked at")
    return later[0]


def _meeting(
    one: Interruption[Run], first: Operation, other: Interruption[Run], second: Operation
) -> tuple[Run, Run]:
    """Both runs, each let go when both stand, or when the second waits for the first."""
    one.reset()
    with one.held(first) as a, other.held(second, may_end=True) as b:
        a.release()
        b.release()
        return a.result(), b.result()


def _stuck(runs: tuple[Run, Run]) -> bool:
    """Whether one had to be killed, which lets the other go on."""
    return any(run.result.returncode is None for run in runs)
