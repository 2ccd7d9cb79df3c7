"""Conversions with a release's own command in a sandbox, shared by the checks of one release."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import Canary, Snapshot
from pytest_ascendcache.conformance.kit.conversion_shelf import (
    Conversion,
    ConversionShelf,
    Place,
    code_stamp,
)
from pytest_ascendcache.conformance.kit.release_compiles import card_environment
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.model_file import (
    KernelDifference,
    ModelParts,
    differences,
    take_apart,
)
from pytest_ascendcache.release import (
    KernelDigest,
    Problem,
    Release,
    copy_cache,
    package_stamps,
    read_digests,
    soc_directory,
)
from pytest_ascendcache.toolchains import ConvertRequest, KernelRunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

AT_ONCE = 16
"""The most conversions at once: the cards of one server."""

_ANNOUNCED = 10.0
"""Seconds that a conversion takes before the user is told how many more will follow."""

FRESH = "fresh"
"""Name of the conversion without a cache, which all others are compared with."""

_SHELL = re.compile("ASCEND_|LD_LIBRARY_PATH$|PATH$|PYTHONPATH$")
"""Variables of the shell that decide which toolchain an ``atc`` belongs to."""


@dataclass(frozen=True)
class _Stage:
    """One conversion on a cache, or several at once. ``cards`` is the number of cards that convert
    at once, 0 for a single conversion without a card's variables."""

    name: str
    source: str
    mode: CacheMode
    cards: int = 0


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
        self._made: dict[Path, list[Conversion]] = {}
        assert cache.toolchain.converts

    def fresh(self) -> Conversion:
        """The conversion with the cache disabled and empty. Raises NotDecidable if the release's
        command fails or leaves no model, or no kernel is found in the model."""
        is_first = self.release.path not in self._shelf.announced
        if is_first:
            self._shelf.announced.add(self.release.path)
            self._announce_earlier()
        stage = _Stage(FRESH, "a fresh conversion", CacheMode.DISABLE)
        (fresh,) = self._converted(FRESH, [stage])
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
                "told from the rest of it"
            )
        return fresh

    def fresh_parts_again(self) -> ModelParts:
        """The parts of a second conversion like :meth:`fresh`; raises for the same reasons."""
        self.fresh()
        stage = _Stage("again", "a second fresh conversion", CacheMode.DISABLE)
        (again,) = self._converted("again", [stage])
        if again.parts is None:
            raise NotDecidable(f"a second run of the release's command {again.result.failure}")
        return again.parts

    def new_cache(self) -> list[Conversion]:
        """Conversions into a new cache, from it, and, if the release is forced, under force."""
        stages = [
            _Stage("cold", "a conversion into a new cache", CacheMode.ENABLE),
            _Stage("warm", "a conversion from a warm cache", CacheMode.ENABLE),
        ]
        if self._is_forced:
            stages.append(_Stage("force", "a conversion under force", CacheMode.FORCE))
        return self._converted("new-cache", stages, watched=True)

    def shipped(self) -> list[Conversion]:
        """A conversion from a copy of each shipped cache that has entries for the release's chip.
        Raises NotDecidable if a cache changes while it is copied."""
        conversions: list[Conversion] = []
        for place in self.release.caches:
            if soc_directory(place, self.release.soc) is not None:
                stage = _Stage("shipped", f"a conversion from {place}", CacheMode.ENABLE)
                conversions += self._converted("shipped", [stage], watched=True, shipped=place)
        return conversions

    def together(self, cards: int) -> list[Conversion]:
        """One conversion for each card, all at once, with one new cache."""
        stage = _Stage("cards", "one of the conversions at once", CacheMode.ENABLE, cards)
        return self._converted("cards", [stage], watched=True)

    def unlike_fresh(self, conversion: Conversion, who: str = "") -> list[Problem]:
        """How a conversion's kernels differ from those of a fresh one. Raises NotDecidable if two
        fresh conversions differ in the same kernels."""
        who = who or conversion.source
        if conversion.parts is None:
            how = f"{who} {conversion.result.failure}"
            return [Problem(how, "a model, as the same command makes without a cache")]
        unlike = differences(conversion.parts, self.fresh_parts)
        if unlike:
            again = differences(self.fresh_parts_again(), self.fresh_parts)
            unstable = {each.name for each in again}
            if shared := [each.name for each in unlike if each.name in unstable]:
                raise NotDecidable(f"two fresh conversions give different kernels {shared[0]}")
        # Kernels that the model has come first: such a line names the entry they came from.
        return [_problem(each, who) for each in sorted(unlike, key=lambda each: each.found is None)]

    @property
    def fresh_parts(self) -> ModelParts:
        """The parts of the model of :meth:`fresh`, which raises for the same reasons."""
        parts = self.fresh().parts
        assert parts is not None
        return parts

    def served(self, conversion: Conversion) -> str:
        """Says how many of a conversion's kernels came from the cache."""
        if conversion.parts is None or not self.cache.marks:
            return "which kernels were served cannot be told"
        kernels = conversion.parts.kernels
        served = sum(bool(each.served_from) for each in kernels)
        return f"{served} of {len(kernels)} kernels served"

    def serves_nothing(self, conversion: Conversion) -> bool:
        """Whether a cache serves no kernel of a conversion, as far as that can be told."""
        if conversion.parts is None or not self.cache.marks or not conversion.parts.kernels:
            return False
        return not any(each.served_from for each in conversion.parts.kernels)

    def digests(self) -> dict[str, KernelDigest]:
        """The fresh model's kernels by name, for the manifest."""
        return {
            name: KernelDigest(name, *fields) for name, fields in self.fresh_parts.by_symbol.items()
        }

    def outputs(
        self, conversion: Conversion, inputs: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """The outputs of a model for the sample inputs; each model is run once. Raises
        KernelRunError if the model cannot be run."""
        known = self._shelf.outputs
        key = (conversion.model, _digest(inputs))
        if key not in known:
            known[key] = self.cache.toolchain.model_outputs(conversion.model, inputs)
        return known[key]

    def depends_on(
        self, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
    ) -> bool:
        """Positive control: whether the fresh model's outputs depend on its inputs.

        Without it, equal outputs of two models mean nothing. The other inputs are the same elements
        in reverse order, and zeros; a run that fails with them proves nothing.
        """
        import numpy as np

        changes: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...] = (np.flip, np.zeros_like)
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
        every = list(chain.from_iterable(self._made.values()))
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
        return 3 + self._is_forced + len(self.release.caches) + (cards if cards > 1 else 0)

    @property
    def _is_forced(self) -> bool:
        return self.release.options.get("op_compiler_cache_mode") == CacheMode.FORCE.value

    def _requests(self, place: Place, stage: _Stage, watched: bool) -> list[ConvertRequest]:
        """The conversions of a stage, each in its own directory."""
        ranks = range(min(stage.cards, AT_ONCE)) if stage.cards else [None]
        requests = []
        for rank in ranks:
            own = place.directory / stage.name / ("" if rank is None else f"card{rank}")
            card = {} if rank is None else card_environment(rank, stage.cards)
            requests.append(
                ConvertRequest(
                    options=self.release.conversion_options,
                    cache_mode=stage.mode.value,
                    cache_dir=place.cache if watched else own / "cache",
                    output=own / "out" / "model",
                    work=own / "work",
                    home=own / "home",
                    environment={**self.release.conversion_environment, **card},
                )
            )
        return requests

    def _converted(
        self,
        name: str,
        stages: Sequence[_Stage],
        watched: bool = False,
        shipped: Path | None = None,
    ) -> list[Conversion]:
        """Conversions that follow one another on one cache, made now or read from their records.

        The cache starts as a copy of ``shipped``, or empty. ``watched`` has all stages use this
        cache, and marks it before each. Raises NotDecidable if a file that the command reads
        changes meanwhile.
        """
        content = Snapshot.take(shipped) if shipped is not None else Snapshot({})
        digests = {path: each.sha256 or each.target for path, each in content.files.items()}
        conversions = [(each.name, each.mode.value, each.cards) for each in stages]
        key = self._key(conversions, (str(shipped), digests))
        every: list[Conversion] = []
        with self._shelf.place(name, key) as place:
            is_live, number = False, 0  # live: the cache is as the earlier stages left it
            while number < len(stages):
                stage = stages[number]
                requests = self._requests(place, stage, watched)
                made = place.found(stage.name, requests)
                if made is None:
                    if not is_live and not (number and place.resume(stage.name)):
                        place.begin()
                        every.clear()
                        stage, number = stages[0], 0
                        requests = self._requests(place, stage, watched)
                        if shipped is not None:
                            self._copy(shipped, place.cache, content)
                    is_live = True
                    made = self._convert(requests, place.cache if watched else None)
                    self._ensure_unchanged()
                    place.keep(stage.name, made, watched and stage is not stages[-1])
                every += [replace(each, source=stage.source) for each in made]
                number += 1
            self._made[place.directory] = every
        evidence = self.cache.evidence
        for each in every:
            if each.step not in evidence.steps:
                evidence.compiles += len(each.parts.kernels) if each.parts else 0
                evidence.steps.append(each.step)
        return every

    def _convert(self, requests: Sequence[ConvertRequest], root: Path | None) -> list[Conversion]:
        marks: Mapping[str, Canary] = {}
        if root is not None:
            watched = self.cache.elsewhere(root)
            watched.mark()
            marks, _ = watched.known_state()
        results = self.cache.toolchain.converted(requests)
        return [
            Conversion(
                result,
                take_apart(result.model, marks) if result.succeeded and result.model else None,
                self._shelf.run,
            )
            for result in results
        ]

    def _key(self, stages: object, cache: object) -> dict[str, object]:
        """Everything that conversions depend on, as plain data."""
        toolchain = self.cache.toolchain
        command: tuple[str, ...] = toolchain.converting_command()
        stamps = [(each, _stamp(Path(each))) for each in command]
        shell = {key: value for key, value in os.environ.items() if _SHELL.match(key)}
        return {
            "stages": stages,
            "code": code_stamp(),
            "toolchain": [toolchain.name, toolchain.version, dict(toolchain.details), stamps],
            "options": self.release.conversion_options,
            "environment": [self.release.conversion_environment, shell],
            "read": [self._read, package_stamps(self.release)],
            "cache": cache,
        }

    @cached_property
    def _read(self) -> dict[str, str]:
        """Digests of the files that the command reads, as they are when the check begins."""
        try:
            return read_digests(self.release)
        except OSError as error:
            raise NotDecidable(f"{error.filename} cannot be read ({error.strerror})") from None

    def _ensure_unchanged(self) -> None:
        """Make sure that the files the command reads did not change. Raises NotDecidable if one of
        them changed; the message names it."""
        before = self._read
        del self._read
        for path in sorted({*before, *self._read}):
            if before.get(path) != self._read.get(path):
                raise NotDecidable(
                    f"{path} changed while the model was converted; nothing may change it while "
                    "the release is judged"
                )

    def _copy(self, place: Path, root: Path, before: Snapshot) -> None:
        copy_cache(self.release, place, root)
        changed = before.disturbed(Snapshot.take(place))
        if changed:
            raise NotDecidable(
                f"{place} changed while it was copied ({next(iter(changed))}); nothing may compile "
                "into a cache while it is judged"
            )


def _digest(inputs: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(inputs.items()):
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def _stamp(path: Path) -> list[int]:
    """Size and modification time of a program's file; empty for an argument that is no file."""
    if not path.is_file():
        return []
    info = path.stat()
    return [info.st_size, info.st_mtime_ns]


def _problem(difference: KernelDifference, who: str) -> Problem:
    found, wanted = difference.found, difference.wanted
    if found is None:
        return Problem(f"{who} lacks {wanted}", "every kernel of a fresh conversion")
    entry = f" from the entry {found.served_from}" if found.served_from else ""
    if wanted is None:
        return Problem(f"{who} has {found}{entry} too many", "no kernel but a fresh conversion's")
    fresh = f"sha256 {wanted.sha256[:16]}..., {wanted.size} bytes, as a fresh conversion has"
    return Problem(f"{who} has {found}{entry}", fresh)
