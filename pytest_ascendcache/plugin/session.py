"""What the tests of one session share: toolchain, positive controls, sandboxes, the host."""

from __future__ import annotations

import itertools
import re
import secrets
import shutil
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

import pytest

from pytest_ascendcache.caches import FileSystem, probe_file_system
from pytest_ascendcache.combinations import Cell, Matrix, Plan, combinations_model, plan
from pytest_ascendcache.contract import Capability, other_soc
from pytest_ascendcache.nodes import NodeProfile, Nodes
from pytest_ascendcache.observation import (
    CacheUnderTest,
    Evidence,
    NetworkControl,
    PositiveControl,
    Shared,
    network_control,
    positive_control,
)
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.observation.script import UndisturbedRuns
from pytest_ascendcache.observation.static_processes import turn
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.plugin.builtin import builtin_names, refuse_to_guess
from pytest_ascendcache.plugin.editions import JudgedBy, judged_by
from pytest_ascendcache.plugin.options.places import NO_PATH_OF_ATC, conversions_beside
from pytest_ascendcache.plugin.options.settings import Settings
from pytest_ascendcache.plugin.shared import Audits, SharedNodes
from pytest_ascendcache.plugin.users_language import uncaptured, write_now
from pytest_ascendcache.qualification.toolchain import ReferenceToolchain
from pytest_ascendcache.toolchains import Toolchain, ToolchainError
from pytest_ascendcache.words import instead

CONTROL_OPERATOR = OperatorSpec(
    "Add",
    (TensorDesc.of("float32", 4, 8), TensorDesc.of("float32", 4, 8)),
    (TensorDesc.of("float32", 4, 8),),
    name="control_add",
)
"""The operator of the positive control: quick to compile, and no implementation mode affects it."""


