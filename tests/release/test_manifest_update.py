"""Checks that update one golden manifest at the same time lose no update."""

from __future__ import annotations

import fcntl
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_ascendcache.release import manifest as module
from pytest_ascendcache.release.manifest import (
    KernelDigest,
    Manifest,
    read_manifest,
    update_manifest,
)

NOW = Manifest("atc", "8.0", "Ascend910B1", "options", {})
ONE, OTHER = KernelDigest("one", "1" * 64, 1), KernelDigest("other", "2" * 64, 2)


def test_an_update_waits_for_another_and_keeps_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, has_come, lock = tmp_path / "kernels.json", threading.Event(), fcntl.flock

    def second() -> None:
        monkeypatch.setattr(fcntl, "flock", lambda *given: (has_come.set(), lock(*given)))
        update_manifest(path, NOW, model={"te_add": OTHER})
        has_come.set()  # set it even if the update locked nothing

    write, threads = module.write_manifest, []

    def held(place: Path, manifest: Manifest) -> None:
        """Hold the first update between reading and writing until the second one waits or ends."""
        monkeypatch.setattr(module, "write_manifest", write)
        threads.append(threading.Thread(target=second))
        threads[0].start()
        assert has_come.wait(60)
        write(place, manifest)

    monkeypatch.setattr(module, "write_manifest", held)
    update_manifest(path, NOW, kernels={"Add-0": ONE})
    threads[0].join(60)
    assert read_manifest(path) == replace(NOW, kernels={"Add-0": ONE}, model={"te_add": OTHER})


def test_what_was_made_in_other_circumstances_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    update_manifest(path, NOW, kernels={"Add-0": ONE})
    later = replace(NOW, version="8.1")
    update_manifest(path, later, model={"te_add": OTHER})
    assert read_manifest(path) == replace(later, model={"te_add": OTHER})
