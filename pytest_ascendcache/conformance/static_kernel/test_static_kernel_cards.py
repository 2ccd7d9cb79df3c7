"""Static kernels on several cards: processes with torchrun's environment, and an operator package
for each node. Source: document K, constraints."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.combinations.generated import FAMILIES, generate, groups
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.incremental.fixtures import address_of
from pytest_ascendcache.conformance.kit.clients import (
    NETWORK,
    OTHER,
    card,
    gang,
    not_given,
    packages,
    reached,
    refused,
    reported,
    stops_at,
    trees,
)
from pytest_ascendcache.conformance.kit.neighbours import WIDE, wide_network
from pytest_ascendcache.conformance.kit.packages import told_apart
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery, Ending, Later, Numbers
from pytest_ascendcache.contract.static_kernel import (
    LOCAL_WORLD_SIZE,
    first_cards,
    local_world_size,
)
from pytest_ascendcache.faults import FaultGate
from pytest_ascendcache.observation import (
    IMPOSTOR,
    OWN,
    ClientRun,
    NotDecidable,
    Probe,
    StandIn,
    StaticKernelsUnderTest,
    meeting_place,
    probe_network,
    state_of,
)
from pytest_ascendcache.observation.static_kernel import ClientRequest
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import read_opinfo
from pytest_ascendcache.processes.launch import Running
from pytest_ascendcache.processes.sleeping import ends_or_sleeps
from pytest_ascendcache.ranks import Rank
from pytest_ascendcache.toolchains import StaticProcess, Toolchain

MOMENT = 1 / 400
"""Real seconds for one second of waiting where cards wait in vain: a compile may take 1800."""
LONG = 400
"""Seconds of a compile that cards wait for: minutes to tens of minutes (facts 3.5 and 4.2)."""
ELSEWHERE = "127.0.0.2"
"""An address of this machine that nobody takes for granted."""
Story = Callable[[float], None]
"""What cards do, by the real seconds of one second of waiting."""
Rehearse = Callable[[Story], None]
HANGS = 60.0
"""Real seconds after which a card that has not ended never will."""
SETTLED, UNSETTLED = 0.5, 10.0
"""Seconds of sleep after which a card counts as waiting, and seconds to reach such a sleep."""


@pytest.fixture
def marked(kernels: StaticKernelsUnderTest) -> StandIn:
    """An op_compiler whose packages install impostors."""
    return kernels.stand_in(*NETWORK.operators, marked=True)


REFUSED = ["", "abc", "0", "-1", "2.0", "3", None]
DIVIDES_NOT = {3: "2", 4: "3", 5: "10", 6: "4"}
"""By the number of cards."""


@rule("static-kernel/local-world-size")
@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(value))
def test_a_local_world_size_that_does_not_fit_is_refused(
    kernels: StaticKernelsUnderTest, marked: StandIn, value: str | None
) -> None:
    assert local_world_size(value, 2) is None
    for run in _run_cards(kernels, [NETWORK] * 2, [value] * 2, marked):
        refused(run, LOCAL_WORLD_SIZE)
    _nothing_was_done(kernels, marked)


@rule("static-kernel/local-world-size")
@pytest.mark.parametrize("world", DIVIDES_NOT)
def test_a_local_world_size_that_does_not_divide_is_refused(
    kernels: StaticKernelsUnderTest, marked: StandIn, world: int
) -> None:
    value = DIVIDES_NOT[world]
    assert local_world_size(value, world) is None
    for run in _run_cards(kernels, [NETWORK] * world, [value] * world, marked):
        refused(run, LOCAL_WORLD_SIZE)
    _nothing_was_done(kernels, marked)


def _run_cards(
    kernels: StaticKernelsUnderTest,
    networks: Sequence[Network | Sequence[Network]],
    local: Sequence[str | None],
    op_compiler: StandIn,
) -> list[ClientRun]:
    """Run one card for each network, or list of networks, with its ``LOCAL_WORLD_SIZE``."""
    with meeting_place(len(networks)) as place:
        requests = gang(kernels, networks, place.port, local, op_compiler.path)
        return kernels.together(*requests)


def _end_well(
    kernels: StaticKernelsUnderTest,
    networks: Sequence[Network | Sequence[Network]],
    local: Sequence[str | None],
    op_compiler: StandIn,
) -> list[ClientRun]:
    """Run cards none of which may fail. If one does, the same job again tells the harm."""
    runs = _run_cards(kernels, networks, local, op_compiler)
    for rank, run in enumerate(runs):
        what = f"rank {rank} {run.result.ending}: {run.output.strip()[-400:]}"
        if not run.succeeded:
            again = _run_cards(kernels, networks, local, op_compiler)
            if not all(each.succeeded for each in again):
                what = f"every run of rank {rank} fails: {run.result.ending}"
                kernels.evidence.found(Later.FAILS, what)
        assert run.succeeded, what
    return runs


def _ended(
    kernels: StaticKernelsUnderTest, requests: list[ClientRequest], processes: list[StaticProcess]
) -> list[ClientRun]:
    """Wait for all cards; the return code of one that hangs is None."""
    pairs = zip(requests, processes, strict=True)
    return [kernels.observed(request, process.wait(HANGS)) for request, process in pairs]


def _nothing_was_done(kernels: StaticKernelsUnderTest, marked: StandIn) -> None:
    assert marked.calls == [], "op_compiler was called"
    assert trees(kernels.build) == [], "there is an output directory"
    assert [state_of(path) for path in kernels.sandbox.glob("node*") if state_of(path)] == []


@rule("static-kernel/local-world-size")
@pytest.mark.parametrize(
    "values",
    [("2", "1"), ("1", "2"), ("2", None), ("2", "2", "4", "4"), ("4", "4", "2", "2")],
    ids=str,
)
def test_it_has_to_be_the_same_on_every_card(
    kernels: StaticKernelsUnderTest, marked: StandIn, values: tuple[str | None, ...]
) -> None:
    """A card whose own value may be right need not know what another one has."""
    runs = _run_cards(kernels, [NETWORK] * len(values), values, marked)
    for run in runs:
        refused(run)
    if not any(LOCAL_WORLD_SIZE in run.output for run in runs):
        refused(runs[0], LOCAL_WORLD_SIZE)
    _nothing_was_done(kernels, marked)


@rule("static-kernel/local-world-size")
@pytest.mark.parametrize("value", [None, "abc"])
def test_one_card_needs_none(
    kernels: StaticKernelsUnderTest, marked: StandIn, value: str | None
) -> None:
    assert local_world_size(value, 1) == 1
    environment = card(0, 1, 29500, value)
    (run,) = kernels.together(
        kernels.client(
            NETWORK, build=kernels.build, op_compiler=marked.path, environment=environment
        )
    )
    if value and not run.succeeded:  # it is no natural number
        refused(run, LOCAL_WORLD_SIZE)
        _nothing_was_done(kernels, marked)
        return
    assert run.succeeded, f"the client {run.result.ending}: {run.output.strip()[-300:]}"
    assert run.kernels == {IMPOSTOR}


@rule("static-kernel/first-card")
@pytest.mark.parametrize("local", [1, 2, 4])
def test_each_first_card_compiles_once_for_its_node(
    kernels: StaticKernelsUnderTest, marked: StandIn, local: int
) -> None:
    assert local_world_size(str(local), 4) == local
    runs = _end_well(kernels, [NETWORK] * 4, [str(local)] * 4, marked)
    _all_ran_installed_kernels(kernels, runs)
    # The first of each node compiles, or each card, or some that share the work.
    assert len(packages(kernels.build)) == len(marked.calls)
    assert len({pid for _, _, pid in trees(kernels.build)}) == 4, "not every card has its output"
    assert _installed(kernels) == [], "packages stay installed"


def _installed(kernels: StaticKernelsUnderTest) -> list[str]:
    """The nodes with packages or an index. A killed installer may leave other files."""
    nodes = sorted(kernels.sandbox.glob("node*"))
    installed = ((path.name, InstalledKernels(path)) for path in nodes)
    return [name for name, each in installed if each.packages or each.chips]


def _all_ran_installed_kernels(kernels: StaticKernelsUnderTest, runs: list[ClientRun]) -> None:
    for rank, run in enumerate(runs):
        assert run.succeeded, f"rank {rank} {run.result.ending}: {run.output.strip()[-400:]}"
        assert run.kernels == {IMPOSTOR}, kernels.evidence.found(
            Delivery.NOTHING, f"rank {rank} does not run the installed kernels"
        )


@rule("static-kernel/first-card")
@pytest.mark.parametrize("number", range(3))
def test_the_first_card_compiles_what_all_cards_need(
    kernels: StaticKernelsUnderTest, number: int
) -> None:
    """A drawn number of nodes and of cards in each: an operator that all cards have, and others
    that one or several have, whose files share a name."""
    draw = random.Random(f"{seeded(6)}{number}")
    local = (3, 5, 8)[number]
    world = local * draw.randint(1, 16 // local)
    slopes = draw.choices([0.5 / 2**power for power in range(world)], k=world)
    networks = [
        probe_network(
            "Square", Probe("LeakyRelu", attributes=(("negative_slope", "float", slope),))
        )
        for slope in slopes
    ]
    operators = {each.named("") for network in networks for each in network.operators}
    marked = kernels.stand_in(*sorted(operators, key=repr), marked=True)
    runs = _end_well(kernels, networks, [str(local)] * world, marked)
    _all_ran_installed_kernels(kernels, runs)
    for first in first_cards(world, local):
        node = {each.named("") for of in networks[first : first + local] for each in of.operators}
        needed = sorted(_described(OperatorInfo.of(each)) for each in node)
        calls = [marked.given(each) for each in range(first, first + local)]
        compiled = sorted(_described(read_opinfo(path)) for paths in calls for path in paths)
        where = f"of {world} cards, {local} in a node, that of card {first} has op_compiler compile"
        missing = sorted(set(needed) - set(compiled))
        assert missing == [], kernels.evidence.found(Delivery.NOTHING, f"{where} no {missing}")
        if sum(map(bool, calls)) > 1:  # each card compiles its own
            compiled = sorted({*compiled})
        assert compiled == needed, f"{where} others than its node needs"


def _described(info: OperatorInfo) -> str:
    return f"{info.type} {info.attributes}"


@rule("static-kernel/first-card")
def test_the_first_card_compiles_all_of_many_operators(kernels: StaticKernelsUnderTest) -> None:
    """Each card has one of two operators that differ in a single field, such as an extent, a type
    or a number in a list. Some inputs are scalars."""
    families = tuple(each for each in FAMILIES if each.type in WIDE)
    operators = told_apart(generate(seed=seeded(4), families=families))
    networks = [wide_network(half) for half in groups(operators, 2)]
    stand_in = kernels.stand_in(*NETWORK.operators)
    _end_well(kernels, networks, ["2"] * 2, stand_in)
    missing = not_given(stand_in, 2, (each for of in networks for each in of.operators))
    assert missing == [], kernels.evidence.found(
        Delivery.NOTHING, f"no card gave {missing} to op_compiler"
    )


@rule("static-kernel/first-card")
def test_cards_that_run_in_directories_of_their_own_are_compiled_for(
    kernels: StaticKernelsUnderTest,
) -> None:
    """Each card's build directory lies in its own directory, and is named relative to it."""
    networks = [probe_network("Square"), probe_network("Abs")]
    stand_in = kernels.stand_in(*NETWORK.operators)
    with meeting_place(2) as place:
        requests = gang(kernels, networks, place.port, ["2"] * 2, stand_in.path)
        for rank, each in enumerate(requests):
            work = kernels.sandbox / f"device{rank}"
            (work / "build").mkdir(parents=True)
            named = (
                "build" if word == str(kernels.build) else word for word in each.request.arguments
            )
            request = replace(each.request, work=work, arguments=tuple(named))
            requests[rank] = replace(each, request=request)
        runs = kernels.together(*requests)
    if not all(run.succeeded for run in runs):
        raise NotDecidable(f"a relative build directory is refused: {runs[0].result.ending}")
    operators = [each for network in networks for each in network.operators]
    assert not not_given(stand_in, 2, operators), kernels.evidence.found(
        Delivery.NOTHING, "operators of a card in another directory are not given to op_compiler"
    )


