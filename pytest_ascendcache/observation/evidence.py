"""What a check did and saw, kept for the report."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from pytest_ascendcache.contract.facts import Fact, Subject

_SHOWN_FIELDS = 3


class NotDecidable(Exception):
    """A check cannot tell, because an assumption it rests on does not hold. Never a pass."""


class Witness(Protocol):
    """Watches runs and tells, after a promise was broken, what else is wrong."""

    def seen(self) -> list[Fact]:
        """What is wrong with the last runs of the check."""

    def afterwards(self) -> Fact | None:
        """What is wrong with further runs, which are made now; None if the cache works again."""


@dataclass(frozen=True)
class PositiveControl:
    """What checks may assume about a toolchain.

    ``compiles``: a plain compile works. ``serves_marked``: a marked entry is served. ``relocates``:
    it is also served from a copy of the cache. ``reuses``: entries are served at all, marked or
    not. ``reads_entries``: what is stored is object and metadata, which can be checked.
    ``finds_kernels``: kernels are to be found in what is delivered. ``reason`` says why not.
    ``own_ini``: the ``op_cache.ini`` that it makes, if limits are in it. ``seconds``
    is the duration of one compile with its observation.
    """

    compiles: bool = True
    serves_marked: bool = True
    relocates: bool = False
    reuses: bool = True
    reads_entries: bool = True
    finds_kernels: bool = True
    reason: str = ""
    own_ini: bytes = b""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Step:
    """One process of a check: its command line, its end, its changes. ``outcomes`` are lines
    "operator: outcome", ``codes`` the same in the form of ``contract.facts.coded``, empty for
    what cannot be told, ``subject`` what rules over the cache in it; ``changes`` maps paths to
    kinds of change. ``metadata`` has the text of changed JSON files before and after, to be
    explained later."""

    command: str
    ending: str
    outcomes: tuple[str, ...]
    changes: dict[str, str]
    output: str
    codes: tuple[str, ...] = ()
    subject: Subject | None = None
    metadata: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without metadata."""
        data = {name: value for name, value in vars(self).items() if name != "metadata"}
        return {**data, "subject": self.subject and self.subject.as_dict()}

    def explained(self) -> Step:
        """The same step, where changed metadata names the changed fields."""
        changes = dict(self.changes)
        for path, (before, after) in self.metadata.items():
            if path in changes:
                changes[path] += f" ({_field_changes(before, after)})"
        return replace(self, changes=changes, metadata={})


def _field_changes(before: str, after: str) -> str:
    from deepdiff import DeepDiff  # slow to import, and needed only for broken promises

    try:
        lines = DeepDiff(json.loads(before), json.loads(after)).pretty().splitlines()
    except (ValueError, RecursionError):
        return "not JSON, before or after"
    shown = "; ".join(line.rstrip(".") for line in lines[:_SHOWN_FIELDS])
    return shown + ("; ..." if len(lines) > _SHOWN_FIELDS else "") or "the same fields"


@dataclass(frozen=True)
class Accuracy:
    """Errors of one operator under one implementation mode, in ulp of its data type, over
    ``inputs`` values with a finite exact result."""

    operator: str
    mode: str
    max_ulp: float
    mean_ulp: float
    inputs: int


@dataclass(frozen=True)
class RankNote:
    """How one rank of a gang ended, in words, and the end of what it printed."""

    rank: int
    ending: str
    output: str = ""


@dataclass(frozen=True)
class RankEvent:
    """What a rank did, ``seconds`` after the first rank of its check started: ``start``, ``end``,
    ``compiled``, or ``enter`` or ``leave`` a rendezvous. For readers; no verdict rests on it."""

    rank: str
    seconds: float
    event: str
    detail: str = ""


@dataclass(frozen=True)
class CacheSize:
    """A cache before and after one run: bytes, entries afterwards, and how many of the earlier
    entries the run removed (aged, purged or dropped)."""

    run: int
    before: int
    after: int
    entries: int
    removed: int


