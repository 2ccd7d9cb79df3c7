"""Gangs of local ranks: one test in several processes, all of which end."""

from __future__ import annotations

import json
import os
import queue
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.ranks import Gang, Reply
from pytest_ascendcache.ranks.hub import Hub
from pytest_ascendcache.ranks.local import run_gang
from pytest_ascendcache.ranks.rank import rank_environment


def gone(process: int) -> bool:
    """Whether a process has ended. A zombie counts as ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


class TestGang:
    """Tests of a gang's state, without processes."""

    def test_all_payloads_go_to_everybody(self) -> None:
        gang = Gang("g", 2)
        assert gang.enter(1, "b") == []
        assert gang.absent == [0]
        assert gang.enter(0, "a") == [Reply(0, ("a", "b")), Reply(1, ("a", "b"))]
        assert gang.waiting == {}

    @pytest.mark.parametrize(
        ("outcome", "message", "why", "cause"),
        [
            ("fail", "1 == 2", "rank 1 failed: 1 == 2", "fail"),
            ("warn", "slow", "rank 1 failed: slow", "warn"),
            ("skipped", "no card", "rank 1 skipped: no card", "skipped"),
            ("passed", "", "rank 1 ended without coming to this rendezvous", ""),
        ],
    )
    def test_whoever_waits_for_a_rank_that_left_is_told(
        self, outcome: str, message: str, why: str, cause: str
    ) -> None:
        gang = Gang("g", 3)
        gang.enter(0, "a")
        replies = gang.leave(1, outcome, message)
        assert replies == [Reply(0, None, f"gang g aborted: {why}", cause)]
        assert gang.enter(2, "c") == [Reply(2, None, f"gang g aborted: {why}", cause)]

    def test_ranks_that_only_end_keep_nobody_waiting(self) -> None:
        gang = Gang("g", 2)
        assert gang.leave(0, "passed") == gang.leave(1, "passed") == []
        assert gang.finished

    def test_a_lost_rank_explains_more_than_one_that_ended(self) -> None:
        gang = Gang("g", 3)
        gang.leave(0, "passed")
        gang.enter(2, "c")
        assert gang.lose([1], "was lost: it was ended by signal 9") == []
        assert gang.enter(2, "c") == [
            Reply(2, None, "gang g aborted: rank 1 was lost: it was ended by signal 9")
        ]

    def test_the_first_failure_is_the_reason(self) -> None:
        gang = Gang("g", 3)
        gang.leave(0, "fail", "first")
        gang.leave(1, "fail", "second")
        assert gang.enter(2, "c") == [
            Reply(2, None, "gang g aborted: rank 0 failed: first", "fail")
        ]

    def test_a_rank_that_left_cannot_be_lost(self) -> None:
        gang = Gang("g", 1)
        gang.leave(0, "passed")
        assert gang.lose([0], "was lost") == []
        assert gang.finished


