"""One rank's run: find or compile every kernel, wait for the other ranks, run the network."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.reference.cache.entry import EntryFiles, kernel_name
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.info import InfoInputs, KernelScenario, NetworkPhase
from pytest_ascendcache.reference.incremental.surroundings import RankSurroundings
from pytest_ascendcache.reference.kernels import (
    KernelError,
    KernelOptions,
    build,
    check,
    compiler_version,
)
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.policies import IncrementalPolicies

if TYPE_CHECKING:
    from pytest_ascendcache.reference.incremental.rendezvous import Meeting


@dataclass(frozen=True)
class RunRequest:
    """The network to run, the chip, and training or inference. ``origin`` is the network's file."""

    network: Network
    origin: Path
    soc: str
    phase: NetworkPhase


@dataclass(frozen=True)
class IncrementalBuild:
    """Carries out one rank's run."""

    _policies: IncrementalPolicies
    _fs: Fs
    _request: RunRequest
    _surroundings: RankSurroundings
    _log: Log

    def run(self, meeting: Meeting) -> Any:
        """Run the network. Returns its outputs by name."""
        self.check()
        gang, base = self._surroundings.gang, self._surroundings.base
        directory = self._policies.directory.prepare(self._fs, base, gang)
        if directory is None:
            self._log.warning(f"a link stands below [{base}]; kernels are not kept")
        with self._policies.directory.claimed(self._fs, base, gang):
            kernels = self._kernels(directory)
            meeting.meet()
            return self._execute(kernels)

    def check(self) -> None:
        """Check that every operator can be compiled, before any file is touched.

        Raises ``AtcError`` (E40021) naming the first operator that cannot be compiled and its
        index in the network file.
        """
        for index, operator in enumerate(self._request.network.operators):
            try:
                check(operator, self._options)
            except KernelError as error:
                raise self._cannot_compile(operator, index, error) from None

    @property
    def _options(self) -> KernelOptions:
        return KernelOptions(soc=self._request.soc)

    def _cannot_compile(self, operator: OperatorSpec, index: int, error: KernelError) -> AtcError:
        return AtcError(
            "E40021",
            f"Failed to compile Op [{operator.name or operator.type}]. "
            f"(optype: [{operator.type}]) {self._request.origin}: operators[{index}]: {error}",
        )

    def _kernels(self, directory: Path | None) -> Mapping[OperatorSpec, tuple[str, bytes]]:
        """Symbol and object by nameless operator. Equal operators are looked up only once."""
        kernels: dict[OperatorSpec, tuple[str, bytes]] = {}
        for index, operator in enumerate(self._request.network.operators):
            if operator.named("") not in kernels:
                kernels[operator.named("")] = self._kernel(operator, index, directory)
        return kernels

    def _kernel(
        self, operator: OperatorSpec, index: int, directory: Path | None
    ) -> tuple[str, bytes]:
        inputs = self.inputs(operator)
        stem = self._policies.info.stem(inputs)
        symbol = kernel_name(stem)
        entry = None if directory is None else EntryFiles(directory, stem)
        if entry is not None:
            found = self._policies.reuse.find(self._fs, entry, inputs, self._policies.info)
            if found is not None:
                self._log.info(f"reuse [{stem}]")
                return symbol, found
        self._log.info(f"compile [{stem}]")
        try:
            data = build(operator, symbol, self._options).object
        except KernelError as error:
            raise self._cannot_compile(operator, index, error) from None
        if entry is not None and not self._policies.kernel_meta.publish(
            self._fs, entry, data, inputs, self._policies.info
        ):
            self._log.warning(f"[{stem}] is not kept: {entry.directory} cannot be written")
        return symbol, data

    def inputs(self, operator: OperatorSpec) -> InfoInputs:
        """Everything that decides an operator's kernel in this run."""
        several = self._surroundings.gang.several
        return InfoInputs(
            operator=operator,
            scenario=KernelScenario(several, self._request.phase),
            device=self._surroundings.device,
            versions=self._surroundings.versions,
            target={
                "soc": self._request.soc,
                "architecture": platform.machine(),
                "compiler": compiler_version(),
            },
        )

    def _execute(self, kernels: Mapping[OperatorSpec, tuple[str, bytes]]) -> Any:
        try:
            return self._policies.execution.run(self._request.network, kernels)
        except (KernelError, ValueError) as error:
            raise AtcError("E40022", f"Failed to run {self._request.origin}: {error}") from None
