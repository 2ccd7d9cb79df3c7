"""What the checks of clients share: networks, cards, and the output tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    networks: Sequence[Network],
    port: int,
    local: Sequence[str | None],
    op_compiler: Path | None = None,
    second: float = 1.0,
) -> list[ClientRequest]:
    """A card for each network, with its ``LOCAL_WORLD_SIZE``; every node has an operator package
    of its own, as machines have."""
    world = len(networks)
    requests = []
    for rank, (network, size) in enumerate(zip(networks, local, strict=True)):
        opp = kernels.sandbox / f"node{rank // (local_world_size(size, world) or world)}"
        opp.mkdir(exist_ok=True)
        environment = card(rank, world, port, size)
        requests.append(
            kernels.client(
                network,
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
