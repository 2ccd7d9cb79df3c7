"""The cache under test: a directory of its own, and compiles that are watched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import (
    CacheLayout,
    Canary,
    Entry,
    Snapshot,
    find_canaries,
    plant_canary,
    read_entries,
)
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode, CompileOptions, Edition, Fate
from pytest_ascendcache.contract.editions import default
from pytest_ascendcache.contract.outcome import KEPT, REUSED, Outcome
from pytest_ascendcache.faults import Tree
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, PositiveControl, Step
from pytest_ascendcache.observation.interruption import Interruption
from pytest_ascendcache.observation.request_options import (
    REQUESTED,
    CompileKeywords,
    ModeName,
    RequestOptions,
    checked,
    checked_operators,
    checked_requests,
)
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileRequest, CompileResult, Toolchain, ToolchainError
from pytest_ascendcache.words.wrong_use import checked_path

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class WarmCache:
    """A copy of a prepared cache, with its known entries and the steps that made it."""

    root: Path
    sandbox: Path
    tokens: Mapping[str, Canary]
    known: Mapping[tuple[OperatorSpec, CompileOptions], str]
    steps: tuple[Step, ...]


class Shared:
    """What checks of one session need not compile again.

    ``fresh`` has kernels of compiles without a cache, ``fresh_runs`` their digests for each run.
    ``warm`` has copies of prepared caches below ``directory``; without one nothing is copied.
    ``socs`` says why a chip cannot be compiled for; empty if it can.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.fresh: dict[Any, bytes] = {}
        self.fresh_runs: dict[Any, dict[OperatorSpec, str]] = {}
        self.warm: dict[Any, WarmCache] = {}
        self.socs: dict[str, str] = {}
        self._directory = directory

    def apart(self, directory: Path) -> Shared:
        """A copy for another process, which keeps its own copies in ``directory``."""
        other = Shared(directory)
        other.fresh.update(self.fresh)
        other.warm.update(self.warm)
        other.socs.update(self.socs)
        return other

    def keep_warm(self, key: Any, cache: CacheUnderTest, steps: Iterable[Step]) -> None:
        """Copy a cache that was just prepared, with its markers."""
        if self._directory is None:
            return
        cache.mark()
        root = self._directory / str(len(self.warm))
        shutil.copytree(cache.root, root, symlinks=True)
        copied = tuple(replace(each, ending="copied from an equal compile") for each in steps)
        self.warm[key] = WarmCache(root, cache.sandbox, *cache.known_state(), copied)


