"""Carries out conversions with a release's own command, one after the other on one cache."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.caches import Canary, Snapshot
from pytest_ascendcache.conformance.kit.conversion_shelf import (
    Conversion,
    ConversionPlace,
    ConversionShelf,
    code_stamp,
)
from pytest_ascendcache.conformance.kit.release_compiles import card_environment
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.model_file import take_apart
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.inputs import package_stamps, read_digests
from pytest_ascendcache.release.kernels import copy_cache
from pytest_ascendcache.toolchains import ConvertRequest

AT_ONCE = 16
"""The most conversions at once: the cards of one server."""

_SHELL = re.compile("ASCEND_|LD_LIBRARY_PATH$|PATH$|PYTHONPATH$")
"""Variables of the shell that decide which toolchain an ``atc`` belongs to."""


@dataclass(frozen=True)
class Stage:
    """One conversion on a cache, or several at once. ``cards`` is the number of cards that convert
    at once, 0 for a single conversion without a card's variables. Where the cache is not
    ``marked``, all of the model can be compared, and not where a kernel came from."""

    name: str
    source: str
    mode: CacheMode
    cards: int = 0
    marked: bool = True


class Converter:
    """Converts a release's model in stages. ``made`` are all conversions, by their directories."""

    def __init__(self, release: Release, cache: CacheUnderTest, shelf: ConversionShelf) -> None:
        self.release = release
        self.cache = cache
        self.made: dict[Path, list[Conversion]] = {}
        self._shelf = shelf
        assert cache.toolchain.converts

    def _requests(
        self, place: ConversionPlace, stage: Stage, watched: bool
    ) -> list[ConvertRequest]:
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

    def converted(
        self,
        name: str,
        stages: Sequence[Stage],
        watched: bool = False,
        shipped: Path | None = None,
    ) -> list[Conversion]:
        """Conversions that follow one another on one cache, made now or read from their records.

        The cache starts as a copy of ``shipped``, or empty. ``watched`` has all stages use it,
        marked before each. Raises NotDecidable if a file that the command reads changes meanwhile.
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
                    made = self._convert(
                        requests, place.cache if watched and stage.marked else None
                    )
                    self._ensure_unchanged()
                    place.keep(stage.name, made, watched and stage is not stages[-1])
                every += [replace(each, source=stage.source) for each in made]
                number += 1
            self.made[place.directory] = every
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
        """Raise NotDecidable, with its name, if a file that the command reads has changed."""
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


def _stamp(path: Path) -> list[int]:
    """Size and modification time of a program's file; empty for an argument that is no file."""
    if not path.is_file():
        return []
    info = path.stat()
    return [info.st_size, info.st_mtime_ns]
