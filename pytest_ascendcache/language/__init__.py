"""What users read, in English and in Chinese. Nothing else of the package is needed for it.

Fixed texts (headings, verdicts, kinds of harm) are looked up by key in ``texts/*.toml``. Reasons
and errors are written in English where they arise, so that records stay comparable. When they are
shown, :func:`translated` recognises their fixed parts by ``sentences/*.toml``, and leaves names,
numbers and paths as they are.
"""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pytest_ascendcache.contract.toml import tomllib

_HERE = Path(__file__).parent
_LITTLE = 6
"""Characters. A template with no more fixed text than this would match nearly anything."""
_FEW = 9
"""Letters. A template with no more of them may be words in the middle of any sentence."""
_LETTERS = re.compile("[^A-Za-z]")
_ENGLISH = re.compile(r"(?<![-\w./])[a-z]{2,}(?: [a-z]{2,}){2,}(?![-\w./])", re.ASCII)
_BLANK = re.compile(r"(?<=[）。，；：]) (?=\S)")
"""A blank of a template behind a mark that has its own."""
_FRAMES = _HERE / "sentences" / "frames.toml"


class Language(str, Enum):
    """The languages of what users read."""

    ENGLISH = "en"
    CHINESE = "zh"


def preferred_language(environment: Mapping[str, str]) -> Language:
    """The language of the locale: Chinese for any Chinese locale, else English."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name):
            return Language.CHINESE if value.lower().startswith("zh") else Language.ENGLISH
    return Language.ENGLISH


def add_language_option(parser: ArgumentParser) -> None:
    """Let a command take the language in each spelling that one of the commands has."""
    parser.add_argument(
        *("--ascend-language", "--language", "--lang"),
        dest="language",
        type=Language,
        choices=[*Language],
        default=preferred_language(os.environ),
        metavar="{en,zh}",
        help="language of the output (default: the locale's)",
    )


@lru_cache(maxsize=1)
def texts() -> Mapping[str, Mapping[str, str]]:
    """All fixed texts by key, then language. Raises ``ValueError`` if two files define a key."""
    return _merged(sorted((_HERE / "texts").glob("*.toml")), "a text")


def text(key: str, language: Language, /, **values: object) -> str:
    """A fixed text with its ``{name}`` fields filled in."""
    return texts()[key][language.value].format(**values)


@dataclass(frozen=True)
class Word:
    """A word that users meet, and what it means."""

    word: str
    meaning: str


def glossary(language: Language) -> list[Word]:
    """Every word that a user meets and may not know; docs/words.md is made from it."""
    content = tomllib.loads((_HERE / "words.toml").read_text(encoding="utf-8"))
    if language is Language.ENGLISH:
        return [Word(word, each["meaning_en"]) for word, each in content.items()]
    return [Word(f"{each['zh']}（{word}）", each["meaning_zh"]) for word, each in content.items()]


@lru_cache(maxsize=1)
def templates() -> Mapping[str, str]:
    """Chinese sentences by English ones. ``{}`` stands for a part that differs from case to case.

    A Chinese sentence with these parts in another order numbers them: ``{1} {0}``. Raises
    ``ValueError`` if two files translate the same sentence.
    """
    paths = sorted((_HERE / "sentences").glob("*.toml"), key=lambda path: path != _FRAMES)
    return _merged(paths, "a translation")


def _merged(paths: list[Path], noun: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for path in paths:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if twice := set(content) & set(merged):
            raise ValueError(f"{path.name}: {sorted(twice)[0]!r} has {noun} already.")
        merged.update(content)
    return merged


def translated(sentence: str, language: Language) -> str:
    """A sentence in a language, line by line. Parts that the catalogue lacks stay as they are."""
    if language is Language.ENGLISH or not sentence:
        return sentence
    return "\n".join(map(_chinese, sentence.split("\n")))


_COUNTS = {
    "; ": re.compile(r"\d+ [^;]+(?:; \d+ [^;]+)+"),
    ", ": re.compile(r"\d+ x [^,;]+(?:, \d+ x [^,;]+)+"),
}
"""Lists of numbers of things; no template is to take a part of one for its place."""

_PRINTED = re.compile(
    r"(?!.*; (?:expected|also): )(.*(?:ended with exit status \d+|was ended by signal \d+)): (.*)"
)
"""What a program printed behind its ending, which stays in its own words."""

_OF_A_PATH = re.compile(r"([^:;]*/[^:;]*): ((?:(?!; (?:expected|also): ).)+)")
"""A path, which may have blanks, and what is said of it: not what is said beside it."""


@lru_cache(maxsize=4096)
def _chinese(sentence: str) -> str:
    bare = sentence.strip()
    if not bare:
        return sentence
    for separator, between in (("; ", "；"), (", ", "，")):
        if _COUNTS[separator].fullmatch(bare):
            return sentence.replace(bare, between.join(map(_chinese, bare.split(separator))), 1)
    if printed := _PRINTED.fullmatch(bare):
        return sentence.replace(bare, f"{_chinese(printed[1])}：{printed[2]}", 1)
    said = _OF_A_PATH.fullmatch(bare)
    if said and _chinese(said[1]) == said[1] and (end := _whole(said[2])):
        return sentence.replace(bare, f"{said[1]}：{end}", 1)
    chinese = _whole(bare) or _behind_a_colon(bare, _whole)
    if not chinese and "; " in bare:
        parts = bare.split("; ")
        translations = [_chinese(part) for part in parts]
        chinese = "；".join(translations) if translations != parts else ""
    chinese = chinese or _behind_a_colon(bare, _changed)
    return sentence.replace(bare, chinese or bare, 1)


def _whole(sentence: str) -> str:
    """The Chinese of a sentence that a single template matches, or ``""``."""
    if exact := templates().get(sentence):
        return exact
    return next(filter(None, (_filled(each, sentence) for each in _patterns())), "")


def _changed(sentence: str) -> str:
    """The sentence with all known parts in Chinese, or ``""`` if no part is known."""
    return chinese if (chinese := _chinese(sentence)) != sentence else ""


def _behind_a_colon(sentence: str, translate: Callable[[str], str]) -> str:
    """Translate what is known of a sentence whose end, after a colon, is known, or ``""``."""
    parts = sentence.split(": ")
    for number in range(1, len(parts)):
        if end := translate(": ".join(parts[number:])):
            return f"{_chinese(': '.join(parts[:number]))}：{end}"
    return ""


class _Template(NamedTuple):
    """A template with places. One that ``joins`` has so few words of its own that any sentence may
    have them in its middle."""

    shape: re.Pattern[str]
    chinese: str
    is_frame: bool
    joins: bool


def _filled(template: _Template, sentence: str) -> str:
    """The Chinese of a sentence that a template matches; empty if that tears it apart."""
    match = template.shape.fullmatch(sentence)
    if match is None:
        return ""
    begins_with_place = template.shape.pattern.startswith("(") and not template.is_frame
    if begins_with_place and ": " in match[1]:
        return ""  # what the template says begins behind the colon
    places = [*map(_chinese, match.groups())]
    if template.joins and any(map(_ENGLISH.search, places)):
        return ""
    return _BLANK.sub("", template.chinese.format(*places))


@lru_cache(maxsize=1)
def _patterns() -> tuple[_Template, ...]:
    """Templates with a ``{}``, as patterns: frames first, then those with the most fixed text."""
    frames = set(tomllib.loads(_FRAMES.read_text(encoding="utf-8")))
    found: list[tuple[tuple[bool, int, bool], _Template]] = []
    for english, chinese in templates().items():
        if "{}" not in english:
            continue
        fixed = len(english.replace("{}", ""))
        # With little fixed text, each {} matches only one word.
        place = r"(.+?)" if fixed > _LITTLE else r"(\S+)"
        shape = re.compile(place.join(map(re.escape, english.split("{}"))))
        is_frame = english in frames
        joins = ":" not in english and len(_LETTERS.sub("", english)) <= _FEW
        # With equal fixed text, one that begins with it comes first.
        rank = (not is_frame, -fixed, english.startswith("{}"))
        found.append((rank, _Template(shape, chinese, is_frame, joins)))
    return tuple(template for _, template in sorted(found, key=lambda each: each[0]))
