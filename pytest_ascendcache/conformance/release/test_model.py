"""The release gate converts the model itself, by the release's own command. The checks of a release
share its conversions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance.kit.conversion_shelf import Conversion, ConversionShelf
from pytest_ascendcache.conformance.kit.release_conversions import ReleaseConversions
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.conformance.release.test_release import (
    ensure_own_cache_is_compared,
    judge,
    judge_files_of_caches,
    judge_manifest,
    nothing_compared,
    undecided_on,
    useless,
)
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.observation.model_file import differences
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.kernels import cached_names
from pytest_ascendcache.release.manifest import Manifest
from pytest_ascendcache.release.problem import Problem, names
from pytest_ascendcache.release.samples import SamplesError, float32_outputs, sample_inputs
from pytest_ascendcache.toolchains import KernelRunError, Toolchain

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.fixture(scope="module")
def shelf(request: pytest.FixtureRequest) -> ConversionShelf:
    """The conversions of all releases, made when first needed."""
    session: Any = request.getfixturevalue("ascend_session")
    return ConversionShelf(session.conversions, session.run, session.settings.resume is not None)


@pytest.fixture
def conversions(ascend_release: Release, request: pytest.FixtureRequest) -> ReleaseConversions:
    """The release, ready to convert. Undecided without a named toolchain that converts models."""
    release = ascend_release
    if release.model is None:
        pytest.skip("the release's command converts no model (it has no --model)")
    session: Any = request.getfixturevalue("ascend_session")
    if not session.settings.is_named:
        raise NotDecidable(
            'nothing was converted, because no toolchain is named; write toolchain = "atc" in '
            f"{release.path}, or add --ascend-toolchain=atc."
        )
    toolchain: Toolchain = request.getfixturevalue("toolchain")
    if not Gate.of(toolchain).converts:
        raise NotDecidable(f"{toolchain.name}: converts no models")
    cache: CacheUnderTest = request.getfixturevalue("cache")
    shelf: ConversionShelf = request.getfixturevalue("shelf")
    return ReleaseConversions(release, cache, shelf, session.announce)


@rule("release/model-cached-is-fresh")
def test_a_new_cache_gives_the_model_of_a_fresh_conversion(conversions: ReleaseConversions) -> None:
    conversions.fresh()
    every, problems = conversions.new_cache(), list[Problem]()
    for each in every:
        problems += conversions.unlike_fresh(each) or conversions.unlike_around_kernels(each)
    warm = conversions.served(every[2])
    conversions.cache.evidence.notes.append(f"{conversions.release.name}, new cache: {warm}")
    conversions.note_cost()
    judge(problems)


@rule("release/model-cached-is-fresh")
def test_caches_of_the_release_give_the_model_of_a_fresh_conversion(
    ascend_release: Release, request: pytest.FixtureRequest
) -> None:
    release = ascend_release
    if release.model is not None:
        is_named = request.getfixturevalue("ascend_session").settings.is_named
        toolchain = request.getfixturevalue("toolchain") if is_named else None
        judge_files_of_caches(release, toolchain)
    conversions: ReleaseConversions = request.getfixturevalue("conversions")
    conversions.fresh()
    every, problems = conversions.shipped(), list[Problem]()
    if not every:
        nothing_compared(release)
    for each, unmarked in zip(every, conversions.shipped(marked=False), strict=True):
        problems += conversions.unlike_fresh(each) or conversions.unlike_around_kernels(unmarked)
        served, place = conversions.served(each), each.source.removeprefix("a conversion from ")
        lost, there = conversions.lost(each), cached_names(Path(place), release.soc)
        used = each.result.request.cache_dir
        problems += useless(release, Path(place), served, "kernel", len(lost & there), used)
        note = f"{release.name}, {each.source}: {served}"
        if lost:
            note += f"; compiled again: {names(sorted(lost))}"
        symbols = each.parts.by_symbol if each.parts is not None else ()
        kernels = {symbol.partition("__kernel")[0] for symbol in symbols}
        others = {name for name in there - kernels if not name.endswith("_pre")}
        if kernels and others and not release.operators:
            note += f"; {len(others)} entries are of no kernel of the model"
        conversions.cache.evidence.notes.append(note)
    judge(problems)
    ensure_own_cache_is_compared(release)


@rule("release/model-cards-agree")
def test_cards_that_convert_at_once(conversions: ReleaseConversions) -> None:
    cards = conversions.release.cards
    if cards == 1:
        pytest.skip("the release is for one card")
    conversions.fresh()
    every, problems = conversions.together(cards), list[Problem]()
    for card, each in enumerate(every):
        problems += conversions.unlike_fresh(each, f"card {card}")
    note = f"{conversions.release.name}: {len(every)} of {cards} cards converted at once"
    conversions.cache.evidence.notes.append(note)
    judge(problems)


@rule("release/model-manifest")
def test_model_manifest(conversions: ReleaseConversions, request: pytest.FixtureRequest) -> None:
    path = conversions.release.manifest
    if path is None:
        pytest.skip("the release names no manifest")
    conversions.fresh()
    digests, again = conversions.digests, conversions.digests_again
    judge_manifest(conversions, path, request, digests, again, Manifest.model_problems)


@rule("release/model-reproducible")
def test_two_fresh_conversions(conversions: ReleaseConversions) -> None:
    first, again = conversions.fresh_parts, conversions.fresh_parts_again()
    readings, name = conversions.cache.evidence.readings, conversions.release.name
    if unlike := differences(again, first):
        readings.append(f"{name}: two fresh conversions differ in {len(unlike)} kernels")
        fresh = "a second fresh conversion has"
        judge([Problem(f"{fresh} {each.found}", f"{each.wanted}") for each in unlike])
    same = "are byte for byte the same"
    if first != again:
        same = "have the same kernels, and differ between them"
    readings.append(f"{name}: two fresh conversions {same}")


@pytest.fixture
def inputs(conversions: ReleaseConversions) -> dict[str, NDArray[Any]]:
    """The inputs of the model. Undecided if there is no model to run or no way to run it."""
    conversions.fresh()
    with undecided_on(SamplesError):
        return sample_inputs(conversions.release)


@rule("release/outputs-unchanged")
def test_outputs_of_cached_models(
    conversions: ReleaseConversions, inputs: dict[str, NDArray[Any]]
) -> None:
    fresh = conversions.fresh()
    wanted = _outputs(conversions, fresh, inputs)
    every, problems = [*conversions.new_cache()[1:], *conversions.shipped()], list[Problem]()
    judged = [each for each in every if each.parts is not None]
    if not judged:
        raise NotDecidable("no conversion from a cache gave a model to be run")
    _ensure_telling(wanted)
    if inputs and not conversions.depends_on(inputs, wanted):
        raise NotDecidable("a fresh model gives the same outputs whatever its inputs are")
    for each in judged:
        try:
            got = conversions.outputs(each, inputs)
        except KernelRunError as error:
            problems.append(Problem(f"{each.source}: {error}", "outputs, as a fresh model gives"))
            continue
        problems += [
            Problem(f"{each.source} gives other bits of the output {name}", "those of a fresh one")
            for name, value in wanted.items()
            if name not in got or got[name].tobytes() != value.tobytes()
        ]
    conversions.cache.evidence.notes.append(
        f"{conversions.release.name}: {len(wanted)} outputs of {len(judged)} cached models compared"
    )
    judge(problems)


def _outputs(
    conversions: ReleaseConversions, fresh: Conversion, inputs: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The outputs of the fresh model. Undecided if it cannot be run."""
    try:
        outputs = conversions.outputs(fresh, inputs)
    except KernelRunError as error:
        raise NotDecidable(f"a fresh model cannot be run: {error}") from None
    if not outputs:
        raise NotDecidable("a fresh model gives no output")
    return outputs


