"""``op_cache.ini``, and which entries the next run of atc would age.

Source: document C, section on ``op_cache.ini``; facts ``cann-operator-cache`` sections 2.4 and 4.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from pytest_ascendcache.contract.aging import HALF_AN_HOUR, CacheLimits, expected_limits, ini_limits
from pytest_ascendcache.contract.editions import Edition, default, foreign_names
from pytest_ascendcache.words import count, nearest

SECTION = "op_compiler_cache"
_STAMPS = ("adk_version", "ops_version")
_NAMED = 3


@dataclass(frozen=True)
class Ini:
    """The keys that an ``op_cache.ini`` sets, what is wrong with the file, and whether its section
    is found, without which nothing in it counts."""

    values: Mapping[str, str]
    problems: tuple[str, ...]
    counts: bool = True

    @property
    def stamps(self) -> dict[str, str]:
        """The recorded versions of the toolchain that filled the cache."""
        return {name: self.values[name] for name in _STAMPS if self.values.get(name)}


def read_ini(data: bytes, edition: Edition | None = None) -> Ini:
    """Read an ``op_cache.ini`` as CANN does: line by line, sections only at the start of a line."""
    text = data.decode("utf-8", "replace")
    values: dict[str, str] = {}
    section, behind, stray, other, twice = "", "", "", "", ""
    for line in text.splitlines():
        if line.startswith("["):
            section, _, rest = line[1:].partition("]")
            is_comment = rest.strip().startswith(("#", ";"))
            if section == SECTION and "=" in rest and not is_comment:
                behind = behind or rest.strip()
        elif "=" in line and not line.startswith("#"):
            key, _, value = (part.strip(" \t\r") for part in line.partition("="))
            if section not in (SECTION, ""):
                other = min(other or section, section)
                continue
            if values.get(key, value) != value:
                twice = twice or f"sets {key[:40]} twice: {values[key][:40]} and {value[:40]}"
            values[key] = value
            if not section:
                stray = stray or key
    problems = [*([twice] if twice else []), *_of_values(values, edition or default())]
    if stamps := _of_stamps(text):
        problems.insert(0, stamps)
    problem = unread = _why_unread(text, other)
    if behind and not unread:
        problem = f"has {behind[:40]!r} behind [{SECTION}]: each key needs a line of its own"
    elif stray and not unread:
        problem = f"sets {stray} outside of [{SECTION}]"
    if problem:
        problems.insert(0, problem)
    return Ini(values, tuple(problems), counts=not unread)


def _why_unread(text: str, other: str) -> str:
    """Return why CANN reads nothing of the file; empty if it does. ``other`` is the first other
    section by name that has keys: CANN takes sections in that order."""
    if not text.strip():
        return "is empty: a writer was interrupted, or the file was cut"
    head = f"[{SECTION}]"
    if text.startswith("\ufeff"):
        return (
            f"begins with a byte order mark, which editors do not show: {head} is not found, and "
            "nothing in it counts"
        )
    if head not in text:
        return f"has no section {head}, so nothing in it counts"
    if not any(line.startswith(head) for line in text.splitlines()):
        return f"has something before {head}: the section has to start its line to be found"
    if other and other < SECTION:
        return f"has a section [{other}]: CANN meets it first and ignores the whole file"
    return ""


def _of_stamps(text: str) -> str:
    """Return why CANN takes the versions in the file for those of another toolchain; empty if it
    does not. It compares them with their carriage returns, and to write new ones it looks for the
    names before ``=`` as they stand."""
    for line in text.split("\n"):
        key, _, value = line.partition("=")
        if key.strip(" \t") not in _STAMPS or not value.strip():
            continue
        if value.endswith("\r"):
            return (
                f"has CRLF line ends, which {key.strip()} takes for a part of the version: the "
                "next compile empties the cache"
            )
        if key.strip(" \t") != key:
            return (
                f"has a blank beside {key.strip()}: after a change of version every compile "
                "empties the cache, because the new one is never written"
            )
    return ""


def _of_values(values: Mapping[str, str], edition: Edition) -> Iterator[str]:
    present = [name for name in edition.ini if name in values]
    foreign = foreign_names(edition)
    for name in values:
        if name not in (*edition.ini, *_STAMPS, *foreign) and name[:1].isalpha():
            meant = nearest(name, edition.ini)
            if meant and meant not in values:
                yield f"sets {name[:40]!r}, which nothing reads: write {meant}"
    if len(present) == 1:
        (missing,) = {*edition.ini} - {*present}
        yield f"sets {present[0]} and not {missing}: it counts only with both"
    elif present and ini_limits(values, edition) is None:
        yield _of_limits(values, edition)
    for name, (other, instead) in foreign.items():
        if name in values and name in other.ini:
            how = f"write {instead}" if instead in edition.ini else f"export {instead}"
            yield f"sets {name}, a key of {other} that {edition} does not read: {how}"
    stamped = [name for name in _STAMPS if values.get(name)]
    if len(stamped) == 1:
        (absent,) = {*_STAMPS} - {*stamped}
        yield f"has {stamped[0]} and not {absent}: kernels of another version are not noticed"


def _of_limits(values: Mapping[str, str], edition: Edition) -> str:
    """Return which of both limits is none; the other does not count either."""
    size, ratio = edition.ini
    takes = {size: "-1 or 1 and more (MB)", ratio: "1 to 100 (percent)"}
    sound = {size: "500", ratio: "50"}
    set_to = {name: f"{name}={values[name][:30]!r}" for name in edition.ini}
    bad = [
        name for name in takes if ini_limits({**sound, name: values[name]}, edition) is None
    ] or [*takes]
    wanted = ", ".join(f"{name} takes {takes[name]}" for name in bad)
    detail = f"sets {', '.join(set_to[name] for name in bad)}, which does not count: {wanted}"
    good = [set_to[name] for name in takes if name not in bad]
    return f"{detail}; nor does {good[0]}, for the file counts only with both" if good else detail


def limits_of(
    inis: Mapping[str, Ini], environment: Mapping[str, str], edition: Edition
) -> tuple[CacheLimits, str]:
    """Return a cache's limits and their origin. The first file with valid limits wins."""
    for path, ini in inis.items():
        if ini.counts and (limits := ini_limits(ini.values, edition)) is not None:
            return limits, path
    is_set = any(name in environment for name in edition.variables)
    origin = "the environment" if is_set else "the default"
    return expected_limits(None, environment, edition), origin


