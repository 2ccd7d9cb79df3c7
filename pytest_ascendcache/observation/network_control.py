"""The positive control of networks: what checks may take for granted of a toolchain's ranks."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_ascendcache.observation.impostor import NETWORK, Impostor
from pytest_ascendcache.observation.network import NetworkControl, NetworkUnderTest
from pytest_ascendcache.observation.probe_networks import probe_network
from pytest_ascendcache.toolchains import Toolchain


def network_control(toolchain: Toolchain, sandbox: Path, shelf: Path) -> NetworkControl:
    """Compile the impostor, put it in a kernel's place, and see whether it is run.

    ``shelf`` is an empty directory that outlives the control.

    Raises:
        ToolchainError: where not even a network of one operator runs.
    """
    unmarked = Impostor(b"", "")
    networks = NetworkUnderTest(toolchain, sandbox / "impostor", NetworkControl(unmarked))
    networks.run(NETWORK)
    kernels = [kernel for kernel in networks.kernels().values() if kernel.is_valid]
    if len(kernels) != 1 or kernels[0].object is None:
        reason = f"a network of one operator left {len(kernels)} whole kernels"
        return NetworkControl(unmarked, serves_marked=False, reason=reason)
    impostor = Impostor(kernels[0].object, kernels[0].metadata["kernelName"])
    networks = NetworkUnderTest(toolchain, sandbox / "control", NetworkControl(impostor))
    network = probe_network("Square")
    networks.run(network)
    networks.mark()
    run = networks.run(network)
    if run.wrong or run.reused != {"square"}:
        reason = "a kernel that was changed on disk, digest included, is not run"
        return NetworkControl(impostor, serves_marked=False, reason=reason)
    copied = NetworkUnderTest(toolchain, sandbox / "copy", NetworkControl(impostor))
    shutil.copytree(networks.cache, copied.cache, symlinks=True)
    copied.mark()
    run = copied.run(network)
    relocates = not run.wrong and run.reused == {"square"}
    return NetworkControl(impostor, shelf=shelf if relocates else None)
