"""Races: readers and writers that meet at the worst moments. This needs no luck: one is held right
before a file operation while another does all of its work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_ascendcache.caches import Entry, find_canaries
from pytest_ascendcache.conformance.kit.states import residue
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, needs, rule
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.facts import Delivery, Ending, outcome_fact
from pytest_ascendcache.contract.outcome import ABSENT, STORED
from pytest_ascendcache.faults import Act, Action, CrashKind, Operation
from pytest_ascendcache.observation import CacheUnderTest, Interruption, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec

KILLED, MID_WRITE = CrashKind.KILLED, CrashKind.MID_WRITE


@pytest.fixture
def _holds(cache: CacheUnderTest) -> None:
    """The check needs a toolchain that can be held."""
    needs(cache.toolchain, Action.HOLD)


@pytest.fixture
def marked(cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec) -> Entry:
    """A marked entry next to another. No entry is marked from here on."""
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
    old = marked.object_bytes
    writing = cache.interruption(add, mode=FORCE)
    for state in writing.states(kind):
        writing.enter(state)
        whole = Entry(marked.stem, marked.directory).is_valid
        run = cache.attempt(add, mode=ENABLE)
        where = f"while a writer is {state.when.removeprefix('before ')}"
        assert run.succeeded, f"{where}: the compile {run.result.ending}"
        if find_canaries(run.model(add).read_bytes()):
            assert whole, cache.evidence.found(
                Delivery.UNVERIFIED,
                f"{where}: the object of one writer with metadata of another is served",
            )
            assert run.kernel_as_delivered(add) == old, cache.evidence.found(
                Delivery.ANOTHER, f"{where}: half a kernel is served"
            )
        else:
            assert cache.delivers_fresh(run, add), f"{where}: a wrong kernel is delivered"


@rule("robust/no-torn-entry")
@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("forced", ["the-same", "another"])
def test_a_reader_is_overtaken_by_a_writer(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, marked: Entry, forced: str
) -> None:
    old = marked.object_bytes
    reading = cache.interruption(add, mode=ENABLE)
    other = add if forced == "the-same" else exp
    reads = [each for each in reading.holdable if each.act is Act.READ]
    own = [each for each in reads if marked.stem in each.path]
    if not own:
        raise NotDecidable("a compile that reuses an entry opens none of its files for reading")
    for operation in reading.worthwhile(own):
        reading.reset()
        run, writer = reading.meets(operation, _starts(cache, other, FORCE))
        where = f"overtaken by a writer before {operation}"
        assert writer.succeeded, f"{where}: the writer {writer.result.ending}"
        assert run.succeeded, f"{where}: the reader {run.result.ending}"
        assert _is(run, add, old) or cache.delivers_fresh(run, add), f"{where}: a wrong kernel"
        assert cache.problems() == [], where


def _starts(cache: CacheUnderTest, operator: OperatorSpec, mode: CacheMode) -> Callable[[], Run]:
    """A compile that another one meets: what both change is looked at when both have ended."""
    return lambda: cache.unwatched(cache.request(operator, mode=mode))


def _is(run: Run, operator: OperatorSpec, kernel: bytes | None) -> bool:
    return bool(find_canaries(run.model(operator).read_bytes())) and (
        run.kernel_as_delivered(operator) == kernel
    )


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
    for operation in _moments(writing, lambda each: each.act.changes):
        writing.reset()
        run, force = writing.meets(operation, _starts(cache, other, FORCE))
        where = f"while a writer stands before {operation}"
        assert force.succeeded, f"{where}: force {force.result.ending}"
        assert run.succeeded, f"{where}: the writer {run.result.ending}"
        assert cache.delivers_fresh(force, other), f"{where}: force delivers a wrong kernel"
        assert cache.delivers_fresh(run, add), f"{where}: the writer delivers a wrong kernel"
        assert cache.problems() == [], where
        cache.trust_marks()
        problem = cache.recovery(add)
        cache.marks = False
        assert problem is None, cache.evidence.found(problem, f"{where}: {problem}")


@rule("cache-mode/force-purges-soc")
@pytest.mark.usefixtures("_holds")
def test_force_that_has_to_wait_purges(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, mul: OperatorSpec
) -> None:
    """A writer is held before its last change. Force starts, and has to wait where there are
    locks."""
    cache.marks = False
    cache.warm(exp)
    old = cache.entry(exp)
    writing = cache.interruption(add, mode=ENABLE)
    changes = [each for each in writing.holdable if each.act.changes]
    if not changes:
        raise NotDecidable("a run that stores was not seen to change a file")
    writing.reset()
    if not old.is_valid:
        raise NotDecidable("the entry of before force cannot be put back")
    _, force = writing.meets(changes[-1], _starts(cache, mul, FORCE))
    assert force.succeeded, f"beside a writer force {force.result.ending}"
    assert not old.object_path.exists(), "an entry is still there that is older than force"


@rule("robust/same-key-race")
@pytest.mark.usefixtures("_holds")
def test_two_writers_meet_at_every_moment(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.marks = False
    cache.warm(exp)
    _two_writers_meet(cache, add, lambda each: each.act.changes)


@rule("cache-mode/enable-stores")
@pytest.mark.usefixtures("_holds")
def test_a_writer_stores_although_others_pass_by(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Another run begins and ends, reuses an entry of its own, and leaves everything else alone:
    also what the writer has not published yet."""
    cache.marks = False
    cache.warm(exp)
    others = {*cache.entries()}
    writing = cache.interruption(add, mode=ENABLE)
    for operation in _moments(writing, lambda each: each.act in (Act.RENAME, Act.LINK)):
        writing.reset()
        run, other = writing.meets(operation, _starts(cache, exp, ENABLE))
        where = f"another run passes while one stands before {operation}"
        assert run.succeeded, f"{where}: the compile {run.result.ending}"
        assert other.succeeded, f"{where}: the other one {other.result.ending}"
        if not {*cache.entries()} - others:
            fact = outcome_fact(ABSENT, [STORED], detail=f"{where}: its kernel is not stored")
            require_none([fact], cache.evidence)
        assert cache.problems() == [], where


