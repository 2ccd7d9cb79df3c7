"""MindSpore's operator cache: ``.info``, damage to each of a kernel's files, and kills."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import AkgKernel, segments_of
from pytest_ascendcache.caches.akg_kernel import SUFFIXES
from pytest_ascendcache.caches.entry import rewrite, sha256
from pytest_ascendcache.conformance.kit.mindspore_stories import (
    ANY_FILE,
    KERNELS,
    LEAKY,
    ONE,
    held_linker,
    recovers,
    run_once,
)
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.faults import CrashKind, Tree
from pytest_ascendcache.observation import NetworkUnderTest, NotDecidable, probe_network

FIRST = LEAKY[0].node_name


def _only(network: NetworkUnderTest) -> AkgKernel:
    (kernel,) = network.kernels().values()
    assert isinstance(kernel, AkgKernel)
    return kernel


@rule("incremental/on-by-default")
def test_a_run_leaves_four_files_a_kernel(network: NetworkUnderTest) -> None:
    run_once(network, probe_network(*KERNELS))
    problems = {stem: kernel.problems() for stem, kernel in network.kernels().items()}
    assert len(problems) == len(KERNELS)
    assert problems == {stem: [] for stem in problems}


@rule("incremental/info-describes")
def test_info_holds_operators_shapes_types_and_constants(network: NetworkUnderTest) -> None:
    network.run(ONE)
    info = json.dumps(_only(network).info).replace(" ", "")
    wanted = ["float32", "[1,2,4,4]", str(LEAKY[0].attributes[0][2])]
    assert [each for each in wanted if each not in info] == []


_INFOS: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "empty": lambda path: rewrite(path, b""),
    "of-another-constant": lambda path: rewrite(
        path, path.read_bytes().replace(b"0.28125", b"0.78125")
    ),
    "of-another-shape": lambda path: rewrite(
        path, path.read_bytes().replace(b"[1,2,4,4]", b"[1,2,8,8]")
    ),
}


@rule("incremental/info-describes")
@pytest.mark.parametrize("how", _INFOS)
def test_an_info_that_describes_something_else_is_not_reused(
    network: NetworkUnderTest, how: str
) -> None:
    network.warm(ONE)
    path = _only(network).path(".info")
    before = path.read_bytes()
    _INFOS[how](path)
    if path.exists() and path.read_bytes() == before:
        raise NotDecidable(".info has nothing that could be changed")
    run = run_once(network, ONE)
    assert run.compiled == {FIRST}, "the kernel was reused"


def _fields(**changes: Any) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        fields = {**json.loads(path.read_bytes()), **changes}
        kept = {key: value for key, value in fields.items() if value is not None}
        rewrite(path, json.dumps(kept).encode())

    return apply


METADATA: dict[str, Callable[[Path], None]] = {
    "not-json": lambda path: rewrite(path, b"\x7fELF\0\1\2"),
    "null": lambda path: rewrite(path, b"null"),
    "an-array": lambda path: rewrite(path, b"[" + path.read_bytes() + b"]"),
    "digest-wrong": _fields(sha256="0" * 64),
    "digest-missing": _fields(sha256=None),
    "digest-a-number": _fields(sha256=5),
    "name-missing": _fields(kernelName=None),
    "name-of-another": _fields(kernelName="another_kernel"),
}


def _cut_and_vouched_for(path: Path) -> None:
    """Cut a library in half and put its new digest into the metadata, as after a full disk."""
    rewrite(path, path.read_bytes()[: path.stat().st_size // 2])
    _fields(sha256=sha256(path.read_bytes()))(path.with_suffix(".json"))


DAMAGED = [
    *((suffix, name, damage) for suffix in SUFFIXES for name, damage in ANY_FILE.items()),
    *((".json", name, damage) for name, damage in METADATA.items()),
    (".so", "cut-and-vouched-for", _cut_and_vouched_for),
]


@rule("robust/heals-damaged-entry")
@pytest.mark.parametrize(
    ("suffix", "name", "damage"), DAMAGED, ids=[f"{each[0][1:]}-{each[1]}" for each in DAMAGED]
)
def test_a_damaged_file_heals(
    network: NetworkUnderTest, suffix: str, name: str, damage: Callable[[Path], None]
) -> None:
    network.warm(ONE)
    damage(_only(network).path(suffix))
    recovers(network, ONE, f"{suffix} {name}", between=True)


@rule("security/verify-before-load")
@pytest.mark.parametrize("how", ["library-of-another", "library-behind-a-link"])
def test_a_library_with_a_wrong_digest_is_not_run(network: NetworkUnderTest, how: str) -> None:
    network.run(ONE)
    kernel = _only(network)
    metadata = kernel.metadata_path.read_bytes()
    network.mark()
    rewrite(kernel.metadata_path, metadata)
    if how == "library-behind-a-link":
        kernel.object_path.rename(network.site / "elsewhere.so")
        kernel.object_path.symlink_to(network.site / "elsewhere.so")
    run = run_once(network, ONE)
    assert run.reused == frozenset(), "a library with another digest was run"


@rule("robust/interrupted-compile")
@pytest.mark.parametrize("half", ["empty", "cut-in-half"])
@pytest.mark.parametrize("number", range(len(SUFFIXES)), ids=SUFFIXES)
def test_a_build_killed_in_a_write_is_made_good(
    network: NetworkUnderTest, number: int, half: str
) -> None:
    """The files after the one that is incomplete are missing. The states are made from whole files,
    if the files at the linker show this order."""
    network.evidence.crash = CrashKind.MID_WRITE.value
    written = _killed_at_the_linker(network, late=True)
    if written != set(SUFFIXES[:3]):
        raise NotDecidable(f"a build that is killed at its linker leaves {sorted(written)}")
    network.cache = network.site / "whole"
    network.run(ONE)
    kernel = _only(network)
    ANY_FILE[half](kernel.path(SUFFIXES[number]))
    for suffix in SUFFIXES[number + 1 :]:
        kernel.path(suffix).unlink()
    recovers(network, ONE, f"killed in the write of {SUFFIXES[number]}")


@rule("robust/interrupted-compile")
@pytest.mark.parametrize("late", [False, True], ids=["before-the-library", "before-the-metadata"])
def test_a_build_that_is_really_killed_is_made_good(network: NetworkUnderTest, late: bool) -> None:
    network.evidence.crash = CrashKind.KILLED.value
    written = _killed_at_the_linker(network, late)
    recovers(network, ONE, "killed at the linker")
    assert segments_of(network.cache) == [], "shared memory of the killed build is left behind"
    if written != set(SUFFIXES[: 3 if late else 2]):
        raise NotDecidable(f"a build that is killed at its linker leaves {sorted(written)}")


def _killed_at_the_linker(network: NetworkUnderTest, late: bool) -> set[str]:
    """Kill a build before its linker (``late``: after it). Returns the suffixes it has written."""
    with held_linker(network, late) as held, network.watch() as watch:
        builder = watch.start(network.request(ONE, environment=held.environment))
        held.stands()
        written = {path.suffix for path in _files(network)}
        builder.kill()
        watch.wait(builder)
    return written


def _files(network: NetworkUnderTest) -> list[Path]:
    names = Tree.read(network.cache).items
    return [Path(name) for name in names if network.layout.unit.holds(Path(name))]