class TestHub:
    """Tests of gangs on workers, with queues in place of the workers."""

    @pytest.fixture
    def inboxes(self) -> dict[str, queue.Queue]:
        return {worker: queue.Queue() for worker in ("x", "y", "z")}

    @pytest.fixture
    def killed(self) -> queue.Queue:
        return queue.Queue()

    @pytest.fixture
    def hub(self, request, inboxes, killed) -> Iterator[Hub]:
        """A hub with a deadline of 600 s, unless the test sets another one."""
        hub = Hub(getattr(request, "param", 600), killed.put)
        for worker, letters in inboxes.items():
            hub.connect(worker, letters.put)
        yield hub
        hub.close()

    def test_all_payloads_go_to_the_workers_of_all_ranks(self, hub, inboxes) -> None:
        hub.place("g", ["z", "x"])
        hub.heard("x", ("enter", "g", 1, "b"))
        hub.heard("z", ("enter", "g", 0, "a"))
        assert inboxes["x"].get_nowait() == inboxes["z"].get_nowait() == (["a", "b"], "", "")
        assert inboxes["y"].empty()

    @pytest.mark.parametrize("hub", [0.1], indirect=True)
    def test_a_worker_on_another_host_is_named_with_it(self, hub, inboxes, killed) -> None:
        hub.find("y", "card-b")
        hub.place("g", ["x", "y"])
        hub.heard("x", ("enter", "g", 0, ""))
        why = "gang g aborted: rank 1 did not come within 0.1 s (worker y on card-b)"
        assert inboxes["x"].get(timeout=60) == (None, why, "")
        assert killed.get(timeout=60) == "y"

    @pytest.mark.parametrize("hub", [0.1], indirect=True)
    def test_a_gang_is_late_only_when_nothing_is_in_its_way(self, hub, inboxes, killed) -> None:
        hub.place("first", ["x", "y"])
        hub.place("second", ["y", "z"])
        hub.heard("z", ("enter", "second", 1, ""))
        hub.heard("y", ("enter", "first", 1, ""))
        why = "gang first aborted: rank 0 did not come within 0.1 s (worker x)"
        assert inboxes["y"].get(timeout=60) == (None, why, "")
        assert killed.get(timeout=60) == "x"
        assert inboxes["z"].empty()
        hub.heard("y", ("leave", "first", 1, "failed", "aborted"))
        why = "gang second aborted: rank 0 did not come within 0.1 s (worker y)"
        assert inboxes["z"].get(timeout=60) == (None, why, "")
        assert killed.get(timeout=60) == "y"

    def test_a_rank_that_moves_is_answered_where_it_is(self, hub, inboxes) -> None:
        hub.place("g", ["x", "y"])
        hub.heard("x", ("enter", "g", 0, "a"))
        hub.move("g", 1, None)
        hub.move("g", 1, "z")
        hub.heard("z", ("enter", "g", 1, "b"))
        assert inboxes["z"].get_nowait() == inboxes["x"].get_nowait() == (["a", "b"], "", "")

    def test_a_worker_that_ends_loses_what_it_still_has(self, hub, inboxes) -> None:
        hub.place("done", ["x", "y"])
        hub.place("g", ["x", "y"])
        for rank, worker in enumerate("xy"):
            hub.heard(worker, ("leave", "done", rank, "passed", ""))
        hub.heard("y", ("enter", "g", 1, ""))
        hub.lose_worker("x", "was not run")
        assert inboxes["y"].get_nowait() == (None, "gang g aborted: rank 0 was not run", "")

    def test_a_gang_for_which_workers_are_missing(self, hub, inboxes) -> None:
        hub.heard("x", ("enter", "g", 0, ""))
        hub.heard("x", ("leave", "g", 0, "failed", ""))
        why = "gang g aborted: fewer workers are left than it has ranks"
        assert inboxes["x"].get_nowait() == (None, why, "")
        assert inboxes["x"].empty()


def test_devices_are_counted_on_each_host() -> None:
    environment = rank_environment(3, 4, [1, 3])
    assert environment["RANK_ID"] == environment["RANK"] == "3"
    assert environment["RANK_SIZE"] == environment["WORLD_SIZE"] == "4"
    assert environment["DEVICE_ID"] == environment["LOCAL_RANK"] == "1"
    assert environment["LOCAL_WORLD_SIZE"] == "2"


