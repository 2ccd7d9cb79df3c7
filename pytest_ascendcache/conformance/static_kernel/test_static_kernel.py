"""Static kernels of one card. Source: document K."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.combinations.generated import FAMILIES, generate, groups
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.clients import (
    KEPT,
    NETWORK,
    OTHER,
    not_given,
    packages,
    reached,
    refused,
    reported,
    standing_client,
    stops_at,
    trees,
)
from pytest_ascendcache.conformance.kit.named_alike import package_names_like
from pytest_ascendcache.conformance.kit.neighbours import INPUTS, WIDE, wide_network
from pytest_ascendcache.conformance.kit.packages import PLACES, are_installed, told_apart
from pytest_ascendcache.conformance.kit.surroundings import SURROUNDINGS
from pytest_ascendcache.conformance.kit.vocabulary import elementary, needs, rule
from pytest_ascendcache.contract import DEFAULT_SOC, Capability
from pytest_ascendcache.contract.facts import Delivery, Later, Place
from pytest_ascendcache.contract.static_kernel import (
    DOCUMENT,
    LATER,
    MODE,
    PACKAGE_NAME,
    PRODUCTS,
    TreeNames,
    is_refused_with_profiler,
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
    probe_network,
    state_of,
)
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.operators.opinfo_json import read_opinfo
from pytest_ascendcache.processes.hosts import containers_work
from pytest_ascendcache.toolchains import Toolchain

OPP = "ASCEND_OPP_PATH"
BUILD_DIRECTORY = "_aclnn_static_shape_kernel_build_dir"


@pytest.fixture(autouse=True)
def _client(toolchain: Toolchain) -> None:
    """These checks of op_compiler's rules need a client."""
    needs(toolchain, Capability.STATIC_KERNEL_CLIENT)


@pytest.fixture
def stand_in(kernels: StaticKernelsUnderTest) -> StandIn:
    """An op_compiler with prepared packages of the check's networks."""
    return kernels.stand_in(*NETWORK.operators, *OTHER.operators)


_AT_THE_SECOND_CALL = "[ $(wc -l < {log}) -lt 2 ] || "


@pytest.fixture
def marked(kernels: StaticKernelsUnderTest) -> StandIn:
    """The same with packages that install impostors."""
    return kernels.stand_in(*NETWORK.operators, *OTHER.operators, marked=True)


def _run_client(
    kernels: StaticKernelsUnderTest, stand_in: StandIn, *networks: Network, **options: Any
) -> ClientRun:
    """Run networks in one client, which may fail."""
    options = {"build": kernels.build, **options}
    (run,) = kernels.together(kernels.client(*networks, op_compiler=stand_in.path, **options))
    return run


@elementary()
@rule("static-kernel/off-by-default")
def test_nothing_is_made_without_the_option(kernels: StaticKernelsUnderTest) -> None:
    before = state_of(kernels.sandbox)
    run = kernels.run(NETWORK, static=False)
    assert run.kernels == {OWN}
    made = state_of(kernels.sandbox).keys() - before.keys()
    assert {path for path in made if not path.startswith(run.directory.name)} == set()
    assert trees(run.directory) == []
    assert state_of(kernels.opp) == {}


@elementary("document")
@rule("static-kernel/output-tree")
@pytest.mark.parametrize("names", [DOCUMENT, LATER], ids=lambda names: names.name)
def test_the_tree_is_as_documented(kernels: StaticKernelsUnderTest, names: TreeNames) -> None:
    kernels.run(NETWORK, OTHER, options=["--output-tree", names.name])
    made = trees(kernels.build)
    assert [each for each, _, _ in made] == [names] * 2, "not one folder for each compile"
    assert len({pid for _, _, pid in made}) == 1, "one process has two ids in its folders' names"
    for _, path, pid in made:
        everything = _contents(path / f"{pid}_debug")
        assert everything, "the folder of all operators is missing or empty"
        for suffix in names.target:
            target = _contents(path / f"{pid}{suffix}")
            assert target <= everything or suffix == "_opcompile_gathered"
        assert _contents(path / pid), "the folder of target operators is missing or empty"
        packages = [each.name for each in path.glob("*.run")]
        assert len(packages) == 1, f"the packages are {packages}"
        assert PACKAGE_NAME.fullmatch(packages[0])
        allowed = {f"{pid}{suffix}" for suffix in (*names.target, "_debug")}
        folders = {each.name for each in path.iterdir() if each.is_dir()}  # files may be logs
        assert folders <= allowed, "other folders are left"


