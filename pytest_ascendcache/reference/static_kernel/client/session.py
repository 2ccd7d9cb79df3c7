"""Static kernels of one process: dump, compile, install, reselect, run; uninstall at the end."""

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
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.config import CompilerConfig, Profiling
from pytest_ascendcache.reference.static_kernel.client.dump import Dump, digest, read_folder
from pytest_ascendcache.reference.static_kernel.client.errors import CardsError, StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.packages import Packages
from pytest_ascendcache.reference.static_kernel.client.programs import Ended, run, run_embedded
from pytest_ascendcache.reference.static_kernel.client.tree import Outputs, is_later
from pytest_ascendcache.reference.static_kernel.client.world import Node, World

if TYPE_CHECKING:
    from pytest_ascendcache.reference.policies import Policies

Kernels = Mapping[OperatorSpec, tuple[str, bytes]]
"""Symbol and object of every different operator."""


def _op_compiler() -> ModuleType:
    """The command; it imports the policies, and they this package."""
    from pytest_ascendcache.reference.static_kernel import op_compiler

    return op_compiler


class Session:
    """What a process knows of static kernels from one graph to the next.

    ``script`` is the directory output goes to by default. ``forks`` says that the embedded
    op_compiler may be forked from this process. To be closed at the process's end.
    """

    def __init__(
        self, policies: Policies, environ: Mapping[str, str], script: Path, forks: bool = False
    ) -> None:
        self._all = policies
        self._policies = policies.client
        self._environ = environ
        self._script = script
        self._forks = forks
        self._dump = Dump(self._policies.dump, policies.fs)
        self._done: defaultdict[str, set[str]] = defaultdict(set)  # by chip
        self._cards: Cards | None = None
        self._packages: Packages | None = None

    def check(self, config: CompilerConfig) -> None:
        """See that a configuration makes sense by itself.

        Raises:
            StaticKernelError: for a mode that does not go with it.
        """
        self._policies.config.mode(config)

    def run(self, network: Network, config: CompilerConfig, profiling: Profiling) -> Any:
        """A network's outputs by name; its static kernels are made first if they are asked for.

        Raises:
            StaticKernelError: where they cannot be had, or the network cannot be run.
        """
        return self.execute(network, self.kernels(network, config, profiling))

    def kernels(self, network: Network, config: CompilerConfig, profiling: Profiling) -> Kernels:
        """The kernels of a network: static ones where there are, others compiled now.

        Raises:
            StaticKernelError: where static kernels are asked for and cannot be had.
        """
        if not self._policies.config.wants(config):
            self._policies.config.check(config, profiling)
            return self._complete(network, config, self._select(network, config))
        world = self._policies.world.read(self._environ)
        if self._cards is None:
            local = self._environ.get("LOCAL_WORLD_SIZE", "")
            self._cards = self._policies.cards.open(world, local)
        try:
            # Refusals come after the cards have met: each has to hear why another does not come.
            self._policies.config.check(config, profiling)
            local_size = self._policies.world.local_size(self._environ, world)
            node = self._policies.world.node(world, local_size)
            kernels = self._static(network, config, world, node, self._cards)
        except BaseException as error:
            self._leave(world, error)
            if world.several and isinstance(error, StaticKernelError):
                raise CardsError(str(error)) from None
            raise
        return self._complete(network, config, kernels)

    def abandon(self, reason: str) -> bool:
        """Tell the other cards that this one ends before it has met them; whether there are any.

        Without this they would wait for it as long as for one that is late.
        """
        world, policy = self._policies.world, self._policies.cards
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
        """The same where RANK is no rank."""
        try:
            here = self._policies.world.read({**self._environ, "RANK": "0"})
        except StaticKernelError:
            return False  # nor is it known where the others are
        if here.several:
            self._policies.cards.excuse(here, f"a card failed: {reason}")
        return here.several

    @property
    def has_met(self) -> bool:
        """Whether this card keeps a line to the others."""
        return self._cards is not None

    def _leave(self, world: World, error: BaseException) -> None:
        """This card cannot go on; the others are told, and it meets them anew if it tries again."""
        assert self._cards is not None
        cards, self._cards = self._cards, None
        if not isinstance(error, CardsError):
            cards.fail(f"rank[{world.rank}] failed: {error or type(error).__name__}")
        elif world.rank == 0:
            cards.fail(str(error))  # those that come only now do not know yet
        else:
            cards.close()

    def _static(
        self, network: Network, config: CompilerConfig, world: World, node: Node, cards: Cards
    ) -> dict[OperatorSpec, tuple[str, bytes]]:
        options = config.experimental_config.aclgraph
        turns, policies = self._policies.turns, self._policies
        packages = self._own_packages()
        command = policies.package.op_compiler(options.op_compiler, self._environ)
        directory = policies.tree.build_directory(
            options._aclnn_static_shape_kernel_build_dir, self._script
        )
        turns.agreed(cards)
        outputs = policies.tree.make(self._all.fs, directory, is_later(options.output_tree))
        try:
            files = self._dump.write(network.operators, outputs)
            done = self._done[config.soc_version]
            selected = policies.dump.select(files, done)
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
            policies.tree.tidy(outputs)

    def _own_packages(self) -> Packages:
        """The packages of this process; the first time, those of dead ones are cleaned up."""
        if self._packages is None:
            policy = self._policies.package
            opp = policy.opp(self._environ)
            for wrong in policy.clean(opp, self._environ):
                print(f"[WARNING] a package of a dead process stays installed: {wrong}", flush=True)
            self._packages = Packages(policy, self._all.fs, opp, self._environ)
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
            gathered = self._policies.dump.gather(read_folder(Path(each)) for each in folders)
            self._dump.write_files(source, gathered)
        operators = [digest(each) for each in read_folder(source).values()]
        if not operators:
            return
        program = _op_compiler().__name__
        cache, root = self._policies.cache, outputs.directory.parent
        key = cache.key(operators, config.soc_version, command or program)
        kept = cache.find(self._all.fs, root, key) if outputs.later else None
        made = [kept] if kept else self._made(source, outputs, config, command, cards)
        packages.install(made, cards)
        if outputs.later and len(made) == 1:
            cache.record(self._all.fs, root, key, made[0])

    def _made(
        self,
        source: Path,
        outputs: Outputs,
        config: CompilerConfig,
        command: str | None,
        cards: Cards,
    ) -> list[Path]:
        """New packages of the operators in a folder."""
        arguments = ["-p", str(source), "-v", config.soc_version]
        arguments += ["-j", str(os.cpu_count() or 1), "-o", str(outputs.directory)]
        ended = self._op_compiler(command, arguments, cards)
        return self._policies.package.made(outputs.directory, ended)

    def _op_compiler(self, command: str | None, arguments: list[str], cards: Cards) -> Ended:
        if command is not None:
            return run([command, *arguments], self._environ, cards)
        op_compiler = _op_compiler()
        if not self._forks:
            return run(
                [sys.executable, "-m", op_compiler.__name__, *arguments], self._environ, cards
            )
        return run_embedded(lambda: op_compiler.run(arguments, self._environ, self._all), cards)

    def _select(
        self, network: Network, config: CompilerConfig
    ) -> dict[OperatorSpec, tuple[str, bytes]]:
        """The installed kernels of a network's operators."""
        opp = self._environ.get("ASCEND_OPP_PATH", "")
        if not opp:
            return {}
        selection, fs = self._all.static_kernel.selection, self._all.fs
        installed = selection.read_index(fs, Path(opp), config.soc_version)
        found: dict[OperatorSpec, tuple[str, bytes]] = {}
        for operator in {each.named("") for each in network.operators} if installed else ():
            info = OperatorInfo.of(operator)
            kernel = selection.find(fs, Path(opp), installed, info, info.deterministic)
            if kernel is not None:
                found[operator] = (kernel.symbol, kernel.object)
        return found

    def _complete(self, network: Network, config: CompilerConfig, kernels: Kernels) -> Kernels:
        """The same, and a plain kernel for every operator that has no static one."""
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
        """Run a network with these kernels.

        Raises:
            StaticKernelError: where one does not run.
        """
        from pytest_ascendcache.reference.kernels import KernelError

        try:
            return self._all.incremental.execution.run(network, kernels)
        except (KernelError, ValueError) as error:
            raise StaticKernelError(f"the network {network.name} does not run: {error}") from None

    def close(self) -> None:
        """Uninstall what this process installed, and leave the other cards."""
        if self._cards is not None:
            self._cards.close()
            self._cards = None
        if self._packages is not None:
            for wrong in self._packages.remove():
                print(f"[WARNING] a package stays installed: {wrong}", flush=True)
