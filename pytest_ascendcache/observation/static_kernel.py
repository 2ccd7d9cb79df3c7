"""Static kernels under test: op_compiler, packages and clients, each in directories of their
own."""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_ascendcache.caches import InstalledKernels, TornIndex
from pytest_ascendcache.contract import DEFAULT_SOC
from pytest_ascendcache.contract.facts import Fact, Later, Numbers
from pytest_ascendcache.contract.static_kernel import MODE, Index
from pytest_ascendcache.observation.aftermath import LATER_RUNS, LOOKED_AT, harm_in_ending
from pytest_ascendcache.observation.client_run import WRONG, ClientRun
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable
from pytest_ascendcache.observation.impostor import OPERATOR, Impostor
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.stand_in import StandIn
from pytest_ascendcache.observation.static_processes import StaticProcesses, sha256_of
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.network import Network, write_network
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.opinfo_json import opinfo_text
from pytest_ascendcache.toolchains import (
    Program,
    StaticRequest,
    StaticResult,
    Toolchain,
    ToolchainError,
)
from pytest_ascendcache.words.wrong_use import WrongUse, checked_path


class StaticKernelsUnderTest(StaticProcesses):
    """``opp`` is an empty operator package that kernels are installed into, ``build`` the client's
    build directory, ``work`` the working directory. Every run is a process. ``shelf`` keeps
    packages, so that checks of one session need not compile them again."""

    witness: StaticWitness

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        shelf: Path,
        evidence: Evidence | None = None,
        turns: Path | None = None,
    ) -> None:
        super().__init__(toolchain, sandbox, shelf, evidence, turns)
        self.witness = StaticWitness(self)

    # op_compiler.

    def package(self, *operators: OperatorSpec, name: str = "", soc: str = DEFAULT_SOC) -> Path:
        """A package with the kernels of these operators, compiled once in a session. Raises
        ``ToolchainError`` if it cannot be compiled. No verdict rests on it."""
        told = [opinfo_text(OperatorInfo.of(each)) for each in operators]  # with attributes
        key = sha256_of((name, told, soc))
        place = self._shelf / key
        packages = sorted(place.glob("*.run"))
        if not packages:
            output = self._shelf / f"{key}.{os.getpid()}"
            output.mkdir(exist_ok=True)
            target = output / name if name else output
            result = self.attempt(self.compilation(self.dump(*operators), target, soc=soc))
            if not result.succeeded or not any(output.glob("*.run")):
                raise ToolchainError(f"no package can be compiled: {result.failure}")
            with contextlib.suppress(OSError):  # another process was faster
                output.rename(place)
            packages = sorted((place if place.is_dir() else output).glob("*.run"))
        return packages[0]

    def known_packages(self) -> list[Path]:
        """The packages that checks of this session have compiled."""
        return sorted(self._shelf.glob("*/*.run"))

    # Packages.

    def installation(self, package: Path, opp: Path | None = None) -> StaticRequest:
        """A package's run that installs itself."""
        return StaticRequest(Program.PACKAGE, (str(package),), self.work, opp or self.opp)

    def removal(self, name: str) -> StaticRequest:
        """The run of an installed package's ``uninstall.sh``."""
        script = self.installed.ai_core / name / "uninstall.sh"
        return StaticRequest(Program.PACKAGE, (str(script),), self.work, self.opp)

    def installer(
        self,
        package: Path,
        doing: str = "install",
        opp: Path | None = None,
    ) -> StaticRequest:
        """A package's installer, started without a shell so that faults can be injected. Needs
        ``Capability.FAULT_POINTS``."""
        more = ("--uninstall",) if doing == "uninstall" else ()
        arguments = (str(package), *more)
        return StaticRequest(Program.INSTALLER, arguments, self.work, opp or self.opp)

    def install(self, *packages: Path | str, opp: Path | None = None) -> None:
        """Install packages one after the other. Raises ``ToolchainError`` if one of them fails."""
        for package in (checked_path("a package", each) for each in packages):
            if not package.is_file():
                raise WrongUse(f"there is no package {package}; package() makes one.")
            result = self.attempt(self.installation(package, opp))
            if not result.succeeded:
                raise ToolchainError(f"{package.name}: {result.failure}")

    def alone(self, package: Path) -> Index:
        """The index with this package alone: what the package contributes. Raises
        ``ToolchainError`` if it does not install itself, and ``TornIndex`` if the index is
        incomplete."""
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
        """Record an ``install`` or ``uninstall`` now, so that it can be interrupted later."""
        return self.recorded(opp or self.opp, self.installer(package, doing, opp))

    def recorded(self, root: Path, request: StaticRequest) -> Interruption[StaticResult]:
        """Record a run that works on the directory ``root`` now, so that it can be interrupted
        later."""
        return Interruption(
            root,
            self.sandbox / f"record{next(self._numbers)}",
            self.toolchain.fault_route(),
            lambda plan: self.attempt(replace(request, plan=plan)),
        )

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
        in_a_container: bool = False,
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
            in_a_container=in_a_container,
        )
        return ClientRequest(request, networks, directory)

    def run(self, *networks: Network, **options: object) -> ClientRun:
        """Run networks in one client. Raises ``ToolchainError`` if it fails. No verdict rests on
        it."""
        options.setdefault("build", self.build)
        run = self.together(self.client(*networks, **options))[0]  # type: ignore[arg-type]
        if not run.succeeded:
            raise ToolchainError(f"the client {run.result.failure}")
        return run

    def together(self, *requests: ClientRequest) -> list[ClientRun]:
        """Start one client for each request, all at the same time, and wait for all of them. Raises
        ``ToolchainError`` if one of them does not end."""
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

    # Impostors.

    def _impostor(self) -> Impostor | None:
        """The impostor, if it has been made."""
        path = self._shelf / "impostor.o"
        if not path.exists():
            return None
        return Impostor(path.read_bytes(), (self._shelf / "impostor.symbol").read_text())

    def impostor(self) -> Impostor:
        """A kernel with a different output, compiled by op_compiler and taken from its package.
        Raises ``ToolchainError`` if there is no package, and ``NotDecidable`` if the package holds
        no kernel."""
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
        """The suite's own ``op_compiler``, which returns a package compiled beforehand. It runs the
        shell commands ``before`` first; its package runs ``after`` once it is installed. ``marked``
        packages install impostors."""
        package, impostor = self.package(*operators), self.impostor() if marked else None
        return StandIn.make(self.directory("stand-in"), package, before, after, impostor)


