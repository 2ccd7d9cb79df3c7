"""Conversions with a release's own command in a sandbox, shared by the checks of one release."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.conformance.kit.conversion_shelf import (
    Conversion,
    ConversionShelf,
)
from pytest_ascendcache.conformance.kit.converting import AT_ONCE, Converter, Stage
from pytest_ascendcache.conformance.kit.release_compiles import Served
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.model_file import (
    KernelDifference,
    ModelParts,
    differences,
)
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.kernels import compared_caches
from pytest_ascendcache.release.manifest import KernelDigest
from pytest_ascendcache.release.problem import Problem
from pytest_ascendcache.toolchains import KernelRunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ANNOUNCED = 10.0
"""Seconds that a conversion takes before the user is told how many more will follow."""

_PLAIN = "plain"
FRESH = "fresh"
"""Name of the conversion without a cache, which all others are compared with."""


class ReleaseConversions:
    """Converts a release's model with every state of the cache, each once a session."""

    def __init__(
        self,
        release: Release,
        cache: CacheUnderTest,
        shelf: ConversionShelf,
        announce: Callable[[str], None],
    ) -> None:
        self.release = release
        self.cache = cache
        self._shelf = shelf
        self._announce = announce
        self._converter = Converter(release, cache, shelf)

    def fresh(self) -> Conversion:
        """The conversion with the cache disabled and empty. Raises NotDecidable if the release's
        command fails or leaves no model, or no kernel is found in the model."""
        is_first = self.release.path not in self._shelf.announced
        if is_first:
            self._shelf.announced.add(self.release.path)
            self._announce_earlier()
        stage = Stage(FRESH, "a fresh conversion", CacheMode.DISABLE)
        (fresh,) = self._converter.converted(FRESH, [stage])
        is_new = fresh.run == self._shelf.run
        if is_first and is_new and fresh.result.seconds >= _ANNOUNCED:
            self._announce(
                f"{self.release.name}: one conversion takes {fresh.result.seconds:.0f} s; "
                f"{self._others} more follow"
            )
        if fresh.parts is None:
            raise NotDecidable(f"the release's command {fresh.result.failure}")
        if not fresh.parts.kernels:
            raise NotDecidable(
                f"the model {fresh.model.name} carries no ELF object, so its kernels cannot be "
                "found in it"
            )
        return fresh

    def fresh_parts_again(self) -> ModelParts:
        """The parts of a second conversion like :meth:`fresh`; raises for the same reasons."""
        self.fresh()
        stage = Stage("again", "a second fresh conversion", CacheMode.DISABLE)
        (again,) = self._converter.converted("again", [stage])
        if again.parts is None:
            raise NotDecidable(f"a second run of the release's command {again.result.failure}")
        return again.parts

    def new_cache(self) -> list[Conversion]:
        """Conversions into a new cache, from it, and, if the release is forced, under force."""
        stages = [
            Stage("cold", "a conversion into a new cache", CacheMode.ENABLE),
            Stage(_PLAIN, "a conversion from a filled cache", CacheMode.ENABLE, marked=False),
            Stage("warm", "a conversion from a warm cache", CacheMode.ENABLE),
        ]
        if self._is_forced:
            stages.append(Stage("force", "a conversion under force", CacheMode.FORCE))
        return self._converter.converted("new-cache", stages, watched=True)

    def shipped(self, marked: bool = True) -> list[Conversion]:
        """A conversion from a copy of each shipped cache that has entries for the release's chip.
        Raises NotDecidable if a cache changes while it is copied."""
        name, conversions = "shipped" if marked else f"shipped-{_PLAIN}", list[Conversion]()
        for place in compared_caches(self.release):
            stage = Stage(name, f"a conversion from {place}", CacheMode.ENABLE, marked=marked)
            conversions += self._converter.converted(name, [stage], watched=True, shipped=place)
        return conversions

    def together(self, cards: int) -> list[Conversion]:
        """One conversion for each card, all at once, with one new cache."""
        stage = Stage("cards", "one of the conversions at once", CacheMode.ENABLE, cards)
        return self._converter.converted("cards", [stage], watched=True)

    def unlike_fresh(self, conversion: Conversion, who: str = "") -> list[Problem]:
        """How a conversion's kernels differ from those of a fresh one. Raises NotDecidable if two
        fresh conversions differ in all of the same kernels."""
        who = who or conversion.source
        if conversion.parts is None:
            how = f"{who} {conversion.result.failure}"
            return [Problem(how, "a model, as the same command makes without a cache")]
        unlike = differences(conversion.parts, self.fresh_parts)
        if unlike:
            again = differences(self.fresh_parts_again(), self.fresh_parts)
            unstable, first = {each.name for each in again}, unlike[0].name
            unlike = [each for each in unlike if each.name not in unstable]
            if not unlike:
                raise NotDecidable(f"two fresh conversions give different kernels {first}")
        # Kernels that the model has come first: such a line names the entry they came from.
        return [_problem(each, who) for each in sorted(unlike, key=lambda each: each.found is None)]

    def unlike_around_kernels(self, conversion: Conversion) -> list[Problem]:
        """How a model differs from a fresh one outside of its kernels. A marked kernel changes what
        is around it, and where two fresh models differ nothing is compared, which is noted."""
        parts, fresh = conversion.parts, self.fresh_parts
        if parts is None or parts.rest == fresh.rest or any(k.served_from for k in parts.kernels):
            return []
        if self.fresh_parts_again().rest != fresh.rest:
            note = f"{self.release.name}: only kernels were compared: two fresh models differ"
            if note not in self.cache.evidence.notes:
                self.cache.evidence.notes.append(note)
            return []
        cold = self.new_cache()[0].parts  # what the mode alone changes is not the cache's doing
        if cold is not None and cold.rest == parts.rest:
            return []
        how = f"{conversion.source} differs outside of the kernels, {parts.size} bytes"
        return [Problem(how, f"a fresh conversion's {fresh.size} bytes, which are always the same")]

    @property
    def fresh_parts(self) -> ModelParts:
        """The parts of the model of :meth:`fresh`, which raises for the same reasons."""
        parts = self.fresh().parts
        assert parts is not None
        return parts

    def served(self, conversion: Conversion) -> Served:
        """How many of a conversion's kernels came from the cache."""
        kernels = conversion.parts.kernels if conversion.parts is not None else ()
        served = sum(bool(each.served_from) for each in kernels)
        is_known = conversion.parts is not None and self.cache.marks
        return Served(served if is_known else None, len(kernels))

    def lost(self, conversion: Conversion) -> set[str]:
        """The entries that serve kernels of a just filled cache, and not of a conversion's."""
        if conversion.parts is None or not self.cache.marks:
            return set()
        filled = self.new_cache()[2].parts
        could, did = (
            {each.served_from for each in (parts.kernels if parts is not None else ())}
            for parts in (filled, conversion.parts)
        )
        return could - did

    def digests(self) -> dict[str, KernelDigest]:
        """The fresh model's kernels by name, for the manifest."""
        return _digests(self.fresh_parts)

    def digests_again(self) -> dict[str, KernelDigest]:
        """Those of a second fresh model."""
        return _digests(self.fresh_parts_again())

    def outputs(
        self, conversion: Conversion, inputs: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """The outputs of a model, run once. Raises KernelRunError if it cannot be run."""
        known = self._shelf.outputs
        key = (conversion.model, _digest(inputs))
        if key not in known:
            known[key] = self.cache.toolchain.model_outputs(conversion.model, inputs)
        return known[key]

    def depends_on(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
    ) -> bool:
        """Positive control: whether the fresh model's outputs depend on its inputs, which are
        reversed, zeros and ones. Otherwise equal outputs of two models mean nothing."""
        import numpy as np

        changes: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...]
        changes = np.flip, np.zeros_like, np.ones_like
        for change in changes:
            other = {name: np.ascontiguousarray(change(value)) for name, value in inputs.items()}
            try:
                changed = self.cache.toolchain.model_outputs(self.fresh().model, other)
            except KernelRunError:
                continue
            if any(
                name in changed and changed[name].tobytes() != value.tobytes()
                for name, value in outputs.items()
            ):
                return True
        return False

    def note_cost(self) -> None:
        """Note for the report how many conversions were made, and how long they took."""
        every = list(chain.from_iterable(self._converter.made.values()))
        seconds = max(each.result.seconds for each in every)
        note = f"{self.release.name}: {len(every)} conversions, {seconds:.1f} s the longest"
        self.cache.evidence.notes.append(note)
        earlier = [each.result.seconds for each in every if each.run != self._shelf.run]
        if earlier:
            self.cache.evidence.notes.append(
                f"{self.release.name}: {len(earlier)} of them are an interrupted run's, which took "
                f"{sum(earlier):.1f} s for them"
            )

    def _announce_earlier(self) -> None:
        """Announce the conversions that an interrupted run finished."""
        count, seconds = self._shelf.earlier()
        if count:
            self._announce(
                f"{self.release.name}: {count} conversions that an interrupted run finished in "
                f"{seconds:.0f} s are in {self._shelf.directory}; those that still hold are not "
                "made again"
            )

    @property
    def _others(self) -> int:
        """The most conversions that may follow the first one."""
        cards = min(self.release.cards, AT_ONCE)
        return 4 + self._is_forced + 2 * len(self.release.caches) + (cards if cards > 1 else 0)

    @property
    def _is_forced(self) -> bool:
        return self.release.options.get("op_compiler_cache_mode") == CacheMode.FORCE.value


def _digest(inputs: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(inputs.items()):
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def _problem(difference: KernelDifference, who: str) -> Problem:
    found, wanted = difference.found, difference.wanted
    if found is None:
        return Problem(f"{who} lacks {wanted}", "every kernel of a fresh conversion")
    entry = f" from the entry {found.served_from}" if found.served_from else ""
    if wanted is None:
        return Problem(f"{who} has {found}{entry} too many", "no kernel but a fresh conversion's")
    fresh = f"sha256 {wanted.sha256[:16]}..., {wanted.size} bytes, as a fresh conversion has"
    return Problem(f"{who} has {found}{entry}", fresh)


def _digests(parts: ModelParts) -> dict[str, KernelDigest]:
    return {name: KernelDigest(name, *fields) for name, fields in parts.by_symbol.items()}
