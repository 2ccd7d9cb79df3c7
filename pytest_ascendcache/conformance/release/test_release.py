"""The release gate: judges a model's release by the documents, once per ``--ascend-release``
file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_ascendcache.conformance.kit.release_compiles import (
    Fresh,
    ReleaseCompiles,
    Served,
    release_tables,
)
from pytest_ascendcache.conformance.kit.release_conversions import ReleaseConversions
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, rule
from pytest_ascendcache.contract import Capability, Edition, Fate, ImplModeTables
from pytest_ascendcache.files import read_text
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NotDecidable
from pytest_ascendcache.release.configuration import (
    cache_mode_problems,
    contradictions,
    debug_problems,
    is_forced,
    own_cache,
)
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.kernels import (
    cached_names,
    compared_caches,
    copy_cache,
    filled_otherwise,
    holds_files,
    outdated_kernels,
    rank_directories,
    rank_problems,
    unserving_caches,
    unusable_caches,
)
from pytest_ascendcache.release.manifest import (
    KernelDigest,
    Manifest,
    ManifestError,
    options_digest,
    read_manifest,
    release_settings,
    update_manifest,
)
from pytest_ascendcache.release.precision import (
    debugging_option_problems,
    has_two_implementations,
    kept_file_problems,
    precision_file_problems,
    uncompared_file,
    unknown_nodes,
    unknown_types,
)
from pytest_ascendcache.release.problem import Problem, story
from pytest_ascendcache.release.recorded import recorded_inputs
from pytest_ascendcache.toolchains import Toolchain

_AT_ONCE = 16
"""The most compiles at once: a server has this many cards."""


@pytest.fixture
def release(ascend_release: Release) -> Release:
    return ascend_release


@pytest.fixture(scope="module")
def fresh_kernels() -> dict[Path, Fresh]:
    """Fresh kernels by release file, compiled when first needed."""
    return {}


@pytest.fixture
def named_toolchain(request: pytest.FixtureRequest) -> Toolchain | None:
    """The toolchain that the release or the command line names, or None."""
    if not request.getfixturevalue("ascend_session").settings.is_named:
        return None
    toolchain: Toolchain = request.getfixturevalue("toolchain")
    return toolchain


@pytest.fixture
def compiles(
    release: Release,
    named_toolchain: Toolchain | None,
    fresh_kernels: dict[Path, Fresh],
    request: pytest.FixtureRequest,
) -> ReleaseCompiles:
    """The release, ready to compile. Undecided without operators or without a named toolchain."""
    if release.model is not None and not release.operators:
        pytest.skip("the release names no operators: its model is converted instead")
    if named_toolchain is None:
        raise NotDecidable(
            'nothing was compiled, because no toolchain is named; write toolchain = "atc" in '
            f"{release.path}, or add --ascend-toolchain=atc."
        )
    if not release.operators:
        raise NotDecidable(
            "nothing was compiled, because the release names no operators; write "
            f'operators = "FILE.json" (ATC\'s single-operator JSON) in {release.path}.'
        )
    cache: CacheUnderTest = request.getfixturevalue("cache")
    return ReleaseCompiles(release, cache, fresh_kernels)


@pytest.fixture
def tables(release: Release, named_toolchain: Toolchain | None) -> ImplModeTables:
    """The tables of the implementation modes. Undecided if no toolchain is named that has them."""
    if release.precision_file is None or not release.precision_file.is_file():
        pytest.skip("there is no precision file")
    known = release_tables(release, named_toolchain)
    if known is not None:
        return known
    if named_toolchain is None:
        raise NotDecidable(
            "the modes of an operator are in tables of the toolchain, and none is named; write "
            f'toolchain = "atc" in {release.path}, or add --ascend-toolchain=atc.'
        )
    pytest.skip(f"{named_toolchain.name}: {Capability.IMPL_MODE_TABLES.lacking}")


@rule("cache-mode/release-setting")
def test_cache_mode(release: Release) -> None:
    judge(cache_mode_problems(release))


@rule("release/debug-off")
def test_debug_switches(release: Release) -> None:
    judge(debug_problems(release))


@rule("release/implmode-option-off")
def test_debugging_option_for_modes(release: Release) -> None:
    judge(debugging_option_problems(release))


@rule("release/precision-file-kept")
def test_precision_file_is_kept(
    release: Release, named_toolchain: Toolchain | None, ascend_evidence: Evidence
) -> None:
    tables = release_tables(release, named_toolchain)
    with undecided_on(OSError):
        if tables is not None and not has_two_implementations(release, tables):
            pytest.skip("no operator of the release has two implementations")
    judge(kept_file_problems(release))
    if note := uncompared_file(release):
        ascend_evidence.notes.append(note)


@rule("release/precision-file-valid")
def test_precision_file_is_valid(
    release: Release, tables: ImplModeTables, named_toolchain: Toolchain | None
) -> None:
    assert release.precision_file is not None
    with undecided_on(OSError):
        text = read_text(release.precision_file, errors="replace")
        unknown = unknown_nodes(text, release)
    # The embedded toolchain has few types: of others its tables say nothing.
    has_package = bool(release.kernel_environment.get("ASCEND_OPP_PATH"))
    is_small = named_toolchain is not None and named_toolchain.name == "reference"
    is_small = is_small and not has_package
    types = unknown_types(text, tables) if is_small else []
    judge(precision_file_problems(text, release, tables, ignored=types))
    if types:
        raise NotDecidable(
            f"the tables of the embedded reference do not have the type {types[0]!r}; only those "
            "of CANN tell which modes it has."
        )
    if unknown and release.model is not None:
        raise NotDecidable(
            f"no node of {release.model.name} is named {unknown[0]!r}, and no operator; name "
            f"operators in {release.path} where it is one that the conversion makes."
        )


@rule("release/knowledge-base-applied")
def test_kernels_are_newer_than_the_knowledge_base(
    release: Release, named_toolchain: Toolchain | None
) -> None:
    if not release.knowledge_base:
        pytest.skip("the release names no tuning knowledge base")
    if not compared_caches(release):
        pytest.skip(f"no cache of {release.soc} goes with the release")
    # Copying gives files another time, and what kernels compute says more than when; but a fresh
    # compile uses the knowledge base only if the release's own command does.
    used = {*release.kernel_options.values(), *release.kernel_environment.values()}
    compiled_with = used.issuperset(map(str, release.knowledge_base))
    compiles = named_toolchain is not None and (release.operators or release.model is not None)
    if compiles and compiled_with:
        rule_id = f"release/{'' if release.operators else 'model-'}cached-is-fresh"
        pytest.skip(f"the cached kernels are compared with fresh ones instead: {rule_id}")
    try:
        judge(outdated_kernels(release))
    except OSError as error:
        raise NotDecidable(f"the age of kernels is not known: {error}") from None


@rule("release/settings-agree")
def test_settings_agree(release: Release, edition: Edition) -> None:
    judge(contradictions(release, edition))


@rule("release/every-card-has-a-cache")
def test_every_card_has_a_cache(release: Release) -> None:
    if not any(map(rank_directories, release.caches)):
        pytest.skip("no cache of the release is kept by rank")
    judge(rank_problems(release))


@rule("release/cached-is-fresh")
def test_a_new_cache_serves_fresh_kernels(compiles: ReleaseCompiles) -> None:
    compiles.fresh()
    cache = compiles.cache
    problems = compiles.unlike_fresh(compiles.compile(cache, ENABLE), "the compile that stores")
    served = compiles.compile(cache, ENABLE)
    problems += compiles.unlike_fresh(served, "the cache")
    if is_forced(compiles.release):
        forced = compiles.compile(cache, FORCE)
        problems += compiles.unlike_fresh(forced, "force, as the release is compiled,")
    cache.evidence.notes.append(f"{compiles.release.name}, new cache: {compiles.served(served)}")
    judge(problems)


@rule("release/cached-is-fresh")
def test_caches_of_the_release_serve_fresh_kernels(
    release: Release, named_toolchain: Toolchain | None, request: pytest.FixtureRequest
) -> None:
    if release.model is None:
        judge_files_of_caches(release, named_toolchain)
    compiles: ReleaseCompiles = request.getfixturevalue("compiles")
    problems, places = list[Problem](), compared_caches(release)
    for number, place in enumerate(places):
        cache = compiles.cache.elsewhere(compiles.cache.sandbox / f"copy{number}")
        copy_cache(release, place, cache.root, only_operators=True)
        run = compiles.compile(cache, ENABLE)
        problems += compiles.unlike_fresh(run, str(place))
        served = compiles.served(run)
        lost = [each for each in compiles.operators.values() if not run.served_from(each)]
        refused = [each for each in lost if run.fate(each) is Fate.REWRITTEN]
        known = 0 if served.served is None else len(refused)
        problems += useless(release, place, served, "operator", known, cache.root)
        cache.evidence.notes.append(f"{release.name}, {place.name}: {served}")
    if not places:
        nothing_compared(release)
    judge(problems)
    ensure_own_cache_is_compared(release)


def nothing_compared(release: Release) -> NoReturn:
    """Skip the check of a release without a cache of its chip; undecided if one is empty."""
    ensure_own_cache_is_compared(release)
    for cache in release.caches:
        if not holds_files(cache):
            raise NotDecidable(f"{cache} goes with the release, and nothing is in it to compare")
    pytest.skip(f"no cache of {release.soc} goes with the release")


def ensure_own_cache_is_compared(release: Release) -> None:
    """Undecided if the release's own command takes kernels from a cache that is not judged."""
    if (cache := own_cache(release)) is not None:
        raise NotDecidable(
            f"the release's own command takes kernels from {cache}, and they were not compared; "
            f"name it in 'caches' of {release.path}."
        )