@dataclass(frozen=True)
class ClientRequest:
    """A client's run of networks, with outputs in ``directory``."""

    request: StaticRequest
    networks: tuple[Network, ...]
    directory: Path


class StaticWitness:
    """Watches op_compiler, packages and clients for harm."""

    def __init__(self, kernels: StaticKernelsUnderTest) -> None:
        self._kernels = kernels
        self._results: deque[StaticResult] = deque(maxlen=LOOKED_AT)
        self._runs: deque[ClientRun] = deque(maxlen=LOOKED_AT)

    def note(self, result: StaticResult) -> None:
        self._results.append(result)
        self._kernels.evidence.ran(self)

    def observed(self, run: ClientRun) -> None:
        """Remember a client's outputs."""
        self._runs.append(run)

    def seen(self) -> list[Fact]:
        facts = []
        for result in self._results:
            facts += harm_in_ending("the process", result.returncode, result.ending)
        for run in self._runs:
            for number in range(len(run.networks)):
                if run.outputs(number) is None:
                    continue
                wrong = [name for name, how in run.origins(number).items() if how == WRONG]
                facts += [
                    Fact.seen(Numbers.WRONG, f"the output {name} of a network is wrong")
                    for name in wrong
                ]
        return facts

    def afterwards(self) -> Fact | None:
        """See whether a package can be installed, and whether the kernels of the index exist. A
        package that is already installed may be refused, which tells nothing about others."""
        installed = InstalledKernels(self._kernels.opp)
        known, present = self._kernels.known_packages(), installed.packages
        packages = [each for each in known if each.stem not in present]
        for number in range(LATER_RUNS if packages else 0):
            result = self._kernels.attempt(self._kernels.installation(packages[0]))
            if result.succeeded:
                break
            if number == LATER_RUNS - 1:
                what = f"no package can be installed any more: it {result.ending}"
                return Fact.seen(Later.FAILS, what)
        try:
            index = installed.index()
        except TornIndex as error:
            return Fact.seen(Later.FAILS, f"the index cannot be read: {error}")
        lost = [entry for entry in index.values() if not installed.kernel(entry).is_file()]
        if lost:
            return Fact.seen(Later.LACKS, f"{len(lost)} kernels of the index are missing")
        return None
