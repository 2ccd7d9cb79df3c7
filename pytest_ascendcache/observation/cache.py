"""The cache under test: a directory of its own, and compiles that are watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import CacheLayout
from pytest_ascendcache.contract import CompileOptions, Edition
from pytest_ascendcache.contract.facts import Fact
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.compiling import WatchedCompiles
from pytest_ascendcache.observation.evidence import Evidence, PositiveControl
from pytest_ascendcache.observation.fresh import FreshCompiles, without_mode
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.recovery import Recovery
from pytest_ascendcache.observation.request_options import (
    CompileKeywords,
    checked,
    checked_operators,
)
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.observation.warm import Preparing, Shared
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain, ToolchainError
from pytest_ascendcache.words.wrong_use import checked_path

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CacheUnderTest(WatchedCompiles):
    """An empty cache directory of its own, with HOME and working directory.

    :meth:`compile` tells which kernels a run reused and what became of their entries. Before each
    run every valid entry is marked with a canary; ``marks = False`` leaves entries unchanged, to
    compare bytes. Compiles are processes of the toolchain under test. ``as_model = True`` compiles
    operators as nodes of one model, see ``CompileRequest``.

    The variables of limits have the names of the documents' default edition here; the toolchain
    gets those of ``edition``.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        control: PositiveControl,
        evidence: Evidence | None = None,
        shared: Shared | None = None,
        edition: Edition | None = None,
    ) -> None:
        super().__init__(toolchain, sandbox, control, evidence, edition)
        self.witness = CacheWitness(self)
        self.views: tuple[Path, ...] = ()
        """Where else the same directory is seen: on other nodes."""
        self._shared = shared or Shared()
        self._preparing = Preparing(self, self._shared)
        self._fresh = FreshCompiles(self, self._shared)
        self._recovery = Recovery(self, self._fresh)

    # Preparing.

    def warm(self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]) -> None:
        """Compile under enable, so that the cache holds a valid entry for each operator. If
        possible, the result of an equal call is copied instead, see :meth:`prepare`. Raises
        ``NotDecidable`` if the cache holds no valid entry afterwards."""
        specs, given = checked_operators("warm", operators), checked("warm", options)

        def make() -> None:
            self._preparing.compile(specs, self._choice(given), given)

        if "environment" in given:
            make()
        else:
            self.prepare((specs, tuple(sorted(given.items()))), make)

    def prepare(self, key: Any, make: Callable[[], None]) -> None:
        """Bring an empty cache into the state that ``make`` produces. To save runs, a cache
        prepared under an equal ``key`` in this session is copied instead, if the positive control
        has seen the toolchain serve from a copy."""
        self._preparing.prepare(key, make)

    # Copies.

    def moved(self, sandbox: Path | str) -> CacheUnderTest:
        """The same toolchain and markers in another sandbox: cache, HOME and working directory.
        What is served there does not depend on where it was compiled.

        Every copy inherits the control, the evidence, the edition, what the session shares, the
        options, whether operators are compiled as a model, the numbers of outputs, the markers, and
        at first whether entries are marked and which are left alone. Entries, witness and recovery
        are its own.
        """
        place = checked_path("sandbox", sandbox)
        other = type(self)(
            self.toolchain, place, self.control, self.evidence, self._shared, self.edition
        )
        other.options, other.as_model, other._numbers = self.options, self.as_model, self._numbers
        other.markers = self.markers.inherited()
        return other

    def elsewhere(self, root: Path | str) -> CacheUnderTest:
        """The same toolchain and sandbox with another cache directory; see :meth:`moved`."""
        other = self.moved(self.sandbox)
        other.root = checked_path("root", root)
        other.layout = CacheLayout(other.root)
        return other

    def seen_at(self, root: Path) -> CacheUnderTest:
        """The same cache as another node sees it, with the same markers, entries and witness."""
        other = self.elsewhere(root)
        other.known, other.witness = self.known, self.witness
        self.views += (root,)
        return other

    # Fresh compiles.

    def lacks(self, soc: str, operator: OperatorSpec) -> str:
        """Why the toolchain does not compile for a chip; empty if it does. It must compile for
        chips whose operators are installed, not for others. Raises ``ToolchainError`` if it fails
        to compile for one of the former."""
        if soc not in self._shared.socs:
            self._shared.socs[soc] = self._tried(soc, operator)
        return self._shared.socs[soc]

    def _tried(self, soc: str, operator: OperatorSpec) -> str:
        installed = self.toolchain.installed_socs
        if soc == self.toolchain.soc:
            return ""
        if installed is not None and soc not in installed:
            return f"no operators for {soc} are installed"
        run = self.elsewhere(self.sandbox / "nowhere").attempt(operator, soc=soc)
        if not run.succeeded and installed is not None:
            raise ToolchainError(f"the toolchain {run.result.failure}")
        return "" if run.succeeded else f"for {soc} the toolchain {run.result.failure}"

    def fresh(self, operator: OperatorSpec, **options: Unpack[CompileKeywords]) -> bytes:
        """The kernel of a compile without any cache: under disable, with an empty directory. Two
        such compiles must agree. The result is remembered for the session. Raises ``NotDecidable``
        if two fresh compiles differ."""
        (spec,) = checked_operators("fresh", (operator,))
        return self._fresh.kernel(spec, **checked("fresh", options))

    def unlike_fresh(
        self, run: Run, environment: Mapping[str, str] | None = None
    ) -> dict[OperatorSpec, str]:
        """Operators of a run whose kernel differs from that of a fresh compile, with the digests of
        both.

        The fresh compile has the run's operators and options. It is remembered unless an
        environment is given. If it differs from the run, a second one must confirm it. Raises
        ``NotDecidable`` if two fresh compiles differ.
        """
        return self._fresh.unlike(run, environment)

    def failed_for_the_cache(self, run: Run, environment: Mapping[str, str] | None = None) -> str:
        """How a run failed that succeeds without a cache; empty if it did not fail. Raises
        ``ToolchainError`` if it fails without a cache too, which is not the cache's fault."""
        if run.succeeded:
            return ""
        self._fresh.succeeds(run, environment)
        failed = f"the toolchain {run.result.failure}"
        return f"observed: {failed}, and a fresh compile of the same succeeds"

    def fresh_digests(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Mapping[str, str] | None,
        options: CompileOptions,
    ) -> dict[OperatorSpec, str]:
        """Digests of the kernels that one compile without a cache delivers for these operators.
        Raises ``ToolchainError`` if it fails."""
        return self._fresh.digests(operators, environment, options)

    def fresh_varies(
        self,
        first: Mapping[OperatorSpec, str],
        environment: Mapping[str, str] | None,
        options: CompileOptions,
    ) -> bool:
        """Whether compiles without a cache have other digests than the ``first`` one, now or
        earlier in this session. Raises ``ToolchainError`` if one fails."""
        return bool(self._fresh.again(tuple(first), first, environment, without_mode(options)))

    def fresh_kernels(self, run: Run) -> tuple[bytes, ...]:
        """The kernels that a compile without a cache delivers for the operators of a run. Raises
        ``ToolchainError`` if it fails."""
        return self._fresh.kernels(run)

    def delivers_fresh(
        self, run: Run, operator: OperatorSpec, **options: Unpack[CompileKeywords]
    ) -> bool:
        """Whether a run delivered the kernel of a fresh compile, byte by byte. Before it says no,
        fresh compiles must agree once more. Raises ``NotDecidable`` if they do not."""
        (spec,) = checked_operators("delivers_fresh", (operator,))
        return self._fresh.is_fresh(run, spec, **checked("delivers_fresh", options))

    # Interruptions.

    def interruption(
        self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]
    ) -> Interruption[Run]:
        """Record a compile now, so that it can be interrupted later. Takes what :meth:`request`
        takes. Needs ``Capability.FAULT_POINTS``. Raises ``NotDecidable`` if it does not succeed
        undisturbed."""
        return self._recovery.interruption(operators, checked("interruption", options))

    def recovery(self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]) -> Fact | None:
        """What is wrong with the next two runs under enable; None if the cache has recovered.

        The first run must deliver the kernels of fresh compiles, byte by byte. The second must
        reuse them; it is skipped if the directory's contents equal those before an earlier,
        successful second run. The steps of successful runs are dropped from the evidence: there are
        hundreds.
        """
        return self._recovery.problem(operators, checked("recovery", options))