def judge_files_of_caches(release: Release, toolchain: Toolchain | None) -> None:
    """Fail for shipped caches of which files alone tell that they serve nothing; what they would
    serve, a ``toolchain`` tells better than the manifest."""
    problems = unusable_caches(release)
    if toolchain is None:
        with undecided_on(ManifestError):
            problems += unserving_caches(release)
    judge(problems)


def useless(
    release: Release, cache: Path, served: Served, what: str, refused: int, used: Path
) -> list[Problem]:
    """The problem of a shipped cache that has kernels of the chip and serves few or none, or
    nothing for ``refused`` names that the release looks for; a copy of it is ``used``."""
    if debug_problems(release) or not (served.is_few or refused):
        return []
    how = f"{cache} serves no {what} of the release: "
    if served.served:
        how = f"{cache} serves {served.served} of {served.kernels} {what}s of the release: "
        if refused:
            how += f"the files of {refused} of the other names are not taken"
        else:
            how += "it lacks the others, or has them of something else"
    elif refused:
        how += f"it has {refused} of {served.kernels} names, and their files are not taken"
    elif not cached_names(cache, release.soc):
        how += "it has no entry"
    else:
        how += "its kernels are of something else"
    if refused and (versions := filled_otherwise(cache, used)):
        how += f"; {versions}"
    return [Problem(how, "a cache filled by the release's own command, or no such cache")]


