"""The cache under test: an isolated directory, and compiles that are watched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

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
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.evidence import (
    Evidence,
    NotDecidable,
    PositiveControl,
    Step,
)
from pytest_ascendcache.observation.observed import shown_output
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import (
    CompileRequest,
    CompileResult,
    Toolchain,
    ToolchainError,
)

_Cache = TypeVar("_Cache", bound="WatchedCache")


@dataclass(frozen=True)
class WarmCache:
    """A copy of a prepared cache, with what is known of it and the steps that made it."""

    root: Path
    sandbox: Path
    tokens: Mapping[str, Canary]
    known: Mapping[tuple[OperatorSpec, CompileOptions], str]
    steps: tuple[Step, ...]


class Shared:
    """What checks of one session need not compile again.

    ``fresh``: kernels of compiles no cache had a part in, ``fresh_runs``: their digests, by run.
    ``warm``: copies of prepared caches, below ``directory``; none are kept without one.
    ``socs``: why a chip is not compiled for, empty for one that is.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.fresh: dict[Any, bytes] = {}
        self.fresh_runs: dict[Any, dict[OperatorSpec, str]] = {}
        self.warm: dict[Any, WarmCache] = {}
        self.socs: dict[str, str] = {}
        self._directory = directory

    def apart(self, directory: Path) -> Shared:
        """The same for another process: what is known already, and new copies elsewhere."""
        other = Shared(directory)
        other.fresh.update(self.fresh)
        other.warm.update(self.warm)
        other.socs.update(self.socs)
        return other

    def keep_warm(self, key: Any, cache: WatchedCache, steps: Iterable[Step]) -> None:
        """Copy a cache that was just prepared, marks included."""
        if self._directory is None:
            return
        cache.mark()
        root = self._directory / str(len(self.warm))
        shutil.copytree(cache.root, root, symlinks=True)
        copied = tuple(replace(each, ending="copied from an equal compile") for each in steps)
        self.warm[key] = WarmCache(root, cache.sandbox, *cache.known_state(), copied)