def _moments(writing: Interruption[Run], is_moment: Callable[[Operation], bool]) -> list[Operation]:
    """Operations before which a run can be held. Skips the check if there are none."""
    moments = writing.worthwhile([each for each in writing.holdable if is_moment(each)])
    if not moments:
        pytest.skip("no operation was seen before which a run that stores could be held")
    return moments


@rule("robust/same-key-race")
@pytest.mark.usefixtures("_holds")
def test_two_writers_meet_where_there_is_no_cache(cache: CacheUnderTest, add: OperatorSpec) -> None:
    """Each makes the directories, and finds that the other was faster."""
    cache.marks = False
    _two_writers_meet(cache, add, lambda each: each.act is Act.MAKE_DIRECTORY)


def _two_writers_meet(
    cache: CacheUnderTest, add: OperatorSpec, is_moment: Callable[[Operation], bool]
) -> None:
    """Hold one run before each of some operations while another stores the same operator."""
    others = {*cache.entries()}
    writing = cache.interruption(add, mode=ENABLE)
    for operation in _moments(writing, is_moment):
        writing.reset()
        runs = writing.meets(operation, _starts(cache, add, ENABLE))
        where = f"while another stands before {operation}"
        for run in runs:
            assert run.succeeded, f"{where}: a compile {run.result.ending}"
            assert cache.delivers_fresh(run, add), f"{where}: a wrong kernel is delivered"
        cache.needs_readable_entries()
        entries = {*cache.entries()} - others
        assert len(entries) == 1, f"{where}: one key has {len(entries)} entries"
        assert cache.problems() == [], where
        assert residue(cache) == [], where


@rule("robust/same-key-race")
@pytest.mark.usefixtures("_holds")
def test_two_runs_meet_whose_operators_come_in_opposite_orders(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """Each has stored one operator and is about to look up the other's. Runs that keep the locks of
    what they have stored would wait for each other forever."""
    cache.marks = False
    named = cache.elsewhere(cache.sandbox / "named").compile(add, exp, mode=ENABLE)
    one = cache.interruption(add, exp, mode=ENABLE)
    of_add, of_exp = named.stem(add), named.stem(exp)
    if of_add is None or of_exp is None or {of_add, of_exp} != {*cache.entries()}:
        raise NotDecidable("no file tells which entry is that of which operator")
    one.reset()
    other = cache.interruption(exp, add, mode=ENABLE)
    first = _turn(one, of_add, of_exp)
    second = _turn(other, of_exp, of_add)
    runs = _meeting(one, first, other, second)
    if _stuck(runs):  # the first time, a busy machine may be to blame
        runs = _meeting(one, first, other, second)
    if _stuck(runs):
        one.reset()
        with one.held(first) as alone:
            alone.release()
        if not alone.result().succeeded:
            raise NotDecidable("held and let go, a run does not succeed even when it is alone")
        cache.evidence.saw(Ending.NO_END, "two runs wait for each other, and neither ends")
    for run in runs:
        assert run.succeeded, f"beside a run with the other order, a compile {run.result.ending}"
        for operator in (add, exp):
            assert cache.delivers_fresh(run, operator), f"{operator}: a wrong kernel is delivered"
    assert cache.problems() == []
    assert residue(cache) == []


def _turn(run: Interruption[Run], kept: str, following: str) -> Operation:
    """The operation with which a run turns from a stored entry to the next one."""
    changes = [each.number for each in run.operations if each.act.changes and kept in each.path]
    turns = [each for each in run.holdable if changes and each.number > max(changes)]
    later = [each for each in turns if following in each.path]
    if not later:
        pytest.skip(f"{kept} is not kept before {following} is looked at")
    return later[0]


def _meeting(
    one: Interruption[Run], first: Operation, other: Interruption[Run], second: Operation
) -> tuple[Run, Run]:
    """Both runs, released when both are held or when the second waits for the first."""
    one.reset()
    with one.held(first) as a, other.held(second, may_end=True) as b:
        a.release()
        b.release()
        return a.result(), b.result()


def _stuck(runs: tuple[Run, Run]) -> bool:
    """Whether a run had to be killed, which lets the other go on."""
    return any(run.result.returncode is None for run in runs)
