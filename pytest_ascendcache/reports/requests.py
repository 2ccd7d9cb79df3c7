"""The request of a check's deciding process, read from its command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

FAMILIES = {
    "--op_debug_level": "debug switches",
    "--op_debug_config": "debug switches",
    "--op_select_implmode": "implementation mode",
    "--optypelist_for_implmode": "implementation mode",
    "--op_precision_mode": "implementation mode",
    "ASCEND_MAX_OP_CACHE_SIZE": "limits",
    "ASCEND_REMAIN_CACHE_SIZE_RATIO": "limits",
    "debug_level": "debug switches",
    "debug_config": "debug switches",
    "debug_list": "debug switches",
    "select_implmode": "implementation mode",
    "type_list": "implementation mode",
    "precision_file": "implementation mode",
    "limits": "limits",
}
"""The kind of each option, environment variable and factor of combinations."""

_PLACES = {"--singleop", "--output", "--soc_version", "--op_compiler_cache_dir", "--framework"}
_MODE = "--op_compiler_cache_mode"
_FILES = {"--op_debug_config", "--op_precision_mode", "--model"}
_FRESH = re.compile(r"--op_compiler_cache_dir=\S*/empty\d*(\s|$)")
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")


@dataclass(frozen=True)
class Request:
    """Cache mode and other options of one process; as text, the way a reader would name them."""

    mode: str
    options: Mapping[str, str]

    @property
    def families(self) -> frozenset[str]:
        """The kinds of its options."""
        return frozenset(FAMILIES.get(each, each) for each in self.options)

    def __str__(self) -> str:
        options = [
            name if name in _FILES or not value else f"{name}={value}"
            for name, value in self.options.items()
        ]
        return " ".join([self.mode or "no cache mode", *options])


@lru_cache(maxsize=1024)
def request_of(command: str) -> Request:
    """The request in a step's command line."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    options: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not (name.startswith("--") or _ASSIGNMENT.match(word)):
            continue
        if name in _PLACES or (name not in FAMILIES and not name.startswith("--op")):
            continue
        options[name] = value
    mode = options.pop(_MODE, "")
    return Request(mode, options)


def deciding(check: Mapping[str, Any]) -> tuple[Request | None, Request | None]:
    """The request with the wrong outcome, and the request before it, whose entry it met."""
    steps: Sequence[Mapping[str, Any]] = check["evidence"].get("steps") or ()
    steps = [each for each in steps if asks_a_cache(each["command"])]
    if not steps:
        return None, None
    facts = check["evidence"].get("facts") or ()
    observed = {each["observed"] for each in facts if each["aspect"] == "outcome"}
    place = len(steps) - 1
    if observed:
        fitting = [
            number
            for number, step in enumerate(steps)
            if observed.intersection(step.get("codes") or ())
        ]
        place = fitting[-1] if fitting else place
    before = request_of(steps[place - 1]["command"]) if place else None
    return request_of(steps[place]["command"]), before


def chip_of(command: str) -> str:
    """The chip that a command compiles for; empty if it names none."""
    return command.partition("--soc_version=")[2].partition(" ")[0]


def asks_a_cache(command: str) -> bool:
    """Whether a command compiles with a cache, except an empty one for comparison."""
    return _FRESH.search(command) is None and (_MODE in command or "--singleop" in command)


def combination(check: Mapping[str, Any]) -> dict[str, str]:
    """The smallest combination of factors that shows a broken cell, as its check found it."""
    return dict(check["evidence"].get("smallest") or {})
