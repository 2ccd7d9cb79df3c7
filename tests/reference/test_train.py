"""The command ascendcache-train: its output, its errors, and recovery after kills."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from pytest_ascendcache.caches import RankKernel, Snapshot
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import meeting_place
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.evaluation import evaluate_network
from pytest_ascendcache.operators.network import read_network
from pytest_ascendcache.processes.sleeping import wait_until
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.reference import train
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.toolchains import TrainRequest

NETWORKS = Path(__file__).parents[2] / "fixtures" / "networks"
SQUARE, BERT = NETWORKS / "square.json", NETWORKS / "bert_encoder_layer.json"
NUMBERS = count()
MOMENT = 1 / 400
"""Real seconds that one second of a timeout lasts in tests that must wait for the timeout."""


@pytest.fixture(scope="module", params=["fork", "process"])
def toolchain(request):
    with closing(reference_toolchain(request.param)) as toolchain:
        yield toolchain


@pytest.fixture(scope="module")
def forked():
    with closing(reference_toolchain()) as toolchain:
        yield toolchain


def request(tmp_path, network=SQUARE, **changes):
    return TrainRequest(
        network=read_network(SQUARE),
        directory=tmp_path / f"run{next(NUMBERS)}",
        work=tmp_path / "work",
        file=network,
        **changes,
    )


def run(toolchain, *requests):
    processes = [toolchain.start_rank(each) for each in requests]
    return [each.wait(60) for each in processes]


def test_the_reference_declares_what_it_can_do(forked):
    assert {Capability.INCREMENTAL_BUILD, Capability.REHEARSED_WAITS} <= forked.capabilities


def test_the_documents_example(toolchain, tmp_path):
    (result,) = run(toolchain, request(tmp_path))
    assert result.succeeded
    assert result.output.splitlines() == ["output:  [ 1. 16. 81.]"]
    assert result.outputs["output"].tolist() == [1.0, 16.0, 81.0]
    names = sorted(path.name for path in (tmp_path / "work/rank_0/kernel_meta").iterdir())
    lock, *files = names
    assert lock == ".kernel_meta.lock"
    assert [Path(each).suffix for each in files] == [".info", ".json", ".o"]
    assert len({Path(each).stem for each in files}) == 1


def test_both_ways_of_starting_give_the_same_files(tmp_path):
    for start in ("fork", "process"):
        with closing(reference_toolchain(start)) as toolchain:
            environment = {"MS_COMPILER_CACHE_PATH": str(tmp_path / start)}
            (result,) = run(toolchain, request(tmp_path, BERT, environment=environment))
            assert result.succeeded, result.output
    fork, process = (Snapshot.take(tmp_path / each).files for each in ("fork", "process"))
    assert {path: each.sha256 for path, each in fork.items()} == {
        path: each.sha256 for path, each in process.items()
    }
    assert len(fork) == 3 * 17 + 3


def test_a_bert_layer_is_right_cold_and_warm(forked, tmp_path):
    exact = evaluate_network(read_network(BERT))["output_layer_norm"]
    for _ in range(2):
        (result,) = run(forked, request(tmp_path, BERT))
        np.testing.assert_allclose(result.outputs["output_layer_norm"], exact, atol=1e-5)


def test_the_kernel_name_is_mindspores(forked, tmp_path):
    run(forked, request(tmp_path, environment={"DEVICE_ID": "2"}))
    (kernel,) = RankKernel.read_all(tmp_path / "work/rank_0/kernel_meta").values()
    name, number, device = kernel.stem.split("_")
    assert (name, device) == ("square", "2")
    assert 0 <= int(number) < 2**64
    assert kernel.info["kernel_name"] == kernel.stem


def refused(forked, tmp_path, *words, network=SQUARE, **environment):
    """Check that a rank fails with one line that contains ``words``, and changes no file.

    Returns the line.
    """
    before = Snapshot.take(tmp_path / "work")
    (result,) = run(forked, request(tmp_path, network, environment=environment, second=MOMENT))
    assert result.returncode == 1
    assert result.outputs is None
    lines = result.output.splitlines()
    assert len(lines) == 1
    for each in words:
        assert each in lines[0]
    assert before.changes(Snapshot.take(tmp_path / "work")) == {}
    return lines[0]


BAD_ENVIRONMENTS = [
    ({"RANK_ID": "-1"}, "[RANK_ID]", "[-1]"),
    ({"RANK_ID": "../x"}, "[RANK_ID]", "[../x]"),
    ({"RANK_ID": "01"}, "[RANK_ID]", "[01]"),
    ({"RANK_ID": "9" * 300}, "[RANK_ID]", "999..."),
    ({"RANK_ID": "2", "RANK_SIZE": "2"}, "[RANK_ID]", "from 0 to 1"),
    ({"RANK_SIZE": "0"}, "[RANK_SIZE]", "[0]"),
    ({"RANK_SIZE": "2", "MS_WORKER_NUM": "3"}, "[RANK_SIZE]", "MS_WORKER_NUM says 3"),
    ({"DEVICE_ID": "a"}, "[DEVICE_ID]", "[a]"),
    ({"MS_SCHED_PORT": "65536"}, "[MS_SCHED_PORT]", "[65536]"),
    ({"HCCL_CONNECT_TIMEOUT": "119"}, "[HCCL_CONNECT_TIMEOUT]", "[119]", "120s", "7200s"),
    ({"HCCL_CONNECT_TIMEOUT": "7201"}, "[HCCL_CONNECT_TIMEOUT]", "[7201]"),
    ({"HCCL_CONNECT_TIMEOUT": "1e3"}, "[HCCL_CONNECT_TIMEOUT]", "[1e3]"),
]


@pytest.mark.parametrize(("environment", "words"), [(e, w) for e, *w in BAD_ENVIRONMENTS])
def test_a_bad_environment_is_refused(forked, tmp_path, environment, words):
    assert "EI0001: Environment variable" in refused(forked, tmp_path, *words, **environment)


@pytest.mark.parametrize("timeout", ["120", "7200"])
def test_both_ends_of_the_range_are_allowed(forked, tmp_path, timeout):
    (result,) = run(forked, request(tmp_path, environment={"HCCL_CONNECT_TIMEOUT": timeout}))
    assert result.succeeded, result.output


def test_ms_worker_num_says_the_size_too(forked, tmp_path):
    with meeting_place(2) as gang:
        environment = {**gang.environment, "MS_WORKER_NUM": "2"}
        del environment["RANK_SIZE"]
        results = run(
            forked,
            *(request(tmp_path, environment={**environment, "RANK_ID": str(r)}) for r in (0, 1)),
        )
    assert [each.succeeded for each in results] == [True, True]


def network_file(tmp_path, **changes):
    document = {**json.loads(SQUARE.read_text()), **changes}
    path = tmp_path / "network.json"
    path.write_text(json.dumps(document))
    return path


def square(kind="Square", inputs=("x",)):
    return [{"op": kind, "name": "one", "inputs": list(inputs), "outputs": ["output"]}]


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        (square("Sqare"), ["E40021", "[one]", "operators[0]", "'Sqare'"]),
        (square("Square", ("x", "x")), ["E40021", "[one]", "operators[0]"]),
        (square(inputs=("output",)), ["break the cycle"]),
        ([], ["operators: the list is empty"]),
    ],
)
def test_all_ranks_end_when_the_network_is_bad(forked, tmp_path, operators, words):
    path = network_file(tmp_path, operators=operators)
    with meeting_place(2) as gang:
        results = run(
            forked,
            *(
                request(tmp_path, path, environment={**gang.environment, "RANK_ID": str(rank)})
                for rank in range(2)
            ),
        )
    for result in results:
        assert result.returncode == 1
        for each in (str(path), *words):
            assert each in result.output
    assert Snapshot.take(tmp_path / "work").files == {}


def test_wrong_shapes_are_refused(forked, tmp_path):
    tensors = json.loads(SQUARE.read_text())["tensors"]
    tensors[1]["shape"] = [4]
    path = network_file(tmp_path, tensors=tensors)
    refused(forked, tmp_path, "E40021", f"{path}: operators[0]", network=path)


def test_one_bad_rank_ends_all(forked, tmp_path):
    """The failing rank reports its error to the others, so they need not wait for the timeout."""
    bad = network_file(tmp_path, operators=square("Sqare"))
    with meeting_place(3) as gang:
        results = run(
            forked,
            *(
                request(tmp_path, file, environment={**gang.environment, "RANK_ID": str(rank)})
                for rank, file in enumerate((SQUARE, SQUARE, bad))
            ),
        )
    assert [each.returncode for each in results] == [1, 1, 1]
    for each in results:
        assert "'Sqare'" in each.output
    for each in results[:2]:
        assert "EI0014" in each.output
        assert "rank[2] failed" in each.output


def test_ranks_that_do_not_agree_on_their_number(forked, tmp_path):
    with meeting_place(3) as gang:
        results = run(
            forked,
            *(
                request(
                    tmp_path,
                    environment={**gang.environment, "RANK_ID": str(rank), "RANK_SIZE": size},
                )
                for rank, size in enumerate(("2", "3"))
            ),
        )
    for each in results:
        assert each.returncode == 1
        assert "RANK_SIZE of rank[1] is 3, that of rank[0] is 2" in each.output


def test_an_address_in_use(forked, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        error = refused(
            forked, tmp_path, f"127.0.0.1:{port}", "in use", RANK_SIZE="2", MS_SCHED_PORT=port
        )
    assert error.startswith("[ERROR] EI0020: ")


def test_an_address_that_names_no_host(forked, tmp_path):
    error = refused(
        forked,
        tmp_path,
        "no.such.host.invalid",
        RANK_SIZE="2",
        MS_SCHED_HOST="no.such.host.invalid",
    )
    assert error.startswith("[ERROR] EI0020: ")


def test_strangers_at_the_meeting_are_ignored(forked, tmp_path):
    """Other programs connect to the port. Rank 0 takes none of them for a rank."""
    with meeting_place(2) as gang:
        first = forked.start_rank(
            request(tmp_path, environment={**gang.environment, "RANK_ID": "0"})
        )
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"[]\n",
            b"{}\n",
            b"",
            b"x" * 200_000,
            b'{"rank":9}\n',
        ):
            # Rank 0 may close the connection before the stranger has sent everything.
            with connected(gang.port) as stranger, suppress(OSError):
                stranger.sendall(data)
        second = forked.start_rank(
            request(tmp_path, environment={**gang.environment, "RANK_ID": "1"})
        )
        assert [each.wait(60).succeeded for each in (first, second)] == [True, True]


@contextmanager
def connected(port):
    """Connect to a port as soon as a process listens on it."""
    with socket.socket() as stranger:
        assert wait_until(lambda: stranger.connect_ex(("127.0.0.1", port)) == 0, 60)
        yield stranger


def test_a_directory_that_cannot_be_made(forked, tmp_path):
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "below")
    error = refused(forked, tmp_path, place, "MS_COMPILER_CACHE_PATH", MS_COMPILER_CACHE_PATH=place)
    assert "E40023" in error


def test_outputs_that_cannot_be_written(tmp_path):
    ended = command([str(SQUARE), "--outputs=missing/outputs.npz"], tmp_path)
    assert ended.returncode == 1
    assert "Path [missing/outputs.npz] for [--outputs] is invalid." in ended.stdout


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--phase=testing", "Value [testing] for parameter [--phase] is invalid."),
        ("--soc_version=Ascend1", "Value [Ascend1] for parameter [--soc_version] is invalid."),
    ],
)
def test_bad_options(tmp_path, option, words):
    ended = command([str(SQUARE), option], tmp_path)
    assert ended.returncode == 1
    assert words in ended.stdout
    assert list(tmp_path.iterdir()) == []


def command(arguments, work):
    return subprocess.run(
        [sys.executable, "-m", "pytest_ascendcache.reference.train", *arguments],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        env={key: each for key, each in os.environ.items() if not key.startswith(("MS_", "RANK_"))},
    )


def test_help(tmp_path):
    ended = command(["--help"], tmp_path)
    assert ended.returncode == 0
    for each in ("RANK_ID", "RANK_SIZE", "HCCL_CONNECT_TIMEOUT", "MS_COMPILER_CACHE_PATH"):
        assert each in ended.stdout


class Dies(Fs):
    """Kills this process right before its file operation ``number``, counted from 0."""

    def __init__(self, number):
        self.left = number

    def watch(self, _):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


@pytest.fixture(scope="module")
def warm():
    """Import in this process what its forked children need, so that no child has to."""
    build = importlib.import_module("pytest_ascendcache.reference.incremental.build")
    tensor = TensorDesc.of("float32", 3)
    build.build(
        OperatorSpec("Square", (tensor,), (tensor,)), "warm", build.KernelOptions("Ascend910B1")
    )
    importlib.import_module("pytest_ascendcache.reference.kernels.execute")


def in_child(work, fs):
    """Run the command in a forked child. Returns its exit code, or the negative signal number."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(work)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = train.run([str(SQUARE), "--outputs=outputs.npz"], {}, Policies(fs=fs))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.usefixtures("warm")
def test_killed_while_replacing_a_kernel_the_next_run_is_right(tmp_path):
    """The directory already holds a kernel of that name, whose ``.info`` is of another request."""
    first = tmp_path / "first"
    first.mkdir()
    assert in_child(first, Fs()) == 0
    (kernel,) = RankKernel.read_all(first / "rank_0/kernel_meta").values()
    kernel.info_path.write_text("{}")
    for number in count():
        work = tmp_path / str(number)
        shutil.copytree(first, work)
        if in_child(work, Dies(number)) == 0:
            break
        assert in_child(work, Fs()) == 0
        with np.load(work / "outputs.npz") as outputs:
            assert outputs["output"].tolist() == [1.0, 16.0, 81.0]
        assert kernel.stem in RankKernel.read_all(work / "rank_0/kernel_meta")
        assert RankKernel.read_all(work / "rank_0/kernel_meta")[kernel.stem].problems() == []
    assert number > 15, "a run has file operations"
