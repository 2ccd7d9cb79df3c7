"""For checks of TorchAir clients: networks, cards, the output tree, and a client that waits."""

from __future__ import annotations

import os
import select
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.contract.static_kernel import (
    LOCAL_WORLD_SIZE,
    ROOT,
    TREES,
    TreeNames,
    local_world_size,
)
from pytest_ascendcache.observation import ClientRun, probe_network
from pytest_ascendcache.observation.static_kernel import ClientRequest, StaticKernelsUnderTest
from pytest_ascendcache.operators.network import Network

NETWORK = probe_network("Square", "Exp")
OTHER = probe_network("Abs", name="other")


def trees(build: Path) -> list[tuple[TreeNames, Path, str]]:
    """The output folder of every compile below a build directory: the naming it follows, its path,
    and the process id in its name."""
    root = build / ROOT
    return [
        (names, path, match["pid"])
        for path in (sorted(root.iterdir()) if root.is_dir() else [])
        for names in TREES
        if (match := names.outputs.fullmatch(path.name))
    ]


def packages(build: Path) -> list[Path]:
    """Every package below a build directory."""
    return sorted(build.rglob("*.run"))


def card(rank: int, world: int, port: int, local: str | None) -> dict[str, str]:
    """The environment that torchrun gives one card."""
    environment = {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
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
) -> list[ClientRequest]:
    """The requests of a gang: one card for each network or list of networks.

    ``local`` are the cards' ``LOCAL_WORLD_SIZE``. Every node has its own operator package.
    """
    world = len(networks)
    requests = []
    for rank, (network, size) in enumerate(zip(networks, local, strict=True)):
        opp = kernels.sandbox / f"node{rank // (local_world_size(size, world) or world)}"
        opp.mkdir(exist_ok=True)
        environment = card(rank, world, port, size)
        requests.append(
            kernels.client(
                *([network] if isinstance(network, Network) else network),
                build=kernels.build,
                environment=environment,
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


@dataclass(frozen=True)
class Gate:
    """Holds one call of a stand-in ``op_compiler``; ``waits`` is the shell code that waits."""

    waits: str
    before: Path
    after: Path

    @classmethod
    def at(cls, kernels: StaticKernelsUnderTest, call: int) -> Gate:
        """A gate for the call of this number, counted from 1."""
        directory = kernels.directory("meet")
        before, after = directory / "before", directory / "after"
        for fifo in (before, after):
            os.mkfifo(fifo)
        gate = f"echo > {shlex.quote(str(before))}; read go < {shlex.quote(str(after))}"
        return cls(f"[ $(wc -l < {{log}}) -ne {call} ] || {{{{ {gate}; }}}}", before, after)

    def reached(self) -> None:
        """Wait until the call stands at the gate, for at most a minute."""
        descriptor = os.open(self.before, os.O_RDWR)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(60_000):
                pytest.fail("the client does not call op_compiler for its last network")
            os.read(descriptor, 16)
        finally:
            os.close(descriptor)

    def open(self) -> None:
        """Let the call go on. Does not block if nobody waits."""
        descriptor = os.open(self.after, os.O_RDWR)
        try:
            os.write(descriptor, b"go\n")
        finally:
            os.close(descriptor)


@contextmanager
def standing_client(
    kernels: StaticKernelsUnderTest, opp: Path
) -> Iterator[tuple[str, Callable[[], ClientRun]]]:
    """A client that has installed a package and waits before it compiles its second network.

    Yields the package's name, and a function that lets the client go on and returns its run.
    """
    gate = Gate.at(kernels, 2)
    first = kernels.stand_in(*NETWORK.operators, *OTHER.operators, before=gate.waits)
    request = kernels.client(NETWORK, OTHER, build=kernels.build, op_compiler=first.path, opp=opp)
    with kernels.started(request.request) as (process,):
        gate.reached()

        def finish() -> ClientRun:
            gate.open()
            return kernels.observed(request, process.wait())

        yield first.package.stem, finish
