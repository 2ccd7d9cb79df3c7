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
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.conformance.kit.implementations import wrong_numbers
from pytest_ascendcache.conformance.kit.shelf import HUNDREDS, KILOBYTE, Shelf, names_limit
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
    other_soc,
)
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REMOVED, REWRITTEN
from pytest_ascendcache.faults import Damage
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.evidence import Sighting, Witness
from pytest_ascendcache.operators import OperatorSpec

_YEAR = 365 * 86400.0
_LATER = 10.0
"""Seconds by which an object is younger than its metadata, where times are set."""
_LISTED = 26
_SHOWN = 3
"""Operators or files that are named of one problem."""


class Aspect(str, Enum):
    """What of a life a check asks for; each belongs to a rule of its own."""

    OUTCOMES = "outcomes"
    KERNELS = "kernels"
    NUMBERS = "numbers"
    MODES = "modes"
    TYPES = "types"
    TABLES = "tables"
    INERT = "inert"
    HEALING = "healing"
    AGING = "aging"
    SOURCES = "sources"
    HALVES = "halves"
    BAD = "bad"
    OFF = "off"
    RENEWS = "renews"
    CHIPS = "chips"
    CREATED = "created"
    ORPHANS = "orphans"
    MOUNT = "mount"
    SHARED = "shared"
    SPARED = "spared"
    PURGED = "purged"
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
    """Whose an entry is: the operator but for its names and the order of its attributes, the chip,
    and the implementation mode where it has two."""

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
    """An entry as a life knows it; ``state`` is ``None`` where nothing is said of it, ``written``
    is the operator as it was when the entry was stored."""

    stem: str
    state: EntryState | None = EntryState.VALID
    written: OperatorSpec | None = None