@pytest.fixture
def several_cards(release: Release) -> int:
    """The number of cards that the release is for, which must be more than one."""
    if release.cards == 1:
        pytest.skip("the release is for one card")
    return release.cards


@rule("release/cards-get-one-kernel")
def test_cards_that_compile_at_once(several_cards: int, compiles: ReleaseCompiles) -> None:
    compiles.fresh()
    requests = [compiles.request(rank) for rank in range(min(several_cards, _AT_ONCE))]
    problems = list[Problem]()
    cards = f"{len(requests)} of {several_cards} cards compiled at once"
    compiles.cache.evidence.notes.append(f"{compiles.release.name}: {cards}")
    for rank, run in enumerate(compiles.cache.together(requests)):
        if run.succeeded:
            problems += compiles.unlike_fresh(run, f"card {rank}")
        else:
            ending = f"the compile of card {rank} {run.result.ending}"
            problems.append(Problem(ending, "success, as a compile alone has"))
    judge(problems)


@pytest.fixture
def manifest_file(release: Release) -> Path:
    if release.manifest is None:
        pytest.skip("the release names no manifest")
    return release.manifest


@rule("release/manifest")
def test_manifest(
    manifest_file: Path, compiles: ReleaseCompiles, request: pytest.FixtureRequest
) -> None:
    fresh, again = compiles.fresh, compiles.fresh_again
    judge_manifest(compiles, manifest_file, request, fresh, again, Manifest.problems)


