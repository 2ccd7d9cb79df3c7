"""For checks of TorchAir clients: networks, cards, the output tree, and a client that waits."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_ascendcache.contract.static_kernel import (
    LATER,
    LOCAL_WORLD_SIZE,
    ROOT,
    TREES,
    TreeNames,
    local_world_size,
)
from pytest_ascendcache.faults import FaultGate
from pytest_ascendcache.observation import (
    IMPOSTOR,
    ClientRun,
    NotDecidable,
    StandIn,
    probe_network,
)
from pytest_ascendcache.observation.static_kernel import ClientRequest, StaticKernelsUnderTest
from pytest_ascendcache.operators import OperatorSpec, simplified_key
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import read_opinfo

NETWORK = probe_network("Square", "Exp")
OTHER = probe_network("Abs", name="other")


def trees(build: Path) -> list[tuple[TreeNames, Path, str]]:
    """Of every compile below a build directory its naming, output folder and process id."""
    root = build / ROOT
    return [
        (names, path, match["pid"])
        for path in (sorted(root.iterdir()) if root.is_dir() else [])
        for names in TREES
        if (match := names.outputs.fullmatch(path.name))
    ]


def packages(build: Path) -> list[Path]:
    return sorted(build.rglob("*.run"))


KEPT = ("--output-tree", LATER.name)
"""Options of a client that may keep packages for later processes."""


def card(
    rank: int, world: int, port: int, local: str | None, host: str = "127.0.0.1"
) -> dict[str, str]:
    """The environment that torchrun gives one card."""
    environment = {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }
    return environment if local is None else {**environment, LOCAL_WORLD_SIZE: local}


def gang(
    kernels: StaticKernelsUnderTest,
    networks: Sequence[Network | Sequence[Network]],
    port: int,
    local: Sequence[str | None],
    op_compiler: Path | None = None,
    second: float = 1.0,
    host: str = "127.0.0.1",
    options: Sequence[str] = (),
) -> list[ClientRequest]:
    """The requests of a gang: one card for each network or list of networks, with its
    ``LOCAL_WORLD_SIZE``. Every node has its own operator package."""
    world = len(networks)
    requests = []
    for rank, (network, size) in enumerate(zip(networks, local, strict=True)):
        opp = kernels.sandbox / f"node{rank // (local_world_size(size, world) or world)}"
        opp.mkdir(exist_ok=True)
        environment = card(rank, world, port, size, host)
        requests.append(
            kernels.client(
                *([network] if isinstance(network, Network) else network),
                build=kernels.build,
                environment=environment,
                options=options,
                op_compiler=op_compiler,
                opp=opp,
                second=second,
            )
        )
    return requests


def refused(run: ClientRun, *words: str) -> None:
    """Assert that the client ended by itself, with an error that contains these words."""
    assert run.returncode is not None
    assert run.returncode > 0, f"the client {run.result.ending}"
    for word in words:
        assert word in run.output, f"the error does not say {word!r}: {run.output.strip()[-400:]}"


def reported(run: ClientRun, *words: str) -> None:
    """Assert that the client told of a failure with these words: by an error, or by a warning with
    which it goes on without static kernels, as TorchAir's does (facts section 3.5)."""
    if not run.succeeded:
        refused(run, *words)
        return
    assert [word for word in words if word not in run.output] == [], "the failure is not reported"
    assert IMPOSTOR not in run.kernels, "kernels were installed although op_compiler failed"


def stops_at(gate: FaultGate, call: int) -> str:
    """Shell code with which a stand-in ``op_compiler`` stops at a gate in the ``call``-th call."""
    reached, go = shlex.quote(str(gate.reached)), shlex.quote(str(gate.go))
    stops = f"echo > {reached}; head -c 1 < {go} > /dev/null"
    return f"[ $(wc -l < {{log}}) -ne {call} ] || {{{{ {stops}; }}}}"


def reached(gate: FaultGate) -> None:
    """Wait until a call stands at the gate, for at most a minute."""
    if not gate.wait(time.monotonic() + 60.0):
        raise NotDecidable("the client has not called op_compiler for its last network")


def not_given(stand_in: StandIn, cards: int, operators: Iterable[OperatorSpec]) -> list[str]:
    """The operators that no card gave to op_compiler, each card by itself or one for all."""
    paths = (path for rank in range(cards) for path in stand_in.given(rank))
    given = {simplified_key(read_opinfo(path)) for path in paths}
    return [str(each) for each in operators if simplified_key(OperatorInfo.of(each)) not in given]


@contextmanager
def standing_client(
    kernels: StaticKernelsUnderTest, opp: Path
) -> Iterator[tuple[str, Callable[[], ClientRun]]]:
    """A client that has installed a package and waits before it compiles its second network. Yields
    the package's name, and a function that lets the client go on and returns its run."""
    with FaultGate(kernels.directory("meet") / "gate") as gate:
        first = kernels.stand_in(
            *NETWORK.operators, *OTHER.operators, before=stops_at(gate, call=2)
        )
        request = kernels.client(
            NETWORK, OTHER, build=kernels.build, op_compiler=first.path, opp=opp
        )
        with kernels.started(request.request) as (process,):
            reached(gate)

            def finish() -> ClientRun:
                gate.release()
                return kernels.observed(request, process.wait())

            yield first.package.stem, finish
