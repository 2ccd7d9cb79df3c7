"""Faults through strace: reading its logs, and killing real processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_ascendcache.faults import Act, Action, CrashKind, Strace, TraceError, find_strace
from pytest_ascendcache.faults.strace import _works
from pytest_ascendcache.faults.syscalls import operations, read_calls
from pytest_ascendcache.faults.tree import Replay, Tree
from pytest_ascendcache.observation import Interruption, NotDecidable
from pytest_ascendcache.processes.launch import Command, ProcessLauncher, ToolchainError

STRACE = find_strace()
traced = pytest.mark.skipif(STRACE is None, reason="no strace, or ptrace is refused here")


def hexed(text):
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def log_of(tmp_path, *lines):
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines))
    return log


def test_a_log_becomes_operations(tmp_path):
    here, temporary = hexed("/c"), hexed("/c/.k.temp")
    log = log_of(
        tmp_path,
        f'10 openat(AT_FDCWD<{here}>, "{hexed("/etc/x")}", O_RDONLY) = -1 ENOENT (No such file)',
        f'10 openat(AT_FDCWD<{here}>, "{hexed(".k.temp")}", O_WRONLY|O_CREAT|O_EXCL, 0640) '
        f"= 3<{temporary}>",
        f'10 write(3<{temporary}>, "{hexed("hel")}" <unfinished ...>',
        f"11 fsync(4<{hexed('/elsewhere')}>) = 0",
        "10 <... write resumed>, 3) = 3",
        f'10 write(3<{temporary}>, "{hexed("lo!!")}", 4) = 2',
        f"10 fsync(3<{temporary}>) = 0",
        f'10 rename("{temporary}", "{hexed("/c/k")}") = 0',
        f'10 unlinkat(AT_FDCWD<{here}>, "{hexed("d")}", AT_REMOVEDIR) = 0',
        f"10 flock(3<{temporary}>, LOCK_EX|LOCK_NB) = 0",
        "10 +++ exited with 0 +++",
    )
    recorded = list(operations(read_calls(log), Path("/c")))
    assert [(each.act, each.path, each.data, each.offset, each.target) for each in recorded] == [
        (Act.CREATE, ".k.temp", b"", 0, ""),
        (Act.WRITE, ".k.temp", b"hel", 0, ""),
        (Act.WRITE, ".k.temp", b"lo", 3, ""),
        (Act.SYNC, ".k.temp", b"", 0, ""),
        (Act.RENAME, ".k.temp", b"", 0, "k"),
        (Act.REMOVE_DIRECTORY, "d", b"", 0, ""),
        (Act.LOCK, ".k.temp", b"", 0, ""),
    ]
    # Failed calls and calls outside the directory count too, because strace counts them.
    assert [(each.point, each.nth) for each in recorded[:3]] == [
        ("openat", 1),
        ("write", 0),
        ("write", 1),
    ]


def test_two_directories_change_places(tmp_path):
    here = hexed("/c")
    names = f'AT_FDCWD<{here}>, "{hexed("a")}", AT_FDCWD<{here}>, "{hexed("b")}"'
    log = log_of(tmp_path, f"10 renameat2({names}, RENAME_EXCHANGE) = 0")
    full, empty = tmp_path / "c/a", tmp_path / "c/b"
    full.mkdir(parents=True)
    empty.mkdir()
    (full / "k").write_text("kernel")
    before = Tree.read(tmp_path / "c")
    replay = Replay(before)
    (exchange,) = operations(read_calls(log), Path("/c"))
    replay.do(exchange)
    assert sorted(replay.tree().items) == ["", "a", "b", "b/k"]
    assert sorted(replay.without(replay.changes).items) == ["", "a", "a/k", "b"]


def test_a_lock_that_is_a_symbolic_link_is_followed(tmp_path):
    here, owner = hexed("/c"), hexed("host:17")
    log = log_of(
        tmp_path,
        f'10 symlink("{owner}", "{hexed("/c/one")}") = 0',
        f'10 symlinkat("{owner}", AT_FDCWD<{here}>, "{hexed("other")}") = 0',
        f'10 symlink("{owner}", "{hexed("/c/one")}") = -1 EEXIST (File exists)',
        f'10 unlink("{hexed("/c/one")}") = 0',
    )
    (tmp_path / "c").mkdir()
    replay = Replay(Tree.read(tmp_path / "c"))
    for each in operations(read_calls(log), Path("/c")):
        replay.do(each)
    assert {name: item.link for name, item in replay.tree().items.items()} == {
        "": None,
        "other": "host:17",
    }
    assert sorted(replay.without(replay.changes).items) == [""]


def test_a_file_without_a_name_is_seen_once_it_is_linked(tmp_path):
    """As O_TMPFILE makes it: a kill before that leaves nothing."""
    here, nameless = hexed("/c"), f"{hexed('/c/#77')}>(deleted)"
    log = log_of(
        tmp_path,
        f'10 openat(AT_FDCWD<{here}>, "{here}", O_RDWR|O_TMPFILE, 0640) = 3<{nameless}',
        f'10 write(3<{nameless}, "{hexed("kernel")}", 6) = 6',
        f"10 fsync(3<{nameless}) = 0",
        f'10 linkat(AT_FDCWD<{here}>, "{hexed("/proc/self/fd/3")}", AT_FDCWD<{here}>, '
        f'"{hexed("k")}", AT_SYMLINK_FOLLOW) = 0',
        f'10 linkat(3<{nameless}, "", AT_FDCWD<{here}>, "{hexed("m")}", AT_EMPTY_PATH) = 0',
    )
    (tmp_path / "c").mkdir()
    replay = Replay(Tree.read(tmp_path / "c"))
    seen = []
    for each in operations(read_calls(log), Path("/c")):
        replay.do(each)
        seen.append(sorted(replay.tree().items))
    assert seen == [[""]] * 3 + [["", "k"], ["", "k", "m"]]
    assert {item.data for name, item in replay.tree().items.items() if name} == {b"kernel"}
    assert sorted(replay.without(replay.changes).items) == [""]
    assert replay.unsynced == {}


def test_calls_the_tracer_interfered_with_are_told(tmp_path):
    log = log_of(
        tmp_path,
        f'9 mkdir("{hexed("/c")}", 0777) = -1 ENOSPC (No space left on device) (INJECTED)',
        f"9 fsync(3<{hexed('/c/k')}> <unfinished ...>",
        "9 +++ killed by SIGKILL +++",
        f'8 write(3<{hexed("/c/k")}>, "{hexed("a")}", 1) = ?',
    )
    calls = read_calls(log)
    assert [call.interfered for call in calls] == [True] * 3
    assert list(operations(calls, Path("/c"))) == []


def test_offsets_follow_seeks_and_appends(tmp_path):
    path = hexed("/c/k")
    log = log_of(
        tmp_path,
        f'1 openat(AT_FDCWD<{hexed("/")}>, "{path}", O_RDWR) = 3<{path}>',
        f"1 lseek(3<{path}>, 10, SEEK_SET) = 10",
        f'1 write(3<{path}>, "{hexed("ab")}", 2) = 2',
        f'1 pwrite64(3<{path}>, "{hexed("c")}", 1, 40) = 1',
        f'1 writev(3<{path}>, [{{iov_base="{hexed("d")}", iov_len=1}}, '
        f'{{iov_base="{hexed("ef")}", iov_len=2}}], 2) = 3',
        f'1 openat(AT_FDCWD<{hexed("/")}>, "{path}", O_WRONLY|O_APPEND) = 4<{path}>',
        f'1 write(4<{path}>, "{hexed("g")}", 1) = 1',
        f'2 write(1<{hexed("/elsewhere")}>, "{hexed("said")}", 4) = 4',
        f'2 write(1<{path}>, "{hexed("h")}", 1) = 1',  # a command that a shell started with >>
        f"1 ftruncate(4<{path}>, 5) = 0",
    )
    recorded = list(operations(read_calls(log), Path("/c")))
    assert [(each.data, each.offset) for each in recorded if each.act.changes] == [
        (b"ab", 10),
        (b"c", 40),
        (b"def", 12),
        (b"g", -1),
        (b"h", -1),
        (b"", 5),
    ]


def test_a_write_that_was_cut_off_in_the_log_is_refused(tmp_path):
    log = log_of(tmp_path, f'1 write(3<{hexed("/c/k")}>, "{hexed("ab")}"..., 20) = 20')
    with pytest.raises(TraceError, match="too long"):
        list(operations(read_calls(log), Path("/c")))


def test_a_log_that_is_missing_is_refused(tmp_path):
    with pytest.raises(TraceError, match="nothing"):
        read_calls(tmp_path / "nothing")


@pytest.mark.parametrize("program", ["/nonexistent", "/bin/true"])
def test_the_self_test_does_not_trust_any_program(program):
    assert not _works(program)


WRITER = """
import hashlib, json, os, sys
style, root = sys.argv[1:]
if style == "two-processes":
    for name in ("a", "b", "c"):
        child = os.fork()
        if not child:
            os.mkdir(os.path.join(root, name))
            os._exit(0)
        os.waitpid(child, 0)
    style = "in-place"
