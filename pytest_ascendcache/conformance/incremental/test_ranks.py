"""Incremental build on many cards. Source: document M, common questions.

The order of events decides whether ranks wait, not clocks. Stories in which a timeout passes, of
two minutes or more, have the toolchain shorten its seconds, unless ``ascend_real_waits`` is set.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ascendcache.caches import RankKernel
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.incremental.fixtures import (
    EVERYTHING,
    NETWORK,
    Rehearse,
    address_of,
    ended_well,
    ended_without,
    lacking,
    named,
    recorded,
    settled,
    wait,
    wait_until,
)
from pytest_ascendcache.conformance.kit.named_alike import NamedAlike
from pytest_ascendcache.conformance.kit.spellings import SIGNS
from pytest_ascendcache.conformance.kit.texts import texts
from pytest_ascendcache.conformance.kit.vocabulary import elementary, needs_meeting, rule
from pytest_ascendcache.contract.facts import Delivery, Later, Numbers, Place
from pytest_ascendcache.contract.ranks import (
    LONGEST_SURE_RANK,
    LONGEST_WAIT,
    SHORTEST_WAIT,
    TIMEOUT,
    Phase,
    is_other_spelling,
    is_rank_id,
    kernel_meta,
)
from pytest_ascendcache.faults import Act
from pytest_ascendcache.observation import (
    NetworkRun,
    NetworkUnderTest,
    meeting_place,
    probe_network,
)
from pytest_ascendcache.ranks import Rank
from pytest_ascendcache.toolchains import Toolchain

TRAINING, INFERENCE = Phase.TRAINING, Phase.INFERENCE


_OTHER_NUMBERS = {"DEVICE_ID": "3", "RANK": "5", "LOCAL_RANK": "6"}
"""Numbers that launchers give, and that are not a rank's."""
_TYPES = ("Square", "Exp", "Abs")
"""One operator for each of three ranks, so that a kernel shows whose it is."""
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing-set": {"MS_COMPILER_CACHE_PATH": ""},
    "empty-rank": {"RANK_ID": ""},
    "empty-rank-beside-others": {"RANK_ID": "", **_OTHER_NUMBERS},
    "only-others": _OTHER_NUMBERS,
    "rank-in-the-working-directory": {"MS_COMPILER_CACHE_PATH": "", "RANK_ID": "300"},
    "both-set": {"RANK_ID": "2"},
    "relative-path": {"MS_COMPILER_CACHE_PATH": "below/here", "RANK_ID": "10"},
    "signs-and-letters": {"MS_COMPILER_CACHE_PATH": f"{SIGNS}/算子", "RANK_ID": "1"},
    "other-variables": {"RANK_ID": "2", **_OTHER_NUMBERS, "OMPI_COMM_WORLD_RANK": "7"},
}


@elementary("both-set")
@rule("ranks/directory")
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_kernels_are_kept_where_the_environment_says(
    network: NetworkUnderTest, environment: dict[str, str]
) -> None:
    """PWD is that of a launcher, which changed the directory and not the variable."""
    environment = {"PWD": str(network.sandbox), **environment}
    run = network.run(NETWORK, environment=environment)
    ended_well(run)
    place = kernel_meta(run.result.request.environment, network.work)
    kernels = RankKernel.read_all(Path(place))
    lacks = lacking(kernels.values())
    assert not lacks, network.evidence.found(
        Later.STORES_NOTHING,
        f"{place} holds {sorted(kernels) or 'nothing'}, and no kernel of {lacks}",
    )
    elsewhere = [path for path in run.kernels_written if not path.startswith(f"{run.place}/")]
    assert elsewhere == [], "kernels were written elsewhere"
    again = network.run(NETWORK, environment=environment)
    assert (again.kernels_written, again.wrong) == (frozenset(), {}), (
        "the next run does not find them"
    )


