"""One run: serves or compiles every operator of a request, then delivers it."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.cache.entry import EntryFiles, kernel_name
from pytest_ascendcache.reference.cache.key import KeyInputs
from pytest_ascendcache.reference.debug import DebugFile, DebugRequest
from pytest_ascendcache.reference.errors import AtcError, invalid_value
from pytest_ascendcache.reference.impl_mode import SelectedModes
from pytest_ascendcache.reference.kernels import (
    SOCS,
    Implementation,
    Kernel,
    KernelError,
    KernelOptions,
    build,
    compiler_version,
    fused_parts,
    implementations,
)
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.mode import CacheUse
from pytest_ascendcache.reference.om import OmModel
from pytest_ascendcache.reference.options import AtcOptions
from pytest_ascendcache.reference.policies import Policies


class Compiler:
    """Carries out one command line.

    A run checks the options, opens the cache (and purges it for force or a changed toolchain), then
    looks up, compiles, publishes and delivers one operator after the other.
    """

    def __init__(
        self, policies: Policies, options: AtcOptions, environ: Mapping[str, str], log: Log
    ) -> None:
        self._policies = policies
        self._options = options
        self._environ = environ
        self._log = log
        self._compiled: dict[str, Kernel] = {}
        self._tuning: dict[str, dict[str, int]] = {}
        self._modes = SelectedModes()
        self._renews = False

    def run(self, operators: tuple[OperatorSpec, ...]) -> None:
        """Deliver every operator. Raises ``AtcError`` for the first thing that cannot be done."""
        config, cache = self.open(self._options.output)
        for index, operator in enumerate(operators):
            model = self.compiled(operator, config, cache)
            self._policies.outputs.deliver(self._options.output, index, model)

    def open(self, output: Path) -> tuple[DebugFile | None, Path | None]:
        """Check the options, create the directory ``output`` and open the cache.

        Returns the debug configuration and the SoC's directory, or ``None`` for a directory if this
        run does not use the cache. Raises ``AtcError`` for the first option that cannot be used.
        """
        options, policies = self._options, self._policies
        if options.soc_version not in SOCS:
            raise invalid_value(
                "--soc_version", options.soc_version, f"It must be one of {', '.join(SOCS)}."
            )
        config = policies.debug.read(options.debug_config)
        self._modes = policies.implementation.select(options, self._environ)
        policies.outputs.debug_directory(options.debug_dir, self._environ)
        policies.outputs.prepare(output)
        policies.installation.load_custom_operators(self._environ)
        # First, so that a bad knowledge base is refused before force removes anything.
        self._load_tuning()
        return config, self._open_cache(config)

    def compiled(
        self, operator: OperatorSpec, config: DebugFile | None, cache: Path | None
    ) -> OmModel:
        """Serve or compile one operator; ``config`` and ``cache`` come from :meth:`open`."""
        debug = self._policies.debug.request(operator, self._options.debug_level, config)
        return self._model(operator, debug, cache)

    def is_named(self, operator: OperatorSpec) -> bool:
        """Whether a precision file sets the operator's mode by its name."""
        return operator.name in self._modes.table.by_name

    def _load_tuning(self) -> None:
        options = self._options
        self._tuning = self._policies.installation.tuning(
            options.op_bank_path, options.soc_version, self._environ
        )

    def _open_cache(self, config: DebugFile | None) -> Path | None:
        """The SoC's directory, or ``None`` if this run does not touch the cache."""
        options, policies = self._options, self._policies
        if not policies.mode.opens_cache(options.cache_mode, options.debug_level, config):
            self._log.info("the operator cache is not used in this run")
            return None
        directory = policies.directory
        root = directory.root(options.cache_dir, self._environ)
        soc_directory = directory.soc(root, options.soc_version)
        origin = directory.origin(options.cache_dir, self._environ)
        directory.prepare(policies.fs, root, options.soc_version, origin)
        if soc_directory.is_symlink():
            self._log.warning(f"[{soc_directory}] is a link; not used")
            return None
        stamp = policies.installation.stamp(self._environ)
        current = policies.purge.upgrade(policies.fs, directory.kernel_cache(root), stamp)
        if not current:
            self._log.warning(f"[{root}] is not of this version, and cannot be changed; not used")
            return None
        if policies.mode.purges(options.cache_mode) and not policies.purge.force(
            policies.fs, soc_directory
        ):
            self._log.warning(f"[{soc_directory}] cannot be purged; not used")
            return None
        self._age(root, soc_directory)
        return soc_directory

    def _age(self, root: Path, soc_directory: Path) -> None:
        """Keep the SoC's cache within its limit, as far as the document allows removals."""
        policies = self._policies
        kernel_cache = policies.directory.kernel_cache(root)
        found = policies.limits.find(policies.fs, root, kernel_cache, self._environ)
        for warning in found.warnings:
            self._log.warning(warning)
        self._renews = policies.aging.renews(found.limits)
        for unit in policies.aging.age(policies.fs, soc_directory, found.limits, time.time_ns()):
            self._log.info(f"aged [{unit.files[0].path.name}] to keep within {found.limits}")

    def _model(self, operator: OperatorSpec, debug: DebugRequest, cache: Path | None) -> OmModel:
        stem = self._policies.key.stem(self._key(operator, debug))
        use = self._policies.mode.use(self._options.cache_mode, debug)
        metadata = self.metadata(operator, stem)
        data = self._served(stem, use, metadata, cache)
        if data is None:
            kernel = self._compile(operator, stem, debug)
            data = kernel.object
            if cache is not None and use.store:
                self._publish(EntryFiles(cache, stem), data, metadata, use)
            if debug.keep_binary:
                self._keep(stem, kernel, metadata, debug)
        digest = hashlib.sha256(data).hexdigest()
        return OmModel(
            operator=operator,
            soc=self._options.soc_version,
            symbol=metadata["kernelName"],
            object=data,
            metadata={**metadata, "sha256": digest},
        )

    def _served(
        self, stem: str, use: CacheUse, metadata: dict[str, Any], cache: Path | None
    ) -> bytes | None:
        if cache is None or not use.lookup:
            return None
        entry = EntryFiles(cache, stem)
        data = self._policies.lookup.find(self._policies.fs, entry, metadata)
        if data is not None and self._renews:
            self._policies.lookup.renew(self._policies.fs, entry)
        self._log.info(f"{'reuse' if data is not None else 'no entry for'} [{stem}]")
        return data

    def _compile(self, operator: OperatorSpec, stem: str, debug: DebugRequest) -> Kernel:
        """Compile an operator, or return the kernel of an equal operator of this run."""
        if stem not in self._compiled:
            self._log.info(f"compile [{stem}]")
            self._compiled[stem] = self.build(operator, stem, debug)
        return self._compiled[stem]

    def build(self, operator: OperatorSpec, stem: str, debug: DebugRequest) -> Kernel:
        """Compile one operator. Raises ``AtcError`` (E40021) if it cannot be compiled."""
        try:
            return build(
                operator,
                kernel_name(stem),
                KernelOptions(
                    soc=self._options.soc_version,
                    implementation=self.implementation(operator),
                    optimise=debug.optimise,
                    debug_info=debug.debug_info,
                    check_arguments=debug.check_arguments,
                    tuning=self._tuning.get(operator.type, {}),
                ),
            )
        except KernelError as error:
            raise AtcError(
                "E40021",
                f"Failed to compile Op [{operator.name or operator.type}]. "
                f"(optype: [{operator.type}]) {error}",
            ) from None

    def _publish(
        self, entry: EntryFiles, data: bytes, metadata: dict[str, Any], use: CacheUse
    ) -> None:
        stored = self._policies.store.publish(
            self._policies.fs, entry, data, metadata, keep=not use.replace
        )
        if not stored:
            self._log.warning(f"[{entry.stem}] is not cached: {entry.directory} cannot be written")

    def _keep(
        self, stem: str, kernel: Kernel, metadata: dict[str, Any], debug: DebugRequest
    ) -> None:
        outputs = self._policies.outputs
        directory = outputs.debug_directory(self._options.debug_dir, self._environ)
        digest = hashlib.sha256(kernel.object).hexdigest()
        origin = outputs.debug_origin(self._options.debug_dir, self._environ)
        outputs.keep(directory, origin, stem, kernel, {**metadata, "sha256": digest}, debug)

    def _key(self, operator: OperatorSpec, debug: DebugRequest) -> KeyInputs:
        return KeyInputs(
            operator=operator,
            soc=self._options.soc_version,
            architecture=platform.machine(),
            compiler_version=compiler_version(),
            implementation=self.implementation(operator).value,
            debug=debug,
        )

    def implementation(self, operator: OperatorSpec) -> Implementation:
        """Which implementation is compiled.

        If there is only one, the mode does not matter, so a change of mode costs no recompile. A
        fused operator gets the implementation of its parts, which were fused because they agree.
        """
        try:
            available = [each.value for each in implementations(operator)]
        except KernelError:
            # Compiling the operator will report the error.
            return Implementation.HIGH_PRECISION
        for part in fused_parts(operator.type):
            asked = replace(operator, type=part)
            if len(available) == 1 or len(implementations(asked)) > 1:
                break
        return Implementation(self._policies.implementation.choose(asked, available, self._modes))

    def metadata(self, operator: OperatorSpec, stem: str) -> dict[str, Any]:
        """Kernel metadata except the digest. Source: facts ``cann-operator-cache`` section 7."""
        arguments = len(operator.inputs) + len(operator.outputs)
        return {
            "binFileName": stem,
            "binFileSuffix": ".o",
            "blockDim": 1,
            "coreType": "AiCore",
            "deterministic": "ignore",
            "intercoreSync": 0,
            "kernelName": kernel_name(stem),
            "magic": "RT_DEV_BINARY_MAGIC_ELF",
            "memoryStamping": [],
            "opParaSize": 0,
            "parameters": [0] * arguments,
            "workspace": {"num": 0, "size": [], "type": []},
        }