@contextmanager
def undecided_on(expected: type[Exception]) -> Iterator[None]:
    """Make the check undecided on an error of this type. An ``OSError`` is about reading a file."""
    try:
        yield
    except expected as error:
        if isinstance(error, OSError):
            raise NotDecidable(f"{error.filename} cannot be read ({error.strerror})") from None
        raise NotDecidable(str(error)) from None


def judge_manifest(
    judged: ReleaseCompiles | ReleaseConversions,
    path: Path,
    request: pytest.FixtureRequest,
    digests: Callable[[], Mapping[str, KernelDigest]],
    again: Callable[[], Mapping[str, KernelDigest]],
    differing: Callable[[Manifest, Mapping[str, KernelDigest]], list[Problem]],
) -> None:
    """Compare fresh kernels with the golden manifest, except those that differ ``again``, or write
    it if the command line asks for it."""
    release, toolchain = judged.release, judged.cache.toolchain
    of_model = isinstance(judged, ReleaseConversions)
    with undecided_on(OSError):
        options, settings = options_digest(release), release_settings(release)
        inputs = recorded_inputs(release)
    with undecided_on(ManifestError):
        names = toolchain.name, toolchain.version, release.soc, options
        now = Manifest(*names, {}, inputs=inputs, settings=settings)
        if request.getfixturevalue("ascend_session").settings.release.update:
            kernels, second = digests(), again()
            for key, each in kernels.items():
                if second.get(key) != each:
                    raise NotDecidable(
                        f"two fresh compiles give different kernels of {each.operator}"
                    )
            update_manifest(path, now, **{"model" if of_model else "kernels": kernels})
            note = f"{path} was written with {len(kernels)} kernels"
            note += " of the model" if of_model else ""
            judged.cache.evidence.notes.append(note)
            pytest.skip(note)
        golden = read_manifest(path)
    reason = golden.unlike(now)
    if not reason and of_model and golden.model is None:
        reason = "it has no kernels of the model"
    if reason:
        raise NotDecidable(
            f"the manifest {path} says nothing of this release: {reason}; once the new kernels are "
            "approved, write it anew with --ascend-manifest-update."
        )
    problems = differing(golden, digests())
    if problems:
        stable = differing(golden, again())
        problems = [each for each in problems if each in stable]
        if not problems:
            raise NotDecidable("two fresh compiles give different kernels")
    # A release with a model has one manifest and two rules for it: its inputs are the model's.
    if of_model or release.model is None:
        problems = [*golden.input_problems(inputs), *problems]
    judge(problems)
    if golden.inputs is None and (of_model or release.model is None):
        raise NotDecidable(
            f"the manifest {path} records the kernels and not what they were made from; write it "
            "anew with --ascend-manifest-update."
        )


def judge(problems: Sequence[Problem]) -> None:
    if problems:
        pytest.fail(story(problems))
