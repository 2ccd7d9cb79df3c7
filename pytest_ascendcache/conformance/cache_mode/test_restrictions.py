"""A restriction may cost a hit, never the kernel: every operator is delivered that of a fresh
compile.

Each is tried with a hit, a miss beside entries of the same type, a damaged entry, force and
disable. Afterwards, without it, the cache works again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import make_immutable
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.states import another_disk, give_away
from pytest_ascendcache.conformance.kit.told import is_refused, require_none
from pytest_ascendcache.conformance.kit.vocabulary import (
    DISABLE,
    ENABLE,
    FORCE,
    HIT,
    NEW,
    needs,
    rule,
)
from pytest_ascendcache.contract import CacheMode, Capability, PrecisionFile
from pytest_ascendcache.contract.facts import (
    Delivery,
    Ending,
    Fact,
    Later,
    Subject,
    SubjectKind,
    outcome_fact,
)
from pytest_ascendcache.faults import DAMAGES, Act, Action, CrashKind
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileRequest, Toolchain

_STORED = tuple(
    operator_of("Add", (rows, 24), (rows, 24), name=f"add_{rows}") for rows in (1, 2, 3)
)
_ASKED: dict[str, tuple[OperatorSpec, CacheMode]] = {
    "a hit": (_STORED[0], ENABLE),
    "a miss beside entries of its type": (operator_of("Add", (4, 24), (4, 24), name="new"), ENABLE),
    "a miss that has one extent more": (
        operator_of("Add", (1, 1, 24), (1, 24), name="more"),
        ENABLE,
    ),
    "a damaged entry": (_STORED[1], ENABLE),
    "disable": (_STORED[2], DISABLE),
    "force": (_STORED[0], FORCE),
}
"""What is asked, in an order in which force comes last, because it empties the cache."""

Restriction = Callable[[CacheUnderTest, CompileRequest], Iterator[CompileRequest]]
"""Yields the request once, adapted, while the restriction holds."""


def _frozen(cache: CacheUnderTest, paths: list[Path]) -> Iterator[None]:
    """Make files immutable, also for root, which ignores modes."""
    try:
        if not all(make_immutable(path, True) for path in paths):
            pytest.skip("chattr +i takes root, and a file system that knows it")
        yield
    finally:
        # Also where a run has moved them to.
        for path in (cache.root, *paths, *cache.root.rglob("*")):
            if path.exists() and not path.is_symlink():
                make_immutable(path, False)


def _read_only(cache: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    paths = [cache.root, *(each for each in cache.root.rglob("*") if not each.is_symlink())]
    for _ in _frozen(cache, paths):
        yield request


def _read_only_without_ini(
    cache: CacheUnderTest, request: CompileRequest
) -> Iterator[CompileRequest]:
    """As caches are that a site prepares: entries alone, and nobody may write."""
    for path in cache.layout.ini_candidates:
        path.unlink(missing_ok=True)
    yield from _read_only(cache, request)


def _of_another_user(cache: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    """Everybody may read the cache, and its owner alone may write."""
    paths = (cache.root, *cache.root.rglob("*"))
    modes = {path: path.stat().st_mode for path in paths if not path.is_symlink()}
    give_away(cache.root)
    try:
        yield replace(request, unprivileged=True)
    finally:
        for path in (cache.root, *cache.root.rglob("*")):
            os.chown(path, 0, 0, follow_symlinks=False)
            if path in modes:
                path.chmod(modes[path])


def _entries_immutable(cache: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    files = [
        path for each in cache.entries().values() for path in (each.object_path, each.metadata_path)
    ]
    for _ in _frozen(cache, [path for path in files if path.exists()]):
        yield request


def _through_links(cache: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    link = cache.sandbox / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(cache.root)
    yield replace(request, cache_dir=link)


def _output_is_used(cache: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    """The kernel of another operator lies where this one's is to be delivered."""
    (wanted,) = request.operators
    other = operator_of("Exp", (7, 24), name=wanted.name)
    unused = cache.sandbox / "unused"
    left = replace(cache.request(other, mode=DISABLE, cache_dir=unused), output=request.output)
    assert cache.run_alone(left).succeeded
    yield request


