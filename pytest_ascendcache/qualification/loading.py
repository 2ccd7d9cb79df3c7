"""Loads every seeded defect, scene and profile.

This is not part of ``catalogue``, which defects import to register themselves.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType

from pytest_ascendcache.qualification import defects, scenes
from pytest_ascendcache.qualification.catalogue import DEFECTS, SCENES, Company, Defect, Scene
from pytest_ascendcache.qualification.mutants import PREFIX, all_mutants, mutant
from pytest_ascendcache.qualification.reach import REACHED


def _import_all(package: ModuleType) -> None:
    for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")


@lru_cache(maxsize=1)
def load_defects() -> Mapping[str, Defect]:
    """Every defect and innocent by name."""
    _import_all(defects)
    return dict(DEFECTS)


@lru_cache(maxsize=1)
def load_companies() -> Mapping[str, Company]:
    """Innocents by the name of their company, each company as one toolchain."""
    innocents = [each for each in load_defects().values() if each.freedom]
    names = dict.fromkeys(each.company or each.name for each in innocents)
    found = [
        Company.of(name, [each for each in innocents if name in (each.company, each.name)])
        for name in names
    ]
    return {each.defect.name: each for each in found}


@lru_cache(maxsize=1)
def load_scenes() -> Mapping[str, Scene]:
    """Every scene by name."""
    _import_all(scenes)
    return dict(SCENES)


def flawed(name: str) -> Defect:
    """A defect, a profile, a generated mutant, or the reference that notes lines, by name.

    Raises ``KeyError`` for an unknown name.
    """
    return mutant(name).defect if name.startswith(PREFIX) else _written()[name]


def _written() -> dict[str, Defect]:
    companies = {name: each.defect for name, each in load_companies().items()}
    return {**load_defects(), **companies, **load_profiles(), REACHED.name: REACHED}


@lru_cache(maxsize=1)
def everything() -> Mapping[str, Defect]:
    """Everything that :func:`flawed` knows, by name."""
    return {**_written(), **{name: each.defect for name, each in all_mutants().items()}}


def load_profiles() -> Mapping[str, Defect]:
    """Every profile by name: all the wrong behaviour of one vendor, as one defect.

    A list of known deviations of the same name usually goes with it.
    """
    from pytest_ascendcache.qualification.profiles import cann

    return {"cann": Defect("cann", (), "all that CANN does otherwise", cann.policies)}