def _contents(folder: Path) -> set[str]:
    """The operators in a folder, whose files must have the documented names and contents."""
    contents = set()
    for path in folder.iterdir() if folder.is_dir() else []:
        info = read_opinfo(path)
        number = path.stem.rpartition("_")[2]
        assert path.name == info.file_name(int(number)), f"{path.name} is not named as documented"
        contents.add(path.read_text())
    return contents


@rule("static-kernel/output-tree")
def test_the_dump_has_every_operator_of_the_network(kernels: StaticKernelsUnderTest) -> None:
    """Also those that an earlier network of the process had."""
    networks = (("Square", "Exp", "Abs", "Neg"), ("Exp", "Neg", "Tanh"))
    kernels.run(*(probe_network(*types) for types in networks))
    made = trees(kernels.build)
    assert len(made) == len(networks), "not one folder for each compile"
    for types, (_, path, pid) in zip(networks, made, strict=True):
        folder = path / f"{pid}_debug"
        found = {read_opinfo(each).type for each in folder.iterdir()} if folder.is_dir() else set()
        missing = sorted({*types} - found)  # a compiler may add some of its own
        assert missing == [], f"operators of a network are not in the folder of all: {missing}"


@elementary()
@rule("static-kernel/build-directory")
def test_the_default_is_beside_the_script(
    kernels: StaticKernelsUnderTest, stand_in: StandIn
) -> None:
    run = kernels.run(NETWORK, build=None, op_compiler=stand_in.path)
    assert len(trees(run.directory)) == 1, "there is no output beside the script"
    assert trees(kernels.work) == [], "there is output in the working directory"


@rule("static-kernel/build-directory")
@pytest.mark.parametrize("name", ["my build/构建", PLACES["signs"]], ids=["letters", "signs"])
def test_a_build_directory_may_have_any_name(
    kernels: StaticKernelsUnderTest, marked: StandIn, name: str
) -> None:
    """It has to exist, and to be the user's to read and write: nothing else is asked of it. One
    with signs may be refused by name."""
    directory = kernels.build / name
    directory.mkdir(parents=True)
    (run,) = kernels.together(kernels.client(NETWORK, build=directory))
    if name == PLACES["signs"] and not run.succeeded:
        refused(run, BUILD_DIRECTORY)
        return
    assert run.succeeded, f"the client {run.result.failure}"
    assert len(trees(directory)) == 1, "there is no output"
    run = kernels.run(NETWORK, build=directory, op_compiler=marked.path)
    assert run.kernels == {IMPOSTOR}, "static kernels are compiled, and are not run"


@rule("static-kernel/build-directory")
@pytest.mark.parametrize(
    "kind", ["missing", "a-file", "below-a-file", "a-link", "through-a-link", "parent", "closed"]
)
def test_a_bad_build_directory_is_refused(
    kernels: StaticKernelsUnderTest, stand_in: StandIn, kind: str
) -> None:
    directory = _bad_directory(kernels, kind)
    before = {path: state_of(path) for path in (kernels.build, kernels.opp, kernels.work)}
    run = _run_client(kernels, stand_in, NETWORK, build=directory)
    if kind in _ODD and run.succeeded:
        assert len(trees(Path(directory).resolve())) == 1, "its output is not there"
        return
    refused(run, BUILD_DIRECTORY)
    assert {path: state_of(path) for path in before} == before, "something was made"
    assert stand_in.calls == [], "op_compiler was called"


_ODD = ("a-link", "through-a-link", "parent")
"""Directories that exist and are the user's, and that TorchAir refuses all the same."""


def _bad_directory(kernels: StaticKernelsUnderTest, kind: str) -> Path | str:
    (kernels.build / "real" / "inner").mkdir(parents=True)
    (kernels.build / "file").touch()
    (kernels.build / "link").symlink_to("real")
    closed = kernels.build / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if kind == "closed" and os.access(closed, os.W_OK):
        pytest.skip("to this user no directory is closed")
    directories: dict[str, Path | str] = {
        "missing": kernels.build / "nowhere",
        "a-file": kernels.build / "file",
        "below-a-file": kernels.build / "file" / "below",
        "a-link": kernels.build / "link",
        "through-a-link": kernels.build / "link" / "inner",
        "parent": f"{kernels.build}/real/../real",
        "closed": closed,
    }
    return directories[kind]


