"""Static kernels under test: op_compiler, its packages, clients; each in directories of its own."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pytest_ascendcache.caches import InstalledKernels, Snapshot
from pytest_ascendcache.contract import DEFAULT_SOC
from pytest_ascendcache.contract.static_kernel import MODE, Index
from pytest_ascendcache.faults import FaultPlan
from pytest_ascendcache.observation.client_run import ClientRun
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Step
from pytest_ascendcache.observation.impostor import OPERATOR, Impostor
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.network_aftermath import StaticWitness
from pytest_ascendcache.observation.observed import shown_output
from pytest_ascendcache.observation.stand_in import StandIn
from pytest_ascendcache.observation.turns import turn
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network, write_network
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import write_opinfo
from pytest_ascendcache.toolchains import (
    Program,
    StaticProcess,
    StaticRequest,
    StaticResult,
    Toolchain,
    ToolchainError,
)
from pytest_ascendcache.toolchains.op_compiler import NAME


@dataclass(frozen=True)
class Compiled:
    """What one run of op_compiler left: its new packages."""

    result: StaticResult
    packages: tuple[Path, ...]

    @property
    def output(self) -> str:
        """The end of what it printed."""
        return self.result.output


class StaticKernelsUnderTest:
    """``opp`` is an empty operator package kernels are installed into, ``build`` the client's
    build directory, ``work`` the working directory. Every run is a process.

    ``shelf`` keeps packages that checks of one session need not compile again.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        shelf: Path,
        evidence: Evidence | None = None,
        turns: Path | None = None,
    ) -> None:
        self.toolchain = toolchain
        self.sandbox = sandbox
        self.opp = sandbox / "opp"
        self.build = sandbox / "build"
        self.work = sandbox / "work"
        self.evidence = evidence or Evidence()
        self._shelf = shelf
        self._turns = turns or shelf / ".turns"
        self._numbers = count()
        self.witness = StaticWitness(self)
        for path in (self.opp, self.build, self.work):
            path.mkdir()

    def __repr__(self) -> str:
        return f"<static kernels in {self.sandbox}>"

    @contextmanager
    def alone_on_the_machine(self) -> Iterator[None]:
        """No other check of this run installs packages meanwhile.

        CANN's installers give way to every other of the machine, wherever that installs to, so
        checks on other workers would fail each other.
        """
        if self.toolchain.name != NAME:
            yield
            return
        with turn(self._turns):
            yield

    @property
    def installed(self) -> InstalledKernels:
        """What is installed."""
        return InstalledKernels(self.opp)

    def directory(self, name: str) -> Path:
        """A new empty directory."""
        path = self.sandbox / f"{name}{next(self._numbers)}"
        path.mkdir()
        return path

    # op_compiler.

    def dump(self, *operators: OperatorSpec) -> Path:
        """A directory of operator information, a file for each of these."""
        folder = self.directory("dump")
        for number, operator in enumerate(operators):
            info = OperatorInfo.of(operator)
            write_opinfo(folder / info.file_name(number), info)
        return folder

    def compilation(
        self, folder: Path, output: Path, options: Sequence[str] = (), soc: str = DEFAULT_SOC
    ) -> StaticRequest:
        """A run of op_compiler on a directory of operator information."""
        arguments = ["-p", str(folder), "-v", soc, "-j", "2", "-o", str(output), *options]
        return StaticRequest(Program.OP_COMPILER, tuple(arguments), self.work)

    def compile(self, *operators: OperatorSpec, folder: Path | None = None) -> Compiled:
        """Compile operators, or what a directory has, into a new directory; failing is an
        answer too."""
        output = self.directory("packages")
        folder = self.dump(*operators) if folder is None else folder
        result = self.attempt(self.compilation(folder, output))
        return Compiled(result, tuple(sorted(output.glob("*.run"))))

    def package(self, *operators: OperatorSpec, name: str = "", soc: str = DEFAULT_SOC) -> Path:
        """A package with the kernels of these operators, compiled once a session.

        Raises:
            ToolchainError: where there is none; no verdict rests on it.
        """
        key = sha256_of((name, operators, *([soc] if soc != DEFAULT_SOC else [])))
        place = self._shelf / key
        found = sorted(place.glob("*.run"))
        if not found:
            output = self._shelf / f"{key}.{os.getpid()}"
            output.mkdir(exist_ok=True)
            target = output / name if name else output
            result = self.attempt(self.compilation(self.dump(*operators), target, soc=soc))
            if not result.succeeded or not any(output.glob("*.run")):
                raise ToolchainError(f"no package can be compiled: {result.failure}")
            with contextlib.suppress(OSError):  # another process was quicker
                output.rename(place)
            found = sorted((place if place.is_dir() else output).glob("*.run"))
        return found[0]

    def known_packages(self) -> list[Path]:
        """Packages that checks of this session have compiled."""
        return sorted(self._shelf.glob("*/*.run"))

    # Packages.

    def installation(self, package: Path, opp: Path | None = None) -> StaticRequest:
        """A package run to install itself."""
        return StaticRequest(Program.PACKAGE, (str(package),), self.work, opp or self.opp)

    def removal(self, name: str) -> StaticRequest:
        """An installed package's ``uninstall.sh``."""
        script = self.installed.ai_core / name / "uninstall.sh"
        return StaticRequest(Program.PACKAGE, (str(script),), self.work, self.opp)

    def installer(
        self,
        package: Path,
        doing: str = "install",
        plan: FaultPlan | None = None,
        opp: Path | None = None,
    ) -> StaticRequest:
        """A package's installer started without a shell, so that faults can be planned for it.
        Needs ``Capability.FAULT_POINTS``."""
        more = ("--uninstall",) if doing == "uninstall" else ()
        arguments = (str(package), *more)
        return StaticRequest(Program.INSTALLER, arguments, self.work, opp or self.opp, plan=plan)

    def install(self, *packages: Path, opp: Path | None = None) -> None:
        """Install packages, one after the other.

        Raises:
            ToolchainError: where one does not install itself.
        """
        for package in packages:
            result = self.attempt(self.installation(package, opp))
            if not result.succeeded:
                raise ToolchainError(f"{package.name}: {result.failure}")

    def alone(self, package: Path) -> Index:
        """The index with this package and no other: what it has to contribute.

        Raises:
            ToolchainError: where it does not install itself.
            TornIndex: where the index is not whole.
        """
        known = package.with_name(f"{package.name}.index")
        if not known.exists():
            opp = self.directory("alone")
            self.install(package, opp=opp)
            index = InstalledKernels(opp).index()
            temporary = known.with_name(f".{known.name}.{os.getpid()}")
            temporary.write_text(json.dumps([[*key, entry] for key, entry in index.items()]))
            temporary.replace(known)
        return {(kind, key): entry for kind, key, entry in json.loads(known.read_text())}

    def interruption(
        self, package: Path, doing: str, opp: Path | None = None
    ) -> Interruption[StaticResult]:
        """An ``install`` or ``uninstall``, recorded now, that can then be interrupted."""

        def start(plan: FaultPlan) -> StaticResult:
            return self.attempt(self.installer(package, doing, plan, opp))

        logs = self.sandbox / f"record{next(self._numbers)}"
        return Interruption(opp or self.opp, logs, self.toolchain.fault_route(), start)

    # Clients.

    def client(
        self,
        *networks: Network,
        static: bool = True,
        build: Path | str | None = None,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        op_compiler: Path | None = None,
        opp: Path | None = None,
        second: float = 1.0,
        mode: str = MODE,
    ) -> ClientRequest:
        """A client that runs networks one after the other; ``build`` is its build directory."""
        directory = self.directory("client")
        files = [directory / f"{number}.json" for number in range(len(networks))]
        for path, network in zip(files, networks, strict=True):
            write_network(path, network)
        arguments = [*map(str, files), "--mode", mode, "--outputs", str(directory), *options]
        if static:
            arguments += ["--static-shape-kernel"]
        if build is not None:
            arguments += ["--build-dir", str(build)]
        if op_compiler is not None:
            arguments += ["--op-compiler", str(op_compiler)]
        request = StaticRequest(
            Program.CLIENT,
            tuple(arguments),
            self.work,
            opp or self.opp,
            dict(environment or {}),
            second,
        )
        return ClientRequest(request, networks, directory)

    def run(self, *networks: Network, **options: object) -> ClientRun:
        """Run networks in one client.

        Raises:
            ToolchainError: where it fails: no verdict rests on it.
        """
        options.setdefault("build", self.build)
        run = self.together(self.client(*networks, **options))[0]  # type: ignore[arg-type]
        if not run.succeeded:
            raise ToolchainError(f"the client {run.result.failure}")
        return run

    def together(self, *requests: ClientRequest) -> list[ClientRun]:
        """Start one client a request, all at once, and wait for every one of them.

        Raises:
            ToolchainError: where one of them does not end.
        """
        with self.started(*(each.request for each in requests)) as processes:
            runs = [
                self.observed(request, process.wait())
                for request, process in zip(requests, processes, strict=True)
            ]
        for run in runs:
            if run.returncode is None:
                raise ToolchainError(f"the client {run.result.failure}")
        return runs

    def observed(self, request: ClientRequest, result: StaticResult) -> ClientRun:
        """A client that has ended."""
        self._note(result)
        run = ClientRun(result, request.networks, request.directory, self._impostor())
        self.witness.observed(run)
        return run

    # Processes.

    def attempt(self, request: StaticRequest) -> StaticResult:
        """Run one process to its end; only a hang is no answer.

        Raises:
            ToolchainError: where it does not end.
        """
        return self.attempts([request])[0]

    def attempts(self, requests: Sequence[StaticRequest]) -> list[StaticResult]:
        """The same for several at once."""
        with self.started(*requests) as processes:
            results = [process.wait() for process in processes]
        for result in results:
            self._note(result)
            if result.returncode is None:
                raise ToolchainError(result.failure)
        return results

    @contextmanager
    def started(self, *requests: StaticRequest) -> Iterator[list[StaticProcess]]:
        """Processes that run; who was not waited for is killed."""
        processes: list[StaticProcess] = []
        try:
            processes += [self.toolchain.start_static(each) for each in requests]
            yield processes
        finally:
            for process in processes:
                with contextlib.suppress(ToolchainError, OSError, ValueError):
                    process.wait(0.0)

    def _note(self, result: StaticResult) -> None:
        self.evidence.starts += 1
        output = shown_output(result.output, result.succeeded)
        self.witness.note(result)
        self.evidence.steps.append(Step(result.command, result.ending, (), {}, output))

    # Impostors.

    def _impostor(self) -> Impostor | None:
        """The impostor, once it was made."""
        path = self._shelf / "impostor.o"
        if not path.exists():
            return None
        return Impostor(path.read_bytes(), (self._shelf / "impostor.symbol").read_text())

    def impostor(self) -> Impostor:
        """A kernel that gives another output: compiled by op_compiler, taken from its package.

        Raises:
            ToolchainError: where there is no package.
            NotDecidable: where it holds no kernel.
        """
        made = self._impostor()
        if made is not None:
            return made
        opp = self.directory("alone")
        self.install(self.package(OPERATOR), opp=opp)
        installed = InstalledKernels(opp)
        for entry in installed.index().values():
            data, symbol = installed.kernel(entry).read_bytes(), entry["binDesc"]["kernelName"]
            for name, content in (("symbol", symbol.encode()), ("o", data)):
                temporary = self._shelf / f".{name}.{os.getpid()}"
                temporary.write_bytes(content)
                temporary.replace(self._shelf / f"impostor.{name}")
            return Impostor(data, symbol)
        raise NotDecidable("the package of one operator holds no kernel")

    def mark(self, opp: Path | None = None) -> None:
        """Put the impostor in the place of every installed kernel."""
        impostor = self.impostor()
        installed = InstalledKernels(opp or self.opp)
        for entry in installed.index().values():
            installed.put_object(entry, impostor.object, impostor.symbol)

    def stand_in(
        self, *operators: OperatorSpec, before: str = "", after: str = "", marked: bool = False
    ) -> StandIn:
        """An ``op_compiler`` of the suite's own that gives a package compiled beforehand.

        ``before`` are shell commands that come first, ``after`` commands its package ends with
        once it is installed; ``marked`` packages install impostors.
        """
        package, impostor = self.package(*operators), self.impostor() if marked else None
        return StandIn.make(self.directory("stand-in"), package, before, after, impostor)


@dataclass(frozen=True)
class ClientRequest:
    """A client's run of networks, whose outputs go to ``directory``."""

    request: StaticRequest
    networks: tuple[Network, ...]
    directory: Path


def sha256_of(value: object) -> str:
    """A name for a value, by its text."""
    import hashlib

    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def state_of(directory: Path) -> dict[str, tuple[str, int, str]]:
    """What a directory holds, without times: to be compared with what it held before."""
    return {
        path: (state.kind, state.mode, state.sha256 or state.target)
        for path, state in Snapshot.take(directory).files.items()
    }
