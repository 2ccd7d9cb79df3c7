"""Benchmarks of the suite. Each figure is a ratio, or a time next to that of plain work."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bench_atc import slow_atc
from bench_models import models
from bench_pages import pages
from bench_static_kernels import static_kernel_cards, static_kernels
from bench_timing import bare_compile, median, pytest, timed

from pytest_ascendcache.combinations import combinations_model, coverage, covering_array
from pytest_ascendcache.contract import CacheMode, Capability, CompileOptions
from pytest_ascendcache.faults import Action, CrashKind
from pytest_ascendcache.observation import CacheUnderTest, PositiveControl
from pytest_ascendcache.operators.network import read_network
from pytest_ascendcache.plugin.session import CONTROL_OPERATOR
from pytest_ascendcache.qualification.scenes.caches import cann_entry
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.ranks.local import run_gang
from pytest_ascendcache.ranks.pipes import PipeRendezvous
from pytest_ascendcache.reference.cache.entry import EntryFiles, LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.stress import Campaign, Kind, population
from pytest_ascendcache.toolchains import CompileRequest, Toolchain, TrainRequest

ITEMS = 2000

AUDITED = 1_000_000
"""Entries of the largest audited cache: about 9 GB of small files, which takes ten minutes."""


def suite(directory: Path) -> None:
    """Run the core of the suite and compare it with as many bare compiles."""
    compile_seconds = bare_compile(directory)
    report = directory / "report.json"
    options = ("--ascend-cache", f"--ascend-report={report}")
    for workers in ((), ("-n", "2")):
        wall = pytest(directory, *options, *workers, "--pyargs", "pytest_ascendcache.conformance")
        checks = json.loads(report.read_text())["checks"]
        starts = sum(check["evidence"]["starts"] for check in checks)
        how = "two workers" if workers else "one process"
        print(
            f"whole suite, {how}: {wall:.1f} s for {len(checks)} checks, {starts} compiler starts; "
            f"wall / (starts x bare forked compile of {compile_seconds * 1000:.1f} ms) = "
            f"{wall / (starts * compile_seconds):.2f}"
        )


_STOPWATCH = """
import time

def pytest_unconfigure():
    # The toolchain runs in other processes, so this is the suite alone.
    open("spent", "w").write(str(time.process_time()))
"""


def arrays() -> None:
    """Compare the sizes of covering arrays with their bound, and time their construction."""
    for strength in (2, 3):
        model = combinations_model(frozenset(Capability))
        bound = math.prod(sorted(len(factor.levels) for factor in model.factors)[-strength:])
        seconds, rows = timed(covering_array, model, strength)
        assert coverage(model, strength, rows).is_complete
        print(
            f"covering array, t={strength}: {len(rows)} rows, {len(rows) / bound:.2f} x the "
            f"product of the largest factors ({bound}), made in {seconds:.2f} s"
        )


def full_matrix(directory: Path) -> None:
    """Run a quarter of the full matrix, and measure the suite's own time per cell."""
    (directory / "stopwatch.py").write_text(_STOPWATCH)
    options = ["-p", "stopwatch", "-o", "pythonpath=.", "--ascend-cache", "--ascend-select=full"]
    options += ["--ascend-rule=combinations/outcome", "--ascend-rule=cache-mode/transparent"]
    options += ["-k", "cache_mode:enable"]
    pytest(directory, *options, "--collect-only")
    collection = float((directory / "spent").read_text())
    wall = pytest(directory, *options, "--ascend-report=full.json")
    harness = float((directory / "spent").read_text()) - collection
    checks = json.loads((directory / "full.json").read_text())["checks"]
    cells = len({json.dumps(check["evidence"]["factors"]) for check in checks})
    sizes = "x".join(
        str(len(factor.levels))
        for factor in combinations_model(frozenset(Capability), reduced=True).factors
    )
    print(
        f"full matrix ({sizes} levels), cells with enable: {cells} cells in {wall:.1f} s, "
        f"{cells / wall:.0f} a second in one process; processor time of the harness: "
        f"{harness / cells * 1000:.1f} ms a cell, {collection:.1f} s to collect every cell"
    )