@rule("static-kernel/one-binary-per-shape")
def test_an_op_compiler_may_print_much(kernels: StaticKernelsUnderTest) -> None:
    """More than a pipe holds, on both streams."""
    needs(kernels.toolchain, Capability.STATIC_KERNEL_CLIENT)
    prints = "yes | head -n 200000; yes | head -n 200000 >&2"
    stand_in = kernels.stand_in(*NETWORK.operators, before=prints, marked=True)
    request = kernels.client(NETWORK, build=kernels.build, op_compiler=stand_in.path)
    with kernels.started(request.request) as processes:
        (run,) = _ended(kernels, [request], processes)
    what = "the client waits for an op_compiler that prints much"
    assert run.result.returncode is not None, kernels.evidence.found(Ending.NO_END, what)
    assert run.kernels == {IMPOSTOR}, kernels.evidence.found(
        Delivery.NOTHING, "an op_compiler that prints much compiles in vain"
    )


NEW = ("012", "0", "12", "")
"""The cards that meet a new operator, for each network."""
SHAPES = ((32,), (4, 8), (8, 4), (2, 16))
"""Each has as many elements as an impostor computes."""


@rule("static-kernel/first-card")
def test_cards_keep_step_whoever_meets_something_new(kernels: StaticKernelsUnderTest) -> None:
    """All cards, the first, the others, and none. All of it is given to op_compiler, whose package
    has all of it the first time, and in another run what the first card's call is about."""
    probes = [Probe("Square", shape=shape) for shape in SHAPES]
    lists = [
        [
            probe_network(each if str(card) in new else probes[0], name=f"network{number}")
            for number, (new, each) in enumerate(zip(NEW, probes, strict=True))
        ]
        for card in range(3)
    ]
    operators = [each.node.operator.named("") for new, each in zip(NEW, probes, strict=True) if new]
    marked = kernels.stand_in(*operators, marked=True)
    _all_ran_installed_kernels(kernels, _end_well(kernels, lists, ["3"] * 3, marked))
    missing = not_given(marked, 3, operators)
    assert missing == [], kernels.evidence.found(
        Delivery.NOTHING, f"no card gave {missing} to op_compiler"
    )
    if marked.calls == [0] * len(operators):
        by_call = _with_a_package_for_each_call(kernels, operators)
        _all_ran_installed_kernels(kernels, _end_well(kernels, lists, ["3"] * 3, by_call))


