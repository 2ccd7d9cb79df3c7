"""Compiles that are killed, also in the middle of a write, lose power, or meet errors of the disk.

The next run has to deliver a correct kernel, and the run after that to reuse it. A few compiles are
really killed; other states are rebuilt from one recording.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.caches import find_canaries
from pytest_ascendcache.conformance.kit.shelf import HOUR, KILOBYTE, Shelf, rest_entry
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, HIT, needs, rule
from pytest_ascendcache.contract import CacheMode, Capability, Fate
from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE, MEGABYTE
from pytest_ascendcache.contract.facts import Delivery, Subject, SubjectKind, outcome_fact
from pytest_ascendcache.faults import Act, Action, CrashKind, CrashState, Operation, Tree
from pytest_ascendcache.observation import (
    CacheUnderTest,
    Interruption,
    NetworkUnderTest,
    NotDecidable,
    Probe,
    Run,
    probe_network,
    spread,
)
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import StagedChange, Toolchain

KILLED, MID_WRITE, POWER_LOSS, INJECTED_ERROR = CrashKind
_TRACE = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*.*(?:\n+(?:During|The above) .*:$)?",
    re.MULTILINE,
)
"""What Python programs print that do not handle an error; others are killed by a signal."""
_TRIES = 0.3
"""Seconds after which a process has found a lock taken. No verdict depends on this."""


@dataclass(frozen=True)
class Story:
    """A state of the cache, which ``prepare`` sets up, and a compile in it of the first operator;
    if ``both``, an interruption may also damage the other operator's entry."""

    name: str
    mode: CacheMode
    prepare: Callable[[CacheUnderTest, OperatorSpec, OperatorSpec], None]
    environment: dict[str, str] | None = None
    both: bool = False

    def record(
        self, cache: CacheUnderTest, operator: OperatorSpec, other: OperatorSpec
    ) -> Interruption[Run]:
        """Record the compile. Entries are left as the toolchain wrote them, without marks."""
        marks, cache.marks = cache.marks, False
        self.prepare(cache, operator, other)
        cache.marks = marks
        return cache.interruption(operator, mode=self.mode, environment=self.environment)


def _half(cache: CacheUnderTest, operator: OperatorSpec, other: OperatorSpec) -> None:
    cache.warm(operator, other)
    cache.entry(operator).object_path.unlink()


def _idle(cache: CacheUnderTest, *operators: OperatorSpec) -> None:
    cache.warm(*operators)
    Shelf(cache).lay("a", MEGABYTE + KILOBYTE, 4)
    for operator in operators:
        rest_entry(cache, cache.entry(operator), 5 * HOUR)


COLD = Story("enable-on-nothing", ENABLE, lambda *_: None)
BESIDE = Story("enable-beside-another", ENABLE, lambda cache, _, other: cache.warm(other))
HEALING = Story("enable-on-half-an-entry", ENABLE, _half)
FORCING = Story("force-on-a-warm-cache", FORCE, lambda cache, *both: cache.warm(*both), both=True)
LIMITS = {ENV_SIZE: "1", ENV_RATIO: "1"}
AGING = Story("aging-over-the-limit", ENABLE, _idle, LIMITS, both=True)
STORIES = (COLD, HEALING, FORCING)