@rule("static-kernel/one-binary-per-shape")
@pytest.mark.parametrize("where", SURROUNDINGS)
def test_a_client_has_its_kernels_in_any_environment(
    kernels: StaticKernelsUnderTest, marked: StandIn, where: str
) -> None:
    around = SURROUNDINGS[where]
    client = kernels.client(
        NETWORK, build=kernels.build, op_compiler=marked.path, environment=around.environment
    )
    request = replace(client.request, umask=around.umask)
    (run,) = kernels.together(replace(client, request=request))
    assert run.succeeded, f"the client {run.result.failure}"
    assert run.kernels == {IMPOSTOR}, "static kernels are compiled, and are not run"


@rule("static-kernel/mode")
@pytest.mark.parametrize("mode", ["max-autotune", "fast", "", "Reduce-Overhead"])
def test_other_modes_compile_nothing_ahead(
    kernels: StaticKernelsUnderTest, stand_in: StandIn, mode: str
) -> None:
    run = _run_client(kernels, stand_in, NETWORK, mode=mode)
    if mode != "max-autotune" or not run.succeeded:
        # A client may run an existing mode without static kernels.
        refused(run, MODE)
    assert (trees(kernels.build), stand_in.calls, state_of(kernels.opp)) == ([], [], {})


PROFILERS = [(True, 0), (True, 1), (False, 0)]


@rule("static-kernel/profiler")
@pytest.mark.parametrize(("record", "skip"), PROFILERS)
def test_statistics_from_the_first_step_exclude_it(
    kernels: StaticKernelsUnderTest, stand_in: StandIn, record: bool, skip: int
) -> None:
    options = ["--skip-first", str(skip), *(["--record-op-args"] if record else [])]
    run = _run_client(kernels, stand_in, NETWORK, options=options)
    if is_refused_with_profiler(record, skip):
        refused(run, "record_op_args", "skip_first")
        assert (trees(kernels.build), stand_in.calls) == ([], [])
    else:
        assert run.succeeded, f"the client {run.result.ending}: {run.output.strip()[-300:]}"
        assert len(trees(kernels.build)) == 1


@rule("static-kernel/profiler")
def test_statistics_that_begin_later_exclude_it_too(
    kernels: StaticKernelsUnderTest, stand_in: StandIn
) -> None:
    """A network that was compiled before the profiler started still gets its kernels."""
    options = ["--record-op-args", "--skip-first", "0", "--profile-from", "1"]
    run = _run_client(kernels, stand_in, NETWORK, OTHER, options=options)
    refused(run, "record_op_args", "skip_first")
    assert len(trees(kernels.build)) == 1, "static kernels are not made of the first network alone"
    assert (run.outputs(0) is None, run.outputs(1) is None) == (False, True)


CHIPS = (
    *("Ascend910B3", "Ascend910B2C", "Ascend910B4-1", "Ascend910_9391"),
    *("Ascend310P3", "Ascend910A", "Ascend910B"),
)


@rule("static-kernel/products")
@pytest.mark.parametrize("soc", CHIPS)
def test_only_listed_products_have_static_kernels(
    kernels: StaticKernelsUnderTest, stand_in: StandIn, soc: str
) -> None:
    run = _run_client(kernels, stand_in, NETWORK, options=["--soc_version", soc])
    if PRODUCTS.fullmatch(soc):
        assert run.succeeded, f"the client {run.result.ending}: {run.output.strip()[-300:]}"
        assert stand_in.calls == [0]
    else:
        refused(run, soc)
        assert (trees(kernels.build), stand_in.calls) == ([], [])


@rule("static-kernel/result-correct")
def test_static_kernels_give_right_outputs(kernels: StaticKernelsUnderTest) -> None:
    """Slow ones and quick ones: a compiler may compile several at once. A client that fails has to
    succeed if it does without static kernels."""
    network = probe_network("Square", "Exp", "Abs", "Sigmoid")
    (run,) = kernels.together(kernels.client(network, network, build=kernels.build))
    if not run.succeeded:
        kernels.run(network, static=False)
    assert run.succeeded, f"the client {run.result.ending}: {run.output.strip()[-300:]}"
    assert run.kernels == {OWN}


