"""op_compiler and its packages. Source: document K; facts ``static-kernel`` sections 2 and 3."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.bystanders import (
    ANSWERS,
    a_program_named,
    holder,
    on_a_terminal,
    vendors_script,
    with_small_files,
)
from pytest_ascendcache.conformance.kit.named_alike import package_names_like
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.packages import (
    KINDS,
    agrees,
    are_installed,
    faults_of,
    operator,
    reader,
    whole,
)
from pytest_ascendcache.conformance.kit.vocabulary import elementary, needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.contract.facts import Delivery, Later, Place
from pytest_ascendcache.contract.static_kernel import PACKAGE_NAME, Index
from pytest_ascendcache.faults import Action, CrashKind, CrashState
from pytest_ascendcache.observation import (
    Interruption,
    NotDecidable,
    StaticKernelsUnderTest,
    left_in,
    spread,
    state_of,
)
from pytest_ascendcache.observation.static_processes import Compiled
from pytest_ascendcache.processes.sleeping import ends_or_sleeps
from pytest_ascendcache.toolchains import StaticProcess, StaticRequest, StaticResult, Toolchain

Damage = Callable[[bytes], bytes]
AT_ONCE = 16
MOST_CRASHES = 8
MOST_MEETINGS = 4


@pytest.fixture
def faults(toolchain: Toolchain) -> None:
    """The check needs the file operations of an install."""
    needs(toolchain, Capability.FAULT_POINTS)


def _install_all(kernels: StaticKernelsUnderTest, compiled: Compiled) -> None:
    assert compiled.packages, f"there is no package: op_compiler {compiled.result.ending}"
    kernels.install(*compiled.packages)


@rule("static-kernel/one-binary-per-shape")
def test_each_implementation_mode_has_one(kernels: StaticKernelsUnderTest) -> None:
    """Document I: a network runs the implementation that was asked for."""
    folder = kernels.directory("dump")
    for mode in ("high_performance", "high_precision"):
        (dumped,) = kernels.dump(operator("Exp")).iterdir()
        asked = {**json.loads(dumped.read_text()), "impl_mode": mode}
        (folder / f"Exp{mode}.json").write_text(json.dumps(asked))
    _install_all(kernels, kernels.compile(folder=folder))
    keys = [key for _, key in kernels.installed.index() if "/d=0," in key]
    assert len(keys) == 2, f"of two operators {len(keys)} have a kernel"


@rule("static-kernel/one-binary-per-shape")
def test_equal_ones_are_compiled_once(kernels: StaticKernelsUnderTest) -> None:
    """What a package has for each operator is free: it is compared with a package of the two."""
    once, other = operator("Abs"), operator("Neg")
    compiled = kernels.compile(once, other, once.named("again"), once)
    assert compiled.packages, f"equal records are refused: op_compiler {compiled.result.ending}"
    kernels.install(*compiled.packages)
    plain = kernels.directory("plain")
    kernels.install(kernels.package(once, other), opp=plain)
    needed = [*plain.rglob("*.o")]
    files = sorted(path.name for path in kernels.opp.rglob("*.o"))
    assert len(files) == len(needed) > 0, f"two operators, one of them three times, are {files}"


@rule("static-kernel/one-binary-per-shape")
def test_files_of_one_name_in_two_folders_have_one_each(kernels: StaticKernelsUnderTest) -> None:
    """op_compiler reads its folder and all below. Dumps of two ranks have equal names."""
    folder = kernels.directory("dump")
    for rank, shape in enumerate(((4, 8), (8, 8))):
        dumped = next(kernels.dump(operator("Abs", *shape)).iterdir())
        place = folder / f"rank{rank}"
        place.mkdir()
        (place / "Abs_float_ND_4_8_0.json").write_bytes(dumped.read_bytes())
    _install_all(kernels, kernels.compile(folder=folder))
    keys = {key for _, key in kernels.installed.index() if "/d=0," in key}
    assert len(keys) == 2, f"of two operators {len(keys)} have a kernel"


@elementary()
@rule("static-kernel/package-names")
def test_packages_of_the_same_second_do_not_replace_each_other(
    kernels: StaticKernelsUnderTest,
) -> None:
    folder, output = kernels.dump(operator("Abs")), kernels.directory("packages")
    started = 4
    results = kernels.attempts([kernels.compilation(folder, output)] * started)
    assert [each.returncode for each in results] == [0] * started
    packages = sorted(output.glob("*.run"))
    assert len(packages) == started, kernels.evidence.found(
        Delivery.ANOTHER, f"{started} runs left {[each.name for each in packages]}"
    )
    for package in packages:
        assert PACKAGE_NAME.fullmatch(package.name), f"{package.name} is not named as documented"
    kernels.install(*packages)
    assert len(kernels.installed.packages) == started


def _packages(kernels: StaticKernelsUnderTest, *names: str) -> list[Path]:
    """Packages with a kernel of their own each; the first and the last share another one."""
    shared = operator("Abs", 2, 2)
    return [
        kernels.package(
            operator(kind), *((shared,) if index in (0, len(names) - 1) else ()), name=name
        )
        for index, (name, kind) in enumerate(zip(names, KINDS, strict=False))
    ]


@rule("static-kernel/install-idempotent")
def test_installing_twice_changes_nothing(kernels: StaticKernelsUnderTest) -> None:
    """An installer may refuse what is installed already, or note one more user."""
    first, other = _packages(kernels, "first", "other")
    kernels.install(first, other)
    kernels.attempt(kernels.installation(first))
    are_installed(kernels, [first, other], "after the second install")


@rule("static-kernel/install-idempotent")
def test_a_package_that_is_compiled_again_takes_the_place_of_the_old_one(
    kernels: StaticKernelsUnderTest,
) -> None:
    """The same name, the same keys and other code, as after tuning: a key has no names of
    attributes. An installer may refuse it."""
    matmul = partial(operator_of, "MatMul", (4, 4), (4, 4))
    products = matmul(transpose_x1=True), matmul(transpose_x2=True)
    old, new = (kernels.package(each, name="again") for each in products)
    has_old, has_new = (_code_alone(kernels, each) for each in (old, new))
    if has_old == has_new or has_old.keys() != has_new.keys():
        raise NotDecidable("other transpositions have the same code, or keys of their own")
    kernels.install(old)
    if kernels.attempt(kernels.installation(new)).succeeded:
        assert _code(kernels.installed) == has_new, kernels.evidence.found(
            Delivery.STALE, "the kernels of the package before it stay installed"
        )


def _code_alone(kernels: StaticKernelsUnderTest, package: Path) -> dict[tuple[str, str], str]:
    opp = kernels.directory("alone")
    kernels.install(package, opp=opp)
    return _code(InstalledKernels(opp))


def _code(installed: InstalledKernels) -> dict[tuple[str, str], str]:
    """Digests of the kernels, by their keys."""
    kernels = {key: installed.kernel(each) for key, each in installed.index().items()}
    return {key: sha256(path.read_bytes()) for key, path in kernels.items()}


@rule("static-kernel/install-idempotent")
def test_nobody_is_asked_on_a_terminal(kernels: StaticKernelsUnderTest) -> None:
    """A client hides what a package prints, so a question would wait for ever. The terminal offers
    answers, and shows whether one was read."""
    (package,) = _packages(kernels, "asked")
    kernels.install(package)
    unread = on_a_terminal(kernels, package)
    assert unread == len(ANSWERS), "the install of what is installed asks, and waits for an answer"


@rule("static-kernel/install-idempotent")
def test_another_programs_install_py_is_not_waited_for(kernels: StaticKernelsUnderTest) -> None:
    """The other program only has an installer's name, and runs longer than any installer."""
    (package,) = _packages(kernels, "beside")
    with a_program_named(kernels, "install.py"):
        result = kernels.attempt(kernels.installation(package))
    assert result.succeeded, f"beside another program's install.py the install {result.ending}"


