"""The size limit of one SoC's cache, and the share of it that aging retains.

Source: document C, section on ``op_cache.ini`` and the two environment variables; facts
``cann-operator-cache`` section 4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.edition import PRESENT, Played

MEGABYTE = 1024 * 1024
"""Bytes in one MB, as the document uses the unit."""

SECTION = "op_compiler_cache"
SIZE_KEY, RATIO_KEY = PRESENT.ini
SIZE_VARIABLE, RATIO_VARIABLE = PRESENT.variables

_INTEGER = re.compile(r"-?[0-9]+")
_LARGEST = 2**31 - 1
_SIZES = f"-1 or a whole number of MB from 1 to {_LARGEST}"
_RATIOS = "a whole number of percent from 1 to 100"


@dataclass(frozen=True)
class Limits:
    """The limits of one run: size in MB (-1 turns aging off) and retained share in percent."""

    megabytes: int
    ratio: int

    @property
    def off(self) -> bool:
        """Whether aging is off. Then access times are not updated either."""
        return self.megabytes == -1

    @property
    def size(self) -> int:
        """The size limit in bytes."""
        return self.megabytes * MEGABYTE

    def __str__(self) -> str:
        return f"{self.megabytes} MB and {self.ratio} %"


@dataclass(frozen=True)
class Found:
    """The limits of a run, and warnings about settings that were ignored."""

    limits: Limits
    warnings: tuple[str, ...] = ()


class LimitPolicy:
    """Reads the limits from ``op_cache.ini``, else the environment, else the default.

    The file takes effect only if both of its values are valid. Each of the two variables takes
    effect on its own. An invalid value is ignored, never replaced by a nearby valid one.
    """

    default = Limits(500, 50)
    edition: Played = PRESENT

    def places(self, root: Path, kernel_cache: Path) -> tuple[Path, ...]:
        """The paths of ``op_cache.ini``: first the document's, then the one CANN uses.

        The first file with valid values takes effect.
        """
        return (root / "op_cache.ini", kernel_cache / "op_cache.ini")

    def find(self, fs: Fs, root: Path, kernel_cache: Path, environ: Mapping[str, str]) -> Found:
        """The limits of one run, with warnings about ignored settings."""
        said: list[str] = []
        for path in self.places(root, kernel_cache) if self.edition.ini else ():
            limits = self.of_file(fs, path, said)
            if limits is not None:
                break
        else:
            limits = self.of_environment(environ, said)
        return Found(limits, tuple(f"{each}; [{limits}] are used" for each in said))

    def of_file(self, fs: Fs, path: Path, said: list[str]) -> Limits | None:
        """The limits that one file sets, or ``None`` if it is ignored. Warnings go to ``said``."""
        try:
            data = fs.read("limits.read", path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            said.append(f"[{path}] cannot be read ({error.strerror}) and does not count")
            return None
        values, stray = parse_ini(data.decode("utf-8-sig", "replace"), self.edition.ini)
        if stray and not values:
            said.append(f"[{path}] sets {stray} outside of [{SECTION}] and does not count")
        return self.of_values(values, path, said) if values else None

    def of_values(self, values: Mapping[str, str], path: Path, said: list[str]) -> Limits | None:
        """The limits from a file's values, or ``None`` unless both are valid."""
        wrong = []
        size_key, ratio_key = self.edition.ini
        for key, valid in ((size_key, self.size), (ratio_key, self.ratio)):
            if key not in values:
                wrong.append(f"{key} is missing")
            elif valid(values[key]) is None:
                wrong.append(f"value [{values[key]}] for {key} is invalid")
        size, ratio = (values.get(key, "") for key in (size_key, ratio_key))
        megabytes, percent = self.size(size), self.ratio(ratio)
        if megabytes is None or percent is None:
            said.append(
                f"{' and '.join(wrong)} in [{path}], which does not count; {size_key} takes "
                f"{_SIZES}, {ratio_key} {_RATIOS}"
            )
            return None
        return Limits(megabytes, percent)

    def of_environment(self, environ: Mapping[str, str], said: list[str]) -> Limits:
        """The limits from the two variables, each with its default if unset or invalid."""
        megabytes, ratio = self.default.megabytes, self.default.ratio
        size_name, ratio_name = self.edition.variables
        if size_name in environ:
            size = self.size(environ[size_name])
            if size is None:
                said.append(self.bad_variable(size_name, environ[size_name], _SIZES))
            else:
                megabytes = size
        if ratio_name in environ:
            percent = self.ratio(environ[ratio_name].removesuffix(self.edition.share_unit))
            if percent is None:
                said.append(self.bad_variable(ratio_name, environ[ratio_name], _RATIOS))
            else:
                ratio = percent
        return Limits(megabytes, ratio)

    def bad_variable(self, name: str, value: str, valid: str) -> str:
        """The warning about an invalid variable, worded like CANN's W40012."""
        return (
            f"W40012: value [{value}] for environment variable {name} is invalid; it takes {valid}"
        )

    def size(self, text: str) -> int | None:
        """The size in MB, or ``None`` if the text is not a valid size."""
        number = self.number(text)
        return number if number == -1 or (number and 1 <= number <= _LARGEST) else None

    def ratio(self, text: str) -> int | None:
        """The share in percent, or ``None`` if the text is not a valid share."""
        number = self.number(text)
        return number if number is not None and 1 <= number <= 100 else None

    def number(self, text: str) -> int | None:
        """The integer that the text spells in decimal digits, or ``None``.

        Surrounding blanks are allowed.
        """
        text = text.strip()
        return int(text) if _INTEGER.fullmatch(text) and len(text) <= 20 else None


def parse_ini(text: str, keys: tuple[str, ...] = PRESENT.ini) -> tuple[dict[str, str], str]:
    """Parse ``op_cache.ini``. Returns the section's values, and the first known key outside it.

    Tolerant, since users write this file by hand: comments, blanks around names, CRLF and a
    repeated section are accepted. The last of two equal keys wins; unknown keys are ignored.
    """
    values: dict[str, str] = {}
    section, stray = "", ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith(("#", ";")):
            continue
        if line.startswith("[") and "]" in line:
            section = line[1 : line.index("]")].strip()
            continue
        key, assigned, value = line.partition("=")
        key = key.strip()
        if not assigned or key not in keys:
            continue
        if section == SECTION:
            values[key] = value.strip()
        else:
            stray = stray or key
    return values, stray
