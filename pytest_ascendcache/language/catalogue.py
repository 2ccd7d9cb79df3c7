"""The catalogue: ``texts/*.toml`` by key, ``sentences/*.toml`` by their English."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib

_HERE = Path(__file__).parent
_LITTLE = 6
"""Characters; a template with no more fixed text than this would fit nearly anything."""
_FRAMES = _HERE / "sentences" / "frames.toml"


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

    Raises:
        ValueError: for a sentence that two files translate.
    """
    found: dict[str, str] = {}
    for path in sorted((_HERE / "sentences").glob("*.toml"), key=lambda each: each != _FRAMES):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if twice := set(content) & set(found):
            raise ValueError(f"{path.name}: {sorted(twice)[0]!r} has a translation already.")
        found.update(content)
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
    exact = _whole(bare) or _behind_a_colon(bare, _whole)
    if not exact and "; " in bare:
        parts = bare.split("; ")
        told = [_chinese(each) for each in parts]
        exact = "；".join(told) if told != parts else ""
    exact = exact or _behind_a_colon(bare, _changed)
    return sentence.replace(bare, exact or bare, 1)


def _whole(sentence: str) -> str:
    """The Chinese of a sentence that one template fits; empty where none does."""
    if exact := templates().get(sentence):
        return exact
    return next(filter(None, (_filled(each, sentence) for each in _patterns())), "")


def _changed(sentence: str) -> str:
    """A sentence of which some part is known, with that in Chinese; else empty."""
    return told if (told := _chinese(sentence)) != sentence else ""


def _behind_a_colon(sentence: str, known: Callable[[str], str]) -> str:
    """What is told of something: as much behind a colon as is known; empty where nothing is."""
    parts = sentence.split(": ")
    for number in range(1, len(parts)):
        if told := known(": ".join(parts[number:])):
            return f"{_chinese(': '.join(parts[:number]))}：{told}"
    return ""


def _filled(pattern: tuple[re.Pattern[str], str], sentence: str) -> str:
    shape, chinese = pattern
    match = shape.fullmatch(sentence)
    if match is None:
        return ""
    return chinese.format(*(_chinese(each) for each in match.groups()))


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Templates with places to fill: frames first, then those with the most fixed text."""
    frames = set(tomllib.loads(_FRAMES.read_text(encoding="utf-8")))
    open_ones = [each for each in templates().items() if "{}" in each[0]]
    open_ones.sort(key=lambda each: _rank(each[0], frames))
    return tuple((_shape(english), chinese) for english, chinese in open_ones)


def _rank(english: str, frames: Collection[str]) -> tuple[bool, int, bool]:
    """Of as much fixed text, what begins with it says more of a sentence."""
    return english not in frames, -len(english.replace("{}", "")), english.startswith("{}")


def _shape(english: str) -> re.Pattern[str]:
    """What a template matches; where little of it is fixed each place is one word."""
    part = r"(.+?)" if len(english.replace("{}", "")) > _LITTLE else r"(\S+)"
    return re.compile(part.join(map(re.escape, english.split("{}"))))
