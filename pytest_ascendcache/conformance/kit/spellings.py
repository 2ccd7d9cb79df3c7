"""The table of spellings: the ways to write the text of an option, a variable or a file.

A way means the same as the plain text, may be refused cleanly, or names something else. Only
outcomes tell: of all operators, of idle entries, of the bytes of kernels, of HOME.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches.canary import kernel_code
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.shelf import Shelf
from pytest_ascendcache.conformance.kit.texts import NOTE, shown
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, Outcome
from pytest_ascendcache.contract import CacheMode, Fate
from pytest_ascendcache.contract.aging import MEGABYTE
from pytest_ascendcache.contract.facts import (
    Aged,
    Delivery,
    Ending,
    Fact,
    Place,
    Subject,
    SubjectKind,
    outcome_fact,
)
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.operators import OperatorSpec

IDLE = ("abcdef", 100 * MEGABYTE, 10, 9, 8, 7, 6, 5)
"""Six entries, the size of each (bytes), and how long each was idle (hours)."""
BYTES = "surrogateescape"
"""How texts hold bytes that are no UTF-8."""
LONG = "/".join(["a-directory-with-quite-a-long-name"] * 8)


class Reading(str, Enum):
    """What a run makes of a text."""

    SAME = "as it is written plainly"
    REFUSED = "as an error"
    LEFT_OUT = "as if it were left out"
    WARNED = "as if it were left out, with a warning"
    NAME = "as another name"
    WRONG = "as something else"


SAME = frozenset({Reading.SAME})
CLEAN = SAME | {Reading.REFUSED}
"""The documents do not say whether such a text is valid."""
NAMED = CLEAN | {Reading.NAME}
OTHER = NAMED - SAME
LIMIT = CLEAN | {Reading.LEFT_OUT}
"""A limit that is not valid does not count, or is refused."""
PACKAGE = CLEAN | {Reading.WARNED}
"""No document says what a path does that names no package."""


@dataclass(frozen=True)
class Way:
    """One way to write a text, by ``write(plain, cache)``; variables ``beside`` must not matter."""

    title: str
    write: Callable[[str, CacheUnderTest], str]
    allowed: frozenset[Reading] = SAME
    beside: Mapping[str, str] = field(default_factory=dict)


def _last(text: str, write: str) -> str:
    """A path whose last name is written in another way."""
    parent, name = os.path.split(text)
    return write.format(parent=parent, name=name, upper=name.upper(), above=Path(parent).name)


def _linked(text: str, cache: CacheUnderTest, whole: bool = False) -> str:
    """A path through a link to the parent, or of a link to the ``whole``."""
    path, link = Path(text), cache.sandbox / "a-link"
    link.symlink_to(path if whole else path.parent)
    return str(link if whole else link / path.name)


def _code_of(run: Run, operator: OperatorSpec) -> str:
    """A digest of what the delivered kernel computes: its name may tell the key."""
    return sha256(repr(kernel_code(run.kernel(operator))).encode())


def _framed(title: str, frame: str, allowed: frozenset[Reading] = SAME) -> Way:
    return Way(title, lambda text, _: frame.format(text), allowed)


def _moved(text: str, name: str) -> str:
    """Move a directory to another place, and leave a link to it."""
    place = Path(text).parent / name
    place.parent.mkdir(parents=True, exist_ok=True)
    Path(text).rename(place)
    Path(text).symlink_to(place)
    return str(place)


def _back_from_link(text: str, cache: CacheUnderTest) -> str:
    """A path that leaves a linked directory by ``..``: to the parent of what the link leads to."""
    path, link = Path(text), cache.sandbox / "apart" / "a-link"
    (path.parent / "below").mkdir(exist_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(path.parent / "below")
    return f"{link}/../{path.name}"


def _in_capitals(text: str, _: CacheUnderTest) -> str:
    """The name in capitals, or another one if the file system does not tell them apart."""
    capitals = _last(text, "{parent}/{upper}")
    return f"{capitals}X" if Path(capitals).exists() else capitals


def paths(allowed: frozenset[Reading] = SAME, link: frozenset[Reading] = SAME) -> tuple[Way, ...]:
    """Other ways to a file or directory, the last of which is a ``link``."""
    return (
        Way(
            "slashes and dots",
            lambda text, _: _last(text, "{parent}//.././{above}/{name}"),
            allowed,
        ),
        Way("a link on the way", _linked, allowed),
        Way("a link, and .. behind it", _back_from_link, allowed | link),
        Way("a link", lambda text, cache: _linked(text, cache, whole=True), allowed | link),
    )


def own_name(cache: CacheUnderTest) -> str:
    """A name that the toolchain itself gives to a directory of its cache."""
    return cache.layout.kernel_cache.name


SIGNS = "10:30 a,b;c=d#e%s[f]*{0}"
"""A name with signs that end a name elsewhere, or match others: in search paths, lists, ini files,
formats and patterns."""
_NAMES = (
    _framed("a slash at the end", "{}/"),
    Way("many letters of other scripts", lambda text, _: _moved(text, f"{LONG}/缓存-кэш")),
    Way("a name of its own", lambda text, cache: _moved(text, f"as/{own_name(cache)}")),
    Way("signs that separate elsewhere", lambda text, _: _moved(text, SIGNS), CLEAN),
)
DIRECTORIES = (
    *paths(link=CLEAN),
    *_NAMES,
    Way("an empty variable beside it", lambda text, _: text, SAME, {"ASCEND_CACHE_PATH": ""}),
)
HOMES = (
    *_NAMES,
    Way("a user of a domain", lambda text, _: _moved(text, "LAB+jo@lab.example"), SAME),
)
"""Nobody chooses the name of HOME in order to compile, so none that systems give is refused."""
DOCUMENTED = Way("the document's own name", lambda text, _: _moved(text, "网络模型.ini"))
RELATIVE = Way("a relative path", lambda text, cache: os.path.relpath(text, cache.work), CLEAN)
_AFFIXES = {
    "a blank before": " {}",
    "a blank after": "{} ",
    "a line end after": "{}\n",
    "CR after": "{}\r",
    "quotes": '"{}"',
}


def words(allowed: frozenset[Reading], **more: str) -> tuple[Way, ...]:
    """A word, a number or a path in frames that the documents do not mention."""
    frames = {**_AFFIXES, **{title.replace("_", " "): frame for title, frame in more.items()}}
    return tuple(_framed(title, frame, allowed) for title, frame in frames.items())


def modes(allowed: frozenset[Reading]) -> tuple[Way, ...]:
    """A mode in frames and capitals: nothing says that they are refused, or that they are not."""
    return (
        *words(allowed),
        Way("upper case", lambda text, _: text.upper(), allowed),
        Way("a capital", lambda text, _: text.capitalize(), allowed),
    )


def other_paths(allowed: frozenset[Reading]) -> tuple[Way, ...]:
    """What is literally another path, though a program may read it as it is meant."""
    return (
        *words(allowed, a_scheme="file://{}", single_quotes="'{}'"),
        Way("upper case", _in_capitals, allowed - SAME),
        Way("~", lambda text, cache: f"~/{os.path.relpath(text, cache.home)}", allowed),
    )


def _lines(title: str, line: str, allowed: frozenset[Reading]) -> Way:
    return Way(
        title, lambda text, _: "".join(line.format(each) for each in text.splitlines()), allowed
    )


def _respaced(title: str, equals: str, comma: str) -> Way:
    return Way(title, lambda text, _: text.replace("=", equals).replace(",", comma))


_GBK = "#限制大小".encode("gbk").decode(errors=BYTES)


def files(odd: frozenset[Reading] = CLEAN) -> tuple[Way, ...]:
    """A file of lines as users write it and editors save it."""
    return (
        Way(
            "CRLF and no last line end",
            lambda text, _: text.removesuffix("\n").replace("\n", "\r\n"),
        ),
        _respaced("blanks around = and after commas", " = ", ", "),
        _respaced("tabs around =, and blanks before commas", "\t=\t", " ,"),
        _framed("a byte order mark", "\ufeff{}", odd),
        _lines("empty lines and blanks at the end", "{} \n\n", SAME),
        _lines("notes", f"{NOTE}{{0}}0\n{{0}}\n# a note\n", SAME),
        _lines("notes in GBK", f"{{}}\n{_GBK}\n", CLEAN),
        _lines("CR", "{}\r", odd),
        _lines("indentation", "  {}\n", odd),
        _lines("each line twice", "{0}\n{0}\n", odd),
    )


def _replaced(title: str, old: str, new: str, allowed: frozenset[Reading] = SAME) -> Way:
    return Way(title, lambda text, _: text.replace(old, new), allowed)


def items(first: str, second: str, behind: str = "") -> tuple[Way, ...]:
    """A list that begins with these items: in another order, with odd commas, behind many others.
    ``first`` may become another name."""
    both, turned = f"{first},{second}", f"{second},{first}"
    return (
        _replaced("another order", both, turned),
        _replaced("an item twice", both, f"{turned},{second},{first}"),
        _replaced("many others before", both, f"{behind},{both}"),
        _replaced("a blank after a comma", both, f"{second}, {first}", NAMED),
        _replaced("a blank before a comma", both, f"{second},{first} ", NAMED),
        _replaced("quotes", both, f'{second},"{first}"', NAMED),
        _replaced("another case", first, first.upper(), NAMED),
        _replaced("a longer name", first, f"{first}2", OTHER),
        _replaced("a doubled comma", both, f"{first},,{second}", CLEAN),
        _replaced("a comma before", both, f",{both}", CLEAN),
        _replaced("a blank before", both, f" {both}", NAMED),
    )


def _both(one: Way, other: Way) -> Callable[[str, CacheUnderTest], str]:
    return lambda text, cache: other.write(one.write(text, cache), cache)


@dataclass(frozen=True)
class SpellingOutcome:
    """What runs did with a text: the outcome of each operator, or the digest of its kernel where
    only bytes tell the difference; the idle entries that are gone; whether HOME was used."""

    operators: tuple[tuple[OperatorSpec, Outcome | Fate | str], ...] = ()
    gone: str = ""
    home: bool = False
    failure: str = ""
    refused: bool = False
    """Whether the run failed cleanly: by itself, with nothing delivered or changed."""
    warned: bool = field(default=False, compare=False)
    """Whether the run's words name the thing."""


