"""Compiles in one cache directory, each watched: what every part of a cache under test rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import (
    CacheLayout,
    Canary,
    Entry,
    Snapshot,
    entries_in_place,
)
from pytest_ascendcache.contract import CacheMode, CompileOptions, Edition, Fate
from pytest_ascendcache.contract.aging import ENV_RATIO, ENV_SIZE
from pytest_ascendcache.contract.editions import default
from pytest_ascendcache.contract.options import ModeName
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, PositiveControl, Step
from pytest_ascendcache.observation.gate import Gated
from pytest_ascendcache.observation.gated_run import GatedRun, look
from pytest_ascendcache.observation.invariants import without_kernel
from pytest_ascendcache.observation.known_entries import KnownEntries, problems_of
from pytest_ascendcache.observation.markers import Markers, forget_reads
from pytest_ascendcache.observation.request_options import (
    REQUESTED,
    CompileKeywords,
    RequestOptions,
    checked,
    checked_operators,
    checked_requests,
)
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileRequest, CompileResult, Toolchain, ToolchainError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class WatchedCompiles(Gated):
    """Starts compiles, observes them between two looks at the cache, and reads its entries."""

    witness: CacheWitness

    def __init__(
        self,
        toolchain: Toolchain,
        sandbox: Path,
        control: PositiveControl,
        evidence: Evidence | None = None,
        edition: Edition | None = None,
    ) -> None:
        super().__init__(toolchain, evidence)
        self.edition = edition or default()
        self.sandbox = sandbox
        self.root = sandbox / "cache"
        self.home = sandbox / "home"
        self.work = sandbox / "work"
        self.layout = CacheLayout(self.root)
        self.options = CompileOptions(soc=toolchain.soc)
        self.as_model = False
        self.control = control
        self.markers = Markers(control.serves_marked, toolchain.birthmarks)
        self.known = KnownEntries()
        self._numbers = count()
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
        if not self.control.reuses:
            raise NotDecidable(f"nothing is ever served, good or bad: {self.control.reason}")

    def needs_readable_entries(self) -> None:
        """Call this before checking what is stored. Raises ``NotDecidable`` if the toolchain uses
        entries of a form that is not known here."""
        if not self.control.reads_entries:
            raise NotDecidable(f"what is stored has a form of its own: {self.control.reason}")

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
        if environment and not environment.keys().isdisjoint((ENV_SIZE, ENV_RATIO)):
            self.drop_own_limits()
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

    def drop_own_limits(self) -> None:
        """Take the limits out of an ``op_cache.ini`` that is as the toolchain makes it, which any
        user may do: they would count in place of those that a check sets."""
        own = self.control.own_ini
        for path in self.layout.ini_candidates:
            if own and path.is_file() and path.read_bytes() == own:
                keys = tuple(each.encode() for each in self.edition.ini)
                lines = own.splitlines(keepends=True)
                path.write_bytes(b"".join(each for each in lines if not each.startswith(keys)))

    def new_output(self, kind: str = "out") -> Path:
        """A directory of this kind that has not been used."""
        return self.sandbox / f"{kind}{next(self._numbers)}"

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

    def unwatched(self, request: CompileRequest) -> Run:
        """Run one process without markers and snapshots, for compiles that must not be
        disturbed."""
        run = self.run_alone(request)
        self.witness.note(run)
        return run

    def run_alone(self, request: CompileRequest) -> Run:
        """Like :meth:`unwatched`, without looking for harm: for compiles in another cache."""
        return self._observed(*self.toolchain.compiled([request]))

    def _watched(self, requests: Sequence[CompileRequest]) -> list[Run]:
        self.mark()
        return [*map(self._observed, self.toolchain.compiled(requests, look(self.root)))]

    def _observed(self, gated: GatedRun[CompileResult]) -> Run:
        """The run of a process that has ended, recorded as evidence."""
        request, nothing = gated.request, Snapshot({})
        run = Run(
            result=gated.result,
            operators=request.operators,
            before=gated.before.get(self.root, nothing),
            after=gated.after.get(self.root, nothing),
            marked=self.markers.planted,
            born=self.markers.born_before(gated.result),
            known=self.known.under(request.options.entry_choice),
            prefix=f"{self.layout.kernel_cache.relative_to(self.root)}/",
            reads_entries=self.control.reads_entries,
            watched=self.root in gated.before,
        )
        if run.returncode == 0 and self.control.finds_kernels:
            self.toolchain.require_none(without_kernel(run))
        self.evidence.sizes += run.sizes(gated.number)
        self.evidence.steps.append(_step(run))
        return run

    # Entries.

    def entry(self, operator: OperatorSpec, **options: Unpack[CompileKeywords]) -> Entry:
        """The current state of the entry that :meth:`warm` made for an operator under these
        options. Raises ``NotDecidable`` if this cache was not warmed with it."""
        (spec,) = checked_operators("entry", (operator,))
        return self.known.entry(self.layout, spec, self._choice(checked("entry", options)))

    def learn(self, operator: OperatorSpec, stem: str | None, options: CompileOptions) -> None:
        """Record the entry of an operator under these options, as :meth:`warm` does; None forgets
        it."""
        self.known.learn(operator, stem, options.entry_choice)

    def _choice(self, options: Mapping[str, Any]) -> CompileOptions:
        """The fields of ``CompileOptions`` among these that choose an operator's entry."""
        names = {each.name for each in fields(CompileOptions)}
        chosen = {key: value for key, value in options.items() if key in names}
        return self.options.but(**chosen).entry_choice

    def entries(self, soc: str | None = None) -> dict[str, Entry]:
        """Every entry of one chip by stem, incomplete ones included."""
        return entries_in_place(self.layout.soc(soc or self.options.soc))

    def fate(self, run: Run, operator: OperatorSpec, **options: Unpack[CompileKeywords]) -> Fate:
        """What a run did to the entry that :meth:`warm` made for an operator under these
        options."""
        entry = self.entry(operator, **options)
        return run.fate_of(f"{entry.directory.relative_to(self.root)}/{entry.stem}")

    def damaged(self, operator: OperatorSpec, soc: str | None = None) -> str:
        """The first problem among the entries of the operator's type; empty if there is none, or
        entries have a form of their own."""
        if not self.control.reads_entries:
            return ""
        kind = operator.type.lower()
        found = problems_of(self.layout, soc or self.options.soc, kind)
        return next((problem for _, problem in found), "")

    def problems(self) -> list[str]:
        """Everything wrong with the entries of the default chip; empty for a sound cache. Raises
        ``NotDecidable`` if they have a form of their own."""
        self.needs_readable_entries()
        return [f"{stem}: {each}" for stem, each in problems_of(self.layout, self.options.soc)]

    # Markers.

    @property
    def marks(self) -> bool:
        """Whether entries are marked before each run."""
        return self.markers.on

    @marks.setter
    def marks(self, on: bool) -> None:
        self.markers.on = on

    def mark(self) -> None:
        """Mark every valid entry that has no marker yet. Each compile begins with this."""
        self.markers.mark(self.layout)

    def trust_marks(self) -> None:
        """Mark entries from now on, if this toolchain serves marked ones."""
        self.markers.trust()

    def leave_alone(self, stems: Iterable[str]) -> None:
        """Never mark these entries. They are large, and no check asks for their operators."""
        self.markers.left_alone.update(stems)

    def forget_reads(self) -> None:
        """Set access times an hour before modification, so that the next read shows under relatime.
        Looking and copying may have left them newer than the change time; relatime would not move
        them."""
        self.mark()
        forget_reads(self.root)

    def known_state(
        self,
    ) -> tuple[dict[str, Canary], dict[tuple[OperatorSpec, CompileOptions], str]]:
        """Canaries by token, and entries by operator and options."""
        return dict(self.markers.tokens), dict(self.known.stems)


def _step(run: Run) -> Step:
    """A run as evidence, with the metadata that it changed."""
    before, after = run.before.files, run.after.files
    metadata = {
        path: (before[path].text, after[path].text)
        for path in run.shown_changes
        if path.endswith(".json") and path in before and path in after
    }
    return run.step("" if run.succeeded else run.result.log, metadata)
