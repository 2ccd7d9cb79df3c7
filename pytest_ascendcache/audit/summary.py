"""What only shows once every file was read: limits, contradictions, toolchains, ranks."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from pytest_ascendcache.audit.cann import KernelFolder, SocCache
from pytest_ascendcache.audit.compare import CardsOfJobs
from pytest_ascendcache.audit.emptiness import judge_emptiness
from pytest_ascendcache.audit.entries import Toolchains, other_chip
from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.limits import Ini, limits_of, megabytes, read_ini
from pytest_ascendcache.audit.mindspore import RankKernels
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Reader, is_large
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.scratch import Scratch
from pytest_ascendcache.audit.static import AuditedInstallation, StaticOutputs
from pytest_ascendcache.caches.cards import card_of
from pytest_ascendcache.caches.chips import CHIP, is_same_chip
from pytest_ascendcache.caches.recognition import CacheKind
from pytest_ascendcache.contract import Edition

_NO_CANN = "there is no operator cache of CANN in it"
_ONLY_GRAPHS = "graphs have no metadata with a digest or a name"
_INI, _VERSION = "op_cache.ini", "version.info"


@dataclass(frozen=True)
class Summary:
    """Completes the result of a pass; ``now`` is in seconds since the epoch, and ``environment``
    supplies limits that no file sets."""

    result: Audit
    ledger: Ledger
    reader: Reader
    environment: Mapping[str, str]
    now: float
    edition: Edition
    _read: dict[Path | None, dict[str, Ini]] = field(default_factory=dict)

    def conclude(self) -> None:
        """Add findings about several files, notes, and the rules that do not apply."""
        result = self.result
        self._limits()
        outputs = [each for each in result.units.values() if isinstance(each, StaticOutputs)]
        reuses = any(each.reuses for each in outputs)
        packed = [names for each in outputs for names in each.packed_for_others(reuses)]
        for unit, judge in result.units.items():
            if isinstance(judge, (AuditedInstallation, RankKernels)):
                judge.conclude()
            elif isinstance(judge, StaticOutputs):
                judge.conclude(packed)
            elif isinstance(judge, Scratch):
                self._notes(Check.LEFTOVERS).append(judge.conclude(unit))
            if note := judge.untold:
                self._notes(Check.DIGESTS).append(f"{printable(unit or '.')}: {note}")
        self._toolchains()
        self._machines()
        self._chips()
        CardsOfJobs(result, self.ledger, self.reader).conclude()
        judge_emptiness(result, self.ledger)
        notes = self._notes(Check.WHOLE_ENTRIES)
        notes.append(result.describe())
        notes += result.account.lines()
        if result.stopped:
            notes.append(f"the search ended early: {result.stopped}")
        if {*result.kinds.values()} <= {CacheKind.GRAPH_CACHE, CacheKind.GE_GRAPHS}:
            result.inapplicable |= dict.fromkeys((Check.DIGESTS, Check.NAMES_INSIDE), _ONLY_GRAPHS)
        if renewed := self.reader.renewed:
            notes.append(f"{renewed} access times could not be kept: only a file's owner may")

    def _notes(self, check: Check) -> list[str]:
        return self.result.notes.setdefault(check, [])

    def _limits(self) -> None:
        socs = {u: judge for u, judge in self.result.units.items() if isinstance(judge, SocCache)}
        if not socs:
            self.result.inapplicable |= dict.fromkeys((Check.INI, Check.SIZE), _NO_CANN)
        parents = {unit: self._kernel_cache(unit) for unit in socs}
        self._read.update({parent: self._inis(parent) for parent in {*parents.values()}})
        for unit, soc in sorted(socs.items()):
            limits, origin = limits_of(self._read[parents[unit]], self.environment, self.edition)
            name = printable(unit or self.result.directory.name)
            total, notes = soc.aging.total, self._notes(Check.SIZE)
            if limits.bytes is None:
                notes.append(f"{name}: {megabytes(total)}, aging is off ({origin})")
                continue
            gone, size = soc.aging.would_go(limits, self.now, self.edition.idle)
            aging = f"{gone} entries ({megabytes(size)})" if gone else "none"
            state = f"{megabytes(total)} of {limits.megabytes} MB ({origin}), {aging} would age now"
            notes.append(f"{name}: {state}")
            if total > limits.bytes:
                first = f", {', '.join(map(printable, soc.aging.oldest))} first" if gone else ""
                detail = f"has {state}{first}; {limits.ratio} % of the limit is kept"
                self.ledger.add(Check.SIZE, unit or ".", detail, total)

    def _kernel_cache(self, unit: str) -> Path | None:
        """Return the directory of all SoCs; None if one SoC's directory is audited by itself."""
        parent = (self.result.directory / unit).parent
        return parent if unit or parent.name == "kernel_cache" else None

    def _inis(self, cache: Path | None) -> dict[str, Ini]:
        """Read the files that set limits, by path, the place that the document names first, and
        report what is wrong with them."""
        if cache is None:
            return {}
        places = [cache.parent, cache] if cache.name == "kernel_cache" else [cache]
        inis = {}
        for place in places:
            if (data := self._small_file(place, _INI)) is None:
                self._misspelt(place)
                continue
            path = self._relative(place / _INI)
            inis[path] = read_ini(data, self.edition)
            for problem in inis[path].problems:
                self.ledger.add(Check.INI, path, problem, len(data))
        stamps = {path: ini.stamps for path, ini in inis.items()}
        if (data := self._small_file(cache, _VERSION)) is not None:
            stamped = read_ini(b"[op_compiler_cache]\n" + data, self.edition)
            stamps[self._relative(cache / _VERSION)] = stamped.stamps
        known: dict[str, tuple[str, str]] = {}
        for path, values in (*((path, ini.values) for path, ini in inis.items()), *stamps.items()):
            for key, value in values.items():
                other, before = known.setdefault(key, (path, value))
                if before != value:
                    detail = (
                        f"says {key}={value[:40]}, {other} says {before[:40]}: one of them is stale"
                    )
                    self.ledger.add(Check.INI, path, detail)
        return inis

    def _misspelt(self, place: Path) -> None:
        """Report settings that nobody reads, in a file whose name is nearly the right one."""
        for name in (
            (f"{_INI}.txt", _INI.upper()) if place.is_relative_to(self.result.directory) else ()
        ):
            if b"=" in (self._small_file(place, name) or b""):
                detail = "is not read: the file of limits is called op_cache.ini"
                self.ledger.add(Check.INI, self._relative(place / name), detail)

    def _small_file(self, place: Path, name: str) -> bytes | None:
        try:
            with self.reader.folder(place, self._relative(place)) as folder:
                content = folder.read(name)
        except CannotRead as error:
            self.result.account.unread.add(str(error))
        except ChangedWhileRead as error:
            self.result.changed.add(str(error))
        except OSError:
            return None  # nothing needs to exist outside of the audited directory
        else:
            if content is not None and is_large(content.info):
                size = content.info.st_size
                detail = f"has {size} bytes: no settings are that large"
                self.ledger.add(Check.INI, self._relative(place / name), detail, size)
            elif content is not None:
                return content.data
        return None

    def _relative(self, path: Path) -> str:
        if not path.is_relative_to(self.result.directory):
            return str(path)
        relative = path.relative_to(self.result.directory)
        return "" if relative == Path() else str(relative)

    def _toolchains(self) -> None:
        """Compare the toolchains behind all SoCs of a cache, and behind all ranks of a job."""
        groups: defaultdict[str, Toolchains] = defaultdict(Toolchains)
        for unit, judge in sorted(self.result.units.items()):
            if isinstance(judge, (KernelFolder, RankKernels)):
                group = groups[self._group(unit)]
                for name, made in judge.toolchains.makers.items():
                    # Some toolchains add the chip they compile for to their own name.
                    plain = group.makers[CHIP.sub("<SoC>", name)]
                    plain.count += made.count
                    plain.first += made.first
        notes = self._notes(Check.ONE_TOOLCHAIN)
        for where, group in groups.items():
            counts = sorted(group.makers.items(), key=lambda each: (-each[1].count, each[0]))
            makers = "; ".join(
                f"{made.count} kernels by '{printable(name)}'" for name, made in counts
            )
            if counts:
                notes.append(f"{printable(where or '.')}: {makers}")
            for name, made in counts[1:]:
                detail = (
                    f"is one of {made.count} kernels by '{printable(name)}'; there are {makers}"
                )
                for path in made.first:
                    self.ledger.add(Check.ONE_TOOLCHAIN, path, detail)
        if not notes:
            self.result.inapplicable[Check.ONE_TOOLCHAIN] = "its kernels do not say who made them"

    def _group(self, unit: str) -> str:
        """Return what a unit shares with the other SoCs of its cache or ranks of its job."""
        if self.result.kinds[unit] is CacheKind.SOC and unit:
            return str(PurePath(unit).parent)
        card = card_of(unit)
        return card.job if card is not None and card.surely else unit

    def _machines(self) -> None:
        """Report objects for another machine than most of their unit, and kernels whose metadata
        records other versions than the cache is stamped with."""
        for unit, judge in sorted(self.result.units.items()):
            if not isinstance(judge, (KernelFolder, RankKernels)):
                continue
            self._debugged(unit, judge.toolchains)
            if isinstance(judge, RankKernels) and len(judge.chips) > 1:
                each_chip = sorted(judge.chips.items())
                chips = ", ".join(f"{number} for {chip}" for chip, number in each_chip)
                detail = f"has kernels of several chips: {chips}"
                self.ledger.add(Check.ONE_TOOLCHAIN, unit or ".", detail)
            machines = sorted(judge.toolchains.machines.items(), key=lambda each: -each[1].count)
            # Another compiler's objects have been reported as that.
            for machine, objects in machines[1:] if len(judge.toolchains.makers) < 2 else ():
                count, most = objects.count, machines[0][1].count
                detail = f"is one of {count} objects for the machine {machine:#x}; {most} are not"
                for path in objects.first:
                    self.ledger.add(Check.ONE_TOOLCHAIN, path, detail)
            if not isinstance(judge, SocCache):
                continue
            cache = self._kernel_cache(unit)
            for path, ini in self._read[cache].items() if judge.stamps else ():
                for key, value in ini.stamps.items():
                    for (name, version), count in sorted(judge.stamps.items()):
                        if name == key and version != value:
                            detail = (
                                f"has {count} kernels of {key} {version[:40]}, and {path} says "
                                f"{value[:40]}: they are older than their stamp"
                            )
                            self.ledger.add(Check.ONE_TOOLCHAIN, unit or ".", detail)

    def _debugged(self, unit: str, kernels: Toolchains) -> None:
        """Report kernels with debugging information beside others: a debug switch was on when they
        were stored. Where all have it, the toolchain may always add it."""
        debugged = kernels.debugged.count
        others = sum(each.count for each in kernels.machines.values()) - debugged
        for path in kernels.debugged.first if others else ():
            detail = (
                f"is one of {debugged} kernels with debugging information, and {others} "
                "have none: results of debugging are not to be cached"
            )
            self.ledger.add(Check.ONE_TOOLCHAIN, path, detail)
        if debugged and not others:
            note = f"{printable(unit or '.')}: all kernels have debugging information"
            self._notes(Check.ONE_TOOLCHAIN).append(note)

    def _chips(self) -> None:
        """Report kernels that stand with another chip: their maker says so, or an equal file of the
        same name is there for another chip, whose name is part of each key."""
        of_parent: defaultdict[PurePath, list[tuple[str, SocCache]]] = defaultdict(list)
        for unit, judge in sorted(self.result.units.items()):
            if not isinstance(judge, KernelFolder) or not judge.chip:
                continue
            for maker, made in judge.toolchains.makers.items():
                if said := other_chip(maker, judge.chip):
                    detail = (
                        f"is one of {made.count} kernels for {said[:40]}, "
                        f"and the directory is of {judge.chip}"
                    )
                    for path in made.first:
                        self.ledger.add(Check.AGREEMENT, path, detail)
                    break
            else:
                if isinstance(judge, SocCache):
                    of_parent[PurePath(unit).parent].append((unit, judge))
        for several in of_parent.values():
            for (one, mine), (other, theirs) in itertools.combinations(several, 2):
                both = len({*mine.contents} & {*theirs.contents})
                if both and not is_same_chip(mine.chip, theirs.chip):
                    detail = (
                        f"has {both} kernels that are also in {printable(other)}, byte for byte: "
                        "every key holds its chip, so one of the two is a copy"
                    )
                    self.ledger.add(Check.AGREEMENT, one, detail)
