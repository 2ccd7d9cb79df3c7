"""``op_cache.ini``, and what a cache's next run would let age.

Source: document C, section on ``op_cache.ini``; facts ``cann-operator-cache`` sections 2.4 and 4.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappush, heappushpop

from pytest_ascendcache.contract.aging import (
    HALF_AN_HOUR,
    CacheLimits,
    expected_limits,
    ini_limits,
)
from pytest_ascendcache.contract.editions import Edition, default, foreign_names
from pytest_ascendcache.words import count, nearest

SECTION = "op_compiler_cache"
_STAMPS = ("adk_version", "ops_version")
_NAMED = 3


@dataclass(frozen=True)
class Ini:
    """An ``op_cache.ini``: what its section sets, and what is wrong with it."""

    values: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def stamps(self) -> dict[str, str]:
        """The versions of the toolchain the cache is of."""
        return {name: self.values[name] for name in _STAMPS if self.values.get(name)}


def read_ini(data: bytes, edition: Edition | None = None) -> Ini:
    """Read a file as CANN does: line by line, a section only at the start of its line. What is
    wrong with it is what is wrong in an edition of the documents."""
    text = data.decode("utf-8", "replace")
    values: dict[str, str] = {}
    section, stray, other = "", "", ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:].partition("]")[0]
        elif "=" in line and not line.startswith("#"):
            key, _, value = (part.strip(" \t\r") for part in line.partition("="))
            if section in (SECTION, ""):
                values[key] = value
                stray = stray or (key if not section else "")
            else:
                other = min(other or section, section)
    return Ini(values, (*_of_text(text, stray, other), *_of_values(values, edition or default())))


def _of_text(text: str, stray: str, other: str) -> Iterator[str]:
    """What keeps a section from being found. ``stray`` is a key outside of any, ``other`` the
    section with keys that comes first in the alphabet, as CANN looks at them."""
    starts = any(line.startswith(f"[{SECTION}]") for line in text.splitlines())
    if not text.strip():
        yield "is empty: a writer was interrupted, or the file was cut"
    elif not starts and f"[{SECTION}]" in text:
        yield f"has something before [{SECTION}]: the section has to start its line to be found"
    elif not starts:
        yield f"has no section [{SECTION}], so nothing in it counts"
    elif behind := _behind_section(text):
        yield f"has {behind[:40]!r} behind [{SECTION}]: each key needs a line of its own"
    elif stray:
        yield f"sets {stray} outside of [{SECTION}]"
    elif other and other < SECTION:
        yield f"has a section [{other}]: CANN meets it first and ignores the whole file"


def _behind_section(text: str) -> str:
    """What stands in the line of the section, where it is no note."""
    for line in text.splitlines():
        before, _, behind = line.partition("]")
        is_note = behind.strip().startswith(("#", ";"))
        if before == f"[{SECTION}" and "=" in behind and not is_note:
            return behind.strip()
    return ""


def _of_values(values: Mapping[str, str], edition: Edition) -> Iterator[str]:
    given = [name for name in edition.ini if name in values]
    foreign = foreign_names(edition)
    for name in values:
        if name not in (*edition.ini, *_STAMPS, *foreign) and name[:1].isalpha():
            meant = nearest(name, edition.ini)
            if meant and meant not in values:
                yield f"sets {name[:40]!r}, which nothing reads: write {meant}"
    if len(given) == 1:
        (missing,) = (name for name in edition.ini if name not in given)
        yield f"sets {given[0]} and not {missing}: it counts only with both"
    elif given and ini_limits(values, edition) is None:
        size, ratio = edition.ini
        wanted = f"{size} takes -1 or 1 and more (MB), {ratio} 1 to 100 (percent)"
        set_to = ", ".join(f"{name}={values[name][:30]!r}" for name in given)
        yield f"sets {set_to}, which does not count: {wanted}"
    for name, (other, instead) in foreign.items():
        if name in values and name in other.ini:
            how = f"write {instead}" if instead in edition.ini else f"export {instead}"
            yield f"sets {name}, a key of {other} that {edition} does not read: {how}"
    stamped = [name for name in _STAMPS if values.get(name)]
    if len(stamped) == 1:
        absent = next(name for name in _STAMPS if name not in stamped)
        yield f"has {stamped[0]} and not {absent}: kernels of another version are not noticed"


def limits_of(
    inis: Mapping[str, Ini], environment: Mapping[str, str], edition: Edition | None = None
) -> tuple[CacheLimits, str]:
    """The limits of a cache, and where they come from. The first file that counts wins."""
    edition = edition or default()
    for path, ini in inis.items():
        if (limits := ini_limits(ini.values, edition)) is not None:
            return limits, path
    named = any(name in environment for name in edition.variables)
    return expected_limits(
        None, environment, edition
    ), "the environment" if named else "the default"


@dataclass
class Aging:
    """Sizes and access times of a SoC's entries, in few bytes each: there may be a million.

    ``total`` is bytes of all files. The least recently used entries are remembered by name.
    """

    total: int = 0
    sizes: array[int] = field(default_factory=lambda: array("q"))
    accessed: array[float] = field(default_factory=lambda: array("d"))
    _oldest: list[tuple[float, str]] = field(default_factory=list)

    def add_entry(self, size: int, accessed: float, path: str) -> None:
        """An entry of ``size`` bytes, last used at ``accessed`` (seconds since the epoch)."""
        self.sizes.append(size)
        self.accessed.append(accessed)
        if len(self._oldest) < _NAMED:
            heappush(self._oldest, (-accessed, path))
        elif -accessed > self._oldest[0][0]:
            heappushpop(self._oldest, (-accessed, path))

    @property
    def oldest(self) -> list[str]:
        """The entries that go first."""
        return [path for _, path in sorted(self._oldest, reverse=True)]

    def would_go(
        self, limits: CacheLimits, now: float, idle: int = HALF_AN_HOUR
    ) -> tuple[int, int]:
        """How many entries the next run lets age, and their bytes: the oldest first, while more
        than the retained share is left, and none that was used in the last ``idle`` seconds."""
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
    """Bytes as people read them."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return count(round(size), "byte") if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError(size)
