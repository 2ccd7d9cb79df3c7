"""For checks of MindSpore's caches: networks, deadlines, damage, and a linker that can be held."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import GRAPH_CACHE
from pytest_ascendcache.faults import FaultGate
from pytest_ascendcache.observation import (
    SLOPES,
    NetworkRun,
    NetworkUnderTest,
    NotDecidable,
    Probe,
    probe_network,
)
from pytest_ascendcache.observation.launched import LaunchedGang
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.processes.sleeping import wait_until as look_until
from pytest_ascendcache.toolchains import RankProcess, TrainRequest

HANGS = 60.0
"""Seconds after which a run counts as hung. The slowest run takes ten."""

GANG_HANGS = 150.0
"""The same for a gang. Its launcher takes a minute to notice that a rank has failed."""

WAIT = "MS_CPU_COMM_OP_TIMEOUT"
"""The CPU's counterpart of HCCL_CONNECT_TIMEOUT: seconds that ranks wait for each other."""


def leaky(slope: float, name: str) -> Probe:
    """An operator that can be marked in the operator cache and in the graph cache."""
    return Probe("LeakyRelu", name=name, attributes=(("negative_slope", "float", slope),))


LEAKY = (leaky(SLOPES[0], "first"), leaky(SLOPES[1], "second"))
KERNELS = (*LEAKY, Probe("Square"), Probe("Relu"))
ONE = probe_network(LEAKY[0])
"""A network with one operator."""


def is_graph(network: NetworkUnderTest) -> bool:
    """Whether the toolchain caches whole networks instead of kernels."""
    return network.layout is GRAPH_CACHE


def probes_of(network: NetworkUnderTest) -> tuple[Probe, ...]:
    """Operators that show whether they were compiled."""
    return LEAKY if is_graph(network) else KERNELS


def usual(network: NetworkUnderTest) -> Network:
    """The network that most checks run."""
    return probe_network(*probes_of(network))


def needs_kernels(network: NetworkUnderTest) -> None:
    """Skip a check of kernels if the toolchain caches whole networks."""
    if is_graph(network):
        pytest.skip(f"{network.toolchain.name}: caches networks as a whole, no kernels")


def changed(probes: tuple[Probe, ...], which: str, **changes: Any) -> tuple[Probe, ...]:
    """The probes, with the fields of one of them changed."""
    return tuple(replace(each, **changes) if each.node_name == which else each for each in probes)


def ended(network: NetworkUnderTest, *requests: TrainRequest) -> list[NetworkRun]:
    """Make runs at the same time. Fails if one of them hangs."""
    with network.watch() as watch:
        started = [watch.start(request) for request in requests]
        runs = [waited(watch, process) for process in started]
    return [replace(run, after=runs[-1].after) for run in runs]


def waited(watch: Any, process: RankProcess, patience: float = HANGS) -> NetworkRun:
    """Wait for a run to end, for ``patience`` seconds. Fails if it hangs."""
    run: NetworkRun = watch.wait(process, patience)
    if run.returncode is None:
        pytest.fail(hangs(patience))
    return run


