"""What a check did and saw, kept for the report."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from pytest_ascendcache.contract.harm import Harm

_SHOWN_FIELDS = 3


class NotDecidable(Exception):
    """A check cannot tell: what it rests on does not hold. Never a pass."""


@dataclass(frozen=True)
class Sighting:
    """Harm that was seen, and what was seen, in one sentence without a full stop."""

    harm: Harm
    what: str


class Witness(Protocol):
    """What can say, once a promise was found broken, which harm that did."""

    def seen(self) -> list[Sighting]:
        """What the last runs of the check show."""

    def afterwards(self) -> Sighting | None:
        """What the next runs show, which are made now: harm, or that the cache works again."""


@dataclass(frozen=True)
class PositiveControl:
    """What checks may take for granted of a toolchain.

    ``compiles``: a plain compile works; ``serves_marked``: a marked entry is served;
    ``relocates``: also from a copy of the cache; ``reuses``: an entry is served at all, marked or
    not, as far as is known. ``reason`` says why not. ``seconds`` is how long
    one compile took, ``used`` the seconds of a processor it and its observation used, where that
    could be seen.
    """

    compiles: bool = True
    serves_marked: bool = True
    relocates: bool = False
    reuses: bool = True
    reason: str = ""
    seconds: float = field(default=0.0, compare=False)
    used: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Step:
    """One process of a check: its command line, how it ended, what it changed.

    ``outcomes`` are "operator: outcome" lines, ``changes`` path -> kind of change. ``metadata``
    has the text of changed JSON files before and after, to be explained if anybody asks.
    """

    command: str
    ending: str
    outcomes: tuple[str, ...]
    changes: dict[str, str]
    output: str
    metadata: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain data; metadata is not part of it."""
        shown = (each.name for each in fields(self) if each.name != "metadata")
        return {name: getattr(self, name) for name in shown}

    def explained(self) -> Step:
        """The same step; changed metadata says which fields changed."""
        changes = dict(self.changes)
        for path, (before, after) in self.metadata.items():
            if path in changes:
                changes[path] += f" ({_field_changes(before, after)})"
        return replace(self, changes=changes, metadata={})


def _field_changes(before: str, after: str) -> str:
    from deepdiff import DeepDiff  # slow to import, and only broken promises are explained

    try:
        lines = DeepDiff(json.loads(before), json.loads(after)).pretty().splitlines()
    except ValueError:
        return "not JSON any more, or not before"
    shown = "; ".join(line.rstrip(".") for line in lines[:_SHOWN_FIELDS])
    return shown + ("; ..." if len(lines) > _SHOWN_FIELDS else "") or "the same fields"


@dataclass(frozen=True)
class Accuracy:
    """Errors of one operator under one implementation mode, in ulp of its data type, over
    ``inputs`` values whose exact result is finite."""

    operator: str
    mode: str
    max_ulp: float
    mean_ulp: float
    inputs: int


@dataclass(frozen=True)
class RankNote:
    """How one rank of a gang fared: in words, and the end of what it printed."""

    rank: int
    ending: str
    output: str = ""


@dataclass(frozen=True)
class RankEvent:
    """What a rank did, ``seconds`` after the ranks of its check began: ``start``, ``end``,
    ``compiled``, ``enter`` a rendezvous or ``leave`` it. For people; no verdict rests on it."""

    rank: str
    seconds: float
    event: str
    detail: str = ""


@dataclass(frozen=True)
class CacheSize:
    """What a cache held before and after one run: bytes, entries then, and how many of the
    entries before it the run removed (aged, purged or dropped)."""

    run: int
    before: int
    after: int
    entries: int
    removed: int


@dataclass
class Evidence:
    """Steps of one check in order; ``expected`` and ``observed`` where a comparison failed.

    ``readings`` name, for rules the document leaves open, what the toolchain chose. ``sandbox``
    is where everything happened, ``control`` what the positive control found wanting.
    ``accuracy`` has what was measured of delivered kernels, for the report's table; ``factors``,
    of a check of one combination, its level of each factor. ``ranks`` has a line a rank, for a
    check that several ranks do at the same time. ``crash`` is the kind of interruption the check
    makes, where it makes one. ``waited`` are the seconds in which ranks it started were running,
    ``asleep`` those in which one was seen to use no processor.
    ``notes`` are told under the rule whatever the verdict. ``harm`` is what was seen of the harm
    a broken promise did, in one sentence; ``harm_starts`` are the runs made to see it, which are
    not among ``starts``, and ``harm_seconds`` the seconds they took.
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
    compiles: int = 0
    starts: int = 0
    waited: float = 0.0
    asleep: float = 0.0
    ranks: list[RankNote] = field(default_factory=list)
    timeline: list[RankEvent] = field(default_factory=list)
    sizes: list[CacheSize] = field(default_factory=list)
    findings: list[dict[str, object]] = field(default_factory=list)
    _began: float | None = field(default=None, repr=False)
    _sightings: list[Sighting] = field(default_factory=list, repr=False)
    _witness: Witness | None = field(default=None, repr=False)

    def saw(self, harm: Harm, what: str) -> None:
        """Note harm where a check sees it; it counts only if the check finds a promise broken."""
        self._sightings.append(Sighting(harm, what))

    def ran(self, witness: Witness) -> None:
        """Remember who watched the last run: the one to be asked about harm."""
        self._witness = witness

    @property
    def sightings(self) -> list[Sighting]:
        """What was noted by :meth:`saw`."""
        return list(self._sightings)

    @property
    def witness(self) -> Witness | None:
        """Who watched the last run, if anybody did."""
        return self._witness

    def happened(self, rank: str, event: str, detail: str = "", at: float | None = None) -> None:
        """Note for the timeline what a rank did, now or ``at`` a time of the clock (seconds
        since the epoch, as the times of files are). The first note is where the line begins."""
        now = time.time()
        began = self._began = now if self._began is None else self._began
        seconds = max(0.0, round((now if at is None else at) - began, 3))
        self.timeline.append(RankEvent(rank, seconds, event, detail))

    def explain(self) -> None:
        """Work out, for a broken promise, what changed inside changed metadata."""
        self.steps = [step.explained() for step in self.steps]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for reports and for xdist."""
        # Not dataclasses.asdict: it copies every string of every step, for every check.
        shown = (each.name for each in fields(self) if not each.name.startswith("_"))
        data = {name: getattr(self, name) for name in shown}
        data["steps"] = [step.as_dict() for step in self.steps]
        for name in ("accuracy", "ranks", "timeline", "sizes"):
            data[name] = [vars(each) for each in data[name]]
        return data
