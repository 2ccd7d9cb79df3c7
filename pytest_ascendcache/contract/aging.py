"""What the document says of limits and aging, as pure functions.

Source: document C (``--op_compiler_cache_mode``), section on ``op_cache.ini`` and the
environment variables, in the edition that is given; the default one where none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from pytest_ascendcache.contract.editions import Edition, default

MEGABYTE = 2**20
"""Bytes of one MB of a limit."""

HALF_AN_HOUR = 1800
"""Seconds. What was not accessed for longer may age."""

INI_SIZE, INI_RATIO = "max_op_cache_size", "remain_cache_size_ratio"
ENV_SIZE, ENV_RATIO = "ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"


@dataclass(frozen=True)
class CacheLimits:
    """A limit in MB (-1: no aging) and the share of it that is retained, in percent."""

    megabytes: int = 500
    ratio: int = 50

    @property
    def bytes(self) -> int | None:
        """The limit in bytes; ``None`` where nothing ages."""
        return None if self.megabytes == -1 else self.megabytes * MEGABYTE

    @property
    def retained(self) -> float:
        """Bytes that are to remain when the cache ages."""
        return self.megabytes * MEGABYTE * self.ratio / 100


@dataclass(frozen=True)
class AgedEntry:
    """One entry before a run: bytes of all its files, and seconds since its last access."""

    name: str
    size: int
    idle: float


@dataclass(frozen=True)
class Aging:
    """What a run may do: ``must_go`` and ``must_stay``; of the rest the document leaves open."""

    must_go: frozenset[str]
    must_stay: frozenset[str]

    def allows(self, gone: Iterable[str]) -> bool:
        """Whether exactly these entries may be gone."""
        names = frozenset(gone)
        return self.must_go <= names and not names & self.must_stay


def ini_limits(ini: Mapping[str, str], edition: Edition | None = None) -> CacheLimits | None:
    """What ``op_cache.ini`` sets; ``None`` where it does not count: it takes two valid values,
    under the keys of the edition, and an edition that knows such a file."""
    keys = (edition or default()).ini
    if not keys:
        return None
    size, ratio = _size(ini.get(keys[0])), _ratio(ini.get(keys[1]))
    return None if size is None or ratio is None else CacheLimits(size, ratio)


def expected_limits(
    ini: Mapping[str, str] | None,
    environment: Mapping[str, str],
    edition: Edition | None = None,
) -> CacheLimits:
    """Which limits a run goes by.

    The file takes effect only if both of its values are valid; it is preferred to the
    environment; what neither sets is 500 MB and 50 %.
    """
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
"""Characters of a number that nobody can take for something else."""


def possible_limits(
    ini: Mapping[str, str] | None,
    environment: Mapping[str, str],
    edition: Edition | None = None,
) -> frozenset[CacheLimits]:
    """Which limits a run may go by: the document does not say whether a number may have a sign,
    blanks around it, or more digits than anybody needs. In the file and in the environment it may
    count or not; it is not another number. Zeros in front do not matter: numbers are decimal.
    """
    files = [None] if ini is None else [_read(ini, _odd_counts), _read(ini, _odd_does_not_count)]
    variables = [_read(environment, each) for each in (_odd_counts, _odd_does_not_count)]
    return frozenset(expected_limits(file, each, edition) for file in files for each in variables)


def _read(values: Mapping[str, str], reading: Callable[[str], str]) -> dict[str, str]:
    return {name: reading(value) for name, value in values.items()}


def _odd_counts(text: str) -> str:
    bare = text.strip(" \t")
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
    entries: Iterable[AgedEntry],
    other: int,
    limits: CacheLimits,
    edition: Edition | None = None,
) -> Aging:
    """Which entries must be gone after a run, and which must be there.

    An edition that speaks of no idle time lets entries go that were just used; that it has them
    go is not said either.

    ``other`` is the bytes of files in the SoC's directory that belong to none of ``entries``
    and are not idle. At exact boundaries both readings of the document are accepted: a cache of
    exactly its limit ("exceeds", "reaches"), an entry idle for exactly half an hour, a cache
    that has come to exactly its retained share; so is either order of equally old entries.
    """
    may_go_from = (edition or default()).idle
    listed = sorted(entries, key=lambda each: each.idle, reverse=True)
    everything = frozenset(each.name for each in listed)
    total = other + sum(each.size for each in listed)
    if limits.bytes is None or total < limits.bytes:
        return Aging(frozenset(), everything)
    must, may = set[str](), set[str]()
    left = total
    for idle, group in groupby(listed, key=lambda each: each.idle):
        equals = list(group)
        together = sum(each.size for each in equals)
        for each in equals:
            # The turn of one of equally old entries comes first at the earliest, last at the
            # latest; it goes while more than the retained share is left.
            if (not may_go_from or idle >= may_go_from) and left >= limits.retained:
                may.add(each.name)
            if idle > HALF_AN_HOUR and left - (together - each.size) > limits.retained:
                must.add(each.name)
        left -= together
    if total == limits.bytes:
        must.clear()
    return Aging(frozenset(must), everything - may)
