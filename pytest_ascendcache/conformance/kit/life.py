"""One cache through many runs: what the documents say of each, given all that was before.

A life remembers which entry is whose and in what state, asks the central table before each run and
compares afterwards: what every operator was delivered, what became of every entry, also of those
nobody asked for, and what else was touched. What it saw, and not what it expected, is where the
next run begins, so that one fault is told once.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import Entry, Snapshot
from pytest_ascendcache.conformance.kit.implementations import wrong_numbers
from pytest_ascendcache.conformance.kit.shelf import Shelf
from pytest_ascendcache.contract import (
    CacheLimits,
    CacheMode,
    Capability,
    CompileOptions,
    EntryState,
    Fate,
    ImplModeTables,
    Outcome,
    bystander_fates,
    expected_outcomes,
    is_under_debug,
    list_excepts,
)
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REMOVED, REWRITTEN
from pytest_ascendcache.faults import Damage
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.evidence import Sighting, Witness
from pytest_ascendcache.operators import OperatorSpec

_YEAR = 365 * 86400.0
_SHOWN = 3
"""Operators or files that are named of one problem."""


class Aspect(str, Enum):
    """What of a life a check asks for; each belongs to a rule of its own."""

    OUTCOMES = "outcomes"
    KERNELS = "kernels"
    NUMBERS = "numbers"
    HEALING = "healing"
    AGING = "aging"
    UPGRADE = "upgrade"
    PRIVATE = "private"
    LINKS = "links"
    NAMES = "names"
    PLACE = "place"


@dataclass(frozen=True)
class Problem:
    """Something wrong in one run: with an operator or entry, where it is with one."""

    told: str
    subject: str
    what: str


@dataclass(frozen=True)
class Key:
    """Whose an entry is: the operator but for its name, the chip, and the implementation mode
    where it has two."""

    operator: OperatorSpec
    soc: str
    mode: str | None


@dataclass(frozen=True)
class _Narrowed:
    """A witness of a life that is asked for one aspect."""

    witness: CacheWitness
    aspect: Aspect

    def seen(self) -> list[Sighting]:
        """See :class:`~pytest_ascendcache.observation.evidence.Witness`."""
        return self.witness.seen(self.aspect in (Aspect.LINKS, Aspect.NAMES, Aspect.PLACE))

    def afterwards(self) -> Sighting | None:
        """See :class:`~pytest_ascendcache.observation.evidence.Witness`."""
        asks = self.aspect in (Aspect.OUTCOMES, Aspect.KERNELS, Aspect.HEALING)
        return self.witness.afterwards() if asks else None


@dataclass
class Own:
    """An entry as a life knows it; ``state`` is ``None`` where nothing is said of it."""

    stem: str
    state: EntryState | None = EntryState.VALID


@dataclass
class Life:
    """A cache, and what is known of it. ``given`` goes with every run."""

    cache: CacheUnderTest
    tables: ImplModeTables | None
    given: Mapping[str, Any] = field(default_factory=dict)
    guarded: dict[Aspect, Path] = field(default_factory=dict)
    entries: dict[Key, Own] = field(default_factory=dict)
    found: dict[Aspect, list[Problem]] = field(default_factory=dict)
    undecided: dict[Aspect, str] = field(default_factory=dict)
    judged: set[Aspect] = field(default_factory=set)
    _fresh: dict[Any, str] = field(default_factory=dict)
    _number: int = 0

    def run(
        self,
        what: str,
        operators: Sequence[OperatorSpec],
        mode: CacheMode | None,
        *,
        anew: bool = False,
        shelf: tuple[Shelf, CacheLimits] | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """One run, judged. ``anew`` says that a new version voids all that is there; ``shelf``
        is what ages, by which limits."""
        self._number += 1
        told = f"run {self._number}, {what}"
        asked = self.cache.options.but(cache_mode=mode, **options)
        for operator in operators:
            own = self.entries.get(self.key(operator, asked))
            self.cache.learn(operator, None if own is None else own.stem, asked)
        before = {aspect: Snapshot.take(path) for aspect, path in self.guarded.items()}
        variables = {**self.given.get("environment", {}), **(environment or {})}
        given = {**self.given, "environment": variables}
        run = self.cache.attempt(*operators, mode=mode, **given, **options)
        for aspect, snapshot in before.items():
            changes = snapshot.disturbed(Snapshot.take(self.guarded[aspect]))
            for path, change in changes.items():
                self._say(aspect, told, f"outside of the cache {path} is {change.value}")
        failure = self.cache.failed_for_the_cache(run, variables)
        if failure:
            self._say(Aspect.OUTCOMES, told, failure)
            self._give_up_damaged()
            return
        self._judge_others(told, run, asked, anew)
        for operator in operators:
            self._judge(told, run, operator, asked, anew)
        self._judge_kernels(told, run, asked, variables)
        self._judge_files(told, run, asked)
        if shelf is not None:
            self._judge_aging(told, run, *shelf)

    def key(self, operator: OperatorSpec, options: CompileOptions) -> Key:
        """Whose entry an operator has under these options."""
        mode = None
        if self.tables is not None and self.tables.has_two(operator):
            mode = self.tables.mode(options, operator)
        return Key(operator.named(""), options.soc, mode)

    # Between runs.

    def damage(self, operator: OperatorSpec, damage: Damage) -> None:
        """Spoil the entry of an operator, of the chip under test and the default mode."""
        own = self._entry(operator)
        if own is not None and own.state is EntryState.VALID:
            damage.apply(Entry(own.stem, self.cache.layout.soc(self.cache.options.soc)))
            own.state = EntryState.DAMAGED

    def link(self, operator: OperatorSpec, *suffixes: str) -> None:
        """Move files of a valid entry out of the cache, and have links in their place."""
        entry = self._lead_away(Aspect.LINKS, operator)
        if entry is not None:
            for path in (entry.directory / f"{entry.stem}{suffix}" for suffix in suffixes):
                moved = self.guarded[Aspect.LINKS] / path.name
                path.rename(moved)
                path.symlink_to(moved)

    def lure(self, operator: OperatorSpec) -> None:
        """Copy a valid entry out of the cache, and have its metadata name the copy."""
        entry = self._lead_away(Aspect.NAMES, operator)
        if entry is not None:
            outside = self.guarded[Aspect.NAMES]
            for path in (entry.object_path, entry.metadata_path):
                shutil.copy2(path, outside)
            name = os.path.relpath(outside / entry.stem, entry.directory)
            fields = {**entry.metadata, "binFileName": name}
            entry.metadata_path.write_text(json.dumps(fields))

    def _lead_away(self, aspect: Aspect, operator: OperatorSpec) -> Entry | None:
        """The valid entry of an operator, of which nothing more is said, and a guarded
        directory; ``None`` where there is no such entry."""
        own = self._entry(operator)
        if own is None or own.state is not EntryState.VALID:
            return None
        own.state = None
        directory = self.cache.sandbox / f"outside_{aspect.value}"
        directory.mkdir(exist_ok=True)
        self.guarded[aspect] = directory
        self.judged.add(aspect)
        return Entry(own.stem, self.cache.layout.soc(self.cache.options.soc))

    def _give_up_damaged(self) -> None:
        """Remove the entries that are damaged, so that what else is to come is not hidden by
        runs that fail over them."""
        for key, own in list(self.entries.items()):
            if own.state is not EntryState.VALID:
                entry = Entry(own.stem, self.cache.layout.soc(key.soc))
                for path in (entry.object_path, entry.metadata_path):
                    if path.exists() or path.is_symlink():
                        _remove(path)
                del self.entries[key]

    def _entry(self, operator: OperatorSpec) -> Own | None:
        return self.entries.get(self.key(operator, self.cache.options))

    def age(self, *seconds: float, oldest: Iterable[OperatorSpec] = ()) -> None:
        """Set the times of files to so many seconds from now, in turn; ``oldest`` to a year ago."""
        owned = (self._entry(each) for each in oldest)
        old = {own.stem for own in owned if own is not None}
        files = sorted(self.cache.layout.kernel_cache.rglob("te_*"))
        for number, path in enumerate(files):
            ago = -_YEAR if path.stem in old else seconds[number // 2 % len(seconds)]
            when = time.time() + ago
            os.utime(path, (when, when), follow_symlinks=False)

    # Judging.

    def witness(self, aspect: Aspect) -> Witness:
        """Who tells which harm was done in one respect: what was done in others is no part."""
        return _Narrowed(self.cache.witness, aspect)

    def message(self, aspect: Aspect) -> str:
        """What is wrong with a life in one respect, what is alike told once; empty for nothing."""
        alike: dict[tuple[str, str], list[str]] = {}
        for each in self.found.get(aspect, ()):
            alike.setdefault((each.told, each.what), []).append(each.subject)
        return "\n".join(
            f"{told}{_listed(list(filter(None, subjects)))}\n{what}"
            for (told, what), subjects in alike.items()
        )

    def _say(self, aspect: Aspect, told: str, what: str, subject: str = "") -> None:
        self.found.setdefault(aspect, []).append(Problem(told, subject, what))

    def _judge(
        self, told: str, run: Run, operator: OperatorSpec, asked: CompileOptions, anew: bool
    ) -> None:
        key = self.key(operator, asked)
        own = self.entries.get(key)
        try:
            outcome = run[operator]
            stem = run.stem(operator)
        except NotDecidable as reason:
            self.undecided.setdefault(Aspect.OUTCOMES, f"{told}: {reason}")
            self.entries.pop(key, None)
            return
        aspect = Aspect.UPGRADE if anew else Aspect.OUTCOMES
        self.judged.add(aspect)
        state = EntryState.NONE if own is None else own.state
        debug = is_under_debug(asked, operator.type, operator.name, self.cache.edition)
        if anew and state is not EntryState.NONE:
            # Whether the old entry goes first or is overwritten is not told apart.
            allowed = {Outcome(COMPILED, fate) for fate in (Fate.STORED, REWRITTEN)}
        elif state is None:
            allowed = set()
        else:
            allowed = self._allowed(asked, debug, state)
        if allowed and outcome not in allowed:
            expected = " or ".join(sorted(map(str, allowed)))
            differs = f"observed: {outcome}\nexpected: {expected}"
            self._say(aspect, told, differs, str(operator))
        healed = expected_outcomes(asked.effective_mode, debug, EntryState.DAMAGED)
        if state is not EntryState.DAMAGED or Outcome(COMPILED, REWRITTEN) not in healed:
            healed = frozenset({outcome})
        else:
            self.judged.add(Aspect.HEALING)
        if outcome not in healed:
            differs = f"observed: {outcome}\nexpected: {Outcome(COMPILED, REWRITTEN)}"
            self._say(Aspect.HEALING, told, differs, str(operator))
        self._remember(key, own, outcome, stem)

    def _allowed(
        self,
        asked: CompileOptions,
        debug: bool | None,
        state: EntryState,
    ) -> set[Outcome]:
        config = asked.debug_config
        listed = list_excepts(self.cache.edition) and debug is not False and not asked.debug_level
        listed = listed and config is not None and config.listed is not None
        allowed = set(expected_outcomes(asked.effective_mode, debug, state, listed))
        if state is EntryState.DAMAGED:  # that it is healed is a rule of its own
            allowed |= {Outcome(COMPILED, fate) for fate in (KEPT, REMOVED)}
        return allowed

    def _remember(self, key: Key, own: Own | None, outcome: Outcome, stem: str | None) -> None:
        if outcome.entry in (Fate.STORED, REWRITTEN) and stem is not None:
            self.entries[key] = Own(stem)
        elif outcome.entry in (Fate.ABSENT, REMOVED) or stem is None:
            self.entries.pop(key, None)
        elif own is None:
            self.entries[key] = Own(stem)  # another operator's entry, as it seems

    def _judge_others(self, told: str, run: Run, asked: CompileOptions, anew: bool) -> None:
        """Entries that no operator of the run owns."""
        mine = {self.key(operator, asked) for operator in run.operators}
        edition = self.cache.edition
        for key, own in list(self.entries.items()):
            if key in mine:
                continue
            fate = run.fate_of(f"{run.prefix}{key.soc}/{own.stem}")
            allowed = {KEPT}
            if anew:
                allowed = {REMOVED}
            elif key.soc == asked.soc:
                allowed = set(bystander_fates(asked, edition))
                if self._all_listed(run, asked):
                    allowed |= {KEPT, REMOVED}
            if own.state is EntryState.DAMAGED and KEPT in allowed:
                allowed |= {REMOVED, REWRITTEN}
            if fate not in allowed and own.state is not None:
                expected = " or ".join(sorted(each.value for each in allowed))
                other = f"{key.operator} on {key.soc}" + (f", {key.mode}" if key.mode else "")
                self._say(
                    Aspect.UPGRADE if anew else Aspect.OUTCOMES,
                    f"{told}, entries that were not asked for",
                    f"observed: {fate.value}\nexpected: {expected}",
                    other,
                )
            if fate in (REMOVED, Fate.ABSENT):
                del self.entries[key]

    def _all_listed(self, run: Run, asked: CompileOptions) -> bool:
        """Whether ``op_debug_list`` leaves no operator to the cache; then the document leaves open
        what becomes of the rest of it."""
        config = asked.debug_config
        if config is None or config.listed is None or asked.debug_level:
            return False
        return all(config.lists(each.type, each.name) for each in run.operators)

    def _judge_kernels(
        self, told: str, run: Run, asked: CompileOptions, variables: Mapping[str, str]
    ) -> None:
        """Each delivered kernel against a fresh one of the same options, and its numbers."""
        keys = {each: self._kernel_key(each, asked, variables) for each in run.operators}
        missing = [each for each, key in keys.items() if key not in self._fresh]
        try:
            if missing:
                for each, digest in self._digests(missing, asked, variables).items():
                    self._fresh[keys[each]] = digest
            delivered = {each: run.unmarked_sha256(each) for each in run.operators}
            wrong = [each for each in run.operators if delivered[each] != self._fresh[keys[each]]]
            if wrong:  # the options may change a kernel where no document says so
                fresh = self._digests(wrong, asked, variables)
                wrong = [each for each in wrong if delivered[each] != fresh[each]]
                if wrong and self._digests(wrong, asked, variables) != {
                    each: fresh[each] for each in wrong
                }:
                    raise NotDecidable("two fresh compiles give different kernels")
        except NotDecidable as reason:
            self.undecided.setdefault(Aspect.KERNELS, f"{told}: {reason}")
            return
        self.judged.add(Aspect.KERNELS)
        for each in wrong:
            self._say(Aspect.KERNELS, told, "not the kernel of a fresh compile", str(each))
        toolchain = self.cache.toolchain
        if self.tables is not None and Capability.RUN_KERNELS in toolchain.capabilities:
            try:
                self.judged.add(Aspect.NUMBERS)
                for text in wrong_numbers(toolchain, run, self.tables, run.operators):
                    self._say(Aspect.NUMBERS, told, text)
            except NotDecidable as reason:
                self.undecided.setdefault(Aspect.NUMBERS, f"{told}: {reason}")

    def _kernel_key(
        self, operator: OperatorSpec, asked: CompileOptions, variables: Mapping[str, str]
    ) -> Any:
        debug = is_under_debug(asked, operator.type, operator.name, self.cache.edition)
        key = self.key(operator, asked)
        if debug is False:
            return key, tuple(sorted(variables.items()))
        return key, operator.name, replace(asked, cache_mode=None)

    def _digests(
        self,
        operators: Sequence[OperatorSpec],
        asked: CompileOptions,
        variables: Mapping[str, str],
    ) -> dict[OperatorSpec, str]:
        return self.cache.fresh_digests(tuple(operators), variables, asked)

    def _judge_files(self, told: str, run: Run, asked: CompileOptions) -> None:
        """What everybody may write, and what lies in the working directory."""
        if run.after.files:
            self.judged |= {Aspect.PRIVATE, Aspect.PLACE}
        for path, state in run.after.files.items():
            if state.mode & 0o002 and state.kind != "link":
                self._say(Aspect.PRIVATE, told, "everybody may write", path)
        debugged = bool(asked.debug_level) or asked.debug_config is not None
        for left in sorted(self.cache.work.iterdir()):
            if not (debugged and left.name.startswith("kernel_meta")):
                self._say(Aspect.PRIVATE, told, "left in the working directory", left.name)
            _remove(left)

    def _judge_aging(self, told: str, run: Run, shelf: Shelf, limits: CacheLimits) -> None:
        self.judged.add(Aspect.AGING)
        aging, gone, torn = shelf.expected(run, limits), set(shelf.gone()), shelf.torn()
        if not aging.allows(gone):
            self._say(
                Aspect.AGING,
                told,
                f"observed: of idle entries {''.join(sorted(gone)) or 'none'} gone\n"
                f"expected: {''.join(sorted(aging.must_go)) or 'none'} "
                f"({limits.megabytes} MB, {limits.ratio} %)",
            )
        if torn:
            self._say(Aspect.AGING, told, f"half of an aged entry was left behind: {torn}")


def _listed(subjects: Sequence[str]) -> str:
    more = len(subjects) - _SHOWN
    listed = ", ".join(subjects[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f": {listed}" if listed else ""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def named(operators: Iterable[OperatorSpec], prefix: str) -> tuple[OperatorSpec, ...]:
    """The same operators under other names."""
    return tuple(each.named(f"{prefix}{number}") for number, each in enumerate(operators))
