"""A release's own command, run in a sandbox: conversions, shared by the checks of one release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import Canary, Snapshot
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.observation.model_file import (
    KernelDifference,
    ModelKernel,
    ModelParts,
    differences,
    take_apart,
)
from pytest_ascendcache.release import KernelDigest, Problem, Release, copy_cache
from pytest_ascendcache.toolchains import (
    ConvertRequest,
    ConvertResult,
    KernelRunError,
    ModelConverter,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

AT_ONCE = 16
"""Conversions at once at the most: the cards of one server."""

_ANNOUNCED = 10.0
"""Seconds from which on a conversion is worth saying how many more there are."""

FRESH = "fresh"
"""The conversion that all others are compared with: no cache had a part in it."""


@dataclass(frozen=True)
class Conversion:
    """One conversion: its result and what it made, ``None`` where it failed. ``source`` says in
    words where its kernels come from."""

    source: str
    result: ConvertResult
    parts: ModelParts | None
    step: Step

    @property
    def model(self) -> Path:
        """The ``.om`` file of a conversion that succeeded."""
        assert self.result.model is not None
        return self.result.model


@dataclass
class Remembered:
    """Conversions of one release by name, and the directory they are kept in."""

    directory: Path
    conversions: dict[str, tuple[Conversion, ...]] = field(default_factory=dict)
    outputs: dict[Path, dict[str, NDArray[Any]]] = field(default_factory=dict)


class ReleaseConversions:
    """Converts a release's model in every way it may be served; each way once a session."""

    def __init__(
        self,
        release: Release,
        cache: CacheUnderTest,
        remembered: Remembered,
        announce: Callable[[str], None],
    ) -> None:
        self.release = release
        self.cache = cache
        self._remembered = remembered
        self._announce = announce
        converter = cache.toolchain
        assert isinstance(converter, ModelConverter)
        self._converter: ModelConverter = converter

    def fresh(self) -> Conversion:
        """The conversion with the cache disabled and nothing in it.

        Raises:
            NotDecidable: where the release's command fails, leaves no model, or the model carries
                no kernel that can be found.
        """
        is_first = FRESH not in self._remembered.conversions
        found = self._once(FRESH, partial(self._requests, FRESH, CacheMode.DISABLE))[0]
        if is_first and found.result.seconds >= _ANNOUNCED:
            self._announce(
                f"{self.release.name}: one conversion takes {found.result.seconds:.0f} s; "
                f"{self._others} more follow"
            )
        if found.parts is None:
            raise NotDecidable(f"the release's command {found.result.failure}")
        if not found.parts.kernels:
            raise NotDecidable(
                f"the model {found.model.name} carries no ELF object, so its kernels cannot be "
                "told from the rest of it"
            )
        return found

    def fresh_again(self) -> Conversion:
        """A second one like it.

        Raises:
            NotDecidable: as :meth:`fresh`.
        """
        self.fresh()
        found = self._once("again", partial(self._requests, "again", CacheMode.DISABLE))[0]
        if found.parts is None:
            raise NotDecidable(f"a second run of the release's command {found.result.failure}")
        return found

    def new_cache(self) -> list[Conversion]:
        """Into a new cache, and again from it; and under force, where the release is."""
        root = self._remembered.directory / "new-cache"
        found: list[Conversion] = []
        for name, source, mode in (
            ("cold", "a conversion into a new cache", CacheMode.ENABLE),
            ("warm", "a conversion from a warm cache", CacheMode.ENABLE),
            ("force", "a conversion under force", CacheMode.FORCE),
        ):
            if mode is not CacheMode.FORCE or self._is_forced:
                found += self._once(name, partial(self._requests, name, mode, root), source, root)
        return found

    def shipped(self) -> list[Conversion]:
        """From a copy of each cache that goes with the release and has its SoC.

        Raises:
            NotDecidable: for a cache that changes while it is copied.
        """
        found: list[Conversion] = []
        for number, place in enumerate(self.release.caches):
            name, root = f"shipped{number}", self._remembered.directory / f"copy{number}"
            if name not in self._remembered.conversions and not self._copied(place, root):
                continue
            source = f"a conversion from {place}"
            requests = partial(self._requests, name, CacheMode.ENABLE, root)
            found += self._once(name, requests, source, root)
        return found

    def together(self, cards: int) -> list[Conversion]:
        """As many at once as there are cards, with one new cache."""
        root = self._remembered.directory / "shared-cache"

        def requests() -> list[ConvertRequest]:
            return [
                self._request(
                    f"card{rank}",
                    CacheMode.ENABLE,
                    root,
                    {"RANK_ID": str(rank), "DEVICE_ID": str(rank), "RANK_SIZE": str(cards)},
                )
                for rank in range(min(cards, AT_ONCE))
            ]

        return [*self._once("cards", requests, "one of the conversions at once", root)]

    def unlike_fresh(self, conversion: Conversion, who: str = "") -> list[Problem]:
        """Where a conversion's kernels are not those of a fresh one.

        Raises:
            NotDecidable: where two fresh conversions differ in the same kernels.
        """
        who = who or conversion.source
        if conversion.parts is None:
            how = f"{who} {conversion.result.failure}"
            return [Problem(how, "a model, as the same command makes without a cache")]
        found = differences(conversion.parts, self._fresh_parts)
        if found:
            again = self.fresh_again().parts
            assert again is not None
            unstable = {each.name for each in differences(again, self._fresh_parts)}
            if shared := [each.name for each in found if each.name in unstable]:
                raise NotDecidable(f"two fresh conversions give different kernels {shared[0]}")
        # What a cache served comes first: it names the entry to look at.
        return [_told(each, who) for each in sorted(found, key=lambda each: each.found is None)]

    @property
    def _fresh_parts(self) -> ModelParts:
        parts = self.fresh().parts
        assert parts is not None
        return parts

    def served(self, conversion: Conversion) -> str:
        """How many of a conversion's kernels came from the cache, in words."""
        if conversion.parts is None or not self.cache.marks:
            return "which kernels were served cannot be told"
        kernels = conversion.parts.kernels
        served = sum(bool(each.served_from) for each in kernels)
        return f"{served} of {len(kernels)} kernels served"

    def digests(self) -> dict[str, KernelDigest]:
        """The fresh model's kernels by name, for the manifest."""
        return {
            name: KernelDigest(name, *fields)
            for name, fields in self._fresh_parts.by_symbol.items()
        }

    def outputs(
        self, conversion: Conversion, inputs: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """What a model gives for the sample inputs; each model is run once.

        Raises:
            KernelRunError: where it cannot be run.
        """
        known = self._remembered.outputs
        if conversion.model not in known:
            known[conversion.model] = self._converter.run_model(conversion.model, inputs)
        return known[conversion.model]

    def depends_on(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
    ) -> bool:
        """Positive control: whether the fresh model gives other bits for other inputs, the same
        elements from last to first or zeros. Equal outputs of two models say nothing without it.
        A run that fails for these inputs is no proof of it.
        """
        import numpy as np

        changes: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...] = (np.flip, np.zeros_like)
        for change in changes:
            other = {name: np.ascontiguousarray(change(value)) for name, value in inputs.items()}
            try:
                found = self._converter.run_model(self.fresh().model, other)
            except KernelRunError:
                continue
            if any(
                name in found and found[name].tobytes() != value.tobytes()
                for name, value in outputs.items()
            ):
                return True
        return False

    def note_cost(self) -> None:
        """Tell under the rule how many conversions were made, and how long they took."""
        every = [each for found in self._remembered.conversions.values() for each in found]
        seconds = max(each.result.seconds for each in every)
        self.cache.evidence.notes.append(
            f"{self.release.name}: {len(every)} conversions, {seconds:.1f} s the longest"
        )

    @property
    def _others(self) -> int:
        """How many conversions follow the first one at the most."""
        cards = min(self.release.cards, AT_ONCE)
        return 3 + self._is_forced + len(self.release.caches) + (cards if cards > 1 else 0)

    @property
    def _is_forced(self) -> bool:
        return self.release.options.get("op_compiler_cache_mode") == CacheMode.FORCE.value

    def _requests(
        self, name: str, mode: CacheMode, cache: Path | None = None
    ) -> list[ConvertRequest]:
        return [self._request(name, mode, cache)]

    def _request(
        self,
        name: str,
        mode: CacheMode,
        cache: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ConvertRequest:
        place = self._remembered.directory / name
        return ConvertRequest(
            options=self.release.conversion_options,
            cache_mode=mode.value,
            cache_dir=cache or place / "cache",
            output=place / "out" / "model",
            work=place / "work",
            home=place / "home",
            environment={**self.release.conversion_environment, **(environment or {})},
        )

    def _once(
        self,
        name: str,
        requests: Callable[[], Sequence[ConvertRequest]],
        source: str = "a fresh conversion",
        root: Path | None = None,
    ) -> tuple[Conversion, ...]:
        """Convert, or remember that; evidence gets the steps either way."""
        if name not in self._remembered.conversions:
            marks: Mapping[str, Canary] = {}
            if root is not None:
                watched = self.cache.elsewhere(root)
                watched.mark()
                marks, _ = watched.known_state()
            results = self._converter.convert_together(requests())
            made = tuple(_conversion(source, result, marks) for result in results)
            self._remembered.conversions[name] = made
            self.cache.evidence.starts += len(made)
        found = self._remembered.conversions[name]
        evidence = self.cache.evidence
        for each in found:
            if each.step not in evidence.steps:
                evidence.compiles += len(each.parts.kernels) if each.parts else 0
                evidence.steps.append(each.step)
        return found

    def _copied(self, place: Path, root: Path) -> bool:
        before = Snapshot.take(place)
        if not copy_cache(self.release, place, root):
            return False
        changed = before.disturbed(Snapshot.take(place))
        if changed:
            raise NotDecidable(
                f"{place} changed while it was copied ({next(iter(changed))}); nothing may compile "
                "into a cache while it is judged"
            )
        return True


def _conversion(source: str, result: ConvertResult, marks: Mapping[str, Canary]) -> Conversion:
    parts = None
    if result.succeeded and result.model is not None:
        parts = take_apart(result.model, marks)
    step = Step(
        command=result.command,
        ending=result.ending,
        outcomes=() if parts is None else (f"{source}: {len(parts.kernels)} kernels",),
        changes={},
        output="" if result.succeeded else result.output,
    )
    return Conversion(source, result, parts, step)


def _told(difference: KernelDifference, who: str) -> Problem:
    found, wanted = difference.found, difference.wanted
    if found is None:
        return Problem(f"{who} lacks {wanted}", "every kernel of a fresh conversion")
    entry = f" from the entry {found.served_from}" if found.served_from else ""
    if wanted is None:
        return Problem(f"{who} has {found}{entry} too many", "no kernel but a fresh conversion's")
    return Problem(f"{who} has {found}{entry}", _shown(wanted))


def _shown(kernel: ModelKernel) -> str:
    return f"sha256 {kernel.sha256[:16]}..., {kernel.size} bytes, as a fresh conversion has"
