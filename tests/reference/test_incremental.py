"""Observation of incremental builds: expected outcomes, kernels on disk, and impostors."""

from __future__ import annotations

from contextlib import closing
from pathlib import PurePosixPath

import pytest

from pytest_ascendcache.caches import RankKernel
from pytest_ascendcache.caches.elf import ElfError, rename_symbol
from pytest_ascendcache.contract.ranks import (
    Phase,
    Scenario,
    expected_compiles,
    is_rank_id,
    kernel_meta,
)
from pytest_ascendcache.observation import (
    NetworkUnderTest,
    NotDecidable,
    meeting_place,
    network_control,
    probe_network,
)
from pytest_ascendcache.observation.impostor import NETWORK as IMPOSTOR
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.reference.kernels import KernelOptions, build
from pytest_ascendcache.reference.kernels.execute import LoadedKernel
from pytest_ascendcache.toolchains import ToolchainError

SQUARE, EXP = probe_network("Square"), probe_network("Exp")
BOTH = probe_network("Square", "Exp")


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, "/here/rank_0/kernel_meta"),
        ({"RANK_ID": ""}, "/here/rank_0/kernel_meta"),
        ({"RANK_ID": "3"}, "/here/rank_3/kernel_meta"),
        ({"MS_COMPILER_CACHE_PATH": "", "RANK_ID": "3"}, "/here/rank_3/kernel_meta"),
        ({"MS_COMPILER_CACHE_PATH": "/home/workspace/", "RANK_ID": "2"},
         "/home/workspace/rank_2/kernel_meta"),
        ({"MS_COMPILER_CACHE_PATH": "below"}, "/here/below/rank_0/kernel_meta"),
        ({"DEVICE_ID": "5", "RANK_SIZE": "8"}, "/here/rank_0/kernel_meta"),
    ],
)  # fmt: skip
def test_where_kernels_have_to_be(environment, place):
    assert kernel_meta(environment, PurePosixPath("/here")) == PurePosixPath(place)


@pytest.mark.parametrize(
    ("text", "size", "valid"),
    [
        ("", None, True), ("0", None, True), ("17", None, True), ("1", 2, True), ("2", 2, False),
        ("-1", None, False), ("a", None, False), ("../x", None, False), ("٣", None, False),
        ("1.0", None, False), (" 1", None, False),
    ],
)  # fmt: skip
def test_what_is_a_rank(text, size, valid):
    assert is_rank_id(text, size) is valid


def test_what_has_to_be_compiled():
    one, several = Scenario(), Scenario(several_cards=True)
    square, exp = (each.operators[0] for each in (SQUARE, EXP))
    both = (square, exp, square.named("again"))
    assert expected_compiles(both, one, ()) == {square.named(""), exp.named("")}
    kept = [(square.named("other"), one)]
    assert expected_compiles(both, one, kept) == {exp.named("")}
    assert expected_compiles(both, several, kept) == {square.named(""), exp.named("")}
    assert expected_compiles(both, Scenario(phase=Phase.INFERENCE), kept) == {
        square.named(""),
        exp.named(""),
    }


def compiled(kind, symbol):
    tensor = TensorDesc.of("float32", 3)
    return build(
        OperatorSpec(kind, (tensor,), (tensor,)), symbol, KernelOptions("Ascend910B1")
    ).object


@pytest.mark.parametrize("new", ["short", "exactly_this", "much_longer_than_the_one_before" * 9])
def test_a_symbol_gets_another_name(new):
    import numpy as np

    renamed = rename_symbol(compiled("Square", "exactly_that"), "exactly_that", new)
    tensor = TensorDesc.of("float32", 3)
    (output,) = LoadedKernel(renamed, new).run([np.array([1, 4, 9], np.float32)], [tensor])
    assert output.tolist() == [1.0, 16.0, 81.0]


def test_a_symbol_that_is_not_there():
    with pytest.raises(ElfError, match="no symbol is called 'other'"):
        rename_symbol(compiled("Square", "one"), "other", "new")
    with pytest.raises(ElfError):
        rename_symbol(b"\x7fELF", "one", "two")


@pytest.fixture(scope="module")
def toolchain():
    with closing(reference_toolchain()) as toolchain:
        yield toolchain


@pytest.fixture(scope="module")
def control(toolchain, tmp_path_factory):
    base = tmp_path_factory.mktemp("control")
    (base / "shelf").mkdir()
    return network_control(toolchain, base, base / "shelf")


@pytest.fixture
def network(toolchain, control, tmp_path):
    return NetworkUnderTest(toolchain, tmp_path, control)


def test_the_control_finds_that_the_reference_runs_impostors(control):
    assert (control.serves_marked, control.reason) == (True, "")
    assert control.shelf is not None


def test_impostors_tell_reuse_from_compile(network):
    assert network.run(SQUARE).compiled == {"square"}
    network.mark()
    run = network.run(BOTH)
    assert (run.reused, run.compiled, run.wrong) == ({"square"}, {"exp"}, {})
    assert len(run.stored) == 1
    assert run.disturbed == {}