@dataclass(frozen=True)
class Shelved:
    """What ages in a run: by which limits, and which aspect fails where it does not.

    ``orphans`` are the bytes beside it that are of no whole entry; they go themselves where they
    are idle. ``bad`` is a limit with a value that a warning has to name.
    """

    shelf: Shelf
    limits: CacheLimits
    about: Aspect = Aspect.AGING
    orphans: int = 0
    orphans_may_go: bool = False
    bad: tuple[str, str] = ("", "")


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
    succeeded: bool = False
    """Whether the last run did; what one leaves that failed tells nothing of promises."""
    aged: bool = False
    """Whether all that had to age in the last run did."""
    _fresh: dict[Any, str] = field(default_factory=dict)
    _of_mode: dict[Key, str] = field(default_factory=dict)
    _number: int = 0
    _version: int = 0

    def run(
        self,
        what: str,
        operators: Sequence[OperatorSpec],
        mode: CacheMode | None,
        *,
        anew: bool = False,
        shelf: Shelved | None = None,
        environment: Mapping[str, str] | None = None,
        plainly: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """One run, judged.

        ``anew`` says that a new version voids all that is there; ``shelf`` is what ages;
        ``plainly`` are options that say the same in plain writing, for a toolchain that refuses
        them as they are written; ``where`` is how this run is told the directory.
        """
        self._number += 1
        self._version += anew
        self.succeeded = self.aged = False
        told = f"run {self._number}, {what}"
        asked = self.cache.options.but(cache_mode=mode, **options)
        for operator in operators:
            own = self.entries.get(self.key(operator, asked))
            self.cache.learn(operator, None if own is None else own.stem, asked)
        before = {aspect: Snapshot.take(path) for aspect, path in self.guarded.items()}
        told_so = self.given if where is None else where
        variables = {**told_so.get("environment", {}), **(environment or {})}
        given = {**told_so, "environment": variables}
        nothing = not self.cache.root.exists()
        run = self.cache.attempt(*operators, mode=mode, **given, **options)
        if plainly and not run.succeeded:
            asked = replace(asked, **plainly)
            plain = self.cache.attempt(*operators, mode=mode, **given, **{**options, **plainly})
            if plain.succeeded:
                ending = run.result.ending
                self._say(Aspect.MODES, told, f"written plainly, it is taken; refused: {ending}")
            run = plain
        for aspect, snapshot in before.items():
            changes = snapshot.disturbed(Snapshot.take(self.guarded[aspect]))
            for path, change in changes.items():
                self._say(aspect, told, f"outside of the cache {path} is {change.value}")
        failure = self.cache.failed_for_the_cache(run, variables)
        if failure:
            self._say(Aspect.OUTCOMES, told, failure)
            self._give_up_damaged()
            for left in self.cache.work.iterdir():  # by a run that could not tidy up
                _remove(left)
            return
        self.succeeded = True
        self._judge_others(told, run, asked, anew)
        for operator in operators:
            self._judge(told, run, operator, asked, anew)
        self._judge_kernels(told, run, asked, variables)
        self._judge_files(told, run, asked)
        self._judge_inert(told, asked, nothing)
        if shelf is not None:
            self._judge_aging(told, run, shelf)

    def key(self, operator: OperatorSpec, options: CompileOptions) -> Key:
        """Whose entry an operator has under these options."""
        mode = None
        if self.tables is not None and self.tables.has_two(operator):
            mode = self.tables.mode(options, operator)
        return Key(_nameless(operator), options.soc, mode)

    # Between runs.

    def go_elsewhere(self) -> None:
        """Have runs from now on begin in another directory, as deep as the first one."""
        self.cache.work = self.cache.work.with_name("elsewhere")
        self.cache.work.mkdir()

    def lay_hundreds(self) -> list[Shelf]:
        """Entries nobody asks for, of this chip and of two others, one of them named as this one
        begins; this chip's first."""
        chip = self.cache.options.soc
        shelves = [Shelf(self.cache, each) for each in (chip, other_soc(chip), f"{chip}C")]
        for each, names in zip(shelves, (HUNDREDS, "ab", "ab"), strict=True):
            each.lay(names, KILOBYTE, *[1.0] * len(names))
        self.cache.leave_alone(shelves[0].entry(name).stem for name in HUNDREDS)
        return shelves

    def judge_force(self, shelves: Sequence[Shelf]) -> None:
        """Whether the entries of this chip went, and those of others are there."""
        if not self.succeeded:
            return
        self.judged |= {Aspect.PURGED, Aspect.SPARED}
        mine, *others = shelves
        if left := mine.left():
            self.say(Aspect.PURGED, f"{left} of {len(HUNDREDS)} entries that were there are left")
        for each in others:
            if each.gone():
                self.say(Aspect.SPARED, f"entries of {each.soc} are gone: {each.gone()}")

    def link_directories(self, *chips: str) -> None:
        """Have links to directories outside in the place of chips, and one among the entries: what
        lies there was last used long ago."""
        outside = self.cache.sandbox / f"outside_{Aspect.LINKS.value}"
        chip = self.cache.layout.soc(self.cache.options.soc)
        if not chip.is_dir():
            return
        for link in (chip / "te_linked", *(chip.with_name(each) for each in chips)):
            if link.is_symlink() or link.exists():
                continue
            there = outside / link.name
            there.mkdir(parents=True, exist_ok=True)
            stem = f"te_outside_{'0' * 64}"
            for path in (there / f"{stem}.json", there / f"{stem}.o"):
                path.write_bytes(b"of another user")
                os.utime(path, (time.time() - _YEAR,) * 2)
            link.symlink_to(there)
        self.guarded[Aspect.LINKS] = outside
        self.judged.add(Aspect.LINKS)

    def damage(self, operator: OperatorSpec, damage: Damage) -> None:
        """Spoil the entry of an operator, of the chip under test and the default mode."""
        entry, own = self.entry(operator), self._entry(operator)
        if entry is not None and own is not None:
            damage.apply(entry)
            own.state = EntryState.DAMAGED

    def link(self, operator: OperatorSpec, *suffixes: str) -> None:
        """Move files of a valid entry out of the cache, and have links in their place."""
        entry = self._lead_away(Aspect.LINKS, operator)
        if entry is not None:
            for path in (entry.directory / f"{entry.stem}{suffix}" for suffix in suffixes):
                moved = self.guarded[Aspect.LINKS] / path.name
                path.rename(moved)
                path.symlink_to(moved)

    def lure(self, operator: OperatorSpec, *, other: bool = False) -> None:
        """Copy a valid entry out of the cache, and have its metadata name the copy; the digest
        too, where that is of ``other`` bytes than the object in the cache."""
        entry = self._lead_away(Aspect.NAMES, operator)
        if entry is not None:
            outside = self.guarded[Aspect.NAMES]
            for path in (entry.object_path, entry.metadata_path):
                shutil.copy2(path, outside)
            name = os.path.relpath(outside / entry.stem, entry.directory)
            fields = {**entry.metadata, "binFileName": name}
            if other:
                copy = outside / entry.object_path.name
                copy.write_bytes(flipped(copy.read_bytes()))
                fields["sha256"] = sha256(copy.read_bytes())
            entry.metadata_path.write_text(json.dumps(fields))

    def learn_modes(self, operators: Sequence[OperatorSpec], **modes: CompileOptions) -> None:
        """Compile fresh kernels of each mode, as options that are written plainly ask for it."""
        for asked in modes.values():
            found = self._digests(operators, asked, {})
            for each in operators:
                self._of_mode[self.key(each, asked)] = found[each]
                self._fresh[self._kernel_key(each, asked)] = found[each]

    def are_alike(self, operator: OperatorSpec, *options: CompileOptions) -> bool:
        """Whether an operator has one kernel under these options, as was learned of modes."""
        return len({self._of_mode.get(self.key(operator, each)) for each in options}) == 1

    def learn_kernels(self, *operators: OperatorSpec) -> None:
        """Compile fresh kernels of operators, all in one run."""
        asked = self.cache.options
        for each, digest in self._digests(operators, asked, {}).items():
            self._fresh[self._kernel_key(each, asked)] = digest

    def _lead_away(self, aspect: Aspect, operator: OperatorSpec) -> Entry | None:
        """The valid entry of an operator, of which nothing more is said, and a guarded
        directory; ``None`` where there is no such entry."""
        entry, own = self.entry(operator), self._entry(operator)
        if entry is None or own is None:
            return None
        self.cache.mark()  # now: a mark that is put in later would go through the link
        own.state = None
        directory = self.cache.sandbox / f"outside_{aspect.value}"
        directory.mkdir(exist_ok=True)
        self.guarded[aspect] = directory
        self.judged.add(aspect)
        return entry

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

    def entry(self, operator: OperatorSpec) -> Entry | None:
        """The valid entry of an operator, of the chip under test and the default mode."""
        own = self._entry(operator)
        if own is None or own.state is not EntryState.VALID:
            return None
        return Entry(own.stem, self.cache.layout.soc(self.cache.options.soc))

    def _entry(self, operator: OperatorSpec) -> Own | None:
        return self.entries.get(self.key(operator, self.cache.options))

    def age(
        self,
        *seconds: float,
        oldest: Iterable[OperatorSpec] = (),
        only: Iterable[OperatorSpec] | None = None,
    ) -> None:
        """Set the times of files to so many seconds from now, in turn; ``oldest`` to a year ago;
        of all entries, or ``only`` of those of some operators."""
        old = self._stems(oldest)
        files = sorted(self.cache.layout.kernel_cache.rglob("te_*"))
        if only is not None:
            chosen = self._stems(only)
            files = [path for path in files if path.stem in chosen]
        for number, path in enumerate(files):
            ago = -_YEAR if path.stem in old else seconds[number // 2 % len(seconds)]
            when = time.time() + ago
            # Of an entry that was copied the object may be the younger.
            modified = when + _LATER if path.suffix == ".o" else when
            os.utime(path, (when, modified), follow_symlinks=False)

    def _stems(self, operators: Iterable[OperatorSpec]) -> set[str]:
        owned = (self._entry(each) for each in operators)
        return {own.stem for own in owned if own is not None}

    def say(self, aspect: Aspect, what: str) -> None:
        """Note something wrong after the last run."""
        self._say(aspect, f"run {self._number}: {what}", "")

    def gone(self, seen: str, expected: str, what: str) -> None:
        """Whether what was laid beside the life's own entries went with another version."""
        if seen != expected:
            differs = f"observed: {seen or 'nothing'} gone\nexpected: {expected}"
            self._say(Aspect.UPGRADE, f"run {self._number}, {what}", differs)

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
            f"{told}{_listed(list(filter(None, subjects)))}\n{what}".rstrip()
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
        if own is not None and own.written not in (None, operator.named("")):
            aspect = Aspect.SHARED
        self.judged.add(aspect)
        state = EntryState.NONE if own is None else own.state
        debug = is_under_debug(asked, operator.type, operator.name, self.cache.edition)
        if anew and state is not EntryState.NONE:
            # Whether the old entry goes first or is overwritten is not told apart.
            allowed = {Outcome(COMPILED, fate) for fate in (Fate.STORED, REWRITTEN)}
        elif state is None or (own is None and self._shares(operator, key)):
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
        self._remember(key, own, outcome, stem, operator.named(""))

    def _shares(self, operator: OperatorSpec, key: Key) -> bool:
        """Whether it is left open if an operator shares the entry of one of its modes."""
        return key.mode is None and self.tables is not None and self.tables.has_two(operator)

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

    def _remember(
        self, key: Key, own: Own | None, outcome: Outcome, stem: str | None, written: OperatorSpec
    ) -> None:
        if outcome.entry in (Fate.STORED, REWRITTEN) and stem is not None:
            self.entries[key] = Own(stem, written=written)
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
        keys = {each: self._kernel_key(each, asked) for each in run.operators}
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
        self._judge_modes(told, asked, delivered)
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

    def _judge_modes(
        self, told: str, asked: CompileOptions, delivered: Mapping[OperatorSpec, str]
    ) -> None:
        """Whether each delivered kernel is of the mode that the options give its operator."""
        if asked.debug_level or asked.debug_config is not None:
            return
        aspect = Aspect.TABLES if asked.implmode_types is None else Aspect.TYPES
        if asked.precision_file is not None:
            aspect = Aspect.MODES
        for operator, digest in delivered.items():
            key = self.key(operator, asked)
            others = {
                other.mode
                for other, known in self._of_mode.items()
                if replace(other, mode=key.mode) == key and known == digest
            }
            if key not in self._of_mode or not others:
                continue
            self.judged.add(aspect)
            if key.mode not in others:
                seen = " and ".join(sorted(each or "no mode" for each in others))
                differs = (
                    f"observed: the kernel of {seen}\nexpected: that of {key.mode or 'no mode'}"
                )
                self._say(aspect, told, differs, str(operator))
                self.entries.pop(key, None)  # what was stored is another's

    def _kernel_key(self, operator: OperatorSpec, asked: CompileOptions) -> Any:
        debug = is_under_debug(asked, operator.type, operator.name, self.cache.edition)
        key = self.key(operator, asked)
        if debug is False:
            return key, self._version
        return key, self._version, operator.name, replace(asked, cache_mode=None)

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

    def _judge_inert(self, told: str, asked: CompileOptions, nothing: bool) -> None:
        """A run without the cache does not make it."""
        if asked.effective_mode is CacheMode.DISABLE and nothing:
            self.judged.add(Aspect.INERT)
            if self.cache.root.exists():
                self._say(Aspect.INERT, told, "the directory was made")

    def _judge_aging(self, told: str, run: Run, shelved: Shelved) -> None:
        about, shelf, limits = shelved.about, shelved.shelf, shelved.limits
        self.judged.add(about)
        aging, gone, torn = shelf.expected(run, limits), set(shelf.gone()), shelf.torn()
        others = shelf.expected(run, limits, without=shelved.orphans)
        if shelved.orphans_may_go:  # before or after entries, or not in this run
            must, stay = aging.must_go & others.must_go, aging.must_stay & others.must_stay
            aging = replace(aging, must_go=must, must_stay=stay)
        stays = aging.must_go - gone
        self.aged = not stays
        if not aging.allows(gone):
            aspect = Aspect.ORPHANS if others.allows(gone) else about
            self._say(
                Aspect.MOUNT if stays and shelf.renewed(stays) else aspect,
                told,
                f"observed: of idle entries {_counted(gone)} gone\n"
                f"expected: {_counted(aging.must_go)} "
                f"({limits.megabytes} MB, {limits.ratio} %)",
            )
        if torn:
            self._say(about, told, f"half of an aged entry was left behind: {_counted(torn)}")
        limit, value = shelved.bad
        if limit and not names_limit(run.output, limit, value):
            self._say(about, told, f"no warning names {limit} and its value {value!r}")


def renamed(operator: OperatorSpec) -> OperatorSpec:
    """The same operator: other names of its tensors, its attributes in another order."""
    inputs, outputs = (
        tuple(replace(each, name=f"{what}_{number}") for number, each in enumerate(tensors))
        for what, tensors in (("in", operator.inputs), ("out", operator.outputs))
    )
    return replace(operator, inputs=inputs, outputs=outputs, attributes=operator.attributes[::-1])


def _nameless(operator: OperatorSpec) -> OperatorSpec:
    """What an operator is but for names, which no key is to have.

    Source: rule ``cache-mode/key-ignores-names``.
    """
    inputs, outputs = (
        tuple(replace(each, name="") for each in tensors)
        for tensors in (operator.inputs, operator.outputs)
    )
    attributes = tuple(sorted(operator.attributes, key=lambda each: each.name))
    return replace(operator, name="", inputs=inputs, outputs=outputs, attributes=attributes)


def _counted(names: Iterable[str]) -> str:
    """Names of entries of a shelf, or how many there are."""
    found = sorted(names)
    if len(found) > _LISTED:
        return str(len(found))
    return "".join(found) or "none"


def flipped(data: bytes) -> bytes:
    """The same bytes but for one bit in their first quarter."""
    place = len(data) // 4
    return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]


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


def litter(life: Life) -> None:
    """Put directories of a user among the entries."""
    for name in ("a_copy", "mine", "Z-old"):
        inner = life.cache.layout.soc(life.cache.options.soc) / name / "within"
        inner.mkdir(parents=True)
        (inner / "a_note").write_text("a user's")
