"""What the runs of a life show, for each question that a check asks of the life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.contract.facts import Aspect, Fact
from pytest_ascendcache.observation import Evidence, NotDecidable
from pytest_ascendcache.observation.aftermath import CacheWitness


class Question(Enum):
    """What a check asks of a life: the id of its case, and the rule that the case judges."""

    OUTCOMES = "outcomes", "combinations/outcome"
    KERNELS = "kernels", "cache-mode/transparent"
    NUMBERS = "numbers", "combinations/numbers"
    MODES = "modes", "impl-mode/precision-file"
    TYPES = "types", "impl-mode/type-list"
    TABLES = "tables", "impl-mode/for-all"
    INERT = "inert", "cache-mode/disable-is-inert"
    HEALING = "healing", "robust/heals-damaged-entry"
    AGING = "aging", "aging/oldest-first"
    SOURCES = "sources", "aging/ini-beats-environment"
    HALVES = "halves", "aging/ini-needs-both-keys"
    BAD = "bad", "aging/bad-values"
    OFF = "off", "aging/minus-one"
    RENEWS = "renews", "aging/hit-renews"
    CHIPS = "chips", "aging/per-soc"
    CREATED = "created", "aging/creates-ini"
    ORPHANS = "orphans", "aging/orphans"
    MOUNT = "mount", "aging/works-on-relatime"
    SHARED = "shared", "cache-mode/key-ignores-names"
    SPARED = "spared", "cache-mode/force-spares-other-soc"
    PURGED = "purged", "cache-mode/force-purges-soc"
    UPGRADE = "upgrade", "robust/upgrade-stamp"
    PRIVATE = "private", "security/private-modes"
    LINKS = "links", "security/no-symlink-follow"
    NAMES = "names", "security/no-path-escape"
    PLACE = "place", "cache-mode/directory-precedence"

    def __init__(self, case: str, rule: str) -> None:
        self.case = case
        self.rule = rule


@dataclass(frozen=True)
class _Watch:
    """The witness of a life, limited to the harm that belongs to one question."""

    witness: CacheWitness
    question: Question

    def seen(self) -> list[Fact]:
        outside = self.question in (Question.LINKS, Question.NAMES, Question.PLACE)
        return self.witness.seen(outside)

    def afterwards(self) -> Fact | None:
        asks = self.question in (Question.OUTCOMES, Question.KERNELS, Question.HEALING)
        return self.witness.afterwards() if asks else None


@dataclass
class Findings:
    """The facts of a life by question, the questions that came up, and why some cannot be decided.
    ``runs`` names the runs by the number of their step, from 1; ``number`` is that of the last
    one."""

    number: int = 0
    runs: dict[int, str] = field(default_factory=dict)
    facts: dict[Question, list[Fact]] = field(default_factory=dict)
    undecided: dict[Question, str] = field(default_factory=dict)
    asked: set[Question] = field(default_factory=set)

    def begin(self, what: str, number: int) -> None:
        """A run with this name follows."""
        self.number, self.runs[number] = number, what

    def again(self, number: int) -> None:
        """The run was made once more, in another spelling, and now has this number."""
        self.begin(self.runs.pop(self.number), number)

    def note(self, question: Question, facts: Iterable[Fact]) -> None:
        if facts := list(facts):
            self.facts.setdefault(question, []).extend(facts)

    def deviates(
        self, question: Question, observed: Enum, detail: str, about: str = "", **more: Any
    ) -> None:
        """Note what was observed in the last run instead of what is promised."""
        self.note(question, [Fact.seen(observed, detail, about, run=self.number, **more)])

    def claims(self, question: Question, claim: str, detail: str) -> None:
        """Note a condition that does not hold after the last run, and that no enum describes."""
        self.note(question, [Fact.of(Aspect.CLAIM, claim, run=self.number, detail=detail)])

    @contextmanager
    def telling(self, question: Question) -> Iterator[None]:
        """Note why a question cannot be answered in the block, if it cannot."""
        try:
            yield
        except NotDecidable as reason:
            self.cannot_tell(question, reason)

    def cannot_tell(self, question: Question, reason: object) -> None:
        """Note why the last run does not answer a question."""
        text = f"run {self.number}, {self.runs[self.number]}: {reason}"
        self.undecided.setdefault(question, text)

    def answer(self, question: Question, evidence: Evidence, witness: CacheWitness) -> None:
        """Break the check with the facts of a question. Raises NotDecidable if it has no answer."""
        evidence.ran(_Watch(witness, question))
        require_none(self.facts.get(question, []), evidence, runs=self.runs)
        if question in self.undecided:
            raise NotDecidable(self.undecided[question])
        if question not in self.asked:
            if any(each.aspect is Aspect.ENDING for each in self.facts.get(Question.OUTCOMES, ())):
                evidence.needs = Question.OUTCOMES.rule  # runs failed, and showed nothing
            raise NotDecidable(f"the cache never came to where its {question.case} can be seen")