@rule("static-kernel/result-correct")
def test_operators_that_differ_in_a_field_run_kernels_of_their_own(
    kernels: StaticKernelsUnderTest,
) -> None:
    """Many generated operators, and some that differ in the values of a constant alone."""
    families = tuple(each for each in FAMILIES if each.type in WIDE)
    others = [each.named(f"other{number}") for number, each in enumerate(chain(*INPUTS.values()))]
    wide = wide_network([*generate(seed=seeded(2), families=families), *others])
    assert kernels.run(wide).kernels == {OWN}, "a kernel of another operator is used"


@elementary()
@rule("static-kernel/result-correct")
def test_the_network_runs_what_was_installed(
    kernels: StaticKernelsUnderTest, marked: StandIn
) -> None:
    run = kernels.run(NETWORK, op_compiler=marked.path)
    assert run.kernels == {IMPOSTOR}, "it does not run the installed kernels"


@rule("static-kernel/result-correct")
def test_other_processes_run_what_is_installed(kernels: StaticKernelsUnderTest) -> None:
    kernels.install(kernels.package(*NETWORK.operators))
    assert kernels.run(NETWORK, static=False).kernels == {OWN}
    kernels.mark()
    assert kernels.run(NETWORK, static=False).kernels == {IMPOSTOR}
    assert kernels.run(OTHER, static=False).kernels == {OWN}, "an operator runs another's kernel"


@rule("static-kernel/verified")
def test_a_kernel_that_was_changed_is_not_run(kernels: StaticKernelsUnderTest) -> None:
    kernels.install(kernels.package(*NETWORK.operators))
    installed = kernels.installed
    entries = installed.index().values()
    metadata = {path: path.read_bytes() for path in installed.ai_core.rglob("*.json")}
    kernels.mark()
    if kernels.run(NETWORK, static=False).kernels != {IMPOSTOR}:
        raise NotDecidable("a network does not run what is installed, changed or not")
    for path, data in metadata.items():
        path.write_bytes(data)  # with the digest of the original object
    assert [each for entry in entries for each in installed.problems(entry)] != []
    assert kernels.run(NETWORK, static=False).kernels == {OWN}, kernels.evidence.found(
        Delivery.UNVERIFIED, "a changed kernel was run"
    )


@rule("static-kernel/verified")
def test_a_package_kept_from_an_earlier_process_is_checked(
    kernels: StaticKernelsUnderTest, marked: StandIn
) -> None:
    """A client may keep packages for later processes, but must not use one that was changed."""
    first = kernels.run(NETWORK, op_compiler=marked.path, options=KEPT)
    again = kernels.run(NETWORK, op_compiler=marked.path, options=KEPT)
    assert first.kernels == again.kernels == {IMPOSTOR}
    if len(marked.calls) == 2:
        pytest.skip("the client keeps no package")
    called, ran = len(marked.calls), kernels.sandbox / "ran"
    for package in packages(kernels.build):
        head, _, rest = package.read_text().partition("\n")
        package.write_text(f"{head}\ntouch {ran}\n{rest}")
    kernels.run(NETWORK, op_compiler=marked.path, options=KEPT)
    assert not ran.exists(), kernels.evidence.found(
        Delivery.UNVERIFIED, "a package that was changed was run"
    )
    assert len(marked.calls) == called + 1, "op_compiler was not called again"


@rule("static-kernel/result-correct")
def test_a_kept_package_is_of_the_same_chip_and_operators(
    kernels: StaticKernelsUnderTest, marked: StandIn
) -> None:
    """Everything else that a package is made of stays."""
    kernels.run(NETWORK, op_compiler=marked.path, options=KEPT)
    slopes = [Probe("LeakyRelu", attributes=(("negative_slope", "float", n),)) for n in (0.5, 0.25)]
    changes: dict[str, tuple[Network, str]] = {
        "chip": (NETWORK, "Ascend910_9391"),
        **{f"attribute {n}": (probe_network(n), DEFAULT_SOC) for n in slopes},
        "type": (probe_network(replace(Probe("Abs"), dtype="float16")), DEFAULT_SOC),
    }
    for what, (network, chip) in changes.items():
        called = len(marked.calls)
        options = [*KEPT, "--soc_version", chip]
        run = _run_client(kernels, marked, network, options=options)
        assert not run.succeeded or len(marked.calls) > called, kernels.evidence.found(
            Delivery.NOTHING, f"after a change of {what} a card installs the package from before"
        )


