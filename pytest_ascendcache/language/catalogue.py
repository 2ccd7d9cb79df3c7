"""The catalogue: ``texts/*.toml`` by key, ``sentences/*.toml`` by their English."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HERE = Path(__file__).parent


class Language(str, Enum):
    """Languages of what users read."""

    ENGLISH = "en"
    CHINESE = "zh"


def preferred_language(environment: Mapping[str, str]) -> Language:
    """The language of the locale: Chinese where it is any Chinese one, else English."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name):
            return Language.CHINESE if value.lower().startswith("zh") else Language.ENGLISH
    return Language.ENGLISH


@lru_cache(maxsize=1)
def texts() -> Mapping[str, Mapping[str, str]]:
    """Every fixed text by key, and then by language.

    Raises:
        ValueError: for a key that two files define.
    """
    found: dict[str, Mapping[str, str]] = {}
    for path in sorted((_HERE / "texts").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if twice := set(content) & set(found):
            raise ValueError(f"{path.name}: {sorted(twice)[0]!r} has a text already.")
        found.update(content)
    return found


def text(key: str, language: Language, /, **values: object) -> str:
    """A fixed text, with ``{name}`` replaced by values."""
    return texts()[key][language.value].format(**values)


@lru_cache(maxsize=1)
def templates() -> Mapping[str, str]:
    """Chinese by English sentences, in which ``{}`` stands for what differs from case to case.

    Where a Chinese sentence has these parts in another order they are numbered: ``{1} {0}``.
    """
    found: dict[str, str] = {}
    for path in sorted((_HERE / "sentences").glob("*.toml")):
        found.update(tomllib.loads(path.read_text(encoding="utf-8")))
    return found


def translated(sentence: str, language: Language) -> str:
    """A sentence of the catalogue in a language; what the catalogue lacks stays as it is.

    Each line, and each part in the place of a ``{}``, is looked up too.
    """
    if language is Language.ENGLISH or not sentence:
        return sentence
    return "\n".join(map(_chinese, sentence.split("\n")))


@lru_cache(maxsize=4096)
def _chinese(sentence: str) -> str:
    bare = sentence.strip()
    if not bare:
        return sentence
    exact = templates().get(bare)
    if exact is None:
        exact = next(filter(None, (_filled(each, bare) for each in _patterns())), bare)
    return sentence.replace(bare, exact, 1)


def _filled(pattern: tuple[re.Pattern[str], str], sentence: str) -> str:
    shape, chinese = pattern
    match = shape.fullmatch(sentence)
    if match is None:
        return ""
    return chinese.format(*(_chinese(each) for each in match.groups()))


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Templates with places to fill, those with the most fixed text first."""
    open_ones = [each for each in templates().items() if "{}" in each[0]]
    open_ones.sort(key=lambda each: len(each[0].replace("{}", "")), reverse=True)
    return tuple((_shape(english), chinese) for english, chinese in open_ones)


def _shape(english: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(map(re.escape, english.split("{}"))), re.DOTALL)

