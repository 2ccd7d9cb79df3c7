"""The positive control of networks: what checks may take for granted of a toolchain's ranks."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from pytest_ascendcache.caches import GRAPH_CACHE
from pytest_ascendcache.observation.impostor import (
    NETWORK,
    SLOPES,
    Impostor,
    Marks,
    OtherConstant,
)
from pytest_ascendcache.observation.network import NetworkControl, NetworkUnderTest
from pytest_ascendcache.observation.probe_networks import Probe, probe_network
from pytest_ascendcache.toolchains import Toolchain


def network_control(toolchain: Toolchain, sandbox: Path, shelf: Path) -> NetworkControl:
    """Put something else in a kernel's place, and see whether it is run.

    ``shelf`` is an empty directory that outlives the control.

    Raises:
        ToolchainError: where not even a network of one operator runs.
    """
    marks, reason = _marks(toolchain, sandbox)
    if reason:
        return NetworkControl(marks, serves_marked=False, reason=reason)
    probe = Probe("LeakyRelu", attributes=(("negative_slope", "float", SLOPES[0]),))
    network = probe_network(probe)
    networks = NetworkUnderTest(toolchain, sandbox / "control", NetworkControl(marks))
    networks.run(network)
    networks.mark()
    began = time.monotonic()
    run = networks.run(network)
    seconds = time.monotonic() - began
    if run.wrong or run.reused != {probe.node_name}:
        reason = "a kernel that was changed on disk, digest included, is not run"
        plain = NetworkUnderTest(toolchain, sandbox / "plain", NetworkControl(marks))
        plain.run(network)
        reuses = not plain.run(network).files_written
        if not reuses:
            reason += "; one that was left alone is compiled again too"
        return NetworkControl(marks, serves_marked=False, reuses=reuses, reason=reason)
    copied = NetworkUnderTest(toolchain, sandbox / "copy", NetworkControl(marks))
    shutil.copytree(networks.cache, copied.cache, symlinks=True)
    copied.adopt()
    run = copied.run(network)
    relocates = not run.wrong and run.reused == {probe.node_name}
    return NetworkControl(marks, shelf=shelf if relocates else None, seconds=seconds)


def _marks(toolchain: Toolchain, sandbox: Path) -> tuple[Marks, str]:
    """What kernels of this toolchain are marked with, and why there is nothing."""
    if getattr(toolchain, "network_layout", None) is GRAPH_CACHE:
        return OtherConstant(), ""
    nothing = Impostor(b"", "")
    networks = NetworkUnderTest(toolchain, sandbox / "impostor", NetworkControl(nothing))
    networks.run(NETWORK)
    kernels = [kernel for kernel in networks.kernels().values() if kernel.is_valid]
    if len(kernels) != 1 or kernels[0].object is None:
        return nothing, f"a network of one operator left {len(kernels)} whole kernels"
    return Impostor(kernels[0].object, kernels[0].metadata["kernelName"]), ""
