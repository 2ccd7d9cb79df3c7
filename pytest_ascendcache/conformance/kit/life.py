"""One cache through many runs, each judged by what the earlier runs left in the cache.

A life knows which operator owns which entry, and the state of that entry. Before a run it asks the
contract's central table; after the run it compares what each operator was delivered, what became
of every entry (also of entries that no operator of the run owns), and what else was touched. The
next run starts from what was observed, not from what was expected, so that one fault is reported
once.
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
from pytest_ascendcache.conformance.kit.table import (
    HEALED,
    allowed_outcomes,
    alternatives,
    differs,
    healing_outcomes,
    lists_everything,
)
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
    is_under_debug,
    other_soc,
)
from pytest_ascendcache.contract.facts import Fact
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REMOVED, REWRITTEN, STORED
from pytest_ascendcache.faults import Damage
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.aftermath import CacheWitness
from pytest_ascendcache.observation.evidence import Witness
from pytest_ascendcache.operators import OperatorSpec, TensorDesc

YEAR = 365 * 86400.0
"""Seconds."""
_COPIED_LATER = 10.0
"""Seconds by which an object is younger than its metadata when a life sets file times."""
_LISTED = 26
"""Names of shelf entries that a message lists; of more it gives the number."""
_SHOWN = 3
"""Operators or files that a message names for one problem."""


class Aspect(Enum):
    """What a check asks of a life: the id of its case, and the rule that the case judges."""

    OUTCOMES = "outcomes", "combinations/outcome"
    KERNELS = "kernels", "cache-mode/transparent"
    NUMBERS = "numbers", "combinations/numbers"
    MODES = "modes", "impl-mode/precision-file"
    TYPES = "types", "impl-mode/type-list"
    TABLES = "tables", "impl-mode/for-all"
    INERT = "inert", "cache-mode/disable-is-inert"
    HEALING = "healing", "robust/heals-damaged-entry"
    AGING = "aging", "aging/oldest-first"
    SOURCES = "sources", "aging/ini-beats-environment"
    HALVES = "halves", "aging/ini-needs-both-keys"
    BAD = "bad", "aging/bad-values"
    OFF = "off", "aging/minus-one"
    RENEWS = "renews", "aging/hit-renews"
    CHIPS = "chips", "aging/per-soc"
    CREATED = "created", "aging/creates-ini"
    ORPHANS = "orphans", "aging/orphans"
    MOUNT = "mount", "aging/works-on-relatime"
    SHARED = "shared", "cache-mode/key-ignores-names"
    SPARED = "spared", "cache-mode/force-spares-other-soc"
    PURGED = "purged", "cache-mode/force-purges-soc"
    UPGRADE = "upgrade", "robust/upgrade-stamp"
    PRIVATE = "private", "security/private-modes"
    LINKS = "links", "security/no-symlink-follow"
    NAMES = "names", "security/no-path-escape"
    PLACE = "place", "cache-mode/directory-precedence"

    def __init__(self, case: str, rule: str) -> None:
        self.case = case
        self.rule = rule


@dataclass(frozen=True)
class Problem:
    """A broken promise seen in one run. ``subject`` is the operator or entry, if one is to
    blame."""

    headline: str
    subject: str
    detail: str


@dataclass(frozen=True)
class Key:
    """What identifies an entry: the operator without names or attribute order, the chip, and the
    implementation mode if the operator has two."""

    operator: OperatorSpec
    soc: str
    mode: str | None


@dataclass(frozen=True)
class _AspectWitness:
    """The witness of a life, limited to the harm that belongs to one aspect."""

    witness: CacheWitness
    aspect: Aspect

    def seen(self) -> list[Fact]:
        return self.witness.seen(self.aspect in (Aspect.LINKS, Aspect.NAMES, Aspect.PLACE))

    def afterwards(self) -> Fact | None:
        asks = self.aspect in (Aspect.OUTCOMES, Aspect.KERNELS, Aspect.HEALING)
        return self.witness.afterwards() if asks else None


@dataclass
class OwnEntry:
    """The entry of an operator.

    ``state`` is ``None`` while the documents do not say what a run has to do with the entry.
    ``stored_for`` is the operator, with its tensor names, that the entry was stored for.
    """

    stem: str
    state: EntryState | None = EntryState.VALID
    stored_for: OperatorSpec | None = None


@dataclass(frozen=True)
class AgingShelf:
    """A shelf of entries that a run has to age by some limits, and the aspect this judges.

    ``orphans`` are the bytes of incomplete entries next to the shelf; ``orphans_may_go`` says that
    they are idle. ``bad`` is a limit and its bad value, which a warning has to name.
    """

    shelf: Shelf
    limits: CacheLimits
    aspect: Aspect = Aspect.AGING
    orphans: int = 0
    orphans_may_go: bool = False
    bad: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class _Step:
    """A run that succeeded. ``headline`` names it in messages; ``upgraded`` says that it is the
    first run of another version, which voids every entry."""

    headline: str
    run: Run
    options: CompileOptions
    variables: Mapping[str, str]
    upgraded: bool


@dataclass
class Life:
    """A cache and what is known of its entries. ``arguments`` go with every run."""

    cache: CacheUnderTest
    tables: ImplModeTables | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    guarded: dict[Aspect, Path] = field(default_factory=dict)
    """Directories outside of the cache that no run may change."""
    entries: dict[Key, OwnEntry] = field(default_factory=dict)
    problems: dict[Aspect, list[Problem]] = field(default_factory=dict)
    undecided: dict[Aspect, str] = field(default_factory=dict)
    judged: set[Aspect] = field(default_factory=set)
    succeeded: bool = False
    """Whether the last run succeeded. What a failed run leaves shows nothing about promises."""
    aged: bool = False
    """Whether every entry that had to age in the last run is gone."""
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
        upgraded: bool = False,
        aging: AgingShelf | None = None,
        environment: Mapping[str, str] | None = None,
        plain: Mapping[str, Any] | None = None,
        directory: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Make one run and judge it.

        ``plain`` are the same options in plain spelling, in case the toolchain refuses the odd one.
        ``directory`` are arguments that name the cache directory in another way; they replace
        ``arguments`` for this run.
        """
        self._number += 1
        self._version += upgraded
        self.succeeded = self.aged = False
        headline = f"run {self._number}, {what}"
        asked = self.cache.options.but(cache_mode=mode, **options)
        for operator in operators:
            own = self.entries.get(self.key(operator, asked))
            self.cache.learn(operator, None if own is None else own.stem, asked)
        before = {aspect: Snapshot.take(path) for aspect, path in self.guarded.items()}
        arguments = self.arguments if directory is None else directory
        variables = {**arguments.get("environment", {}), **(environment or {})}
        arguments = {**arguments, "environment": variables}
        had_directory = self.cache.root.exists()
        run = self.cache.attempt(*operators, mode=mode, **arguments, **options)
        if plain and not run.succeeded:
            refused, asked = run, replace(asked, **plain)
            run = self.cache.attempt(*operators, mode=mode, **arguments, **{**options, **plain})
            if run.succeeded:
                ending = refused.result.ending
                self._note(
                    Aspect.MODES, headline, f"written plainly, it is taken; refused: {ending}"
                )
        for aspect, snapshot in before.items():
            changes = snapshot.disturbed(Snapshot.take(self.guarded[aspect]))
            for path, change in changes.items():
                self._note(aspect, headline, f"outside of the cache {path} is {change.value}")
        failure = self.cache.failed_for_the_cache(run, variables)
        if failure:
            self._note(Aspect.OUTCOMES, headline, failure)
            self._remove_damaged()
            for left in self.cache.work.iterdir():  # a failed run may not have tidied up
                _remove(left)
            return
        self.succeeded = True
        step = _Step(headline, run, asked, variables, upgraded)
        self._judge_others(step)
        for operator in operators:
            self._judge_operator(step, operator)
        self._judge_kernels(step)
        self._judge_files(step)
        if asked.effective_mode is CacheMode.DISABLE and not had_directory:
            self.judged.add(Aspect.INERT)
            if self.cache.root.exists():
                self._note(Aspect.INERT, headline, "the directory was made")
        if aging is not None:
            self._judge_aging(step, aging)

    def key(self, operator: OperatorSpec, options: CompileOptions) -> Key:
        """What identifies the entry of an operator under these options."""
        mode = None
        if self.tables is not None and self.tables.has_two(operator):
            mode = self.tables.mode(options, operator)
        return Key(_nameless(operator), options.soc, mode)

    # Between runs.

    def add_user_directories(self) -> None:
        """Put directories of a user among the entries."""
        for name in ("a_copy", "mine", "Z-old"):
            inner = self.cache.layout.soc(self.cache.options.soc) / name / "within"
            inner.mkdir(parents=True)
            (inner / "a_note").write_text("a user's")

    def lay_hundreds(self) -> list[Shelf]:
        """Lay entries nobody asks for: of this chip (the first shelf), of another chip, and of one
        whose name begins like this chip's."""
        chip = self.cache.options.soc
        shelves = [Shelf(self.cache, each) for each in (chip, other_soc(chip), f"{chip}C")]
        for shelf, names in zip(shelves, (HUNDREDS, "ab", "ab"), strict=True):
            shelf.lay(names, KILOBYTE, *[1.0] * len(names))
        self.cache.leave_alone(shelves[0].entry(name).stem for name in HUNDREDS)
        return shelves

    def judge_force(self, shelves: Sequence[Shelf]) -> None:
        """Judge a run under force: the entries of this chip are gone, those of others are not."""
        if not self.succeeded:
            return
        self.judged |= {Aspect.PURGED, Aspect.SPARED}
        mine, *others = shelves
        if left := mine.left():
            self.note(Aspect.PURGED, f"{left} of {len(HUNDREDS)} entries that were there are left")
        for shelf in others:
            if shelf.gone():
                self.note(Aspect.SPARED, f"entries of {shelf.soc} are gone: {shelf.gone()}")

    def link_directories(self, *chips: str) -> None:
        """Put links to directories outside where these chips' directories belong, and one among
        the entries. The files in the linked directories were last used a year ago."""
        outside = self.cache.sandbox / f"outside_{Aspect.LINKS.case}"
        chip = self.cache.layout.soc(self.cache.options.soc)
        if not chip.is_dir():
            return
        for link in (chip / "te_linked", *(chip.with_name(each) for each in chips)):
            if link.is_symlink() or link.exists():
                continue
            target = outside / link.name
            target.mkdir(parents=True, exist_ok=True)
            stem = f"te_outside_{'0' * 64}"
            for path in (target / f"{stem}.json", target / f"{stem}.o"):
                path.write_bytes(b"of another user")
                os.utime(path, (time.time() - YEAR,) * 2)
            link.symlink_to(target)
        self.guarded[Aspect.LINKS] = outside
        self.judged.add(Aspect.LINKS)

    def damage(self, operator: OperatorSpec, damage: Damage) -> None:
        """Damage the entry of an operator, for the chip under test and the default mode."""
        entry, own = self.entry(operator), self._own(operator)
        if entry is not None and own is not None:
            damage.apply(entry)
            own.state = EntryState.DAMAGED

    def link(self, operator: OperatorSpec, *suffixes: str) -> None:
        """Move files of a valid entry out of the cache and leave links to them."""
        entry = self._guard_outside(Aspect.LINKS, operator)
        if entry is not None:
            for path in (entry.directory / f"{entry.stem}{suffix}" for suffix in suffixes):
                moved = self.guarded[Aspect.LINKS] / path.name
                path.rename(moved)
                path.symlink_to(moved)

    def point_outside(self, operator: OperatorSpec, *, other: bool = False) -> None:
        """Copy a valid entry out of the cache, and have its metadata name the copy as its object.
        If ``other``, the copy differs from the cached object, and the digest is the copy's."""
        entry = self._guard_outside(Aspect.NAMES, operator)
        if entry is not None:
            outside = self.guarded[Aspect.NAMES]
            for path in (entry.object_path, entry.metadata_path):
                shutil.copy2(path, outside)
            name = os.path.relpath(outside / entry.stem, entry.directory)
            fields = {**entry.metadata, "binFileName": name}
            if other:
                copy = outside / entry.object_path.name
                data = bytearray(copy.read_bytes())
                data[len(data) // 4] ^= 1
                copy.write_bytes(data)
                fields["sha256"] = sha256(bytes(data))
            entry.metadata_path.write_text(json.dumps(fields))

    def learn_modes(self, operators: tuple[OperatorSpec, ...], *modes: CompileOptions) -> None:
        """Compile fresh kernels of each implementation mode; the options select it in plain
        spelling."""
        for options in modes:
            for operator, digest in self.cache.fresh_digests(operators, {}, options).items():
                self._of_mode[self.key(operator, options)] = digest
                self._fresh[self._kernel_key(operator, options)] = digest

    def are_alike(self, operator: OperatorSpec, *options: CompileOptions) -> bool:
        """Whether an operator has the same kernel under all of these options, as
        :meth:`learn_modes` found."""
        return len({self._of_mode.get(self.key(operator, each)) for each in options}) == 1

    def learn_kernels(self, *operators: OperatorSpec) -> None:
        """Compile fresh kernels of operators, all in one run."""
        options = self.cache.options
        for operator, digest in self.cache.fresh_digests(operators, {}, options).items():
            self._fresh[self._kernel_key(operator, options)] = digest

    def _guard_outside(self, aspect: Aspect, operator: OperatorSpec) -> Entry | None:
        """Make the guarded directory of an aspect. Returns the operator's valid entry, whose later
        outcomes are not judged, or ``None`` if there is none."""
        entry, own = self.entry(operator), self._own(operator)
        if entry is None or own is None:
            return None
        self.cache.mark()  # Marking the entry later would write through the link.
        own.state = None
        directory = self.cache.sandbox / f"outside_{aspect.case}"
        directory.mkdir(exist_ok=True)
        self.guarded[aspect] = directory
        self.judged.add(aspect)
        return entry

    def _remove_damaged(self) -> None:
        """Remove every entry that is not valid, so that later runs do not fail over it too."""
        for key, own in list(self.entries.items()):
            if own.state is not EntryState.VALID:
                entry = Entry(own.stem, self.cache.layout.soc(key.soc))
                for path in (entry.object_path, entry.metadata_path):
                    _remove(path)
                del self.entries[key]

    def entry(self, operator: OperatorSpec) -> Entry | None:
        """The valid entry of an operator, for the chip under test and the default mode."""
        own = self._own(operator)
        if own is None or own.state is not EntryState.VALID:
            return None
        return Entry(own.stem, self.cache.layout.soc(self.cache.options.soc))

    def _own(self, operator: OperatorSpec) -> OwnEntry | None:
        return self.entries.get(self.key(operator, self.cache.options))

    def age(
        self,
        *seconds: float,
        oldest: Iterable[OperatorSpec] = (),
        only: Iterable[OperatorSpec] | None = None,
    ) -> None:
        """Set the file times of entries to these seconds from now, in turn; of ``oldest`` to a year
        ago. ``only`` limits this to the entries of some operators."""
        old = self._stems(oldest)
        files = sorted(self.cache.layout.kernel_cache.rglob("te_*"))
        if only is not None:
            chosen = self._stems(only)
            files = [path for path in files if path.stem in chosen]
        for number, path in enumerate(files):
            ago = -YEAR if path.stem in old else seconds[number // 2 % len(seconds)]
            when = time.time() + ago
            # Copying an entry may leave its object younger than its metadata.
            modified = when + _COPIED_LATER if path.suffix == ".o" else when
            os.utime(path, (when, modified), follow_symlinks=False)

    def _stems(self, operators: Iterable[OperatorSpec]) -> set[str]:
        owned = (self._own(each) for each in operators)
        return {own.stem for own in owned if own is not None}

    # Judging.

    def note(self, aspect: Aspect, headline: str) -> None:
        """Note a problem that shows after the last run."""
        self._note(aspect, f"run {self._number}: {headline}")

    def _note(self, aspect: Aspect, headline: str, detail: str = "", subject: object = "") -> None:
        problem = Problem(headline, str(subject), detail)
        self.problems.setdefault(aspect, []).append(problem)

    def judge_upgrade(self, gone: str, expected: str, what: str) -> None:
        """Judge whether another version removed what was laid next to the life's own entries."""
        if gone != expected:
            detail = differs(f"{gone or 'nothing'} gone", expected)
            self._note(Aspect.UPGRADE, f"run {self._number}, {what}", detail)

    def witness(self, aspect: Aspect) -> Witness:
        """Who tells which harm a problem of this aspect did."""
        return _AspectWitness(self.cache.witness, aspect)

    def message(self, aspect: Aspect) -> str:
        """The problems of one aspect, equal ones told once for all of their subjects; empty for
        none."""
        alike: dict[tuple[str, str], list[str]] = {}
        for problem in self.problems.get(aspect, ()):
            alike.setdefault((problem.headline, problem.detail), []).append(problem.subject)
        return "\n".join(
            f"{headline}{_listed(list(filter(None, subjects)))}\n{detail}".rstrip()
            for (headline, detail), subjects in alike.items()
        )

    def _judge_operator(self, step: _Step, operator: OperatorSpec) -> None:
        """Judge the outcome of one operator, and remember what became of its entry."""
        options, edition = step.options, self.cache.edition
        key = self.key(operator, options)
        own = self.entries.get(key)
        try:
            outcome = step.run[operator]
            stem = step.run.stem(operator)
        except NotDecidable as reason:
            self.undecided.setdefault(Aspect.OUTCOMES, f"{step.headline}: {reason}")
            self.entries.pop(key, None)
            return
        aspect = Aspect.UPGRADE if step.upgraded else Aspect.OUTCOMES
        if own is not None and own.stored_for not in (None, operator.named("")):
            aspect = Aspect.SHARED
        self.judged.add(aspect)
        state = EntryState.NONE if own is None else own.state
        allowed: frozenset[Outcome] = frozenset()
        if step.upgraded and state is not EntryState.NONE:
            # Nothing tells whether the old entry is removed first or overwritten.
            allowed = frozenset(Outcome(COMPILED, fate) for fate in (STORED, REWRITTEN))
        elif state is not None:
            # An operator with two modes and none selected may share the entry of either.
            two = self.tables is not None and self.tables.has_two(operator)
            if own is not None or key.mode is not None or not two:
                allowed = allowed_outcomes(options, operator, edition, state)
        if allowed and outcome not in allowed:
            self._note(aspect, step.headline, differs(outcome, alternatives(allowed)), operator)
        if state is EntryState.DAMAGED:
            healing = healing_outcomes(options, operator, edition)
            if healing:
                self.judged.add(Aspect.HEALING)
            if healing and outcome not in healing:
                self._note(Aspect.HEALING, step.headline, differs(outcome, HEALED), operator)
        if outcome.entry in (STORED, REWRITTEN) and stem is not None:
            self.entries[key] = OwnEntry(stem, stored_for=operator.named(""))
        elif outcome.entry in (Fate.ABSENT, REMOVED) or stem is None:
            self.entries.pop(key, None)
        elif own is None:
            self.entries[key] = OwnEntry(stem)  # apparently the entry of another operator

    def _judge_others(self, step: _Step) -> None:
        """Judge the entries that no operator of the run owns."""
        run, options = step.run, step.options
        owned = {self.key(operator, options) for operator in run.operators}
        for key, own in [item for item in self.entries.items() if item[0] not in owned]:
            fate = run.fate_of(f"{run.prefix}{key.soc}/{own.stem}")
            allowed = {KEPT}
            if step.upgraded:
                allowed = {REMOVED}
            elif key.soc == options.soc:
                allowed = set(bystander_fates(options, self.cache.edition))
                if lists_everything(options, run.operators):
                    allowed |= {KEPT, REMOVED}
            if own.state is EntryState.DAMAGED and KEPT in allowed:
                allowed |= {REMOVED, REWRITTEN}
            if fate not in allowed and own.state is not None:
                self._note(
                    Aspect.UPGRADE if step.upgraded else Aspect.OUTCOMES,
                    f"{step.headline}, entries that were not asked for",
                    differs(fate.value, alternatives(each.value for each in allowed)),
                    f"{key.operator} on {key.soc}" + (f", {key.mode}" if key.mode else ""),
                )
            if fate in (REMOVED, Fate.ABSENT):
                del self.entries[key]

    def _judge_kernels(self, step: _Step) -> None:
        """Compare each delivered kernel with a fresh one of the same options, and its numbers with
        its implementation mode."""
        run, toolchain = step.run, self.cache.toolchain

        def fresh_digests(operators: Iterable[OperatorSpec]) -> dict[OperatorSpec, str]:
            return self.cache.fresh_digests(tuple(operators), step.variables, step.options)

        keys = {each: self._kernel_key(each, step.options) for each in run.operators}
        try:
            if missing := [each for each, key in keys.items() if key not in self._fresh]:
                for operator, digest in fresh_digests(missing).items():
                    self._fresh[keys[operator]] = digest
            delivered = {each: run.unmarked_sha256(each) for each in run.operators}
            wrong = [each for each in run.operators if delivered[each] != self._fresh[keys[each]]]
            if wrong:  # options may change a kernel although no document says so
                fresh = fresh_digests(wrong)
                wrong = [each for each in wrong if delivered[each] != fresh[each]]
                if wrong and fresh_digests(wrong) != {each: fresh[each] for each in wrong}:
                    raise NotDecidable("two fresh compiles give different kernels")
        except NotDecidable as reason:
            self.undecided.setdefault(Aspect.KERNELS, f"{step.headline}: {reason}")
            return
        self._judge_modes(step, delivered)
        self.judged.add(Aspect.KERNELS)
        for operator in wrong:
            detail = "not the kernel of a fresh compile"
            self._note(Aspect.KERNELS, step.headline, detail, operator)
        if self.tables is not None and Capability.RUN_KERNELS in toolchain.capabilities:
            try:
                self.judged.add(Aspect.NUMBERS)
                for text in wrong_numbers(toolchain, run, self.tables, run.operators):
                    self._note(Aspect.NUMBERS, step.headline, text)
            except NotDecidable as reason:
                self.undecided.setdefault(Aspect.NUMBERS, f"{step.headline}: {reason}")

    def _judge_modes(self, step: _Step, delivered: Mapping[OperatorSpec, str]) -> None:
        """Judge whether each delivered kernel has the mode that the options select."""
        options = step.options
        if options.debug_level or options.debug_config is not None:
            return
        aspect = Aspect.TABLES if options.implmode_types is None else Aspect.TYPES
        if options.precision_file is not None:
            aspect = Aspect.MODES
        for operator, digest in delivered.items():
            key = self.key(operator, options)
            modes = {
                other.mode
                for other, known in self._of_mode.items()
                if replace(other, mode=key.mode) == key and known == digest
            }
            if key not in self._of_mode or not modes:
                continue
            self.judged.add(aspect)
            if key.mode not in modes:
                observed = " and ".join(sorted(each or "no mode" for each in modes))
                detail = differs(f"the kernel of {observed}", f"that of {key.mode or 'no mode'}")
                self._note(aspect, step.headline, detail, operator)
                self.entries.pop(key, None)  # the entry holds another operator's kernel

    def _kernel_key(self, operator: OperatorSpec, options: CompileOptions) -> Any:
        """What the fresh kernel of an operator depends on."""
        debug = is_under_debug(options, operator.type, operator.name, self.cache.edition)
        key = self.key(operator, options)
        if debug is False:
            return key, self._version
        return key, self._version, operator.name, replace(options, cache_mode=None)

    def _judge_files(self, step: _Step) -> None:
        """Judge the permissions in the cache, and what the run left in its working directory."""
        files, options = step.run.after.files, step.options
        if files:
            self.judged |= {Aspect.PRIVATE, Aspect.PLACE}
        for path, state in files.items():
            if state.mode & 0o002 and state.kind != "link":
                self._note(Aspect.PRIVATE, step.headline, "everybody may write", path)
        debugged = bool(options.debug_level) or options.debug_config is not None
        for left in sorted(self.cache.work.iterdir()):
            if not (debugged and left.name.startswith("kernel_meta")):
                where = "left in the working directory"
                self._note(Aspect.PRIVATE, step.headline, where, left.name)
            _remove(left)

    def _judge_aging(self, step: _Step, aged: AgingShelf) -> None:
        """Judge which entries of a shelf are gone, and whether a warning names a bad limit."""
        shelf, limits, run = aged.shelf, aged.limits, step.run
        self.judged.add(aged.aspect)
        aging, gone, torn = shelf.expected(run, limits), set(shelf.gone()), shelf.torn()
        without_orphans = shelf.expected(run, limits, without=aged.orphans)
        if aged.orphans_may_go:  # before or after the entries, or not in this run
            aging = replace(
                aging,
                must_go=aging.must_go & without_orphans.must_go,
                must_stay=aging.must_stay & without_orphans.must_stay,
            )
        stays = aging.must_go - gone
        self.aged = not stays
        if not aging.allows(gone):
            aspect = Aspect.ORPHANS if without_orphans.allows(gone) else aged.aspect
            if stays and shelf.renewed(stays):
                aspect = Aspect.MOUNT
            must = f"{_counted(aging.must_go)} ({limits.megabytes} MB, {limits.ratio} %)"
            detail = differs(f"of idle entries {_counted(gone)} gone", must)
            self._note(aspect, step.headline, detail)
        if torn:
            detail = f"half of an aged entry was left behind: {_counted(torn)}"
            self._note(aged.aspect, step.headline, detail)
        limit, value = aged.bad
        if limit and not names_limit(run.output, limit, value):
            detail = f"no warning names {limit} and its value {value!r}"
            self._note(aged.aspect, step.headline, detail)


def renamed(operator: OperatorSpec) -> OperatorSpec:
    """The same operator with other tensor names and its attributes in another order."""
    other = _name_tensors(operator, "in_{}", "out_{}")
    return replace(other, attributes=operator.attributes[::-1])


def _nameless(operator: OperatorSpec) -> OperatorSpec:
    """An operator without the names that no key may contain.

    Source: rule ``cache-mode/key-ignores-names``.
    """
    attributes = tuple(sorted(operator.attributes, key=lambda each: each.name))
    return replace(_name_tensors(operator, "", ""), name="", attributes=attributes)


def _name_tensors(operator: OperatorSpec, input_name: str, output_name: str) -> OperatorSpec:
    """Name the tensors of an operator; ``{}`` in a name stands for the tensor's position."""

    def named_by(tensors: Iterable[TensorDesc], name: str) -> tuple[TensorDesc, ...]:
        return tuple(replace(each, name=name.format(number)) for number, each in enumerate(tensors))

    return replace(
        operator,
        inputs=named_by(operator.inputs, input_name),
        outputs=named_by(operator.outputs, output_name),
    )


def named(operators: Iterable[OperatorSpec], prefix: str) -> tuple[OperatorSpec, ...]:
    """The same operators, named by their position."""
    return tuple(each.named(f"{prefix}{number}") for number, each in enumerate(operators))


def _counted(names: Iterable[str]) -> str:
    """Names of shelf entries, or their number if there are many."""
    listed = sorted(names)
    if len(listed) > _LISTED:
        return str(len(listed))
    return "".join(listed) or "none"


def _listed(subjects: Sequence[str]) -> str:
    more = len(subjects) - _SHOWN
    listed = ", ".join(subjects[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f": {listed}" if listed else ""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
