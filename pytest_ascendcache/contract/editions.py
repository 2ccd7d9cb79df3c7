"""Editions of the documents: what differs between releases, and which edition judges a version.

The data is in ``editions.toml`` and ``pages.toml``; ``rules/*.toml`` records where rules differ.
Nothing here knows a toolchain: versions are passed as texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache, total_ordering
from pathlib import Path
from typing import Any, TypeVar

from pytest_ascendcache.contract.toml import tomllib

CANN, MINDSPORE, TORCHAIR = "cann", "mindspore", "torchair"
"""The products whose documents have editions."""

DEFAULT_NAMES = {CANN: "8.0.RC3", MINDSPORE: "mindspore-1.6", TORCHAIR: "torchair-7.3"}
"""The edition of each product on which the texts of the rules are based."""

_PRODUCTS = {CANN: "CANN", MINDSPORE: "MindSpore", TORCHAIR: "Ascend PyTorch"}
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.RC(\d+)|[.-]?(?:alpha|beta|rc)|\.(\d+))?", re.IGNORECASE)
_FINAL = 1
_WORDS = {
    "product": tuple(_PRODUCTS),
    "debug_config": ("bypasses", "open"),
    "debug_list": ("listed", "everything", "open"),
    "seen": ("whole", "beginning", "facts"),
}
"""The values of fields that take one of few words."""


class EditionFileError(ValueError):
    """The file of editions or pages is invalid."""


class NoEditionError(ValueError):
    """There is no edition of this name. The text is one sentence."""


@total_ordering
@dataclass(frozen=True)
class Edition:
    """One edition of a product's documents. Editions of one product are ordered by age.

    ================  =============================================================================
    ``first``         the first version that it describes
    ``title``         its name for readers
    ``also``          other version numbers of the same releases
    ``debug_levels``  the debug levels that turn the cache off
    ``debug_config``  what a debug configuration without a list does to the cache: ``bypasses``
                      it, or ``open`` if the edition does not say
    ``debug_list``    the operators that a debug list keeps out of the cache: ``listed`` ones,
                      ``everything``, or ``open``
    ``ini``           the keys of size and retained share in ``op_cache.ini``; empty if the
                      edition has no such file
    ``variables``     the environment variables of size and retained share
    ``ratio_unit``    the unit after the share in the variable
    ``idle``          seconds without access before an entry may age; 0 if no page mentions any
    ``cache_path``    whether ``ASCEND_CACHE_PATH`` sets the cache's directory
    ``notes_en``      what the document leaves open or contradicts; ``notes_zh`` in Chinese
    ================  =============================================================================
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

    def __lt__(self, other: Edition) -> bool:
        if self.product != other.product:
            raise TypeError(f"{self} and {other} are editions of two products.")
        return self._key < other._key

    @property
    def version(self) -> str:
        """The name without the product: ``8.0.RC3``, ``1.6``."""
        return self.name.rpartition("-")[2]

    @property
    def _key(self) -> tuple[int, ...]:
        key = version_key(self.first)
        assert key is not None  # checked when the file was read
        return key

    def limits_in(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Rename the default edition's two variables in an environment to this edition's."""
        size, ratio = default(self.product).variables
        names = {size: (self.variables[0], ""), ratio: (self.variables[1], self.ratio_unit)}
        renamed = {}
        for name, value in environment.items():
            new_name, unit = names.get(name, (name, ""))
            renamed[new_name] = value and value + unit
        return renamed

    def ini_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Rename the default edition's keys of ``op_cache.ini`` to this edition's."""
        names = dict(zip(default(self.product).ini, self.ini, strict=False))
        return {names.get(key, key): value for key, value in values.items()}


@dataclass(frozen=True)
class Page:
    """A page of the documents that was read for this project, on ``date``.

    ``document`` is its name in rule files. ``seen`` is the part that could be read: ``whole``,
    ``beginning``, or ``facts``, that is, only notes about it.
    """

    document: str
    edition: str
    title: str
    address: str
    date: str
    seen: str


@dataclass(frozen=True)
class Chosen:
    """The edition that judges a version, with a ``notice`` for the reader. Where it is ``unsure``,
    for the reason given, rules that differ between editions are undecided."""

    edition: Edition
    notice: str = ""
    unsure: str = ""


def version_key(text: str) -> tuple[int, ...] | None:
    """The sort key of a version, or ``None`` if the text is not a version.

    ``8.0.RC3.alpha003`` < ``8.0.0`` < ``8.1.RC1``. A pre-release has the key of its release.
    """
    match = _VERSION.match(text.strip())
    if match is None:
        return None
    major, minor, candidate, patch = match.groups()
    stage = (0, int(candidate)) if candidate else (_FINAL, int(patch or 0))
    return int(major), int(minor), *stage


Made = TypeVar("Made", Edition, Page)


@lru_cache(maxsize=1)
def editions() -> tuple[Edition, ...]:
    """All editions, product by product, oldest first. Raises ``EditionFileError``."""
    content = tomllib.loads(_text("editions.toml"))
    made: list[Edition] = []
    for given in content["edition"]:
        before = made[-1] if made and made[-1].product == given.get("product") else None
        made.append(_edition(given, before))
        if before is not None and not before < made[-1]:
            raise EditionFileError(f"editions.toml: {made[-1]} comes after {before}.")
    return tuple(made)


def editions_of(product: str) -> tuple[Edition, ...]:
    """The editions of one product, oldest first."""
    return tuple(each for each in editions() if each.product == product)


def default(product: str = CANN) -> Edition:
    return named(DEFAULT_NAMES[product])


def named(name: str) -> Edition:
    """The edition of this name, as ``--ascend-edition`` takes it. Raises ``NoEditionError``."""
    for each in editions():
        if each.name.casefold() == name.casefold():
            return each
    raise NoEditionError(f"there is no edition '{name}'")


def chosen_for(version: str, product: str = CANN) -> Chosen:
    """The edition that judges a version of a product: the newest one, with a notice, if the version
    is newer; it is unsure for an older version than all, and for a text that is none."""
    family = editions_of(product)
    what = _PRODUCTS[product]
    key = version_key(version)
    if key is None:
        shown = version or "nothing"
        return Chosen(default(product), unsure=f"the version of {what} is not known ({shown})")
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
    """The edition of an installation whose parts, such as toolkit and opp, have versions of their
    own; it is unsure if they belong to different editions."""
    chosen = {part: chosen_for(version, product) for part, version in versions.items() if version}
    if not chosen:
        return chosen_for("", product)
    first = next(iter(chosen.values()))
    if all(each.edition == first.edition for each in chosen.values()) or first.unsure:
        return first
    parts = ", ".join(f"{part} {versions[part]}" for part in chosen)
    return Chosen(first.edition, unsure=f"its parts belong to different editions ({parts})")


def foreign_names(edition: Edition) -> dict[str, tuple[Edition, str]]:
    """Names of limits that only other editions know, each with the nearest one that does, and the
    name to use instead."""
    family = editions_of(edition.product)
    place = family.index(edition)
    known = (*edition.ini, *edition.variables)
    foreign: dict[str, tuple[Edition, str]] = {}
    for other in sorted(family, key=lambda each: abs(family.index(each) - place)):
        pairs = [
            *zip(other.ini, edition.ini or edition.variables, strict=False),
            *zip(other.variables, edition.variables, strict=False),
        ]
        for name, instead in pairs:
            if name not in known:
                foreign.setdefault(name, (other, instead))
    return foreign


@lru_cache(maxsize=1)
def pages() -> tuple[Page, ...]:
    """All pages that were read. Raises ``EditionFileError`` if a field is missing or unknown."""
    content = tomllib.loads(_text("pages.toml"))
    try:
        return tuple(_checked("pages.toml", Page(**each)) for each in content["page"])
    except TypeError as error:
        raise EditionFileError(f"pages.toml: {error}.") from None


def address_of(document: str, edition: Edition) -> str:
    """The address of a document's page in an edition, or in the latest earlier one that has any;
    empty without one."""
    known: dict[str, str] = {}
    for page in pages():
        if page.document == document:
            known.setdefault(page.edition, page.address)
    names = [each.name for each in editions_of(edition.product) if each <= edition]
    return next((known[name] for name in reversed(names) if name in known), "")


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _edition(fields: Mapping[str, Any], before: Edition | None) -> Edition:
    """An edition from its fields in the file. It inherits other fields from the one before it."""
    own = {("first" if name == "from" else name): _frozen(v) for name, v in fields.items()}
    inherited = {} if before is None else dict(vars(before))
    for name in ("also", "title", "notes_en", "notes_zh"):
        inherited.pop(name, None)
    try:
        made = Edition(**{**inherited, **own})
    except TypeError as error:
        raise EditionFileError(f"editions.toml: {fields.get('name')}: {error}.") from None
    if version_key(made.first) is None or len(made.notes_en) != len(made.notes_zh):
        raise EditionFileError(f"editions.toml: {made.name}: 'from' or its notes do not fit.")
    return _checked(f"editions.toml: {made.name}", made)


def _checked(where: str, made: Made) -> Made:
    """Refuse a misspelt word and a value of another type: nothing would be judged by it."""
    for each in fields(made):
        value, words = getattr(made, each.name), _WORDS.get(each.name)
        if words and value not in words:
            wanted = f"one of {', '.join(words)}"
        elif each.default is not MISSING and type(value) is not type(each.default):
            wanted = f"like {each.default!r}"
        else:
            continue
        raise EditionFileError(f"{where}: {each.name} is {value!r}, not {wanted}.")
    return made


def _frozen(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return frozenset(value) if value and isinstance(value[0], int) else tuple(value)
