"""The positive controls: what checks may assume about a toolchain.

An unchanged canary must be served under enable. Otherwise a toolchain that never hits, or refuses
marked entries, would look correct. Every process that runs checks does this first, in as few runs
as possible: two, if the toolchain serves from a copied cache.
"""

from __future__ import annotations

import time
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.caches import GRAPH_CACHE, same_code
from pytest_ascendcache.contract import CacheMode, Delivered, Fate
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.files import copy_tree
from pytest_ascendcache.observation.cache import CacheUnderTest
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, PositiveControl
from pytest_ascendcache.observation.impostor import (
    NETWORK,
    OPERATOR,
    SLOPES,
    Impostor,
    Marks,
    OtherConstant,
)
from pytest_ascendcache.observation.network import NetworkUnderTest
from pytest_ascendcache.observation.probe_networks import Probe, probe_network
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.observation.watched_ranks import NetworkControl
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain, ToolchainError

CONTROL_RUNS = 2
"""Runs the control takes if the toolchain serves marked entries, also from a copy."""


def positive_control(
    toolchain: Toolchain, operator: OperatorSpec, sandbox: Path
) -> PositiveControl:
    """Compile, store, mark, compile again, and look for the marker."""
    began = time.monotonic()
    evidence = Evidence()
    evidence.serve_a_control()
    cache = CacheUnderTest(toolchain, sandbox, PositiveControl(), evidence)
    control = _control(cache, operator)
    empty = [each.detail for each in evidence.facts if each.observed == Delivery.NOTHING.value]
    if empty and len(empty) == evidence.compiles:
        control = replace(
            _without_marks(empty[0]), finds_kernels=_tells_too_little(cache, operator)
        )
    starts, own_ini = max(1, evidence.starts), _ini_with_limits(cache)
    return replace(control, own_ini=own_ini, seconds=(time.monotonic() - began) / starts)


def _ini_with_limits(cache: CacheUnderTest) -> bytes:
    """The ``op_cache.ini`` that a run made, if it has limits: document C prints one that has."""
    for path in cache.layout.ini_candidates:
        text = path.read_bytes() if path.is_file() else b""
        keys = [f"\n{each}".encode() for each in cache.edition.ini]
        if keys and all(each in text for each in keys):
            return text
    return b""


def _control(cache: CacheUnderTest, operator: OperatorSpec) -> PositiveControl:
    try:
        if cache.toolchain.birthmarks:
            return _with_birthmarks(cache, operator)
        return _with_canaries(cache, operator)
    except NotDecidable as error:
        reads = not _uses_what_we_cannot_read(cache, operator)
        stored = cache.elsewhere(cache.sandbox / "untouched").entries()
        reuses = bool(stored) or not reads
        return replace(_without_marks(str(error)), reads_entries=reads, reuses=reuses)
    except ToolchainError as error:
        return _without_the_cache(cache, operator, str(error))


def _tells_too_little(cache: CacheUnderTest, operator: OperatorSpec) -> bool:
    """Whether what is delivered for another operator brings less news than its kernel does, both
    packed. Then no kernel is in it, in whatever form."""
    plain = cache.elsewhere(cache.sandbox / "plain")
    plain.marks = False
    other = replace(operator, type="Exp", inputs=operator.inputs[:1], name="control_exp")
    models: list[Path] = []
    objects: list[Path] = []
    for each in (operator, other):
        run = plain.attempt(each, mode=CacheMode.ENABLE)
        models += [path for path in run.result.delivered if path]
        stored = [entry.object_path for entry in plain.entries().values() if entry.is_valid]
        objects += [path for path in stored if path not in objects]
    return len(models) == len(objects) == 2 and _news(*models) < _news(*objects)


def _news(known: Path, path: Path) -> int:
    """The bytes that a file adds to another one, packed."""
    before, after = known.read_bytes(), path.read_bytes()
    return len(zlib.compress(before + after, 9)) - len(zlib.compress(before, 9))


def _uses_what_we_cannot_read(cache: CacheUnderTest, operator: OperatorSpec) -> bool:
    """Whether a second compile leaves everything that the first one stored as it is, unless that is
    nothing like objects and metadata, and delivers the same kernel. Then entries have a form of
    their own: a database, say, in which uses are written down."""
    plain = cache.elsewhere(cache.sandbox / "untouched")
    plain.marks = False
    first, second = (plain.attempt(operator, mode=CacheMode.ENABLE) for _ in range(2))
    if not (first.succeeded and second.succeeded):
        return False
    files = [(path, each) for path, each in first.after.files.items() if each.sha256]
    stored = sum(each.size for path, each in files if path.startswith(first.prefix))
    is_like = any(path.endswith((".o", ".json")) for path, _ in files)
    if is_like and second.before.disturbed(second.after):
        return False
    with suppress(NotDecidable):  # no kernel is found
        kernel = first.kernel(operator)
        holds = stored >= len(zlib.compress(kernel, 9)) // 2  # not only a version, say
        return holds and same_code(kernel, second.kernel(operator))
    return False


def _without_the_cache(cache: CacheUnderTest, operator: OperatorSpec, why: str) -> PositiveControl:
    """A toolchain that fails may work without the cache."""
    try:
        cache.compile(operator, mode=CacheMode.DISABLE)
    except ToolchainError as error:
        return PositiveControl(compiles=False, serves_marked=False, reason=str(error))
    return _without_marks(why)