class TestRunGang:
    """Tests of processes under a keeper, without pytest."""

    def test_results_come_in_the_order_of_ranks(self) -> None:
        run = run_gang("g", 3, lambda rank, meet: [rank, meet.enter(str(rank)).payloads], 60)
        assert [each.result for each in run.endings] == [
            [rank, ["0", "1", "2"]] for rank in range(3)
        ]
        assert run.leftovers == 0

    def test_large_payloads(self) -> None:
        def body(rank: int, meet) -> list[int]:
            payloads = meet.enter(str(rank) * 3_000_000).payloads
            return [len(each) for each in payloads]

        assert run_gang("g", 2, body, 60).endings[1].result == [3_000_000, 3_000_000]

    def test_endings_and_last_words(self) -> None:
        def body(rank: int, _) -> None:
            os.write(2, f"words of {rank}".encode())
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 2:
                os._exit(3)

        run = run_gang("g", 3, body, 60)
        assert [each.returncode for each in run.endings] == [0, -9, 3]
        assert [each.words for each in run.endings] == ["words of 0", "words of 1", "words of 2"]
        assert [each.ending(60) for each in run.endings] == [
            "ended with exit status 0",
            "was ended by signal 9",
            "ended with exit status 3",
        ]

    def test_a_stopped_rank_is_killed_and_the_others_are_told(self) -> None:
        def body(rank: int, meet) -> str:
            if rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            return str(meet.enter("").why)

        run = run_gang("g", 3, body, 2)
        assert [each.returncode for each in run.endings] == [0, None, 0]
        why = "gang g aborted: rank 1 did not come within 2 s"
        assert [each.result for each in run.endings] == [why, None, why]

    def test_nobody_is_left_behind(self) -> None:
        def body(*_: object) -> int:
            # Like a daemon, start a grandchild in its own session.
            child = os.fork()
            if child == 0:
                os.setsid()
                if os.fork() == 0:
                    os.write(report, str(os.getpid()).encode())
                    signal.pause()
                os._exit(0)
            # The child has ended; only the grandchild remains.
            os.waitpid(child, 0)
            return int(os.read(read, 64))

        read, report = os.pipe()
        run = run_gang("g", 1, body, 60)
        os.close(read)
        os.close(report)
        assert run.leftovers == 1
        assert gone(run.endings[0].result)

    def test_ranks_end_with_whoever_started_them(self) -> None:
        def body(*_: object) -> None:
            os.write(report, f"{os.getpid()}\n".encode())
            signal.pause()

        read, report = os.pipe()
        child = os.fork()
        if child == 0:
            run_gang("g", 2, body, 600)
            os._exit(0)
        os.close(report)
        with os.fdopen(read) as pipe:
            processes = [int(pipe.readline()) for _ in range(2)]
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            # The pipe reports its end when the last process that has it open ends.
            assert pipe.read() == ""
        assert all(gone(process) for process in processes)


