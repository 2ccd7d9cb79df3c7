"""The release gate converts the model itself, by the release's own command.

Conversions are made once for each release and shared by its checks: fresh ones, into and from a
new cache, from copies of the caches that ship, under force, and as many at once as there are cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance.kit.conversion_shelf import Conversion, ConversionShelf
from pytest_ascendcache.conformance.kit.release_conversions import ReleaseConversions
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.model_file import differences
from pytest_ascendcache.release import (
    Manifest,
    ManifestError,
    Problem,
    Release,
    SamplesError,
    float32_outputs,
    options_digest,
    read_manifest,
    sample_inputs,
    story,
    update_manifest,
)
from pytest_ascendcache.toolchains import KernelRunError, ModelConverter, Toolchain

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.fixture(scope="module")
def shelf(request: pytest.FixtureRequest) -> ConversionShelf:
    """Conversions of every release, made when first needed."""
    session: Any = request.getfixturevalue("ascend_session")
    return ConversionShelf(session.conversions, session.run, session.settings.resume is not None)


@pytest.fixture
def conversions(ascend_release: Release, request: pytest.FixtureRequest) -> ReleaseConversions:
    """The release, ready to be converted.

    Raises:
        NotDecidable: where no toolchain is named to convert it with, or one that converts nothing.
    """
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
    if not isinstance(toolchain, ModelConverter):
        raise NotDecidable(f"{toolchain.name}: converts no models")
    cache: CacheUnderTest = request.getfixturevalue("cache")
    shelf: ConversionShelf = request.getfixturevalue("shelf")
    return ReleaseConversions(release, cache, shelf, session.announce)


def _judge(problems: Sequence[Problem]) -> None:
    if problems:
        pytest.fail(story(problems))


@rule("release/model-cached-is-fresh")
def test_a_new_cache_gives_the_model_of_a_fresh_conversion(
    conversions: ReleaseConversions,
) -> None:
    conversions.fresh()
    every, problems = conversions.new_cache(), list[Problem]()
    for each in every:
        problems += conversions.unlike_fresh(each)
    warm = conversions.served(every[1])
    conversions.cache.evidence.notes.append(f"{conversions.release.name}, new cache: {warm}")
    conversions.note_cost()
    _judge(problems)


@rule("release/model-cached-is-fresh")
def test_caches_of_the_release_give_the_model_of_a_fresh_conversion(
    conversions: ReleaseConversions,
) -> None:
    release = conversions.release
    conversions.fresh()
    every, problems = conversions.shipped(), list[Problem]()
    if not every:
        pytest.skip(f"no cache of {release.soc} goes with the release")
    for each in every:
        problems += conversions.unlike_fresh(each)
        note = f"{release.name}, {each.source}: {conversions.served(each)}"
        conversions.cache.evidence.notes.append(note)
    _judge(problems)


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
    _judge(problems)


@rule("release/model-manifest")
def test_model_manifest(conversions: ReleaseConversions, request: pytest.FixtureRequest) -> None:
    release, path = conversions.release, conversions.release.manifest
    if path is None:
        pytest.skip("the release names no manifest")
    updates = bool(request.getfixturevalue("ascend_session").settings.release.update)
    try:
        options = options_digest(release)
    except OSError as error:
        raise NotDecidable(f"{error.filename} cannot be read ({error.strerror})") from None
    toolchain, fresh = conversions.cache.toolchain, conversions.fresh()
    now = Manifest(toolchain.name, toolchain.version, release.soc, options, {})
    try:
        if updates:
            _confirm(conversions, fresh)
            digests = conversions.digests()
            update_manifest(path, now, model=digests)
            note = f"{path} was written with {len(digests)} kernels of the model"
            conversions.cache.evidence.notes.append(note)
            pytest.skip(note)
        golden = read_manifest(path)
    except ManifestError as error:
        raise NotDecidable(str(error)) from None
    reason = golden.unlike(now) or (
        "it has no kernels of the model" if golden.model is None else ""
    )
    if reason:
        raise NotDecidable(
            f"the manifest {path} says nothing of this release: {reason}; once the new kernels are "
            "approved, write it anew with --ascend-manifest-update."
        )
    problems = golden.model_problems(conversions.digests())
    if problems:
        _confirm(conversions, fresh)
    _judge(problems)


def _confirm(conversions: ReleaseConversions, fresh: Conversion) -> None:
    """See that a second fresh conversion has the same kernels.

    Raises:
        NotDecidable: where it has not.
    """
    again = conversions.fresh_again()
    assert again.parts is not None
    assert fresh.parts is not None
    if unlike := differences(again.parts, fresh.parts):
        raise NotDecidable(f"two fresh conversions give different kernels {unlike[0].name}")


@rule("release/model-reproducible")
def test_two_fresh_conversions(conversions: ReleaseConversions) -> None:
    first, again = conversions.fresh().parts, conversions.fresh_again().parts
    assert first is not None
    assert again is not None
    readings, name = conversions.cache.evidence.readings, conversions.release.name
    if unlike := differences(again, first):
        readings.append(f"{name}: two fresh conversions differ in {len(unlike)} kernels")
        _judge(
            [
                Problem(f"a second fresh conversion has {each.found}", f"{each.wanted}")
                for each in unlike
            ]
        )
    same = (
        "are byte for byte the same"
        if first == again
        else ("have the same kernels, and differ between them")
    )
    readings.append(f"{name}: two fresh conversions {same}")


@pytest.fixture
def inputs(conversions: ReleaseConversions) -> dict[str, NDArray[Any]]:
    """What the models are run with.

    Raises:
        NotDecidable: where there is nothing to run, or nothing to run it with.
    """
    conversions.fresh()
    try:
        return sample_inputs(conversions.release)
    except SamplesError as error:
        raise NotDecidable(str(error)) from None


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
    _judge(problems)


def _outputs(
    conversions: ReleaseConversions, fresh: Conversion, inputs: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Outputs of the fresh model.

    Raises:
        NotDecidable: where it cannot be run.
    """
    try:
        found = conversions.outputs(fresh, inputs)
    except KernelRunError as error:
        raise NotDecidable(f"a fresh model cannot be run: {error}") from None
    if not found:
        raise NotDecidable("a fresh model gives no output")
    return found


@rule("release/outputs-near")
def test_outputs_beside_a_float32_run(
    conversions: ReleaseConversions, inputs: dict[str, NDArray[Any]]
) -> None:
    import numpy as np

    release = conversions.release
    got = _outputs(conversions, conversions.fresh(), inputs)
    try:
        wanted = float32_outputs(release, inputs)
    except SamplesError as error:
        raise NotDecidable(str(error)) from None
    problems, worst = [], 0.0
    for name, exact in wanted.items():
        if name not in got or got[name].shape != exact.shape:
            problems.append(Problem(f"there is no output {name} of its shape", f"{exact.shape}"))
            continue
        made, exact = got[name].astype(np.float64), exact.astype(np.float64)
        with np.errstate(invalid="ignore"):
            distance = np.where(made == exact, 0.0, np.abs(made - exact))
        largest = float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
        share = float(np.where(np.isnan(distance), np.inf, distance).max(initial=0.0))
        share /= largest or 1.0
        worst = max(worst, share)
        if not share <= release.tolerance:
            problems.append(
                Problem(
                    f"the output {name} is off by {share:.3g} of its largest element",
                    f"{release.tolerance:g} at most, of a float32 run of {release.model}",
                )
            )
    conversions.cache.evidence.notes.append(
        f"{release.name}: outputs are off by {worst:.2g} of the largest element"
    )
    _judge(problems)
