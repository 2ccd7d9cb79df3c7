"""Gangs across the hosts of a cluster: devices per host, and hosts that are cut off or frozen."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ranks.cluster import Cluster

PATIENCE = 120
"""Seconds after which a session counts as hanging."""

TESTS = """
import json, os, signal, socket
from pathlib import Path
import pytest

HERE = Path(__file__).parent

@pytest.mark.ascend_ranks(4)
def test_places(ascend_rank):
    names = ("RANK_ID", "WORLD_SIZE", "LOCAL_RANK", "DEVICE_ID", "LOCAL_WORLD_SIZE")
    mine = [socket.gethostname(), *(os.environ[name] for name in names)]
    everybody = ascend_rank.gather([mine, str(ascend_rank.directory)])
    if ascend_rank.rank == 0:
        (HERE / "places.json").write_text(json.dumps(everybody))

@pytest.mark.ascend_ranks(4)
def test_middle(ascend_rank):
    ascend_rank.barrier()
    if ascend_rank.rank == 2:
        ACT
    ascend_rank.barrier()

@pytest.mark.ascend_ranks(4)
def test_later(ascend_rank):
    ascend_rank.barrier()
"""
DIES = "os.kill(os.getpid(), signal.SIGKILL)"
WAITS = 'open(HERE / "middle", "wb").close(); signal.pause()'


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two hosts."""
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def started(
    cluster: Cluster, directory: Path, workers: list[str], act: str, *options: str
) -> subprocess.Popen[str]:
    """Start a session on the street that uses these workers."""
    (directory / "test_hosts.py").write_text(TESTS.replace("ACT", act))
    workers = [f"--tx={each}//chdir={directory}" for each in workers]
    ours = ["-p", "no:cacheprovider", "--dist=load", "test_hosts.py"]
    return subprocess.Popen(
        cluster.outside(sys.executable, "-m", "pytest", *ours, *workers, *options),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The directory of the tests, which all hosts share."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "pytest.ini").write_text("[pytest]\n")
    return directory


def in_the_middle(session: subprocess.Popen[str], fifo: Path) -> None:
    """Wait until a rank opens the FIFO, or the session has ended."""
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    ended = os.pidfd_open(session.pid)
    try:
        poll = select.poll()
        poll.register(reading)
        poll.register(ended, select.POLLIN)
        assert poll.poll(PATIENCE * 1000)
    finally:
        os.close(ended)
        os.close(reading)


def test_a_rank_knows_its_place_among_those_of_its_host(cluster: Cluster, project: Path) -> None:
    session = started(cluster, project, cluster.by_ssh(2), DIES)
    output, _ = session.communicate(timeout=PATIENCE)
    everybody = json.loads((project / "places.json").read_text())
    assert [each for each, _ in everybody] == [
        ["card-a", "0", "4", "0", "0", "2"],
        ["card-a", "1", "4", "1", "1", "2"],
        ["card-b", "2", "4", "0", "0", "2"],
        ["card-b", "3", "4", "1", "1", "2"],
    ]
    directories = [where for _, where in everybody]
    assert directories[0] == directories[1] != directories[2] == directories[3]
    assert "test_middle aborted: rank 2 was lost: its worker gw2 on card-b died" in output, output
    # The host still answers, so it starts another worker.
    assert "4 failed, 8 passed" in output, output


@pytest.mark.parametrize(
    ("way", "fate"),
    [
        ("by_ssh", "cut_off"),
        pytest.param("by_sockets", "freeze", marks=pytest.mark.nightly),
        pytest.param("by_ssh", "freeze", marks=pytest.mark.nightly),
        pytest.param("by_sockets", "cut_off", marks=pytest.mark.nightly),
    ],
)
def test_a_host_is_lost_in_the_middle(cluster: Cluster, project: Path, way: str, fate: str) -> None:
    os.mkfifo(project / "middle")
    start_workers: Callable[[int], list[str]] = getattr(cluster, way)
    session = started(
        cluster, project, start_workers(2), WAITS, "--ascend-timeout=6", "-k", "not places"
    )
    in_the_middle(session, project / "middle")
    getattr(cluster.hosts[1], fate)()
    output, _ = session.communicate(timeout=PATIENCE)
    assert session.returncode == pytest.ExitCode.TESTS_FAILED
    # Rank 3 may have arrived before. The reply does not reach it, and its worker is killed later.
    late = r"ranks? 2(, 3)? did not come within 12 s \(worker gw2 on card-b(, gw3 on card-b)?\)"
    assert re.search(f"test_middle aborted: {late}", output), output
    assert re.search(r"worker gw[23] on card-b is not replaced: its host does not answer", output)
    # Asking a frozen host takes up to 15 s, longer than the next gang waits.
    lost = rf"rank [23] was not run: its worker died before|{late.replace('2(, 3)?', '[23](, 3)?')}"
    assert re.search(f"test_later aborted: ({lost})", output), output
    assert "INTERNALERROR" not in output
