"""Counts and suggested names in sentences."""

from __future__ import annotations

import pytest

from pytest_ascendcache.words import count, in_unicode, instead, nearest

RULES = ("cache-mode/enable-stores", "cache-mode/enable-reuses", "robustness/disk-full")


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [
        (0, "rule", "", "0 rules"),
        (1, "rule", "", "1 rule"),
        (2, "rule", "", "2 rules"),
        (1, "entry", "entries", "1 entry"),
        (5, "entry", "entries", "5 entries"),
    ],
)
def test_a_noun_follows_its_number(number: int, noun: str, plural: str, text: str) -> None:
    assert count(number, noun, plural) == text


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cache-mode/enable-reuse", "cache-mode/enable-reuses"),
        ("Cache-Mode/Enable-Stores", "cache-mode/enable-stores"),
        ("disk-full", "robustness/disk-full"),
        ("robustness/dikS-full", "robustness/disk-full"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_the_nearest_name(name: str, near: str) -> None:
    assert nearest(name, RULES) == near


def test_letters_in_another_order_go_before_a_shorter_name() -> None:
    assert nearest("modle", ["mode", "model"]) == "model"


def test_what_to_write_instead_is_one_sentence_however_many_names_there_are() -> None:
    assert instead("robustness/disk-fill", RULES) == "did you mean 'robustness/disk-full'?"
    assert instead("zzz", ["atc", "reference"]) == "use atc or reference."
    assert instead("zzz", ["atc"]) == "use atc."
    assert instead("zzz", []) == "there are none."
    many = [f"name-{number}" for number in range(300)]
    assert instead("zzz", many, "pytest --ascend-rules lists them.") == (
        "pytest --ascend-rules lists them."
    )
    assert instead("zzz", many).endswith("and 292 more.")


def test_bytes_of_names_that_are_no_text_are_escaped() -> None:
    given = {"a\udcff": ["算子", ("x\udc80", 1, None)]}
    assert in_unicode(given) == {"a\\udcff": ["算子", ("x\\udc80", 1, None)]}