ONE_CARD: dict[str, dict[str, str]] = {
    "rank-table": {"RANK_SIZE": "1"},
    "dynamic-cluster": {"MS_WORKER_NUM": "1"},
    "both-alike": {"RANK_SIZE": "1", "MS_WORKER_NUM": "1", "RANK_ID": "0", "DEVICE_ID": "0"},
    "an-address": {"MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": "65535", "RANK_SIZE": "1"},
    "the-shortest-timeout": {TIMEOUT: str(SHORTEST_WAIT), "RANK_SIZE": "1"},
    "the-longest-timeout": {TIMEOUT: str(LONGEST_WAIT)},
    "all-of-them-empty": dict.fromkeys(("RANK_SIZE", "RANK_ID", "MS_SCHED_PORT", TIMEOUT), ""),
}
"""What launchers set for a single card: the smallest size, and the extremes of ranges."""


@rule("incremental/reuses")
def test_one_card_is_one_card_whatever_says_so(network: NetworkUnderTest) -> None:
    """It meets no other rank, and uses kernels of its own or those of any other run on one card."""
    network.warm(NETWORK)
    wrong = []
    for name, environment in ONE_CARD.items():
        network.mark()
        request = network.request(NETWORK, environment=environment)
        run = network.attempt(request)
        if run.succeeded and run.compiled:  # a launched card may be a scenario of its own
            network.mark()
            run = network.attempt(request)
        if not run.succeeded or run.wrong:
            wrong.append(f"{name}: the run {run.result.ending}: {run.output.strip()[-200:]}")
        elif run.compiled:
            wrong.append(f"{name}: {sorted(run.compiled)} were compiled again")
    assert wrong == []


@rule("ranks/isolated")
@pytest.mark.ascend_ranks
def test_a_cold_card_among_warm_ones_compiles(network: NetworkUnderTest, ascend_rank: Rank) -> None:
    network.share(ascend_rank.directory)
    with address_of(ascend_rank) as gang:
        environment = {**ascend_rank.environment, **gang.environment, "DEVICE_ID": "0"}
        request = network.request(NETWORK, environment=environment)
        network.needs_reuse()
        ended_well(network.attempt(request))
        _has_kernels(network, ascend_rank.rank)
        cold = ascend_rank.rank == ascend_rank.size - 1
        if cold:
            shutil.rmtree(network.cache / f"rank_{ascend_rank.rank}")
        else:
            network.mark(ascend_rank.rank)
        ascend_rank.barrier()
        run = network.attempt(request)
    ended_well(run)
    assert run.compiled == (EVERYTHING if cold else frozenset())


def _has_kernels(network: NetworkUnderTest, *ranks: int) -> None:
    """These ranks, which started without kernels, now have their own."""
    for rank in ranks:
        assert network.kernels(rank), f"rank {rank} keeps no kernel: it had those of another rank"


def _types(network: NetworkUnderTest, rank: int) -> set[str]:
    """Types of three ranks' operators of which this rank keeps kernels."""
    kernels = network.kernels(rank).values()
    return {each for each in _TYPES for kernel in kernels if kernel.is_of(each)}


def _remove_kernels(
    network: NetworkUnderTest, rank: int, operators: frozenset[str] | None = None
) -> None:
    """Remove a rank's kernels of these operators, or all of its kernels."""
    for kernel in network.kernels(rank).values():
        if operators is None or any(map(kernel.is_of, operators)):
            for path in kernel.paths:
                path.unlink()


@rule("ranks/isolated")
def test_each_of_many_ranks_writes_below_its_own_directory(network: NetworkUnderTest) -> None:
    with meeting_place(len(_TYPES)) as gang:
        runs = network.together(
            *(
                network.request(probe_network(each), rank, gang, {"DEVICE_ID": "0"})
                for rank, each in enumerate(_TYPES)
            )
        )
    ended_well(*runs)
    for rank, each in enumerate(_TYPES):
        types = _types(network, rank)
        assert types == {each}, f"rank {rank} keeps kernels of {sorted(types)}, and runs {each}"
        kernels = network.kernels(rank).values()
        assert [problem for kernel in kernels for problem in kernel.problems()] == []
    own = tuple(f"cache/rank_{rank}/" for rank in range(len(_TYPES)))
    of_all = runs[0].kernels_written  # one look at the files for ranks that run together
    assert [path for path in of_all if not path.startswith(own)] == []


