"""What showed in none of the suite's rooms when it was first tried."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.fs import Act, Fs
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugRequest
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.incremental.rendezvous import (
    Guest,
    Host,
    Meeting,
    RendezvousPolicy,
)
from pytest_ascendcache.reference.incremental.store import ReusePolicy, kernel_name
from pytest_ascendcache.reference.incremental.surroundings import Gang
from pytest_ascendcache.reference.meeting import Line, Message
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import CARRIED, Package
from pytest_ascendcache.reference.static_kernel.compilation import StaticKernelPolicy
from pytest_ascendcache.reference.static_kernel.index import Index
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

WAITS = "ranks/partial-deletion"
NUMBER = "ranks/bad-rank-id"
ONE_EACH = "static-kernel/one-binary-per-shape"
UNION = "static-kernel/install-idempotent"
POWER = "robust/power-loss"
VERIFIED = "security/verify-before-load"
DEBUG = "debug/results-not-cached"
LISTED = "debug/list-bypasses-listed"
POWER_LOSS = CrashKind.POWER_LOSS.value


@defect(WAITS, what="a rank's patience is counted from the start of its process", found_later=True)
class PatienceFromTheStart(RendezvousPolicy):
    def __init__(self) -> None:
        self._begun = time.monotonic()

    def patience(self, gang: Gang) -> float:
        return super().patience(gang) - (time.monotonic() - self._begun)


class _PatientHost(Host):
    def _arrive(self, descriptor: int, message: Message) -> None:
        super()._arrive(descriptor, message)
        self._deadline = None


class _PatientGuest(Guest):
    _until = 0.0

    def _heard(self, line: Line, deadline: float) -> bool:
        before = self._missing
        gone_on = super()._heard(line, max(deadline, self._until))
        if self._missing != before:
            self._until = time.monotonic() + self._policy.patience(self._gang)
        return gone_on


@defect(WAITS, what="each arrival renews the patience of those who wait", found_later=True)
def arrivals_renew_patience() -> Policies:
    class Wrong(RendezvousPolicy):
        def open(self, gang: Gang) -> Meeting:
            meeting = super().open(gang)
            if isinstance(meeting, Host):
                meeting.__class__ = _PatientHost
            elif isinstance(meeting, Guest):
                meeting.__class__ = _PatientGuest
            return meeting

    return Policies(incremental=IncrementalPolicies(rendezvous=Wrong()))


class _Counting(Host):
    def _arrive(self, descriptor: int, message: Message) -> None:
        rank = message.get("rank")
        if not {"late", "failed"} & set(message) and rank not in self._missing and self._missing:
            message = {**message, "rank": min(self._missing)}
        super()._arrive(descriptor, message)


@defect(NUMBER, what="rank 0 counts arrivals and not different ranks", found_later=True)
def arrivals_are_counted() -> Policies:
    class Wrong(RendezvousPolicy):
        def open(self, gang: Gang) -> Meeting:
            meeting = super().open(gang)
            if isinstance(meeting, Host):
                meeting.__class__ = _Counting
            return meeting

    return Policies(incremental=IncrementalPolicies(rendezvous=Wrong()))


@defect(VERIFIED, overrides=ReusePolicy.verified, found_later=True)
def rank_loads_before_it_verifies(self, right, fs, entry, operator):
    """A rank loads an object before it looks at its digest."""
    from pytest_ascendcache.reference.kernels.errors import KernelError
    from pytest_ascendcache.reference.kernels.execute import LoadedKernel

    with contextlib.suppress(OSError, KernelError, RuntimeError):
        LoadedKernel(entry.object.read_bytes(), kernel_name(entry.stem))
    return right(fs, entry, operator)


@defect(DEBUG, overrides=KeyPolicy.stem, found_later=True)
def twins_share_a_kernel(self, right, inputs):
    """Of two equal nodes of a run the one that is not listed gets the debug kernel."""
    return right(replace(inputs, debug=DebugRequest()))


@defect(ONE_EACH, overrides=StaticKernelPolicy.files, found_later=True)
def same_file_names_are_one(self, right, directory):
    """Of files with one name in several folders one is compiled."""
    return list({path.name: path for path in reversed(right(directory))}.values())


@defect(ONE_EACH, overrides=StaticKernelPolicy.key, found_later=True)
def flags_are_not_in_the_job_key(self, right, info):
    """Operators that differ in a flag are compiled once."""
    kept = tuple(each for each in info.attributes if each.type != "bool")
    return right(replace(info, attributes=kept))


@defect(UNION, what="every chip's index has the packages of all chips", found_later=True)
class IndexesOfAllChips(RegistryPolicy):
    def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
        super().write_indexes(fs, ai_core, names)
        found = [self.parts(fs, ai_core / name) for name in names]
        every = [index for parts in found for index in parts.values()]
        for directory in sorted(set().union(*found)):
            self.write_index(fs, ai_core / "config" / directory, every)
        return False


@defect(UNION, what="the values of the package that comes last are looked at", found_later=True)
class ValuesOfTheLastPackage(RegistryPolicy):
    def write_index(self, fs: Fs, directory: Path, indexes: Sequence[Index]) -> bool:
        seen: set[str] = set()
        changed: list[Index] = []
        for index in reversed(indexes):
            changed.insert(
                0,
                {
                    kind: {**listed, "valueDependIndex": []} if kind in seen else listed
                    for kind, listed in index.items()
                },
            )
            seen |= set(index)
        return super().write_index(fs, directory, changed)


@defect(UNION, overrides=PackagePolicy.uninstall_script, found_later=True)
def uninstall_script_without_quotes(self, right, installer, path):
    """An installed uninstall.sh does not quote the directory it is in."""
    return right(installer, path).replace(
        f'"$directory/{CARRIED}"'.encode(), f"$directory/{CARRIED}".encode()
    )


def _written(fs: Fs, point: str, path: Path, data: bytes, mode: int | None, said: bool) -> None:
    """Write a new file that is not synced; ``said``: as if it were."""
    fs.step(f"{point}.create", Act.CREATE, path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, fs.file_mode if mode is None else mode), "wb") as file:
        fs.step(f"{point}.write", Act.WRITE, path, data)
        file.write(data)
        if said:
            fs.step(f"{point}.fsync", Act.SYNC, path)


class _UnsyncedPackages(Fs):
    def write_new(self, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        if not point.startswith("install."):
            return super().write_new(point, path, data, mode)
        return _written(self, point, path, data, mode, said=False)


class _TakenForWhole(RegistryPolicy):
    def is_installed(self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]) -> bool:
        return package.manifest.name in names


@defect(
    POWER,
    what="files of installed packages are not synced, and what has their name is taken for whole",
    crash=POWER_LOSS,
    found_later=True,
)
def packages_are_not_synced() -> Policies:
    return having(_UnsyncedPackages(), _TakenForWhole())


@defect(POWER, what="a sync of a file is announced and not done", found_later=True)
class SyncsAreOnlyAnnounced(Fs):
    def write_new(self, point: str, path: Path, data: bytes, mode: int | None = None) -> None:
        _written(self, point, path, data, mode, said=True)


@defect(UNION, overrides=PackagePolicy.content, found_later=True)
def package_does_not_quote_its_path(self, right, *given):
    """A package that lies below a directory with a blank finds itself damaged."""
    body = right(*given).split(b"\n", 2)[2].replace(b'"$file" | sha', b"$file | sha", 1)
    digest = hashlib.sha256(body).hexdigest()
    return f"#!/bin/sh\nif sha256={digest}; then\n".encode() + body


@defect(LISTED, what="a listed operator is served if its twin was looked up", found_later=True)
def twins_are_looked_up_once() -> Policies:
    looked_up: list[str] = []

    class Key(KeyPolicy):
        def stem(self, inputs: KeyInputs) -> str:
            self.last = super().stem(inputs)
            return self.last

    key = Key()

    class Mode(ModePolicy):
        def use(self, mode: str, debug: DebugRequest) -> CacheUse:
            use = super().use(mode, debug)
            if use.lookup:
                looked_up.append(key.last)
            return replace(use, lookup=key.last in looked_up)

    return having(key, Mode())


@defect("cache-mode/force-purges-soc", overrides=PurgePolicy.remove, found_later=True)
def purge_stops_at_a_directory(self, right, fs, entry):
    """A directory that is not empty keeps force from purging what comes after it."""
    if not entry.is_dir(follow_symlinks=False):
        return right(fs, entry)
    return fs.remove_directory("purge.rmdir", Path(entry.path))
