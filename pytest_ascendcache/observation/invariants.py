"""What holds after every compile, whatever a check asks: asked of each run, at no further run.

A run that reports success delivers kernels, and files that a user wrote stay byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_ascendcache.caches import embedded_objects
from pytest_ascendcache.contract.facts import Delivery, Fact, Place, Subject, SubjectKind
from pytest_ascendcache.observation.run import Run

INI = "op_cache.ini"


def broken_invariants(run: Run, carries_objects: bool, made: set[str]) -> Iterator[Fact]:
    """What is wrong with a run. ``carries_objects`` says that the positive control found the object
    of a kernel in what this toolchain delivers, ``made`` are the digests of the ``op_cache.ini``
    files that earlier runs made; those of this run are added."""
    if run.returncode == 0 and carries_objects:
        yield from _without_kernel(run)
    yield from _ini(run, made)
    yield from _option_files(run)


def _without_kernel(run: Run) -> Iterator[Fact]:
    for operator, path in zip(run.operators, run.result.delivered, strict=True):
        if path is not None and not any(embedded_objects(path.read_bytes())):
            detail = f"{operator}: exit status 0, and {path.name} has no kernel in it"
            yield Fact.seen(Delivery.NOTHING, detail, operator)


def _ini(run: Run, made: set[str]) -> Iterator[Fact]:
    """An ``op_cache.ini`` that lay there before is its user's, valid or not. One that the toolchain
    itself made, and nobody changed, is not: CANN notes versions in it."""
    for path, after in run.after.files.items():
        before = run.before.files.get(path)
        if path.rpartition("/")[2] == INI and (before is None or before.sha256 in made):
            made.add(after.sha256)
    for path, before in run.before.files.items():
        if path.rpartition("/")[2] == INI and before.kind == "file":
            now = run.after.files.get(path)
            changed = now is None or now.sha256 != before.sha256
            if changed and before.sha256 not in made:
                how = "is gone" if now is None else "has another content"
                yield _touched(INI, f"{path}, which was there before, {how}")


def _option_files(run: Run) -> Iterator[Fact]:
    """The files that options name are as they were written."""
    options = run.result.request.options
    wanted = {
        "--op_precision_mode": options.precision_file and options.precision_file.content,
        "--op_debug_config": options.debug_config and options.debug_config.text(),
    }
    given = dict(each.partition("=")[::2] for each in run.result.argv)
    for option in given.keys() & wanted.keys():
        content, path = wanted[option], Path(given[option])
        ours = content and option[2:] not in run.result.request.raw_options
        if ours and (not path.is_file() or path.read_bytes() != str(content).encode()):
            yield _touched(option, f"the file of {option}, {path.name}, was changed")


def _touched(name: str, detail: str) -> Fact:
    kind = SubjectKind.OPTION if name.startswith("--") else SubjectKind.FILE
    return Fact.seen(Place.TOUCHED, detail, name, subject=Subject(kind, name))
