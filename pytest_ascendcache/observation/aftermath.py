"""The harm that runs of a cache show, and the extra runs made after a promise was broken."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_ascendcache.caches import Canary, Snapshot, find_canaries, same_code
from pytest_ascendcache.contract import CacheMode, CompileOptions, Delivered
from pytest_ascendcache.contract.facts import Delivery, Ending, Fact, Later, Place
from pytest_ascendcache.contract.harm import Harm, harm_in
from pytest_ascendcache.contract.subjects import ruling
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.observation.invariants import LITTER, names_in
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileRequest, ToolchainError

if TYPE_CHECKING:
    from pytest_ascendcache.observation.run import Run

LOOKED_AT = 8
"""Runs a check may compare at once. It has accepted the ones before."""

LATER_RUNS = 3
"""Extra runs made to see whether the cache works again."""

_INSTRUMENT = re.compile(r"(out|empty|record-out)\d+")
"""Directories that this package creates next to the cache."""


class Witnessed(Protocol):
    """The part of ``CacheUnderTest`` that its witness uses."""

    root: Path
    home: Path
    work: Path
    sandbox: Path
    evidence: Evidence
    views: tuple[Path, ...]

    def again(self, request: CompileRequest) -> Run: ...
    def new_output(self) -> Path: ...
    def fresh_kernels(self, run: Run) -> tuple[bytes, ...]: ...
    def damaged(self, operator: OperatorSpec, soc: str | None = None) -> str: ...
    def trust_marks(self) -> None: ...
    def known_state(
        self,
    ) -> tuple[dict[str, Canary], dict[tuple[OperatorSpec, CompileOptions], str]]: ...


class CacheWitness:
    """Watches the runs of one cache for harm."""

    def __init__(self, cache: Witnessed) -> None:
        self._cache = cache
        self._runs: deque[Run] = deque(maxlen=LOOKED_AT)
        self._delivered: list[tuple[OperatorSpec, CompileOptions, Path]] = []
        self._outside: dict[str, str] = {}
        self._existing: frozenset[str] = frozenset()
        self._litter: dict[str, None] = {}

    def note(self, run: Run) -> None:
        self._runs.append(run)
        choice = run.result.request.options.entry_choice
        for operator, path in zip(run.operators, run.result.delivered, strict=True):
            if path is not None:
                self._delivered.append((operator, choice, path))
        self._cache.evidence.ran(self)

    def bystanders(self, requests: Sequence[CompileRequest]) -> dict[Path, Snapshot]:
        """Snapshots of directories next to the cache that no request names. No run may change
        them."""
        self._existing = names_in(self._cache.work)
        named = " ".join(
            f"{each.cache_dir} {each.debug_file} {dict(each.environment)} {each.options}"
            for each in requests
        )
        cache = self._cache
        watched = {cache.root, cache.home, cache.work}
        return {
            path: Snapshot.take(path)
            for path in cache.sandbox.iterdir()
            if path.is_dir()
            and not _INSTRUMENT.fullmatch(path.name)
            and not any(mine.is_relative_to(path) for mine in watched)
            and str(path) not in named
        }

    def compare(self, before: dict[Path, Snapshot]) -> None:
        """Record changes of bystanders and new files in the working directory. Reading is no
        harm."""
        self._litter.update(
            (name, None)
            for name in sorted(names_in(self._cache.work) - self._existing)
            if not name.startswith(LITTER)
        )
        for root, then in before.items():
            for path, change in then.disturbed(Snapshot.take(root)).items():
                self._outside[f"{root.name}/{path}"] = change.value

    def seen(self, outside: bool = True) -> list[Fact]:
        """Harm seen in the last runs. Without ``outside``, directories next to the cache are left
        out."""
        facts = [
            Fact.seen(Place.TOUCHED, f"outside of the cache {path} was {change}")
            for path, change in (self._outside.items() if outside else ())
        ]
        facts += self._misplaced()
        for run in reversed(self._runs):
            facts += self._of(run)
            if any(harm_in(each) is Harm.WRONG_RESULT for each in facts):
                break
        return facts

    def _misplaced(self) -> list[Fact]:
        """Files that runs left in the working directory, except for debug output, and
        world-writable files."""
        open_to_all = [
            path
            for path, state in Snapshot.take(self._cache.root).files.items()
            if state.mode & 0o002 and state.kind != "link"
        ]
        return [
            *(
                Fact.seen(Place.LEFT, f"{each} lies in the working directory")
                for each in self._litter
            ),
            *(Fact.seen(Place.OPEN_TO_ALL, f"{each} is world-writable") for each in open_to_all),
        ]

    def _of(self, run: Run) -> list[Fact]:
        if run.succeeded:
            return [*self._unverified(run), *self._wrong(run)]
        code = run.returncode
        if code is None:
            return self._hang(run)
        if crashed(code) and not self._fails_anyway(run):
            subject = ruling(run.result.request.options)
            detail = f"the compiler {run.result.ending}"
            return [Fact.seen(Ending.CRASH, detail, subject=subject)]
        return []

    def _unverified(self, run: Run) -> list[Fact]:
        """Kernels delivered with a marker that no valid entry of this cache has."""
        tokens = self._cache.known_state()[0]
        strange = [
            operator
            for operator in run.operators
            if run.born is None and find_canaries(run.model(operator).read_bytes()) - set(tokens)
        ]
        return [
            Fact.seen(Delivery.UNVERIFIED, f"{each}: an unverified kernel was loaded")
            for each in strange
        ]

    def _wrong(self, run: Run) -> list[Fact]:
        """Operators whose kernel differs from that of a fresh compile.

        The document leaves it open whether enable notices a change of what kernels are made from.
        A check for which it may not, such as one of upgrades, says so itself.
        """
        if not _is_plain(run):
            return []  # the matching fresh compile is not known
        is_open = run.result.request.options.effective_mode is CacheMode.ENABLE
        facts = []
        for operator in self._unlike_fresh(run):
            if not self._is_last(run) and not _is_served(run, operator):
                continue  # a check may have changed the compiler on purpose since then
            if self._earlier(run, operator):
                if is_open:
                    continue
                what = f"{operator}: a stale kernel of an earlier compile is used"
                facts.append(Fact.seen(Delivery.STALE, what))
            else:
                what = f"{operator}: another kernel is delivered than a fresh compile gives"
                facts.append(Fact.seen(Delivery.ANOTHER, what))
        return facts

    def _is_last(self, run: Run) -> bool:
        """Whether this run, or one started together with it, is the last of the check."""
        return all(run is not each or each.before is self._runs[-1].before for each in self._runs)

    def _unlike_fresh(self, run: Run) -> list[OperatorSpec]:
        """Operators whose kernel no fresh compile delivers. If two fresh compiles differ, because
        each has a birthmark, that tells nothing."""
        first = dict(zip(run.operators, self._cache.fresh_kernels(run), strict=True))
        unlike = [each for each in run.operators if not same_code(run.kernel(each), first[each])]
        if not unlike:
            return []
        second = dict(zip(run.operators, self._cache.fresh_kernels(run), strict=True))
        return [each for each in unlike if same_code(first[each], second[each])]

    def _earlier(self, run: Run, operator: OperatorSpec) -> bool:
        """Whether an earlier compile of the operator under the same options delivered this very
        kernel."""
        choice, path = run.result.request.options.entry_choice, run.model(operator)
        kernel = run.kernel(operator)
        for known, options, model in self._delivered:
            if model == path:
                return False
            if (known, options) == (operator, choice) and model.is_file():
                then = _kernel_in(run, operator, model)
                if then is not None and same_code(then, kernel):
                    return True
        return False

    def _hang(self, run: Run) -> list[Fact]:
        """A run that did not end is a hang if it does not end a second time, but does without a
        cache."""
        if self._fails_anyway(run):
            return []
        request = replace(run.result.request, output=self._cache.new_output(), plan=None)
        if self._cache.again(request).returncode is not None:
            return []
        detail = f"the compiler {run.result.ending}, twice"
        return [Fact.seen(Ending.NO_END, detail, subject=ruling(run.result.request.options))]

    def _fails_anyway(self, run: Run) -> bool:
        """Whether the request fails without a cache too, which is not the cache's fault."""
        try:
            self._cache.fresh_kernels(run)
        except ToolchainError:
            return True
        return False

    def afterwards(self) -> Fact | None:
        """Run the last request under enable, as a user would, until a run reuses everything."""
        if not self._runs:
            return None
        last = self._runs[-1]
        if last.result.request.cache_dir not in (self._cache.root, *self._cache.views):
            return None  # only this cache has markers
        request = _plainly(last.result.request)
        self._cache.trust_marks()
        runs = []
        for _ in range(LATER_RUNS):
            run = self._cache.again(replace(request, output=self._cache.new_output()))
            if run.returncode is None:
                return next(iter(self._hang(run)), None)
            runs.append(run)
            if run.succeeded:
                if wrong := self._wrong(run):
                    return min(wrong, key=lambda each: harm_in(each).rank)
                if self._reuses_all(run):
                    break
        return self._usability(runs, last)

    def _reuses_all(self, run: Run) -> bool:
        return run.succeeded and all(self._reuses(run, each) for each in run.operators)

    def _reuses(self, run: Run, operator: OperatorSpec) -> bool:
        """Whether a kernel was reused. A damaged entry must not be. Raises ``NotDecidable`` if that
        cannot be told."""
        try:
            return run.delivered(operator) is Delivered.REUSED
        except NotDecidable:
            if self._cache.damaged(operator, run.result.request.options.soc):
                return False
            raise

    def _usability(self, runs: list[Run], last: Run) -> Fact | None:
        if not any(run.succeeded for run in runs):
            if self._fails_anyway(runs[-1]):
                return None
            return Fact.seen(Later.FAILS, f"every later run fails: it {runs[-1].result.ending}")
        if len(runs) == LATER_RUNS and not self._reuses_all(runs[-1]):
            again = [each for each in last.operators if not self._reuses(runs[-1], each)]
            what = f"every later run compiles {', '.join(map(str, again))} again"
            return Fact.seen(Later.COMPILES, what)
        if not last.succeeded and _is_plain(last) and not self._fails_anyway(last):
            return Fact.seen(Ending.FAILURE, f"a run {last.result.ending}; later ones work")
        return None


