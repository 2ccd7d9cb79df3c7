"""Texts nobody chose, by Hypothesis: files in every spelling, lists, names and numbers.

What a text means is said by the contract; how it is written must not matter: order of lines, line
ends, a byte order mark, blanks around ``=`` and ``,``, comments, empty lines, a last line without
its end. Every run tries the same texts; what fails is shrunk to the shortest text that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, example, settings
from hypothesis import strategies as st

from pytest_ascendcache.contract.aging import INI_RATIO, INI_SIZE

Check = TypeVar("Check", bound=Callable[..., None])


def texts(examples: int) -> settings:
    """Settings of a check that costs one run or two a text."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        # A cache is made once a check and serves all of its texts.
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        print_blob=False,
        # Several failures at once would come as a group, which says nothing to a reader.
        report_multiple_bugs=False,
    )


@dataclass(frozen=True)
class Spelling:
    """How a file of ``key=value`` lines is written."""

    end: str = "\n"
    around: str = ""
    comma: str = ","
    mark: bool = False
    ended: bool = True
    between: str = ""
    trailing: str = ""

    def write(self, lines: Sequence[tuple[str, str]], section: str = "") -> bytes:
        """The file's bytes; commas in a value are written as ``comma``."""
        written = [
            f"{key}{self.around}={self.around}{value.replace(',', self.comma)}{self.trailing}"
            for key, value in lines
        ]
        head = [section] if section else []
        text = f"{self.end}{self.between}".join([*head, *written])
        text += self.end if self.ended else ""
        return (b"\xef\xbb\xbf" if self.mark else b"") + text.encode()


ODDITIES = (
    Spelling(end="\r\n"),
    Spelling(end="\r\n", ended=False),
    Spelling(ended=False),
    Spelling(around=" "),
    Spelling(around="\t"),
    Spelling(comma=", "),
    Spelling(comma=" ,"),
    Spelling(mark=True),
    Spelling(between="\n"),
    Spelling(trailing=" "),
)
"""Each way to write a file alone."""


def spellings(notes: bool = True) -> st.SearchStrategy[Spelling]:
    """Every way to write a file; ``notes`` says whether its format has comments."""
    between = ["", "\n", *(["# a note\n"] if notes else [])]
    return st.builds(
        Spelling,
        end=st.sampled_from(["\n", "\r\n"]),
        around=st.sampled_from(["", " ", "\t"]),
        comma=st.sampled_from([",", ", ", " ,"]),
        mark=st.booleans(),
        ended=st.booleans(),
        between=st.sampled_from(between),
        trailing=st.sampled_from(["", " "]),
    )


def each_of(cases: Iterable[Mapping[str, Any]]) -> Callable[[Check], Check]:
    """Have a check try each of these arguments before what is generated."""

    def decorate(check: Check) -> Check:
        for case in cases:
            check = example(**case)(check)
        return check

    return decorate


def near(word: str) -> st.SearchStrategy[str]:
    """Texts that are nearly, but not, the word: other case, shorter, longer, below a scope."""
    other = {word.upper(), word.lower(), word.swapcase(), word[:-1], f"{word}2", f"x{word}"}
    return st.sampled_from(sorted({*other, f"scope/{word}", f"{word}/part"} - {word}))


def lists_of(words: Sequence[str], most: int = 4) -> st.SearchStrategy[tuple[str, ...]]:
    """Lists of some of the words, in any order, and of texts nearly like them."""
    exact, nearly = st.sampled_from(words), st.one_of(*map(near, words))
    return st.lists(st.one_of(exact, exact, nearly), min_size=1, max_size=most).map(tuple)


NUMBERS = ("-1", "1", "2", "3", "50", "99", "100", "300", "500", "600")
NO_NUMBERS = (
    "",
    "0",
    "-2",
    "-0",
    "1.5",
    "1e2",
    "1_0",
    "abc",
    "50%",
    "1MB",
    "0x64",
    "²",
    "٣",
    "５０",
)
"""Texts that some parser, somewhere, takes for a number."""


def limits() -> st.SearchStrategy[dict[str, Any]]:
    """Values of ``op_cache.ini`` by key: both valid as often as not, else missing or bad."""
    size, ratio = st.sampled_from(NUMBERS), st.sampled_from(["1", "50", "99", "100"])
    any_value = st.one_of(size, st.sampled_from(NO_NUMBERS))
    return st.one_of(
        st.fixed_dictionaries({INI_SIZE: size, INI_RATIO: ratio}),
        st.fixed_dictionaries({}, optional={INI_SIZE: any_value, INI_RATIO: any_value}),
    )
