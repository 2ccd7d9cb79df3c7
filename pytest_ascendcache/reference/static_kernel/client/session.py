"""The static kernels of one process: dump, compile, install, reselect, run, and uninstall."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.config import (
    LATER,
    CompilerConfig,
    Profiling,
)
from pytest_ascendcache.reference.static_kernel.client.dump import Dump, digest, read_folder
from pytest_ascendcache.reference.static_kernel.client.errors import CardsError, StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.packages import Packages
from pytest_ascendcache.reference.static_kernel.client.programs import (
    EndedProgram,
    run,
    run_embedded,
)
from pytest_ascendcache.reference.static_kernel.client.tree import Outputs
from pytest_ascendcache.reference.static_kernel.client.world import World

if TYPE_CHECKING:
    from pytest_ascendcache.reference.policies import Policies

Kernels = Mapping[OperatorSpec, tuple[str, bytes]]
"""Symbol and object by nameless operator."""


def _op_compiler() -> ModuleType:
    """The module of the embedded op_compiler. At import time this would be a circular import."""
    from pytest_ascendcache.reference.static_kernel import op_compiler

    return op_compiler


class Session:
    """The state of static kernels in a process, across its networks.

    ``script`` is the default directory for output. ``forks`` allows the embedded op_compiler to run
    in a fork of this process. Call :meth:`close` when the process ends.
    """

    def __init__(
        self, policies: Policies, environ: Mapping[str, str], script: Path, forks: bool = False
    ) -> None:
        self._policies = policies
        self._client = policies.client
        self._environ = environ
        self._script = script
        self._forks = forks
        self._dump = Dump(self._client.dump, policies.fs)
        self._done: defaultdict[str, set[str]] = defaultdict(set)  # by chip
        self._cards: Cards | None = None
        self._packages: Packages | None = None

    def check(self, config: CompilerConfig) -> None:
        """Check a configuration's mode."""
        self._client.config.mode(config)

    def run(self, network: Network, config: CompilerConfig, profiling: Profiling) -> Any:
        """Run a network, with static kernels if they are requested. Returns the outputs by name."""
        return self.execute(network, self.kernels(network, config, profiling))

    def kernels(self, network: Network, config: CompilerConfig, profiling: Profiling) -> Kernels:
        """The kernels of a network: installed static ones, and others compiled now."""
        if not self._client.config.wants(config):
            self._client.config.check(config, profiling)
            return self._complete(network, config, self._select(network, config))
        world = self._client.world.read(self._environ)
        if self._cards is None:
            local = self._environ.get("LOCAL_WORLD_SIZE", "")
            self._cards = self._client.cards.open(world, local)
        try:
            # Refuse only after connecting, so that the other cards learn the reason.
            self._client.config.check(config, profiling)
            local_size = self._client.world.local_size(self._environ, world)
            node = self._client.world.node(world, local_size)
            kernels = self._static(network, config, world, node, self._cards)
        except BaseException as error:
            self._leave(world, error)
            if world.several and isinstance(error, StaticKernelError):
                raise CardsError(str(error)) from None
            raise
        return self._complete(network, config, kernels)

    def abandon(self, reason: str) -> bool:
        """Tell the other cards that this one ends before it has met them.

        Otherwise they would wait for it. Returns whether there are other cards.
        """
        world, policy = self._client.world, self._client.cards
        try:
            here = world.read(self._environ)
        except StaticKernelError:
            return self._excuse(reason)
        if not here.several:
            return False
        with contextlib.suppress(CardsError):
            local = self._environ.get("LOCAL_WORLD_SIZE", "")
            self._cards = self._cards or policy.open(here, local)
            self._leave(here, StaticKernelError(reason))
        return True

    def _excuse(self, reason: str) -> bool:
        """Like :meth:`abandon`, for a card whose rank is unknown because RANK is invalid."""
        try:
            here = self._client.world.read({**self._environ, "RANK": "0"})
        except StaticKernelError:
            return False  # the address of the other cards is unknown too
        if here.several:
            self._client.cards.excuse(here, f"a card failed: {reason}")
        return here.several

    @property
    def has_met(self) -> bool:
        """Whether this card is connected to the others."""
        return self._cards is not None

    def _leave(self, world: World, error: BaseException) -> None:
        """Tell the other cards that this one cannot go on, and disconnect.

        The next attempt connects again.
        """
        assert self._cards is not None
        cards, self._cards = self._cards, None
        if not isinstance(error, CardsError):
            cards.fail(f"rank[{world.rank}] failed: {error or type(error).__name__}")
        elif world.rank == 0:
            cards.fail(str(error))  # cards that connect only now do not know it yet
        else:
            cards.close()

    def _static(
        self, network: Network, config: CompilerConfig, world: World, node: range, cards: Cards
    ) -> dict[OperatorSpec, tuple[str, bytes]]:
        options = config.experimental_config.aclgraph
        turns, client = self._client.turns, self._client
        packages = self._own_packages()
        command = client.package.op_compiler(options.op_compiler, self._environ)
        directory = client.tree.build_directory(
            options._aclnn_static_shape_kernel_build_dir, self._script
        )
        turns.agreed(cards)
        outputs = client.tree.make(self._policies.fs, directory, options.output_tree == LATER)
        try:
            files = self._dump.write(network.operators, outputs)
            done = self._done[config.soc_version]
            selected = client.dump.select(files, done)
            self._dump.write_files(outputs.selected, selected)
            folders = turns.folders(cards, node, str(outputs.selected))
            digests = [digest(each) for each in selected.values()]
            turns.starting(done, digests)
            if turns.compiles(world, node):
                self._compile(folders, outputs, config, command, packages, cards)
            turns.installed(cards)
            kernels = self._select(network, config)
            turns.reselected(cards)
            turns.finished(done, digests)
            return kernels
        except OSError as error:
            raise StaticKernelError(f"{error.filename or directory}: {error.strerror}") from None
        finally:
            client.tree.tidy(outputs)

    def _own_packages(self) -> Packages:
        """The packages of this process. The first call cleans up those of dead processes."""
        if self._packages is None:
            policy = self._client.package
            opp = policy.opp(self._environ)
            for wrong in policy.clean(opp, self._environ):
                print(f"[WARNING] a package of a dead process stays installed: {wrong}", flush=True)
            self._packages = Packages(policy, self._policies.fs, opp, self._environ)
        return self._packages

    def _compile(
        self,
        folders: list[str],
        outputs: Outputs,
        config: CompilerConfig,
        command: str | None,
        packages: Packages,
        cards: Cards,
    ) -> None:
        """Compile the operators in these folders into one package, and install it."""
        source = outputs.selected
        if len(folders) > 1:
            source = outputs.gathered
            gathered = self._client.dump.gather(read_folder(Path(each)) for each in folders)
            self._dump.write_files(source, gathered)
        operators = [digest(each) for each in read_folder(source).values()]
        if not operators:
            return
        cache, root = self._client.cache, outputs.directory.parent
        compiler = _named(command or _op_compiler().__name__, self._policies, self._environ)
        key = cache.key(operators, config.soc_version, compiler)
        kept = cache.find(self._policies.fs, root, key) if outputs.later else None
        if kept is not None:
            made = [kept]
        else:
            arguments = ["-p", str(source), "-v", config.soc_version]
            arguments += ["-j", str(os.cpu_count() or 1), "-o", str(outputs.directory)]
            ended = self._op_compiler(command, arguments, cards)
            made = self._client.package.made(outputs.directory, ended)
        packages.install(made, cards)
        if outputs.later and len(made) == 1:
            cache.record(self._policies.fs, root, key, made[0])

    def _op_compiler(self, command: str | None, arguments: list[str], cards: Cards) -> EndedProgram:
        if command is not None:
            return run([command, *arguments], self._environ, cards)
        op_compiler = _op_compiler()
        if not self._forks:
            return run(
                [sys.executable, "-m", op_compiler.__name__, *arguments], self._environ, cards
            )
        return run_embedded(
            lambda: op_compiler.run(arguments, self._environ, self._policies), cards
        )

    def _select(
        self, network: Network, config: CompilerConfig
    ) -> dict[OperatorSpec, tuple[str, bytes]]:
        """The installed static kernels of a network's operators."""
        opp = self._environ.get("ASCEND_OPP_PATH", "")
        if not opp:
            return {}
        selection, fs = self._policies.static_kernel.selection, self._policies.fs
        installed = selection.read_index(fs, Path(opp), config.soc_version)
        operators = {each.named("") for each in network.operators} if installed else ()
        found = {
            each: selection.find(fs, Path(opp), installed, OperatorInfo.of(each))
            for each in operators
        }
        return {operator: kernel for operator, kernel in found.items() if kernel is not None}

    def _complete(self, network: Network, config: CompilerConfig, kernels: Kernels) -> Kernels:
        """Add a plain kernel for every operator without a static one."""
        from pytest_ascendcache.reference.kernels import KernelError, KernelOptions, build

        complete = dict(kernels)
        for number, operator in enumerate(network.operators):
            plain = operator.named("")
            if plain in complete:
                continue
            symbol = f"plain_{number}"
            try:
                built = build(operator, symbol, KernelOptions(soc=config.soc_version))
            except KernelError as error:
                raise StaticKernelError(
                    f"operator {number} of the network, {operator}, cannot be compiled: {error}"
                ) from None
            complete[plain] = (symbol, built.object)
        return complete

    def execute(self, network: Network, kernels: Kernels) -> Any:
        """Run a network with these kernels. Returns its outputs by name."""
        from pytest_ascendcache.reference.kernels import KernelError

        try:
            return self._policies.incremental.execution.run(network, kernels)
        except (KernelError, ValueError) as error:
            raise StaticKernelError(f"the network {network.name} does not run: {error}") from None

    def close(self) -> None:
        """Disconnect from the other cards, and uninstall this process's packages."""
        if self._cards is not None:
            self._cards.close()
            self._cards = None
        if self._packages is not None:
            for problem in self._packages.remove():
                print(f"[WARNING] a package stays installed: {problem}", flush=True)


def _named(program: str, policies: Policies, environ: Mapping[str, str]) -> str:
    """A compiler with its version and those of the installation."""
    from pytest_ascendcache.reference.kernels import compiler_version

    try:
        return f"{program}\n{compiler_version()}\n{policies.installation.stamp(environ)}"
    except AtcError as error:
        raise StaticKernelError(str(error)) from None
