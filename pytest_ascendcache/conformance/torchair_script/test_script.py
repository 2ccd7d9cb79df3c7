"""Document K, judged from what a user's own script leaves (``torchair:SCRIPT.py``). Without a
package that is installed, and an index that is read after that, checks of packages are
undecided."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.conformance.torchair_script.fixtures import (
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
from pytest_ascendcache.contract.facts import Delivery, Ending
from pytest_ascendcache.contract.static_kernel import LOCAL_WORLD_SIZE, PACKAGE_NAME
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.script import ScriptUnderTest
from pytest_ascendcache.observation.watched_compiler import Provocation
from pytest_ascendcache.toolchains.torchair import Card


@rule("static-kernel/output-tree")
def test_what_one_card_leaves(script: ScriptUnderTest) -> None:
    """A compile has target operators only if CANN lists one of its own (facts 1.3)."""
    run = compiled(script.run())
    compile_folders = folders(run.work)
    assert compile_folders, "there is no folder of a compile where the document has it"
    for folder in compile_folders:
        assert is_named(folder), f"{folder.name} does not say when, and of which process"
        everything = dumped(folder, "_debug")
        assert everything, f"{folder.name} has not all operators in a folder that ends in _debug"
        lacking = dumped(folder, "") - everything
        assert not lacking, f"{folder.name} has target operators that _debug lacks"
    at_home = {path for folder in compile_folders for path in folder.glob("*.run")}
    assert at_home == set(run.work.rglob("*.run")), "a package is elsewhere"
    if not any(dumped(folder, "") for folder in compile_folders):
        raise NotDecidable("no compile of the script has target operators")


@rule("static-kernel/package-names")
def test_names_of_packages(script: ScriptUnderTest) -> None:
    run = compiled(script.run())
    packages = run.work.rglob("*.run")
    assert [path.name for path in packages if not PACKAGE_NAME.fullmatch(path.name)] == []


@rule("static-kernel/one-binary-per-shape")
def test_every_target_operator_has_a_kernel(script: ScriptUnderTest) -> None:
    """The index after the last install has the keys of all operators dumped for any compile, since
    packages stay installed as long as the process runs."""
    run = served(script.run())
    wanted = set().union(*(keys_of(folder) for folder in folders(run.work)))
    missing = sorted(key for _, key in wanted - run.compiler.keys())
    assert missing == [], f"{len(missing)} of {len(wanted)} operators have no kernel installed"


@rule("static-kernel/one-binary-per-shape")
def test_no_operator_is_compiled_twice(script: ScriptUnderTest) -> None:
    """op_compiler is not called again for operators that the process has installed."""
    run = served(script.run())
    twice = asked_again(run)
    assert twice == set(), f"{len(twice)} operators were compiled although their kernels were there"


@rule("static-kernel/result-correct")
def test_every_package_that_was_installed_is_reselected(script: ScriptUnderTest) -> None:
    """The index is read between its install and its uninstall; one read serves several installs."""
    unread: set[str] = set()
    never: set[str] = set()
    for each in served(script.run()).compiler.events:
        if (each.what, each.how) == ("installed", "0"):
            unread.add(each.package)
        elif each.how == "read":
            unread.clear()
        elif each.what == "remove":
            never |= unread & {each.package}
    assert never == set(), "packages were installed whose kernels no process looked for"


@rule("static-kernel/uninstalled-at-exit")
def test_nothing_stays_installed(script: ScriptUnderTest) -> None:
    run = served(script.run())
    _leaves_nothing(script, run.left, "packages outlive the script that installed them")
    failed = [each for each in run.compiler.events if each.what == "removed" and each.how != "0"]
    assert failed == [], "an uninstall fails"


def _leaves_nothing(script: ScriptUnderTest, left: Iterable[str], message: str) -> None:
    """Later processes run the kernels of packages that outlive their own."""
    assert sorted(left) == [], script.evidence.found(Delivery.STALE, f"{message}: {sorted(left)}")


FAILURES = {
    "op-compiler-fails": Provocation(compile="echo cannot compile >&2; exit 3"),
    "op-compiler-makes-nothing": Provocation(compile="exit 0"),
    "op-compiler-is-killed": Provocation(compile="kill -9 $$"),
    "package-refuses": Provocation(install="echo cannot install >&2; exit 3"),
    "package-is-broken": Provocation(install="exit 2"),
    "install-fails-at-its-end": Provocation(after="status=1"),
}


TOLD = ("op_compiler", "static", "kernel", "静态", "package", "install", "安装")
"""A line that says what failed has one of these words."""


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("wrong", FAILURES.values(), ids=FAILURES)
def test_a_failure_is_told(script: ScriptUnderTest, wrong: Provocation) -> None:
    """The exit status tells, or output that a successful run does not have: a script may go on
    without static kernels, but not silently."""
    well = served(script.run())
    run = script.attempt(1, wrong)
    if not run.ended.succeeded:
        return
    lines = [line.lower() for line in lines_beside(run, well)]
    reports = [line for line in lines if any(word in line for word in TOLD)]
    assert reports, "it ends with 0, and no word of it says that there are no static kernels"


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("wrong", FAILURES.values(), ids=FAILURES)
def test_a_failure_leaves_nothing_installed(script: ScriptUnderTest, wrong: Provocation) -> None:
    served(script.run())
    run = script.attempt(1, wrong)
    assert run.compiler.callers, "op_compiler was not called"
    _leaves_nothing(script, run.left, "a package stays that nobody uses")


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("failing", ["compile", "install"])
def test_what_failed_once_is_tried_again(script: ScriptUnderTest, failing: str) -> None:
    """The first call fails. Its operators are compiled when they are dumped again."""
    served(script.run())
    first = "[ $call -gt 1 ] || exit 3"
    wrong = Provocation(compile=first)
    if failing == "install":
        wrong = Provocation(install='[ "$(grep -c begin "$notes/events")" -gt 1 ] || exit 3')
    run = script.attempt(1, wrong)
    failed = {path.read_text() for path in run.compiler.asked(1)}
    later = [dumped(folder, "_opcompile", "_debug") for folder in folders(run.work)[1:]]
    # Debug files name the kernel that ran, while the operators for op_compiler do not.
    met = {text for text in failed if any(text in texts for texts in later)}
    if run.ended.succeeded and not met:
        raise NotDecidable("the script does not meet an operator of its first compile again")
    if not run.ended.succeeded and len(run.compiler.callers) < 2:
        return  # it ended with an error before any later call
    calls = range(2, len(run.compiler.callers) + 1)
    again = {path.read_text() for call in calls for path in run.compiler.asked(call)}
    assert met <= again, f"of {len(met)} operators that are met again {len(met - again)} are not"


LEAST_TO_END = 20.0
"""Seconds for a script to end, in addition to five times its undisturbed duration."""

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
    well = served(script.run())
    run = script.attempt(1, _signalled(moment, name), may_hang=True)
    (code,) = run.ended.returncodes
    assert code is not None, script.evidence.found(Ending.NO_END, f"after SIG{name} it hangs")
    calls = len(run.compiler.callers), len(well.compiler.callers)
    # Another call, or a read of the index, comes after the signal.
    if code == 0 and (calls[0] > 1 or run.compiler.reselected()):
        went_on = f"; op_compiler was called {calls[0]} times, undisturbed {calls[1]}"
        assert calls[0] < calls[1], f"after SIG{name} it goes on to its end{went_on}"


@rule("static-kernel/ends-when-told")
@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_ends_it_while_op_compiler_hangs(script: ScriptUnderTest, name: str) -> None:
    well = served(script.run())
    pipe = script.directory("hang") / "pipe"
    hangs = f"mkfifo {pipe}; kill -{name} $PPID; read forever < {pipe}"
    patience = LEAST_TO_END + 5 * well.ended.seconds
    run = script.attempt(1, Provocation(compile=hangs), may_hang=True, patience=patience)
    assert run.compiler.callers, "op_compiler was not called"
    assert None not in run.ended.returncodes, script.evidence.found(
        Ending.NO_END, f"SIG{name} does not end it while op_compiler hangs"
    )


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("moment", KILLS)
@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_leaves_nothing_installed(script: ScriptUnderTest, moment: str, name: str) -> None:
    served(script.run())
    run = script.attempt(1, _signalled(moment, name), may_hang=True)
    if None not in run.ended.returncodes:  # other checks judge a hang
        _leaves_nothing(script, run.left, f"after SIG{name} a package stays")


@rule("static-kernel/uninstalled-at-exit")
def test_one_uninstall_that_fails_keeps_no_other_from_going(script: ScriptUnderTest) -> None:
    well = served(script.run())
    if len(set(well.compiler.installed)) < 2:
        raise NotDecidable("the script installs one package alone: it has to meet a second shape")
    first = '[ "$(grep -c "^remove " "$notes/events")" -gt 1 ] || exit 1'
    run = script.attempt(1, Provocation(remove=first))
    failed = [each for each in run.compiler.events if each.what == "remove"][:1]
    assert failed, "nothing was uninstalled"
    stays = sorted(run.left - {each.package.removesuffix(".run") for each in failed})
    _leaves_nothing(script, stays, "after one uninstall that failed the others are not tried")


@rule("static-kernel/uninstalled-at-exit")
def test_the_next_start_cleans_up_after_a_killed_one(script: ScriptUnderTest) -> None:
    served(script.run())
    work = script.directory("work")
    run = script.attempt(1, _signalled("installed", "KILL"), work=work, keep=True)
    assert run.ended.returncodes == (-9,), "it was not killed"
    assert run.left, "there was nothing installed when it was killed"
    again = script.attempt(1, work=work)
    left = run.left & again.left
    _leaves_nothing(script, left, "what a killed run left stays after the next one")


LONGEST_WAIT = 300.0
"""Seconds after which a wait for a card that never comes counts as unbounded."""


@rule("static-kernel/first-card")
def test_operators_of_every_card_are_compiled(
    script: ScriptUnderTest, ascend_evidence: Evidence
) -> None:
    """By the first card or by each: the client of the document calls op_compiler on every card
    (facts section 1.1)."""
    cards = script.toolchain.cards
    run = served(script.run(cards))
    callers = set(run.compiler.callers)
    ascend_evidence.readings.append(f"{len(callers)} of {cards} cards call op_compiler")
    wanted = set().union(*(keys_of(folder) for folder in folders(run.work)))
    missing = sorted(key for _, key in wanted - run.compiler.keys())
    assert missing == [], script.evidence.found(
        Delivery.NOTHING, f"operators of some card have no kernel installed: {missing}"
    )


@rule("static-kernel/first-card")
def test_every_card_reads_the_index_after_an_install(script: ScriptUnderTest) -> None:
    """Each card does so before its next compile, not only the one that installs."""
    if not script.toolchain.traces:
        raise NotDecidable("there is no strace on PATH, which tells what a card opens")
    cards = script.toolchain.cards
    served(script.run(cards))
    notes = script.directory("opened")
    watched = [Card(str(cards), opened=notes / str(rank)) for rank in range(cards)]
    run = served(script.attempt(watched))
    moments = run.compiler.moments
    unread = [
        rank
        for rank, card in enumerate(watched)
        if not all(reads_after(card, moment) for moment in moments)
    ]
    if 0 in unread:
        raise NotDecidable("the first card was not seen to read the index after an install")
    assert unread == [], script.evidence.found(
        Delivery.NOTHING, f"cards {unread} go on without the kernels installed for them"
    )


@rule("static-kernel/first-card")
def test_a_first_card_without_op_compiler_ends_all(script: ScriptUnderTest) -> None:
    """All cards end, or all go on without static kernels. None waits forever."""
    cards = script.toolchain.cards
    served(script.run(cards))
    run = script.attempt(
        [Card(str(cards), has_compiler=rank > 0) for rank in range(cards)], may_hang=True
    )
    waiting = [rank for rank, code in enumerate(run.ended.returncodes) if code is None]
    assert waiting == [], script.evidence.found(
        Ending.NO_END, f"cards {waiting} wait for a first card that cannot compile"
    )
    assert sorted(run.left) == []


@rule("static-kernel/local-world-size")
def test_cards_without_a_fitting_number(script: ScriptUnderTest, ascend_evidence: Evidence) -> None:
    """Tries several numbers, on cards that compile with a fitting number."""
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
    """The number must be the same on all cards (document K). The client gives up after 3 minutes,
    at each compile: a card that has begun another one has not waited forever."""
    cards = script.toolchain.cards
    served(script.run(cards))
    differing = [Card(str(cards)), *[Card("1")] * (cards - 1)]

    def begun_another(work: Path) -> bool:
        begun = compiles(work)
        return len(begun) == cards and min(begun) > 1

    run = script.attempt(differing, may_hang=True, patience=LONGEST_WAIT, enough=begun_another)
    waiting = [rank for rank, code in enumerate(run.ended.returncodes) if code is None]
    if waiting and begun_another(run.work):
        ascend_evidence.readings.append(f"cards {waiting} wait anew at each compile")
        waiting = []
    seconds = f"longer than {LONGEST_WAIT:g} s"
    assert waiting == [], f"cards {waiting} wait {seconds} where the numbers differ"
    if None not in run.ended.returncodes:  # a killed card could not uninstall
        assert sorted(run.left) == []


@rule("static-kernel/first-card")
def test_cards_that_are_nodes_of_their_own_share_an_operator_package(
    script: ScriptUnderTest,
) -> None:
    """With 1, each card is the first of its node, and installs next to the others."""
    cards = script.toolchain.cards
    served(script.run(cards))
    run = script.attempt([Card("1")] * cards, may_hang=True)
    ended = [each for each in run.compiler.events if each.what in ("installed", "removed")]
    assert [each for each in ended if each.how != "0"] == [], (
        "they make each other's installs or uninstalls fail"
    )
    assert sorted(run.left) == []
    assert run.ended.succeeded, f"the cards {run.ended.ending}"


@rule("static-kernel/uninstalled-at-exit")
def test_two_jobs_at_once_do_not_take_each_others_packages(script: ScriptUnderTest) -> None:
    """The first job goes on when both have installed a package, which may be the same one."""
    served(script.run())
    pipe = script.directory("meet") / "pipe"
    # Opening a pipe waits for its other end: only the first install waits, for the second one.
    together = (
        f"mkfifo {pipe} 2> /dev/null && timeout 120 sh -c 'read go < {pipe}' || "
        f"{{ mkdir {pipe}.met 2> /dev/null && timeout 120 sh -c 'echo go > {pipe}'; }}"
    )
    runs = script.together([1, 1], Provocation(installed=together))
    for run in runs:
        assert run.ended.succeeded, f"one of two jobs {run.ended.ending}"
    events = runs[0].compiler.events
    failed = [each for each in events if each.what in ("installed", "removed") and each.how != "0"]
    assert failed == [], "one job makes another's installs or uninstalls fail"
    assert sorted(runs[0].left) == []
