"""Facts: what was expected and what was observed, as data that decides.

A check, a judge or a witness records facts. Verdict, harm, cause, headline, report, JUnit,
comparison, baseline and deviations are functions of facts; no text made for people decides
anything. A fact's :attr:`Fact.code` is its machine form: stable, the same in every language, and
without values that differ from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pytest_ascendcache.contract.outcome import Delivered, Fate, Outcome


class Aspect(str, Enum):
    """What was looked at."""

    OUTCOME = "outcome"  # where the kernel of an operator came from, and the fate of its entry
    ENTRY = "entry"  # the fate of an entry that no operator of the run owns
    KERNEL = "kernel"  # whose kernel was delivered
    NUMBERS = "numbers"  # what a delivered kernel computes
    AGING = "aging"  # which idle entries are gone
    FILES = "files"  # files outside of the cache, or in the wrong place
    ENDING = "ending"  # how a process ended
    LATER = "later"  # what further runs of the same request do
    WORDS = "words"  # messages
    CLAIM = "claim"  # a condition of a check that none of the above describes
    UNDECIDED = "undecided"  # what could not be told


class Delivery(str, Enum):
    """Whose kernel was delivered: what :attr:`Aspect.KERNEL` observes."""

    OWN = "own"  # that of a fresh compile of the same request
    ANOTHER = "another"  # another operator's, mode's, rank's or package's, or damaged bytes
    STALE = "stale"  # its own of an earlier compile, where a new one is due
    OLD_OUTPUT = "old-output"  # a file that lay in the output directory before
    UNVERIFIED = "unverified"  # one that no valid entry of the cache holds
    UNCHANGED = "unchanged"  # the same whatever the option under test says
    NOTHING = "nothing"  # no kernel, although the run reports success


class Ending(str, Enum):
    """How a process ended: what :attr:`Aspect.ENDING` observes."""

    SUCCESS = "success"
    REFUSAL = "refusal"  # a clear error on purpose; only ever expected
    FAILURE = "failure"
    CRASH = "crash"
    NO_END = "no-end"


class Later(str, Enum):
    """What further runs do: what :attr:`Aspect.LATER` observes."""

    WORKS = "works"
    FAILS = "fails"  # each of them
    COMPILES = "compiles"  # each of them, what it should reuse
    STORES_NOTHING = "stores-nothing"
    LACKS = "lacks"  # some of what was there before


class Aged(str, Enum):
    """Which idle entries are gone: what :attr:`Aspect.AGING` observes."""

    AS_DUE = "as-due"
    TOO_MANY = "too-many"
    TOO_FEW = "too-few"
    OTHERS = "others"
    HALF = "half"  # of a pair of files


class Place(str, Enum):
    """What became of files outside of the cache: what :attr:`Aspect.FILES` observes."""

    UNTOUCHED = "untouched"
    TOUCHED = "touched"
    MISPLACED = "misplaced"
    LEFT = "left"
    OPEN_TO_ALL = "open-to-all"
    DAMAGED = "damaged"  # what a run that ended well stored


class Words(str, Enum):
    """What a message says: what :attr:`Aspect.WORDS` observes."""

    AS_DUE = "as-due"
    MISSING = "missing"


class Numbers(str, Enum):
    """What a kernel computes: what :attr:`Aspect.NUMBERS` observes."""

    AS_PROMISED = "as-promised"
    WRONG = "wrong"
    WITHOUT_A_RANK = "without-a-rank"  # a network ended well although a rank was missing
    RANK_TWICE = "rank-twice"  # two processes of one number ended well


class SubjectKind(str, Enum):
    """What a promise is about."""

    OPTION = "option"
    VARIABLE = "variable"
    FILE = "file"
    EVENT = "event"
    FIELD = "field"  # of an operator


@dataclass(frozen=True)
class Subject:
    """The option, variable, file, event or operator field under test, as the documents spell it
    (``--op_compiler_cache_mode``), with its value."""

    kind: SubjectKind
    name: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name

    def as_dict(self) -> dict[str, str]:
        """Plain data, for reports."""
        return {"kind": self.kind.value, "name": self.name, "value": self.value}


class FactWitness(str, Enum):
    """What shows a fact. Never what the toolchain says of itself."""

    MARKER = "marker"
    FILES = "files"
    BYTES = "bytes"
    NUMBERS = "numbers"
    PROCESS = "process"
    OUTPUT = "output"
    CONDITION = "condition"


Code = Outcome | Enum | str
"""What is expected or observed: an outcome, a member of this module's enums, or a text."""