def test_a_marked_kernel_is_whole_and_its_file_times_stay(network):
    network.run(SQUARE)
    (kernel,) = network.kernels().values()
    times = [path.stat().st_mtime_ns for path in kernel.paths]
    digest = kernel.metadata["sha256"]
    network.mark()
    (marked,) = network.kernels().values()
    assert marked.problems() == []
    assert marked.metadata["sha256"] != digest
    assert [path.stat().st_mtime_ns for path in marked.paths] == times


def test_warm_kernels_are_copied_marks_included(network, control):
    network.warm(BOTH)
    assert BOTH.operators in control.warm
    starts = network.evidence.starts
    network.cache = network.site / "another"
    network.warm(BOTH)
    assert network.evidence.starts == starts, "nothing had to be started"
    assert network.run(BOTH).reused == {"square", "exp"}


@pytest.mark.parametrize("missing", [".o", ".json", ".info"])
def test_parts_of_a_kernel_are_problems_and_cannot_be_marked(network, missing):
    network.run(SQUARE)
    (kernel,) = network.kernels().values()
    (path,) = (each for each in kernel.paths if each.suffix == missing)
    path.unlink()
    (half,) = network.kernels().values()
    assert len(half.problems()) == 1
    with pytest.raises(NotDecidable, match="cannot be marked"):
        network.mark()


def test_other_files_are_no_kernels(tmp_path):
    for name in ("square_1_0.info", "Initialize.info", "file.lock", "square_2_0_loc.json"):
        (tmp_path / name).write_text("{}")
    assert RankKernel.read_all(tmp_path) == {"square_1_0": RankKernel("square_1_0", tmp_path)}
    assert RankKernel.read_all(tmp_path / "missing") == {}


def test_nothing_to_mark_is_not_decidable(network):
    with pytest.raises(NotDecidable, match="rank 4 has no kernel"):
        network.mark(4)


def test_a_failing_rank_is_no_verdict(network):
    with pytest.raises(ToolchainError, match="RANK_ID"):
        network.run(SQUARE, environment={"RANK_ID": "x"})
    run = network.attempt(network.request(SQUARE, rank="x"))
    assert not run.succeeded
    assert "ended with exit status 1" in run.wrong[""]


def with_defect(name, tmp_path):
    toolchain = reference_toolchain(defect=name)
    (tmp_path / "shelf").mkdir()
    control = network_control(toolchain, tmp_path / "control", tmp_path / "shelf")
    return toolchain, NetworkUnderTest(toolchain, tmp_path / "own", control)


def test_who_never_reuses_is_found_out_by_files(tmp_path):
    """This rank runs no impostor, so its outputs prove nothing, but it rewrites every kernel."""
    toolchain, network = with_defect("rank-never-reuses", tmp_path)
    with closing(toolchain):
        network.run(SQUARE)
        network.mark()
        run = network.run(SQUARE)
        assert run.compiled == {"square"}
        assert len(run.disturbed) == 3


def test_without_kernels_on_disk_nothing_can_be_marked(tmp_path):
    toolchain, network = with_defect("incremental-build-off-by-default", tmp_path)
    with closing(toolchain):
        assert network.run(SQUARE).wrong == {}
        with pytest.raises(NotDecidable, match="left 0 whole kernels"):
            network.mark()


def test_a_reserved_address_is_free_for_rank_0_and_nobody_else(network):
    with meeting_place(1) as one, meeting_place(1) as other:
        assert one.port != other.port
    with meeting_place(2) as gang:
        runs = network.together(*(network.request(SQUARE, rank, gang) for rank in range(2)))
    assert [run.succeeded for run in runs] == [True, True]


def test_a_rank_that_is_not_waited_for_is_ended(network):
    with meeting_place(2) as gang, network.watch() as watch:
        process = watch.start(network.request(IMPOSTOR, 0, gang))
    with pytest.raises((ValueError, OSError)):
        process.wait(0.0)  # leaving the block has already waited for it


def test_a_rank_may_end_before_the_last_one_counts_as_started(network, monkeypatch):
    start, ended = network.toolchain.rank, []
    with meeting_place(2) as gang, network.watch() as watch:
        first, last = (network.request(SQUARE, rank, gang) for rank in range(2))
        waiting = watch.start(first)

        def start_and_look_late(request, before):
            process = start(request, before)
            ended.append(watch.wait(waiting))
            return process

        monkeypatch.setattr(network.toolchain, "rank", start_and_look_late)
        assert watch.wait(watch.start(last)).succeeded
    assert [run.succeeded for run in ended] == [True]


USERS_TEST = """
    import pytest

    from pytest_ascendcache.observation import probe_network


    def test_our_network_reuses(ascend_network):
        ours = probe_network("Square", "Exp")
        ascend_network.warm(ours)
        assert ascend_network.run(ours).reused == {"square", "exp"}
"""


def test_users_can_write_such_tests(pytester):
    pytester.makepyfile(USERS_TEST)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
