"""Editions of the documents: what differs between releases, and which one judges a version.

The data is ``editions.toml`` and ``pages.toml``; rules say in ``rules/*.toml`` where they differ.
Nothing here knows a toolchain: a version comes in as a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib

CANN, MINDSPORE, TORCHAIR = "cann", "mindspore", "torchair"
"""The products whose documents have editions."""

DEFAULT_NAMES = {CANN: "8.0.RC3", MINDSPORE: "mindspore-1.6", TORCHAIR: "torchair-7.3"}
"""The editions that the rules' own texts are, by product."""

_PRODUCTS = {CANN: "CANN", MINDSPORE: "MindSpore", TORCHAIR: "Ascend PyTorch"}
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.RC(\d+)|[.-]?(?:alpha|beta|rc)|\.(\d+))?", re.IGNORECASE)
_FINAL = 1


class EditionFileError(ValueError):
    """A file of editions or pages that does not describe them."""


class NoEditionError(ValueError):
    """A version that no edition speaks for, in one sentence."""


@total_ordering
@dataclass(frozen=True, eq=False)
class Edition:
    """One edition of a product's documents. Editions of one product are ordered by age.

    ``first`` is the first version it speaks for, ``title`` what it is called, ``also`` are other
    numbers of the same releases.
    ``debug_levels`` turn the cache off; ``debug_config`` is ``bypasses`` or ``open`` for a
    configuration without a list, ``debug_list`` for one with a list: ``listed`` operators leave
    the cache, ``everything`` does, or ``open``. ``ini`` and ``variables`` are the names of size
    and retained share (``ini`` is empty where there is no file), ``ratio_unit`` stands behind the
    share in a variable. ``idle`` is seconds without access before anything ages, 0 where no
    page that was read speaks of any. ``cache_path``: ``ASCEND_CACHE_PATH`` names the directory.
    ``notes_en`` and ``notes_zh`` are what the document leaves open or contradicts.
    """

    product: str
    name: str
    first: str
    title: str = ""
    also: tuple[str, ...] = ()
    debug_levels: frozenset[int] = frozenset({1, 2, 3, 4})
    debug_config: str = "bypasses"
    debug_list: str = "listed"
    ini: tuple[str, ...] = ("max_op_cache_size", "remain_cache_size_ratio")
    variables: tuple[str, ...] = ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO")
    ratio_unit: str = ""
    idle: int = 1800
    cache_path: bool = True
    notes_en: tuple[str, ...] = field(default=(), repr=False)
    notes_zh: tuple[str, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.title or f"{_PRODUCTS[self.product]} {self.version}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Edition) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __lt__(self, other: Edition) -> bool:
        if self.product != other.product:
            raise TypeError(f"{self} and {other} are editions of two products.")
        return self._key < other._key

    @property
    def version(self) -> str:
        """Its name without the product: ``8.0.RC3``, ``1.6``."""
        return self.name.rpartition("-")[2]

    @property
    def _id(self) -> tuple[str, str]:
        return self.product, self.name

    @property
    def _key(self) -> tuple[int, ...]:
        key = version_key(self.first)
        assert key is not None  # it was read
        return key

    def limits_in(self, environment: Mapping[str, str]) -> dict[str, str]:
        """An environment with the two variables of the default edition under this one's names."""
        units = ("", self.ratio_unit)
        names = {
            known: (own, unit)
            for known, own, unit in zip(
                default(self.product).variables, self.variables, units, strict=True
            )
        }
        named = {}
        for name, value in environment.items():
            own, unit = names.get(name, (name, ""))
            named[own] = f"{value}{unit}" if value else value
        return named

    def ini_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Values under the default edition's keys of ``op_cache.ini``, under this one's keys."""
        names = dict(zip(default(self.product).ini, self.ini, strict=False))
        return {names.get(key, key): value for key, value in values.items()}


@dataclass(frozen=True)
class Page:
    """A page that was read: ``document`` is what rule files call it, ``seen`` how much of it could
    be read (``whole``, ``beginning``, ``facts``: another's notes of it), ``date`` when."""

    document: str
    edition: str
    title: str
    address: str
    date: str
    seen: str


@dataclass(frozen=True)
class Chosen:
    """The edition a version is judged by. ``notice`` says what the reader has to know of that;
    ``unsure`` why it cannot be told by which one: what differs between editions is undecided."""

    edition: Edition
    notice: str = ""
    unsure: str = ""

    @property
    def told(self) -> str:
        """The edition, or that it is not known, for a header."""
        return "edition not known" if self.unsure else f"edition {self.edition}"


def version_key(text: str) -> tuple[int, ...] | None:
    """What orders versions: ``8.0.RC3.alpha003`` < ``8.0.0`` < ``8.1.RC1``; ``None`` for a text
    that is no version. A pre-release belongs to the edition of its release."""
    match = _VERSION.match(text.strip())
    if match is None:
        return None
    major, minor, candidate, patch = match.groups()
    stage = (0, int(candidate)) if candidate else (_FINAL, int(patch or 0))
    return int(major), int(minor), *stage


@lru_cache(maxsize=1)
def editions() -> tuple[Edition, ...]:
    """Every edition, product by product, oldest first.

    Raises:
        EditionFileError: for a field that does not fit, or editions out of order.
    """
    content = tomllib.loads(_text("editions.toml"))
    made: list[Edition] = []
    for fields in content["edition"]:
        before = made[-1] if made and made[-1].product == fields.get("product") else None
        made.append(_edition(fields, before))
        if before is not None and not before < made[-1]:
            raise EditionFileError(f"editions.toml: {made[-1]} comes after {before}.")
    return tuple(made)


def editions_of(product: str) -> tuple[Edition, ...]:
    """The editions of one product, oldest first."""
    return tuple(each for each in editions() if each.product == product)


def default(product: str = CANN) -> Edition:
    """The edition that is meant where nothing says another."""
    return named(DEFAULT_NAMES[product])


def named(name: str) -> Edition:
    """The edition of a name, as ``--ascend-edition`` takes it.

    Raises:
        NoEditionError: where there is none.
    """
    for each in editions():
        if each.name.casefold() == name.casefold():
            return each
    raise NoEditionError(f"there is no edition '{name}'")


def chosen_for(version: str, product: str = CANN) -> Chosen:
    """The edition that judges a version of a product.

    A version newer than every edition is judged by the newest one, with a notice. For a text
    that is no version, and for one older than every edition, it cannot be told.
    """
    family = editions_of(product)
    what = _PRODUCTS[product]
    key = version_key(version)
    if key is None:
        shown = version or "nothing"
        return Chosen(default(product), unsure=f"the version of {what} cannot be told ({shown})")
    for each in family:
        if any(key[:2] == (version_key(other) or ())[:2] for other in each.also):
            return Chosen(each)
    fitting = [each for each in family if each._key <= key]
    if not fitting:
        return Chosen(
            default(product),
            unsure=f"{what} {version} is older than the oldest edition known, {family[0].version}",
        )
    newest = family[-1]
    if fitting[-1] == newest and key[:2] > newest._key[:2]:
        return Chosen(newest, f"{what} {version} is newer than the newest edition known, {newest}")
    return Chosen(fitting[-1])


def chosen_for_parts(versions: Mapping[str, str], product: str = CANN) -> Chosen:
    """The edition of an installation whose parts (such as toolkit and opp) tell versions of their
    own: undecided where they belong to different editions."""
    chosen = {part: chosen_for(version, product) for part, version in versions.items() if version}
    if not chosen:
        return chosen_for("", product)
    first = next(iter(chosen.values()))
    if all(each.edition == first.edition for each in chosen.values()) or first.unsure:
        return first
    parts = ", ".join(f"{part} {versions[part]}" for part in chosen)
    return Chosen(first.edition, unsure=f"its parts belong to different editions ({parts})")


def foreign_names(edition: Edition) -> dict[str, tuple[Edition, str]]:
    """Names of limits that only other editions know, each with an edition that does, the nearest
    one, and the name to use instead."""
    family = editions_of(edition.product)
    place = family.index(edition)
    found: dict[str, tuple[Edition, str]] = {}
    for other in sorted(family, key=lambda each: abs(family.index(each) - place)):
        for names in (other.ini, other.variables):
            own = (edition.ini or edition.variables) if names is other.ini else edition.variables
            for name, instead in zip(names, own, strict=False):
                if name not in (*edition.ini, *edition.variables):
                    found.setdefault(name, (other, instead))
    return found


@lru_cache(maxsize=1)
def pages() -> tuple[Page, ...]:
    """Every page that was read.

    Raises:
        EditionFileError: for a field that is missing or unknown.
    """
    content = tomllib.loads(_text("pages.toml"))
    try:
        return tuple(Page(**each) for each in content["page"])
    except TypeError as error:
        raise EditionFileError(f"pages.toml: {error}.") from None


def address_of(document: str, edition: Edition) -> str:
    """The page of a document in an edition, or in the last one before it of which a page was
    found; empty where there is none."""
    known: dict[str, str] = {}
    for page in pages():
        if page.document == document:
            known.setdefault(page.edition, page.address)
    family = [each for each in editions_of(edition.product) if each <= edition]
    return next((known[each.name] for each in reversed(family) if each.name in known), "")


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _edition(fields: Mapping[str, Any], before: Edition | None) -> Edition:
    given = {("first" if name == "from" else name): _frozen(v) for name, v in fields.items()}
    inherited = {} if before is None else dict(vars(before))
    for own in ("also", "title", "notes_en", "notes_zh"):
        inherited.pop(own, None)
    try:
        made = Edition(**{**inherited, **given})
    except TypeError as error:
        raise EditionFileError(f"editions.toml: {fields.get('name')}: {error}.") from None
    if version_key(made.first) is None or len(made.notes_en) != len(made.notes_zh):
        raise EditionFileError(f"editions.toml: {made.name}: 'from' or its notes do not fit.")
    return made


def _frozen(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return frozenset(value) if value and isinstance(value[0], int) else tuple(value)