data = b"kernel" * 1000
text = json.dumps({"sha256": hashlib.sha256(data).hexdigest()}).encode()
def put(name, data):
    path = os.path.join(root, name)
    place = path if style == "in-place" else path + ".temp"
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    os.write(fd, data)
    if style != "unsynced":
        os.fsync(fd)
    os.close(fd)
    if place != path:
        os.rename(place, path)
try:
    with open(os.path.join(root, "k.json"), "rb") as file:
        digest = json.load(file)["sha256"]
    with open(os.path.join(root, "k.o"), "rb") as file:
        sys.exit(hashlib.sha256(file.read()).hexdigest() != digest)
except FileNotFoundError:
    files = [("k.o", data), ("k.json", text)]
    for name, content in reversed(files) if style == "metadata-first" else files:
        put(name, content)
"""


@dataclass(frozen=True)
class Ended:
    returncode: int


class Toy:
    """A program that is not a toolchain and does not know that it is traced."""

    def __init__(self, tmp_path, style):
        self.root = tmp_path / "root"
        self.root.mkdir()
        self.command = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", WRITER]
        self.command += [style, str(self.root)]
        programs = {"strace": (str(STRACE),), "toy": tuple(self.command)}
        self.launcher = ProcessLauncher(programs)
        self.route = Strace(self.launcher.argv)
        self.program = ""
        self.interruption = Interruption(self.root, tmp_path / "logs", self.route, self.start)

    def start(self, plan):
        program, arguments = self.route.command(plan, "toy", [])
        program = self.program or program
        running = self.launcher.start(Command(program, arguments, os.environ, self.root.parent))
        return Ended(running.wait(time.monotonic() + 60).returncode)

    def recovers(self):
        return subprocess.run(self.command, check=False, capture_output=True).returncode == 0

    def broken(self, kind):
        wrong = []
        for state in self.interruption.states(kind):
            self.interruption.enter(state)
            if not self.recovers():
                wrong.append(state)
        return wrong


@traced
@pytest.mark.parametrize(
    ("style", "first"),
    [
        ("in-place", CrashKind.KILLED),
        ("metadata-first", None),
        ("unsynced", CrashKind.POWER_LOSS),
    ],
)
def test_any_command_is_recorded_and_interrupted(tmp_path, style, first):
    toy = Toy(tmp_path, style)
    kinds = (CrashKind.KILLED, CrashKind.MID_WRITE, CrashKind.POWER_LOSS)
    broken = [kind for kind in kinds if toy.broken(kind)]
    assert broken[:1] == ([] if first is None else [first])


@traced
def test_a_command_is_really_killed(tmp_path):
    toy = Toy(tmp_path, "in-place")
    changing = [each for each in toy.interruption.operations if each.act.changes]
    left = set()
    for operation in changing:
        assert toy.interruption.strike(Action.KILL, operation).returncode != 0
        left.add(tuple((path.name, path.stat().st_size) for path in sorted(toy.root.iterdir())))
    assert left == {
        (),
        (("k.o", 0),),
        (("k.o", 6000),),
        (("k.json", 0), ("k.o", 6000)),
    }


@traced
def test_a_command_meets_a_file_system_that_may_only_be_read(tmp_path):
    toy = Toy(tmp_path, "in-place")
    if Action.EROFS not in toy.route.actions:
        pytest.skip("nothing can be mounted here")
    toy.interruption.reset()
    ended = toy.interruption.strike(Action.EROFS, toy.interruption.operations[0])
    assert (ended.returncode, list(toy.root.iterdir())) == (1, []), "also for root"
    assert toy.recovers(), "what ran beside it was not concerned"
    assert {each.name for each in toy.root.iterdir()} == {"k.o", "k.json"}


@traced
def test_a_file_system_that_could_not_be_mounted_is_undecided(tmp_path):
    toy = Toy(tmp_path, "in-place")
    toy.program = "toy"  # without a mount
    with pytest.raises(NotDecidable, match="could not be mounted read-only"):
        toy.interruption.strike(Action.EROFS, toy.interruption.operations[0])


@traced
def test_a_command_is_held_between_any_two_operations(tmp_path):
    toy = Toy(tmp_path, "in-place")
    toy.interruption.reset()
    seen = []
    for operation in toy.interruption.holdable:
        if not operation.act.changes:
            continue
        toy.interruption.reset()
        with toy.interruption.held(operation) as held:
            sizes = {path.name: path.stat().st_size for path in sorted(toy.root.iterdir())}
            seen.append((operation.act, sizes))
            held.release()
            assert held.result().returncode == 0
        assert toy.recovers()
    assert seen == [
        (Act.WRITE, {"k.o": 0}),
        (Act.CREATE, {"k.o": 6000}),
        (Act.WRITE, {"k.json": 0, "k.o": 6000}),
    ]


@traced
def test_a_command_that_was_held_stands_only_once(tmp_path):
    """strace counts each process's calls separately, so it stops both. Only the first is held."""
    toy = Toy(tmp_path, "two-processes")
    operations = toy.interruption.holdable
    second = next(each for each in operations if each.act is Act.MAKE_DIRECTORY)
    toy.interruption.reset()
    with toy.interruption.held(second) as held:
        assert held.stands
        assert [path.name for path in toy.root.iterdir()] == ["a"]
        held.release()
        assert held.result().returncode == 0
    assert {path.name for path in toy.root.iterdir()} == {"a", "b", "c", "k.o", "k.json"}


