"""Surroundings of a run that must not matter: directories, variables, file times, locales."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.observation import CacheUnderTest

DAY = 86400.0


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The surroundings of a story. ``name`` says what is unusual about them.

    ``place`` is the cache's directory relative to the sandbox; ``linked`` is the directory that it
    or its parent links to. ``option`` and ``variable`` are functions of the sandbox for
    ``--op_compiler_cache_dir`` and ``ASCEND_CACHE_PATH``; ``None`` leaves them out. ``age`` is the
    time that all files get between two runs, in seconds from now. ``backwards`` reverses the order
    of the operators.
    """

    name: str
    place: str = "cache"
    option: Callable[[Path], str] | None = lambda sandbox: str(sandbox / "cache")
    variable: Callable[[Path], str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    home: str = "home"
    umask: int | None = None
    linked: str = ""
    age: float | None = None
    backwards: bool = False

    def prepare(self, cache: CacheUnderTest) -> CacheUnderTest:
        """Make the directories, and return the cache in its place."""
        cache.home = cache.sandbox / self.home
        cache.home.mkdir(parents=True, exist_ok=True)
        root = cache.sandbox / self.place
        if self.linked:
            (cache.sandbox / self.linked).mkdir(parents=True)
            root.parent.mkdir(parents=True, exist_ok=True)
            root.symlink_to(cache.sandbox / self.linked)
            root = cache.sandbox / self.linked
        elif self.option is None and self.variable is not None:
            root.mkdir(parents=True, exist_ok=True)  # most editions say that it has to exist
        placed = cache.elsewhere(root)
        placed.home = cache.home
        return placed

    def arguments(self, cache: CacheUnderTest) -> dict[str, Any]:
        """The arguments of a compile. Skips the check if the edition lacks the variable."""
        environment = dict(self.environment)
        if self.variable is not None:
            if self.option is None and not cache.edition.cache_path:
                pytest.skip(f"{cache.edition} has no ASCEND_CACHE_PATH")
            environment["ASCEND_CACHE_PATH"] = self.variable(cache.sandbox)
        option = self.option(cache.sandbox) if self.option else None
        return {
            "cache_dir": None,
            "raw_options": {} if option is None else {"op_compiler_cache_dir": option},
            "environment": environment,
            "umask": self.umask,
            "unset": self.unset,
        }

    def pass_time(self, cache: CacheUnderTest, now: float) -> None:
        """Mark the entries and set the times of all files."""
        if self.age is None:
            return
        cache.mark()
        for path in cache.root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, (now + self.age, now + self.age))


LONG = "/".join(["a-directory-with-quite-a-long-name"] * 8)

PLAIN = Surroundings("plain")

DIRECTORIES = (
    Surroundings("HOME is not set", unset=frozenset({"HOME"})),
    Surroundings("HOME is empty", environment={"HOME": ""}),
    Surroundings("HOME does not exist", environment={"HOME": "/nonexistent/home"}),
    Surroundings("HOME holds a blank", home="my home", option=None, place="my home/atc_data"),
    Surroundings("a very long path", place=LONG, option=lambda sandbox: f"{sandbox}/{LONG}"),
    Surroundings("not ASCII", place="缓存-кэш", option=lambda sandbox: f"{sandbox}/缓存-кэш"),
    Surroundings("slashes and dots", option=lambda sandbox: f"{sandbox}//work/.././cache/"),
    Surroundings("a relative option", place="work/below/it", option=lambda _: "below/it"),
    Surroundings(
        "a relative variable", place="work/below", option=None, variable=lambda _: "below"
    ),
    Surroundings("an empty variable", place="home/atc_data", option=None, variable=lambda _: ""),
    Surroundings("an empty variable beside the option", variable=lambda _: ""),
    Surroundings("a variable beside the option", variable=lambda sandbox: f"{sandbox}/limited"),
    Surroundings("a directory that is a link", place="link", linked="real",
                 option=lambda sandbox: f"{sandbox}/link"),
    Surroundings("a link on the way", place="way", linked="real",
                 option=lambda sandbox: f"{sandbox}/way/."),
    Surroundings("the variable names a link", place="link", linked="real", option=None,
                 variable=lambda sandbox: f"{sandbox}/link"),
)  # fmt: skip

DIRECTORIES_TOGETHER = {
    Surroundings("a very long path beside an empty variable, HOME is not set", place=LONG,
                 option=lambda sandbox: f"{sandbox}/{LONG}", variable=lambda _: "",
                 unset=frozenset({"HOME"})):
        ("a very long path", "an empty variable beside the option", "HOME is not set"),
    Surroundings("a relative option beside a variable, slashes, dots, not ASCII, HOME is empty",
                 place="work/缓存-кэш/it", option=lambda _: "../work//./缓存-кэш/it/",
                 variable=lambda sandbox: f"{sandbox}/limited", environment={"HOME": ""}):
        ("a relative option", "a variable beside the option", "slashes and dots", "not ASCII",
         "HOME is empty"),
    Surroundings("a link on the way, HOME does not exist", place="way", linked="real",
                 option=lambda sandbox: f"{sandbox}/way/.",
                 environment={"HOME": "/nonexistent/home"}):
        ("a link on the way", "HOME does not exist"),
    Surroundings("HOME holds a blank, and the variable is empty", home="my home", option=None,
                 place="my home/atc_data", variable=lambda _: ""):
        ("HOME holds a blank", "an empty variable"),
}  # fmt: skip
"""Surroundings that combine several of :data:`DIRECTORIES`, which they name. Those that are not
named have their own runs."""

OTHERS = (
    Surroundings("umask 077", umask=0o077),
    Surroundings("another locale", environment={"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}),
    Surroundings("the C locale", environment={"LC_ALL": "C", "PYTHONUTF8": "0"}),
    Surroundings("a time zone far away", environment={"TZ": "Pacific/Kiritimati"}),
    Surroundings("files of the future", age=DAY),
    Surroundings("files of this very second", age=0.0),
    Surroundings("files of last year", age=-365 * DAY),
    Surroundings("operators in another order", backwards=True),
)

OTHERS_TOGETHER = {
    Surroundings("umask 077, another locale, files of the future", umask=0o077,
                 environment={"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}, age=DAY):
        ("umask 077", "another locale", "files of the future"),
    Surroundings("a time zone far away, files of this very second",
                 environment={"TZ": "Pacific/Kiritimati"}, age=0.0):
        ("a time zone far away", "files of this very second"),
    Surroundings("the C locale, operators in another order, files of last year", backwards=True,
                 environment={"LC_ALL": "C", "PYTHONUTF8": "0"}, age=-365 * DAY):
        ("the C locale", "operators in another order", "files of last year"),
}  # fmt: skip


def together_with(one: Surroundings) -> Surroundings | None:
    """The surroundings that combine these with others; ``None`` if there are none."""
    combined = {**DIRECTORIES_TOGETHER, **OTHERS_TOGETHER}
    return next((each for each, names in combined.items() if one.name in names), None)