@dataclass
class Evidence:
    """The steps of one check in order, with ``expected`` and ``observed`` if a comparison failed.

    ``sandbox`` is the check's directory, ``control`` what the positive control found missing.
    ``crash`` is the kind of interruption the check makes. ``readings`` name the toolchain's
    choice for rules the document leaves open. ``notes`` are shown under the rule whatever the
    verdict. ``harm`` describes the harm of a broken promise in one sentence; ``harm_starts``
    are the runs made to see it, not counted in ``starts``, and ``harm_seconds`` their duration.
    ``accuracy`` has measurements of delivered kernels. ``factors`` has the level of each
    factor, for a check of one combination, ``smallest`` those of the smallest one that shows
    the same. ``ranks`` has one note for each rank of a gang. ``waited`` are the seconds in
    which ranks were running, ``asleep`` those in which one used no processor. ``facts`` are
    what checks and judges found not to be as promised; they decide verdict, harm and cause.
    ``script`` shows a broken promise with the toolchain alone, see ``reports.script``.
    ``elementary`` says that the check asks whether something does anything at all, ``needs`` is the
    rule whose elementary check was broken before, so that this one was not run.
    """

    sandbox: str = ""
    control: str = ""
    steps: list[Step] = field(default_factory=list)
    expected: str = ""
    observed: str = ""
    crash: str = ""
    readings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    harm: str = ""
    harm_starts: int = 0
    harm_seconds: float = 0.0
    accuracy: list[Accuracy] = field(default_factory=list)
    factors: dict[str, str] = field(default_factory=dict)
    smallest: dict[str, str] = field(default_factory=dict)
    compiles: int = 0
    starts: int = 0
    waited: float = 0.0
    asleep: float = 0.0
    ranks: list[RankNote] = field(default_factory=list)
    timeline: list[RankEvent] = field(default_factory=list)
    sizes: list[CacheSize] = field(default_factory=list)
    findings: list[dict[str, object]] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    script: str = ""
    elementary: bool = False
    needs: str = ""
    _began: float | None = field(default=None, repr=False)
    _seen: list[Fact] = field(default_factory=list, repr=False)
    _witness: Witness | None = field(default=None, repr=False)
    _looking: bool = field(default=False, repr=False)
    _controls: bool = field(default=False, repr=False)
    _besides: dict[str, dict[str, Fact]] = field(default_factory=dict, repr=False)

    def found(self, observed: Enum | Fact, message: str, about: object = "", **more: Any) -> str:
        """Record what a check finds wrong, a fact or what was observed (see ``Fact.seen``). Returns
        the message, for the assertion that fails: ``assert not served,
        evidence.found(Delivery.STALE, "...")``."""
        if isinstance(observed, Fact):
            self.facts.append(replace(observed, detail=message))
        else:
            self.facts.append(Fact.seen(observed, message, about, **more))
        return message

    def saw(self, observed: Enum, detail: str) -> None:
        """Record harm where a check sees it (see ``Fact.seen``). It counts only if the check finds
        a promise broken."""
        self._seen.append(Fact.seen(observed, detail))

    def ran(self, witness: Witness) -> None:
        """Record who watched the last run and can be asked about harm."""
        self._witness = witness

    @property
    def seen(self) -> list[Fact]:
        """What :meth:`saw` recorded."""
        return list(self._seen)

    def saw_besides(self, rule: str, fact: Fact) -> None:
        """Record that a run broke another rule than the check asks about: one that holds after
        every run. The first fact of a kind is kept; nothing while harm is looked for."""
        if not self._looking:
            self._besides.setdefault(rule, {}).setdefault(fact.code, fact)

    @property
    def besides(self) -> dict[str, list[Fact]]:
        """What :meth:`saw_besides` recorded, by rule."""
        return {rule: [*facts.values()] for rule, facts in self._besides.items()}

    @property
    def is_looking(self) -> bool:
        """Whether the runs that are made now look for harm, after the check has ended."""
        return self._looking

    @property
    def only_collects(self) -> bool:
        """Whether what may never be is kept and breaks nothing: for harm, and for controls."""
        return self._looking or self._controls

    def serve_a_control(self) -> None:
        """Collect for a positive control. Checks break for themselves by what it meets."""
        self._controls = True

    def look(self, on: bool) -> None:
        """Begin or end looking for harm."""
        self._looking = on

    @property
    def witness(self) -> Witness | None:
        """Who watched the last run, or None."""
        return self._witness

    def happened(self, rank: str, event: str, detail: str = "", at: float | None = None) -> None:
        """Add an event of a rank to the timeline, for now or for the time ``at`` (seconds since the
        epoch, like file times). The timeline begins with the first event."""
        now = time.time()
        began = self._began = now if self._began is None else self._began
        seconds = max(0.0, round((now if at is None else at) - began, 3))
        self.timeline.append(RankEvent(rank, seconds, event, detail))

    def explain(self) -> None:
        """Name the changed fields in the metadata of every step, for a broken promise."""
        self.steps = [step.explained() for step in self.steps]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        # Not dataclasses.asdict: it copies every string of every step, for every check.
        data = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        data["steps"] = [step.as_dict() for step in self.steps]
        data["facts"] = [fact.as_dict() for fact in self.facts]
        for name in ("accuracy", "ranks", "timeline", "sizes"):
            data[name] = [vars(each) for each in data[name]]
        return data