def _with_a_package_for_each_call(
    kernels: StaticKernelsUnderTest, operators: Sequence[OperatorSpec]
) -> StandIn:
    """An op_compiler whose first package has the first operator, the second the next, ..."""
    later = [kernels.stand_in(each, marked=True).package for each in operators[1:]]
    cases = (
        f'{call}) cp {shlex.quote(str(path))} "$output/"; exit ;;'
        for call, path in enumerate(later, start=2)
    )
    before = f"case $(wc -l < {{log}}) in {' '.join(cases)} esac"
    return kernels.stand_in(operators[0], before=before, marked=True)


@rule("static-kernel/first-card")
@pytest.mark.parametrize("graphs", [1, 2])
def test_every_card_has_its_kernels_before_any_is_uninstalled(
    kernels: StaticKernelsUnderTest, graphs: int
) -> None:
    """At the last graph, the second card is stopped while the first compiles, until the first has
    ended or sleeps because it waits for the second."""
    networks = (NETWORK, OTHER)[:graphs]
    operators = [each for network in networks for each in network.operators]
    with FaultGate(kernels.directory("meet") / "gate") as gate, meeting_place(2) as place:
        marked = kernels.stand_in(*operators, before=stops_at(gate, call=graphs), marked=True)
        requests = gang(kernels, [networks] * 2, place.port, ["2"] * 2, marked.path)
        with kernels.started(*(each.request for each in requests)) as processes:
            first, second = (each.running for each in processes)
            reached(gate)
            slept = ends_or_sleeps(second, SETTLED, UNSETTLED)
            if slept < SETTLED and not second.has_ended:
                raise NotDecidable("the second card neither ended nor waited in time")
            with _stopped(second):
                gate.release()
                ends_or_sleeps(first, SETTLED, UNSETTLED)
            runs = _ended(kernels, requests, processes)
    if 1 in marked.calls:
        raise NotDecidable("the second card compiles, too, and was held meanwhile")
    _all_ran_installed_kernels(kernels, runs)


