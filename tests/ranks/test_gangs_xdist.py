"""Gangs on xdist workers: ranks run at the same time on different workers, which may die."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

PATIENCE = 120
"""Seconds after which a session counts as hanging."""


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory for a user's tests."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider --strict-markers -W error\n")
    return pytester


def run(tests: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run a session, which must end in time."""
    return tests.runpytest_subprocess(*options, timeout=PATIENCE)


ORDINARY = """
@pytest.mark.parametrize("number", range(12))
def test_ordinary(number): pass
"""


MEETING = (
    """
import os
import pytest
"""
    + ORDINARY
    + """
@pytest.mark.ascend_ranks(3)
@pytest.mark.parametrize("word", ["a", "b"])
def test_three(ascend_rank, word, worker_id):
    assert ascend_rank.size == 3
    everybody = ascend_rank.gather([ascend_rank.rank, worker_id, str(ascend_rank.directory)])
    assert [each[0] for each in everybody] == [0, 1, 2]
    assert len({each[1] for each in everybody}) == 3
    assert len({each[2] for each in everybody}) == 1
    assert ascend_rank.environment["LOCAL_WORLD_SIZE"] == "3"
    assert os.environ["RANK_ID"] == str(ascend_rank.rank)
    (ascend_rank.directory / str(ascend_rank.rank)).touch()
    ascend_rank.barrier()
    assert len(list(ascend_rank.directory.iterdir())) == 3

@pytest.mark.ascend_ranks(1)
def test_one(ascend_rank):
    ascend_rank.barrier()

def test_as_many_as_there_are(ascend_rank):
    assert ascend_rank.size == 3
    assert len(set(ascend_rank.gather(os.getpid()))) == 3
"""
)


def test_ranks_meet_on_distinct_workers_and_others_are_balanced(tests: pytest.Pytester) -> None:
    tests.makepyfile(MEETING)
    result = run(tests, "-n", "3", "-v")
    result.assert_outcomes(passed=12 + 2 * 3 + 1 + 3)
    result.stdout.fnmatch_lines_random(
        [
            "*PASSED*::test_three[[]a-rank2of3[]]*",
            "*PASSED*::test_one[[]rank0of1[]]*",
            "*PASSED*::test_as_many_as_there_are[[]rank0of3[]]*",
        ]
    )


@pytest.mark.nightly
def test_only_gangs_and_fewer_than_workers(tests: pytest.Pytester) -> None:
    """A worker starts a test only when it knows the next one, even at the end of its queue."""
    tests.makepyfile(
        """
        import pytest

        @pytest.mark.ascend_ranks(2)
        def test_two(ascend_rank):
            ascend_rank.barrier()
        """
    )
    run(tests, "-n", "3").assert_outcomes(passed=2)


