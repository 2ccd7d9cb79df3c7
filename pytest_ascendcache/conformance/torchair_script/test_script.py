"""Document K, judged from what a user's own script leaves: ``--ascend-torchair-script``.

A check about packages needs to have seen one installed, and the index read afterwards; otherwise
nothing was judged, which is an error and no pass.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.scripts import (
    asked_again,
    compiled,
    compiles,
    dumped,
    folders,
    is_named,
    keys_of,
    lines_beside,
    reads_after,
    served,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.static_kernel import LOCAL_WORLD_SIZE, PACKAGE_NAME
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.script import ScriptUnderTest
from pytest_ascendcache.observation.watched_compiler import Provocation
from pytest_ascendcache.toolchains.torchair import Card


@rule("static-kernel/output-tree")
def test_what_one_card_leaves(script: ScriptUnderTest) -> None:
    run = script.run()
    compiled(run)
    found = folders(run.work)
    assert found, "there is no folder of a compile where the document has it"
    for folder in found:
        assert is_named(folder), f"{folder.name} does not say when, and of which process"
        everything = dumped(folder, "_debug")
        target = dumped(folder, "")
        assert everything, f"{folder.name} has not all operators in a folder that ends in _debug"
        assert target, f"{folder.name} has no target operators"
        assert target <= everything, f"{folder.name} has target operators that _debug lacks"
    at_home = {path for folder in found for path in folder.glob("*.run")}
    assert at_home == set(run.work.rglob("*.run")), "a package is elsewhere"


@rule("static-kernel/package-names")
def test_names_of_packages(script: ScriptUnderTest) -> None:
    run = script.run()
    compiled(run)
    packages = run.work.rglob("*.run")
    assert [path.name for path in packages if not PACKAGE_NAME.fullmatch(path.name)] == []


@rule("static-kernel/one-binary-per-shape")
def test_every_target_operator_has_a_kernel(script: ScriptUnderTest) -> None:
    """Of those it dumped for any compile, by their keys in the index after the last install: what
    was installed for an earlier one stays as long as the process runs."""
    run = script.run()
    served(run)
    wanted = set().union(*(keys_of(folder) for folder in folders(run.work)))
    missing = sorted(key for _, key in wanted - run.compiler.keys())
    assert missing == [], f"{len(missing)} of {len(wanted)} operators have no kernel installed"


@rule("static-kernel/one-binary-per-shape")
def test_no_operator_is_compiled_twice(script: ScriptUnderTest) -> None:
    """Nobody asks op_compiler again for what one process has installed."""
    run = script.run()
    served(run)
    twice = asked_again(run)
    assert twice == set(), f"{len(twice)} operators were compiled although their kernels were there"


@rule("static-kernel/result-correct")
def test_every_package_that_was_installed_is_reselected(script: ScriptUnderTest) -> None:
    """The index is read after each install, before the next one and before it is uninstalled."""
    run = script.run()
    served(run)
    events = run.compiler.events
    unread = [
        before.package
        for before, after in pairwise(events)
        if (before.what, before.how) == ("installed", "0") and after.how == "unread"
    ]
    assert unread == [], "packages were installed whose kernels no process looked for"


@rule("static-kernel/uninstalled-at-exit")
def test_nothing_stays_installed(script: ScriptUnderTest) -> None:
    run = script.run()
    served(run)
    assert sorted(run.left) == [], "packages outlive the script that installed them"
    failed = [each for each in run.compiler.events if each.what == "removed" and each.how != "0"]
    assert failed == [], "an uninstall fails"


# Compiles and installs that fail.

FAILURES = {
    "op-compiler-fails": Provocation(compile="echo cannot compile >&2; exit 3"),
    "op-compiler-makes-nothing": Provocation(compile="exit 0"),
    "op-compiler-is-killed": Provocation(compile="kill -9 $$"),
    "package-refuses": Provocation(install="echo cannot install >&2; exit 3"),
    "package-is-broken": Provocation(install="exit 2"),
    "install-fails-at-its-end": Provocation(after="status=1"),
}


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("wrong", FAILURES.values(), ids=FAILURES)
def test_a_failure_is_told(script: ScriptUnderTest, wrong: Provocation) -> None:
    """By its exit status, or on the terminal, where nothing of it is said of a run that went well.

    Running on without static kernels is no failure, and nobody may think they are there.
    """
    well = script.run()
    served(well)
    run = script.attempt(1, wrong)
    if not run.ended.succeeded:
        return
    names = ["op_compiler", *(path.stem for path in run.work.rglob("*.run"))]
    told = [line for line in lines_beside(run, well) if any(name in line for name in names)]
    assert told, "it ends with 0, and no word of it says that there are no static kernels"


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("wrong", FAILURES.values(), ids=FAILURES)
def test_a_failure_leaves_nothing_installed(script: ScriptUnderTest, wrong: Provocation) -> None:
    served(script.run())
    run = script.attempt(1, wrong)
    assert run.compiler.callers, "op_compiler was not called"
    assert sorted(run.left) == [], "a package stays that nobody uses"


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("failing", ["compile", "install"])
def test_what_failed_once_is_tried_again(script: ScriptUnderTest, failing: str) -> None:
    """The first call fails. Operators of it that are dumped again later are to be compiled then."""
    served(script.run())
    first = "[ $call -gt 1 ] || exit 3"
    wrong = Provocation(compile=first)
    if failing == "install":
        wrong = Provocation(install='[ "$(grep -c begin "$notes/events")" -gt 1 ] || exit 3')
    run = script.attempt(1, wrong)
    failed = {path.read_text() for path in run.compiler.asked(1)}
    later = [dumped(folder, "_opcompile", "_debug") for folder in folders(run.work)[1:]]
    # A debug file names the kernel that served, an operator for op_compiler does not.
    met = {text for text in failed if any(text in texts for texts in later)}
    if run.ended.succeeded and not met:
        raise NotDecidable("the script does not meet an operator of its first compile again")
    if not run.ended.succeeded and len(run.compiler.callers) < 2:
        return  # it has ended with an error: there was no later call
    calls = range(2, len(run.compiler.callers) + 1)
    again = {path.read_text() for call in calls for path in run.compiler.asked(call)}
    assert met <= again, f"of {len(met)} operators that are met again {len(met - again)} are not"


# Signals.

LEAST_TO_END = 20.0
"""Seconds a script is given to end, beside five times what all of it takes undisturbed."""

KILLS = {
    "compile": "[ $call -ne 1 ] || kill -{} $PPID",
    "installed": '[ "$(grep -c ^installed "$notes/events")" -ne 1 ] || kill -{} $PPID',
}


def _signalled(moment: str, name: str) -> Provocation:
    return Provocation(**{moment: KILLS[moment].format(name)})


@rule("static-kernel/ends-when-told")
@pytest.mark.parametrize("moment", KILLS)
@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_ends_it(script: ScriptUnderTest, moment: str, name: str) -> None:
    well = script.run()
    served(well)
    run = script.attempt(1, _signalled(moment, name), may_hang=True)
    (code,) = run.ended.returncodes
    assert code is not None, f"after SIG{name} it neither ends nor goes on"
    calls = len(run.compiler.callers), len(well.compiler.callers)
    went_on = f"; op_compiler was called {calls[0]} times, undisturbed {calls[1]}"
    assert code != 0, f"after SIG{name} it goes on to its end, with exit status 0{went_on}"


@rule("static-kernel/ends-when-told")
@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_ends_it_while_op_compiler_hangs(script: ScriptUnderTest, name: str) -> None:
    well = script.run()
    served(well)
    pipe = script.directory("hang") / "pipe"
    hangs = f"mkfifo {pipe}; kill -{name} $PPID; read forever < {pipe}"
    patience = LEAST_TO_END + 5 * well.ended.seconds
    run = script.attempt(1, Provocation(compile=hangs), may_hang=True, patience=patience)
    assert run.compiler.callers, "op_compiler was not called"
    assert None not in run.ended.returncodes, f"SIG{name} does not end it while op_compiler hangs"


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("moment", KILLS)
@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_leaves_nothing_installed(script: ScriptUnderTest, moment: str, name: str) -> None:
    served(script.run())
    run = script.attempt(1, _signalled(moment, name), may_hang=True)
    if None not in run.ended.returncodes:  # a hang is judged elsewhere
        assert sorted(run.left) == [], f"after SIG{name} a package stays"


@rule("static-kernel/uninstalled-at-exit")
def test_one_uninstall_that_fails_keeps_no_other_from_going(script: ScriptUnderTest) -> None:
    well = script.run()
    served(well)
    if len(set(well.compiler.installed)) < 2:
        raise NotDecidable("the script installs one package alone: it has to meet a second shape")
    first = '[ "$(grep -c "^remove " "$notes/events")" -gt 1 ] || exit 1'
    run = script.attempt(1, Provocation(remove=first))
    failed = [each for each in run.compiler.events if each.what == "remove"][:1]
    assert failed, "nothing was uninstalled"
    stays = sorted(run.left - {each.package.removesuffix(".run") for each in failed})
    assert stays == [], "after one uninstall that failed the others are not tried"


@rule("static-kernel/uninstalled-at-exit")
def test_the_next_start_cleans_up_after_a_killed_one(script: ScriptUnderTest) -> None:
    served(script.run())
    work = script.directory("work")
    run = script.attempt(1, _signalled("installed", "KILL"), work=work, keep=True)
    assert run.ended.returncodes == (-9,), "it was not killed"
    assert run.left, "there was nothing installed when it was killed"
    again = script.attempt(1, work=work)
    assert sorted(run.left & again.left) == [], "what a killed run left stays after the next one"


# Several cards.

LONGEST_WAIT = 300.0
"""Seconds until a wait for a card that will not come counts as one without a bound."""


@rule("static-kernel/first-card")
def test_the_first_card_compiles_for_all(script: ScriptUnderTest) -> None:
    cards = script.toolchain.cards
    run = script.run(cards)
    served(run)
    callers = sorted(set(run.compiler.callers))
    assert len(callers) == 1, f"{len(callers)} of {cards} cards call op_compiler: {callers}"
    assert callers[0] == "0" or not callers[0].isdigit(), f"card {callers[0]} calls op_compiler"
    wanted = set().union(*(keys_of(folder) for folder in folders(run.work)))
    missing = sorted(key for _, key in wanted - run.compiler.keys())
    assert missing == [], "operators of some card have no kernel installed"


@rule("static-kernel/first-card")
def test_every_card_reads_the_index_after_an_install(script: ScriptUnderTest) -> None:
    """Each one, before its next compile: not only the card that installs, and not while the
    kernels are not there yet."""
    if not script.toolchain.traces:
        raise NotDecidable("there is no strace on PATH, which tells what a card opens")
    cards = script.toolchain.cards
    served(script.run(cards))
    notes = script.directory("opened")
    given = [Card(str(cards), opened=notes / str(rank)) for rank in range(cards)]
    run = script.attempt(given)
    served(run)
    moments = run.compiler.moments
    unread = [
        rank
        for rank, card in enumerate(given)
        if not all(reads_after(card, moment) for moment in moments)
    ]
    if 0 in unread:
        raise NotDecidable("the first card was not seen to read the index after an install")
    assert unread == [], "cards go on without the kernels that were installed for them"


@rule("static-kernel/first-card")
def test_a_first_card_without_op_compiler_ends_all(script: ScriptUnderTest) -> None:
    """Or all of them go on without static kernels; none waits for ever."""
    cards = script.toolchain.cards
    served(script.run(cards))
    given = [Card(str(cards), has_compiler=rank > 0) for rank in range(cards)]
    run = script.attempt(given, may_hang=True)
    waiting = [rank for rank, code in enumerate(run.ended.returncodes) if code is None]
    assert waiting == [], f"cards {waiting} wait for a first card that cannot compile"
    assert sorted(run.left) == []


@rule("static-kernel/local-world-size")
def test_cards_without_a_fitting_number(script: ScriptUnderTest, ascend_evidence: Evidence) -> None:
    """One after the other, on cards that are seen to compile when the number fits."""
    cards = script.toolchain.cards
    served(script.run(cards))
    for value in (None, "0", "two", str(cards + 1)):
        run = script.attempt([Card(value)] * cards)
        assert list(run.work.rglob("*.run")) == [], f"with {value}, kernels were compiled"
        for number, output in enumerate(run.ended.outputs):
            assert LOCAL_WORLD_SIZE in output, f"with {value}, card {number} does not say why"
        if run.ended.succeeded:
            reading = f"with {LOCAL_WORLD_SIZE} {value} the script goes on without static kernels"
            ascend_evidence.readings.append(reading)


@rule("static-kernel/first-card")
def test_cards_whose_numbers_differ_wait_with_a_bound(
    script: ScriptUnderTest, ascend_evidence: Evidence
) -> None:
    """It has to be the same everywhere (document K); the client itself gives up after 3 minutes.

    That is once for each compile: who has begun another one has not waited for ever, and is not
    watched any longer.
    """
    cards = script.toolchain.cards
    served(script.run(cards))
    given = [Card(str(cards)), *[Card("1")] * (cards - 1)]

    def begun_another(work: Path) -> bool:
        begun = compiles(work)
        return len(begun) == cards and min(begun) > 1

    run = script.attempt(given, may_hang=True, patience=LONGEST_WAIT, enough=begun_another)
    waiting = [rank for rank, code in enumerate(run.ended.returncodes) if code is None]
    if waiting and begun_another(run.work):
        ascend_evidence.readings.append(f"cards {waiting} wait anew at each compile")
        waiting = []
    seconds = f"longer than {LONGEST_WAIT:g} s"
    assert waiting == [], f"cards {waiting} wait {seconds} where the numbers differ"
    if None not in run.ended.returncodes:  # what was killed could not uninstall
        assert sorted(run.left) == []


@rule("static-kernel/first-card")
def test_cards_that_are_nodes_of_their_own_share_an_operator_package(
    script: ScriptUnderTest,
) -> None:
    """With 1 every card is the first of its node, and installs beside the others."""
    cards = script.toolchain.cards
    served(script.run(cards))
    run = script.attempt([Card("1")] * cards, may_hang=True)
    ended = [each for each in run.compiler.events if each.what in ("installed", "removed")]
    assert [each for each in ended if each.how != "0"] == [], "they fail each other's packages"
    assert sorted(run.left) == []
    assert run.ended.succeeded, f"the cards {run.ended.ending}"


@rule("static-kernel/uninstalled-at-exit")
def test_two_jobs_at_once_do_not_take_each_others_packages(script: ScriptUnderTest) -> None:
    """Both have a package installed when the first of them goes on; a cache may give them one."""
    served(script.run())
    pipe = script.directory("meet") / "pipe"
    # Opening a pipe waits for its other end: the first install for the second, and no other.
    together = (
        f"mkfifo {pipe} 2> /dev/null && timeout 120 sh -c 'read go < {pipe}' || "
        f"{{ mkdir {pipe}.met 2> /dev/null && timeout 120 sh -c 'echo go > {pipe}'; }}"
    )
    runs = script.together([1, 1], Provocation(installed=together))
    for run in runs:
        assert run.ended.succeeded, f"one of two jobs {run.ended.ending}"
    events = runs[0].compiler.events
    failed = [each for each in events if each.what in ("installed", "removed") and each.how != "0"]
    assert failed == [], "one job fails another's packages"
    assert sorted(runs[0].left) == []