SETTLED, UNSETTLED = 0.5, 10.0
"""Seconds of sleep after which an install counts as waiting, and seconds to reach such a sleep."""


@rule("static-kernel/no-half-install")
@pytest.mark.parametrize("script", ["install.py", "uninstall.py"])
def test_scripts_of_cann_beside_an_install_cost_no_package(
    kernels: StaticKernelsUnderTest, script: str
) -> None:
    """They take no lock, and write what they read before. CANN's installers look for both among
    the processes. Facts section 3.2."""
    stays, comes = _packages(kernels, "stays", "comes")
    kernels.install(stays)
    with vendors_script(kernels, script) as goes_on:

        def until_it_waits(installing: list[StaticProcess]) -> None:
            slept = ends_or_sleeps(installing[0].running, SETTLED, UNSETTLED)
            if slept < SETTLED and not installing[0].running.has_ended:
                raise NotDecidable("the install neither ended nor waited in time")
            goes_on()

        (result,) = kernels.attempts([kernels.installation(comes)], until_it_waits)
    installed = (stays, comes) if result.succeeded else (stays,)
    agrees(kernels, installed, f"beside {script} of a package of CANN the install {result.ending}")


@rule("static-kernel/shared-package")
@pytest.mark.parametrize("killed", ["", "killed", "zombie"], ids=lambda each: each or "ends")
def test_a_package_stays_until_both_who_installed_it_are_gone(
    kernels: StaticKernelsUnderTest, killed: str
) -> None:
    """Two processes share a package that a cache keeps. One whose install is refused, like a
    client, does not uninstall."""
    (package,) = _packages(kernels, "shared")
    with holder(kernels, package) as first, holder(kernels, package) as second:
        assert (installed := first.begin()) == 0, f"the first install ended with {installed}"
        joined = second.begin() == 0
        if killed:
            first.kill(reaped=killed != "zombie")
        else:
            assert first.end() == 0, "the first process cannot uninstall"
        if joined:
            are_installed(kernels, [package], "while a process that installed it lives")
            assert second.end() == 0, "the last process cannot uninstall"
    if killed and not joined:
        pytest.skip("a second process is refused a package that is installed: they do not share it")
    are_installed(kernels, (), "after both processes")


