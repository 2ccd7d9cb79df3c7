"""What the checks of clients share: networks, cards, and the output tree."""

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
    """The folders of every compile below a build directory: whose naming, which, of which
    process."""
    root = build / ROOT
    found = []
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        for names in TREES:
            if match := names.outputs.fullmatch(path.name):
                found.append((names, path, match["pid"]))
    return found


def packages(build: Path) -> list[Path]:
    """Every package below a build directory."""
    return sorted(build.rglob("*.run"))


def card(rank: int, world: int, port: int, local: str | None) -> dict[str, str]:
    """The environment torchrun gives one card."""
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
    """A card for each network, or each list of them, with its ``LOCAL_WORLD_SIZE``; every node
    has an operator package of its own, as machines have."""
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
    """The client ended by itself, with an error that has these words."""
    assert run.returncode is not None
    assert run.returncode > 0, f"the client {run.result.ending}"
    for word in words:
        assert word in run.output, f"the error does not say {word!r}: {run.output.strip()[-400:]}"


@dataclass(frozen=True)
class Gate:
    """Before it an ``op_compiler`` stands at one of its calls; ``waits`` has it do so."""

    waits: str
    before: Path
    after: Path

    @classmethod
    def at(cls, kernels: StaticKernelsUnderTest, call: int) -> Gate:
        """For the call of this number, from 1 on."""
        directory = kernels.directory("meet")
        before, after = directory / "before", directory / "after"
        for fifo in (before, after):
            os.mkfifo(fifo)
        gate = f"echo > {shlex.quote(str(before))}; read go < {shlex.quote(str(after))}"
        return cls(f"[ $(wc -l < {{log}}) -ne {call} ] || {{{{ {gate}; }}}}", before, after)

    def reached(self) -> None:
        """Wait until it stands there, for a limited time."""
        _wait_for(self.before)

    def open(self) -> None:
        """Let it go on."""
        _tell(self.after)


@contextmanager
def standing_client(
    kernels: StaticKernelsUnderTest, opp: Path
) -> Iterator[tuple[str, Callable[[], ClientRun]]]:
    """A client that has installed a package and stands before its second network; the package's
    name, and what lets it go on, to its end."""
    gate = Gate.at(kernels, 2)
    first = kernels.stand_in(*NETWORK.operators, *OTHER.operators, before=gate.waits)
    request = kernels.client(NETWORK, OTHER, build=kernels.build, op_compiler=first.path, opp=opp)
    with kernels.started(request.request) as (process,):
        gate.reached()

        def goes_on() -> ClientRun:
            gate.open()
            return kernels.observed(request, process.wait())

        yield first.package.stem, goes_on


def _wait_for(fifo: Path) -> None:
    """Wait until a writer opens it, for a limited time."""
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(60_000):
            pytest.fail("the client does not call op_compiler for its last network")
        os.read(descriptor, 16)
    finally:
        os.close(descriptor)


def _tell(fifo: Path) -> None:
    """Let a reader go on; one that no longer reads is not waited for."""
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        os.write(descriptor, b"go\n")
    finally:
        os.close(descriptor)