def _ensure_telling(outputs: dict[str, NDArray[Any]]) -> None:
    """Undecided if an output has no number that could be wrong."""
    import numpy as np

    for name, value in outputs.items():
        if value.dtype.kind in "fc" and value.size and not np.isfinite(value).any():
            raise NotDecidable(f"the output {name} has no finite element with these inputs")


@rule("release/outputs-near")
def test_outputs_beside_a_float32_run(
    conversions: ReleaseConversions, inputs: dict[str, NDArray[Any]]
) -> None:
    import numpy as np

    release = conversions.release
    got = _outputs(conversions, conversions.fresh(), inputs)
    with undecided_on(SamplesError):
        wanted = float32_outputs(release, inputs)
    if not wanted:
        raise NotDecidable("a float32 run of the model gives no output")
    _ensure_telling(wanted)
    problems, worst = [], 0.0
    for name, exact in wanted.items():
        if name not in got or got[name].shape != exact.shape:
            problems.append(Problem(f"there is no output {name} of its shape", f"{exact.shape}"))
            continue
        made, exact = got[name].astype(np.float64), exact.astype(np.float64)
        same = (made == exact) | (np.isnan(made) & np.isnan(exact))
        with np.errstate(invalid="ignore"):
            distance = np.where(same, 0.0, np.abs(made - exact))
        largest = float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
        share = float(np.where(np.isnan(distance), np.inf, distance).max(initial=0.0))
        share /= largest or 1.0
        worst = max(worst, share)
        if not share <= release.tolerance:
            off = f"the output {name} is off by {share:.3g} of its largest element"
            most = f"{release.tolerance:g} at most, of a float32 run of {release.model}"
            problems.append(Problem(off, most))
    conversions.cache.evidence.notes.append(
        f"{release.name}: outputs are off by {worst:.2g} of the largest element"
    )
    judge(problems)