@pytest.fixture
def tests(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory for a user's tests."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider --strict-markers -W error\n")
    return pytester


def test_the_body_runs_once_per_rank_at_the_same_time(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import os
        import pytest

        @pytest.fixture(scope="module")
        def shared():
            return [os.getpid()]

        @pytest.mark.ascend_ranks(3)
        @pytest.mark.parametrize("word", ["a", "b"])
        def test_mine(ascend_rank, word, shared, tmp_path, capsys):
            print(word)
            assert capsys.readouterr().out == word + "\\n"
            everybody = ascend_rank.gather([os.getpid(), shared, str(tmp_path)])
            assert len({each[0] for each in everybody}) == 3
            assert len({each[2] for each in everybody}) == 3
            assert all(each[1] == shared for each in everybody)
            assert os.environ["RANK_ID"] == str(ascend_rank.rank)
            assert ascend_rank.environment["LOCAL_WORLD_SIZE"] == "3"
            (ascend_rank.directory / str(ascend_rank.rank)).touch()
            ascend_rank.barrier()
            assert len(list(ascend_rank.directory.iterdir())) == ascend_rank.size == 3

        def test_default(ascend_rank):
            assert ascend_rank.size == 4

        def test_after(shared):
            assert shared == [os.getpid()]
            assert "RANK_ID" not in os.environ
        """
    )
    tests.runpytest_subprocess().assert_outcomes(passed=4)


def test_the_size_from_the_command_line(tests: pytest.Pytester) -> None:
    tests.makepyfile("def test_mine(ascend_rank): assert ascend_rank.size == 2")
    tests.runpytest_subprocess("--ascend-ranks=2").assert_outcomes(passed=1)


def test_every_rank_is_in_the_report(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import os, signal, sys
        import pytest

        def test_fails(ascend_rank):
            print("I am", ascend_rank.rank)
            if ascend_rank.rank == 1:
                assert ascend_rank.rank == 7
            ascend_rank.barrier()

        def test_dies(ascend_rank):
            if ascend_rank.rank == 2:
                print("farewell", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            ascend_rank.barrier()

        def test_ends_early(ascend_rank):
            if ascend_rank.rank != 3:
                ascend_rank.barrier()

        def test_gathers_what_cannot_be_sent(ascend_rank):
            ascend_rank.gather({1, 2})

        def test_leaves_pytest(ascend_rank):
            if ascend_rank.rank == 3:
                pytest.exit("no more")

        def test_keeper_is_killed(ascend_rank):
            os.kill(os.getppid(), signal.SIGKILL)

        def test_after(): pass
        """
    )
    result = tests.runpytest_subprocess()
    result.assert_outcomes(failed=6, passed=1)
    result.stdout.fnmatch_lines(
        [
            "gang of 4 ranks",
            "rank 0: aborted, ended with exit status 0",
            "rank 1: failed, ended with exit status 0",
            "*assert ascend_rank.rank == 7",
            "*Captured output of rank 3*",
            "I am 3",
            "rank 2: failed, was ended by signal 9",
            "rank 2 was ended by signal 9; its last output: farewell",
            "*GangAborted: gang *::test_ends_early aborted: rank 3 ended without coming to this*",
            "*TypeError: rank 0 gathers {1, 2}, which JSON cannot carry*",
            "rank 3 ended with exit status 70; its last output: *Exit: no more",
            "*GangError: gang *::test_keeper_is_killed: the process that watches its ranks was *",
        ]
    )


def test_an_interrupted_session_leaves_no_rank_behind(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import os, pathlib, signal

        PYTEST = os.getpid()
        # Where this test runs in the background, SIGINT is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def test_mine(ascend_rank, request):
            processes = ascend_rank.gather(os.getpid())
            if ascend_rank.rank == 0:
                (request.path.parent / "processes").write_text(" ".join(map(str, processes)))
                os.kill(PYTEST, signal.SIGINT)
            signal.pause()
        """
    )
    result = tests.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    processes = (tests.path / "processes").read_text().split()
    assert len(processes) == 4
    assert all(gone(int(process)) for process in processes)


def test_warm_caches_of_ranks_do_not_mix(tests: pytest.Pytester) -> None:
    """All ranks share the warm copies made before the fork. Later copies are private."""
    tests.makepyfile(
        """
        from pytest_ascendcache.contract import CacheMode
        from pytest_ascendcache.contract.outcome import KEPT, REUSED, Outcome

        def test_before(ascend_cache, ascend_operators):
            ascend_cache.warm(ascend_operators["add"])

        def test_mine(ascend_rank, ascend_cache, ascend_operators):
            ascend_rank.barrier()
            for name in ("add", "mul"):
                cache = ascend_cache.elsewhere(ascend_cache.sandbox / name)
                cache.warm(ascend_operators[name])
                run = cache.compile(ascend_operators[name], mode=CacheMode.ENABLE)
                assert run[ascend_operators[name]] == Outcome(REUSED, KEPT)
        """
    )
    tests.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_deadline_for_the_whole_gang(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import os, signal

        def test_stops(ascend_rank):
            if ascend_rank.rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            ascend_rank.barrier()
        """
    )
    result = tests.runpytest_subprocess("--ascend-timeout=1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["rank 1: failed, did not end within 2 s and was killed"])


def test_skips_and_expected_failures(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def costly():
            raise AssertionError("not for tests that are skipped")

        @pytest.mark.skip(reason="marked")
        def test_marked(ascend_rank, costly): pass

        def test_all(ascend_rank):
            pytest.skip("by itself")

        def test_the_others_have_to_skip_too(ascend_rank):
            if ascend_rank.rank == 1:
                pytest.skip("one of us")
            ascend_rank.barrier()

        def test_only_one_has_something_to_do(ascend_rank):
            if ascend_rank.rank != 1:
                pytest.skip("nothing to do")

        @pytest.mark.xfail(strict=True)
        def test_expected(ascend_rank):
            assert ascend_rank.rank != 1
            ascend_rank.barrier()
        """
    )
    tests.runpytest_subprocess().assert_outcomes(skipped=3, passed=1, xfailed=1)


def test_fixtures_and_teardown_of_a_rank_can_fail(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import pytest

        @pytest.fixture
        def broken(ascend_rank):
            assert ascend_rank.rank != 2, "no luck"

        @pytest.fixture
        def untidy(ascend_rank):
            yield
            assert ascend_rank.rank != 0, "left a mess"

        @pytest.fixture(scope="module")
        def wide():
            raise ValueError("for nobody")

        def test_setup(ascend_rank, broken):
            ascend_rank.barrier()

        def test_teardown(ascend_rank, untidy):
            ascend_rank.barrier()

        def test_wide(ascend_rank, wide): pass
        """
    )
    result = tests.runpytest_subprocess()
    result.assert_outcomes(failed=2, errors=1)
    result.stdout.fnmatch_lines_random(["*ValueError: for nobody", "*no luck", "*left a mess"])


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (
            "@pytest.mark.ascend_ranks(0)\ndef test_x(ascend_rank): pass",
            [],
            "ascend_ranks(0) is no",
        ),
        ("@pytest.mark.ascend_ranks('2')\ndef test_x(ascend_rank): pass", [], "ascend_ranks('2')"),
        ("@pytest.mark.ascend_ranks(2)\ndef test_x(): pass", [], "does not use the fixture"),
        (
            "def test_x(ascend_rank): pass",
            ["--ascend-ranks=0"],
            "--ascend-ranks must be a ",
        ),
    ],
)
def test_sizes_that_are_none(
    tests: pytest.Pytester, source: str, options: list[str], words: str
) -> None:
    tests.makepyfile("import pytest\n" + source)
    result = tests.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


