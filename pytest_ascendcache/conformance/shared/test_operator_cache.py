"""An operator cache that several nodes write, read, force and age at once. This needs no luck: one
compile is held before a file operation while another node works. What goes wrong with all nodes on
one mount, too, is for other rules."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_ascendcache.caches import Entry, find_canaries
from pytest_ascendcache.conformance.kit.shelf import HOUR, KILOBYTE, Shelf, environment, rest
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, profiles, rule
from pytest_ascendcache.contract import CacheMode, Delivered, Edition
from pytest_ascendcache.contract.aging import MEGABYTE
from pytest_ascendcache.faults import Operation
from pytest_ascendcache.nodes import NodeProfile
from pytest_ascendcache.nodes import profiles as every_profile
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run, SharedCache
from pytest_ascendcache.observation.shared_cache import Moments
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.hosts import hosts_work

MINUTES = 60.0
Value = TypeVar("Value")
TINY = environment(1, 1)
"""A limit of 1 MB, of which 1 % may stay."""


def _works(shared: SharedCache, run: Run, where: str) -> None:
    """A run succeeded, with right kernels."""
    failed = shared.failed(run)
    assert not failed, f"{where}\n{failed}"
    _is_right(shared, run, where)


def _is_right(shared: SharedCache, run: Run, where: str) -> None:
    wrong = shared.wrong(run)
    assert not wrong, f"{where}: {wrong}"


def is_served(run: Run, operator: OperatorSpec) -> bool:
    """Whether a run delivered a kernel that was marked in the cache, so a reused one."""
    return run.succeeded and bool(find_canaries(run.model(operator).read_bytes()))


def beside(
    shared: SharedCache,
    first: Moments,
    at: Operation,
    second: Moments,
    look: Callable[[], None] = lambda: None,
) -> tuple[Run, Run]:
    """Hold ``first`` before an operation while ``second`` does all of its work. Returns both runs.

    If ``second`` has to wait for ``first``, both go on. ``look`` is called while ``first`` is held.

    The check is skipped for a toolchain that locks by fcntl, on mounts that do not pass such locks
    to other mounts of this machine. Raises NotDecidable if ``first`` did not reach the operation.
    """
    if shared.profile is NodeProfile.NFS_DEFAULT and first.locks_by_fcntl:
        pytest.skip(
            "it locks by fcntl, which these mounts grant to everybody; nfs-nolock judges that"
        )

    def looked_at() -> Run:
        look()
        return second.run()

    first.reset()
    return first.interruption.meets(at, looked_at)


def _recovers(
    shared: SharedCache, operator: OperatorSpec, where: str, cache: CacheUnderTest | None = None
) -> None:
    """Assert that the next two compiles of an operator deliver right kernels, by default in the
    directory itself. The second has to reuse, unless the nodes have no locks: then nothing need be
    stored."""
    cache = cache or shared.backing
    for _ in range(2):
        shared.backing.mark()
        run = shared.compile(cache, operator, mode=ENABLE)
        problem = shared.failed(run) or shared.wrong(run)
        assert not problem, f"{where}: {problem}"
    again = f"every later run has {operator} {Delivered.COMPILED.value} again"
    may_store = shared.profile is not NodeProfile.NO_LOCKS
    assert not may_store or is_served(run, operator), f"{where}: {again}"


def _play_with(
    shared: SharedCache,
    story: Callable[[SharedCache, Value], None],
    value: Value,
    harmless: Value,
    reason: str,
) -> None:
    """Play a story with a value. If it fails with a harmless value too, it is undecided."""
    try:
        story(shared, value)
    except AssertionError as broken:
        try:
            story(shared.emptied(), harmless)
        except AssertionError:
            what = str(broken).partition("\n")[0].removeprefix("assert ")
            raise NotDecidable(reason.format(what)) from None
        raise


@rule("shared/right-kernels")
def test_a_reader_is_overtaken_by_another_nodes_writer(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec
) -> None:
    def story(shared: SharedCache) -> None:
        shared.backing.warm(add, exp)
        shared.backing.mark()
        writer = shared.moments(shared.on[0], add, mode=FORCE)
        writer.reset()
        reader = shared.moments(shared.on[-1], add, mode=ENABLE)
        for at in reader.reads(shared.backing.entry(add).stem):
            run, _ = beside(shared, reader, at, writer)
            _is_right(shared, run, f"another node forces while a reader stands before {at}")

    held.blame_nodes(story)


@rule("shared/right-kernels")
def test_a_reader_meets_another_nodes_writer(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec
) -> None:
    def story(shared: SharedCache) -> None:
        # Recorded while it has to compile, as it does when it finds the entry withdrawn.
        shared.backing.warm(exp)
        reader = shared.moments(shared.on[-1], add, mode=ENABLE)
        shared.forget()
        shared.backing.warm(add, exp)
        shared.backing.mark()
        known = shared.backing.entry(add)
        writer = shared.moments(shared.on[0], add, mode=FORCE)
        whole: list[bool] = []

        def look() -> None:
            whole.append(Entry(known.stem, known.directory).is_valid)

        for at in writer.names:
            _, run = beside(shared, writer, at, reader, look)
            where = f"while another node's writer stands before {at}"
            _is_right(shared, run, where)
            mixed = is_served(run, add) and not whole[-1]
            assert not mixed, f"{where}: one writer's object is served with another's metadata"

    held.blame_nodes(story)


@rule("shared/no-failure")
def test_the_loser_of_a_race_compiles(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec
) -> None:
    def story(shared: SharedCache) -> None:
        shared.backing.warm(exp)
        winner = shared.moments(shared.on[0], add, mode=ENABLE)
        winner.reset()
        loser = shared.moments(shared.on[-1], add, mode=ENABLE)
        for at in loser.names:
            for run in beside(shared, loser, at, winner):
                failed = shared.failed(run)
                assert not failed, f"two nodes compile, one stands before {at}\n{failed}"
            _recovers(shared, add, f"after two nodes compiled, one standing before {at}")

    held.blame_nodes(story)


@rule("shared/late-names")
@profiles(*(each for each in every_profile() if each is not NodeProfile.NO_LOCKS))
@pytest.mark.parametrize("directory", ["empty", "used"])
def test_a_name_is_looked_up_too_early(
    shared: SharedCache, add: OperatorSpec, exp: OperatorSpec, directory: str
) -> None:
    # The names that a compile makes, found by compiling elsewhere.
    scratch = shared.backing.elsewhere(shared.backing.sandbox / "scratch")
    scratch.warm(add, exp)
    names = [path.relative_to(scratch.root) for path in sorted(scratch.root.rglob("*"))]

    def story(shared: SharedCache) -> None:
        first, late = shared.on[0], shared.on[-1]
        if directory == "used":
            assert shared.compile(first, exp, mode=ENABLE).succeeded
        early = [each for each in names if not (late.root / each).exists()]
        made = shared.compile(first, add, mode=ENABLE)
        assert made.succeeded, f"the first node's compile {made.result.ending}"
        names_made = [each for each in early if (shared.backing.root / each).exists()]
        if not names_made:
            raise NotDecidable("the first compile made none of the names that were looked up")
        if shared.early_names_stay and any((late.root / each).exists() for each in names_made):
            raise NotDecidable("names that were looked up too early are seen at once")
        run = shared.compile(late, add, mode=ENABLE)
        _works(shared, run, "names were looked up before another node made them")
        shared.nodes.later()
        _recovers(shared, add, "once the names are seen", late)

    shared.blame_nodes(story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NO_LOCKS, NodeProfile.NFS_NOLOCK)
def test_nodes_take_turns_without_each_others_locks(
    shared: SharedCache, add: OperatorSpec, exp: OperatorSpec
) -> None:
    def story(shared: SharedCache) -> None:
        turns = [(add, ENABLE), (exp, ENABLE), (add, FORCE), (exp, ENABLE), (add, ENABLE)]
        for number, (operator, mode) in enumerate(turns):
            run = shared.compile(shared.on[number % len(shared.on)], operator, mode=mode)
            where = f"compile {number + 1}, {mode.value} of {operator}"
            _works(shared, run, where)

    shared.blame_nodes(story)


@rule("shared/node-local-locks")
@profiles(NodeProfile.NFS_NOLOCK)
@pytest.mark.parametrize("mode", [ENABLE, FORCE])
def test_a_writer_is_met_inside_its_lock(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec, mode: CacheMode
) -> None:
    def story(shared: SharedCache) -> None:
        shared.backing.warm(exp)
        shared.backing.mark()
        second = shared.moments(shared.on[-1], add, mode=mode)
        second.reset()
        writer = shared.moments(shared.on[0], add, mode=ENABLE)
        for at in writer.names:
            for run in beside(shared, writer, at, second):
                where = f"one node stands before {at}, inside a lock that others do not see"
                _works(shared, run, where)
            _recovers(shared, add, f"after a node stood before {at}")

    held.blame_nodes(story)


@rule("shared/replaced-under-reader")
@profiles(NodeProfile.STALE_HANDLES)
@pytest.mark.parametrize("forced", ["the-same", "another"])
def test_a_file_is_replaced_while_another_node_reads_it(
    shared: SharedCache, add: OperatorSpec, exp: OperatorSpec, forced: str
) -> None:
    if shared.profile is NodeProfile.GIVEN:
        pytest.skip("a reader on a real mount cannot be held behind its opening of a file")
    shared.backing.warm(add, exp)
    shared.backing.mark()
    directory = shared.backing.entry(add).directory
    kept = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    opened = 0
    for name in sorted(name for name in kept if not name.startswith(".")):
        for path in filter(Path.is_file, directory.iterdir()):
            path.unlink()
        for each, data in kept.items():
            (directory / each).write_bytes(data)
        with shared.opened(shared.on[-1], name, add, mode=ENABLE) as reader:
            opened += reader.stands
            force = shared.compile(shared.on[0], add if forced == "the-same" else exp, mode=FORCE)
            reader.release()
            run = reader.result()
        where = f"another node forces while {name.rpartition('.')[2]} is open"
        for done in (run, force):
            _works(shared, done, where)
    if not opened:
        raise NotDecidable("a compile that reuses an entry opens none of its files for reading")


@rule("shared/same-process-ids")
@profiles(NodeProfile.ONE_MOUNT, NodeProfile.NFS_NOLOCK)
def test_two_hosts_have_the_same_process_ids(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec
) -> None:
    if not hosts_work():
        pytest.skip("hosts with process ids of their own need root and the program unshare")
    if not hasattr(held.backing.toolchain, "on_host"):
        pytest.skip(f"{held.backing.toolchain.name}: it cannot be started on another host")

    def story(shared: SharedCache, second: int) -> None:
        shared.backing.warm(exp)
        hosts = [
            shared.on_host(cache, f"host{number}", process)
            for number, (cache, process) in enumerate(
                zip((shared.on[0], shared.on[-1]), (4000, second), strict=True)
            )
        ]
        other = shared.moments(hosts[1], add, mode=ENABLE)
        other.reset()
        one = shared.moments(hosts[0], add, mode=ENABLE)
        for at in one.publishing:
            for run in beside(shared, one, at, other):
                _works(shared, run, f"two hosts compile, one stands before {at}")
            _recovers(shared, add, f"two hosts compiled, one standing before {at}")

    _play_with(held, story, 4000, 5000, "the same goes wrong with other process ids: {}")


@rule("shared/force-and-aging")
@profiles(
    NodeProfile.ONE_MOUNT,
    NodeProfile.NFS_DEFAULT,
    NodeProfile.NFS_NOLOCK,
    NodeProfile.STALE_HANDLES,
)
@pytest.mark.parametrize("how", ["force", "aging"])
@pytest.mark.parametrize("who", ["reader", "writer"])
def test_one_node_makes_room_beside_another(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec, mul: OperatorSpec, how: str, who: str
) -> None:
    def idle(old: Collection[Path]) -> None:
        for path in filter(Path.exists, old if how == "aging" else ()):
            rest(path, 5 * HOUR)  # what was just written stays young

    def story(shared: SharedCache) -> None:
        shared.backing.warm(*((add, exp) if who == "reader" else (exp,)))
        shared.backing.mark()
        shelf = Shelf(shared.backing).lay("a", MEGABYTE + KILOBYTE, 5)
        shared.backing.leave_alone([shelf.entry("a").stem])
        other = exp if how == "force" else mul
        options = {"mode": FORCE} if how == "force" else {"mode": ENABLE, "environment": TINY}
        making_room = shared.moments(shared.on[0], other, **options)
        making_room.reset()
        old = [path for path in shared.backing.root.rglob("*") if path.suffix in (".o", ".json")]
        compile_ = shared.moments(shared.on[-1], add, mode=ENABLE)
        stem = shared.backing.entry(add).stem if who == "reader" else ""
        moments = compile_.reads(stem) if who == "reader" else compile_.names
        ages = False
        for at in moments:
            runs = beside(shared, compile_, at, making_room, lambda: idle(old))
            ages = ages or bool(shelf.gone())
            for run in runs:
                where = f"one node makes room by {how} while a {who} stands before {at}"
                _works(shared, run, where)
            where = f"after one node made room by {how}, a {who} standing before {at}"
            _recovers(shared, add, where)
        if not ages:
            raise NotDecidable(f"nothing went by {how} while the other node worked")

    held.blame_nodes(story)


@pytest.fixture
def _ages_by_time(edition: Edition) -> None:
    """Clocks matter only if entries age by time as well as by size."""
    if not edition.idle:
        pytest.skip(f"{edition} does not say that entries age by time")


@rule("shared/clocks")
@profiles(NodeProfile.LOCAL, NodeProfile.NFS_DEFAULT)
@pytest.mark.usefixtures("_ages_by_time")
@pytest.mark.parametrize("clock", ["ahead", "behind"])
def test_entries_of_a_node_with_another_clock(
    shared: SharedCache, add: OperatorSpec, exp: OperatorSpec, clock: str
) -> None:
    seconds = 10 * MINUTES * (1 if clock == "ahead" else -1)

    def story(shared: SharedCache, offset: float) -> None:
        shared.backing.warm(add)
        shelf = Shelf(shared.backing).lay("ab", MEGABYTE, 5, 0)
        now = time.time()
        young = [shared.backing.entry(add), shelf.entry("b")]
        for entry in young:
            for path in (entry.metadata_path, entry.object_path):
                os.utime(path, (now + offset, now + offset))
        run = shared.compile(shared.on[-1], exp, mode=ENABLE, environment=TINY)
        assert run.succeeded, f"the compile {run.result.ending}"
        if "a" not in shelf.gone():
            raise NotDecidable("an entry idle for five hours does not age beside others")
        parts = [path for each in young for path in (each.object_path, each.metadata_path)]
        gone = [path for path in parts if not path.exists()]
        assert not gone, (
            f"{len(gone)} of {len(parts)} files that were used now, by a clock that is "
            f"{offset:+.0f} s off, aged as if they had been idle for half an hour"
        )

    alike = "entries that were used now age with equal clocks, too"
    _play_with(shared, story, seconds, 0.0, alike)


@rule("shared/clocks")
@profiles(NodeProfile.LOCAL, NodeProfile.NFS_NOLOCK)
@pytest.mark.usefixtures("_ages_by_time")
@pytest.mark.parametrize("clock", ["ahead", "behind"])
def test_unfinished_files_of_a_node_with_another_clock(
    held: SharedCache, add: OperatorSpec, exp: OperatorSpec, clock: str
) -> None:
    seconds = 10 * MINUTES * (1 if clock == "ahead" else -1)

    def story(shared: SharedCache, offset: float) -> None:
        shared.backing.warm(exp)
        shelf = Shelf(shared.backing).lay("a", MEGABYTE + KILOBYTE, 5)
        other = shared.moments(shared.on[0], exp, mode=ENABLE, environment=TINY)
        other.reset()
        writer = shared.moments(shared.on[-1], add, mode=ENABLE)

        def shift() -> None:
            now = time.time() + offset
            for path in shared.backing.root.rglob("*"):
                if path.is_file():
                    os.utime(path, (now, now))
            shelf.rest()

        ages = False
        for at in writer.publishing:
            for run in beside(shared, writer, at, other, shift):
                assert run.succeeded, f"a writer stands before {at}: it {run.result.ending}"
            ages = ages or bool(shelf.gone())
            stored = [
                each for each in shared.backing.entries().values() if each.operator_type == "add"
            ]
            assert any(each.is_valid for each in stored), (
                f"the files of a writer that stands before {at}, by a clock that is "
                f"{offset:+.0f} s off, are removed by another node's aging"
            )
        if not ages:
            raise NotDecidable("nothing aged beside the writer")

    _play_with(held, story, seconds, 0.0, "a writer's files are removed with equal clocks, too")