@rule("ranks/isolated")
def test_many_ranks_use_no_kernel_of_another(network: NetworkUnderTest) -> None:
    """A smaller gang does not touch the kernels of a rank that it lacks either."""
    network.needs_reuse()
    same = {"DEVICE_ID": "0"}
    # Nobody has to listen twice in a minute at one address: the system keeps it a while.
    with meeting_place(3) as gang, meeting_place(3) as again, meeting_place(2) as pair:
        first, requests = (
            [network.request(NETWORK, rank, place, same) for rank in range(3)]
            for place in (gang, again)
        )
        ended_well(*network.together(*first))
        _has_kernels(network, 0, 1, 2)
        _remove_kernels(network, 1)
        network.mark(0)
        network.mark(2)
        runs = network.together(*requests)
        before = set(network.kernels(2))
        fewer = network.together(*(network.request(NETWORK, each, pair, same) for each in (0, 1)))
    ended_well(*runs, *fewer)
    assert [run.compiled for run in runs] == [frozenset(), EVERYTHING, frozenset()]
    assert runs[0].disturbed == runs[2].disturbed == {}
    assert set(network.kernels(2)) == before, (
        "kernels of a rank are gone that a smaller gang does not have"
    )


@rule("ranks/isolated")
@pytest.mark.parametrize("rank", [1, 10])
def test_a_rank_uses_nothing_of_a_directory_that_is_named_alike(
    network: NetworkUnderTest, rank: int
) -> None:
    """Cold, warm and with one kernel gone, beside directories that hold all of them marked."""
    network.needs_reuse()
    network.run(NETWORK, rank=rank)
    network.mark(rank)
    own = network.cache / f"rank_{rank}"
    beside = [NamedAlike(own), NamedAlike(own / "kernel_meta")]
    for lacks in (EVERYTHING, frozenset(), frozenset({"exp"})):
        _remove_kernels(network, rank, lacks)
        if lacks != EVERYTHING:
            network.mark(rank)
        run = network.run(NETWORK, rank=rank)
        where = f"rank {rank}, which lacks {sorted(lacks) or 'none'} of its kernels,"
        assert lacks <= run.compiled, network.evidence.found(
            Delivery.ANOTHER, f"{where} runs one of a directory that is named alike"
        )
        assert run.compiled == lacks, f"{where} compiles others, too"
        for each in beside:
            each.are_untouched(network.evidence, where)


@rule("ranks/isolated")
def test_a_rank_leaves_alone_what_a_rank_of_nearly_its_number_is_writing(
    network: NetworkUnderTest, toolchain: Toolchain
) -> None:
    """Rank 10 stands before it gives its first file a name, and before its last change."""
    writing = recorded(network, toolchain, network.request(NETWORK, 10))
    changes = [each for each in writing.holdable if each.act.changes]
    renames = [each for each in changes if each.act is Act.RENAME]
    for at in (*renames[:1], changes[-1]):
        writing.reset()
        with writing.held(at) as other:
            ended_well(network.run(NETWORK, rank=1))
            other.release()
            ended_well(other.result())
        assert not lacking(network.kernels(10).values()), (
            f"a run of rank 1 costs rank 10, which stood before {at}, its kernels"
        )


@rule("ranks/scenarios-separate")
@pytest.mark.parametrize(("first", "then"), [(TRAINING, INFERENCE), (INFERENCE, TRAINING)])
def test_training_and_inference_are_not_mixed(
    network: NetworkUnderTest, first: Phase, then: Phase
) -> None:
    network.run(NETWORK, phase=first)
    network.mark()
    other = network.run(NETWORK, phase=then)
    ended_well(other)
    assert other.compiled == EVERYTHING, f"{then.value} used kernels of {first.value}"
    for phase in (first, then):
        network.mark()
        again = network.run(NETWORK, phase=phase)
        ended_well(again)
        assert again.compiled == frozenset(), f"kernels of {phase.value} did not stay"


