"""The editions of the documents that a run judges by, and notices about that choice."""

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
    """The edition of each product's documents; ``milder`` has a sentence for each product that is
    judged by an older edition than its own."""

    chosen: Mapping[str, Chosen]
    milder: tuple[str, ...] = ()

    @property
    def editions(self) -> tuple[Edition, ...]:
        """The edition of each product."""
        return tuple(each.edition for each in self.chosen.values())

    @property
    def cann(self) -> Edition:
        """The edition of CANN's documents."""
        return self.chosen[CANN].edition

    @property
    def line(self) -> str:
        """The editions in one line: ``CANN 8.0.RC3, MindSpore r1.6, Ascend PyTorch 7.3.0``."""
        return ", ".join(
            f"{each.edition}{' (not certain)' if each.unsure else ''}"
            for each in self.chosen.values()
        )

    @property
    def notices(self) -> list[str]:
        """Sentences that the reader must know to trust the verdicts."""
        sentences = list(self.milder)
        for each in self.chosen.values():
            if each.notice:
                sentences.append(f"{each.notice}: it is judged by that one")
            if each.unsure:
                sentences.append(
                    f"{each.unsure}: a promise that not every edition makes is undecided where it "
                    f"is not kept; name the edition: --ascend-edition={each.edition.name}"
                )
        return sentences

    def unsure(self, rule: Rule) -> str:
        """Why a breach of a rule is undecided: editions differ about it, and the toolchain's
        edition is not known. Empty if it can be judged."""
        chosen = self.chosen.get(rule.product)
        if chosen is None or not chosen.unsure or not rule.differs:
            return ""
        return f"{chosen.unsure}, and not every edition promises this; name one: --ascend-edition"


def edition_played(chosen: Sequence[Edition]) -> str:
    """The release of CANN that the reference imitates where the user chose these editions."""
    return next((each.name for each in chosen if each.product == CANN), default(CANN).name)


def judged_by(settings: Settings, toolchain: Toolchain | None) -> JudgedBy:
    """The editions that ``--ascend-edition`` names, else those of the toolchain's version, else the
    default ones."""
    named = {each.product: Chosen(each) for each in settings.editions}
    releases: Mapping[str, Mapping[str, str]] = getattr(toolchain, "releases", {})
    own = {product: chosen_for_parts(parts, product) for product, parts in releases.items()}
    chosen = {product: Chosen(default(product)) for product in DEFAULT_NAMES} | own | named
    return JudgedBy(chosen, tuple(_milder(own, named)))


def _milder(owns: Mapping[str, Chosen], named: Mapping[str, Chosen]) -> Iterator[str]:
    for product, own in owns.items():
        edition = named.get(product, own).edition
        if not own.unsure and edition < own.edition:
            yield (
                f"the toolchain is of {own.edition} and judged by {edition}: later promises of the "
                "documents are not judged"
            )