def accuracy(directory: Path) -> None:
    """Run the accuracy sweep: every float16 number, all measured operators, both modes."""
    wall = pytest(directory, "--ascend-cache", "--ascend-rule=impl-mode/accuracy")
    print(f"accuracy sweep: {wall:.1f} s, the start of pytest and of the toolchain included")


def per_check(directory: Path) -> None:
    """Compare a check that compiles nothing with a bare pytest item."""
    mark = '@pytest.mark.ascend_rule("cache-mode/enable-reuses")\n'
    source = _NOTHING.format(fixture="")
    rule = ("--ascend-cache", "--ascend-rule=cache-mode/enable-reuses")
    # -k deselects the suite's own checks.
    only = ("-k", "test_nothing")
    costs = {
        "bare item": _per_item(directory, source, ITEMS, ("-p", "no:ascendcache", *only)),
        "item, plugin loaded": _per_item(directory, source, ITEMS, only),
        "check with a rule": _per_item(directory, mark + source, ITEMS, (*rule, *only)),
    }
    for kind, cost in costs.items():
        print(f"{kind}: {cost * 1e6:.0f} us, {cost / costs['bare item']:.2f} x a bare item")


_NOTHING = (
    "@pytest.mark.parametrize('number', range(ITEMS))\ndef test_nothing({fixture}number): pass\n"
)


def _per_item(directory: Path, source: str, items: int, options: Sequence[str]) -> float:
    """Return the seconds per test of a file, without those of starting pytest."""
    seconds = []
    for number in (1, items):
        path = directory / f"test_{number}.py"
        path.write_text(f"import pytest\nITEMS = {number}\n{source}")
        seconds.append(min(pytest(directory, *options, str(path)) for _ in range(3)))
    return (seconds[1] - seconds[0]) / (items - 1)


def imports() -> None:
    """Measure what loading the plugin adds to pytest's own import, in a fresh interpreter."""
    script = (
        "import time, pytest\nstart = time.perf_counter()\nimport pytest_ascendcache.plugin.hooks\n"
        "print(time.perf_counter() - start)"
    )
    times = [
        float(subprocess.check_output([sys.executable, "-c", script], text=True)) for _ in range(15)
    ]
    print(f"import of the plugin without the flag: {statistics.median(times) * 1000:.1f} ms")


def warm_hit(directory: Path) -> None:
    """Compare the reference's verified hit with reading both files and hashing the object."""
    entry = EntryFiles(directory, "te_add_" + "0" * 64)
    data, metadata = os.urandom(1500), {"binFileName": entry.stem}
    entry.object.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    entry.metadata.write_text(json.dumps({**metadata, "sha256": digest}))
    fs, policy = Fs(), LookupPolicy()

    def plain() -> None:
        entry.metadata.read_bytes()
        hashlib.sha256(entry.object.read_bytes()).hexdigest()

    def served() -> None:
        assert policy.find(fs, entry, metadata) is not None
        policy.renew(fs, entry)

    ours, theirs = median(served, 2000), median(plain, 2000)
    print(
        f"verified warm hit: {ours * 1e6:.0f} us; reading both files and sha256: "
        f"{theirs * 1e6:.0f} us; ratio {ours / theirs:.2f}"
    )


def stress(directory: Path) -> None:
    """Run random ranks, and measure the cost of ranks that work at the same time."""
    with closing(reference_toolchain()) as toolchain:
        campaign = Campaign(
            toolchain=toolchain,
            directory=directory / "stress",
            history=directory / "history.jsonl",
            seed=1,
            seconds=20,
            ranks=16,
            operators=64,
        )
        campaign.directory.mkdir()
        result = campaign.run()
        wrong = sum(each.kind is Kind.WRONG_KERNEL for each in result.violations)
        print(f"{result.summary}; wrong kernels {wrong}")
        alone, together = (
            statistics.median(
                _wall(toolchain, directory / f"{ranks}-{number}", ranks) for number in range(3)
            )
            for ranks in (1, 16)
        )
        print(
            f"64 operators compiled in one cold cache: 16 ranks with 4 each {together:.2f} s, one "
            f"rank with all {alone:.2f} s; ratio {together / alone:.2f}"
        )