@rule("ranks/scenarios-separate")
@pytest.mark.parametrize("first", ["one-card", "several-cards"])
def test_one_card_and_several_are_not_mixed(network: NetworkUnderTest, first: str) -> None:
    _are_not_mixed(network, first, {})


@rule("ranks/scenarios-separate")
@pytest.mark.parametrize("first", ["one-card", "several-cards"])
def test_one_card_and_a_dynamic_cluster_are_not_mixed(
    network: NetworkUnderTest, first: str
) -> None:
    """Several cards without a rank table, as ``msrun`` starts them."""
    _are_not_mixed(network, first, {"RANK_SIZE": "", "MS_WORKER_NUM": "2"})


def _are_not_mixed(network: NetworkUnderTest, first: str, launcher: dict[str, str]) -> None:
    needs_meeting(network.toolchain)
    network.needs_reuse()
    with meeting_place(2) as gang:
        alone = [network.request(NETWORK, 0)]
        together = [network.request(NETWORK, rank, gang, launcher) for rank in range(2)]
        before, after = (alone, together) if first == "one-card" else (together, alone)
        ended_well(*network.together(*before))
        network.mark()
        run = network.together(*after)[0]
    ended_well(run)
    assert run.compiled == EVERYTHING, "kernels of the other scenario were used"


@rule("ranks/scenarios-separate")
@pytest.mark.parametrize("phases", [(TRAINING, INFERENCE), (INFERENCE, TRAINING)])
def test_phases_of_several_cards_are_not_mixed(
    network: NetworkUnderTest, phases: tuple[Phase, Phase]
) -> None:
    """Both scenarios of one card are cached and marked as well."""
    needs_meeting(network.toolchain)
    network.needs_reuse()
    for phase in phases:
        network.run(NETWORK, 0, phase=phase)
    with meeting_place(2) as gang:
        for phase in phases:
            network.mark()
            requests = [network.request(NETWORK, rank, gang, phase=phase) for rank in range(2)]
            runs = network.together(*requests)
            ended_well(*runs)
            assert runs[0].compiled == EVERYTHING, (
                f"several cards used kernels of another scenario for {phase.value}"
            )


@rule("ranks/partial-deletion")
def test_warm_ranks_wait_for_a_cold_one(network: NetworkUnderTest, rehearse: Rehearse) -> None:
    """Two gangs lack their last rank. The gang with the shorter timeout fails and names it. Then
    the last rank of the other gang comes, in time for the longer timeout."""

    def story(second: float) -> None:
        _warm_ranks(network)
        # The other gang uses a copy of the directories, including the impostors.
        copy = {"MS_COMPILER_CACHE_PATH": str(network.copy_cache())}
        with (
            meeting_place(3, SHORTEST_WAIT) as short,
            meeting_place(3, LONGEST_WAIT) as long,
            network.watch() as watch,
        ):
            waiting = [
                watch.start(network.request(NETWORK, rank, long, copy, second=second))
                for rank in range(2)
            ]
            missing = [
                watch.start(network.request(NETWORK, rank, short, second=second))
                for rank in range(2)
            ]
            runs = [wait(watch, process, second) for process in missing]
            ended_without(2, *runs)
            errors = "\n".join(run.output.strip() for run in runs)
            assert TIMEOUT in errors, f"{TIMEOUT} is not named: {errors}"
            for run in runs:
                assert run.result.outputs is None, "a rank ran the network without rank 2"
                assert run.disturbed == {}, "kernels of waiting ranks did not stay"
            cold = watch.start(network.request(NETWORK, 2, long, copy, second=second))
            came = [wait(watch, process, second) for process in (*waiting, cold)]
        ended_well(*came)
        assert [run.compiled for run in came] == [frozenset(), frozenset(), EVERYTHING]

    rehearse(story)