@traced
def test_a_held_command_dies_with_its_gate(tmp_path):
    toy = Toy(tmp_path, "in-place")
    write = next(each for each in toy.interruption.holdable if each.act is Act.WRITE)
    toy.interruption.reset()
    with toy.interruption.held(write) as held:
        assert held.stands
    assert held.result().returncode != 0
    toy.interruption.reset()
    with toy.interruption.held(write) as held:
        held.kill()
        assert held.result().returncode != 0


@traced
def test_a_command_that_cannot_be_started_says_so_at_once(tmp_path):
    toy = Toy(tmp_path, "in-place")
    write = next(each for each in toy.interruption.holdable if each.act is Act.WRITE)
    toy.program = str(tmp_path / "missing")
    began = time.monotonic()
    with pytest.raises(ToolchainError, match="/missing' cannot be started"):
        toy.interruption.held(write)
    assert time.monotonic() - began < 55, "it waited for what never comes"


@traced
def test_errors_are_injected(tmp_path):
    toy = Toy(tmp_path, "unsynced")
    renames = [each for each in toy.interruption.operations if each.act is Act.RENAME]
    assert toy.interruption.strike(Action.EIO, renames[-1]).returncode == 1
    assert sorted(path.name for path in toy.root.iterdir()) == ["k.json.temp", "k.o"]