def _wall(toolchain: Toolchain, directory: Path, ranks: int) -> float:
    """Return the seconds until all ranks have compiled their share of 64 operators."""
    operators = population(64)
    options = CompileOptions(cache_mode=CacheMode.ENABLE)
    requests = []
    for rank in range(ranks):
        out, work, home = (directory / f"rank{rank}" / part for part in ("out", "work", "home"))
        each = operators[rank::ranks]
        requests.append(CompileRequest(each, options, directory / "cache", out, work, home))
    seconds, results = timed(toolchain.compile_together, requests)
    assert all(each.succeeded for each in results)
    return seconds


def crash_states(directory: Path) -> None:
    """Measure recovery from rebuilt crash states, and from real kills."""
    with closing(reference_toolchain()) as toolchain:
        cache = CacheUnderTest(toolchain, directory, PositiveControl())
        cache.fresh(CONTROL_OPERATOR)
        compiling = cache.interruption(CONTROL_OPERATOR, mode=CacheMode.ENABLE)
        start = time.perf_counter()
        states = [state for kind in list(CrashKind)[:3] for state in compiling.states(kind)]
        rebuilding = time.perf_counter() - start
        for state in states:
            compiling.enter(state)
            assert cache.recovery(CONTROL_OPERATOR) is None, state
        rebuilt = len(states) / (time.perf_counter() - start)
        kills = [each for each in compiling.operations if each.act.changes]
        start = time.perf_counter()
        for operation in kills:
            compiling.strike(Action.KILL, operation)
            assert cache.recovery(CONTROL_OPERATOR) is None, operation
        killed = len(kills) / (time.perf_counter() - start)
    print(
        f"crash states, with recovery: {rebuilt:.0f} a second rebuilt ({len(states)} states of one "
        f"compile, rebuilding {rebuilding * 1000:.1f} ms), {killed:.0f} a second really killed"
    )


def barriers() -> None:
    """Time a barrier: of processes over pipes, and of workers over execnet channels."""
    rounds = 300

    def meet(_: int, rendezvous: PipeRendezvous) -> float:
        rendezvous.enter("")
        start = time.perf_counter()
        for _ in range(rounds):
            rendezvous.enter("")
        return (time.perf_counter() - start) / rounds

    source = (
        "import time\n\ndef test_meet(ascend_rank):\n    start = time.perf_counter()\n"
        f"    for _ in range({rounds}): ascend_rank.barrier()\n"
        f"    seconds = (time.perf_counter() - start) / {rounds}\n"
        "    if ascend_rank.rank == 0: open('seconds', 'w').write(str(seconds))\n"
    )
    for size in (2, 4, 8):
        run = run_gang("bench", size, meet, 600)
        local = statistics.median(each.result for each in run.endings)
        with tempfile.TemporaryDirectory(prefix="ascendcache-bench-") as name:
            (Path(name) / "test_barrier.py").write_text(source)
            pytest(Path(name), "-n", str(size), f"--ascend-ranks={size}")
            channel = float((Path(name) / "seconds").read_text())
        print(
            f"barrier of {size} ranks: {local * 1e6:.0f} us over pipes, {channel * 1e6:.0f} us "
            f"over execnet channels ({channel / local:.1f} x)"
        )


def gangs(directory: Path) -> None:
    """Compare a test that two ranks run with an ordinary one."""
    for workers, items in ((("-n", "2"), 401), ((), 41)):
        options = ("--ascend-ranks=2", *workers)
        plain = _per_item(directory, _NOTHING.format(fixture=""), 2001, options)
        gang = _per_item(directory, _NOTHING.format(fixture="ascend_rank, "), items, options)
        how = "two workers" if workers else "processes"
        print(
            f"gang of 2 ranks, {how}: {gang * 1e6:.0f} us, {gang / plain:.1f} x an ordinary test "
            f"({plain * 1e6:.0f} us)"
        )


