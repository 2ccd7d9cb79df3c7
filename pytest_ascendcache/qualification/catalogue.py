"""The lists of seeded defects, of scenes and of profiles."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_ascendcache.reference.policies import Policies


@dataclass(frozen=True)
class Defect:
    """One wrong behaviour.

    ``breaks`` are the rules that must notice it; ``what`` says in a few words what is wrong;
    ``policies`` makes the reference's policies with the defect in them. ``crash`` is, for a
    defect that shows when a compile is interrupted, the simplest kind of interruption that
    finds it (a value of ``faults.CrashKind``). ``found_later`` says that the suite did not notice
    it when it was first tried.
    """

    name: str
    breaks: tuple[str, ...]
    what: str
    policies: Callable[[], Policies]
    crash: str = ""
    found_later: bool = False


_DEFECTS: dict[str, Defect] = {}


def defect(
    *breaks: str, what: str, crash: str = "", found_later: bool = False
) -> Callable[[Callable[[], Policies]], Callable[[], Policies]]:
    """Register a function that makes defective policies; its name becomes the defect's."""

    def register(make: Callable[[], Policies]) -> Callable[[], Policies]:
        name = make.__name__.replace("_", "-")
        if name in _DEFECTS:
            raise ValueError(f"the defect '{name}' exists twice.")
        _DEFECTS[name] = Defect(name, breaks, what, make, crash, found_later)
        return make

    return register


@lru_cache(maxsize=1)
def load_defects() -> Mapping[str, Defect]:
    """Every defect by name."""
    from pytest_ascendcache.qualification import defects

    for module in sorted(each.name for each in pkgutil.iter_modules(defects.__path__)):
        importlib.import_module(f"{defects.__name__}.{module}")
    return dict(_DEFECTS)


@dataclass(frozen=True)
class Scene:
    """Files as somebody might leave them, for what judges files rather than a toolchain.

    ``build`` makes them below an empty directory and returns the arguments of pytest that have
    them judged. ``breaks`` are the rules that find fault, and no other may; a scene that breaks
    none shows that what is right is not blamed. ``what`` says in a few words what is wrong.
    Giving files to somebody else ``needs_root``.
    """

    name: str
    breaks: tuple[str, ...]
    what: str
    build: Callable[[Path], list[str]]
    needs_root: bool = False


_SCENES: dict[str, Scene] = {}


def scene(
    *breaks: str, what: str, needs_root: bool = False
) -> Callable[[Callable[[Path], list[str]]], Callable[[Path], list[str]]]:
    """Register a function that makes a scene; its name becomes the scene's."""

    def register(build: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
        name = build.__name__.replace("_", "-")
        if name in _SCENES:
            raise ValueError(f"the scene '{name}' exists twice.")
        _SCENES[name] = Scene(name, breaks, what, build, needs_root)
        return build

    return register


@lru_cache(maxsize=1)
def load_scenes() -> Mapping[str, Scene]:
    """Every scene by name."""
    from pytest_ascendcache.qualification import scenes

    for module in sorted(each.name for each in pkgutil.iter_modules(scenes.__path__)):
        importlib.import_module(f"{scenes.__name__}.{module}")
    return dict(_SCENES)


@dataclass(frozen=True)
class Profile:
    """All the wrong behaviour of one vendor at once; as a rule there is a list of known
    deviations of the same name."""

    name: str
    policies: Callable[[], Policies]


def load_profiles() -> Mapping[str, Profile]:
    """Every profile by name."""
    from pytest_ascendcache.qualification.profiles import cann

    return {"cann": Profile("cann", cann.policies)}


def compose(*parts: Policies) -> Policies:
    """Policies with the wrong decisions of all parts.

    Where several parts change one kind of decision their classes are mixed: the first one is
    asked first, and what it leaves to ``super()`` is the next one's.
    """
    mixed: dict[str, Any] = {}
    for field in fields(Policies):
        plain: object = field.default_factory
        given = [getattr(part, field.name) for part in parts]
        changed = [policy for policy in given if type(policy) is not plain]
        if len(changed) > 1:
            bases = tuple(type(policy) for policy in changed)
            mixed[field.name] = type(f"Mixed{bases[-1].__bases__[0].__name__}", bases, {})()
        elif changed:
            mixed[field.name] = changed[0]
    return Policies(**mixed)