@traced
def test_an_injection_that_does_not_strike_is_noticed(tmp_path):
    toy = Toy(tmp_path, "unsynced")
    rename = next(each for each in toy.interruption.operations if each.act is Act.RENAME)
    for wrong in (replace(rename, nth=7), replace(rename, path="elsewhere/k.o.temp")):
        with pytest.raises(NotDecidable, match="this run"):
            toy.interruption.strike(Action.KILL, wrong)


def test_the_toy_is_sound():
    digest = hashlib.sha256(b"kernel" * 1000).hexdigest()
    assert json.dumps({"sha256": digest})


@traced
def test_of_several_processes_the_one_that_was_meant_is_struck(tmp_path):
    """Each process makes one directory, so each call is the first of its process."""
    root = tmp_path / "root"
    root.mkdir()
    made = " ".join(f"mkdir {root}/{name};" for name in ("a", "b", "c"))
    launcher = ProcessLauncher({"sh": ("/bin/sh",), "strace": (str(STRACE),)})
    route = Strace(launcher.argv)

    def start(plan):
        program, arguments = route.command(plan, "sh", ["-c", made])
        running = launcher.start(Command(program, arguments, os.environ, tmp_path))
        return Ended(running.wait(time.monotonic() + 60).returncode)

    interruption = Interruption(root, tmp_path / "logs", route, start)
    for operation in interruption.operations:
        interruption.strike(Action.EIO, operation)
        assert {path.name for path in root.iterdir()} == {"a", "b", "c"} - {operation.path}


@traced
def test_an_operation_whose_number_differs_between_runs_is_struck(tmp_path):
    """As of a command that looks for a lock until it has it: on a busy machine more often."""
    root = tmp_path / "root"
    root.mkdir()
    launcher = ProcessLauncher({"sh": ("/bin/sh",), "strace": (str(STRACE),)})
    route, looks = Strace(launcher.argv), iter((5, 2, 2))

    def start(plan):
        made = f"mkdir {f'{root}/lock ' * next(looks)} {root}/entry; exit 0"
        program, arguments = route.command(plan, "sh", ["-c", made])
        running = launcher.start(Command(program, arguments, os.environ, tmp_path))
        return Ended(running.wait(time.monotonic() + 60).returncode)

    interruption = Interruption(root, tmp_path / "logs", route, start)
    interruption.strike(Action.EIO, interruption.operations[-1])
    assert {path.name for path in root.iterdir()} == {"lock"}