def networks(directory: Path) -> None:
    """Compare a network whose kernels are cached with one whose kernels must be compiled."""
    layer = Path(__file__).parent.parent / "fixtures/networks/bert_encoder_layer.json"
    network, cold, warm = read_network(layer), itertools.count(), directory / "warm"
    with closing(reference_toolchain()) as toolchain:

        def run(place: Path) -> None:
            environment = {"MS_COMPILER_CACHE_PATH": str(place)}
            request = TrainRequest(network, directory / "run", directory / "work", environment)
            if not toolchain.start_rank(request).wait().succeeded:
                raise SystemExit(f"{layer.name} does not run")

        run(warm)
        seconds = median(lambda: run(warm), 20)
        compiling = median(lambda: run(directory / str(next(cold))), 5)
    print(
        f"incremental build, BERT layer of 17 kernels: warm {seconds * 1000:.0f} ms, "
        f"{seconds / compiling:.2f} x a cold run"
    )


_KERNEL = 16 << 10
"""Bytes of code of a kernel of average size."""

_PEAK = """
import resource, sys
from pathlib import Path
from pytest_ascendcache.audit import audit
result = audit(Path(sys.argv[1]))
assert not result.found and not result.changed.count, result.found
print(result.entries, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def _used(command: str | list[str]) -> tuple[float, str]:
    """Return the processor seconds of a command and its children, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shell = isinstance(command, str)
    output = subprocess.run(command, shell=shell, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, output


def audits(directory: Path) -> None:
    """Compare an audit with sha256sum over the same files, in processor seconds.

    Caches of several sizes have the smallest possible objects, or objects of kernel size.
    """
    sizes = ((10_000, _KERNEL), (10_000, 0), (100_000, 0), (AUDITED, 0))
    for entries, code in sizes:
        root = directory / str(entries)
        soc = root / "kernel_cache" / "Ascend910B1"
        for number in range(entries):
            cann_entry(soc, number, code=os.urandom(code))
        # No limit: a million entries exceed the default.
        limits = "max_op_cache_size=-1\nremain_cache_size_ratio=50\n"
        (root / "op_cache.ini").write_text(f"[op_compiler_cache]\n{limits}")
        ratios = []
        for _ in range(1 if entries > 100_000 else 3):
            plain, _ = _used(f"find {soc.parent} -type f -print0 | xargs -0 sha256sum > /dev/null")
            seconds, output = _used([sys.executable, "-c", _PEAK, str(soc.parent)])
            findings, peak = output.split()
            assert int(findings) == entries
            ratios.append((seconds / plain, seconds, plain))
        ratio, seconds, plain = min(ratios)
        wall = pytest(directory, f"--ascend-audit={soc.parent}")
        print(
            f"audit of {entries} entries, {code} bytes of code each: {seconds:.1f} s used, "
            f"{seconds / entries * 1e6:.0f} us each, {ratio:.2f} x sha256sum over the same files "
            f"({plain:.1f} s); peak {peak} MB; pytest with all rules {wall:.1f} s",
            flush=True,
        )
        shutil.rmtree(root)


_IN_DIRECTORY = (
    static_kernels,
    static_kernel_cards,
    models,
    audits,
    suite,
    full_matrix,
    accuracy,
    per_check,
    warm_hit,
    networks,
    gangs,
    crash_states,
    stress,
    pages,
    slow_atc,
)
_ALONE = (arrays, barriers, imports)


def main() -> None:
    """Run the named benchmarks, or all of them."""
    names = {each.__name__ for each in (*_IN_DIRECTORY, *_ALONE)}
    parser = argparse.ArgumentParser(prog="ci/bench", description=__doc__.splitlines()[0])
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=", ".join(sorted(names)))
    chosen = set(parser.parse_args().benchmarks) or names
    if unknown := sorted(chosen - names):
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(sorted(names))}")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    for benchmark in _IN_DIRECTORY:
        if benchmark.__name__ in chosen:
            with tempfile.TemporaryDirectory(prefix="ascendcache-bench-") as name:
                benchmark(Path(name))
    for alone in _ALONE:
        if alone.__name__ in chosen:
            alone()


if __name__ == "__main__":
    main()