RULES = """
import os, signal
import pytest
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REUSED, STORED, Outcome

@pytest.mark.ascend_rule("cache-mode/enable-stores")
def test_passes(ascend_rank, ascend_cache, ascend_operators):
    add = ascend_operators["add"]
    ascend_rank.barrier()
    run = ascend_cache.compile(add, mode=CacheMode.ENABLE, environment=ascend_rank.environment)
    assert run[add] == Outcome(COMPILED, STORED)

@pytest.mark.ascend_rule("cache-mode/enable-reuses")
def test_fails(ascend_rank, ascend_cache, ascend_operators):
    add = ascend_operators["add"]
    run = ascend_cache.compile(add, mode=CacheMode.ENABLE)
    if ascend_rank.rank == 1:
        assert run[add] == Outcome(REUSED, KEPT)
    ascend_rank.barrier()

@pytest.mark.ascend_rule("robust/same-key-race")
def test_warns(ascend_rank):
    assert ascend_rank.rank != 1
    ascend_rank.barrier()

@pytest.mark.ascend_rule("debug/outputs")
def test_cannot_tell(ascend_rank):
    if ascend_rank.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    ascend_rank.barrier()

@pytest.mark.ascend_rule("debug/level-bypasses")
def test_cannot_be_applied(ascend_rank):
    pytest.skip("no such level")
"""
VERDICTS = {
    "test_passes": "pass",
    "test_fails": "fail",
    "test_warns": "warn",
    "test_cannot_tell": "undecided",
    "test_cannot_be_applied": "not applicable",
}