def _warm_ranks(network: NetworkUnderTest) -> None:
    """Run three ranks, mark the kernels of ranks 0 and 1, and delete those of rank 2."""
    with meeting_place(3) as gang:
        ended_well(*network.together(*(network.request(NETWORK, rank, gang) for rank in range(3))))
    network.mark(0)
    network.mark(1)
    _remove_kernels(network, 2)


@rule("ranks/partial-deletion")
def test_a_rank_waits_for_a_late_rank_0(network: NetworkUnderTest, rehearse: Rehearse) -> None:
    """Rank 1 starts first. Then rank 1 of another gang, with a shorter timeout, waits in vain; when
    it has failed, rank 0 comes, still in time."""

    def story(second: float) -> None:
        with (
            meeting_place(2, SHORTEST_WAIT) as short,
            meeting_place(2, LONGEST_WAIT) as long,
            network.watch() as watch,
        ):
            first = watch.start(network.request(NETWORK, 1, long, second=second))
            own = {"MS_COMPILER_CACHE_PATH": f"{network.cache}-of-another-gang"}
            other = watch.start(network.request(NETWORK, 1, short, own, second=second))
            ended_without(0, wait(watch, other, second))
            late = watch.start(network.request(NETWORK, 0, long, second=second))
            ended_well(*(wait(watch, process, second) for process in (first, late)))

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("timeout", [SHORTEST_WAIT, None], ids=["shortest", "default"])
def test_a_rank_waits_for_a_rank_0_that_never_comes(
    network: NetworkUnderTest, rehearse: Rehearse, timeout: int | None
) -> None:
    def story(second: float) -> None:
        with meeting_place(2, timeout) as gang, network.watch() as watch:
            process = watch.start(network.request(NETWORK, 1, gang, second=second))
            run = wait(watch, process, second, timeout)
        ended_without(0, run)
        assert TIMEOUT in run.output, f"{TIMEOUT} is not named: {run.output.strip()}"

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("value", ["-120", "soon"])
def test_a_timeout_that_is_no_time_is_refused(network: NetworkUnderTest, value: str) -> None:
    """Or the default is taken instead. No document says which times are too short or too long."""
    needs_meeting(network.toolchain)
    with meeting_place(2) as gang:
        requests = [
            network.request(NETWORK, rank, gang, {TIMEOUT: value}, second=1.0) for rank in range(2)
        ]
        for run in network.together(*requests):
            if not run.succeeded:
                _refused(run, TIMEOUT, value)
                assert run.kernels_written == frozenset(), "kernels were written all the same"


@rule("ranks/partial-deletion")
def test_timeouts_of_three_and_four_digits_are_taken(network: NetworkUnderTest) -> None:
    """Any number of the range, and everybody is there. What HCCL takes: facts
    ``mindspore-incremental`` section 1.8."""
    needs_meeting(network.toolchain)
    draw = random.Random(seeded(9))
    drawn = draw.randint(SHORTEST_WAIT, 999), draw.randint(1000, LONGEST_WAIT)
    for value in (999, 1000, *drawn):
        with meeting_place(2, value) as gang:
            requests = [network.request(NETWORK, rank, gang, second=1.0) for rank in range(2)]
            ended_well(*network.together(*requests))


def _refused(run: NetworkRun, variable: str, value: str) -> None:
    """Assert that a rank ended with an error that names a variable and its bad value."""
    assert run.result.returncode is not None
    assert run.result.returncode > 0, f"{variable}={value!r}: the rank {run.result.ending}"
    assert variable.lower() in run.output.lower(), (
        f"the error does not name {variable}: {run.output.strip()}"
    )
    shown = (value.strip(), repr(value)[1:-1].strip(), ascii(value)[1:-1].strip())
    assert any(each in run.output for each in shown), (
        f"the error does not show {value!r}: {run.output.strip()}"
    )


