"""By which editions of the documents a run judges, and what has to be said of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_ascendcache.contract import Edition, Rule
from pytest_ascendcache.contract.editions import (
    CANN,
    DEFAULT_NAMES,
    Chosen,
    chosen_for_parts,
    default,
)

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain


@dataclass(frozen=True)
class JudgedBy:
    """The edition of each product's documents."""

    chosen: Mapping[str, Chosen]
    milder: tuple[str, ...] = ()
    """What is judged by an older edition than its own, a sentence each."""

    @property
    def editions(self) -> tuple[Edition, ...]:
        """One a product."""
        return tuple(each.edition for each in self.chosen.values())

    @property
    def cann(self) -> Edition:
        """The edition of CANN's documents."""
        return self.chosen[CANN].edition

    @property
    def told(self) -> str:
        """In one line: ``CANN 8.0.RC3, MindSpore r1.6, Ascend PyTorch 7.3.0``."""
        return ", ".join(
            f"{each.edition}{' (not certain)' if each.unsure else ''}"
            for each in self.chosen.values()
        )

    @property
    def notices(self) -> list[str]:
        """What the reader has to know, a sentence each."""
        said = list(self.milder)
        for each in self.chosen.values():
            if each.notice:
                said.append(f"{each.notice}: it is judged by that one")
            if each.unsure:
                said.append(f"{each.unsure}: rules that differ between editions are undecided")
        return said

    def unsure(self, rule: Rule) -> str:
        """Why a rule cannot be judged: editions differ, and which one counts is not known; empty
        where it can."""
        chosen = self.chosen.get(rule.product)
        if chosen is None or not chosen.unsure or not rule.differs:
            return ""
        return f"{chosen.unsure}, and editions differ here; name one with --ascend-edition"


def edition_played(given: Sequence[Edition]) -> str:
    """The release of CANN that the reference plays where these editions are asked for."""
    return next((each.name for each in given if each.product == CANN), default(CANN).name)


def judged_by(settings: Settings, toolchain: Toolchain | None) -> JudgedBy:
    """The editions that ``--ascend-edition`` names, else those of the toolchain's version.

    A toolchain of a user's own that tells no ``releases`` is judged by the default editions.
    """
    given = {each.product: Chosen(each) for each in settings.editions}
    releases: Mapping[str, Mapping[str, str]] = getattr(toolchain, "releases", {})
    told = {product: chosen_for_parts(parts, product) for product, parts in releases.items()}
    chosen = {product: Chosen(default(product)) for product in DEFAULT_NAMES} | told | given
    return JudgedBy(chosen, tuple(_milder(told, given)))


def _milder(told: Mapping[str, Chosen], given: Mapping[str, Chosen]) -> Iterator[str]:
    for product, own in told.items():
        asked = given.get(product, own).edition
        if not own.unsure and asked < own.edition:
            yield (
                f"the toolchain is of {own.edition} and judged by {asked}: what documents "
                "promise since then is not judged"
            )