@dataclass
class AgingForecast:
    """Sizes and access times of a SoC's entries; a million take 16 MB. ``total`` is the bytes of
    all files. Only the least recently used entries are kept by name."""

    total: int = 0
    sizes: array[int] = field(default_factory=lambda: array("q"))
    accessed: array[float] = field(default_factory=lambda: array("d"))
    _oldest: list[tuple[float, str]] = field(default_factory=list)

    def add_entry(self, size: int, accessed: float, path: str) -> None:
        """Add an entry of ``size`` bytes, last used at ``accessed`` (seconds since the epoch)."""
        self.sizes.append(size)
        self.accessed.append(accessed)
        heappush(self._oldest, (-accessed, path))
        if len(self._oldest) > _NAMED:
            heappop(self._oldest)

    @property
    def oldest(self) -> list[str]:
        """The paths of the entries that age first."""
        return [path for _, path in sorted(self._oldest, reverse=True)]

    def would_go(
        self, limits: CacheLimits, now: float, idle: int = HALF_AN_HOUR
    ) -> tuple[int, int]:
        """Return how many entries the next run ages, and their bytes: the oldest first until the
        retained share is left, but none that was used in the last ``idle`` seconds."""
        if limits.bytes is None or self.total <= limits.bytes or not self.sizes:
            return 0, 0
        gone, left = 0, self.total
        for index in sorted(range(len(self.sizes)), key=self.accessed.__getitem__):
            if left <= limits.retained or now - self.accessed[index] <= idle:
                break
            left -= self.sizes[index]
            gone += 1
        return gone, self.total - left


def megabytes(size: float) -> str:
    """Return a number of bytes in the largest fitting unit: ``2.0 MB``."""
    if size < 1024:
        return count(round(size), "byte")
    power = min((int(size).bit_length() - 1) // 10, 3)
    return f"{size / 1024**power:.1f} {('', 'KB', 'MB', 'GB')[power]}"
