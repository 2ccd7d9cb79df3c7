"""Promises of both MindSpore caches: reuse, right outputs, directories, damage, permissions.

Source: document M and ``900-robustness-and-security``, as far as they apply to a network on one
CPU. Markers show which operators were compiled (see ``observation.impostor``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.caches import Snapshot, make_immutable
from pytest_ascendcache.conformance.incremental.test_incremental import (
    chain_network,
    square_network,
)
from pytest_ascendcache.conformance.kit.mindspore_stories import (
    changed,
    ended,
    is_graph,
    last_words,
    needs_kernels,
    probes_of,
    recovers,
    right,
    run_once,
    usual,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.files import copy_tree
from pytest_ascendcache.observation import DATA, NetworkUnderTest, Probe, probe_network
from pytest_ascendcache.operators.network import Network


@rule("incremental/reuses")
def test_the_second_run_compiles_nothing(network: NetworkUnderTest) -> None:
    wanted = usual(network)
    run_once(network, wanted)
    network.mark()
    for _ in range(2):
        run = run_once(network, wanted)
        assert run.compiled == frozenset(), "operators were compiled again"
        assert (run.stored, run.disturbed) == (frozenset(), {}), "what was cached did not stay"


SAME: dict[str, Callable[[tuple[Probe, ...]], Network]] = {
    "network-renamed": lambda probes: replace(probe_network(*probes), name="renamed"),
    "operators-renamed": lambda probes: probe_network(
        *(replace(each, name=f"node_{each.node_name}") for each in probes)
    ),
    "other-data": lambda probes: probe_network(*probes, data=tuple(2 * each for each in DATA)),
    "operators-reordered": lambda probes: probe_network(*reversed(probes)),
    "operator-left-out": lambda probes: probe_network(*probes[1:]),
    "operator-used-twice": lambda probes: probe_network(*probes, replace(probes[0], name="again")),
}
REWRITES_THE_SCRIPT = ("operators-reordered", "operator-left-out", "operator-used-twice")


@rule("incremental/reuses")
@pytest.mark.parametrize("same", SAME)
def test_what_decides_no_kernel_costs_no_compile(network: NetworkUnderTest, same: str) -> None:
    if same in REWRITES_THE_SCRIPT:
        needs_kernels(network)
    network.warm(usual(network))
    run = run_once(network, SAME[same](probes_of(network)))
    assert run.compiled == frozenset(), "operators were compiled again"


@rule("incremental/reuses")
def test_a_run_from_another_directory_compiles_nothing(network: NetworkUnderTest) -> None:
    network.warm(usual(network))
    network.work = network.site / "elsewhere"
    assert run_once(network, usual(network)).compiled == frozenset()


@rule("incremental/reuses")
def test_another_network_between_costs_no_compile(network: NetworkUnderTest) -> None:
    probes = probes_of(network)
    wanted, other = probe_network(*probes), probe_network(*reversed(probes), Probe("Neg"))
    run_once(network, wanted)
    run_once(network, other)
    network.mark()
    assert run_once(network, wanted).compiled == frozenset(), "another network displaced it"


@rule("incremental/reuses")
def test_a_warm_run_leaves_the_directory_alone(network: NetworkUnderTest) -> None:
    run_once(network, usual(network))
    before = Snapshot.take(network.cache)
    run_once(network, usual(network))
    changes = before.disturbed(Snapshot.take(network.cache))
    assert [path for path in changes if network.layout.unit.holds(Path(path))] == []


CHANGES: dict[str, Callable[[tuple[Probe, ...]], tuple[Probe, ...]]] = {
    "constant": lambda probes: changed(
        probes, "first", attributes=(("negative_slope", "float", 0.125),)
    ),
    "shape": lambda probes: changed(probes, "first", shape=(2, 2, 4, 4)),
    "shape-of-equal-size": lambda probes: changed(probes, "first", shape=(4, 8)),
    "dtype": lambda probes: changed(probes, "first", dtype="float16"),
    "type": lambda probes: changed(probes, "first", type="Tanh", name="first", attributes=()),
    "more": lambda probes: (*probes, Probe("Exp")),
}


@rule("incremental/compiles-changed-only")
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_compiled(network: NetworkUnderTest, change: str) -> None:
    before = probes_of(network)
    after = CHANGES[change](before)
    network.warm(probe_network(*before))
    run = run_once(network, probe_network(*after))
    differ = {each.node_name for each in after if each not in before}
    for name in sorted(differ - run.compiled):  # it ran the impostor of another operator
        network.evidence.saw(Delivery.ANOTHER, f"{name} ran what was cached for another operator")
    assert differ <= run.compiled, "what was cached for another operator was used"
    if not is_graph(network):
        assert run.compiled == differ, "operators that did not change were compiled again"


@rule("incremental/compiles-changed-only")
def test_going_back_gives_the_first_again(network: NetworkUnderTest) -> None:
    probes = probes_of(network)
    networks = (probe_network(*probes), probe_network(*CHANGES["constant"](probes)))
    for each in (*networks, *networks):
        run_once(network, each)


@rule("incremental/compiles-changed-only")
def test_what_was_deleted_is_compiled_alone(network: NetworkUnderTest) -> None:
    needs_kernels(network)
    network.warm(usual(network))
    lost = next(iter(network.kernels().values()))
    for path in lost.paths:
        path.unlink()
    run = run_once(network, usual(network))
    assert run.stored == {lost.stem}
    assert len(run.compiled) == 1
    assert run.disturbed == {}


@rule("incremental/result-correct")
@pytest.mark.parametrize("make", [square_network, chain_network])
def test_a_network_is_right_cold_and_warm(
    network: NetworkUnderTest, make: Callable[[], Network]
) -> None:
    for _ in range(3):
        run_once(network, make())


@rule("incremental/result-correct")
def test_other_data_gives_other_outputs(network: NetworkUnderTest) -> None:
    for factor in (1.0, -2.0):
        data = tuple(factor * each for each in DATA)
        run_once(network, probe_network(*probes_of(network), data=data))


@rule("incremental/result-correct")
def test_different_networks_at_once_in_one_directory_are_right(network: NetworkUnderTest) -> None:
    """Single cards share a directory."""
    probes = probes_of(network)
    wanted = (
        probe_network(*probes),
        probe_network(*CHANGES["constant"](probes)),
        probe_network(*CHANGES["shape"](probes)),
    )
    for _ in range(2):
        for run in ended(network, *(network.request(each) for each in wanted)):
            right(run, "one of three runs at once")


@rule("robust/same-key-race")
def test_many_processes_compile_one_network(network: NetworkUnderTest) -> None:
    wanted = usual(network)
    for run in ended(network, *(network.request(wanted) for _ in range(4))):
        right(run, "one of four runs at once")
    recovers(network, wanted, "after a race")


PLACES: dict[str, dict[str, str]] = {
    "nothing-set": {"MS_COMPILER_CACHE_PATH": ""},
    "relative-path": {"MS_COMPILER_CACHE_PATH": "below/here"},
    "missing-parents": {"MS_COMPILER_CACHE_PATH": "{cache}/not/yet/there"},
}


@rule("ranks/directory")
@pytest.mark.parametrize("place", PLACES)
def test_everything_is_kept_where_the_environment_says(
    network: NetworkUnderTest, place: str
) -> None:
    environment = {key: value.format(cache=network.cache) for key, value in PLACES[place].items()}
    run = run_once(network, usual(network), environment=environment)
    kept = network.layout.unit.read_all(Path(network.layout.place(environment, network.work)))
    assert {stem: unit.problems() for stem, unit in kept.items()} == {stem: [] for stem in kept}
    assert kept, f"{run.place} holds nothing"
    units = {path for path in run.files_written if network.layout.unit.holds(Path(path))}
    assert [path for path in units if not path.startswith(f"{run.place}/")] == []


IN_THE_WAY: dict[str, Callable[[Path], None]] = {
    "a-file": Path.touch,
    "a-fifo": os.mkfifo,
    "a-dangling-link": lambda path: path.symlink_to("nowhere"),
}


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_is_no_directory_costs_no_run(network: NetworkUnderTest, what: str) -> None:
    """Something other than a directory is in the place of the cache."""
    place = network.place()
    place.parent.mkdir(parents=True)
    IN_THE_WAY[what](place)
    recovers(network, usual(network), f"{place.name} {what}", between=True)


@rule("ranks/directory")
def test_a_rank_keeps_its_own_below_its_number(network: NetworkUnderTest) -> None:
    run = run_once(network, usual(network), rank=3)
    kept = [path for path in run.files_written if network.layout.unit.holds(Path(path))]
    assert kept, "nothing is kept"
    elsewhere = [path for path in kept if "/rank_3/" not in path]
    assert not elsewhere, f"not below rank_3: {elsewhere[0]}"


@rule("ranks/bad-rank-id")
@pytest.mark.parametrize("text", ["-1", "one", "../x"])
def test_what_is_no_rank_is_refused(network: NetworkUnderTest, text: str) -> None:
    (run,) = ended(network, network.request(usual(network), environment={"RANK_ID": text}))
    assert run.returncode != 0, f"RANK_ID={text!r}: the run {run.result.ending}"
    assert "RANK_ID" in run.output, f"the error does not name RANK_ID: {last_words(run)}"
    assert run.files_written == frozenset(), "something was written all the same"


@rule("robust/relocatable")
@pytest.mark.parametrize("how", ["copied", "moved"])
def test_a_cache_gives_hits_under_another_root(network: NetworkUnderTest, how: str) -> None:
    network.run(usual(network))
    root = network.site / "another" / "root"
    root.parent.mkdir()
    if how == "copied":
        copy_tree(network.cache, root)
    else:
        network.cache.rename(root)
    network.cache = root
    network.mark()
    assert run_once(network, usual(network)).compiled == frozenset()


@pytest.fixture
def close(network: NetworkUnderTest) -> Iterator[Callable[[], None]]:
    """Keeps every user, even root, from writing below the cache until the check ends."""
    closed: list[tuple[Path, int]] = []

    def close_cache() -> None:
        for path in (network.cache, *network.cache.rglob("*")):
            closed.append((path, path.stat().st_mode))
            path.chmod(path.stat().st_mode & ~0o222)
            if os.geteuid() == 0 and not make_immutable(path, True):
                pytest.skip("root may write everything, and chattr +i cannot keep it out here")

    yield close_cache
    for path, mode in closed:
        if os.geteuid() == 0:
            make_immutable(path, False)
        path.chmod(mode)


@rule("robust/read-only-cache")
def test_a_read_only_cache_gives_hits(network: NetworkUnderTest, close: Callable[[], None]) -> None:
    network.warm(usual(network))
    close()
    assert run_once(network, usual(network)).compiled == frozenset()


@rule("robust/read-only-cache")
def test_a_read_only_empty_cache_costs_no_run(
    network: NetworkUnderTest, close: Callable[[], None]
) -> None:
    network.cache.mkdir()
    close()
    run_once(network, usual(network))


@rule("security/private-modes")
def test_nothing_of_the_cache_is_world_writable(network: NetworkUnderTest) -> None:
    before = os.umask(0)
    try:
        run_once(network, usual(network))
    finally:
        os.umask(before)
    files = Snapshot.take(network.cache).files
    assert files, "there is no cache to look at"
    assert {path: oct(each.mode) for path, each in files.items() if each.mode & 0o002} == {}


@rule("security/private-modes")
def test_nothing_is_left_in_the_working_directory(network: NetworkUnderTest) -> None:
    run_once(network, usual(network))
    left = sorted(path.name for path in network.work.iterdir())
    assert not left, f"left in the working directory: {', '.join(left)}"