@rule("robust/upgrade-stamp")
def test_a_kept_package_is_of_the_same_version(
    kernels: StaticKernelsUnderTest, marked: StandIn
) -> None:
    needs(kernels.toolchain, Capability.VERSION_STAMP)
    change = kernels.toolchain.stage(
        Capability.VERSION_STAMP, NETWORK.operators[0], kernels.directory("versions")
    )
    environment = {name: each for name, each in change.environment.items() if name != OPP}
    for name, path in change.versions.items():
        # Packages are installed into an operator package of the check's own.
        place = path if change.environment.get(OPP) != str(path.parent) else kernels.opp / path.name
        for version in ("8.0.RC1", "8.1.RC1"):
            place.write_text(f"Version={version}\n", encoding="utf-8")
            called = len(marked.calls)
            kernels.run(NETWORK, op_compiler=marked.path, options=KEPT, environment=environment)
        assert len(marked.calls) > called, kernels.evidence.found(
            Delivery.STALE, f"{name} {version}: a package of the version before is installed"
        )


@rule("static-kernel/one-binary-per-shape")
def test_a_shape_that_was_met_before_is_not_compiled_again(kernels: StaticKernelsUnderTest) -> None:
    """The second package has the kernels of the later network alone, and they are used, too."""
    later = kernels.stand_in(*OTHER.operators, marked=True)
    second = f'{{{{ cp {shlex.quote(str(later.package))} "$output/"; exit; }}}}'
    marked = kernels.stand_in(*NETWORK.operators, before=_AT_THE_SECOND_CALL + second, marked=True)
    run = kernels.run(NETWORK, NETWORK, OTHER, op_compiler=marked.path)
    assert marked.calls == [0, 0], "op_compiler was called for what it had compiled"
    assert run.kernels == {IMPOSTOR}


@rule("static-kernel/one-binary-per-shape")
def test_a_later_network_is_compiled_for_all_that_is_new(kernels: StaticKernelsUnderTest) -> None:
    """Of operators that differ in a single field the earlier network has one half."""
    families = tuple(each for each in FAMILIES if each.type in WIDE)
    operators = told_apart(generate(seed=seeded(5), families=families))
    networks = [wide_network(half) for half in groups(operators, 2)]
    stand_in = kernels.stand_in(*NETWORK.operators)
    run = _run_client(kernels, stand_in, *networks)
    assert run.succeeded, f"the client {run.result.ending}: {run.output.strip()[-300:]}"
    missing = not_given(stand_in, 1, networks[1].operators)
    assert missing == [], kernels.evidence.found(
        Delivery.NOTHING,
        f"{len(missing)} operators of a later network are not given to op_compiler",
        missing[0],
    )


@rule("static-kernel/failed-operator")
def test_the_next_call_tries_again(kernels: StaticKernelsUnderTest) -> None:
    """The first call of op_compiler fails, the second succeeds."""
    fails = "[ $(wc -l < {log}) -ge 2 ] || exit 1"
    stand_in = kernels.stand_in(*NETWORK.operators, before=fails, marked=True)
    run = _run_client(kernels, stand_in, NETWORK, NETWORK)
    assert "op_compiler" in run.output, "the failure is not reported"
    assert stand_in.calls == [0, 0], kernels.evidence.found(
        Later.FAILS, "operators whose compile failed are never compiled again"
    )
    assert set(run.origins(1).values()) == {IMPOSTOR}, "the second call has no static kernels"


@rule("static-kernel/failed-operator")
@pytest.mark.parametrize(
    ("ending", "installed"),
    [("exit 0", ":"), ("kill -9 $$", ":"), (":", "exit 1")],
    ids=["no-package", "killed", "install-fails"],
)
def test_an_op_compiler_without_a_package_has_failed(
    kernels: StaticKernelsUnderTest, ending: str, installed: str
) -> None:
    """And so has one whose package does not install itself."""
    stand_in = kernels.stand_in(*NETWORK.operators, before=ending, after=installed)
    run = _run_client(kernels, stand_in, NETWORK)
    if installed == ":":
        reported(run, "op_compiler")
    elif run.succeeded:
        reported(run, stand_in.package.stem)
    else:
        refused(run)
    are_installed(kernels, (), "after the process")


