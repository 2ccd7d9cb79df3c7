"""Crash states: the files that an interruption can leave, computed from recorded operations."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import (
    Act,
    Action,
    CrashKind,
    Operation,
    TraceError,
    Tree,
    after_all,
    crash_states,
)
from pytest_ascendcache.faults.tree import Item
from pytest_ascendcache.observation.cache import CacheUnderTest
from pytest_ascendcache.observation.evidence import PositiveControl
from pytest_ascendcache.operators import OperatorSpec, TensorDesc

X = TensorDesc.of("float32", 4)
ADD = OperatorSpec("Add", (X, X), (X,), name="add")
KINDS = (CrashKind.KILLED, CrashKind.MID_WRITE, CrashKind.POWER_LOSS)
OBJECT = b"kernel" * 100
METADATA = json.dumps({"sha256": hashlib.sha256(OBJECT).hexdigest()}).encode()
EMPTY = Tree({"": Item()})


def steps(*triples):
    """Build operations from (act, path, data or target) triples."""
    made = []
    for number, (act, path, *rest) in enumerate(triples):
        extra = rest[0] if rest else b""
        data, target = (b"", extra) if isinstance(extra, str) else (extra, "")
        made.append(Operation(number, act.value, 0, act, path, data, 0, target))
    return made


def written(path, data, sync=True):
    end = [(Act.SYNC, path)] if sync else []
    return [(Act.CREATE, path), (Act.WRITE, path, data), *end]


def published(path, data, sync=True):
    return [*written(f"{path}.temp", data, sync), (Act.RENAME, f"{path}.temp", path)]


def renamed(sync):
    return [*published("k.o", OBJECT, sync), *published("k.json", METADATA, sync)]


WRITERS = {
    "in place": [*written("k.o", OBJECT), *written("k.json", METADATA)],
    "metadata first": [*published("k.json", METADATA), *published("k.o", OBJECT)],
    "atomic": renamed(sync=True),
    "atomic, not synced": renamed(sync=False),
}
"""The ways to write an entry that section 2 of ``feasibility`` in the facts describes."""


def is_broken(tree):
    """Whether a reader that trusts an entry once its metadata exists would get a bad object."""
    if "k.json" not in tree.items:
        return False
    try:
        digest = json.loads(tree.items["k.json"].data)["sha256"]
    except ValueError:
        return True
    return "k.o" not in tree.items or hashlib.sha256(tree.items["k.o"].data).hexdigest() != digest


@pytest.mark.parametrize(
    ("writer", "first"),
    [
        ("in place", CrashKind.KILLED),
        ("metadata first", CrashKind.KILLED),
        ("atomic, not synced", CrashKind.POWER_LOSS),
    ],
)
def test_the_simplest_interruption_that_breaks_a_writer(writer, first):
    broken = [
        kind
        for kind in KINDS
        if any(is_broken(each.tree) for each in crash_states(EMPTY, steps(*WRITERS[writer]), kind))
    ]
    assert broken[0] is first


def test_a_synced_and_renamed_entry_breaks_only_where_one_rename_is_lost():
    operations = steps(*WRITERS["atomic"])
    states = [each for kind in KINDS for each in crash_states(EMPTY, operations, kind)]
    assert [each.when for each in states if is_broken(each.tree)] == [
        "after operation 7 (rename of k.json.temp), operation 3 (rename of k.o.temp) undone"
    ]


def test_synced_names_survive_a_power_loss():
    operations = steps(*published("k.o", OBJECT), (Act.SYNC_DIRECTORY, ""))
    operations += steps(*published("k.json", METADATA))
    states = crash_states(EMPTY, operations, CrashKind.POWER_LOSS)
    assert not any(is_broken(each.tree) for each in states)


@pytest.mark.parametrize("writer", WRITERS)
def test_each_state_comes_once_and_from_the_simplest_kind(writer):
    operations = steps(*WRITERS[writer])
    contents = [
        each.tree.content for kind in KINDS for each in crash_states(EMPTY, operations, kind)
    ]
    assert len(contents) == len(set(contents))


def test_half_of_a_write_is_there():
    (state,) = crash_states(EMPTY, steps(*written("k.o", OBJECT)), CrashKind.MID_WRITE)
    assert state.tree.items["k.o"].data == OBJECT[: len(OBJECT) // 2]


def test_lost_data_is_gone_or_zero():
    operations = steps(*written("k.o", OBJECT, sync=False), (Act.RENAME, "k.o", "k"))
    states = crash_states(EMPTY, operations, CrashKind.POWER_LOSS)
    contents = {each.tree.items["k"].data for each in states if "k" in each.tree.items}
    assert contents == {b"", b"\0" * len(OBJECT)}


def test_synced_data_survives_what_is_written_after():
    operations = steps(*written("k.o", b"old!"))
    operations += [Operation(9, "write", 1, Act.WRITE, "k.o", b"new!", 4)]
    states = crash_states(EMPTY, operations, CrashKind.POWER_LOSS)
    assert {each.tree.items["k.o"].data for each in states if "k.o" in each.tree.items} == {
        b"\0\0\0\0",
        b"old!\0\0\0\0",
    }


def test_what_is_below_a_lost_directory_is_lost():
    operations = steps((Act.MAKE_DIRECTORY, "d"), *written("d/k.o", OBJECT))
    operations += steps((Act.SYNC_DIRECTORY, "d"))
    trees = [each.tree for each in crash_states(EMPTY, operations, CrashKind.POWER_LOSS)]
    assert trees
    assert all("d" in tree.items for tree in trees if "d/k.o" in tree.items)


def test_a_directory_moves_with_what_is_below():
    operations = steps((Act.MAKE_DIRECTORY, "a"), *written("a/k.o", OBJECT), (Act.RENAME, "a", "b"))
    assert set(after_all(EMPTY, operations).items) == {"", "b", "b/k.o"}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation(0, "", 0, Act.TRUNCATE, "f", b"", 2), b"ab"),
        (Operation(0, "", 0, Act.TRUNCATE, "f", b"", 6), b"abcd\0\0"),
        (Operation(0, "", 0, Act.WRITE, "f", b"X", 1), b"aXcd"),
        (Operation(0, "", 0, Act.WRITE, "f", b"X", 5), b"abcd\0X"),
        (Operation(0, "", 0, Act.WRITE, "f", b"X", -1), b"abcdX"),
        (Operation(0, "", 0, Act.CREATE, "f"), b"abcd"),
        (Operation(0, "", 0, Act.LINK, "f", b"", 0, "g"), b"abcd"),
        (Operation(0, "", 0, Act.WRITE, "nowhere", b"X"), b"abcd"),
        (Operation(0, "", 0, Act.RENAME, "nowhere", target="f"), b"abcd"),
    ],
)
def test_what_an_operation_does(operation, expected):
    before = Tree({"": Item(), "f": Item(data=b"abcd")})
    after = after_all(before, [operation])
    assert after.items["f"].data == expected
    assert before.items["f"].data == b"abcd"


def test_a_tree_is_written_as_it_was_read(tmp_path):
    root = tmp_path / "root"
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "file").write_bytes(b"\0\xff")
    (root / "d" / "file").chmod(0o600)
    (root / "link").symlink_to("d/file")
    tree = Tree.read(root)
    tree.write(root)
    assert Tree.read(root) == tree
    Tree.read(tmp_path / "nothing").write(root)
    assert not root.exists()


def test_a_tree_of_anything_else_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TraceError, match="fifo"):
        Tree.read(tmp_path)


_TEMPORARY = re.compile(r"\.\d+\.[0-9a-f]{16}\.temp$")


def without_names_of_the_day(content):
    return frozenset((_TEMPORARY.sub("", name), data, link) for name, data, link in content)


@pytest.mark.parametrize("mode", [CacheMode.ENABLE, CacheMode.FORCE])
def test_rebuilt_states_are_those_of_real_kills(reference, tmp_path: Path, mode):
    cache = CacheUnderTest(reference, tmp_path, PositiveControl())
    if mode is CacheMode.FORCE:
        cache.marks = False
        cache.warm(ADD)
    compiling = cache.interruption(ADD, mode=mode)
    kinds = {Action.KILL: CrashKind.KILLED, Action.TEAR: CrashKind.MID_WRITE}
    rebuilt = {
        without_names_of_the_day(each.tree.content)
        for kind in kinds.values()
        for each in compiling.states(kind)
    }
    for action in kinds:
        for operation in compiling.operations:
            if operation.act is Act.WRITE or (action is Action.KILL and operation.act.changes):
                assert compiling.strike(action, operation).returncode == -9
                left = without_names_of_the_day(Tree.read(cache.root).content)
                assert left in rebuilt, f"{action.value} at {operation}"


def test_data_of_one_file_alone_is_lost():
    operations = steps(*WRITERS["atomic, not synced"])
    states = crash_states(EMPTY, operations, CrashKind.POWER_LOSS)
    kept = {
        (each.tree.items["k.o"].data, each.tree.items["k.json"].data)
        for each in states
        if {"k.o", "k.json"} <= set(each.tree.items)
    }
    assert {(b"", METADATA), (OBJECT, b"")} <= kept
