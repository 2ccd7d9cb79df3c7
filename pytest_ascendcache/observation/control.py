"""The positive control: what checks may take for granted of a toolchain.

An untouched canary under enable must be served. Without knowing that, "never hits" and
"refuses marked entries" look like correct answers. Every process that runs checks does it, so it
takes as few runs as it can: where a copy of the cache is served from, two.
"""

from __future__ import annotations

import resource
import shutil
import time
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.contract import CacheMode, Delivered, Fate
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, PositiveControl
from pytest_ascendcache.observation.recovery import CacheUnderTest
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

CONTROL_RUNS = 2
"""Runs that the control takes of a toolchain that serves marked entries, also from a copy."""


def positive_control(
    toolchain: Toolchain, operator: OperatorSpec, sandbox: Path
) -> PositiveControl:
    """Compile, store, mark, compile again, and look for the mark."""
    began, before = time.monotonic(), _used()
    evidence = Evidence()
    cache = CacheUnderTest(toolchain, sandbox, PositiveControl(), evidence)
    found = _control(cache, operator)
    starts = max(1, evidence.starts)
    seconds, used = time.monotonic() - began, _used() - before
    return replace(found, seconds=seconds / starts, used=used / starts)


def _used() -> float:
    """Seconds of processors that this process used, and those that it has waited for."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime + time.process_time()


def _control(cache: CacheUnderTest, operator: OperatorSpec) -> PositiveControl:
    try:
        if cache.toolchain.birthmarks:
            return _with_birthmarks(cache, operator)
        return _with_canaries(cache, operator)
    except NotDecidable as error:
        return _without_marks(str(error))
    except ToolchainError as error:
        return _without_the_cache(cache, operator, str(error))


def _without_the_cache(cache: CacheUnderTest, operator: OperatorSpec, why: str) -> PositiveControl:
    """A toolchain that fails may do so with the cache alone."""
    try:
        cache.compile(operator, mode=CacheMode.DISABLE)
    except ToolchainError as error:
        return PositiveControl(compiles=False, serves_marked=False, reason=str(error))
    return _without_marks(why)


def _with_canaries(cache: CacheUnderTest, operator: OperatorSpec) -> PositiveControl:
    """A copy of the cache has to be served from; where it is not, the cache itself."""
    cache.warm(operator)
    copy = cache.moved(cache.sandbox / "another")
    shutil.copytree(cache.root, copy.root, symlinks=True)
    if copy.compile(operator, mode=CacheMode.ENABLE).served_from(operator):
        return PositiveControl(relocates=True)
    run = cache.compile(operator, mode=CacheMode.ENABLE)
    if run.served_from(operator):
        return PositiveControl()
    told, reuses = _saw(cache, run, operator)
    reason = f"an untouched canary under enable is not served: {told}"
    return replace(_without_marks(reason), reuses=reuses)


def _saw(cache: CacheUnderTest, run: Run, operator: OperatorSpec) -> tuple[str, bool]:
    """What became of the marked entry and of one that was left as the toolchain wrote it, and
    whether that one may have been served."""
    told = "the entry " + _FATES[run.fate(operator)]
    plain = cache.elsewhere(cache.sandbox / "plain")
    plain.marks = False
    plain.warm(operator)
    again = plain.compile(operator, mode=CacheMode.ENABLE)
    untouched = _FATES[again.fate(operator)]
    if again.fate(operator) is Fate.KEPT:
        return f"{told}; an unmarked one {untouched}, so what was changed is refused", True
    opp = cache.toolchain.details.get("opp_path", "")
    hint = f" (operator package: {opp}; was its version.info found?)" if opp else ""
    return (
        f"{told}; an unmarked one {untouched} too, so the cache is purged at every run{hint}",
        False,
    )


_FATES = {
    Fate.KEPT: "was left as it was",
    Fate.REWRITTEN: "was replaced",
    Fate.REMOVED: "was removed",
    Fate.STORED: "was stored anew",
    Fate.ABSENT: "is absent",
}


def _with_birthmarks(cache: CacheUnderTest, operator: OperatorSpec) -> PositiveControl:
    """Two compiles without a cache have to differ, and of two with one the second is served."""
    modes = (CacheMode.DISABLE, CacheMode.ENABLE, CacheMode.ENABLE)
    runs = [cache.compile(operator, mode=mode) for mode in modes]
    found = [run.delivered(operator) for run in runs]
    if found != [Delivered.COMPILED, Delivered.COMPILED, Delivered.REUSED]:
        shown = ", ".join(each.value for each in found)
        reuses = found[-1] is Delivered.REUSED
        return replace(_without_marks(f"under disable, enable, enable: {shown}"), reuses=reuses)
    return PositiveControl(serves_marked=False)


def _without_marks(reason: str) -> PositiveControl:
    return PositiveControl(serves_marked=False, reason=reason)
