"""What holds after every run, whatever a check asks: asked of each at the gate, at no further run.

A run that reports success delivers kernels, and files that a user wrote stay byte for byte, except
for notes of a toolchain in ``op_cache.ini``: what breaks that breaks the check. What a compile
stores is whole and not writable for everybody, and nothing is left in the working directory: what
breaks that is told of a rule of its own, and the check goes on (:func:`broken_besides`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import Change, Entry, Snapshot, embedded_objects
from pytest_ascendcache.caches.entry import is_beside, sha256
from pytest_ascendcache.caches.snapshot import FileState
from pytest_ascendcache.contract.facts import Delivery, Fact, Place, Subject, SubjectKind
from pytest_ascendcache.observation.gated_run import GatedRun, ProcessKind
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import single_op_text

INI = "op_cache.ini"
_NOTE = re.compile(r"(?!\w*cache_size)\w+\s*=", re.IGNORECASE)
_INPUTS = frozenset(
    {
        *("singleop", "op_precision_mode", "op_debug_config", "keep_dtype"),
        *("insert_op_conf", "fusion_switch_file", "modify_mixlist", "customize_dtypes"),
    }
)
"""Options of ATC that name a file of the user; not the model, which a command may make anew."""
_READ = (".json", ".run", ".py")
"""How the names of files end that op_compiler, packages and clients only read."""
REPORT = "fusion_result.json"
"""What a conversion may leave in its working directory (facts ``cann-operator-cache``)."""
LITTER = ("kernel_meta", REPORT)
"""How the names of files begin that may lie there after a run for debugging, or one that failed."""
_WRITTEN = (Change.ADDED, Change.REPLACED, Change.CHANGED)
_MODES, _STORES = "security/private-modes", "cache-mode/enable-stores"


def named_files(requests: Iterable[Any]) -> dict[Path, str]:
    """The files of the user that requests name, each with its digest; directories have none."""
    given: dict[Path, str] = {}
    for request in requests:
        places = (request.work, getattr(request, "output", request.work))
        given |= dict.fromkeys(filter(Path.is_dir, places), "")
        options = getattr(request, "options", None)
        if not isinstance(options, Mapping):
            options = getattr(request, "raw_options", {})
        texts = [text for name, text in options.items() if name in _INPUTS]
        # Of scripts, uninstall.sh may remove itself.
        texts += [text for text in getattr(request, "arguments", ()) if text.endswith(_READ)]
        for text in texts:
            path = request.work / text
            if len(path.name) < 256 and path.is_file() and path not in given:
                given[path] = sha256(path.read_bytes())
    return given


def broken_invariants(run: GatedRun[Any], made: set[str]) -> Iterator[Fact]:
    """What became of files that a user wrote. ``made`` are the digests of each ``op_cache.ini``
    that earlier runs made; those of this run are added."""
    for path, digest in run.named.items():
        if not digest:
            if not path.is_dir():
                yield _touched(path.name, f"the directory {path.name} is gone")
        elif not path.is_file() or sha256(path.read_bytes()) != digest:
            yield _touched(path.name, f"{path.name}, which was there before, has another content")
    yield from _ini(run, made)
    if run.kind is ProcessKind.COMPILE:
        yield from _option_files(run)


def names_in(directory: Path) -> frozenset[str]:
    """The names in a directory; none if there is no such directory."""
    try:
        return frozenset(each.name for each in directory.iterdir())
    except OSError:
        return frozenset()


def broken_besides(run: GatedRun[Any], reads_entries: bool = True) -> Iterator[tuple[str, Fact]]:
    """What a compile broke of rules that hold after each of them: the rule and the fact. Nothing of
    one that was made to fail; what others may have written at the same time is not its own."""
    if run.kind is not ProcessKind.COMPILE or run.request.plan is not None:
        return
    for directory, before in run.before.items():
        after = run.after[directory]
        if _umask(run.request.umask) & 0o002:
            for path in _opened(before, after):
                detail = f"{path} is writable for everybody"
                yield _MODES, Fact.seen(Place.OPEN_TO_ALL, detail, run=run.number)
        if reads_entries and run.beside is not None and run.status == 0:
            for path, problem in _damaged(directory, before, after):
                detail = f"{path} is stored and not whole: {problem}"
                yield _STORES, Fact.seen(Place.DAMAGED, detail, run=run.number)
    for name in _left(run):
        detail = f"{name} is left in the working directory"
        yield _MODES, Fact.seen(Place.LEFT, detail, run=run.number)


def _umask(of_request: int | None) -> int:
    """The mask of a process, which inherits ours if its request has none."""
    if of_request is not None:
        return of_request
    lines = dict(each.split(":", 1) for each in Path("/proc/self/status").read_text().splitlines())
    return int(lines.get("Umask", "0"), 8)


def _opened(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What everybody may write since a run. A sticky directory belongs to nobody in particular."""
    for path, state in after.files.items():
        then = before.files.get(path)
        is_open = state.mode & 0o002 and not state.mode & 0o1000 and state.kind != "link"
        if is_open and not (then is not None and then.mode & 0o002):
            yield path