@rule("static-kernel/install-idempotent")
@pytest.mark.parametrize("order", range(2))
def test_uninstalling_in_any_order_leaves_the_others(
    kernels: StaticKernelsUnderTest, order: int
) -> None:
    """The names are easily taken for one another, and two packages have a kernel for the same
    operator. Each is installed again before it goes, which may be refused, and others stay byte for
    byte."""
    draw = random.Random(f"{seeded(5)}{order}")
    names = draw.sample(package_names_like("pk_1"), len(KINDS) - 1)
    left = _packages(kernels, "pk_1", *names)
    draw.shuffle(left)
    kernels.install(*left)
    are_installed(kernels, left, "all are installed")
    for package in draw.sample(left, len(left)):
        doing = {
            "installed again": kernels.installation(package),
            "uninstalled": kernels.removal(package.stem),
        }
        others = _others(kernels, package)
        for what, request in doing.items():
            result, where = kernels.attempt(request), f"{package.stem} is {what}"
            told = f"{where}: it {result.ending}: {result.output.strip()[-300:]}"
            assert result.succeeded or what == "installed again", told
            assert _others(kernels, package) == others, kernels.evidence.found(
                Place.TOUCHED, f"{where}, which changes files of others"
            )
        left.remove(package)
        are_installed(kernels, left, f"{package.stem} is uninstalled")


@rule("static-kernel/install-idempotent")
def test_the_list_of_packages_is_read_as_others_write_it(kernels: StaticKernelsUnderTest) -> None:
    """CANN's installer appends a comma and a name, behind a line end as well (facts 3.2)."""
    packages = [kernels.package(operator(each), name=each) for each in ("Neg", "Exp", "Abs")]
    kernels.install(*packages[:2])
    path = kernels.installed.ai_core / "config.ini"
    if not path.is_file():
        raise NotDecidable("there is no config.ini that lists the packages")
    if "," not in (text := path.read_text()):
        raise NotDecidable("config.ini lists two packages without a comma")
    path.write_text(text.replace(",", "\n,") + "\n")
    kernels.install(packages[2])
    are_installed(kernels, packages, "config.ini has line ends before its commas")


def _others(kernels: StaticKernelsUnderTest, package: Path) -> dict[str, object]:
    """What lies in the directories of all other packages."""
    root = kernels.installed.ai_core
    names = kernels.installed.packages - {package.stem}
    return {each: state_of(root / each) for each in names}


@rule("static-kernel/install-idempotent")
def test_an_uninstall_is_of_the_package_beside_it(kernels: StaticKernelsUnderTest) -> None:
    """Where several toolkits are used, ASCEND_OPP_PATH may name another one by then."""
    (package,) = _packages(kernels, "pk")
    other = kernels.directory("other")
    for opp in (kernels.opp, other):
        kernels.install(package, opp=opp)
    result = kernels.attempt(replace(kernels.removal(package.stem), opp=other))
    where = f"the other of two is uninstalled: it {result.ending}"
    are_installed(kernels, (package,), where, opp=other)
    are_installed(kernels, () if result.succeeded else (package,), where)


def _interrupted(
    kernels: StaticKernelsUnderTest, doing: str
) -> tuple[Interruption[StaticResult], Index]:
    """An install or uninstall next to a package that stays, and provides what both share; also
    returns that package's index."""
    stays, other = _packages(kernels, "pk", "pk2")
    kernels.install(stays)
    always = kernels.installed.index()
    if doing == "uninstall":
        kernels.install(other)
    return kernels.interruption(other, doing), always


