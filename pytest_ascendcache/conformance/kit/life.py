"""One cache through many runs, each judged by what the earlier runs left in the cache.

A life knows which operator owns which entry, and its state. It judges what each operator was
delivered, what became of every entry, and what else was touched. The next run starts from what was
observed, not from what was expected, so that one fault is reported once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.conformance.kit.between_runs import BetweenRuns
from pytest_ascendcache.conformance.kit.findings import Findings, Question
from pytest_ascendcache.conformance.kit.judge import Judge, Known
from pytest_ascendcache.conformance.kit.own_entries import OwnEntries, OwnEntry, remove
from pytest_ascendcache.conformance.kit.own_kernels import OwnKernels
from pytest_ascendcache.conformance.kit.shelf import (
    HUNDREDS,
    NOT_TAKEN,
    ORPHANS,
    Shelf,
    dated,
    names_limit,
)
from pytest_ascendcache.conformance.kit.states import is_unused
from pytest_ascendcache.contract import CacheLimits, CacheMode, Capability, Fate, ImplModeTables
from pytest_ascendcache.contract.facts import (
    Aged,
    Fact,
    Later,
    Place,
    Subject,
    SubjectKind,
    Words,
    outcome_fact,
)
from pytest_ascendcache.contract.outcome import KEPT, REMOVED, REWRITTEN, STORED
from pytest_ascendcache.contract.subjects import implementing, ruling
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.invariants import LITTER, REPORT
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import StagedChange

DAMAGED = Subject(SubjectKind.EVENT, "damaged entry")
UPGRADE = Subject(SubjectKind.EVENT, "version change")
CACHE_PATH = Subject(SubjectKind.VARIABLE, "ASCEND_CACHE_PATH")
CACHE_DIR = Subject(SubjectKind.OPTION, "--op_compiler_cache_dir")


@dataclass(frozen=True)
class AgingShelf:
    """A shelf of entries that a run has to age by some limits, and the question this answers.

    ``orphans`` are the bytes of incomplete entries next to the shelf; ``orphans_may_go`` says that
    they are idle; ``halves`` are the files of each that a toolchain may remove as damaged at any
    time. ``bad`` is a limit and its bad value, which a warning has to name.
    """

    shelf: Shelf
    limits: CacheLimits
    question: Question = Question.AGING
    orphans: int = 0
    orphans_may_go: bool = False
    halves: tuple[tuple[Path, ...], ...] = ()
    bad: tuple[str, str] = ("", "")


def _after_upgrade(known: Known) -> Known:
    """What is known of an entry once the version changes."""
    return known if known is Known.OPEN else Known.VOID


DECOYS = "version.info", "op_cache.ini", "all_ops_impl_mode.ini"
"""Files of a user's working directory, which only have names of files elsewhere."""


