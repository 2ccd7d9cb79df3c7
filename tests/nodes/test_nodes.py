"""Nodes as mounts: each profile has its effect, controls can fail, and no mount remains."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.nodes import (
    NodeProfile,
    NotShown,
    Unavailable,
    given_nodes,
    mounted_nodes,
    profiles,
)
from pytest_ascendcache.nodes.control import show
from pytest_ascendcache.nodes.mount import Mount
from pytest_ascendcache.processes.hosts import another_host, hosts_work

PATIENCE = 60.0


def _nothing() -> None:
    """Do nothing, in place of a remount that would drop the kernel's caches."""


@pytest.mark.parametrize("profile", profiles(), ids=lambda each: each.value)
def test_a_profile_shows_its_effect_and_leaves_nothing(
    profile: NodeProfile, tmp_path: Path
) -> None:
    try:
        nodes = mounted_nodes(profile, 2, tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        backing, views = nodes.directory()
        (views[0] / "made").write_text("here")
        nodes.later()
        assert [(view / "made").read_text() for view in views] == ["here", "here"]
        assert (backing / "made").read_text() == "here"
    finally:
        nodes.close()
    assert not any(os.path.ismount(each) for each in tmp_path.iterdir())
    assert sorted(each.name for each in nodes.backing.iterdir()) == [backing.name]


@pytest.mark.parametrize(
    "profile",
    [
        NodeProfile.NFS_DEFAULT,
        NodeProfile.NFS_NOLOCK,
        NodeProfile.NO_LOCKS,
        NodeProfile.STALE_HANDLES,
        NodeProfile.NO_HARDLINKS,
    ],
    ids=lambda each: each.value,
)
def test_a_plain_directory_does_not_pass_for_a_node(profile: NodeProfile, tmp_path: Path) -> None:
    with pytest.raises(NotShown):
        show(profile, [tmp_path, tmp_path], _nothing)
    assert list(tmp_path.iterdir()) == []


def test_two_directories_do_not_pass_for_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(NotShown, match="is not the same directory as"):
        show(NodeProfile.ONE_MOUNT, [tmp_path / "a", tmp_path / "b"], _nothing)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "b"]


def test_real_nodes_keep_to_a_directory_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(tmp_path / "export")
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "theirs").write_text("stays")
    nodes = given_nodes([tmp_path / "a", tmp_path / "b"])
    backing, views = nodes.directory()
    (views[1] / "made").write_text("there")
    assert (backing / "made").read_text() == "there"
    nodes.close()
    assert [each.name for each in (tmp_path / "export").iterdir()] == ["theirs"]


def test_a_program_that_cannot_mount_is_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"bindfs|FUSE|root"):
        mounted_nodes(NodeProfile.ONE_MOUNT, 2, tmp_path)


_LACKING = """
from pytest_ascendcache.nodes import lacking
from pytest_ascendcache.qualification.runs import import_what_runs_import
import_what_runs_import()
print(lacking())
"""


def test_a_machine_without_libfuse_lacks_nodes_and_nothing_else() -> None:
    environment = {**os.environ, "FUSE_LIBRARY_PATH": "/nowhere/libfuse.so.2"}
    output = subprocess.run(
        [sys.executable, "-c", _LACKING],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search("libfuse2|bindfs|FUSE|root", output.stdout)


_MOUNTS = """
import sys, time
from pathlib import Path
from pytest_ascendcache.nodes import NodeProfile, Unavailable, mounted_nodes
try:
    nodes = mounted_nodes(NodeProfile.NFS_NOLOCK, 2, Path(sys.argv[1]))
except Unavailable as reason:
    print(reason, flush=True)
    sys.exit(0)
print("mounted", flush=True)
sys.stdin.read()
"""


def test_a_killed_run_leaves_no_mount_and_no_daemon(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _MOUNTS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        if (output := run.stdout.readline().strip()) != "mounted":
            pytest.skip(output)
        daemons = _mounting(tmp_path)
        assert len(daemons) == 2
        watched = [os.pidfd_open(each) for each in daemons]
        run.send_signal(signal.SIGKILL)
        for descriptor in watched:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            assert poll.poll(PATIENCE * 1000), "a daemon outlives the run that mounted"
            os.close(descriptor)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not any(each.name == "made" for each in tmp_path.rglob("*"))


def _mounting(directory: Path) -> list[int]:
    """Return the bindfs processes that mount something below a directory."""
    processes = []
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"bindfs") and str(directory).encode() in words[-2]:
            processes.append(int(each.name))
    return processes


def test_a_mount_can_be_made_anew(tmp_path: Path) -> None:
    for name in ("backing", "point", "control"):
        (tmp_path / name).mkdir()
    places = [tmp_path / name for name in ("backing", "point", "control")]
    try:
        mount = Mount(NodeProfile.NFS_NOLOCK, *places)
    except Unavailable as reason:
        pytest.skip(str(reason))
    early = mount.point / "early"
    assert not early.exists()
    (tmp_path / "backing" / "early").write_text("late")
    assert not early.exists()
    mount.again()
    assert early.read_text() == "late"
    mount.close()
    mount.close()


def test_hosts_have_equal_process_ids_and_other_names() -> None:
    if not hosts_work():
        pytest.skip("hosts with process ids of their own need root and the program unshare")
    command = another_host("elsewhere", 777, ["sh", "-c", "echo $$; cat /proc/sys/kernel/hostname"])
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert output == ["777", "elsewhere"]
    failed = another_host("elsewhere", 777, ["sh", "-c", "exit 3"])
    assert subprocess.run(failed, check=False).returncode == 3