def test_one_worker_has_local_ranks(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        def test_four(ascend_rank, worker_id):
            assert ascend_rank.gather(worker_id) == ["gw0"] * 4
        """
    )
    run(tests, "-n", "1").assert_outcomes(passed=1)


DYING = (
    """
import os, signal
import pytest
"""
    + ORDINARY
    + """
@pytest.mark.ascend_ranks(3)
def test_dies(ascend_rank):
    ascend_rank.barrier()
    if ascend_rank.rank == 1:
        os.kill(os.getpid(), signal.{signal})
    ascend_rank.barrier()

@pytest.mark.ascend_ranks(3)
@pytest.mark.parametrize("number", range(3))
def test_later(ascend_rank, number):
    ascend_rank.barrier()
"""
)


def test_a_killed_worker_fails_its_gang_and_is_replaced(tests: pytest.Pytester) -> None:
    tests.makepyfile(DYING.replace("{signal}", "SIGKILL"))
    result = run(tests, "-n", "3")
    result.assert_outcomes(failed=3, passed=12 + 9)
    result.stdout.fnmatch_lines_random(
        [
            "worker 'gw*' crashed while running '*::test_dies[[]rank1of3[]]'",
            "*GangAborted: gang *::test_dies aborted: rank 1 was lost: its worker gw* died",
        ]
    )
    result.stdout.no_fnmatch_line("*were never run*")


@pytest.mark.nightly
def test_a_killed_worker_that_is_not_replaced(tests: pytest.Pytester) -> None:
    tests.makepyfile(DYING.replace("{signal}", "SIGKILL"))
    result = run(tests, "-n", "3", "--max-worker-restart=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            "*GangAborted: gang *::test_dies aborted: rank 1 was lost: its worker gw* died",
            "*gang *::test_later[[]2[]] aborted: rank 1 was not run: its worker died before",
            "ERROR: * of 24 collected tests were never run: *",
        ]
    )


def test_a_stopped_worker_is_killed_when_its_gang_is_late(tests: pytest.Pytester) -> None:
    tests.makepyfile(DYING.replace("{signal}", "SIGSTOP"))
    result = run(tests, "-n", "3", "--ascend-timeout=2")
    result.assert_outcomes(failed=3, passed=12 + 9)
    result.stdout.fnmatch_lines_random(
        [
            "worker 'gw*' crashed while running '*::test_dies[[]rank1of3[]]'",
            "*gang *::test_dies aborted: rank 1 did not come within 4 s (worker gw*)",
        ]
    )


def test_a_rank_that_hangs_is_killed_with_its_worker(tests: pytest.Pytester) -> None:
    """No other rank waits for this rank, so only the timeout can end it."""
    tests.makepyfile(
        """
        import signal
        import pytest

        @pytest.mark.ascend_ranks(2)
        def test_hangs(ascend_rank):
            if ascend_rank.rank == 1:
                signal.pause()
        """
    )
    result = run(tests, "-n", "2", "--ascend-timeout=2")
    result.assert_outcomes(failed=1, passed=1)


def test_stopping_at_the_first_failure_does_not_hang(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import pytest

        @pytest.mark.ascend_ranks(3)
        @pytest.mark.parametrize("number", range(5))
        def test_mine(ascend_rank, number):
            assert (ascend_rank.rank, number) != (2, 1)
        """
    )
    result = run(tests, "-n", "3", "-x")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.parseoutcomes()["failed"] >= 1


