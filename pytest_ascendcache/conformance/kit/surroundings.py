"""Surroundings of a run that must not matter: variables, file times, locales."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_ascendcache.observation import CacheUnderTest

DAY = 86400.0


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The surroundings of a story. ``name`` says what is unusual about them.

    In the values of ``environment``, ``{sandbox}`` is the check's directory. ``age`` is the time
    that all files get between two runs, in seconds from now. ``backwards`` reverses the order of
    the operators.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    umask: int | None = None
    age: float | None = None
    backwards: bool = False

    def arguments(self, cache: CacheUnderTest) -> dict[str, Any]:
        """The arguments of a compile."""
        place = str(cache.sandbox)
        environment = {
            name: text.replace("{sandbox}", place) for name, text in self.environment.items()
        }
        return {"environment": environment, "umask": self.umask, "unset": self.unset}

    def pass_time(self, cache: CacheUnderTest, now: float) -> None:
        """Mark the entries and set the times of all files."""
        if self.age is None:
            return
        cache.mark()
        for path in cache.root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, (now + self.age, now + self.age))


PLAIN = Surroundings("plain")
_TURKISH = {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}
_C = {"LC_ALL": "C", "PYTHONUTF8": "0"}
_LIMITED = {"ASCEND_CACHE_PATH": "{sandbox}/limited"}
_FAR = {"TZ": "Pacific/Kiritimati"}
_NO_HOME = frozenset({"HOME"})

OTHERS = (
    Surroundings("umask 077", umask=0o077),
    Surroundings("another locale", environment=_TURKISH),
    Surroundings("the C locale", environment=_C),
    Surroundings("a time zone far away", environment=_FAR),
    Surroundings("files of the future", age=DAY),
    Surroundings("files of this very second", age=0.0),
    Surroundings("files of last year", age=-365 * DAY),
    Surroundings("operators in another order", backwards=True),
    Surroundings("HOME is not set", unset=_NO_HOME),
    Surroundings("HOME is empty", environment={"HOME": ""}),
    Surroundings("HOME does not exist", environment={"HOME": "/nonexistent/home"}),
    Surroundings("a variable beside the option", environment=_LIMITED),
)

OTHERS_TOGETHER = {
    Surroundings("umask 077, another locale, files of the future, HOME is not set", umask=0o077,
                 environment=_TURKISH, age=DAY, unset=_NO_HOME):
        ("umask 077", "another locale", "files of the future", "HOME is not set"),
    Surroundings("a time zone far away, files of this very second, HOME is empty",
                 environment={**_FAR, "HOME": ""}, age=0.0):
        ("a time zone far away", "files of this very second", "HOME is empty"),
    Surroundings("the C locale, operators in another order, files of last year, a variable beside "
                 "the option, HOME does not exist", backwards=True, age=-365 * DAY,
                 environment={**_C, **_LIMITED, "HOME": "/nonexistent/home"}):
        ("the C locale", "operators in another order", "files of last year", "HOME does not exist",
         "a variable beside the option"),
}  # fmt: skip


def together_with(one: Surroundings) -> Surroundings | None:
    """The surroundings that combine these with others; ``None`` if there are none."""
    return next((each for each, names in OTHERS_TOGETHER.items() if one.name in names), None)
