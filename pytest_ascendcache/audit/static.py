"""What TorchAir's static kernels leave: outputs of compiles, and installed packages.

Source: facts ``static-kernel`` sections 1, 2.5 and 3.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_ascendcache.audit.agreement import disagreement, missing_symbol
from pytest_ascendcache.audit.entries import (
    EntryJudge,
    EntryProblem,
    Files,
    check_object,
    check_whole,
    made_by,
    other_chip,
    read_metadata,
)
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.packages import PackedKernel, packed_kernels
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import split
from pytest_ascendcache.caches.static_kernels import INDEX
from pytest_ascendcache.contract.simplified_key import difference

_RECORDS = re.compile(r"\d+(?:_debug|_opcompile\w*)?")
"""Folders of operator information, by process id."""

_PACKAGES = "static_kernel_cache"
"""The folder of the files that map keys to packages of earlier processes."""

_NAMED = 5
_WORK = re.compile(r".+_extent|opcdump_\d{12}|tmp_\d{12}")
"""Directories that a compile has next to its results while it runs."""


@dataclass
class StaticOutputs(EntryJudge):
    """Judges the outputs of compiles: operator information, and the packages made of it.

    ``selected`` are the operators that each run chose to compile, ``gathered`` those of all cards
    that the first card packs, ``packed`` the runs with a package, by their directories.
    ``targets`` counts the operators that the document's own layout names to be compiled, where each
    run has a package; ``later`` are runs of newer clients, which select among them.
    ``reuses`` says that there is an index of packages for later runs. ``requests`` are what each
    folder of operator information says, ``kernels`` what the packages of each run hold, and
    ``closed`` counts those that do not say it.
    """

    alone = re.compile(r".*\.run", re.DOTALL)
    _: KW_ONLY
    selected: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    gathered: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    packed: set[str] = field(default_factory=set)
    targets: Counter[str] = field(default_factory=Counter)
    later: set[str] = field(default_factory=set)
    reuses: bool = False
    requests: defaultdict[str, dict[str, dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    kernels: defaultdict[str, list[PackedKernel]] = field(default_factory=lambda: defaultdict(list))
    closed: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        suffix = split(name)[1]
        place = PurePosixPath(folder.relative)
        if suffix == ".json" and place.name == _PACKAGES:
            self._index(folder, name)
            return True
        for ending, found in (("_selected", self.selected), ("_gathered", self.gathered)):
            if suffix == ".json" and place.name.endswith(ending):
                found[str(place.parent)].add(name)
        if suffix == ".run":
            self.packed.add(str(place))
            self.closed[str(place)] += 1
            self.entries += 1
            check_whole(Files(folder, (name,)), name, info)
            with folder.opened(name, info) as descriptor:
                kernels = packed_kernels(descriptor)
            self.kernels[str(place)] += kernels or []
            self.closed[str(place)] -= kernels is not None
            return True
        if suffix == ".json" and _RECORDS.fullmatch(place.name):
            self.entries += 1
            self.targets[str(place.parent)] += place.name.isdecimal()
            self.later |= {str(place.parent)} if "_opcompile" in place.name else set()
            record = read_metadata(Files(folder, (name,)), name)
            if record is not None and not record.fields:
                raise record.blame(Check.METADATA, "records nothing of its operator")
            kind = record.fields.get("op_type") if record is not None else None
            if record and isinstance(kind, str) and not name.startswith((f"{kind}_", f"{kind}.")):
                detail = f"op_type is {kind[:60]}, and the file's name is another operator's"
                raise record.blame(Check.AGREEMENT, detail)
            if record is not None and not place.name.endswith("_debug"):
                said = {each: record.fields.get(each) for each in ("inputs", "outputs")}
                self.requests[str(place)][split(name)[0]] = {"op_type": kind, **said}
            return True
        return False

    def _index(self, folder: Folder, name: str) -> None:
        """Judge a file that maps keys to packages: what it names is installed, wherever that lies.

        Its paths are absolute, alone or beside the package's digest. A package that is gone is
        compiled again, and in a copy of the tree the package counts that was copied with it.
        """
        if (index := read_metadata(Files(folder, (name,)), name)) is None:
            return
        self.reuses = True
        for recorded in index.fields.values():
            value = recorded.get("package") if isinstance(recorded, dict) else recorded
            if type(value) is not str or not value.endswith(".run"):
                detail = f"{str(recorded)[:100]!r} is no path of a package"
                raise index.blame(Check.METADATA, detail)
            path = Path(value)
            own = folder.look("/".join(("..", *path.parts[-2:]))) is not None
            lies_elsewhere = not own and os.path.lexists(path)
            if ".." in path.parts or not path.is_absolute() or lies_elsewhere:
                detail = f"{value[:200]!r} is the package of another directory: it is installed"
                raise index.blame(Check.NAMES_INSIDE, detail)

    def conclude(self, packed: Sequence[Set[str]]) -> None:
        """Report runs that selected operators and have no package of them, neither their own nor
        one that another run ``packed`` for them."""
        lacking = {run: count for run, count in self.targets.items() if run not in self.later}
        for run, names in self.selected.items():
            lacking[run] = 0 if any(names <= each for each in packed) else len(names)
        for run, count in sorted(lacking.items()):
            if count and run not in self.packed:
                detail = (
                    f"{count} operators were selected, and there is no package of them: the "
                    "compile was interrupted or failed"
                )
                self.ledger.add(Check.LEFTOVERS, run, detail)
        for run in sorted(self.packed):
            if not self.closed[run]:
                self._unlike(run)

    def _unlike(self, run: str) -> None:
        """Compare the operators that a run packs with its packages: those of all cards, or else
        those that it selected, or else all. Some of them may have failed to compile."""
        folders = [each for each in self.requests if str(PurePosixPath(each).parent) == run]
        endings = ("_gathered", "_selected", "_opcompile", "")
        ending = next((each for each in endings for at in folders if at.endswith(each)), "")
        asked = {
            name: request
            for folder in folders
            if folder.endswith(ending)
            for name, request in self.requests[folder].items()
        }
        lacking = [
            name
            for name, request in sorted(asked.items())
            if not any(each.is_of(name, request) for each in self.kernels[run])
        ]
        which = ", ".join(lacking[:_NAMED])[:300] + (" ..." if lacking[_NAMED:] else "")
        if asked and len(lacking) == len(asked):
            detail = (
                f"its package has no kernel of the operators beside it ({which}): it is another "
                "run's, and who installs it has no static kernel for them"
            )
            self.ledger.add(Check.LEFTOVERS, run, detail)
        elif lacking:
            self.notes.append(
                f"its package has no kernel of {len(lacking)} of {len(asked)} operators beside it "
                f"({which}): they run without a static kernel"
            )

    @property
    def untold(self) -> str:
        closed = sum(map(bool, self.closed.values()))
        what = "have no index that is read, and are not compared with the operators beside them"
        return "; ".join([*self.notes, *([f"packages of {closed} runs {what}"] if closed else [])])

    def packed_for_others(self, reuses: bool) -> list[set[str]]:
        """Return the operators in each package that other runs use: those of all cards that the
        first card packs, and any if packages are used again (``reuses``)."""
        found = [self.gathered, *([self.selected] if reuses else [])]
        return [names for each in found for run, names in each.items() if run in self.packed]

    def directory(self, folder: Folder, name: str) -> None:
        """Judge a directory by its name."""
        if _WORK.fullmatch(name):
            detail = "a compile's working directory: it was interrupted, or ran with -l debug"
            self.ledger.add(Check.LEFTOVERS, folder.path(name), detail)


@dataclass
class AuditedInstallation(EntryJudge):
    """Judges ``static_kernel/ai_core``: packages of kernels, and one index of them per SoC.

    ``indexed`` are the paths that the index of each chip names, ``packed`` what the packages' own
    indexes say of theirs. ``kernels`` are the paths of all kernels that are installed, and
    ``undigested`` counts those whose metadata has no digest.
    """

    alone = re.compile(r".*\.json", re.DOTALL)
    _: KW_ONLY
    unit: str
    indexed: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    packed: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    kernels: set[str] = field(default_factory=set)
    undigested: int = 0
    selected: set[str] | None = None
    missing: list[str] = field(default_factory=list)

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        stem, suffix = split(name)
        inside = folder.relative.removeprefix(self.unit).strip("/")
        parts = inside.split("/")
        is_kernel = len(parts) == 3 and not {"config", "scripts"} & {*parts[:2]}
        if name == INDEX:
            # A package has an index of its own, for its installer; a process reads the common one.
            named = self._index(folder, name, "../" * len(parts))
            if parts[0] == "config" and named:
                self.indexed[parts[-1]] |= dict(named)
            for path, key in named if parts[0] != "config" else ():
                self.packed[path].add(key)
        elif name == "config.ini" and not inside:
            self._packages(folder, name)
        elif suffix == ".o" and folder.look(f"{stem}.json") is None:
            files = Files(folder, (f"{stem}.json", name))
            raise files.blame(Check.WHOLE_ENTRIES, name, "its metadata is missing", info)
        elif suffix == ".json" and is_kernel:
            self.entries += 1
            self.kernels.add(f"{inside}/{stem}.o")
            self.undigested += _check_kernel(folder, stem, parts[1])
        else:  # a config directory also has what each kernel was compiled for, by the installer
            return (suffix == ".o" and is_kernel) or (suffix == ".json" and "config" in parts)
        return True

    def no_file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        return super().no_file(folder, name, info) or split(name)[1] == ".o"

    def conclude(self) -> None:
        """Compare the packages that are installed with those that are selected and indexed."""
        of_chip: defaultdict[str, set[str]] = defaultdict(set)
        for kernel in self.kernels:
            of_chip[kernel.split("/")[1]].add(kernel)
        for chip in sorted(of_chip.keys() - self.indexed.keys()):
            detail = f"no config/{chip}/binary_info_config.json names a kernel: none is ever found"
            self.ledger.add(Check.WHOLE_ENTRIES, self.unit or ".", detail)
        for chip, indexed in self.indexed.items():
            for kernel in sorted(of_chip[chip] - indexed.keys()):
                self._unnamed(kernel, indexed.keys())
            for path, key in sorted(indexed.items()):
                if (own := self.packed[path]) and key not in own:
                    unlike = ""
                    with suppress(ValueError):  # of a key that is not read
                        unlike = f" ({difference(min(own), key)})"
                    detail = (
                        f"names {path[:120]} for {key[:120]}, which its package has for "
                        f"{min(own)[:120]}{unlike}: operators get a kernel that is not theirs"
                    )
                    place = f"{self.unit}/config/{chip}/{INDEX}".lstrip("/")
                    self.ledger.add(Check.AGREEMENT, place, detail)
        packages = {kernel.partition("/")[0] for kernel in self.kernels}
        unselected = set[str]() if self.selected is None else packages - self.selected
        for package in sorted(unselected):
            detail = f"the package {package[:100]} is installed, and load_priority does not name it"
            if self.missing:  # an uninstall that cuts another package's name does both
                detail += f", but {', '.join(self.missing)[:100]}, which is not installed"
            self.ledger.add(Check.AGREEMENT, self.unit or ".", detail)
        for package in self.missing if not unselected else ():
            detail = f"load_priority names {package[:100]}, which is not installed"
            self.ledger.add(Check.WHOLE_ENTRIES, f"{self.unit}/config.ini".lstrip("/"), detail)

    @property
    def untold(self) -> str:
        what = "kernels have no digest in their metadata: only their form and names are judged"
        return f"{self.undigested} {what}" if self.undigested else ""

    def _unnamed(self, kernel: str, indexed: Set[str]) -> None:
        """Report a kernel that no index names, unless another package's may be in its place: of
        those for one shape the last that was installed counts."""
        package, _, operator, _ = kernel.split("/")
        for other in map(str.split, indexed, itertools.repeat("/")):
            if len(other) == 4 and other[2] == operator and other[0] != package:
                return
        detail = "is installed, and no index names it: it is never found; install its package again"
        self.ledger.add(Check.LEFTOVERS, f"{self.unit}/{kernel}".lstrip("/"), detail)

    def _index(self, folder: Folder, name: str, up: str) -> set[tuple[str, str]]:
        """Judge an index; return the paths of the kernels that it names, and for which keys."""
        index = read_metadata(Files(folder, ()), name)
        if index is None:
            return set()
        keys: dict[tuple[str, str], str] = {}
        named = _named_kernels(index.fields)
        for operator, path, kernel in named:
            plain = PurePosixPath(path)
            if plain.is_absolute() or ".." in plain.parts:
                detail = f"binPath {path[:100]!r} leads out of the installation"
                index.blame(Check.NAMES_INSIDE, detail).report(self.ledger)
                continue
            if lacking := index.files.lacks(up + path):
                detail = f"names {path[:150]}, which does not exist"
                if not lacking.endswith("missing"):
                    detail = f"names {path[:150]}, which {lacking.removeprefix(up + path).strip()}"
                index.blame(Check.WHOLE_ENTRIES, detail).report(self.ledger)
                continue
            key = (operator, str(kernel.get("simplifiedKey", path)))
            if keys.setdefault(key, path) != path:
                detail = f"has two kernels for {key[1][:80]}: {keys[key][:80]} and {path[:80]}"
                index.blame(Check.AGREEMENT, detail).report(self.ledger)
            elif problem := _unlike(kernel, folder, up + path):
                index.blame(Check.AGREEMENT, f"{path[:120]}: {problem}").report(self.ledger)
        return {
            (str(PurePosixPath(path)), str(kernel.get("simplifiedKey", operator)))
            for operator, path, kernel in named
        }

    def _packages(self, folder: Folder, name: str) -> None:
        files = Files(folder, ())
        content = folder.read(name)
        if content is None:
            return
        names = selected_packages(content.data)
        self.selected = {*names}
        for package in names:
            if "/" in package or package == "..":
                detail = f"load_priority names {package[:100]!r}, which leads to another directory"
                files.blame(Check.NAMES_INSIDE, name, detail, content.info).report(self.ledger)
            elif folder.look(package) is None:
                self.missing.append(package)


def selected_packages(text: bytes) -> list[str]:
    """Return the packages that a ``config.ini`` selects, in their order."""
    listed = re.search(r"load_priority[ \t]*=[ \t]*(\S*)", text.decode("utf-8", "replace"))
    return [each for each in (listed[1] if listed else "").split(",") if each]


def _check_kernel(folder: Folder, stem: str, chip: str) -> bool:
    """Judge an installed kernel; return whether its metadata has no digest, as CANN's own."""
    # The index names the package as a whole, so no removal of single files is suggested.
    files = Files(folder, ())
    metadata = read_metadata(files, f"{stem}.json")
    if metadata is None:
        return False
    metadata.require_plain_names()
    metadata.require(("kernelName",))
    for field_name, own in (("binFileName", stem), ("binFileSuffix", ".o")):
        if (said := metadata.fields.get(field_name, own)) != own:
            detail = (
                f"{field_name} is {str(said)[:90]!r}, and the installed object is {stem[:90]}.o"
            )
            raise metadata.blame(Check.METADATA, detail)
    if lacking := files.lacks(f"{stem}.o"):
        raise metadata.blame(Check.WHOLE_ENTRIES, lacking)
    has_digest = "sha256" in metadata.fields
    if has_digest:
        metadata.require(("sha256",))
        content = check_object(files, f"{stem}.o", metadata.fields)
    else:
        content = folder.read(f"{stem}.o")
        if content is not None:
            check_whole(files, f"{stem}.o", content.info)
    problem = disagreement(metadata.fields, metadata.text, chip)
    if content is not None:
        problem = problem or missing_symbol(metadata.fields, content.data)
        if chip and (said := other_chip(made_by(metadata.fields, content.data), chip)):
            problem = problem or f"is for {said[:40]}, and the directory is of {chip}"
    if problem:
        raise metadata.blame(Check.AGREEMENT, problem)
    return not has_digest


def _unlike(kernel: dict[str, Any], folder: Folder, path: str) -> str:
    """Return how an index contradicts a kernel's metadata; empty if it does not."""
    described = kernel.get("binDesc")
    if not isinstance(described, dict):
        return ""
    try:
        metadata = read_metadata(Files(folder, ()), f"{path.removesuffix('.o')}.json")
    except EntryProblem:
        return ""  # reported where the kernel is judged
    for name in ("kernelName", "blockDim"):
        mine, own = described.get(name), metadata.fields.get(name) if metadata else None
        if mine is not None and own is not None and mine != own:
            return f"{name} is {str(mine)[:60]} here and {str(own)[:60]} in its metadata"
    return ""


def _named_kernels(index: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return each kernel that an index names: its operator, its path and what is said of it."""
    found = []
    for operator, each in index.items():
        listed = each.get("staticList") if isinstance(each, dict) else None
        for kernel in listed if isinstance(listed, list) else ():
            if isinstance(kernel, dict) and isinstance(kernel.get("binPath"), str):
                found.append((operator, kernel["binPath"], kernel))
    return found
