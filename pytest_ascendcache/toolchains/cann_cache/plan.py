"""What is compiled from a checkout, read from ``native/plan.toml``."""

from __future__ import annotations

import hashlib
import os
import shlex
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.processes.launch import ToolchainError

NATIVE = Path(__file__).with_name("native")
"""Our own C++: stand-ins for missing parts, and the command around the cache layer."""


class SourceError(ToolchainError):
    """A checkout cannot be built. The message names the file, symbol or tool that is to blame."""


@dataclass(frozen=True)
class Group:
    """Sources that share include paths. ``sources`` and ``includes`` are below the checkout, all
    others below ``native``. ``standins`` are searched first, ``fallbacks`` last."""

    name: str
    sources: tuple[str, ...]
    own: tuple[str, ...]
    includes: tuple[str, ...]
    standins: tuple[str, ...]
    fallbacks: tuple[str, ...] = ()
    python: bool = False


@dataclass(frozen=True)
class BuildPlan:
    """Everything a build consists of. ``command`` are the sources of the program itself; ``needs``
    maps system headers to their Debian packages."""

    native: Path
    flags: tuple[str, ...]
    link: tuple[str, ...]
    library_link: tuple[str, ...]
    groups: tuple[Group, ...]
    command: tuple[str, ...]
    needs: Mapping[str, str]

    @classmethod
    def load(cls, native: Path = NATIVE) -> BuildPlan:
        """Read ``plan.toml`` of a directory with the layout of ``native``. ``CXXFLAGS`` and
        ``LDFLAGS`` extend its flags."""
        content = tomllib.loads((native / "plan.toml").read_text(encoding="utf-8"))
        groups = tuple(Group(**_with_tuples(each)) for each in content["group"])
        return cls(
            native.resolve(),
            (*content["flags"], *shlex.split(os.environ.get("CXXFLAGS", ""))),
            (*content["link"], *shlex.split(os.environ.get("LDFLAGS", ""))),
            tuple(content["library_link"]),
            groups,
            tuple(content["command"]["own"]),
            content["needs"],
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and contents of our own files."""
        return digest_of(self.native, (each for each in self.native.rglob("*") if each.is_file()))


def digest_of(root: Path, files: Iterable[Path]) -> str:
    """SHA-256 of the contents of files and of their names below ``root``."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(root)}\0".encode(errors="surrogateescape"))
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _with_tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def python_headers() -> Path:
    """The directory of ``Python.h``, which a header of the cache layer includes."""
    return Path(sysconfig.get_paths()["include"])
