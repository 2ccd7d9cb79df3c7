"""What one test session shares: toolchain, positive control, sandboxes, the host."""

from __future__ import annotations

import itertools
import re
import secrets
import shutil
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from pathlib import Path

import pytest

from pytest_ascendcache.caches import FileSystem, probe_file_system
from pytest_ascendcache.combinations import Cell, Matrix, Plan, combinations_model, plan
from pytest_ascendcache.contract import Capability, other_soc
from pytest_ascendcache.nodes import (
    NodeProfile,
    Nodes,
    NotShown,
    Unavailable,
    enter,
    given_nodes,
    mounted_nodes,
)
from pytest_ascendcache.observation import (
    CacheUnderTest,
    Evidence,
    NetworkControl,
    NetworkUnderTest,
    PositiveControl,
    Shared,
    StaticKernelsUnderTest,
    network_control,
    positive_control,
)
from pytest_ascendcache.observation.script import ScriptUnderTest, UndisturbedRuns
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.plugin.audits import Audits
from pytest_ascendcache.plugin.builtin import builtin_names, refuse_to_guess
from pytest_ascendcache.plugin.editions import JudgedBy, judged_by
from pytest_ascendcache.plugin.options.places import NO_PATH_OF_ATC, conversions_beside
from pytest_ascendcache.plugin.options.settings import Settings
from pytest_ascendcache.plugin.summary import in_its_language
from pytest_ascendcache.toolchains import (
    Toolchain,
    ToolchainError,
)
from pytest_ascendcache.toolchains.torchair import TorchairToolchain
from pytest_ascendcache.words import instead

CONTROL_OPERATOR = OperatorSpec(
    "Add",
    (TensorDesc.of("float32", 4, 8), TensorDesc.of("float32", 4, 8)),
    (TensorDesc.of("float32", 4, 8),),
    name="control_add",
)
"""Small, quick to compile, and nothing any implementation mode knows of."""