@contextmanager
def _stopped(running: Running) -> Iterator[None]:
    """Stop a process group meanwhile, unless it has ended."""
    _signal(running, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(running, signal.SIGCONT)


def _signal(running: Running, number: signal.Signals) -> None:
    if not running.has_ended:
        with suppress(ProcessLookupError):
            os.killpg(running.leader, number)


def named(run: ClientRun) -> set[int]:
    """The ranks that an error names."""
    mentions = re.findall(r"ranks?[^\w\n]{0,3}((?:\d+[^\w\n]{0,3})+)", run.output, re.IGNORECASE)
    return {int(number) for each in mentions for number in re.findall(r"\d+", each)}


@rule("static-kernel/first-card")
@pytest.mark.parametrize("how", ["exit 1", "kill -9 $PPID; exit 1"], ids=["error", "killed"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_first_card_that_fails_ends_the_others(
    kernels: StaticKernelsUnderTest, victim: int, how: str
) -> None:
    """Waits are real here: a card that waits does so for half an hour. A card whose op_compiler
    fails may go on without static kernels, if it says so and all others do, too."""
    fails = f'[ "$RANK" != {victim} ] || {{{{ {how}; }}}}'
    stand_in = kernels.stand_in(*NETWORK.operators, before=fails)
    with meeting_place(4) as place:
        requests = gang(kernels, [NETWORK] * 4, place.port, ["2"] * 4, stand_in.path)
        with kernels.started(*(each.request for each in requests)) as processes:
            runs = _ended(kernels, requests, processes)
    if "kill" not in how and all(run.succeeded for run in runs):
        # All of them go on without static kernels.
        reported(runs[victim], "op_compiler")
        runs = []
    for rank, run in enumerate(runs):
        if rank == victim and run.returncode is None:
            raise NotDecidable(f"rank {rank}, whose op_compiler has failed, has not ended")
        assert run.returncode is not None, kernels.evidence.found(
            Ending.NO_END, f"rank {rank} waits for rank {victim}"
        )
        assert run.returncode != 0, kernels.evidence.found(
            Numbers.WITHOUT_A_RANK, f"rank {rank} ended well without rank {victim}"
        )
        if rank != victim:
            assert victim in named(run), f"rank {victim} is not named: {run.output.strip()[-300:]}"
    if "kill" not in how:
        assert _installed(kernels) == [], "packages stay installed"


@rule("static-kernel/first-card")
def test_nobody_waits_for_ever(kernels: StaticKernelsUnderTest, toolchain: Toolchain) -> None:
    """A first card never ends. Its compile hangs, and waits are shortened."""
    needs(toolchain, Capability.REHEARSED_WAITS)
    works = kernels.stand_in(*NETWORK.operators)
    hangs = kernels.stand_in(*NETWORK.operators, before="exec sleep 100")
    with meeting_place(2) as place:
        requests = [
            gang(kernels, [NETWORK] * 2, place.port, ["1"] * 2, each.path, MOMENT)[rank]
            for rank, each in enumerate((works, hangs))
        ]
        with kernels.started(*(each.request for each in requests)) as processes:
            run = kernels.observed(requests[0], processes[0].wait(HANGS))
    assert run.returncode is not None, kernels.evidence.found(
        Ending.NO_END, "rank 0 waits for ever"
    )
    assert run.returncode > 0, f"rank 0 {run.result.ending}"
    assert 1 in named(run), f"rank 1 is not named: {run.output.strip()[-300:]}"


@pytest.fixture
def rehearse(toolchain: Toolchain) -> Rehearse:
    """Plays a story of cards that come in time, again with longer seconds where they did not."""
    needs(toolchain, Capability.REHEARSED_WAITS)

    def play(story: Story) -> None:
        for second in (1 / 200, 1 / 60):
            with suppress(AssertionError):
                story(second)
                return
        story(1 / 25)

    return play


def _all_met(kernels: StaticKernelsUnderTest, runs: list[ClientRun]) -> None:
    """Assert that cards that met in time run. If not, they do not at the next start either."""
    for rank, run in enumerate(runs):
        assert run.succeeded, kernels.evidence.found(
            Later.FAILS, f"every run of rank {rank} fails: {run.output.strip()[-300:]}"
        )


@rule("static-kernel/first-card")
def test_cards_wait_for_a_long_compile(kernels: StaticKernelsUnderTest, rehearse: Rehearse) -> None:
    """The first card of the second of three nodes compiles for long, at its first network. The
    others wait, and all go on together to the second network."""

    def story(second: float) -> None:
        takes = f"sleep {LONG * second:.3f}"
        once = f'[ "$RANK" != 1 ] || ! mkdir {{log}}.long 2> /dev/null || {takes}'
        stand_in = kernels.stand_in(*NETWORK.operators, *OTHER.operators, before=once)
        with meeting_place(3) as place:
            requests = gang(
                kernels, [(NETWORK, OTHER)] * 3, place.port, ["1"] * 3, stand_in.path, second
            )
            _all_met(kernels, kernels.together(*requests))

    rehearse(story)


@rule("static-kernel/first-card")
@pytest.mark.parametrize("late", [0, 1])
def test_a_card_that_comes_late_is_waited_for(
    kernels: StaticKernelsUnderTest, marked: StandIn, rehearse: Rehearse, late: int
) -> None:
    """A card of another gang, whose rank 0 never comes, measures time: it gives up after three
    fifths of what the other card has to wait. Then the late one comes."""

    def story(second: float) -> None:
        with meeting_place(2) as place, meeting_place(2) as lonely:
            requests, others = (
                gang(kernels, [NETWORK] * 2, at.port, ["2"] * 2, marked.path, length)
                for at, length in ((place, second), (lonely, second * 3 / 5))
            )
            clock = others[1]
            with kernels.started(requests[1 - late].request, clock.request) as processes:
                kernels.observed(clock, processes[1].wait(HANGS))
                with kernels.started(requests[late].request) as comes:
                    waited = kernels.observed(requests[1 - late], processes[0].wait(HANGS))
                    came = kernels.observed(requests[late], comes[0].wait(HANGS))
        _all_met(kernels, [waited, came])

    rehearse(story)


@rule("static-kernel/first-card")
def test_cards_meet_at_their_address_alone(
    kernels: StaticKernelsUnderTest, marked: StandIn, rehearse: Rehearse
) -> None:
    """Two cards of one gang that were told different ports do not meet, which is asked once: no
    load makes them. Those of another, which were told an address of this machine that is not the
    usual one, do."""
    with meeting_place(2) as one, meeting_place(2) as other:
        apart = [
            gang(kernels, [NETWORK] * 2, each.port, ["2"] * 2, marked.path, MOMENT)[rank]
            for rank, each in enumerate((one, other))
        ]
        runs = kernels.together(*apart)
    assert not any(run.succeeded for run in runs), kernels.evidence.found(
        Numbers.WITHOUT_A_RANK, "cards that were given different ports run together"
    )

    def story(second: float) -> None:
        with meeting_place(2, host=ELSEWHERE) as place:
            here = (place.port, ["2"] * 2, marked.path, second, ELSEWHERE)
            together = kernels.together(*gang(kernels, [NETWORK] * 2, *here))
        _all_met(kernels, together)

    rehearse(story)


@rule("static-kernel/first-card")
@pytest.mark.ascend_ranks(2)
def test_the_cards_of_a_gang_share_their_kernels(
    kernels: StaticKernelsUnderTest, ascend_rank: Rank
) -> None:
    """The body runs once per rank, at the same time. The toolchain's own op_compiler compiles."""
    opp, build = ascend_rank.directory / "opp", ascend_rank.directory / "build"
    for path in (opp, build):
        path.mkdir(exist_ok=True)
    local = ascend_rank.environment[LOCAL_WORLD_SIZE]
    with address_of(ascend_rank) as place:
        own = card(ascend_rank.rank, 2, place.port, local, place.host)
        environment = {**ascend_rank.environment, **own}
        request = kernels.client(NETWORK, build=build, environment=environment, opp=opp)
        run = kernels.together(request)[0]
    assert run.succeeded, f"{run.result.ending}: {run.output.strip()[-300:]}"
    assert run.kernels == {OWN}
    made = [path.parent for path in packages(build)]  # one for all, or one in each card's output
    assert len(set(made)) == len(made), "a card made more than one package"
    assert InstalledKernels(opp).packages == frozenset()