def coded(value: Code) -> str:
    """The machine form of what is expected or observed: ``compiled/stored``, ``stale``."""
    if isinstance(value, Outcome):
        return f"{value.delivered.value}/{value.entry.value}"
    return str(value.value) if isinstance(value, Enum) else value


@dataclass(frozen=True)
class Fact:
    """One deviation of what was observed from what was expected.

    ``observed`` and each of ``expected`` are in the form of :func:`coded`. ``about`` names the
    operator, entry or file, ``detail`` is a sentence for people; neither decides anything.
    ``subject`` is what was under test, None where the check does not say. ``run`` is the number of
    the run within the check, counted from 1; 0 if the fact is about none in particular.
    """

    aspect: Aspect
    observed: str
    expected: tuple[str, ...] = ()
    about: str = ""
    subject: Subject | None = None
    witness: FactWitness = FactWitness.FILES
    run: int = 0
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or self.code

    @classmethod
    def of(
        cls,
        aspect: Aspect,
        observed: Code,
        expected: Iterable[Code] = (),
        about: object = "",
        *,
        subject: Subject | None = None,
        witness: FactWitness | None = None,
        run: int = 0,
        detail: str = "",
    ) -> Fact:
        """A fact from typed values. ``witness`` is what usually shows the aspect, if not given."""
        allowed, shown_by = tuple(sorted(map(coded, expected))), witness or _WITNESSES[aspect]
        return cls(aspect, coded(observed), allowed, str(about), subject, shown_by, run, detail)

    @classmethod
    def seen(cls, observed: Enum, detail: str, about: object = "", **more: Any) -> Fact:
        """A fact whose aspect follows from what was observed (``Place.TOUCHED``), with a sentence
        for people without a full stop."""
        aspect, expected = ASPECTS[type(observed)]
        return cls.of(aspect, observed, expected, about, detail=detail, **more)

    @property
    def code(self) -> str:
        """The machine form: ``outcome reused/kept, not compiled/rewritten``."""
        expected = f", not {' or '.join(self.expected)}" if self.expected else ""
        return f"{self.aspect.value} {self.observed}{expected}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        data: dict[str, Any] = {
            "aspect": self.aspect.value,
            "observed": self.observed,
            "expected": list(self.expected),
            "about": self.about,
            "witness": self.witness.value,
            "run": self.run,
            "detail": self.detail,
            "code": self.code,
        }
        if self.subject is not None:
            data["subject"] = self.subject.as_dict()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Fact:
        """The fact that :meth:`as_dict` returned as plain data."""
        subject = data.get("subject")
        return cls(
            Aspect(data["aspect"]),
            data["observed"],
            tuple(data["expected"]),
            data["about"],
            Subject(SubjectKind(subject["kind"]), subject["name"], subject["value"])
            if subject
            else None,
            FactWitness(data["witness"]),
            data["run"],
            data["detail"],
        )


ASPECTS: dict[type[Enum], tuple[Aspect, tuple[Code, ...]]] = {
    Delivery: (Aspect.KERNEL, (Delivery.OWN,)),
    Ending: (Aspect.ENDING, (Ending.SUCCESS,)),
    Later: (Aspect.LATER, (Later.WORKS,)),
    Aged: (Aspect.AGING, (Aged.AS_DUE,)),
    Place: (Aspect.FILES, (Place.UNTOUCHED,)),
    Words: (Aspect.WORDS, (Words.AS_DUE,)),
    Numbers: (Aspect.NUMBERS, (Numbers.AS_PROMISED,)),
}
"""The aspect that members of an enum belong to, and what is expected of it."""

_WITNESSES = {
    **dict.fromkeys(Aspect, FactWitness.FILES),
    Aspect.OUTCOME: FactWitness.MARKER,
    Aspect.KERNEL: FactWitness.BYTES,
    Aspect.NUMBERS: FactWitness.NUMBERS,
    Aspect.ENDING: FactWitness.PROCESS,
    Aspect.LATER: FactWitness.MARKER,
    Aspect.WORDS: FactWitness.OUTPUT,
    Aspect.CLAIM: FactWitness.CONDITION,
    Aspect.UNDECIDED: FactWitness.CONDITION,
}
"""What usually shows an aspect."""


def outcome_fact(
    observed: Outcome | Fate | Delivered,
    allowed: Iterable[Outcome | Fate | Delivered],
    about: object = "",
    **more: Any,
) -> Fact:
    """The fact of an operator's outcome, or of an entry's fate, that is none of those allowed."""
    aspect = Aspect.ENTRY if isinstance(observed, Fate) else Aspect.OUTCOME
    return Fact.of(aspect, observed, allowed, about, **more)