@pytest.mark.nightly
def test_ranks_that_skip_before_they_meet(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import pytest

        @pytest.fixture
        def lacking(worker_id):
            pytest.skip("no card")

        @pytest.fixture
        def lacking_on_one(worker_id):
            if worker_id == "gw0":
                pytest.skip("no card here")

        @pytest.mark.ascend_ranks(2)
        def test_all(lacking, ascend_rank): pass

        @pytest.mark.ascend_ranks(2)
        def test_one(lacking_on_one, ascend_rank): pass
        """
    )
    result = run(tests, "-n", "2", "-rs")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["*gang *::test_one aborted: rank * skipped: no card here"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-n", "2"], "a gang of 3 ranks needs 3 workers, but there are 2; give -n 3"),
        pytest.param(
            ["-n", "3", "--ascend-ranks=4"],
            "a gang of 4 ranks needs 4 workers, but there are 3",
            marks=pytest.mark.nightly,
        ),
        (["-n", "3", "--dist=loadfile"], "--dist=loadfile cannot run the ranks of "),
        pytest.param(
            ["--tx=3*popen", "--dist=each"],
            "--dist=each cannot run the ranks of ",
            marks=pytest.mark.nightly,
        ),
        (["-n", "2", "-k", "test_any", "test_bad.py"], "ascend_ranks(-1) is not a number of ranks"),
    ],
)
def test_what_cannot_run_is_a_usage_error_before_anything_does(
    tests: pytest.Pytester, options: list[str], words: str
) -> None:
    tests.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.ascend_ranks(3)
        def test_three(ascend_rank): open(f"{ascend_rank.rank}.ran", "w")

        def test_any(ascend_rank): open(f"{ascend_rank.rank}.ran", "w")
        """,
        test_bad="""
        import pytest

        @pytest.mark.ascend_ranks(-1)
        def test_any(ascend_rank): pass
        """,
    )
    if "test_bad.py" not in options:
        options = [*options, "test_it.py"]
    result = run(tests, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert not list(tests.path.glob("*.ran"))


def test_last_failed_brings_back_the_whole_gang(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ascend_ranks(2)
        def test_mine(ascend_rank):
            ascend_rank.barrier()
            assert ascend_rank.rank == 0

        def test_other(): pass
        """
    )
    first = run(pytester, "-n", "2")
    first.assert_outcomes(failed=1, passed=2)
    again = run(pytester, "-n", "2", "--lf")
    again.assert_outcomes(failed=1, passed=1)
    name = "test_last_failed_brings_back_the_whole_gang.py::test_mine[rank0of2]"
    named = run(pytester, "-n", "2", name)
    named.assert_outcomes(failed=1, passed=1)


def test_without_gangs_it_is_xdist_as_ever(tests: pytest.Pytester) -> None:
    tests.makepyfile("import pytest\n" + ORDINARY)
    run(tests, "-n", "2").assert_outcomes(passed=12)


REMOTE = """
import os, signal
import pytest

@pytest.mark.ascend_ranks(2)
def test_meet(ascend_rank):
    processes = ascend_rank.gather(os.getpid())
    assert len(set(processes)) == 2

@pytest.mark.ascend_ranks(2)
def test_dies(ascend_rank):
    ascend_rank.barrier()
    if ascend_rank.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ascend_rank.barrier()

@pytest.mark.ascend_ranks(2)
def test_later(ascend_rank):
    ascend_rank.barrier()
"""


@pytest.fixture
def remote(tests: pytest.Pytester) -> pytest.Pytester:
    """The tests in a directory to which remote workers change."""
    tests.mkdir("host")
    for name in ("host", "."):
        (tests.path / name / "tests").mkdir()
        (tests.path / name / "tests" / "test_remote.py").write_text(REMOTE)
        (tests.path / name / "pytest.ini").write_text(
            "[pytest]\ntestpaths = tests\naddopts = -p no:cacheprovider\n"
        )
    return tests


@pytest.fixture
def socket_workers() -> Iterator[list[str]]:
    """Two of execnet's socket servers on loopback, as users start them on other hosts."""
    from execnet.script import socketserver

    with contextlib.ExitStack() as stack:
        addresses = []
        for _ in range(2):
            server = subprocess.Popen(
                [sys.executable, "-u", socketserver.__file__, "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            stack.callback(server.wait)
            stack.callback(os.killpg, server.pid, signal.SIGKILL)
            assert server.stdout is not None
            stack.callback(server.stdout.close)
            port = re.search(r"'127\.0\.0\.1', (\d+)", server.stdout.readline())
            assert port is not None
            addresses.append(f"127.0.0.1:{port[1]}")
        yield addresses


def test_workers_behind_sockets(remote: pytest.Pytester, socket_workers: list[str]) -> None:
    options = [f"--tx=socket={address}//chdir={remote.path}/host" for address in socket_workers]
    # A worker behind a socket cannot be replaced, because its server ends with it.
    result = run(remote, "--dist=load", "--max-worker-restart=0", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == 2
    result.stdout.fnmatch_lines_random(
        [
            "worker 'gw*' crashed while running '*::test_dies[[]rank1of2[]]'",
            "*gang *::test_dies aborted: rank 1 was lost: its worker gw* died",
            "*gang *::test_later aborted: rank 1 was not run: its worker died before",
            "ERROR: 1 of 6 collected tests were never run: *::test_later[[]rank1of2[]]",
        ]
    )