def _recovers_from(
    kind: CrashKind, story: Story, cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.evidence.crash = kind.value
    compiling = story.record(cache, add, exp)
    for state in compiling.states(kind):
        compiling.enter(state)
        _recovers(cache, str(state), add, *[exp] * story.both)


def _recovers(cache: CacheUnderTest, where: str, *operators: OperatorSpec) -> None:
    problem = cache.recovery(*operators)
    assert problem is None, cache.evidence.found(problem, f"{where}: {problem}")


@rule("robust/interrupted-compile")
@pytest.mark.parametrize("story", [*STORIES, AGING], ids=lambda each: each.name)
def test_a_killed_compile_is_made_good(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, story: Story
) -> None:
    _recovers_from(KILLED, story, cache, add, exp)


@rule("robust/interrupted-compile")
@pytest.mark.parametrize("story", STORIES, ids=lambda each: each.name)
def test_a_compile_killed_in_a_write_is_made_good(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, story: Story
) -> None:
    _recovers_from(MID_WRITE, story, cache, add, exp)


@rule("cache-mode/force-purges-soc")
def test_a_force_that_is_cut_short_leaves_nothing_old_beside_what_is_new(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """A user who goes on with enable would be served both. Document C: force removes first."""
    cache.warm(add, exp)
    cache.mark()
    cache.marks = False
    forcing = cache.interruption(add, mode=FORCE)
    before, after = forcing.before.items, Tree.read(cache.root).items
    objects = Path(cache.entry(add).object_path).suffix
    new = {name for name in after if name.endswith(objects) and after[name] != before.get(name)}
    kept = str(cache.entry(exp).object_path.relative_to(cache.root))
    assert kept not in after, cache.evidence.found(
        outcome_fact(Fate.KEPT, [Fate.REMOVED], exp), f"{exp}: its entry is left"
    )
    states = forcing.states(KILLED)
    if not new or not states:
        raise NotDecidable("no operation on a file was seen that could be disturbed")
    for state in states:
        items = state.tree.items
        if items.get(kept) == before[kept] and any(items.get(each) == after[each] for each in new):
            fact = outcome_fact(Fate.KEPT, [Fate.REMOVED], exp, subject=_CUT_SHORT)
            what = f"{state}: the new entry is there, and {exp} has its old one"
            raise AssertionError(cache.evidence.found(fact, what))


_CUT_SHORT = Subject(SubjectKind.EVENT, "cut short")


@rule("robust/interrupted-compile")
def test_a_compile_that_is_really_killed_is_made_good(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    needs(cache.toolchain, Action.KILL)
    cache.evidence.crash = KILLED.value
    compiling = COLD.record(cache, add, exp)
    for operation in spread(_some(_changing(compiling)), 3):
        compiling.strike(Action.KILL, operation)
        _recovers(cache, f"killed before {operation}", add)


@rule("robust/interrupted-compile")
def test_a_compile_that_is_really_killed_in_a_write_is_made_good(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    needs(cache.toolchain, Action.TEAR)
    cache.evidence.crash = MID_WRITE.value
    compiling = HEALING.record(cache, add, exp)
    writes = [each for each in compiling.operations if each.act is Act.WRITE and each.data[1:]]
    for operation in compiling.worthwhile(_some(writes)):
        compiling.strike(Action.TEAR, operation)
        _recovers(cache, f"killed in the middle of {operation}", add)


@rule("robust/interrupted-compile")
def test_what_a_killed_process_left_is_in_no_way_of_one_with_its_number(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """In a container, processes have the same ids in every run. The next run is held while the ids
    in the names of leftover files are changed to its own."""
    needs(cache.toolchain, Action.HOLD)
    cache.needs_reuse()
    cache.evidence.crash = KILLED.value
    compiling = BESIDE.record(cache, add, exp)
    whole = Tree.read(cache.root).items
    states = compiling.states(KILLED)
    if not states or not compiling.holdable:
        raise NotDecidable("no file operation was seen at which it could be held")
    fullest = max(states, key=lambda each: len(each.tree.items.keys() - whole.keys()))
    left = [
        cache.root / name
        for name, each in fullest.tree.items.items()
        if name not in whole and each.data is not None and _renumbered(Path(name).name, 1)
    ]
    if not left:
        pytest.skip("no file that a killed run leaves has a number in its name")
    compiling.enter(fullest)
    with compiling.held(compiling.holdable[0]) as held:
        numbers = _processes_in(cache.work)
        for path in left:
            for number in numbers:
                for other in map(path.with_name, _renumbered(path.name, number)):
                    if not os.path.lexists(other):
                        shutil.copy2(path, other)
        held.release()
        run = held.result()
    if not numbers:
        raise NotDecidable("the process that was held is not found by its working directory")
    assert run.succeeded, f"the next run {run.result.ending}"
    assert cache.delivers_fresh(run, add), "the next run delivers a wrong kernel"
    again = cache.compile(add, mode=ENABLE)
    assert again[add] == HIT, "the next run has not stored its kernel"


def _processes_in(directory: Path) -> list[int]:
    """The ids of the processes with this working directory."""
    processes = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (each / "cwd").readlink() == directory.resolve():
                processes.append(int(each.name))
    return processes


_NUMBER = re.compile(r"(?<![0-9A-Za-z])[0-9]+(?![0-9A-Za-z])")


def _renumbered(name: str, number: int) -> set[str]:
    """The names in which this number replaces one of the numbers, or all; none without a number."""
    numbers = list(_NUMBER.finditer(name))
    each = {f"{name[: one.start()]}{number}{name[one.end() :]}" for one in numbers}
    return {*each, _NUMBER.sub(str(number), name)} if numbers else set()


@rule("robust/power-loss")
@pytest.mark.parametrize("story", STORIES, ids=lambda each: each.name)
def test_after_a_power_loss_nothing_damaged_is_served(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec, story: Story
) -> None:
    _recovers_from(POWER_LOSS, story, cache, add, exp)


@rule("robust/interrupted-compile")
@pytest.mark.parametrize("kind", [KILLED, MID_WRITE], ids=lambda each: each.name)
def test_an_interrupted_rank_is_made_good(network: NetworkUnderTest, kind: CrashKind) -> None:
    _rank_recovers_from(kind, network)


@rule("robust/power-loss")
def test_after_a_power_loss_a_rank_runs_nothing_damaged(network: NetworkUnderTest) -> None:
    _rank_recovers_from(POWER_LOSS, network)


def _rank_recovers_from(kind: CrashKind, network: NetworkUnderTest) -> None:
    needs(network.toolchain, Capability.INCREMENTAL_BUILD)
    network.evidence.crash = kind.value
    square = probe_network(Probe("Square"))
    for is_cold in (True, False):
        if not is_cold:  # half a kernel is replaced
            network.cache = network.site / "half-a-kernel"
            network.run(square)
            for kernel in network.kernels().values():
                kernel.object_path.unlink()
        running = network.interruption(square)
        for state in running.states(kind):
            running.enter(state)
            _rank_recovers(network, str(state), square)


def _rank_recovers(network: NetworkUnderTest, where: str, probe: Network) -> None:
    problem = network.recovery(probe)
    assert problem is None, network.evidence.found(problem, f"{where}: {problem}")


@rule("robust/dead-lock-holder")
def test_who_comes_later_is_not_blocked(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    cache.evidence.crash = KILLED.value
    compiling = BESIDE.record(cache, add, exp)
    for operation in _after_a_lock(compiling)[:2]:
        compiling.strike(Action.KILL, operation)
        _recovers(cache, f"killed before {operation}", add)


@rule("robust/dead-lock-holder")
def test_who_is_waiting_is_not_blocked(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    needs(cache.toolchain, Action.HOLD)
    cache.evidence.crash = KILLED.value
    compiling = BESIDE.record(cache, add, exp)
    locks = [each for each in compiling.operations if each.act is Act.LOCK]
    compiling.reset()
    with compiling.held(_after_a_lock(compiling)[0]) as holder, compiling.held(locks[0]) as other:
        other.release()
        other.ends_within(_TRIES)
        holder.kill()
        holder.result()
        waited = other.result()
    assert waited.succeeded, f"the run that waited {waited.result.ending}"
    problem = cache.recovery(add)
    assert problem is None, cache.evidence.found(problem, str(problem))


_STRIKES = (
    (COLD, Action.ENOSPC, {Act.CREATE, Act.WRITE, Act.MAKE_DIRECTORY}),
    (COLD, Action.EACCES, {Act.READ, Act.LIST, Act.LOCK, Act.RENAME}),
    (COLD, Action.SHORT, {Act.WRITE}),
    (FORCING, Action.EIO, {Act.READ, Act.WRITE, Act.SYNC, Act.SYNC_DIRECTORY, Act.REMOVE}),
    (FORCING, Action.EACCES, {Act.LIST, Act.CREATE, Act.LOCK, Act.REMOVE}),
)
"""The operations that an error strikes, and the story in which it does."""


@rule("robust/disk-full")
@pytest.mark.parametrize(
    ("story", "action", "acts"),
    _STRIKES,
    ids=[f"{story.name}-{action.name}" for story, action, _ in _STRIKES],
)
def test_a_failing_disk_costs_the_cache_and_not_the_kernel(
    cache: CacheUnderTest,
    add: OperatorSpec,
    exp: OperatorSpec,
    story: Story,
    action: Action,
    acts: set[Act],
) -> None:
    needs(cache.toolchain, action)
    cache.evidence.crash = INJECTED_ERROR.value
    compiling = story.record(cache, add, exp)
    left: set[object] = set()
    struck = _some(_struck(action, acts, compiling))
    for operation in compiling.worthwhile(struck):
        run = compiling.strike(action, operation)
        where = f"{action.value} at {operation}"
        if run.succeeded:
            assert cache.delivers_fresh(run, add), f"{where}: a wrong kernel is delivered"
            keeps = operation.act is Act.REMOVE and cache.entry(exp).is_valid
            assert not keeps or _lines(run) - _lines(compiling.undisturbed), cache.evidence.found(
                outcome_fact(Fate.KEPT, [Fate.REMOVED], exp),
                f"{where}: force keeps an entry and says nothing",
            )
        else:
            assert (run.returncode or 0) > 0, f"{where}: the compile {run.result.ending}"
            assert run.output.strip(), f"{where}: the compile fails and says nothing"
            words = _TRACE.sub("", run.output).strip()
            assert words, f"{where}: the compile ends in an internal error"
        if _is_new(cache.root, left):
            _recovers(cache, where, add)


def _lines(run: Run) -> set[str]:
    """What a run prints, without numbers."""
    return {re.sub(r"[0-9]+", "", line) for line in run.output.splitlines()}


def _is_new(root: Path, left: set[object]) -> bool:
    """Whether an error has left a state that those before it have not: one recovery is enough."""
    content, known = Tree.read(root).content, len(left)
    left.add(content)
    return len(left) > known


def _struck(action: Action, acts: set[Act], compiling: Interruption[Run]) -> list[Operation]:
    """The operations that an error can strike; of reads at one point only the first."""
    return [
        each
        for each in compiling.operations
        if each.act in acts
        and (each.act not in (Act.READ, Act.LIST) or each.nth == 0)
        and (action is not Action.SHORT or len(each.data) > 1)
    ]


_RANK_STRIKES = (
    (Action.ENOSPC, {Act.WRITE}),
    (Action.SHORT, {Act.WRITE}),
    (Action.EACCES, {Act.RENAME}),
)


@rule("robust/disk-full")
@pytest.mark.parametrize(
    ("action", "acts"), _RANK_STRIKES, ids=[action.name for action, _ in _RANK_STRIKES]
)
def test_a_failing_disk_costs_a_rank_no_more_than_its_kernels(
    network: NetworkUnderTest, action: Action, acts: set[Act]
) -> None:
    needs(network.toolchain, Capability.INCREMENTAL_BUILD, action)
    network.evidence.crash = INJECTED_ERROR.value
    square = probe_network(Probe("Square"))
    running = network.interruption(square)
    left: set[object] = set()
    struck = [each for each in running.operations if each.act in acts]
    for operation in running.worthwhile(_some(struck)):
        run = running.strike(action, operation)
        where = f"{action.value} at {operation}"
        if run.succeeded:
            assert run.wrong == {}, f"{where}: wrong outputs"
        else:
            assert run.returncode is not None
            assert run.returncode > 0, f"{where}: the rank {run.result.ending}"
        if _is_new(network.cache, left):
            _rank_recovers(network, where, square)


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("first", ["same-soc-first", "other-soc-first"])
def test_an_upgrade_voids_every_soc(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, other_soc: str, first: str
) -> None:
    cache.needs_reuse()
    change = toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
    socs = [cache.options.soc, other_soc]
    for soc in socs:
        cache.compile(add, mode=ENABLE, soc=soc, environment=change.environment)
    old = _marks(cache, len(socs))
    change.apply()
    for soc in socs if first == "same-soc-first" else [other_soc, *socs]:
        run = cache.compile(add, mode=ENABLE, soc=soc, environment=change.environment)
        assert not _served(run, add) & old, cache.evidence.found(
            Delivery.STALE, f"an old kernel is served for {soc}"
        )
    for soc in socs:
        run = cache.compile(add, mode=ENABLE, soc=soc, environment=change.environment)
        assert _served(run, add), f"a new kernel is not reused for {soc}"


def _two_versions(cache: CacheUnderTest, operator: OperatorSpec) -> list[StagedChange]:
    """A newer version of the toolchain, and a copy of the current one."""
    stage, version = cache.toolchain.stage, Capability.VERSION_STAMP
    changes = [stage(version, operator, cache.sandbox / name) for name in ("newer", "older")]
    changes[0].apply()
    return changes


@rule("cache-mode/force-purges-soc")
def test_what_force_removed_does_not_come_back_with_its_version(
    cache: CacheUnderTest, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """One version stores an entry, another compiles under force, and the first compiles again."""
    needs(cache.toolchain, Capability.VERSION_STAMP)
    cache.needs_reuse()
    newer, older = _two_versions(cache, add)
    cache.compile(add, mode=ENABLE, environment=older.environment)
    old = _marks(cache, 1)
    cache.compile(exp, mode=FORCE, environment=newer.environment)
    run = cache.compile(add, mode=ENABLE, environment=older.environment)
    assert not _served(run, add) & old, "a kernel of before force is served"


@dataclass
class Upgraded:
    """The first compile after an upgrade. ``old`` are the markers of the entries from before."""

    cache: CacheUnderTest
    operator: OperatorSpec
    change: StagedChange
    old: set[str]
    compiling: Interruption[Run]
    socs: tuple[str, str]

    def goes_on(self, soc: str, where: str) -> None:
        """The next run succeeds, and reuses no entry from before the upgrade."""
        environment = self.change.environment
        run = self.cache.attempt(self.operator, mode=ENABLE, soc=soc, environment=environment)
        assert run.succeeded, f"{where}: the next run {run.result.ending}"
        self.serves_nothing_old(run, where)

    def serves_nothing_old(self, run: Run, where: str) -> None:
        """A run delivered no kernel from before the upgrade."""
        served = run.succeeded and _served(run, self.operator) & self.old
        soc = run.result.request.options.soc
        assert not served, self.cache.evidence.found(
            Delivery.STALE, f"{where}: an old kernel is served for {soc}"
        )

    def next_chip(self, state: CrashState, number: int) -> str:
        """A chip that can still be served an old entry in a state, in turn if several can."""
        exposed = [soc for soc in self.socs if self._has_old_entry(state, soc)] or self.socs
        return exposed[number % len(exposed)]

    def _has_old_entry(self, state: CrashState, soc: str) -> bool:
        directory = f"{self.cache.layout.soc(soc).relative_to(self.cache.root)}/"
        return any(
            name.startswith(directory) and marker.encode() in (item.data or b"")
            for name, item in state.tree.items.items()
            for marker in self.old
        )


@pytest.fixture
def upgraded(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, other_soc: str
) -> Upgraded:
    """A recorded upgrade, of a cache with entries for two chips."""
    needs(toolchain, Capability.FAULT_POINTS)
    cache.needs_reuse()
    change = toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
    socs = (cache.options.soc, other_soc)
    for soc in socs:
        cache.compile(add, mode=ENABLE, soc=soc, environment=change.environment)
    old = _marks(cache, len(socs))
    change.apply()
    compiling = cache.interruption(add, mode=ENABLE, environment=change.environment)
    return Upgraded(cache, add, change, old, compiling, socs)


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("kind", [KILLED, POWER_LOSS], ids=lambda each: each.name)
def test_an_upgrade_that_was_cut_short_is_taken_up_again(
    cache: CacheUnderTest, upgraded: Upgraded, kind: CrashKind
) -> None:
    cache.evidence.crash = kind.value
    for number, state in enumerate(upgraded.compiling.states(kind)):
        upgraded.compiling.enter(state)
        upgraded.goes_on(upgraded.next_chip(state, number), str(state))


@rule("robust/upgrade-stamp")
def test_an_upgrade_that_cannot_purge_is_taken_up_again(
    cache: CacheUnderTest, upgraded: Upgraded
) -> None:
    needs(cache.toolchain, Action.EACCES)
    cache.evidence.crash = INJECTED_ERROR.value
    compiling = upgraded.compiling
    removals = [each for each in compiling.operations if each.act is Act.REMOVE]
    for operation in spread(_some(removals), 4):
        where = f"{Action.EACCES.value} at {operation}"
        upgraded.serves_nothing_old(compiling.strike(Action.EACCES, operation), where)
        for soc in upgraded.socs:
            upgraded.goes_on(soc, where)


@rule("robust/upgrade-stamp")
def test_a_run_that_is_late_for_an_upgrade_removes_nothing_new(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec, exp: OperatorSpec
) -> None:
    """The run has read the old version. It is held until another run has completed the upgrade and
    stored an entry."""
    needs(cache.toolchain, Action.HOLD)
    change = toolchain.stage(Capability.VERSION_STAMP, add, cache.sandbox)
    cache.compile(add, exp, mode=ENABLE, environment=change.environment)
    change.apply()
    cache.marks = False
    late = cache.interruption(add, mode=ENABLE, environment=change.environment)
    for operation in _some(_before_it_has_a_lock(late)):
        late.reset()
        with late.held(operation) as held:
            quick = cache.attempt(exp, mode=ENABLE, environment=change.environment)
            stored = {stem for stem, each in cache.entries().items() if each.is_valid}
            held.release()
            run = held.result()
        where = f"while another stands before {operation}"
        for each in (quick, run):
            assert each.succeeded, f"{where}: a compile {each.result.ending}"
        if not stored:
            raise NotDecidable(f"{where}: a run after an upgrade stores nothing")
        lost = stored - {stem for stem, each in cache.entries().items() if each.is_valid}
        assert not lost, cache.evidence.found(
            outcome_fact(Fate.REMOVED, [Fate.KEPT]),
            f"{where}: what a run of the new version has stored is removed",
        )


def _before_it_has_a_lock(compiling: Interruption[Run]) -> list[Operation]:
    """The first lock, at which no other run has to wait, and a few changes before it."""
    locks = [each for each in compiling.holdable if each.act is Act.LOCK]
    first = locks[0].number if locks else compiling.operations[-1].number
    changes = [each for each in compiling.holdable if each.act.changes and each.number < first]
    return [*spread(changes, 4), *locks[:1]]


def _marks(cache: CacheUnderTest, entries: int) -> set[str]:
    """The tokens of the markers of all entries. Undecided if there are fewer, or none readable."""
    cache.needs_readable_entries()
    cache.mark()
    marks = set(cache.known_state()[0])
    if len(marks) < entries:
        raise NotDecidable("an entry of before the change is missing")
    return marks


def _served(run: Run, operator: OperatorSpec) -> set[str]:
    """The tokens of the markers in the delivered kernel."""
    return set(find_canaries(run.model(operator).read_bytes()))


def _some(operations: list[Operation]) -> list[Operation]:
    """These operations. Skips the check if there are none."""
    if not operations:
        pytest.skip("no file operation was seen of the kind that is asked about")
    return operations


def _changing(compiling: Interruption[Run]) -> list[Operation]:
    return [each for each in compiling.operations if each.act.changes]


def _after_a_lock(compiling: Interruption[Run]) -> list[Operation]:
    """Changes that the compile makes while it holds the last of its locks."""
    numbers = [each.number for each in compiling.operations if each.act is Act.LOCK]
    if not numbers:
        # It need not lock: the rules on races judge what locks are for.
        pytest.skip("no lock of this toolchain can be seen")
    after = [each for each in _changing(compiling) if each.number > numbers[-1]]
    return _some(after)