class CacheUnderTest:
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
        self.toolchain = toolchain
        self.edition = edition or default()
        self.sandbox = sandbox
        self.root = sandbox / "cache"
        self.home = sandbox / "home"
        self.work = sandbox / "work"
        self.layout = CacheLayout(self.root)
        self.evidence = evidence or Evidence()
        self.options = CompileOptions(soc=toolchain.soc)
        self.marks = control.serves_marked and not toolchain.birthmarks
        self.as_model = False
        self._born: set[str] = set()
        self._control = control
        self._numbers = count()
        self._tokens: dict[str, Canary] = {}
        self._left_alone: set[str] = set()
        self._known: dict[tuple[OperatorSpec, CompileOptions], str] = {}
        self._shared = shared or Shared()
        self.witness = CacheWitness(self)
        self.views: tuple[Path, ...] = ()
        """Where else the same directory is seen: on other nodes."""
        self.recovered: set[frozenset[object]] = set()
        """Contents from which a second run was seen to reuse correct kernels."""
        for directory in (self.home, self.work):
            directory.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"<cache in {self.sandbox}>"

    def compile(
        self,
        *operators: OperatorSpec,
        mode: CacheMode | ModeName | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Run:
        """Compile in one process and watch it. ``options`` are those of :meth:`request`. Raises
        ``ToolchainError`` if the process fails or does not end (no verdict rests on it), and
        ``WrongUse`` for options that do not exist."""
        run = self.attempt(*operators, mode=mode, environment=environment, **options)
        if not run.succeeded:
            raise ToolchainError(f"the toolchain {run.result.failure}")
        return run

    def needs_reuse(self) -> None:
        """Call this before checking that something bad is not served: a toolchain that serves
        nothing would pass. Raises ``NotDecidable`` if the positive control has seen no reuse."""
        if not self._control.reuses:
            raise NotDecidable(f"nothing is ever served, good or bad: {self._control.reason}")

    def attempt(self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]) -> Run:
        """Like :meth:`compile`, but a failure is a valid result. Raises ``ToolchainError`` if the
        process does not end."""
        return self.together([self.request(*operators, **options)])[0]

    def request(
        self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]
    ) -> CompileRequest:
        """The request of :meth:`compile`. ``cache_dir`` is this cache by default; the other
        ``options`` are fields of ``CompileOptions`` and of :class:`RequestOptions`."""
        specs, given = checked_operators("compile", operators), checked("compile", options)
        directory = given.pop("cache_dir", self.root)
        mode, environment = given.pop("mode", None), given.pop("environment", None)
        other = {name: given.pop(name) for name in REQUESTED & given.keys()}
        return CompileRequest(
            operators=specs,
            options=self.options.but(cache_mode=mode, **given),
            cache_dir=directory,
            output=self.new_output(),
            work=self.work,
            home=self.home,
            environment=self.edition.limits_in(environment or {}),
            raw_options=other.pop("raw_options", None) or {},
            as_model=self.as_model,
            **other,
        )

    def new_output(self) -> Path:
        """An output directory that has not been used."""
        return self.sandbox / f"out{next(self._numbers)}"

    def together(self, requests: Sequence[CompileRequest]) -> list[Run]:
        """Start one process for each request, all at the same time, between one pair of snapshots.
        Raises ``ToolchainError`` if one of them does not end."""
        requests = checked_requests("together", requests)
        bystanders = self.witness.bystanders(requests)
        runs = self._watched(requests)
        self.witness.compare(bystanders)
        for run in runs:
            self.witness.note(run)
        for run in runs:
            if run.returncode is None:
                raise ToolchainError(f"the toolchain {run.result.failure}")
        return runs

    def again(self, request: CompileRequest) -> Run:
        """Start one process to see the state of the cache. Not ending is a valid result."""
        return self._watched([request])[0]

    def _watched(self, requests: Sequence[CompileRequest]) -> list[Run]:
        self.mark()
        before = Snapshot.take(self.root)
        results = self.toolchain.compile_together(requests)
        after = Snapshot.take(self.root)
        return [
            self._observed(request, result, before, after)
            for request, result in zip(requests, results, strict=True)
        ]

    def warm(self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]) -> None:
        """Compile under enable, so that the cache holds a valid entry for each operator. If
        possible, the result of an equal call is copied instead, see :meth:`prepare`. Raises
        ``NotDecidable`` if the cache holds no valid entry afterwards."""
        operators, given = checked_operators("warm", operators), checked("warm", options)
        if "environment" in given:
            self._warm(operators, given)
        else:
            key = (operators, tuple(sorted(given.items())))
            self.prepare(key, lambda: self._warm(operators, given))

    def prepare(self, key: Any, make: Callable[[], None]) -> None:
        """Bring an empty cache into the state that ``make`` produces. To save runs, a cache
        prepared under an equal ``key`` in this session is copied instead, if the positive control
        has seen the toolchain serve from a copy."""
        pristine, key = not self.root.exists(), (self.as_model, self.marks, key)
        template = self._shared.warm.get(key) if pristine else None
        if template is None:
            first = len(self.evidence.steps)
            make()
            if pristine and self._control.relocates and self.root.exists():
                self._shared.keep_warm(key, self, self.evidence.steps[first:])
            return
        shutil.copytree(template.root, self.root, symlinks=True)
        self._tokens.update(template.tokens)
        self._known.update(template.known)
        # The commands that would have the same effect here.
        old, new = str(template.sandbox), str(self.sandbox)
        self.evidence.steps += [
            replace(step, command=step.command.replace(old, new)) for step in template.steps
        ]

    def _warm(self, operators: tuple[OperatorSpec, ...], options: Mapping[str, Any]) -> None:
        if self.as_model and len({each.type for each in operators}) < len(operators):
            # Until entries are known, only its type tells which operator of a model an object
            # belongs to.
            for operator in operators:
                self._warm((operator,), options)
            return
        choice = self._choice(options)
        run = self.compile(*operators, mode=CacheMode.ENABLE, **options)
        for operator in operators:
            stem = run.stem(operator)
            problems = ["there is none"]
            if stem is not None:
                problems = Entry(stem, self.layout.soc(choice.soc)).problems()
                self._known[(operator, choice)] = stem
            if problems:
                raise NotDecidable(
                    f"warming up left no valid entry for {operator}: {'; '.join(problems)}"
                )

    def entry(self, operator: OperatorSpec, **options: Unpack[CompileKeywords]) -> Entry:
        """The current state of the entry that :meth:`warm` made for an operator under these
        options. Raises ``NotDecidable`` if this cache was not warmed with it."""
        (operator,) = checked_operators("entry", (operator,))
        choice = self._choice(checked("entry", options))
        stem = self._known.get((operator, choice))
        if stem is None:
            raise NotDecidable(f"the cache was not warmed with {operator}")
        return Entry(stem, self.layout.soc(choice.soc))

    def learn(self, operator: OperatorSpec, stem: str | None, options: CompileOptions) -> None:
        """Record the entry of an operator under these options, as :meth:`warm` does; None forgets
        it."""
        if stem is None:
            self._known.pop((operator, options.entry_choice), None)
        else:
            self._known[(operator, options.entry_choice)] = stem

    def _choice(self, options: Mapping[str, Any]) -> CompileOptions:
        """The fields of ``CompileOptions`` among these that choose an operator's entry."""
        names = {each.name for each in fields(CompileOptions)}
        chosen = {key: value for key, value in options.items() if key in names}
        return self.options.but(**chosen).entry_choice

    def entries(self, soc: str | None = None) -> dict[str, Entry]:
        """Every entry of one chip by stem, incomplete ones included."""
        return read_entries(self.layout.soc(soc or self.options.soc))

    def forget_reads(self) -> None:
        """Set access times an hour before modification, so that the next read shows under relatime.
        Looking and copying may have left them newer than the change time; relatime would not move
        them."""
        self.mark()
        for path in self.root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                modified = path.stat().st_mtime_ns
                os.utime(path, ns=(modified - 3600 * 10**9, modified))

    def damaged(self, operator: OperatorSpec, soc: str | None = None) -> str:
        """The first problem among the entries of the operator's type; empty if there is none."""
        kind = operator.type.lower()
        problems = [
            problem
            for entry in self.entries(soc).values()
            if entry.operator_type == kind
            for problem in entry.problems()
        ]
        return problems[0] if problems else ""

    def problems(self) -> list[str]:
        """Everything wrong with the entries of the default chip; empty for a sound cache."""
        return [
            f"{stem}: {problem}"
            for stem, entry in self.entries().items()
            for problem in entry.problems()
        ]

    def moved(self, sandbox: Path | str) -> CacheUnderTest:
        """The same toolchain and markers in another sandbox: cache, HOME and working directory.
        What is served there does not depend on where it was compiled."""
        place = checked_path("sandbox", sandbox)
        other = type(self)(
            self.toolchain, place, self._control, self.evidence, self._shared, self.edition
        )
        other._numbers, other._tokens, other._born = self._numbers, self._tokens, self._born
        other.options, other.as_model = self.options, self.as_model
        return other

    def elsewhere(self, root: Path | str) -> CacheUnderTest:
        """The same toolchain and sandbox with another cache directory."""
        other = self.moved(self.sandbox)
        other.root = checked_path("root", root)
        other.layout = CacheLayout(other.root)
        return other

    def seen_at(self, root: Path) -> CacheUnderTest:
        """The same cache as another node sees it, with the same markers, entries and witness."""
        other = self.elsewhere(root)
        other._known, other._left_alone = self._known, self._left_alone
        other.witness = self.witness
        self.views += (root,)
        return other

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

    def fate(self, run: Run, operator: OperatorSpec, **options: Unpack[CompileKeywords]) -> Fate:
        """What a run did to the entry that :meth:`warm` made for an operator under these
        options."""
        entry = self.entry(operator, **options)
        relative = entry.directory.relative_to(self.root)
        return run.fate_of(f"{relative}/{entry.stem}")

    def fresh(self, operator: OperatorSpec, **options: Unpack[CompileKeywords]) -> bytes:
        """The kernel of a compile without any cache: under disable, with an empty directory. Two
        such compiles must agree. The result is remembered for the session. Raises ``NotDecidable``
        if two fresh compiles differ."""
        operators, given = checked_operators("fresh", (operator,)), checked("fresh", options)
        environment = given.pop("environment", None)
        key = (self.as_model, operator, tuple(sorted(given.items())))
        if environment is not None or key not in self._shared.fresh:
            ((first,), (second,)) = (
                self._fresh_compile(operators, environment, given) for _ in "12"
            )
            if first != second:
                raise NotDecidable(f"{operator}: two fresh compiles give different kernels")
            if environment is not None:
                return first
            self._shared.fresh[key] = first
        return self._shared.fresh[key]

    def unlike_fresh(
        self, run: Run, environment: Mapping[str, str] | None = None
    ) -> dict[OperatorSpec, str]:
        """Operators of a run whose kernel differs from that of a fresh compile, with the digests of
        both.

        The fresh compile has the run's operators and options. It is remembered unless an
        environment is given. If it differs from the run, a second one must confirm it. Raises
        ``NotDecidable`` if two fresh compiles differ.
        """
        options = run.result.request.options.but(cache_mode=None)
        fresh = self._fresh_run(run.operators, environment, options)
        delivered = {each: run.unmarked_sha256(each) for each in run.operators}
        if delivered == fresh:
            return {}
        if self.fresh_digests(run.operators, environment, options) != fresh:
            raise NotDecidable("two fresh compiles give different kernels")
        return {
            each: f"delivered {delivered[each][:12]}, fresh {fresh[each][:12]}"
            for each in run.operators
            if delivered[each] != fresh[each]
        }

    def failed_for_the_cache(self, run: Run, environment: Mapping[str, str] | None = None) -> str:
        """How a run failed that succeeds without a cache; empty if it did not fail. Raises
        ``ToolchainError`` if it fails without a cache too, which is not the cache's fault."""
        if run.succeeded:
            return ""
        options = run.result.request.options.but(cache_mode=None)
        self._fresh_run(run.operators, environment, options)
        failed = f"the toolchain {run.result.failure}"
        return f"observed: {failed}, and a fresh compile of the same succeeds"

    def _fresh_run(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Mapping[str, str] | None,
        options: CompileOptions,
    ) -> dict[OperatorSpec, str]:
        """Digests of a fresh compile, remembered unless an environment is given."""
        if environment is not None:
            return self.fresh_digests(operators, environment, options)
        key = (self.as_model, operators, options)
        if key not in self._shared.fresh_runs:
            self._shared.fresh_runs[key] = self.fresh_digests(operators, None, options)
        return self._shared.fresh_runs[key]

    def fresh_digests(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Mapping[str, str] | None,
        options: CompileOptions,
    ) -> dict[OperatorSpec, str]:
        """Digests of the kernels that one compile without a cache delivers for these operators.
        Raises ``ToolchainError`` if it fails."""
        kernels = self._fresh_compile(operators, environment, _without_mode(options))
        return dict(zip(operators, map(sha256, kernels), strict=True))

    def fresh_kernels(self, run: Run) -> tuple[bytes, ...]:
        """The kernels that a compile without a cache delivers for the operators of a run. Raises
        ``ToolchainError`` if it fails."""
        request = run.result.request
        options = _without_mode(request.options)
        return self._fresh_compile(run.operators, request.environment, options)

    def _fresh_compile(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Mapping[str, str] | None,
        options: Mapping[str, Any],
    ) -> tuple[bytes, ...]:
        empty = self.sandbox / f"empty{next(self._numbers)}"
        request = self.request(
            *operators, mode=CacheMode.DISABLE, environment=environment, cache_dir=empty, **options
        )
        run = self._unmarked(request)
        if not run.succeeded:
            raise ToolchainError(f"the toolchain {run.result.failure}")
        return tuple(map(run.kernel, operators))

    def interruption(
        self, *operators: OperatorSpec, **options: Unpack[CompileKeywords]
    ) -> Interruption[Run]:
        """Record a compile now, so that it can be interrupted later. Takes what :meth:`request`
        takes. Needs ``Capability.FAULT_POINTS``. Raises ``NotDecidable`` if it does not succeed
        undisturbed."""
        request = self.request(*operators, **options)
        logs = self.sandbox / f"record-{self.new_output().name}"
        return Interruption(
            self.root,
            logs,
            self.toolchain.fault_route(),
            lambda plan: self.unwatched(replace(request, output=self.new_output(), plan=plan)),
        )

    def delivers_fresh(
        self, run: Run, operator: OperatorSpec, **options: Unpack[CompileKeywords]
    ) -> bool:
        """Whether a run delivered the kernel of a fresh compile, byte by byte."""
        return _delivers(run, operator, self.fresh(operator, **options))

    def recovery(
        self, *operators: OperatorSpec, environment: Any = None, **options: Any
    ) -> str | None:
        """What is wrong with the next two runs under enable; None if the cache has recovered.

        The first run must deliver the kernels of fresh compiles, byte by byte. The second must
        reuse them; it is skipped if the directory's contents equal those before an earlier,
        successful second run. The steps of successful runs are dropped from the evidence: there are
        hundreds.
        """
        steps = len(self.evidence.steps)
        expected = [self.fresh(each, environment=environment, **options) for each in operators]
        request = {"mode": CacheMode.ENABLE, "environment": environment, **options}
        marks, self.marks = self.marks, False
        try:
            first = self.attempt(*operators, **request)
        finally:
            self.marks = marks
        if not first.succeeded:
            return f"the next run {first.result.ending}"
        for operator, kernel in zip(operators, expected, strict=True):
            if not _delivers(first, operator, kernel):
                return f"the next run delivers a wrong kernel of {operator}"
        content = Tree.read(self.root).content
        if content in self.recovered:
            del self.evidence.steps[steps:]
            return None
        stored = {
            stem: entry.object_bytes for stem, entry in self.entries(options.get("soc")).items()
        }
        second = self.attempt(*operators, **request)
        if not second.succeeded:
            return f"the run after the next {second.result.ending}"
        for operator, kernel in zip(operators, expected, strict=True):
            try:
                outcome = second[operator]
            except NotDecidable:
                if damaged := self.damaged(operator, options.get("soc")):
                    return f"the next runs leave the entry of {operator} damaged: {damaged}"
                raise
            if outcome != Outcome(REUSED, KEPT):
                return f"the run after the next has {operator} {outcome}"
            stem = second.stem(operator)
            if stem is None or sha256(stored.get(stem) or b"") != sha256(kernel):
                return f"the run after the next serves a wrong kernel of {operator}"
        self.recovered.add(content)
        del self.evidence.steps[steps:]
        return None

    def unwatched(self, request: CompileRequest) -> Run:
        """Run one process without markers and snapshots, for compiles that must not be
        disturbed."""
        run = self._unmarked(request)
        self.witness.note(run)
        return run

    def _unmarked(self, request: CompileRequest) -> Run:
        (result,) = self.toolchain.compile_together([request])
        return self._observed(request, result, Snapshot({}), Snapshot({}))

    def known_state(
        self,
    ) -> tuple[dict[str, Canary], dict[tuple[OperatorSpec, CompileOptions], str]]:
        """Canaries by token, and entries by operator and options."""
        return dict(self._tokens), dict(self._known)

    def mark(self) -> None:
        """Mark every valid entry that has no marker yet. Each compile begins with this."""
        if not self.marks:
            return
        for soc in self.layout.socs():
            for entry in read_entries(self.layout.soc(soc)).values():
                if entry.stem in self._left_alone:
                    continue
                if entry.is_valid and not find_canaries(entry.object_bytes or b""):
                    canary = plant_canary(entry)
                    self._tokens[canary.token] = canary

    def trust_marks(self) -> None:
        """Mark entries from now on, if this toolchain serves marked ones."""
        self.marks = self._control.serves_marked and not self.toolchain.birthmarks

    def leave_alone(self, stems: Iterable[str]) -> None:
        """Never mark these entries. They are large, and no check asks for their operators."""
        self._left_alone.update(stems)

    def _observed(
        self, request: CompileRequest, result: CompileResult, before: Snapshot, after: Snapshot
    ) -> Run:
        """The run of a process that has ended, recorded as evidence."""
        choice = request.options.entry_choice
        run = Run(
            result=result,
            operators=request.operators,
            before=before,
            after=after,
            marked=dict(self._tokens) if self.marks else None,
            born=self._seen(result) if self.toolchain.birthmarks else None,
            known={
                operator: stem
                for (operator, known_choice), stem in self._known.items()
                if known_choice == choice
            },
            prefix=f"{self.layout.kernel_cache.relative_to(self.root)}/",
        )
        self._note(run)
        return run

    def _seen(self, result: CompileResult) -> frozenset[str]:
        """The birthmarks that were delivered before this run."""
        before = frozenset(self._born)
        for path in filter(None, result.delivered):
            self._born |= find_canaries(path.read_bytes())
        return before

    def _note(self, run: Run) -> None:
        self.evidence.starts += 1
        self.evidence.compiles += len(run.operators)
        self.evidence.sizes += run.sizes(self.evidence.starts)
        before, after = run.before.files, run.after.files
        metadata = {
            path: (before[path].text, after[path].text)
            for path in run.shown_changes
            if path.endswith(".json") and path in before and path in after
        }
        log = "" if run.succeeded else run.result.log
        self.evidence.steps.append(run.step(log, metadata))


def _delivers(run: Run, operator: OperatorSpec, kernel: bytes) -> bool:
    """Whether a run delivered this kernel. It did not if no object is found in the delivered
    file."""
    try:
        return run.kernel(operator) == kernel
    except NotDecidable:
        return False


def _without_mode(options: CompileOptions) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "cache_mode"}