class AscendSession:
    """The shared state of a session, created on first use by ``ascend_session_of``.

    Every process has its own, also each xdist worker. All properties are computed on first use:
    the toolchain starts nothing until ``control`` or a test runs it. A rank's process inherits the
    session of its parent and calls ``move``. ``pytest_unconfigure`` calls ``close``.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self.settings = settings
        self._numbers = itertools.count()
        self._base: Path | None = None
        self._evidence: Evidence | None = None
        self._nodes = SharedNodes(settings.nodes, self.sandbox)

    @cached_property
    def toolchain(self) -> Toolchain:
        """The toolchain under test, not started yet. Raises ``pytest.UsageError`` if there is
        none."""
        settings = self.settings
        self._nodes.enter_namespace()
        if not settings.is_named and not settings.looks:
            refuse_to_guess()
        try:
            with uncaptured(self._config):  # a toolchain that is built first prints its progress
                made: Toolchain | None = self._config.hook.pytest_ascendcache_toolchain(
                    name=settings.toolchain, settings=settings
                )
        except ToolchainError as error:
            raise pytest.UsageError(f"{settings.chosen_by}: {error}") from None
        if made is None:
            raise pytest.UsageError(
                f"{settings.chosen_by}: no such toolchain, and no loaded "
                f"plugin provides it; {instead(settings.toolchain, builtin_names())}"
            )
        return made

    @cached_property
    def gate(self) -> Gate:
        """The toolchain under test for checks that start processes of it themselves."""
        return Gate.of(self.toolchain, self._evidence)

    def count_for(self, evidence: Evidence) -> None:
        """From now on, count what passes :attr:`gate` for ``evidence``."""
        self._evidence = evidence
        if "gate" in self.__dict__:
            self.gate.evidence = evidence

    def nodes(self, profile: NodeProfile) -> Nodes:
        """The nodes of a profile; raises as :meth:`SharedNodes.of` does."""
        return self._nodes.of(profile)

    def announce(self, sentence: str) -> None:
        """Print a sentence for waiting users, if the run has a terminal."""
        write_now(self._config, sentence)

    @cached_property
    def judged_by(self) -> JudgedBy:
        """The editions of the documents that the run judges by."""
        needed = self.settings.needs_toolchain or self.made_toolchain is not None
        return judged_by(self.settings, self.toolchain if needed else None)

    @property
    def made_toolchain(self) -> Toolchain | None:
        """The toolchain, if something has used it already."""
        return self.__dict__.get("toolchain")

    @cached_property
    def control(self) -> PositiveControl:
        """The positive control of operator caches."""
        sandbox = self.sandbox("control")
        control = positive_control(self.toolchain, CONTROL_OPERATOR, sandbox)
        if not control.reason:
            self.discard(sandbox)
        return control

    @cached_property
    def network_control(self) -> NetworkControl:
        """The control of networks. Raises ``ToolchainError`` if not even one of one operator
        runs."""
        sandbox = self.sandbox("network-control")
        control = network_control(self.toolchain, sandbox, self.sandbox("warm-networks"))
        if not control.reason:
            self.discard(sandbox)
        return control

    @cached_property
    def file_system(self) -> FileSystem:
        """The file system of the sandboxes, and how it treats access times."""
        return probe_file_system(self.base)

    @cached_property
    def shared(self) -> Shared:
        """Warm caches that checks copy instead of compiling again."""
        return Shared(self.sandbox("warm"))

    @property
    def turns(self) -> Path:
        """The lock of what only one check may use at a time, the same for all workers of a run."""
        parent = self.base.parent
        return (parent.parent if hasattr(self._config, "workerinput") else parent) / "turns.lock"

    def alone(self) -> AbstractContextManager[object]:
        """Keep checks with a vendor's programs on other workers waiting: CANN's installers give up
        while any process of the machine has a name like theirs."""
        if isinstance(self.toolchain, ReferenceToolchain):
            return nullcontext()
        return turn(self.turns.with_name("programs.lock"))

    @cached_property
    def package_shelf(self) -> Path:
        """The directory of packages that checks share instead of compiling them again."""
        return self.sandbox("packages")

    @cached_property
    def run(self) -> str:
        """An id of this run of pytest, the same for all of its workers."""
        worker: dict[str, str] = getattr(self._config, "workerinput", {})
        return worker.get("testrunuid") or secrets.token_hex(16)

    @property
    def conversions(self) -> Path:
        """The directory of model conversions, which all workers of this run share; with
        ``--ascend-resume`` a resumed run finds them too."""
        if self.settings.resume is not None:
            return conversions_beside(self.settings.resume)
        is_worker = hasattr(self._config, "workerinput")
        return (self.base.parent.parent if is_worker else self.base) / "conversions"

    @cached_property
    def plan(self) -> Plan:
        """The combinations that ``--ascend-select`` asks for, for this toolchain."""
        toolchain = self.toolchain
        if not {Capability.OPERATOR_CACHE, Capability.CANN_LAYOUT} <= toolchain.capabilities:
            return self.no_plan
        installed = toolchain.installed_socs
        second = other_soc(toolchain.soc)
        has_second = installed is None or second in installed
        socs = (toolchain.soc, second) if has_second else (toolchain.soc,)
        return plan(Matrix(self.settings.matrix), toolchain.capabilities, socs)

    @cached_property
    def no_plan(self) -> Plan:
        """Only the plain combination, for checks that will not run."""
        model = combinations_model(self.toolchain.capabilities)
        return Plan(Matrix(self.settings.matrix), model, (Cell(model, (0,) * len(model.factors)),))

    @cached_property
    def audits(self) -> Audits:
        """The audits of the directories that ``--ascend-audit`` names."""
        return Audits(self.settings.audit.fix is not None, self.judged_by.cann)

    @property
    def base(self) -> Path:
        """The directory of all sandboxes."""
        if self._base is None:
            # Outside a fixture there is no public way to the session's factory.
            factory: pytest.TempPathFactory = self._config._tmp_path_factory  # type: ignore[attr-defined]
            try:
                above = factory.getbasetemp()
                if refused := NO_PATH_OF_ATC.search(str(above)):
                    raise ToolchainError(
                        f"the temporary directory {above} contains {refused[0]!r}, which ATC does "
                        "not accept in paths; name another with --basetemp"
                    )
                self._base = factory.mktemp("ascendcache")
            except OSError as error:
                raise ToolchainError(
                    f"no temporary directory can be made in {error.filename} ({error.strerror}); "
                    "name another with --basetemp"
                ) from None
        return self._base

    def check_base(self) -> None:
        """Raise ``pytest.UsageError`` before the first test if no sandboxes can be made."""
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
        """Run the positive control, which every check needs; that warms up the toolchain."""
        if Capability.OPERATOR_CACHE in self.toolchain.capabilities:
            _ = self.control

    def move(self, base: Path) -> None:
        """Make sandboxes in ``base`` from now on: each rank's process has its own."""
        shared = self.__dict__.get("shared")
        self._base = base
        if shared is not None:
            self.shared = shared.apart(self.sandbox("warm"))

    def sandbox(self, name: str) -> Path:
        """A new empty directory for one check."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", name)[:60].strip("-")
        path = self.base / f"{next(self._numbers)}-{slug}"
        path.mkdir()
        return path

    def discard(self, sandbox: Path) -> None:
        """Remove the sandbox of a check whose processes have ended."""
        shutil.rmtree(sandbox, ignore_errors=True)
        if sandbox.exists():  # the check took permissions away from directories
            for directory in [sandbox, *(each for each in sandbox.rglob("*") if each.is_dir())]:
                if not directory.is_symlink():
                    directory.chmod(0o700)
            shutil.rmtree(sandbox, ignore_errors=True)

    def cache(self, sandbox: Path, evidence: Evidence) -> CacheUnderTest:
        """A cache under test in a sandbox, for fixtures and for the suite's ``Caches``. Raises
        ``ToolchainError`` if the toolchain fails at a plain compile."""
        evidence.control = self.control.reason
        if not self.control.compiles:
            raise ToolchainError(f"no check can be judged: {self.control.reason}")
        edition = self.judged_by.cann
        return CacheUnderTest(self.toolchain, sandbox, self.control, evidence, self.shared, edition)

    @cached_property
    def script_runs(self) -> UndisturbedRuns:
        """Runs of a user's script that nothing disturbs, which checks share."""
        return UndisturbedRuns(self.sandbox("undisturbed"))

    def close(self) -> None:
        """End the toolchain's processes, and unmount the nodes."""
        self._nodes.close()
        if "toolchain" in self.__dict__:
            self.toolchain.close()