TRICKY_RANKS = (
    *("-1", "one", "../x", "1/../2", "0/../../escaped", "..", "1 2", "1.0", "0x1", "1e0", "True"),
    *("+1", " 1", "1 ", "1\n", "\t1", "1_0", "1,2", "٣", "３", "²", "03", "00", "99999999999"),
)
"""Texts that some parser accepts as a rank."""
TELLING_RANKS = (
    # A sign, a word, a path, an exponent, a base, a plus, blanks before and after, grouped digits,
    # digits of other alphabets, leading zeros, a number beyond 32 bits.
    *("-1", "one", "0/../../escaped", "1e0", "0x1", "+1", "\t1", "1\n", "1_0"),
    *("٣", "²", "03", "99999999999"),
)
"""One for each way to misread a text as a rank. If one of them fails, all are tried."""


@rule("ranks/bad-rank-id")
@texts(6, [{"text": text} for text in TELLING_RANKS])
@given(
    text=st.sampled_from(TRICKY_RANKS)
    | st.integers(0, 300).map(str)
    | st.text("0123456789 +-_./x\n٣³", min_size=1, max_size=4)
)
def test_a_rank_is_taken_as_it_is_written_or_refused(network: NetworkUnderTest, text: str) -> None:
    """Another spelling of a number may be refused or get a separate directory, but must not share
    the number's. A number with blanks around it may run as that number, or be refused."""
    environment, before = {"RANK_ID": text}, _escaped(network)
    run = network.attempt(network.request(NETWORK, environment=environment))
    assert _escaped(network) <= before, network.evidence.found(
        Place.TOUCHED, f"RANK_ID={text!r}: kernels outside of the cache directory"
    )
    may_run = is_rank_id(text) or is_other_spelling(text)
    if not run.succeeded:
        sure = is_rank_id(text) and len(text) <= LONGEST_SURE_RANK
        assert not sure, f"RANK_ID={text!r}, a plain rank, is refused: {run.result.ending}"
        _refused(run, "RANK_ID", text)
        assert run.kernels_written == frozenset(), (
            f"RANK_ID={text!r}: kernels were written all the same"
        )
        return
    own = kernel_meta(run.result.request.environment, network.work)
    trimmed = text.strip(_BLANKS)
    mine = own.parent.name if may_run else f"rank_{trimmed or 0}" if is_rank_id(trimmed) else ""
    written = {part for path in run.files_written for part in Path(path).parts}
    others = set(filter(_RANK.match, written)) - {mine}
    assert not others, network.evidence.found(
        Numbers.RANK_TWICE, f"RANK_ID={text!r} runs as {', '.join(sorted(others))}"
    )
    assert mine, f"RANK_ID={text!r} is no rank, and the network runs"
    if may_run:
        assert Path(own).is_dir(), f"RANK_ID={text!r}: no {own}"
        elsewhere = [path for path in run.kernels_written if not path.startswith(f"{run.place}/")]
        assert elsewhere == [], f"RANK_ID={text!r}: kernels are written elsewhere than {own}"


_BLANKS = " \t\n"
_RANK = re.compile(r"rank_\d+$", re.ASCII)
"""The directory of a rank."""


def _escaped(network: NetworkUnderTest) -> set[Path]:
    """Directories of ranks outside the cache directory."""
    directories = network.sandbox.rglob("kernel_meta")
    return {path for path in directories if not path.is_relative_to(network.cache)}


@rule("ranks/bad-rank-id")
def test_a_rank_beyond_the_gang_is_refused(network: NetworkUnderTest, rehearse: Rehearse) -> None:
    def story(second: float) -> None:
        with meeting_place(2, SHORTEST_WAIT) as gang, network.watch() as watch:
            process = watch.start(network.request(NETWORK, 2, gang, second=second))
            run = wait(watch, process, second)
        _refused(run, "rank", "2")
        assert run.kernels_written == frozenset()

    rehearse(story)