def _cut_short(interruption: Interruption[StaticResult]) -> list[CrashState]:
    """The states after a kill between any two file operations, or in the middle of a write."""
    kinds = (CrashKind.KILLED, CrashKind.MID_WRITE)
    return [state for kind in kinds for state in interruption.states(kind)]


@rule("static-kernel/no-half-install")
@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_every_moment_can_be_read(kernels: StaticKernelsUnderTest, doing: str) -> None:
    """Another process may read the files between any two file operations."""
    interruption, always = _interrupted(kernels, doing)
    for state in _cut_short(interruption):
        interruption.enter(state)
        whole(kernels, always, f"while it is {doing}ed, {state.when}")


@rule("static-kernel/install-idempotent")
@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_a_crash_is_repaired_by_the_next_install(
    kernels: StaticKernelsUnderTest, doing: str
) -> None:
    interruption, _ = _interrupted(kernels, doing)
    packages = _packages(kernels, "pk", "pk2")
    interruption.reset()
    kernels.attempt(kernels.installer(packages[-1]))
    usual = _names_left(kernels)
    for state in spread(_cut_short(interruption), MOST_CRASHES):
        interruption.enter(state)
        result = kernels.attempt(kernels.installer(packages[-1]))
        where = f"after a crash {state.when}"
        if faults_of(kernels.opp, kernels.alone(packages[-1])):  # else it may have been refused
            assert result.succeeded, f"after a crash {state.when} an install {result.ending}"
        are_installed(kernels, packages, where)
        more = sorted(_names_left(kernels) - usual)
        assert not more, f"after a crash {state.when} files stay that are unusual: {more[0]}"


def _names_left(kernels: StaticKernelsUnderTest) -> set[str]:
    """What lies there, whatever numbers, such as those of processes, are in its names."""
    return {re.sub(r"[0-9a-f]*\d[0-9a-f]*", "0", each) for each in left_in(kernels.opp)}


@rule("static-kernel/install-idempotent")
@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("doing", ["install", "uninstall"])
def test_an_installer_meets_another_at_every_moment(
    kernels: StaticKernelsUnderTest, doing: str
) -> None:
    """One is held before an operation while another does all of its work or waits for it.
    Afterwards the effects of both are there, and so is what was installed before."""
    needs(kernels.toolchain, Action.HOLD)
    stays, first, second = _packages(kernels, "pk", "pk2", "pk22")
    installed = [stays, first, second]
    if doing == "uninstall":
        installed.remove(first)
    kernels.install(stays)
    if doing == "uninstall":
        kernels.install(first)
    one = kernels.interruption(first, doing)
    changes = [each for each in one.holdable if each.act.changes]
    for operation in spread(changes, MOST_MEETINGS):
        one.reset()
        held, other = one.meets(operation, lambda: kernels.attempt(kernels.installer(second)))
        results = {"it": held, "the other": other}
        where = f"the {doing} of one package stands before {operation} while another is installed"
        for who, result in results.items():
            assert result.succeeded, f"{where}: {who} {result.ending}"
        are_installed(kernels, installed, where)