class WatchedCache:
    """An empty cache directory of its own, HOME and working directory included.

    Every valid entry is marked with a canary before a compile, so that each compile tells by
    itself which kernels were reused; ``marks = False`` leaves them as the toolchain wrote them,
    to compare bytes. Compiles are processes of the toolchain under test. ``as_model = True`` has
    operators compiled as nodes of one model, see ``CompileRequest``.

    The variables of limits go by the names of the default edition of the documents here; the
    toolchain is given those of ``edition``.
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
        mode: CacheMode | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Run:
        """Compile in one process and watch; ``options`` are fields of ``CompileOptions``.

        Raises:
            ToolchainError: where the process fails or does not end: no verdict rests on it.
        """
        run = self.attempt(*operators, mode=mode, environment=environment, **options)
        if not run.succeeded:
            raise ToolchainError(f"the toolchain {run.result.failure}")
        return run

    def needs_reuse(self) -> None:
        """For a check that something bad is not served, which says nothing of a toolchain that
        serves nothing.

        Raises:
            NotDecidable: where the positive control has shown that it does not.
        """
        if not self._control.reuses:
            raise NotDecidable(f"nothing is ever served, good or bad: {self._control.reason}")

    def attempt(
        self,
        *operators: OperatorSpec,
        mode: CacheMode | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Run:
        """Like :meth:`compile`, where failing is an answer too; only a hang is not."""
        return self.together(
            [self.request(*operators, mode=mode, environment=environment, **options)]
        )[0]

    def request(
        self,
        *operators: OperatorSpec,
        mode: CacheMode | None = None,
        environment: Mapping[str, str] | None = None,
        cache_dir: Path | str | None = "",
        raw_mode: str | None = None,
        debug_file: Path | None = None,
        umask: int | None = None,
        raw_options: Mapping[str, str] | None = None,
        unset: frozenset[str] = frozenset(),
        **options: Any,
    ) -> CompileRequest:
        """What :meth:`compile` would send; ``cache_dir`` is this cache unless given."""
        directory = self.root if cache_dir == "" else cache_dir
        return CompileRequest(
            operators=operators,
            options=self.options.but(cache_mode=mode, **options),
            cache_dir=None if directory is None else Path(directory),
            output=self.new_output(),
            work=self.work,
            home=self.home,
            environment=self.edition.limits_in(environment or {}),
            unset=unset,
            raw_mode=raw_mode,
            debug_file=debug_file,
            umask=umask,
            raw_options=raw_options or {},
            as_model=self.as_model,
        )

    def new_output(self) -> Path:
        """An output directory nothing was delivered to yet."""
        return self.sandbox / f"out{next(self._numbers)}"

    def together(self, requests: Sequence[CompileRequest]) -> list[Run]:
        """Start one process a request, all at once; the snapshots frame all of them.

        Raises:
            ToolchainError: where one of them does not end.
        """
        beside = self.witness.bystanders(requests)
        runs = self._watched(requests)
        self.witness.compare(beside)
        for run in runs:
            self.witness.note(run)
        for run in runs:
            if run.returncode is None:
                raise ToolchainError(f"the toolchain {run.result.failure}")
        return runs

    def again(self, request: CompileRequest) -> Run:
        """Start one process to see what has become of the cache; not ending is an answer."""
        return self._watched([request])[0]

    def _watched(self, requests: Sequence[CompileRequest]) -> list[Run]:
        self.mark()
        before = Snapshot.take(self.root)
        results = self.toolchain.compile_together(requests)
        after = Snapshot.take(self.root)
        runs = [
            self._run(request, result, before, after)
            for request, result in zip(requests, results, strict=True)
        ]
        for run in runs:
            self._note(run)
        return runs

    def warm(self, *operators: OperatorSpec, **options: Any) -> None:
        """Compile under enable, so that the cache holds a valid entry for each operator.

        What an equal call of this session left is copied instead where it can be, see
        :meth:`prepare`.

        Raises:
            NotDecidable: where the cache does not hold one afterwards.
        """
        if "environment" in options:
            self._warm(operators, options)
        else:
            key = (operators, tuple(sorted(options.items())))
            self.prepare(key, lambda: self._warm(operators, options))

    def prepare(self, key: Any, make: Callable[[], None]) -> None:
        """Bring an empty cache into the state that ``make`` brings it into.

        A cache prepared under an equal ``key`` earlier in this session is copied instead, where
        the positive control has shown that this toolchain serves from a copied cache: that
        saves compiler starts.
        """
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
        # The commands that would do the same here.
        old, new = str(template.sandbox), str(self.sandbox)
        self.evidence.steps += [
            replace(step, command=step.command.replace(old, new)) for step in template.steps
        ]

    def _warm(self, operators: tuple[OperatorSpec, ...], options: Mapping[str, Any]) -> None:
        if self.as_model and len({each.type for each in operators}) < len(operators):
            # In a model only the type tells whose kernel an object is, until entries are known.
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

    def entry(self, operator: OperatorSpec, **options: Any) -> Entry:
        """The entry :meth:`warm` made for an operator under these options, as it is now.

        Raises:
            NotDecidable: where this cache was not warmed with it.
        """
        choice = self._choice(options)
        stem = self._known.get((operator, choice))
        if stem is None:
            raise NotDecidable(f"the cache was not warmed with {operator}")
        return Entry(stem, self.layout.soc(choice.soc))

    def learn(self, operator: OperatorSpec, stem: str | None, options: CompileOptions) -> None:
        """Take an entry for an operator's under these options, as :meth:`warm` does; ``None``
        where it has none any more."""
        if stem is None:
            self._known.pop((operator, options.entry_choice), None)
        else:
            self._known[(operator, options.entry_choice)] = stem

    def _choice(self, options: Mapping[str, Any]) -> CompileOptions:
        """What of the fields of ``CompileOptions`` among these chooses an operator's entry."""
        names = {each.name for each in fields(CompileOptions)}
        chosen = {key: value for key, value in options.items() if key in names}
        return self.options.but(**chosen).entry_choice

    def entries(self, soc: str | None = None) -> dict[str, Entry]:
        """Every entry of one SoC by stem, halves included."""
        return read_entries(self.layout.soc(soc or self.options.soc))

    def forget_reads(self) -> None:
        """Set access times an hour before modification, so that relatime shows the next read.

        Looking and copying may have left them newer than the change time, where it would not.
        """
        self.mark()
        for path in self.root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                modified = path.stat().st_mtime_ns
                os.utime(path, ns=(modified - 3600 * 10**9, modified))

    def damaged(self, operator: OperatorSpec, soc: str | None = None) -> str:
        """The first problem of an entry of the operator's type; empty where there is none."""
        kind = operator.type.lower()
        found = [
            problem
            for entry in self.entries(soc).values()
            if entry.operator_type == kind
            for problem in entry.problems()
        ]
        return found[0] if found else ""

    def problems(self) -> list[str]:
        """What is wrong with the entries of the default SoC; empty for a sound cache."""
        return [
            f"{stem}: {problem}"
            for stem, entry in self.entries().items()
            for problem in entry.problems()
        ]

    def elsewhere(self: _Cache, root: Path) -> _Cache:
        """The same sandbox and toolchain, watching another cache directory."""
        other = type(self)(
            self.toolchain, self.sandbox, self._control, self.evidence, self._shared, self.edition
        )
        other.root, other.layout = root, CacheLayout(root)
        other._numbers, other._tokens, other._born = self._numbers, self._tokens, self._born
        other.options, other.as_model = self.options, self.as_model
        return other

    def seen_at(self: _Cache, root: Path) -> _Cache:
        """The same cache as another node sees it, with the same marks, entries and witness."""
        other = self.elsewhere(root)
        other._known, other._left_alone, other.witness = (
            self._known,
            self._left_alone,
            self.witness,
        )
        self.views += (root,)
        return other

    def moved(self: _Cache, sandbox: Path) -> _Cache:
        """The same toolchain and marks in another sandbox: cache, HOME and working directory.

        What is served there does not depend on where it was compiled.
        """
        other = type(self)(
            self.toolchain, sandbox, self._control, self.evidence, self._shared, self.edition
        )
        other._numbers, other._tokens, other._born = self._numbers, self._tokens, self._born
        other.options, other.as_model = self.options, self.as_model
        return other

    def lacks(self, soc: str, operator: OperatorSpec) -> str:
        """Why the toolchain does not compile for a chip; empty for one it does compile for.

        It need not compile for every chip, but for those whose operators are installed.

        Raises:
            ToolchainError: where it fails to compile for one of them.
        """
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

    def fate(self, run: Run, operator: OperatorSpec, **options: Any) -> Fate:
        """What a run did to the entry :meth:`warm` made of an operator under these options."""
        entry = self.entry(operator, **options)
        relative = entry.directory.relative_to(self.root)
        return run.fate_of(f"{relative}/{entry.stem}")

    def fresh(self, operator: OperatorSpec, **options: Any) -> bytes:
        """The kernel of a compile that no cache can have a part in: disable, empty directory.

        Two such compiles have to agree; what one delivers is remembered for the session.

        Raises:
            NotDecidable: where two fresh compiles differ.
        """
        environment = options.pop("environment", None)
        key = (self.as_model, operator, tuple(sorted(options.items())))
        if environment is not None or key not in self._shared.fresh:
            ((first,), (second,)) = (
                self._fresh_compile((operator,), environment, options) for _ in "12"
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
        """Operators of a run whose delivered kernel is not what a fresh compile of the same
        operators with the same options gives, with the digests of both.

        One fresh compile tells of all, and is remembered where no environment is given; only
        where it differs a second one has to confirm it.

        Raises:
            NotDecidable: where two fresh compiles differ.
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
        """How a run failed that succeeds without a cache; empty for one that did not fail.

        Raises:
            ToolchainError: where it fails without a cache too: that says nothing of the cache.
        """
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
        """Digests of a fresh compile, remembered where no environment is given."""
        key = (self.as_model, operators, options)
        if environment is not None:
            return self.fresh_digests(operators, environment, options)
        if key not in self._shared.fresh_runs:
            self._shared.fresh_runs[key] = self.fresh_digests(operators, None, options)
        return self._shared.fresh_runs[key]

    def fresh_digests(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Mapping[str, str] | None,
        options: CompileOptions,
    ) -> dict[OperatorSpec, str]:
        """Digests of the kernels that one compile without a cache gives these operators.

        Raises:
            ToolchainError: where it fails.
        """
        names = (each.name for each in fields(CompileOptions) if each.name != "cache_mode")
        given = {name: getattr(options, name) for name in names}
        kernels = self._fresh_compile(operators, environment, given)
        return dict(zip(operators, map(sha256, kernels), strict=True))

    def _fresh_compile(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Mapping[str, str] | None,
        options: dict[str, Any],
    ) -> tuple[bytes, ...]:
        empty = self.sandbox / f"empty{next(self._numbers)}"
        request = self.request(
            *operators, mode=CacheMode.DISABLE, environment=environment, cache_dir=empty, **options
        )
        run = self._unmarked(request)
        if not run.succeeded:
            raise ToolchainError(f"the toolchain {run.result.failure}")
        return tuple(map(run.kernel, operators))

    def fresh_kernels(self, run: Run) -> tuple[bytes, ...]:
        """The kernels a compile without a cache gives the operators of a run, in their order.

        Raises:
            ToolchainError: where it fails.
        """
        request = run.result.request
        names = (each.name for each in fields(CompileOptions) if each.name != "cache_mode")
        given = {name: getattr(request.options, name) for name in names}
        return self._fresh_compile(run.operators, request.environment, given)

    def unwatched(self, request: CompileRequest) -> Run:
        """One process without marks and snapshots, for compiles that are not to be disturbed."""
        run = self._unmarked(request)
        self.witness.note(run)
        return run

    def _unmarked(self, request: CompileRequest) -> Run:
        (result,) = self.toolchain.compile_together([request])
        run = self._run(request, result, Snapshot({}), Snapshot({}))
        self._note(run)
        return run

    def known_state(
        self,
    ) -> tuple[dict[str, Canary], dict[tuple[OperatorSpec, CompileOptions], str]]:
        """Canaries by token, and entries by operator and options."""
        return dict(self._tokens), dict(self._known)

    def mark(self) -> None:
        """Mark every valid entry that carries no mark yet; each compile starts with it."""
        if not self.marks:
            return
        for soc in self.layout.socs():
            for entry in read_entries(self.layout.soc(soc)).values():
                if entry.stem in self._left_alone:
                    continue
                if entry.is_valid and not find_canaries(entry.object or b""):
                    canary = plant_canary(entry)
                    self._tokens[canary.token] = canary

    def trust_marks(self) -> None:
        """Mark entries again, where this toolchain serves marked ones."""
        self.marks = self._control.serves_marked and not self.toolchain.birthmarks

    def leave_alone(self, stems: Iterable[str]) -> None:
        """Entries that are not to be marked: no operator asks for them, and they are large."""
        self._left_alone.update(stems)

    def _run(
        self, request: CompileRequest, result: CompileResult, before: Snapshot, after: Snapshot
    ) -> Run:
        choice = request.options.entry_choice
        return Run(
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

    def _seen(self, result: CompileResult) -> frozenset[str]:
        """Birthmarks that were delivered before this run."""
        before = frozenset(self._born)
        for path in filter(None, result.delivered):
            self._born |= find_canaries(path.read_bytes())
        return before

    def _note(self, run: Run) -> None:
        shown = run.shown_changes
        self.evidence.starts += 1
        self.evidence.compiles += len(run.operators)
        self.evidence.sizes += run.sizes(self.evidence.starts)
        self.evidence.steps.append(
            Step(
                command=run.result.command,
                ending=run.result.ending,
                outcomes=run.describe() if run.succeeded else (),
                changes=shown,
                output="" if run.succeeded else shown_output(run.output, False) + run.result.log,
                metadata={
                    path: (run.before.files[path].text, run.after.files[path].text)
                    for path in shown
                    if path.endswith(".json")
                    and path in run.before.files
                    and path in run.after.files
                },
            )
        )