def _damaged(directory: Path, before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    """Entries that a run wrote, and what is wrong with them. What it moved it did not write, and a
    copy of a whole entry's object elsewhere is the toolchain's own."""
    moved = {each.sha256 for each in before.files.values() if each.kind == "file"}
    changes = before.changes(after)
    written = {
        path.rpartition(".")[0]
        for path, change in changes.items()
        if change in _WRITTEN
        and after.files[path].kind == "file"
        and after.files[path].sha256 not in moved
        and Entry.holds(Path(path))
    }
    there = {path for path, state in after.files.items() if state.kind == "file"}
    whole = {path[:-2] for path in there if path.endswith(".o") and f"{path[:-2]}.json" in there}
    objects = {after.files[f"{each}.o"].sha256 for each in whole}
    copies = {path[:-2] for path in there if after.files[path].sha256 in objects} - whole
    for stem in sorted(each for each in written - copies if not is_beside(each, whole)):
        if problems := Entry(stem, directory).problems():
            yield stem, problems[0]


def _left(run: GatedRun[Any]) -> Iterator[str]:
    """What a compile left in its working directory, and neither option nor variable names."""
    request = run.request
    named = " ".join((*run.result.argv, *map(str, request.environment.values())))
    is_debugged = any(each.startswith("--op_debug_") for each in run.result.argv)
    if run.beside is None:
        return  # others worked there, too
    for name in sorted(names_in(request.work) - run.beside):
        is_litter = name.startswith(LITTER) and (is_debugged or run.status or name == REPORT)
        places = (request.output, request.home, request.cache_dir or request.home)
        is_place = any((request.work / name) in (each, *each.parents) for each in places)
        if not (is_litter or is_place or name in named):
            yield name


def without_kernel(run: Run) -> Iterator[Fact]:
    """The operators of a successful run that were delivered no kernel. Ask only if the positive
    control expects to find the object of a kernel in what this toolchain delivers."""
    for operator, path in zip(run.operators, run.result.delivered, strict=True):
        if path is not None and not any(embedded_objects(path.read_bytes())):
            detail = f"{operator}: exit status 0, and {path.name} has no kernel in it"
            yield Fact.seen(Delivery.NOTHING, detail, operator)


def takes_own_notes(made: set[str], root: Path) -> Callable[[], None]:
    """What to call after each crash of a run that starts from a cache's present state: what it
    leaves of an ``op_cache.ini`` that no user wrote is added to ``made``."""

    def digests() -> set[str]:
        return {sha256(each.read_bytes()) for each in root.rglob(INI) if each.is_file()}

    is_users = bool(digests() - made)
    return lambda: None if is_users else made.update(digests())


def _ini(run: GatedRun[Any], made: set[str]) -> Iterator[Fact]:
    """An ``op_cache.ini`` that lay there before is its user's, valid or not. One that the toolchain
    itself made, and nobody changed, is not. CANN notes versions in either."""
    for directory, snapshot in run.after.items():
        then = run.before[directory].files if directory in run.before else {}
        for path, after in snapshot.files.items():
            before = then.get(path)
            if path.rpartition("/")[2] == INI and (before is None or before.sha256 in made):
                made.add(after.sha256)
    for directory, snapshot in run.before.items():
        for path, before in snapshot.files.items():
            if path.rpartition("/")[2] == INI and before.kind == "file":
                now = run.after[directory].files.get(path)
                changed = now is None or (now.sha256 != before.sha256 and not _keeps(before, now))
                if changed and before.sha256 not in made:
                    how = "is gone" if now is None else "has another content"
                    yield _touched(INI, f"{path}, which was there before, {how}")


def _keeps(before: FileState, after: FileState) -> bool:
    """Whether an ``op_cache.ini`` still has its lines, except for a toolchain's notes about itself,
    and no new limit. Of a file that is too long to be looked at nothing is known to be kept."""
    if any(each.size and not each.text for each in (before, after)):
        return False
    then, now = (
        [line for line in map(str.strip, each.text.splitlines()) if not _NOTE.match(line)]
        for each in (before, after)
    )
    left = iter(now)
    kept = all(line in left for line in then)  # in their order
    return kept and sum(map(_is_limit, now)) == sum(map(_is_limit, then))


def _is_limit(line: str) -> bool:
    return "cache_size" in line.lower()


def _option_files(run: GatedRun[Any]) -> Iterator[Fact]:
    """The files that options name are as they were written."""
    options, operators = run.request.options, run.request.operators
    # Where names are missing or equal, those in the file are others.
    by_name = {each.name: each for each in operators}
    wanted = {
        "--singleop": all(by_name) and len(by_name) == len(operators) and single_op_text(operators),
        "--op_precision_mode": options.precision_file and options.precision_file.content,
        "--op_debug_config": options.debug_config and options.debug_config.text(),
    }
    given = dict(each.partition("=")[::2] for each in run.result.argv)
    for option in given.keys() & wanted.keys():
        content, path = wanted[option], Path(given[option])
        ours = content and option[2:] not in run.request.raw_options
        if ours and (not path.is_file() or path.read_bytes() != str(content).encode()):
            yield _touched(option, f"the file of {option}, {path.name}, was changed")


def _touched(name: str, detail: str) -> Fact:
    kind = SubjectKind.OPTION if name.startswith("--") else SubjectKind.FILE
    return Fact.seen(Place.TOUCHED, detail, name, subject=Subject(kind, name))
