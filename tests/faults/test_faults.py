"""Damage: validation notices every kind, and each kind damages only its entry."""

from __future__ import annotations

import json
import shutil

import pytest

from pytest_ascendcache.caches import Entry, Snapshot
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.faults import DAMAGES
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.kernels import KernelOptions, build

STEMS = (f"te_abs_{'a' * 64}", f"te_abs_{'b' * 64}")


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Two valid entries."""
    directory = tmp_path_factory.mktemp("warm")
    tensor = TensorDesc.of("float16", 8)
    for stem in STEMS:
        kernel = build(
            OperatorSpec("Abs", (tensor,), (tensor,)), stem, KernelOptions(soc="Ascend910B1")
        )
        (directory / f"{stem}.o").write_bytes(kernel.object)
        metadata = {
            "binFileName": stem,
            "binFileSuffix": ".o",
            "kernelName": stem,
            "sha256": sha256(kernel.object),
        }
        (directory / f"{stem}.json").write_text(json.dumps(metadata))
    return directory


@pytest.fixture
def directory(warm, tmp_path):
    shutil.copytree(warm, tmp_path / "soc")
    return tmp_path / "soc"


def test_names_are_distinct():
    assert len({each.name for each in DAMAGES}) == len(DAMAGES) >= 20


def test_the_undamaged_entries_are_valid(directory):
    assert [Entry(stem, directory).problems() for stem in STEMS] == [[], []]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_noticed_and_touches_one_entry(damage, directory):
    before = Snapshot.take(directory)
    damage.apply(Entry(STEMS[0], directory))
    after = Snapshot.take(directory)
    assert not Entry(STEMS[0], directory).is_valid
    changes = before.changes(after)
    assert changes
    assert set(changes) <= {f"{STEMS[0]}.o", f"{STEMS[0]}.json"}
    assert Entry(STEMS[1], directory).is_valid


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_the_same_every_time(damage, warm, tmp_path):
    contents = []
    for name in ("first", "second"):
        copy = tmp_path / name
        shutil.copytree(warm, copy)
        damage.apply(Entry(STEMS[0], copy))
        states = Snapshot.take(copy).files
        contents.append({name: (s.kind, s.sha256, s.target) for name, s in states.items()})
    assert contents[0] == contents[1]