@dataclass(frozen=True)
class Thing:
    """An option, a variable or a file, and the ways to write its text.

    ``plain`` is the text for a cache under test; ``give`` turns a text into keywords of a compile,
    None leaves it out; ``unlike`` is a text that names something else. Operators are compiled in
    the first of ``modes``, one of them in others. With ``bytes`` their kernels count, else their
    outcomes beside their entries, stored ``with_text`` if entries depend on it. With ``limits``
    idle entries count.
    A ``literal`` name is one that is used: whatever is read so leaves HOME alone. Where leaving the
    text out changes nothing, it is given as ``instead`` says. So many pairs of ways are ``drawn``.
    """

    name: str
    kind: SubjectKind
    rule: str
    plain: Callable[[CacheUnderTest], str]
    give: Callable[[CacheUnderTest, str | None], dict[str, Any]]
    ways: tuple[Way, ...]
    modes: tuple[CacheMode, ...] = (ENABLE,)
    unlike: str | None = None
    bytes: bool = False
    limits: bool = False
    with_text: bool = False
    literal: bool = False
    drawn: int = 0
    instead: Callable[[CacheUnderTest, str | None], dict[str, Any]] | None = None

    def __str__(self) -> str:
        return self.name.removeprefix("--")


@dataclass
class Spelled:
    """Tries the ways of a thing, each in a cache of its own that was warmed with operators."""

    thing: Thing
    cache: CacheUnderTest
    operators: tuple[OperatorSpec, ...]
    _numbers: Iterator[int] = field(default_factory=count)

    def facts(self) -> list[Fact]:
        """The texts that are not read as they may be. Raises ``NotDecidable`` if the run with the
        plain text fails, or does the same without it, so that nothing tells how it is read."""
        thing, plainly = self.thing, Way("plain", lambda text, _: text)
        (plain, _), (absent, _) = self._see(plainly), self._see(None)
        if plain.failure:
            raise NotDecidable(f"{thing.name}: the toolchain {plain.failure}")
        if plain == absent and thing.instead is not None:
            other = replace(thing, give=thing.instead, instead=None)
            return Spelled(other, self.cache, self.operators, self._numbers).facts()
        if plain == absent:
            raise NotDecidable(f"leaving {thing.name} out changes nothing that could be seen")
        if thing.bytes and self._see(plainly)[0] != plain:
            raise NotDecidable("two fresh compiles give different kernels")
        alike = {Reading.SAME: plain, Reading.LEFT_OUT: absent}
        if thing.literal:
            alike[Reading.NAME] = replace(absent, home=False)
        if thing.unlike is not None:
            alike[Reading.NAME] = self._see(plainly, thing.unlike)[0]
        found: list[Fact] = []
        for way in (*thing.ways, *self._drawn()):
            seen, text = self._see(way)
            readings = [each for each, other in alike.items() if seen == other]
            readings += [Reading.REFUSED] if seen.refused else []
            readings += [Reading.WARNED] if seen.warned and seen == absent else []
            if not way.allowed.intersection(readings):
                reading = (*readings, Reading.WRONG)[0]
                detail = f"{thing.name} with {way.title}, {shown(text)}, is read {reading.value}"
                is_word = (
                    thing.kind is SubjectKind.OPTION and "/" not in text and text.isprintable()
                )
                subject = Subject(thing.kind, thing.name, text if is_word else "")
                another = alike.get(Reading.NAME, absent)
                is_name = Reading.SAME not in way.allowed and seen != another
                expected = another if is_name else plain
                found += self._difference(expected, seen, detail, subject)
        return found

    def _drawn(self) -> Iterator[Way]:
        """Ways that the run's seed draws: two ways at once, each of which means the same."""
        chance = random.Random(f"{seeded()} {self.thing.name}")
        same = [each for each in self.thing.ways if each.allowed == SAME]
        for _ in range(self.thing.drawn):
            one, other = (same[each] for each in sorted(chance.sample(range(len(same)), 2)))
            yield Way(f"{one.title}, {other.title}", _both(one, other))

    def _see(self, way: Way | None, text: str | None = None) -> tuple[SpellingOutcome, str]:
        thing, state = self.thing, self._state()
        plain = thing.plain(state) if text is None else text
        text = None if way is None else way.write(plain, state)
        given = thing.give(state, text)
        given["environment"] = {**(way.beside if way else {}), **given.get("environment", {})}
        shelf = Shelf(state).lay(*IDLE) if thing.limits else None
        operators: list[tuple[OperatorSpec, Outcome | Fate | str]] = []
        failure, refused, warned, compiled = "", False, False, self.operators
        for mode in thing.modes:
            run = state.attempt(*compiled, **{"mode": mode, **given})
            warned |= thing.name in run.output
            if not run.succeeded:
                failure, code = run.result.failure, run.returncode
                changed = any(run.result.delivered) or run.entry_changes
                refused = not (code is None or code <= 0 or crashed(code) or changed)
                break
            if not thing.limits:  # unmarked entries tell nothing
                tell = partial(_code_of, run) if thing.bytes else run.__getitem__
                others = self.operators[len(compiled) :]
                operators += [(each, tell(each)) for each in compiled]
                operators += [(each, state.fate(run, each)) for each in others]
            if not any(isinstance(seen, Outcome) and seen.reused for _, seen in operators):
                break  # the warmed cache was not used
            compiled = compiled[:1]
        gone, home = shelf.gone() if shelf else "", (state.home / "atc_data").exists()
        seen = SpellingOutcome(tuple(operators), gone, home, failure, refused, warned)
        return seen, text or ""

    def _state(self) -> CacheUnderTest:
        thing = self.thing
        state = self.cache.moved(self.cache.sandbox / f"spelled{next(self._numbers)}")
        if thing.name == "HOME":
            state = state.elsewhere(state.home / "atc_data")
        state.work = state.work / "below"  # HOME is not at the same depth
        state.work.mkdir(exist_ok=True)
        state.marks = state.marks and not thing.limits
        if thing.with_text:
            environment = thing.give(state, thing.plain(state))["environment"]
            state.prepare(
                ("spelled", thing.name),
                lambda: state.warm(*self.operators, environment=environment),
            )
        elif not thing.bytes:
            state.warm(*self.operators)
        return state

    def _difference(
        self, expected: SpellingOutcome, seen: SpellingOutcome, detail: str, subject: Subject
    ) -> Iterator[Fact]:
        """The facts that a text makes a difference: those of operators, or else one of the run."""
        run = len(self.cache.evidence.steps)
        facts = [
            Fact.seen(Delivery.ANOTHER, detail, operator, subject=subject, run=run)
            if isinstance(one, str) or isinstance(other, str)
            else outcome_fact(one, [other], operator, subject=subject, run=run, detail=detail)
            for (operator, one), (_, other) in zip(seen.operators, expected.operators, strict=False)
            if one != other
        ]
        if seen.failure:
            yield Fact.seen(Ending.FAILURE, f"{detail}: {seen.failure}", subject=subject, run=run)
        elif facts:
            yield from facts
        elif seen.gone != expected.gone:
            yield Fact.seen(Aged.OTHERS, f"{detail}: {seen.gone or 'none'} gone", subject=subject)
        else:
            yield Fact.seen(Place.MISPLACED, detail, subject=subject, run=run)