class AscendSession:
    """Made on first use; one a process, so that every xdist worker has its own."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self.settings = settings
        self._numbers = itertools.count()
        self._base: Path | None = None
        self._nodes: dict[NodeProfile, Nodes | Unavailable | NotShown] = {}

    @cached_property
    def toolchain(self) -> Toolchain:
        """The system under test; nothing is started yet.

        Raises:
            pytest.UsageError: where there is no such toolchain.
        """
        settings = self.settings
        self._take_mounts_of_its_own()
        if not settings.is_named and not settings.looks:
            refuse_to_guess()
        try:
            with self.uncaptured():  # one that is built says how far it is
                made: Toolchain | None = self._config.hook.pytest_ascendcache_toolchain(
                    name=settings.toolchain, settings=settings
                )
        except ToolchainError as error:
            raise pytest.UsageError(f"{settings.chosen_by}: {error}") from None
        if made is None:
            raise pytest.UsageError(
                f"--ascend-toolchain={settings.toolchain}: no such toolchain, and no plugin that "
                f"is loaded provides it; {instead(settings.toolchain, builtin_names())}"
            )
        return made

    def _take_mounts_of_its_own(self) -> None:
        """What is started from now on sees the mounts that are made later; a fork server that was
        started before would not."""
        if self.settings.nodes.number and not self.settings.nodes.directories:
            with suppress(Unavailable):  # the checks that need them say so
                enter()

    def nodes(self, profile: NodeProfile) -> Nodes:
        """Nodes of one kind, mounted once; their control has shown that they are what they say.

        Raises:
            Unavailable: where they cannot be had here.
            NotShown: where the control has not shown it.
        """
        if profile not in self._nodes:
            try:
                self._nodes[profile] = self._made_nodes(profile)
            except (Unavailable, NotShown) as reason:
                self._nodes[profile] = reason
        made = self._nodes[profile]
        if isinstance(made, Exception):
            raise made
        return made

    def _made_nodes(self, profile: NodeProfile) -> Nodes:
        asked = self.settings.nodes
        if profile is NodeProfile.GIVEN:
            return given_nodes(asked.directories)
        return mounted_nodes(profile, asked.number, self.sandbox(f"nodes-{profile.value}"))

    def uncaptured(self) -> AbstractContextManager[None]:
        """What is printed meanwhile is seen at once, as in a check it is not."""
        capture = self._config.pluginmanager.getplugin("capturemanager")
        return capture.global_and_fixture_disabled() if capture else nullcontext()

    def announce(self, sentence: str) -> None:
        """Tell those who wait, where the run has a terminal."""
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            with self.uncaptured():
                reporter.ensure_newline()
                reporter.write_line(in_its_language(self._config, sentence))

    @cached_property
    def judged_by(self) -> JudgedBy:
        """The editions of the documents that the run judges by."""
        needed = self.settings.needs_toolchain or self.made_toolchain is not None
        return judged_by(self.settings, self.toolchain if needed else None)

    @property
    def made_toolchain(self) -> Toolchain | None:
        """The toolchain, where anything has asked for it."""
        return self.__dict__.get("toolchain")

    @cached_property
    def control(self) -> PositiveControl:
        """The positive control, done once."""
        sandbox = self.sandbox("control")
        control = positive_control(self.toolchain, CONTROL_OPERATOR, sandbox)
        if not control.reason:
            self.discard(sandbox)
        return control

    @cached_property
    def network_control(self) -> NetworkControl:
        """The positive control of networks, done once.

        Raises:
            ToolchainError: where not even a network of one operator runs.
        """
        sandbox = self.sandbox("network-control")
        control = network_control(self.toolchain, sandbox, self.sandbox("warm-networks"))
        if not control.reason:
            self.discard(sandbox)
        return control

    @cached_property
    def file_system(self) -> FileSystem:
        """Where sandboxes are, and what it does with access times."""
        return probe_file_system(self.base)

    @cached_property
    def shared(self) -> Shared:
        """What checks need not compile again."""
        return Shared(self.sandbox("warm"))

    @property
    def turns(self) -> Path:
        """The lock of what one check alone may use at a time; all workers of a run have one."""
        own = self.base.parent
        return (own.parent if hasattr(self._config, "workerinput") else own) / "turns.lock"

    @cached_property
    def package_shelf(self) -> Path:
        """Where packages are kept that checks need not compile again."""
        return self.sandbox("packages")

    @cached_property
    def run(self) -> str:
        """A name of this run of pytest, the same for all of its workers."""
        given: dict[str, str] = getattr(self._config, "workerinput", {})
        return given.get("testrunuid") or secrets.token_hex(16)

    @property
    def conversions(self) -> Path:
        """Where conversions of models are kept for all workers of this run, and with
        ``--ascend-resume`` for a run that goes on after it."""
        if self.settings.resume is not None:
            return conversions_beside(self.settings.resume)
        is_worker = hasattr(self._config, "workerinput")
        return (self.base.parent.parent if is_worker else self.base) / "conversions"

    @cached_property
    def plan(self) -> Plan:
        """The combinations ``--ascend-matrix`` asks for, for this toolchain."""
        toolchain = self.toolchain
        if not {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT} <= toolchain.capabilities:
            return self.no_plan
        installed = toolchain.installed_socs
        second = other_soc(toolchain.soc)
        there = installed is None or second in installed
        socs = (toolchain.soc, second) if there else (toolchain.soc,)
        return plan(Matrix(self.settings.matrix), toolchain.capabilities, socs)

    @cached_property
    def no_plan(self) -> Plan:
        """The plain combination alone, for checks that will not run."""
        model = combinations_model(self.toolchain.capabilities)
        return Plan(Matrix(self.settings.matrix), model, (Cell(model, (0,) * len(model.factors)),))

    @cached_property
    def audits(self) -> Audits:
        """What ``--ascend-audit`` looks at."""
        return Audits(self.settings.audit, self.judged_by.cann)

    @property
    def base(self) -> Path:
        """The directory of all sandboxes."""
        if self._base is None:
            # The factory is the session's own; there is no other way to it outside a fixture.
            factory: pytest.TempPathFactory = self._config._tmp_path_factory  # type: ignore[attr-defined]
            try:
                above = factory.getbasetemp()
                if refused := NO_PATH_OF_ATC.search(str(above)):
                    raise ToolchainError(
                        f"the temporary directory {above} contains {refused[0]!r}, which ATC does "
                        "not take in paths; name another with --basetemp"
                    )
                self._base = factory.mktemp("ascendcache")
            except OSError as error:
                raise ToolchainError(
                    f"no temporary directory can be made in {error.filename} ({error.strerror}); "
                    "name another with --basetemp"
                ) from None
        return self._base

    def check_base(self) -> None:
        """Find out before the first check whether sandboxes can be made.

        Raises:
            pytest.UsageError: saying why not.
        """
        try:
            _ = self.file_system
        except ToolchainError as error:
            raise pytest.UsageError(f"{error}.") from None
        except OSError as error:
            raise pytest.UsageError(
                f"the temporary directory cannot be used: {error.filename}: {error.strerror}; name "
                "another with --basetemp."
            ) from None

    def prepare(self) -> None:
        """Know what every check wants to know, and have the toolchain warm."""
        if Capability.OPERATOR_CACHE in self.toolchain.capabilities:
            _ = self.control

    def move(self, base: Path) -> None:
        """Make sandboxes in ``base`` from now on: a rank's process has its own."""
        known = self.__dict__.get("shared")
        self._base = base
        if known is not None:
            self.shared = known.apart(self.sandbox("warm"))

    def sandbox(self, name: str) -> Path:
        """A new empty directory for one check."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", name)[:60].strip("-")
        path = self.base / f"{next(self._numbers)}-{slug}"
        path.mkdir()
        return path

    def discard(self, sandbox: Path) -> None:
        """Remove what a check left; its processes have ended."""
        shutil.rmtree(sandbox, ignore_errors=True)
        if sandbox.exists():  # a check has closed directories
            for directory in [sandbox, *(each for each in sandbox.rglob("*") if each.is_dir())]:
                if not directory.is_symlink():
                    directory.chmod(0o700)
            shutil.rmtree(sandbox, ignore_errors=True)

    def cache(self, sandbox: Path, evidence: Evidence) -> CacheUnderTest:
        """A cache under test in a sandbox.

        Raises:
            ToolchainError: where the toolchain cannot even do a plain compile.
        """
        evidence.control = self.control.reason
        if not self.control.compiles:
            raise ToolchainError(f"no check can tell anything: {self.control.reason}")
        edition = self.judged_by.cann
        return CacheUnderTest(self.toolchain, sandbox, self.control, evidence, self.shared, edition)

    def networks(self, sandbox: Path, evidence: Evidence) -> NetworkUnderTest:
        """Networks under test in a sandbox.

        Raises:
            ToolchainError: where nothing can be told of this toolchain.
        """
        evidence.control = self.network_control.reason
        return NetworkUnderTest(self.toolchain, sandbox, self.network_control, evidence)

    def static_kernels(self, sandbox: Path, evidence: Evidence) -> StaticKernelsUnderTest:
        """Static kernels under test in a sandbox."""
        toolchain, shelf = self.toolchain, self.package_shelf
        return StaticKernelsUnderTest(toolchain, sandbox, shelf, evidence, self.turns)

    def script(
        self, toolchain: TorchairToolchain, sandbox: Path, evidence: Evidence
    ) -> ScriptUnderTest:
        """A user's script under test in a sandbox; runs that nothing disturbs are shared."""
        return ScriptUnderTest(toolchain, sandbox, evidence, self._script_runs)

    @cached_property
    def _script_runs(self) -> UndisturbedRuns:
        return UndisturbedRuns(self.sandbox("undisturbed"))

    def close(self) -> None:
        """End what was started, and unmount."""
        for nodes in self._nodes.values():
            if isinstance(nodes, Nodes):
                nodes.close()
        if "toolchain" in self.__dict__:
            self.toolchain.close()