def hangs(patience: float) -> str:
    """Words about a run that has not ended, not counting time in which it waits for a processor."""
    return f"a run has not ended after {patience:g} s in which it slept or had a processor"


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for what is visible from outside. Raises NotDecidable if it does not happen in time."""
    if not look_until(happened, HANGS):
        raise NotDecidable(f"no run came as far as it was to be met within {HANGS:g} s")


def right(run: NetworkRun, which: str = "the run") -> None:
    """Assert that a run ended well with the right outputs."""
    assert run.succeeded, f"{which} {run.result.ending}: {last_words(run)}"
    wrong = [f"{name} {how}" for name, how in run.wrong.items()]
    assert not wrong, f"{which} gives wrong outputs: {wrong[0]}"


def all_right(gang: LaunchedGang, runs: Sequence[NetworkRun]) -> None:
    """Assert that all ranks of a gang ended well with the right outputs and sum."""
    for rank, run in enumerate(runs):
        right(run, f"rank {rank}")
    assert gang.wrong_sums(runs) == [], "AllReduce gives a wrong sum"


def gave_up(run: NetworkRun) -> None:
    """Assert that a rank whose waiting time passed ended, with an error that names its variable."""
    assert run.returncode is not None, f"rank 0 still waits after {GANG_HANGS:g} s"
    assert run.returncode != 0, "the gang ended well without rank 1"
    assert named(run), f"the error names no variable that says how long to wait: {last_words(run)}"


def named(run: NetworkRun) -> bool:
    """Whether the output names the variable that sets how long ranks wait: no promise, but what
    helps."""
    return any(each in run.output for each in (WAIT, "HCCL_CONNECT_TIMEOUT"))


def run_once(
    network: NetworkUnderTest, wanted: Network, which: str = "the run", **request: Any
) -> NetworkRun:
    """Make one run, with these arguments of ``network.request``, that ends well with right
    outputs."""
    (run,) = ended(network, network.request(wanted, **request))
    right(run, which)
    return run


def last_words(run: NetworkRun) -> str:
    """The last line of a run's output that names an error, with the next one behind a colon, else
    its last line. Rules and log lines are skipped."""
    lines = [line.strip() for line in run.output.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("-", "[W", "[I", "="))]
    errors = [number for number, line in enumerate(lines) if "Error" in line]
    if not errors:
        return (lines or ["nothing was printed"])[-1][:200]
    count = 2 if lines[errors[-1]].endswith(":") else 1
    return " ".join(lines[errors[-1] :][:count])[:200]


def recovers(network: NetworkUnderTest, wanted: Network, where: str, between: bool = False) -> None:
    """Assert that the next run is right and leaves a sound cache, and that the last one reuses all
    of it. One more ``between`` shows damage that only the second run meets."""
    run_once(network, wanted, f"{where}: the next run")
    if between:
        run_once(network, wanted, f"{where}: the second run")
    units = network.kernels().values()
    problems = [each for unit in units for each in unit.problems()]
    assert not problems, f"{where}: what is cached stays damaged: {'; '.join(problems)}"
    assert units, f"{where}: nothing is cached"
    try:
        network.mark()
    except NotDecidable as error:
        pytest.fail(f"{where}: {error}")
    run = run_once(network, wanted, f"{where}: the last run")
    assert run.compiled == frozenset(), f"{where}: the last run compiles again"


_LINKER = """\
#!/bin/sh
{early}
"{gxx}" "$@" || exit
{late}
"""
_STAND = 'echo $PPID > "{worker}"; echo > "{reached}"; head -c 1 < "{go}" > /dev/null'


@contextmanager
def held_linker(network: NetworkUnderTest, late: bool = False) -> Iterator[HeldLinker]:
    """Hold builds before their ``g++`` (``late``: after it) until they are released."""
    gxx = shutil.which("g++")
    assert gxx is not None
    with FaultGate(network.sandbox / f"gate-{late}") as gate:
        directory = network.sandbox / f"linker-{late}"
        directory.mkdir()
        worker = directory / "worker"
        stand = _STAND.format(worker=worker, reached=gate.reached, go=gate.go)
        program = directory / "g++"
        text = _LINKER.format(early="" if late else stand, gxx=gxx, late=stand if late else "")
        program.write_text(text)
        program.chmod(0o755)
        yield HeldLinker(gate, directory)


class HeldLinker:
    """Builds held at their linker, and the environment that has them held."""

    def __init__(self, gate: FaultGate, directory: Path) -> None:
        self.gate = gate
        self._directory = directory

    @property
    def environment(self) -> Mapping[str, str]:
        """For a request whose build is to be held."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": f"{self._directory}{os.pathsep}{path}"}

    @property
    def worker(self) -> int:
        """The id of the process that started the held linker."""
        return int((self._directory / "worker").read_text())

    def stands(self, patience: float = HANGS) -> None:
        """Wait until a build is held, for ``patience`` seconds. Raises NotDecidable if none is."""
        if not self.gate.wait(time.monotonic() + patience):
            raise NotDecidable("the build did not get to its linker")


DAMAGE = Callable[[Path], None]


def _edit(change: Callable[[bytes], bytes]) -> DAMAGE:
    def apply(path: Path) -> None:
        data = path.read_bytes()
        mode = path.stat().st_mode
        path.unlink()
        path.write_bytes(change(data))
        path.chmod(mode & 0o7777)

    return apply


def _instead(make: Callable[[Path], None]) -> DAMAGE:
    def apply(path: Path) -> None:
        path.unlink()
        make(path)

    return apply


def _flipped(data: bytes, place: float) -> bytes:
    index = int(place * (len(data) - 1))
    return data[:index] + bytes([data[index] ^ 0x10]) + data[index + 1 :]


ANY_FILE: dict[str, DAMAGE] = {
    "missing": Path.unlink,
    "empty": _edit(lambda _: b""),
    "cut-in-half": _edit(lambda data: data[: len(data) // 2]),
    "flipped": _edit(lambda data: _flipped(data, 0.4)),
    "a-directory": _instead(Path.mkdir),
    "a-dangling-link": _instead(lambda path: path.symlink_to("nowhere")),
    "a-fifo": _instead(os.mkfifo),
}
"""Damage that any file of a cache can take, by name."""