class Life:
    """A cache and what is known of it. ``arguments`` go with every run."""

    def __init__(self, cache: CacheUnderTest, tables: ImplModeTables | None) -> None:
        self.cache = cache
        self.findings = Findings()
        self.entries = OwnEntries(cache, tables)
        self.kernels = OwnKernels(self.entries, self.findings)
        self.between = BetweenRuns(self.entries, self.findings)
        self.arguments: Mapping[str, Any] = {}
        self.succeeded = False
        """Whether the last run succeeded. What a failed run leaves shows nothing about promises."""
        self.aged = False
        """Whether every entry that had to age in the last run is gone."""

    def run(
        self,
        what: str,
        operators: Sequence[OperatorSpec],
        mode: CacheMode | None,
        *,
        upgraded: bool = False,
        aging: AgingShelf | None = None,
        environment: Mapping[str, str] | None = None,
        plain: Mapping[str, Any] | None = None,
        directory: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Make one run and judge it.

        ``upgraded``: it is the first of another version, which voids every entry. ``plain`` are the
        same options in plain spelling, in case the odd one is refused. ``directory`` are arguments
        that name the cache directory in another way, and replace ``arguments``.
        """
        cache, findings = self.cache, self.findings
        findings.begin(what, len(cache.evidence.steps) + 1)
        self.kernels.version += upgraded
        self.succeeded = self.aged = False
        asked = cache.options.but(cache_mode=mode, **options)
        for operator in operators:
            own = self.entries.by_key.get(self.entries.key(operator, asked))
            cache.learn(operator, None if own is None else own.stem, asked)
        before = {each: Snapshot.take(path) for each, path in self.between.guarded.items()}
        arguments = self.arguments if directory is None else directory
        variables = {**arguments.get("environment", {}), **(environment or {})}
        arguments = {**arguments, "environment": variables}
        had_directory = cache.root.exists()
        by_variable = directory is not None and CACHE_PATH.name in variables
        place = CACHE_PATH if by_variable else None
        judge = Judge(asked, cache.edition, tuple(operators), findings.number, place=place)
        asked_for = {"mode": mode, **arguments, **options}
        run, judge = self._attempt(judge, operators, asked_for, plain or {})
        self._judge_outside(before)
        if failure := cache.failed_for_the_cache(run, variables):
            again = _without_damaged(self, run, operators, asked_for)
            if not again.succeeded:
                findings.note(Question.OUTCOMES, judge.ending(run, failure))
                return
            run, judge = again, replace(judge, run=findings.number)
        self.succeeded = True
        if upgraded:
            judge = replace(judge, subject=UPGRADE)
        self._judge_others(judge, run, upgraded)
        for operator in operators:
            self._judge_operator(judge, run, operator, upgraded)
        self.kernels.judge(judge, run, variables)
        self._judge_files(judge, run)
        if judge.options.effective_mode is CacheMode.DISABLE and not had_directory:
            self._judge_inert(judge)
        if aging is not None:
            with self.findings.telling(aging.question):
                self._judge_aging(judge, run, aging)

    def _attempt(
        self,
        judge: Judge,
        operators: Sequence[OperatorSpec],
        asked: Mapping[str, Any],
        plain: Mapping[str, Any],
    ) -> tuple[Run, Judge]:
        """The run, and its judge. What is refused is asked for once more in plain spelling, or
        by the whole path."""
        cache = self.cache
        run = cache.attempt(*operators, **asked)
        if plain and not run.succeeded:
            refused, judge = run, replace(judge, options=replace(judge.options, **plain))
            run = cache.attempt(*operators, **{**asked, **plain})
            if run.succeeded:
                detail = f"written plainly, it is taken; refused: {refused.result.ending}"
                subject = implementing(judge.options)
                facts = replace(judge, subject=subject).ending(refused, detail)
                self.findings.note(Question.MODES, facts)
        own, variables = asked.get("cache_dir"), asked["environment"]
        place = Path(own or variables.get(CACHE_PATH.name) or "/")
        if (run.returncode or 0) > 0 and (place.is_symlink() or not place.is_absolute()):
            # No document says that a link or a relative path will do: refusing it is no fault.
            path: dict[str, Any] = {"environment": {**variables, CACHE_PATH.name: str(cache.root)}}
            if own:
                path = {"cache_dir": cache.root}
                self.arguments = {**self.arguments, **path}
            run = cache.attempt(*operators, **{**asked, **path})
        bad = {each: text for each, text in variables.items() if _is_bad(each, text)}
        if (run.returncode or 0) > 0 and any(
            names_limit(run.output, *each) for each in bad.items()
        ):
            # Nor that a limit out of range is not refused.
            unset = {each: text for each, text in variables.items() if each not in bad}
            run = cache.attempt(*operators, **{**asked, "environment": unset})
        self.findings.again(len(cache.evidence.steps))
        return run, replace(judge, run=self.findings.number)

    def _judge_outside(self, before: Mapping[Question, Snapshot]) -> None:
        """Judge that a run left the guarded directories as they were ``before``."""
        for question, snapshot in before.items():
            changes = snapshot.disturbed(Snapshot.take(self.between.guarded[question]))
            for path, change in changes.items():
                detail = f"outside of the cache it is {change.value}"
                subject = CACHE_DIR if question is Question.PLACE else None
                self.findings.deviates(question, Place.TOUCHED, detail, path, subject=subject)

    def _judge_inert(self, judge: Judge) -> None:
        """Judge that a disabled cache made no directory."""
        self.findings.asked.add(Question.INERT)
        if not is_unused(self.cache.root):
            subject = ruling(judge.options)
            made = "the directory was made"
            self.findings.deviates(Question.INERT, Place.MISPLACED, made, subject=subject)

    def judge_force(self, shelves: Sequence[Shelf]) -> None:
        """Judge a run under force: the entries of this chip are gone, those of others are not."""
        if not self.succeeded:
            return
        findings = self.findings
        findings.asked |= {Question.PURGED, Question.SPARED}
        mine, *others = shelves
        force = Subject(SubjectKind.OPTION, "--op_compiler_cache_mode", CacheMode.FORCE.value)
        more: dict[str, Any] = {"run": findings.number, "subject": force}
        left = sum(any(mine.there(name)) for name in mine.names)
        if left == len(HUNDREDS) and not mine.are_taken():
            findings.cannot_tell(Question.PURGED, NotDecidable(NOT_TAKEN))
        elif left:
            detail = f"{left} of {len(HUNDREDS)} entries that were there are left"
            fact = outcome_fact(KEPT, [REMOVED], detail=detail, **more)
            findings.note(Question.PURGED, [fact])
        for shelf in others:
            if gone := shelf.gone():
                detail = f"entries of {shelf.soc} are gone: {gone}"
                fact = outcome_fact(REMOVED, [KEPT], detail=detail, **more)
                findings.note(Question.SPARED, [fact])

    def _judge_operator(
        self, judge: Judge, run: Run, operator: OperatorSpec, upgraded: bool
    ) -> None:
        """Judge the outcome of one operator, and remember what became of its entry."""
        findings, entries = self.findings, self.entries.by_key
        key = self.entries.key(operator, judge.options)
        own = entries.get(key)
        try:
            outcome, stem = run[operator], run.stem(operator)
        except NotDecidable as reason:
            findings.cannot_tell(Question.OUTCOMES, reason)
            entries.pop(key, None)
            self.entries.untold.add(key)
            return
        known = self.entries.known(key)
        question = Question.OUTCOMES
        if upgraded or known is Known.VOID:
            question, judge = Question.UPGRADE, replace(judge, subject=UPGRADE)
        if own is not None and own.stored_for not in (None, operator.named("")):
            question = Question.SHARED
        findings.asked.add(question)
        if known is Known.DAMAGED and not upgraded and judge.has_to_heal(operator):
            findings.asked.add(Question.HEALING)
            findings.note(Question.HEALING, judge.healing(operator, outcome))
        if own is None and key.mode is None and self.entries.has_two(operator):
            # An operator with two modes and none selected may share the entry of either.
            known = Known.OPEN
        elif own is not None and upgraded:
            known = _after_upgrade(known)
        findings.note(question, judge.outcome(operator, outcome, known))
        if outcome.entry in (STORED, REWRITTEN) and stem is not None:
            entries[key] = OwnEntry(stem, stored_for=operator.named(""))
        elif outcome.entry in (Fate.ABSENT, REMOVED) or stem is None:
            entries.pop(key, None)
        elif own is None:
            entries[key] = OwnEntry(stem)  # apparently the entry of another operator
        elif known in (Known.OPEN, Known.VOID):
            own.known = known

    def _judge_others(self, judge: Judge, run: Run, upgraded: bool) -> None:
        """Judge the entries that no operator of the run owns."""
        entries = self.entries.by_key
        owned = {self.entries.key(operator, judge.options) for operator in run.operators}
        question = Question.UPGRADE if upgraded else Question.OUTCOMES
        for key, own in [item for item in entries.items() if item[0] not in owned]:
            fate = run.fate_of(f"{run.prefix}{key.soc}/{own.stem}")
            known = _after_upgrade(own.known) if upgraded else own.known
            self.findings.note(question, judge.other(fate, known, str(key), key.soc))
            if fate in (REMOVED, Fate.ABSENT):
                del entries[key]
            elif upgraded:
                own.known = known  # it stays, and may not be served

    def _judge_files(self, judge: Judge, run: Run) -> None:
        """Judge the permissions in the cache, and what the run left in its working directory."""
        files, options, findings = run.after.files, judge.options, self.findings
        if files:
            findings.asked |= {Question.PRIVATE, Question.PLACE}
        for path, state in files.items():
            if state.mode & 0o002 and state.kind != "link":
                findings.deviates(Question.PRIVATE, Place.OPEN_TO_ALL, "everybody may write", path)
        debugged = bool(options.debug_level) or options.debug_config is not None
        for left in sorted(self.cache.work.iterdir()):
            if left.name in DECOYS:
                continue
            if not (left.name.startswith(LITTER) and (debugged or left.name == REPORT)):
                where = "left in the working directory"
                findings.deviates(Question.PRIVATE, Place.LEFT, where, left.name)
            remove(left)

    def _judge_aging(self, judge: Judge, run: Run, aged: AgingShelf) -> None:
        """Judge which entries of a shelf are gone, and whether a warning names a bad limit."""
        shelf, findings = aged.shelf, self.findings
        findings.asked.add(aged.question)
        due, gone = shelf.aged(run, aged.limits)
        healed = sum(not any(map(Path.exists, each)) for each in aged.halves)
        own, limits = aged.orphans // len(ORPHANS) * healed or aged.orphans, aged.limits
        without_orphans = shelf.expected(run, limits, without=own)
        if aged.orphans_may_go or healed:  # before or after the entries, or not in this run
            due = due.where_both(without_orphans)
        stays = due.must_go - gone
        self.aged = not stays
        question = Question.ORPHANS if without_orphans.allows(gone) else aged.question
        if stays and shelf.renewed(stays):
            question = Question.MOUNT
        judge = replace(judge, subject=shelf.limiting(run, aged.limits))
        for fact in dated(self.cache, judge.aging(due, shelf.names, gone, shelf.torn(), limits)):
            half = fact.observed == Aged.HALF.value
            findings.note(aged.question if half else question, [fact])
        limit, value = aged.bad
        if limit and not names_limit(run.output, limit, value):
            detail = f"no warning names {limit} and its value {value!r}"
            subject = replace(shelf.limiting(run), value=value)
            if subject.kind is SubjectKind.VARIABLE and "ratio" in limit.lower():
                subject = replace(subject, name=self.cache.edition.variables[1])
            was_refused = value not in run.result.request.environment.values()
            if subject.kind is not SubjectKind.VARIABLE or not was_refused:
                findings.deviates(aged.question, Words.MISSING, detail, subject=subject)


def staged_version(life: Life, operator: OperatorSpec, place: Path) -> StagedChange:
    """Another version of the toolchain, applied later; runs use its package from now on."""
    change = life.cache.toolchain.stage(Capability.VERSION_STAMP, operator, place)
    variables = {**life.arguments.get("environment", {}), **change.environment}
    life.arguments = {**life.arguments, "environment": variables}
    return change


def _without_damaged(
    life: Life, failed: Run, operators: Sequence[OperatorSpec], asked: Mapping[str, Any]
) -> Run:
    """Clear away what a failed run left and damaged entries. If there were any, make the run
    again with them and without, which shows whether it failed for that."""
    damaged = life.entries.damaged
    later = life.cache.attempt(*operators, **asked) if damaged else failed
    number = len(life.cache.evidence.steps)
    life.entries.remove_damaged()
    for left in life.cache.work.iterdir():
        remove(left)
    if not damaged or later.succeeded:
        return later
    again = life.cache.attempt(*operators, **asked)
    if again.succeeded:
        detail = f"every later run fails: it {later.result.ending}"
        more: dict[str, Any] = {"run": number, "subject": DAMAGED}
        fact = Fact.seen(Later.FAILS, detail, damaged[0].operator, **more)
        life.findings.note(Question.HEALING, [fact])
        life.findings.asked.add(Question.HEALING)
        life.findings.again(len(life.cache.evidence.steps))
    return again


def _is_bad(variable: str, text: str) -> bool:
    """Whether it is a limit that is no number."""
    return "CACHE_SIZE" in variable and not text.removeprefix("-").isdigit()