@pytest.mark.parametrize(
    "workers",
    [[], pytest.param(["-n", "3"], marks=pytest.mark.nightly)],
    ids=["processes", "workers"],
)
def test_a_gang_has_one_verdict(tests: pytest.Pytester, workers: list[str]) -> None:
    tests.makepyfile(test_rules=RULES)
    options = ["--ascend-cache", "--ascend-report=r.json", "--ascend-ranks=3", *workers]
    result = tests.runpytest_subprocess(*options, "test_rules.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    checks = json.loads((tests.path / "r.json").read_text())["checks"]
    verdicts = {
        each["check"].partition("::")[2]: each for each in checks if "_rules.py" in each["check"]
    }
    assert {name: each["verdict"] for name, each in verdicts.items()} == VERDICTS
    failed = verdicts["test_fails"]
    assert failed["message"].startswith("rank 1: outcome differs")
    assert failed["evidence"]["observed"] == "compiled, entry stored"
    assert failed["repeat"].endswith("/test_rules.py::test_fails")
    assert failed["evidence"]["starts"] == len(failed["evidence"]["steps"]) == 3
    assert [each["rank"] for each in failed["evidence"]["ranks"]] == [0, 1, 2]
    assert "rank 1" in verdicts["test_cannot_tell"]["message"]
    result.stdout.no_fnmatch_line("INCOMPLETE*")


def test_compiles_of_a_killed_rank_end_with_it(tests: pytest.Pytester) -> None:
    """The compile is a child of the fork server, which survives, and not a child of the rank."""
    package = tests.mkdir("package") / "op_impl/ai_core/tbe/impl"
    package.mkdir(parents=True)
    (package / "hangs.py").write_text(
        "import os, signal\n"
        "open(os.environ['COMPILES'], 'w').write(str(os.getpid()))\n"
        "signal.pause()\n"
    )
    os.mkfifo(tests.path / "compiles")
    tests.makepyfile(
        """
        import os, pathlib, select, signal, threading

        CHILD = []

        def test_mine(ascend_rank, ascend_cache, ascend_operators, request):
            here = request.path.parent
            def die():
                child = (here / "compiles").read_text()
                (here / "child").write_text(child)
                os.kill(os.getpid(), signal.SIGKILL)
            if ascend_rank.rank == 1:
                threading.Thread(target=die).start()
                ascend_cache.attempt(
                    ascend_operators["add"],
                    environment={
                        "ASCEND_CUSTOM_OPP_PATH": str(here / "package"),
                        "COMPILES": str(here / "compiles"),
                    },
                )
            ascend_rank.barrier()

        def test_the_compile_has_ended(request, ascend_cache, ascend_operators):
            child = int((request.path.parent / "child").read_text())
            try:
                descriptor = os.pidfd_open(child)
            except ProcessLookupError:
                return
            assert select.select([descriptor], [], [], 30)[0]
        """
    )
    result = tests.runpytest_subprocess("--ascend-ranks=2", "--ascend-timeout=60")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["rank 1: failed, was ended by signal 9"])


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["processes", "workers"])
def test_a_gang_without_a_run_of_the_toolchain_does_not_pass(
    tests: pytest.Pytester, workers: list[str]
) -> None:
    tests.makepyfile(
        """
        import pytest

        pytestmark = [pytest.mark.ascend_ranks(2), pytest.mark.ascend_rule("ranks/isolated")]

        def test_nobody_compiles(ascend_rank):
            pass

        def test_one_compiles(ascend_rank, ascend_cache, ascend_operators):
            if ascend_rank.rank == 1:
                ascend_cache.warm(ascend_operators["add"])
            ascend_rank.barrier()

        def test_one_ends_too_early(ascend_rank, ascend_evidence):
            ascend_evidence.notes.append("looked at")
            if ascend_rank.rank == 1:
                assert ascend_rank.gather("ending: true")
        """
    )
    report = ["--ascend-cache", "--ascend-report=r.json"]
    result = tests.runpytest_subprocess(".", *report, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    checks = json.loads((tests.path / "r.json").read_text())["checks"]
    found = {each["check"].partition("::")[2]: each for each in checks}
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_nobody_compiles": "undecided",
        "test_one_compiles": "pass",
        "test_one_ends_too_early": "undecided",
    }
    assert "ran no toolchain" in found["test_nobody_compiles"]["message"]
    assert "ended without coming" in found["test_one_ends_too_early"]["message"]