@rule("ranks/bad-rank-id")
def test_two_ranks_of_one_number_do_not_merge(
    network: NetworkUnderTest, rehearse: Rehearse
) -> None:
    """That no rank ends well, because rank 2 never came, every wait for a rank asserts."""

    def story(second: float) -> None:
        with meeting_place(3, SHORTEST_WAIT) as gang, network.watch() as watch:
            processes = [
                watch.start(network.request(probe_network(each), rank, gang, second=second))
                for rank, each in zip((0, 1, 1), _TYPES, strict=True)
            ]
            runs = [wait(watch, process, second) for process in processes]
        for run in runs:
            assert (run.result.returncode or 0) > 0, f"a rank {run.result.ending}"
        errors = "\n".join(run.output for run in runs)
        assert "rank" in errors.lower(), f"no error names RANK_ID: {errors}"
        assert re.search(r"\b1\b", errors), f"no error names the number: {errors}"
        kept = _types(network, 1)
        assert len(kept) <= 1, f"one directory holds kernels of two processes: {sorted(kept)}"

    rehearse(story)


@rule("ranks/bad-rank-id")
def test_two_ranks_of_one_number_do_not_stand_for_two(
    network: NetworkUnderTest, rehearse: Rehearse
) -> None:
    """Each has its own directory, as on two hosts, so no lock reveals the other. Rank 2 of three
    never comes, so no rank may end well, which every wait for a rank asserts."""

    def story(second: float) -> None:
        with meeting_place(3, SHORTEST_WAIT) as gang, network.watch() as watch:
            processes = []
            for place, rank in enumerate((0, 1, 1)):
                own = {"MS_COMPILER_CACHE_PATH": f"{network.cache}-of-host{place}"}
                request = network.request(NETWORK, rank, gang, own, second=second)
                processes.append(watch.start(request))
            runs = [wait(watch, process, second) for process in processes]
        for run in runs:
            assert (run.result.returncode or 0) > 0, f"a rank {run.result.ending}"

    rehearse(story)


@rule("ranks/partial-deletion")
@pytest.mark.parametrize("visitors", [(0,), (0, 2), (3,)], ids=str)
def test_every_missing_rank_is_named(
    network: NetworkUnderTest, rehearse: Rehearse, visitors: tuple[int, ...]
) -> None:
    """A gang of four. Those that come do so in turn, rank 0 last, so each is alone. A rank other
    than 0 only knows that rank 0 is missing."""

    def story(second: float) -> None:
        with meeting_place(4, SHORTEST_WAIT) as gang, network.watch() as watch:
            for rank in reversed(visitors):
                request = network.request(NETWORK, rank, gang, second=second)
                run = wait(watch, watch.start(request), second)
        missing = set(range(4)) - set(visitors) if 0 in visitors else {0}
        assert named(run, missing, gone=visitors) == missing, (
            f"ranks {sorted(missing)} are missing: {run.output.strip()}"
        )

    rehearse(story)


@rule("ranks/killed-rank")
@pytest.mark.parametrize("moment", ["at-once", "with-its-kernels", "in-the-meeting"])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_others(
    network: NetworkUnderTest, rehearse: Rehearse, victim: int, moment: str
) -> None:
    def story(second: float) -> None:
        with meeting_place(3, SHORTEST_WAIT) as gang:
            requests = [network.request(NETWORK, rank, gang, second=second) for rank in range(3)]
            with network.watch() as watch:
                # The last rank comes after the kill, so they cannot all meet before.
                started = [watch.start(requests[rank]) for rank in (victim, 1 - victim)]
                if moment == "with-its-kernels":
                    wait_until(lambda: not lacking(network.kernels(victim).values()))
                if moment == "in-the-meeting":
                    settled(*started)
                started[0].kill()
                wait(watch, started[0], second)
                others = (started[1], watch.start(requests[2]))
                ended_without(victim, *(wait(watch, each, second) for each in others))
            again = [network.request(NETWORK, rank, gang) for rank in range(3)]
            runs = network.together(*again)
            failed = [run for run in runs if not run.succeeded]
            assert not failed, network.evidence.found(
                Later.FAILS,
                f"after rank {victim} was killed, the next run of rank {runs.index(failed[0])} "
                f"{failed[0].result.ending}",
            )
            ended_well(*runs)

    rehearse(story)
