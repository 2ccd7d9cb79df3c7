"""Tests whether a cache is still usable: one compile alone, and a second that should reuse."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.caches import (
    CacheLayout,
    Entry,
    Snapshot,
    find_canaries,
    plant_canary,
    read_entries,
)
from pytest_ascendcache.observation import NotDecidable, Run
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.toolchains import CompileRequest, CompileResult


def served_later(
    toolchain: Gate, request: CompileRequest, output: Path
) -> tuple[CompileResult, tuple[bool, ...]]:
    """Compile, mark every valid entry, compile again into ``output``, and remove the markers.

    Returns the first result, and for each operator whether the second compile reused its entry.
    """
    first = toolchain.compiled([request])[0].result
    if not first.succeeded:
        return first, (False,) * len(request.operators)
    assert request.cache_dir is not None
    with ExitStack() as restoring:
        for entry in read_entries(CacheLayout(request.cache_dir).soc(toolchain.soc)).values():
            if entry.is_valid:
                restoring.callback(_put_back, entry, _contents(entry))
                plant_canary(entry)
        second = toolchain.compiled([replace(request, output=output)])[0].result
    return first, tuple(bool(find_canaries(each or b"")) for each in kernels_of(second))


def kernels_of(result: CompileResult) -> list[bytes | None]:
    """Each kernel that a compile delivered, None for one that is missing."""
    operators = result.request.operators
    run = Run(result, operators, Snapshot({}), Snapshot({}), None, {}, "")
    kernels: list[bytes | None] = []
    for operator in operators:
        try:
            kernels.append(run.kernel(operator))
        except (NotDecidable, OSError):
            kernels.append(None)
    return kernels


def _contents(entry: Entry) -> dict[Path, tuple[bytes, int, int]]:
    files = {}
    for path in (entry.object_path, entry.metadata_path):
        state = path.stat()
        files[path] = path.read_bytes(), state.st_atime_ns, state.st_mtime_ns
    return files


def _put_back(entry: Entry, contents: dict[Path, tuple[bytes, int, int]]) -> None:
    """Restore an entry's files, unless a compile replaced or removed them."""
    now = Entry(entry.stem, entry.directory)
    if not find_canaries(now.object_bytes or b""):
        return
    for path, (data, accessed, modified) in contents.items():
        if path.exists():
            path.write_bytes(data)
            os.utime(path, ns=(accessed, modified))