def _strict_umask(_: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    yield replace(request, umask=0o077)


def _elsewhere(cache: CacheUnderTest, request: CompileRequest) -> Iterator[CompileRequest]:
    place = cache.sandbox / "another" / "place" / "deep" / "below"
    yield replace(request, work=place / "work", home=place / "home")


_RESTRICTIONS: dict[str, Restriction] = {
    "read-only": _read_only,
    "read-only-without-ini": _read_only_without_ini,
    "of-another-user": _of_another_user,
    "immutable-entries": _entries_immutable,
    "through-a-link": _through_links,
    "used-output": _output_is_used,
    "umask-077": _strict_umask,
    "elsewhere": _elsewhere,
}


_REFUSABLE = ("read-only", "read-only-without-ini", "of-another-user", "through-a-link")
"""What no document demands: to use a directory that may not be written, or that is a link."""


def _is_consistent(cache: CacheUnderTest, request: CompileRequest) -> bool:
    """Whether a directory is refused as read-only, and not for want of its op_cache.ini."""
    if any(path.exists() for path in cache.layout.ini_candidates):
        return True
    cache.unwatched(request)  # makes it anew
    for restricted in _read_only(cache, request):
        run = cache.unwatched(restricted)
    return is_refused(run)


@rule("cache-mode/transparent")
@pytest.mark.parametrize("restriction", _RESTRICTIONS)
def test_no_restriction_costs_a_kernel(cache: CacheUnderTest, restriction: str) -> None:
    cache.warm(*_STORED)
    cache.mark()
    DAMAGES[1].apply(cache.entry(_STORED[1]))
    facts = []
    for asked, (operator, mode) in _ASKED.items():
        request = cache.request(operator, mode=mode)
        for restricted in _RESTRICTIONS[restriction](cache, request):
            run = cache.unwatched(restricted)
            again = run if run.succeeded else cache.unwatched(restricted)
        if restriction in _REFUSABLE and is_refused(run) and _is_consistent(cache, restricted):
            cache.evidence.readings.append(f"{restriction}: the directory is refused by name")
            continue
        if not again.succeeded and mode is not FORCE and cache.failed_for_the_cache(again):
            facts.append(Fact.seen(Later.FAILS, f"{asked}: every run fails", operator))
        facts += [
            replace(each, detail=f"{asked}: {each.detail}") for each in _wrong(cache, run, mode)
        ]
    require_none(facts, cache.evidence)
    _works_again(cache)


@rule("cache-mode/enable-reuses")
def test_what_is_stored_is_reused_where_temporary_files_are_on_another_disk(
    cache: CacheUnderTest,
) -> None:
    """Files are not moved from there into a cache, but copied."""
    about, facts = Subject(SubjectKind.EVENT, "another disk"), list[Fact]()
    with another_disk(cache.sandbox) as disk:
        for due in (NEW, HIT):
            run = cache.compile(*_STORED, mode=ENABLE, environment={"TMPDIR": str(disk)})
            facts += [
                outcome_fact(run[each], [due], each, subject=about)
                for each in _STORED
                if run[each] != due
            ]
            require_none(facts, cache.evidence)
            cache.mark()


@rule("robust/upgrade-stamp")
@pytest.mark.parametrize("restriction", ["read-only", "of-another-user"])
def test_no_old_version_is_served_where_it_cannot_be_removed(
    cache: CacheUnderTest, add: OperatorSpec, restriction: str
) -> None:
    needs(cache.toolchain, Capability.VERSION_STAMP)
    place = cache.sandbox / "package"
    place.mkdir()
    change = cache.toolchain.stage(Capability.VERSION_STAMP, add, place)
    cache.warm(add, environment=change.environment)
    cache.mark()
    change.apply()
    request = cache.request(add, mode=ENABLE, environment=change.environment)
    for restricted in _RESTRICTIONS[restriction](cache, request):
        run = cache.unwatched(restricted)
    if is_refused(run):
        return
    assert run.succeeded, f"the compile {run.result.ending}"
    cache.needs_reuse()
    assert not run.served_from(add), cache.evidence.found(
        Delivery.STALE, f"{restriction}: a kernel from before is served"
    )


@rule("robust/disk-full")
@pytest.mark.parametrize(
    "action", [Action.ENOSPC, Action.EROFS, Action.EACCES], ids=lambda e: e.name
)
def test_no_failing_call_costs_a_kernel(cache: CacheUnderTest, action: Action) -> None:
    """The first change of the cache fails, and in another run the last one."""
    needs(cache.toolchain, Capability.FAULT_POINTS, action)
    cache.evidence.crash = CrashKind.INJECTED_ERROR.value
    cache.warm(*_STORED)
    cache.mark()
    DAMAGES[1].apply(cache.entry(_STORED[1]))
    facts, struck = [], 0
    for asked, (operator, mode) in _ASKED.items():
        compiling = cache.interruption(operator, mode=mode)
        changes = [each for each in compiling.operations if each.act in (Act.CREATE, Act.WRITE)]
        for operation in dict.fromkeys((*changes[:1], *changes[-1:])):
            run, struck = compiling.strike(action, operation), struck + 1
            facts += [
                replace(each, detail=f"{asked}: {each.detail}") for each in _wrong(cache, run, mode)
            ]
        compiling.reset()
    if not struck:
        raise NotDecidable("no run writes to the cache, so that no write could fail")
    require_none([each for each in facts if each.observed != Ending.FAILURE.value], cache.evidence)
    _works_again(cache)


def _works_again(cache: CacheUnderTest) -> None:
    """The entries are reused, from the second run on."""
    cache.attempt(*_STORED, mode=ENABLE)
    run = cache.attempt(*_STORED, mode=ENABLE)
    require_none([*_wrong(cache, run, ENABLE)], cache.evidence)
    assert {run[each] for each in _STORED} == {HIT}, "afterwards the entries are not reused"


def _wrong(cache: CacheUnderTest, run: Run, mode: CacheMode) -> Iterator[Fact]:
    """What is wrong with a run. Force may refuse where it cannot remove."""
    if run.returncode is None:
        yield Fact.seen(Ending.NO_END, f"the compile {run.result.ending}")
    elif run.returncode < 0:
        yield Fact.seen(Ending.CRASH, f"the compile {run.result.ending}")
    elif not run.succeeded:
        if mode is not FORCE and (why := cache.failed_for_the_cache(run)):
            yield Fact.seen(Ending.FAILURE, why)
    else:
        for each in run.operators:
            if mode is not ENABLE and run.served_from(each):
                yield Fact.seen(Delivery.STALE, "a cached kernel is delivered", each)
            elif not cache.delivers_fresh(run, each):
                yield Fact.seen(Delivery.ANOTHER, "the kernel is not that of a fresh one", each)


def _causes(cache: CacheUnderTest) -> dict[str, tuple[OperatorSpec, dict[str, Any]]]:
    """What a toolchain refuses -> a request with it, which can be made without it as well."""
    missing = cache.sandbox / "missing.cfg"
    bad = PrecisionFile("Add=high_preformance\n")
    unknown = OperatorSpec("NoSuchOperator", _STORED[0].inputs, _STORED[0].outputs, name="unknown")
    return {
        "an unknown mode": (_STORED[0], {"raw_mode": "enabled"}),
        "a missing debug file": (_STORED[0], {"debug_file": missing}),
        "a bad precision file": (_STORED[0], {"precision_file": bad}),
        "an unknown chip": (_STORED[0], {"soc": "Ascend000"}),
        "an unknown operator": (unknown, {}),
    }


@rule("robust/interrupted-compile")
def test_what_failed_once_succeeds_without_its_cause(cache: CacheUnderTest) -> None:
    """And what was refused is refused again, in the same cache, output directory and HOME."""
    cache.marks = False
    cache.warm(*_STORED)
    facts, refused = [], 0
    for cause, (operator, options) in _causes(cache).items():
        request = cache.request(operator, mode=None if "raw_mode" in options else ENABLE, **options)
        refusals = [cache.unwatched(request) for _ in range(2)]
        if refusals[0].succeeded:
            continue  # whether it has to be refused is a question of other checks
        refused += 1
        if refusals[1].succeeded:
            facts.append(Fact.seen(Delivery.ANOTHER, f"{cause} is refused once only", operator))
        plain = replace(cache.request(*_STORED, mode=ENABLE), output=request.output)
        run = cache.unwatched(plain)
        if not run.succeeded:
            facts.append(Fact.seen(Later.FAILS, f"after {cause} every run fails", "the next run"))
        facts += _wrong(cache, run, ENABLE)
    if not refused:
        raise NotDecidable("the toolchain refuses nothing of what it is asked here")
    require_none(facts, cache.evidence)


@rule("robust/interrupted-compile")
def test_an_operator_compiles_once_its_package_is_installed(
    cache: CacheUnderTest, toolchain: Toolchain, add: OperatorSpec
) -> None:
    """In the cache and by the user that failed before."""
    needs(toolchain, Capability.TOOLCHAIN_CHANGE)
    change = toolchain.stage(Capability.TOOLCHAIN_CHANGE, add, cache.sandbox)
    if cache.attempt(change.operator, mode=ENABLE).succeeded:
        pytest.skip("the operator that can be staged compiles without a package")
    run = cache.attempt(change.operator, mode=ENABLE, environment=change.environment)
    assert run.succeeded, cache.evidence.found(
        Later.FAILS, "what failed without its operator package fails with it"
    )
