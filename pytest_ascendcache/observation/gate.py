"""The gate: the one place that starts processes of a toolchain.

Every run that a check, a scenario, a stress campaign, a rank, a control, the doctor or a look for
harm makes passes it. The gate counts the run for the evidence of its check, records it as a
:class:`GatedRun`, and asks what holds after every run (``invariants``). No other module calls the
starting methods of a toolchain; ``tests/observation/test_gate.py`` holds the package to that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pytest_ascendcache.contract import CacheMode, CompileOptions
from pytest_ascendcache.contract.facts import Fact
from pytest_ascendcache.observation.evidence import Evidence
from pytest_ascendcache.observation.gated_run import (
    ByHand,
    GatedRun,
    Looked,
    ProcessKind,
    Result,
    look,
    run_of,
)
from pytest_ascendcache.observation.health import Accident, Health, health_of
from pytest_ascendcache.observation.invariants import (
    broken_besides,
    broken_invariants,
    named_files,
    names_in,
)
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.ending import ProcessResult
from pytest_ascendcache.toolchains import (
    BaseToolchain,
    CompileRequest,
    CompileResult,
    ConvertRequest,
    ConvertResult,
    KernelRunError,
    ModelConverter,
    RankProcess,
    StaticProcess,
    StaticRequest,
    StaticResult,
    Toolchain,
    ToolchainError,
    TrainRequest,
    TrainResult,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_ascendcache.toolchains.torchair import Card, ScriptRun

    _Forwarded = BaseToolchain
else:
    _Forwarded = object

Ended = TypeVar("Ended", bound=ProcessResult)
Record = TypeVar("Record")
_KEPT = 8
"""Records that a gate keeps."""
_COUNTING = threading.Lock()
_NOT_FORWARDED = frozenset({"convert_together", "run_model", "start_gang", "started"})
"""Starting methods that only some toolchains have: a gate's own methods stand in their place, and
only where the toolchain has them."""


class GatedProcess(Generic[Record]):
    """What a toolchain started, recorded when it is waited for; else it is as the toolchain made
    it."""

    def __init__(self, process: Any, record: Callable[[Any], Record]) -> None:
        self._process = process
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_process"], name)

    def ended(self, *patience: Any) -> Record:
        """Wait for its end, as its ``wait`` does, and return the record. Raises ``ValueError`` or
        ``OSError`` if it was waited for before."""
        return self._record(self._process.wait(*patience))

    def wait(self, *patience: Any) -> Any:
        """Wait for its end."""
        result = self._process.wait(*patience)
        self._record(result)
        return result


class Gate(_Forwarded):
    """A toolchain whose every process is counted for ``evidence`` and recorded.

    It has all attributes of the toolchain. ``runs`` are the last records, the newest last.
    """

    def __init__(self, toolchain: Toolchain, evidence: Evidence) -> None:
        self._toolchain = toolchain
        self.evidence = evidence
        self.runs: deque[GatedRun[Any]] = deque(maxlen=_KEPT)

    @classmethod
    def of(cls, toolchain: Toolchain, evidence: Evidence | None = None) -> Gate:
        """The gate of a toolchain, which counts for ``evidence``. A gate is not gated again;
        without ``evidence`` it counts for whom it did."""
        if not isinstance(toolchain, Gate):
            return cls(toolchain, evidence or Evidence())
        return toolchain if evidence is None else cls(toolchain._toolchain, evidence)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in _NOT_FORWARDED:
            raise AttributeError(name)
        return getattr(self.__dict__["_toolchain"], name)

    # Operators.

    def compiled(
        self, requests: Sequence[CompileRequest], before: Looked | None = None
    ) -> list[GatedRun[CompileResult]]:
        """Start one process for each request, all at the same time, and wait for all of them.
        Directories of ``before`` are looked at again afterwards. A single process that crashes or
        does not end is started again, see ``health``. Raises ``ToolchainError`` if a process
        cannot be started, or the toolchain no longer answers."""
        runs = self._compiled(requests, before)
        if len(runs) == 1 and runs[0].accident and not self.evidence.is_looking:
            return [self._again(runs[0], before)]
        return runs

    def _compiled(
        self, requests: Sequence[CompileRequest], before: Looked | None
    ) -> list[GatedRun[CompileResult]]:
        health = self.health
        if health.stopped:
            raise ToolchainError(health.stopped)
        named = named_files(requests)
        beside = names_in(requests[0].work) if len(requests) == 1 else None
        results = self._toolchain.compile_together(requests)
        number = self._count(len(results), sum(len(each.operators) for each in requests))
        pairs = zip(requests, results, strict=True)
        runs = self._ended(ProcessKind.COMPILE, number, pairs, before, named, beside)
        for run in () if self._repeats_itself else runs:
            health.note(run)
        if health.is_doubtful:
            self._try(requests[0])
        return runs

    def _again(
        self, first: GatedRun[CompileResult], before: Looked | None
    ) -> GatedRun[CompileResult]:
        """The run of the same request, in the same place. Raises ``Accident`` if it ends well, but
        the first one changed the cache."""
        if self._repeats_itself:
            return first
        output = first.request.output
        request = replace(first.request, output=output.with_name(f"{output.name}-again"))
        (second,) = self._compiled([request], before)
        if second.accident:
            return second
        sentence = self.health.happened(self._toolchain.name, first)
        if any(then.disturbed(first.after[each]) for each, then in first.before.items()):
            raise Accident(sentence)
        return second

    def _try(self, request: CompileRequest) -> None:
        """Compile one operator of a request as plainly as possible, to see whether the toolchain
        still answers. Raises ``ToolchainError`` if it does not."""
        plain = CompileRequest(
            operators=request.operators[:1],
            options=CompileOptions(soc=request.options.soc, cache_mode=CacheMode.DISABLE),
            cache_dir=None,
            output=request.output.with_name(f"{request.output.name}-plain"),
            work=request.work,
            home=request.home,
        )
        self._count(1, 1)
        (result,) = self._toolchain.compile_together([plain])
        if not run_of(0, ProcessKind.COMPILE, plain, result, {}, {}).accident:
            self.health.recovered()
            return
        self.health.stop(self._toolchain.name)
        raise ToolchainError(self.health.stopped)

    @property
    def health(self) -> Health:
        """How runs of the toolchain end, by all gates together."""
        return health_of(self._toolchain)

    @property
    def _repeats_itself(self) -> bool:
        """Whether the toolchain says that it has no accidents: what fails once fails again."""
        return getattr(self._toolchain, "repeats_itself", False)

    def compile_together(self, requests: Sequence[CompileRequest]) -> list[CompileResult]:
        return [each.result for each in self.compiled(requests)]

    def outputs(
        self, model: Path, operator: OperatorSpec, inputs: Sequence[NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """Run a delivered kernel, see ``Toolchain.run_kernel``."""
        return self._run(model, lambda: self._toolchain.run_kernel(model, operator, inputs))

    run_kernel = outputs

    # Networks.

    def rank(
        self, request: TrainRequest, before: Looked | None = None
    ) -> GatedProcess[GatedRun[TrainResult]]:
        """Start one rank's run of a network. Raises ``ToolchainError`` if it cannot be started."""
        process = self._toolchain.start_rank(request)
        number = self._count(1, len(request.network.nodes))
        return GatedProcess(process, lambda result: self._ranks(number, [result], before)[0])

    def start_rank(self, request: TrainRequest) -> RankProcess:
        return cast("RankProcess", self.rank(request))

    def gang(
        self, request: TrainRequest, size: int, port: int, before: Looked | None = None
    ) -> GatedProcess[list[GatedRun[TrainResult]]]:
        """Start ``size`` ranks with the toolchain's launcher. Needs ``Capability.GANG_LAUNCHER``.
        Raises ``ToolchainError`` if they cannot be started."""
        gang = cast("Any", self._toolchain).start_gang(request, size, port)
        number = self._count(size, size * len(request.network.nodes))
        return GatedProcess(gang, lambda results: self._ranks(number, results, before))

    def _ranks(
        self, number: int, results: Sequence[TrainResult], before: Looked | None
    ) -> list[GatedRun[TrainResult]]:
        return self._ended(ProcessKind.RANK, number, _asked(results), before)

    # Static kernels and models.

    def static(self, request: StaticRequest) -> StaticProcess:
        """Start op_compiler, a package or a client. Raises ``ToolchainError`` if it cannot be
        started."""
        named = named_files([request])
        process = self._toolchain.start_static(request)
        number = self._count(1)

        def ended(result: StaticResult) -> GatedRun[StaticResult]:
            return self._ended(ProcessKind.STATIC, number, [(request, result)], named=named)[0]

        return cast("StaticProcess", GatedProcess(process, ended))

    start_static = static

    @property
    def converts(self) -> bool:
        """Whether the toolchain converts models."""
        return isinstance(self._toolchain, ModelConverter) and self._toolchain.converts_models

    def converted(self, requests: Sequence[ConvertRequest]) -> list[ConvertResult]:
        """Like :meth:`compiled`, for conversions of models."""
        named = named_files(requests)
        results: list[ConvertResult] = cast("Any", self._toolchain).convert_together(requests)
        number = self._count(len(results))
        self._ended(ProcessKind.CONVERSION, number, _asked(results), named=named)
        return results

    def model_outputs(
        self, model: Path, inputs: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Run a converted model, see ``ModelConverter.run_model``."""
        return self._run(model, lambda: cast("Any", self._toolchain).run_model(model, inputs))

    # Scripts, and what no request describes.

    @contextmanager
    def run_script(
        self, work: Path, port: int, cards: int | Sequence[Card], first_on_path: Path | None
    ) -> Iterator[GatedProcess[None]]:
        """Run a user's script, see ``TorchairToolchain.started``."""
        starting = cast("Any", self._toolchain).started(work, port, cards, first_on_path)
        with starting as started:
            number = self._count(len(started.commands))
            yield GatedProcess(started, lambda run: self._script(number, run))

    def _script(self, number: int, run: ScriptRun) -> None:
        for place, (command, code) in enumerate(zip(run.commands, run.returncodes, strict=True)):
            request = ByHand(command, run.work)
            self._record(GatedRun(number + place, ProcessKind.SCRIPT, request, run, code))

    def by_hand(self, request: ByHand, run: Callable[[], int]) -> int:
        """Have ``run`` run a process of the toolchain to its end as a person or another program
        would. Returns the exit status."""
        number, status = self._count(1), run()
        return self._record(GatedRun(number, ProcessKind.STATIC, request, status, status)).result

    # Counting and recording.

    def _count(self, starts: int, compiles: int = 0) -> int:
        """Count processes; return the number of the first."""
        with _COUNTING:
            first = self.evidence.starts + 1
            self.evidence.starts += starts
            self.evidence.compiles += compiles
        return first

    def _ended(
        self,
        kind: ProcessKind,
        number: int,
        pairs: Iterable[tuple[Any, Result]],
        before: Looked | None = None,
        named: Mapping[Path, str] | None = None,
        beside: frozenset[str] | None = None,
    ) -> list[GatedRun[Result]]:
        """Record processes that were started together, each a request with its result."""
        before = before or {}
        known = before, look(*before), named, beside
        return [
            self._record(run_of(number + place, kind, request, result, *known))
            for place, (request, result) in enumerate(pairs)
        ]

    def _record(self, run: GatedRun[Result]) -> GatedRun[Result]:
        """Keep the record. What may never be breaks the check, if it has not ended."""
        self.runs.append(run)
        for rule, fact in broken_besides(run, reads_entries=not self.evidence.control):
            self.evidence.saw_besides(rule, fact)
        self.require_none(broken_invariants(run, self.health.made))
        return run

    def require_none(self, broken: Iterable[Fact]) -> None:
        """Break the check with these facts, if there are any and it has not ended."""
        facts = [*broken]
        self.evidence.facts += facts
        if facts and not self.evidence.only_collects:
            raise AssertionError("\n".join(map(str, facts)))

    def _run(self, model: Path, run: Callable[[], Result]) -> Result:
        """Run what was compiled."""
        request = ByHand(f"run {model}", model.parent)
        try:
            outputs = run()
        except KernelRunError:
            self._record(GatedRun(0, ProcessKind.KERNEL, request, None, 1))
            raise
        self._record(GatedRun(0, ProcessKind.KERNEL, request, outputs, 0))
        return outputs


def _asked(results: Iterable[Ended]) -> Iterator[tuple[Any, Ended]]:
    """Results with the requests that they name."""
    return ((each.request, each) for each in results)


class Gated:
    """What starts processes of a toolchain for a check: all pass its gate, which counts them for
    ``evidence``. A gate that is given without evidence goes on counting for whom it did."""

    def __init__(self, toolchain: Toolchain, evidence: Evidence | None) -> None:
        self._gate = Gate.of(toolchain, evidence)
        is_gate = isinstance(toolchain, Gate)
        self._evidence = evidence or (Evidence() if is_gate else self._gate.evidence)

    @property
    def toolchain(self) -> Gate:
        """The toolchain under test. Another one may be put in its place."""
        return self._gate

    @toolchain.setter
    def toolchain(self, toolchain: Toolchain) -> None:
        self._gate = Gate.of(toolchain, self._evidence)

    @property
    def evidence(self) -> Evidence:
        """What the check did and saw. Runs count for the one that is set last."""
        return self._evidence

    @evidence.setter
    def evidence(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._gate = Gate.of(self._gate, evidence)


def behind(toolchain: Toolchain) -> Toolchain:
    """The toolchain itself, which each check has a gate of: under it stands what is found out once
    in a session."""
    return toolchain._toolchain if isinstance(toolchain, Gate) else toolchain