def _signalled(kernels: StaticKernelsUnderTest, number: signal.Signals) -> ClientRun:
    """A client that gets a signal while op_compiler compiles its second network, and succeeds."""
    with FaultGate(kernels.directory("signal") / "gate") as gate:
        stand_in = kernels.stand_in(*NETWORK.operators, before=stops_at(gate, call=2), marked=True)
        request = kernels.client(NETWORK, OTHER, build=kernels.build, op_compiler=stand_in.path)
        with kernels.started(request.request) as (process,):
            reached(gate)
            os.kill(process.running.leader, number)
            gate.release()
            return kernels.observed(request, process.wait())


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ENDINGS = {"well": ":", "error": f"{_AT_THE_SECOND_CALL}exit 1"}


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("ending", [*ENDINGS, *(each.name for each in SIGNALS)])
def test_what_was_installed_goes_with_its_process(
    kernels: StaticKernelsUnderTest, ending: str
) -> None:
    """The process ends in one of several ways while a package is installed."""
    if ending in ENDINGS:
        stand_in = kernels.stand_in(*NETWORK.operators, before=ENDINGS[ending], marked=True)
        run = _run_client(kernels, stand_in, NETWORK, OTHER)
    else:
        run = _signalled(kernels, signal.Signals[ending])
    assert set(run.origins(0).values()) == {IMPOSTOR}, "no package was installed"
    are_installed(kernels, (), "after the process")


@rule("static-kernel/ends-when-told")
@pytest.mark.parametrize("number", SIGNALS, ids=[each.name[3:] for each in SIGNALS])
def test_a_signal_ends_it(kernels: StaticKernelsUnderTest, number: signal.Signals) -> None:
    run = _signalled(kernels, number)
    assert set(run.origins(0).values()) == {IMPOSTOR}, "no package was installed"
    assert run.returncode != 0, "it reports success despite the signal"
    assert run.outputs(1) is None, "the process went on"


KILLS: dict[str, dict[str, Any]] = {
    "at-the-next-compile": {"before": _AT_THE_SECOND_CALL + "{{ kill -KILL $PPID; exit; }}"},
    "right-after-the-install": {"after": "kill -KILL $PPID"},
    "and-its-output-is-deleted": {"after": "kill -KILL $PPID"},
}


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("kill", KILLS)
def test_the_next_start_cleans_up_after_a_killed_one(
    kernels: StaticKernelsUnderTest, kill: str
) -> None:
    """Packages that were installed by hand stay, also those whose names are like its own. Users
    tidy up after a crash: what is installed has to go without the package that it came from."""
    stand_in = kernels.stand_in(*NETWORK.operators, **KILLS[kill])
    neg = probe_network("Neg").operators
    by_hand = [
        kernels.package(*neg, name=name) for name in package_names_like(stand_in.package.stem)[:4]
    ]
    kernels.install(*by_hand)
    run = _run_client(kernels, stand_in, NETWORK, OTHER)
    assert run.returncode == -9
    left = kernels.installed.packages - {each.stem for each in by_hand}
    assert left <= {stand_in.package.stem}
    if "deleted" in kill:
        for each in kernels.build.iterdir():
            shutil.rmtree(each)
    kernels.run(OTHER, op_compiler=kernels.stand_in(*OTHER.operators).path)
    are_installed(kernels, by_hand, "after the next start")


@rule("static-kernel/uninstalled-at-exit")
@pytest.mark.parametrize("in_a_container", [False, True], ids=["beside-it", "in-a-container"])
def test_a_living_process_keeps_its_package(
    kernels: StaticKernelsUnderTest, in_a_container: bool
) -> None:
    """Another client starts and ends while the first one's package is installed. Containers of one
    host share the operator package, and see no process of each other."""
    if in_a_container and not containers_work():
        pytest.skip("this machine lets nobody start a process that sees no other one")
    with standing_client(kernels, kernels.opp) as (package, goes_on):
        second = kernels.stand_in(*probe_network("Neg").operators)
        kernels.run(probe_network("Neg"), op_compiler=second.path, in_a_container=in_a_container)
        installed = InstalledKernels(kernels.opp).packages
        run = goes_on()
    assert installed == {package}, kernels.evidence.found(
        Place.TOUCHED, "the package of a living process is gone", "a package that is in use is gone"
    )
    assert run.succeeded, f"the first client {run.result.ending}: {run.output.strip()[-300:]}"
    are_installed(kernels, (), "after both processes")