@pytest.fixture
def many(kernels: StaticKernelsUnderTest) -> list[Path]:
    """Packages with different kernels, for many installs at once."""
    return [
        kernels.package(operator(KINDS[number % len(KINDS)], 2 + number // len(KINDS), 4))
        for number in range(AT_ONCE)
    ]


@rule("static-kernel/no-half-install")
def test_whoever_reads_during_many_installs_reads_whole_files(
    kernels: StaticKernelsUnderTest, many: list[Path]
) -> None:
    """Many packages are installed at once, and uninstalled, while another one stays. What fails
    next to others, which another rule judges, runs once more on its own."""
    stays = kernels.package(operator("Abs", 3, 3))
    kernels.install(stays)
    always = kernels.installed.index()
    with reader(kernels.opp, always) as readings:
        _each(kernels, [kernels.installer(each) for each in many])
        lacking = {each.stem for each in many} - kernels.installed.packages
        removals = [kernels.removal(each.stem) for each in many]
        _each(kernels, [each for each in removals if Path(each.arguments[0]).is_file()])
    assert readings.problems == []
    if lacking or readings.passes < AT_ONCE:
        raise NotDecidable(
            f"{len(lacking)} of {len(many)} packages cannot be installed, and the index was read "
            f"{readings.passes} times meanwhile"
        )


def _each(kernels: StaticKernelsUnderTest, requests: list[StaticRequest]) -> None:
    """Run all at once, and those that fail once more, one after the other."""
    for request, result in zip(requests, kernels.attempts(requests), strict=True):
        if not result.succeeded and Path(request.arguments[0]).is_file():
            kernels.attempt(request)


BAD = operator("NoSuchOperator", 4)


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "beside-others"])
def test_an_operator_that_cannot_be_compiled_is_named(
    kernels: StaticKernelsUnderTest, beside: int
) -> None:
    others = [operator("Abs"), operator("Neg")][:beside]
    compiled = kernels.compile(*others, BAD)
    assert compiled.result.returncode, kernels.evidence.found(
        Delivery.NOTHING, f"op_compiler reports success without a kernel of {BAD.type}"
    )
    assert compiled.result.returncode > 0, f"op_compiler {compiled.result.ending}"
    assert BAD.type in compiled.output, f"it is not named: {compiled.output.strip()[-300:]}"


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize("bad", ["broken", "unknown"])
def test_a_run_that_fails_leaves_nothing(kernels: StaticKernelsUnderTest, bad: str) -> None:
    """Except its log, and a package of the others, which a run that reports a failure does not
    claim to be whole."""
    folder = kernels.dump(operator("Abs")) if bad == "broken" else kernels.dump(BAD)
    if bad == "broken":
        (folder / "Neg_float_ND_4_8_1.json").write_text("{")
    output = kernels.directory("packages")
    before = state_of(folder)
    result = kernels.attempt(kernels.compilation(folder, output))
    if not result.succeeded:  # another check judges partial success
        left = [each for each in left_in(output) if not each.endswith((".log", ".run"))]
        assert left == [], "something stays of a run that failed"
    assert state_of(folder) == before, "its input was changed"


@rule("static-kernel/failed-operator")
def test_no_success_without_a_package(kernels: StaticKernelsUnderTest) -> None:
    """op_compiler cannot write a file as large as a package, as if the disk were full."""
    whole = kernels.compile(*(operator(kind) for kind in KINDS))
    (package,) = whole.packages
    output = kernels.directory("small")
    limit = package.stat().st_size * 3 // 4
    result = with_small_files(kernels, whole.result, output, limit)
    assert result.returncode is not None
    if any(path.stat().st_size > limit for path in output.glob("*.run")):
        raise NotDecidable("another process than op_compiler writes the package: no limit holds")
    made = [path.name for path in output.glob("*.run")]
    assert made == [], "there is a package, although it cannot be whole"
    assert not result.succeeded, kernels.evidence.found(
        Delivery.NOTHING, "op_compiler reports success without a package"
    )


@rule("static-kernel/failed-operator")
def test_what_failed_is_tried_again(kernels: StaticKernelsUnderTest) -> None:
    folder = kernels.dump(operator("Abs"), BAD)
    kernels.compile(folder=folder)
    bad = next(folder.glob(f"{BAD.type}_*"))
    # The same file now describes an existing operator.
    bad.write_text(bad.read_text().replace(BAD.type, "Neg"))
    compiled = kernels.compile(folder=folder)
    assert compiled.result.succeeded, f"op_compiler {compiled.result.ending}"
    kernels.install(*compiled.packages)
    assert {kind for kind, _ in kernels.installed.index()} == {"Abs", "Neg"}, (
        kernels.evidence.found(Later.FAILS, "what failed once is never compiled again")
    )


def _flip(data: bytes) -> bytes:
    """Flip a bit in the payload, behind the script that checks it."""
    script = next(place for place, byte in enumerate(data) if byte in b"\0\x1f")
    place = (script + len(data)) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGE = {
    "flipped-byte": _flip,
    "cut-short": lambda data: data[: len(data) // 2],
}


@rule("static-kernel/verified")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_package_is_refused(kernels: StaticKernelsUnderTest, damage: Damage) -> None:
    stays, other = _packages(kernels, "pk", "pk2")
    kernels.install(stays)
    before = state_of(kernels.opp)
    damaged = kernels.directory("damaged") / other.name
    damaged.write_bytes(damage(other.read_bytes()))
    damaged.chmod(0o755)
    result = kernels.attempt(kernels.installation(damaged))
    assert not result.succeeded, kernels.evidence.found(
        Delivery.UNVERIFIED, "the install of a damaged package reports success"
    )
    assert state_of(kernels.opp) == before, kernels.evidence.found(
        Place.TOUCHED, "a refused install changed what was installed"
    )
    whole = kernels.attempt(kernels.installation(other))
    if not whole.succeeded:
        raise NotDecidable(f"the package is refused undamaged too: it {whole.ending}")
