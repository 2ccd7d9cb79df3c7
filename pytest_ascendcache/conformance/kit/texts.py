"""Texts nobody chose, by Hypothesis: files in every spelling, lists, names and numbers.

What a text means is said by the contract; how it is written must not matter: order of lines, line
ends, a byte order mark, blanks around ``=`` and ``,``, comments, empty lines, a last line without
its end. Runs of one seed try the same texts; what fails is shrunk to the shortest text that does.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded_with
from hypothesis import strategies as st

from pytest_ascendcache.combinations.seed import chosen
from pytest_ascendcache.contract.aging import INI_RATIO, INI_SIZE
from pytest_ascendcache.observation import Run
from pytest_ascendcache.toolchains import ToolchainError

Check = TypeVar("Check", bound=Callable[..., None])


Case = Mapping[str, Any]
"""Arguments of a check for one text."""


def texts(
    examples: int, written: Iterable[Case] = (), alone: Iterable[Case] = ()
) -> Callable[[Check], Check]:
    """Has a check try texts, each for one run or two, and tell every one it fails with.

    Those that are ``written`` down come first, and then so many generated ``examples``. A failure
    does not end the check: the other texts may show other differences. Those that were written down
    are told first. Where only generated ones fail, the shortest text that does is looked for, and
    told alone.

    A written text may combine oddities, so that few runs try many. Where one fails, each of
    ``alone`` is tried, and what those fail with is told in its place: they name the culprit.
    """

    def decorate(check: Check) -> Check:
        tried = settings(
            max_examples=examples,
            derandomize=True,
            deadline=None,
            database=None,
            # A cache is made once a check and serves all of its texts.
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
            print_blob=False,
            # Several failures at once would come as a group, which says nothing to a reader.
            report_multiple_bugs=False,
        )(check)
        inner = tried.hypothesis.inner_test  # type: ignore[attr-defined]
        notes = _Notes(inner)
        first, single = tuple(written), tuple(alone)

        @functools.wraps(inner)
        def noted(*arguments: Any, **named: Any) -> None:
            notes.note(*arguments, **named)

        tried.hypothesis.inner_test = noted  # type: ignore[attr-defined]

        @functools.wraps(tried)
        def telling(*arguments: Any, **named: Any) -> None:
            notes.begin()
            for case in first:
                notes.note(*arguments, **named, **case)
            if notes.failures and single:
                together = notes.failures
                notes.begin()
                for case in single:
                    notes.note(*arguments, **named, **case)
                notes.failures = notes.failures or together
            notes.of_written = len(notes.failures)
            seeded_with(chosen() or None)(tried)  # None: the same in every run
            tried(*arguments, **named)
            if notes.failures and not notes.of_written:
                notes.begin(stop=True)
                tried(*arguments, **named)
            notes.tell()

        return cast("Check", telling)

    return decorate


_GENERATED = 3
"""How many generated texts are told beside those that were written down."""


class _Notes:
    """What a check said of each text, those that were written down first."""

    def __init__(self, check: Callable[..., None]) -> None:
        self._check = check
        self.failures: list[str] = []
        self.of_written = 0
        self._stop = False

    def begin(self, stop: bool = False) -> None:
        """Forget what was noted; ``stop`` at the first failure from now on."""
        self.failures, self.of_written = [], 0
        self._stop = stop

    def note(self, *arguments: Any, **named: Any) -> None:
        """Run the check on one text, and note how it fails."""
        try:
            self._check(*arguments, **named)
        except AssertionError as error:
            if self._stop:
                raise
            # What pytest adds says how the assertion came to be false, and hides the next text.
            said = str(error).partition("\nassert ")[0]
            if said not in self.failures:
                self.failures.append(said)

    def tell(self) -> None:
        """Fail with all that was noted, if anything was.

        Raises:
            AssertionError: with each difference of texts that were written down, and those of
                the shortest generated ones.
        """
        generated = sorted(self.failures[self.of_written :], key=len)
        told = [*self.failures[: self.of_written], *generated[:_GENERATED]]
        if len(told) > 1:
            head = f"{len(self.failures)} texts are not taken as they are written"
            readings = {each.rpartition(": as ")[2] for each in self.failures}
            # What all of them have in common is the cause, if they have anything.
            told = [f"{head}, each as {readings.pop()}" if len(readings) == 1 else head, *told]
        if told:
            raise AssertionError("\n".join(told))


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


PLAIN = Spelling()

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

TOGETHER = (
    Spelling(end="\r\n", around=" ", comma=", "),
    Spelling(around=" ", comma=" ,", mark=True, between="\n"),
    Spelling(around="\t", comma=", ", mark=True, trailing=" "),
    Spelling(end="\r\n", around="\t", comma=" ,", ended=False),
    Spelling(ended=False, between="\n", trailing=" "),
)
"""The same ways in few files: each in two of them, and no two ways in the same two, so that one
that is misread shows although another hides it."""


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


def plainly(text: str) -> str:
    """The same lines as nobody can take them for others: no mark, note, empty line or blank, and
    a last line that ends."""
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    told = (line for line in lines if line and not line.startswith("#"))
    return "".join(re.sub(r"[ \t]*([=,])[ \t]*", r"\1", line) + "\n" for line in told)


def shown(text: str | bytes) -> str:
    """A text as a message has it; of a long one the beginning and the end."""
    if len(text) <= _SHOWN:
        return repr(text)
    half = _SHOWN // 2
    return f"{text[:half]!r} ... {text[-half:]!r}"


_SHOWN = 600
"""Characters of a text that a message has at most."""


def taken(text: str, attempt: Callable[[str], Run]) -> Run:
    """The run with a file of this text. A file may be refused for what it says, which the same
    lines written plainly are too, and not for how that is written.

    Raises:
        AssertionError: where the text is refused, and the same lines written plainly are not.
        ToolchainError: where both are: no verdict rests on it.
    """
    run = attempt(text)
    if run.succeeded:
        return run
    plain = plainly(text)
    if plain != text and attempt(plain).succeeded:
        raise AssertionError(
            f"written plainly, {shown(plain)} is taken; {shown(text)} is refused: the compile "
            f"{run.result.ending}"
        )
    raise ToolchainError(f"the toolchain {run.result.failure}")


def near(word: str) -> st.SearchStrategy[str]:
    """Texts that are nearly, but not, the word: other case, shorter, longer, below a scope."""
    other = {word.upper(), word.lower(), word.swapcase(), word[:-1], f"{word}2", f"x{word}"}
    return st.sampled_from(sorted({*other, f"scope/{word}", f"{word}/part"} - {word}))


def lists_of(words: Sequence[str], most: int = 4) -> st.SearchStrategy[tuple[str, ...]]:
    """Lists of some of the words, in any order, and of texts nearly like them."""
    exact, nearly = st.sampled_from(words), st.one_of(*map(near, words))
    return st.lists(st.one_of(exact, exact, nearly), min_size=1, max_size=most).map(tuple)


NUMBERS = ("-1", "1", "2", "3", "50", "99", "100", "300", "500", "600")
ODD_NUMBERS = ("0310", "066", "0580", "019", "+310", "+66", " 310", f"{'0' * 40}310", "9" * 30)
"""Texts that are one number or none, and for some parser another one: octal, cut short, wrapped."""
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
    size = st.sampled_from((*NUMBERS, *ODD_NUMBERS))
    ratio = st.sampled_from(["1", "50", "066", "99", "100"])
    any_value = st.one_of(size, st.sampled_from(NO_NUMBERS))
    return st.one_of(
        st.fixed_dictionaries({INI_SIZE: size, INI_RATIO: ratio}),
        st.fixed_dictionaries({}, optional={INI_SIZE: any_value, INI_RATIO: any_value}),
    )