def _with_canaries(cache: CacheUnderTest, operator: OperatorSpec) -> PositiveControl:
    """A copied cache must be served from; if it is not, try the original."""
    cache.warm(operator)
    copy = cache.moved(cache.sandbox / "another")
    copy_tree(cache.root, copy.root)
    if copy.compile(operator, mode=CacheMode.ENABLE).served_from(operator):
        return PositiveControl(relocates=True)
    run = cache.compile(operator, mode=CacheMode.ENABLE)
    if run.served_from(operator):
        return PositiveControl()
    fates, reuses = _saw(cache, run, operator)
    reason = f"an untouched canary under enable is not served: {fates}"
    return replace(_without_marks(reason), reuses=reuses)


def _saw(cache: CacheUnderTest, run: Run, operator: OperatorSpec) -> tuple[str, bool]:
    """What became of the marked entry and of one that was left as the toolchain wrote it, and
    whether that one may have been served."""
    fates = "the entry " + _FATES[run.fate(operator)]
    plain = cache.elsewhere(cache.sandbox / "plain")
    plain.marks = False
    plain.warm(operator)
    again = plain.compile(operator, mode=CacheMode.ENABLE)
    untouched = _FATES[again.fate(operator)]
    if again.fate(operator) is Fate.KEPT:
        return f"{fates}; an unmarked one {untouched}, so what was changed is refused", True
    opp = cache.toolchain.details.get("opp_path", "")
    hint = f" (operator package: {opp}; was its version.info found?)" if opp else ""
    return (
        f"{fates}; an unmarked one {untouched} too, so the cache is purged at every run{hint}",
        False,
    )


_FATES = {
    Fate.KEPT: "was left unchanged",
    Fate.REWRITTEN: "was replaced",
    Fate.REMOVED: "was removed",
    Fate.STORED: "was stored again",
    Fate.ABSENT: "is absent",
}


def _with_birthmarks(cache: CacheUnderTest, operator: OperatorSpec) -> PositiveControl:
    """Two compiles without a cache must differ; with a cache, the second must be a reuse."""
    modes = (CacheMode.DISABLE, CacheMode.ENABLE, CacheMode.ENABLE)
    runs = [cache.compile(operator, mode=mode) for mode in modes]
    delivered = [run.delivered(operator) for run in runs]
    if delivered != [Delivered.COMPILED, Delivered.COMPILED, Delivered.REUSED]:
        shown = ", ".join(each.value for each in delivered)
        reuses = delivered[-1] is Delivered.REUSED
        return replace(_without_marks(f"under disable, enable, enable: {shown}"), reuses=reuses)
    return PositiveControl(serves_marked=False)


def _without_marks(reason: str) -> PositiveControl:
    return PositiveControl(serves_marked=False, reason=reason)


def network_control(toolchain: Toolchain, sandbox: Path, shelf: Path) -> NetworkControl:
    """Replace a kernel, and see whether the replacement runs. ``shelf`` is an empty directory that
    outlives the control. Raises ``ToolchainError`` if not even a network of one operator runs."""
    marks, reason = _network_marks(toolchain, sandbox)
    if reason:
        return NetworkControl(marks, serves_marked=False, reason=reason)
    probe = Probe("LeakyRelu", attributes=(("negative_slope", "float", SLOPES[0]),))
    network = probe_network(probe)
    networks = NetworkUnderTest(toolchain, sandbox / "control", NetworkControl(marks))
    networks.run(network)
    networks.mark()
    run = networks.run(network)
    if run.wrong or run.reused != {probe.node_name}:
        reason = "a kernel that was changed on disk, digest included, is not run"
        plain = NetworkUnderTest(toolchain, sandbox / "plain", NetworkControl(marks))
        plain.run(network)
        reuses = not plain.run(network).kernels_written
        if not reuses:
            reason += "; one that was left alone is compiled again too"
        return NetworkControl(marks, serves_marked=False, reuses=reuses, reason=reason)
    copied = NetworkUnderTest(toolchain, sandbox / "copy", NetworkControl(marks))
    copy_tree(networks.cache, copied.cache)
    copied.adopt()
    run = copied.run(network)
    relocates = not run.wrong and run.reused == {probe.node_name}
    return NetworkControl(marks, shelf=shelf if relocates else None)


def _network_marks(toolchain: Toolchain, sandbox: Path) -> tuple[Marks, str]:
    """The markers for this toolchain's kernels, or why there are none."""
    if getattr(toolchain, "network_layout", None) is GRAPH_CACHE:
        return OtherConstant(), ""
    nothing = Impostor(b"", "")
    networks = NetworkUnderTest(toolchain, sandbox / "impostor", NetworkControl(nothing))
    networks.run(NETWORK)
    kernels = [kernel for kernel in networks.kernels().values() if kernel.is_valid]
    if len(kernels) > 1:  # a compiler may add operators of its own
        kernels = [kernel for kernel in kernels if kernel.is_of(OPERATOR.type)]
    if len(kernels) != 1 or kernels[0].object_bytes is None:
        return nothing, f"a network of one operator left {len(kernels)} whole kernels"
    return Impostor(kernels[0].object_bytes, kernels[0].metadata["kernelName"]), ""