def _kernel_in(run: Run, operator: OperatorSpec, model: Path) -> bytes | None:
    """The operator's kernel in another delivered file; None if that cannot be told."""
    index = run.operators.index(operator)
    paths = list(run.result.delivered)
    paths[index] = model
    try:
        return replace(run, result=replace(run.result, delivered=tuple(paths))).kernel(operator)
    except NotDecidable:
        return None


def _plainly(request: CompileRequest) -> CompileRequest:
    """The same operators under enable, without debugging or anything else that bypasses a cache, by
    a user who may write it."""
    options = request.options.but(cache_mode=CacheMode.ENABLE, debug_level=None, debug_config=None)
    return replace(
        request,
        options=options,
        raw_mode=None,
        raw_options={},
        debug_file=None,
        plan=None,
        unprivileged=False,
    )


def _is_plain(run: Run) -> bool:
    """Whether a run asked only for what documented options can express."""
    request = run.result.request
    return not (request.debug_file or request.raw_options or request.raw_mode)


def _is_served(run: Run, operator: OperatorSpec) -> bool:
    """Whether a kernel is surely one that was cached."""
    try:
        return bool(run.served_from(operator))
    except NotDecidable:
        return False


def harm_in_ending(who: str, code: int | None, ending: str) -> list[Fact]:
    """The harm that the end of a process shows."""
    if code is None:
        return [Fact.seen(Ending.NO_END, f"{who} {ending}")]
    if crashed(code):
        return [Fact.seen(Ending.CRASH, f"{who} {ending}")]
    return []
