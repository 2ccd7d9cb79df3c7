"""Expected limits and aging, as pure functions.

Source: document C (``--op_compiler_cache_mode``), section on ``op_cache.ini`` and the
environment variables. Functions take the edition of the document; the default is :func:`default`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pytest_ascendcache.contract.editions import Edition, default

MEGABYTE = 2**20
"""Bytes in one MB of a limit."""

MEGABYTES = (MEGABYTE, 10**6)
"""What a toolchain may take for one: document C says "MB", and no more."""

HALF_AN_HOUR = 1800
"""Seconds. Entries that were not accessed for longer may age."""

INI_SIZE, INI_RATIO = "max_op_cache_size", "remain_cache_size_ratio"
ENV_SIZE, ENV_RATIO = "ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"


@dataclass(frozen=True)
class CacheLimits:
    """The size limit in MB (-1 turns aging off), and the share of it to retain, in percent."""

    megabytes: int = 500
    ratio: int = 50

    @property
    def bytes(self) -> int | None:
        """The size limit in bytes, or ``None`` if aging is off."""
        return None if self.megabytes == -1 else self.megabytes * MEGABYTE

    @property
    def retained(self) -> float:
        """The bytes to retain when the cache ages."""
        return self.megabytes * MEGABYTE * self.ratio / 100


@dataclass(frozen=True)
class AgedEntry:
    """An entry before a run: the size of its files in bytes, and the seconds since its access."""

    name: str
    size: int
    idle: float


@dataclass(frozen=True)
class Aging:
    """The entries that a run must remove and those it must keep; others may go or stay."""

    must_go: frozenset[str]
    must_stay: frozenset[str]

    def allows(self, gone: Iterable[str]) -> bool:
        """Whether a run may remove exactly these entries."""
        names = frozenset(gone)
        return self.must_go <= names and not names & self.must_stay

    def where_both(self, other: Aging) -> Aging:
        """What two readings of the document agree on."""
        return Aging(self.must_go & other.must_go, self.must_stay & other.must_stay)


def ini_limits(ini: Mapping[str, str], edition: Edition | None = None) -> CacheLimits | None:
    """The limits that ``op_cache.ini`` sets under the edition's keys, or ``None`` if it has no
    effect: unless both values are valid, and in an edition that has no such file."""
    keys = (edition or default()).ini
    if not keys:
        return None
    size, ratio = _size(ini.get(keys[0])), _ratio(ini.get(keys[1]))
    return None if size is None or ratio is None else CacheLimits(size, ratio)


def expected_limits(
    ini: Mapping[str, str] | None, environment: Mapping[str, str], edition: Edition | None = None
) -> CacheLimits:
    """The limits of a run: those of the file, if it has an effect, else of the environment."""
    edition = edition or default()
    if ini is not None and (limits := ini_limits(ini, edition)) is not None:
        return limits
    size_name, ratio_name = edition.variables
    share = environment.get(ratio_name, "").removesuffix(edition.ratio_unit)
    size, ratio = _size(environment.get(size_name)), _ratio(share)
    unset = CacheLimits()
    return CacheLimits(
        unset.megabytes if size is None else size, unset.ratio if ratio is None else ratio
    )


_LONGEST = 20
"""Characters. Whether a longer number is valid is left open."""


def possible_limits(
    ini: Mapping[str, str] | None, environment: Mapping[str, str], edition: Edition | None = None
) -> frozenset[CacheLimits]:
    """All limits that the document allows a run to use. It leaves open whether a number may have a
    sign, blanks around it or very many digits: such a one is accepted or ignored, in the file and
    in the environment independently, but not read as another number."""
    files = [None] if ini is None else [_read(ini, _odd_counts), _read(ini, _odd_does_not_count)]
    variables = [_read(environment, each) for each in (_odd_counts, _odd_does_not_count)]
    return frozenset(expected_limits(file, each, edition) for file in files for each in variables)


def _read(values: Mapping[str, str], reading: Callable[[str], str]) -> dict[str, str]:
    return {name: reading(value) for name, value in values.items()}


def _odd_counts(text: str) -> str:
    bare = text.strip()
    return bare[1:] if bare[:1] == "+" and bare[1:2].isdigit() else bare


def _odd_does_not_count(text: str) -> str:
    return text if _odd_counts(text) == text and len(text) <= _LONGEST else ""


def _size(text: str | None) -> int | None:
    number = _whole_number(text)
    return number if number is not None and (number == -1 or number >= 1) else None


def _ratio(text: str | None) -> int | None:
    number = _whole_number(text)
    return number if number is not None and 1 <= number <= 100 else None


def _whole_number(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() else None


def expected_aging(
    entries: Iterable[AgedEntry], other: int, limits: CacheLimits, edition: Edition | None = None
) -> Aging:
    """The entries that a run must remove, and those that it must keep.

    ``other`` is the size in bytes of files in the SoC's directory that belong to none of
    ``entries`` and are not idle. At exact boundaries both readings of the document are accepted: a
    cache of exactly its limit ("exceeds", "reaches"), an entry idle for exactly half an hour, a
    cache of exactly its retained share. Equally old entries may go in either order. If the edition
    states no idle time, entries that were just used may go, but need not. A megabyte may be 2**20
    or 10**6 bytes.
    """
    given = [*entries]
    one, other_one = (_aging(given, other, limits, each, edition) for each in MEGABYTES)
    return one.where_both(other_one)


def _aging(
    entries: Sequence[AgedEntry],
    other: int,
    limits: CacheLimits,
    megabyte: int,
    edition: Edition | None,
) -> Aging:
    """See :func:`expected_aging`, for a megabyte of so many bytes."""
    may_go_from = (edition or default()).idle
    limit = limits.megabytes * megabyte
    retained = limit * limits.ratio / 100
    listed = sorted(entries, key=lambda each: each.idle, reverse=True)
    everything = frozenset(each.name for each in listed)
    total = other + sum(each.size for each in listed)
    if limits.bytes is None or total < limit:
        return Aging(frozenset(), everything)
    must, may = set[str](), set[str]()
    left = total
    for idle, group in groupby(listed, key=lambda each: each.idle):
        equally_old = list(group)
        together = sum(each.size for each in equally_old)
        for entry in equally_old:
            # Among equally old entries this one may be the first to go or the last. Entries go
            # while more than the retained share is left.
            if (not may_go_from or idle >= may_go_from) and left >= retained:
                may.add(entry.name)
            if idle > HALF_AN_HOUR and left - (together - entry.size) > retained:
                must.add(entry.name)
        left -= together
    if total == limit:
        must.clear()
    return Aging(frozenset(must), everything - may)
