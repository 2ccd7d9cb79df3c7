"""What one pass over a directory found, and what it means for each rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.audit.account import Account
from pytest_ascendcache.audit.entries import EntryJudge
from pytest_ascendcache.audit.findings import Check, FindingsOfRule
from pytest_ascendcache.audit.limits import megabytes
from pytest_ascendcache.audit.reading import FirstFew
from pytest_ascendcache.caches.recognition import CacheKind
from pytest_ascendcache.contract import Level, Verdict, load_rules

_SHOWN = 5
_OF_CONTENTS = frozenset(
    {
        Check.WHOLE_ENTRIES,
        Check.DIGESTS,
        Check.WHOLE_OBJECTS,
        Check.METADATA,
        Check.NAMES_INSIDE,
        Check.INI,
        Check.RANK_DUPLICATES,
        Check.ONE_TOOLCHAIN,
        Check.AGREEMENT,
    }
)
"""Rules about what files contain. A file that is not read leaves them undecided."""


@dataclass
class Audit:
    """The result of auditing one directory.

    ``units`` are the judges of its caches and ``kinds`` the caches' kinds, by relative path;
    ``counted`` are directories whose names count, as those of cards do; ``linked`` are those that
    links lead to. ``notes`` are shown
    whatever the verdict; ``inapplicable`` says why a rule has nothing to judge here. The
    ``account`` has every name, ``unlisted`` are directories that could not be read, ``changed`` is
    what other processes wrote meanwhile, and ``stopped`` why the search ended early, if it did.
    ``renewed`` counts access times that could not be kept.
    """

    directory: Path
    units: dict[str, EntryJudge] = field(default_factory=dict)
    kinds: dict[str, CacheKind] = field(default_factory=dict)
    counted: list[str] = field(default_factory=list)
    linked: set[str] = field(default_factory=set)
    found: Mapping[Check, FindingsOfRule] = field(default_factory=dict)
    notes: dict[Check, list[str]] = field(default_factory=dict)
    inapplicable: dict[Check, str] = field(default_factory=dict)
    unlisted: FirstFew = field(default_factory=FirstFew)
    account: Account = field(default_factory=Account)
    changed: FirstFew = field(default_factory=FirstFew)
    stopped: str = ""
    directories: int = 0
    files: int = 0
    bytes: int = 0
    renewed: int = 0

    @property
    def entries(self) -> int:
        """The number of entries in all caches."""
        return sum(judge.entries for judge in self.units.values())

    def is_too_deep(self, unit: str) -> bool:
        """Return whether a unit lies in another one, where toolchains look for no entries."""
        above = self.kinds.get(unit.rpartition("/")[0])
        return bool(unit) and above is not None and above.is_flat

    def describe(self) -> str:
        """Return one line about what was audited."""
        outputs = [unit for unit, kind in self.kinds.items() if kind is CacheKind.STATIC_OUTPUTS]
        around = {unit for unit in outputs if not self.units[unit].entries}
        around = {at for at in around if any(_is_below(each, at) for each in outputs)}
        kinds = Counter(kind.value for unit, kind in self.kinds.items() if unit not in around)
        what = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
        return f"{what or 'no known cache'}; {self.entries} entries, {self.files} files"


def _is_below(path: str, directory: str) -> bool:
    return path != directory and path.startswith(f"{directory}/" if directory else "")


def undecided(result: Audit, check: Check) -> str:
    """Return why an audit cannot decide a rule; empty if it can."""
    found = result.found.get(check, FindingsOfRule())
    so_far = f" (found so far: {found.count})" if found.count else ""
    if result.changed.count:
        return (
            f"{result.directory} changed while it was read: {result.changed}{so_far}; audit it "
            "again when nobody compiles, or audit a copy"
        )
    if result.unlisted.count:
        return f"what is in {result.directory} cannot be looked into: {result.unlisted}{so_far}"
    if result.stopped and not found.count:
        return f"{result.directory} was not read to its end: {result.stopped}"
    unread = result.account.unread
    if unread.count and not found.count and check in _OF_CONTENTS:
        names = "1 name" if unread.count == 1 else f"{unread.count} names"
        return f"{names} in {result.directory} could be loaded and was not read: {unread}"
    return ""


def story(result: Audit, check: Check) -> str:
    """Return what breaks a rule, with the first few files by name; empty if nothing does."""
    found = result.found.get(check)
    if found is None:
        return ""
    size = f", {megabytes(found.bytes)}" if found.bytes else ""
    count = "1 fault" if found.count == 1 else f"{found.count} faults"
    lines = [f"{count}{size} in {result.directory}"]
    lines += [f"  {each.path}: {each.detail}" for each in found.first[:_SHOWN]]
    if found.count > _SHOWN:
        lines.append(f"  and {found.count - _SHOWN} more")
    return "\n".join(lines)


def nothing_judged(result: Audit) -> str:
    """Return that there is nothing in a directory that could be used; empty if there is."""
    is_empty = Check.NOT_EMPTY in result.found and not result.changed.count
    return f"there is no entry in {result.directory} to judge" if is_empty else ""


def answer(result: Audit) -> Verdict:
    """Return what the audit says of its directory as a whole."""
    rules, found = load_rules(), {Verdict.UNDECIDED} if nothing_judged(result) else set()
    for check in Check:
        level = rules[check.value].level
        if check in result.found and not result.changed.count and level is not Level.INFO:
            found.add(Verdict.FAIL if level is Level.MUST else Verdict.WARN)
        if undecided(result, check):
            found.add(Verdict.UNDECIDED)
    order = (Verdict.FAIL, Verdict.UNDECIDED, Verdict.WARN)
    return next((each for each in order if each in found), Verdict.PASS)


def as_dict(result: Audit) -> dict[str, object]:
    """Return the result as plain data for reports."""
    account = result.account
    return {
        "directory": str(result.directory),
        "verdict": answer(result).value,
        "entries": result.entries,
        "stopped": result.stopped,
        "names": {
            "all": account.names,
            "of_entries": account.entries,
            "known": dict(sorted(account.known.items())),
            "not_read": account.unread.count,
            "not_read_first": account.unread.first,
            "foreign": account.foreign.count,
            "foreign_first": account.foreign.first,
        },
        "findings": [
            each.as_dict()
            for check in Check
            if check in result.found
            for each in result.found[check].first
        ],
    }
