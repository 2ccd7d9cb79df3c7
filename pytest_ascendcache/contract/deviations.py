"""Known deviations: lists of broken promises that are expected, with the reason.

A list is a TOML file of ``[[deviation]]`` entries. This module reads lists, matches faults against
their entries, and works out which entries still occur. The verdict *known deviation* itself is
made with all other verdicts, in ``plugin/verdicts.py``.

An entry names a rule, the check that finds it broken, and what the check observes, so that it does
not cover a new fault of the same rule or check.

=============  ================================================================================
``rule``       the rule's id
``check``      the check's name within its module as pytest shows it (``test_x[case]``), with
               patterns between the brackets only
``observed``   a pattern, or a list of patterns, of the codes of the check's facts, as the JSON
               report has them (``evidence.facts``); each fact must match one
``reason``     why the deviation is accepted
``harm``       optional: the worst harm it is known to do (default: lost work)
``cell``       optional: a table of the check's factors, each with a value or a list of values
``link``       optional: an address
``toolchain``  optional: a pattern of toolchains' names, if the list is about several
``edition``    optional: the edition, or editions, that promise otherwise
``sometimes``  optional: true if it shows in some runs only, so that a run without it proves nothing
=============  ================================================================================

In patterns ``*`` is any text and ``?`` any character; brackets are literal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.editions import Edition, NoEditionError, editions, named
from pytest_ascendcache.contract.facts import Aspect
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.renamed import names_in_module
from pytest_ascendcache.contract.rules import load_rules
from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.files import read_text
from pytest_ascendcache.words import instead

_LISTS = Path(__file__).parent / "deviations"
_FIELDS = (
    "rule",
    "check",
    "observed",
    "harm",
    "combination",
    "reason",
    "link",
    "toolchain",
    "edition",
    "sometimes",
)
_NEEDED = ("rule", "check", "observed", "reason")
_TEXTS = ("rule", "check", "reason", "link", "toolchain")


class DeviationFileError(ValueError):
    """A list of deviations is invalid. The text is one sentence for its author."""


@dataclass(frozen=True)
class BrokenPromise:
    """A broken promise: the rule, the check (a node id) that found it, the codes of its facts, and
    its harm."""

    rule: str
    check: str
    factors: Mapping[str, str]
    facts: tuple[str, ...]
    harm: Harm | None = None


@dataclass(frozen=True)
class Deviation:
    """One entry of a list. ``origin`` is the list's name and the entry's number."""

    origin: str
    rule: str
    reason: str
    check: str
    observed: tuple[str, ...]
    harm: Harm = Harm.LOST_WORK
    cell: tuple[tuple[str, tuple[str, ...]], ...] = ()
    link: str = ""
    toolchain: str = "*"
    editions: tuple[str, ...] = ()
    sometimes: bool = False

    def is_about(self, toolchain: str) -> bool:
        """Whether the entry applies to the toolchain of this name."""
        return _matches(toolchain, self.toolchain)

    def is_by(self, judged_by: Iterable[Edition]) -> bool:
        """Whether the entry applies to one of these editions."""
        return not self.editions or any(each.name in self.editions for each in judged_by)

    def matches(self, fault: BrokenPromise) -> bool:
        """Whether the entry covers a fault: the same check and facts, and no worse harm."""
        return (
            self.names(fault.rule, fault.check, fault.factors)
            and bool(fault.facts)
            and all(any(_matches(fact, each) for each in self.observed) for fact in fault.facts)
            and (fault.harm is None or fault.harm.rank >= self.harm.rank)
        )

    def may_name(self, check: str) -> bool:
        """Whether the entry may name this check (a node id), whatever the rule and factors."""
        return any(_matches(name, self.check) for name in names_in_module(check))

    def names(self, rule: str, check: str, factors: Mapping[str, str]) -> bool:
        """Whether the entry names this check (a node id, in whatever module, by its present or a
        former name) of this rule, with one of the listed values of each factor of its cell."""
        return (
            rule == self.rule
            and self.may_name(check)
            and all(factors.get(factor) in values for factor, values in self.cell)
        )


class Occurrence(str, Enum):
    """Whether a deviation occurred in a run of the whole suite.

    ``UNDECIDED``: its checks were undecided, it shows in some runs only, or this toolchain does not
    support its combinations.
    """

    OCCURS = "occurs"
    GONE = "no longer occurs"
    NOTHING = "matches nothing"
    UNDECIDED = "undecided"


STALE = (Occurrence.GONE, Occurrence.NOTHING)
"""Entries with these results should be removed from their list."""


@dataclass(frozen=True)
class Judged:
    """The fields of a verdict record that count here. ``entry`` is the origin of the deviation
    that covers it, if any."""

    rule: str
    check: str
    factors: Mapping[str, str]
    verdict: Verdict
    entry: str = ""


def occurrences(
    entries: Sequence[Deviation], judged: Iterable[Judged]
) -> list[tuple[Deviation, Occurrence]]:
    """Whether each entry occurred in a run of the whole suite."""
    records = list(judged)
    tried = {factor for record in records for factor in record.factors}
    return [(entry, _occurrence(entry, records, tried)) for entry in entries]


def _occurrence(entry: Deviation, records: Sequence[Judged], tried: set[str]) -> Occurrence:
    if tried and not {factor for factor, _ in entry.cell} <= tried:
        return Occurrence.UNDECIDED
    named = [each for each in records if entry.names(each.rule, each.check, each.factors)]
    if not named:
        return Occurrence.NOTHING
    if any(each.entry == entry.origin for each in named):
        return Occurrence.OCCURS
    verdicts = {each.verdict for each in named}
    undecided = Verdict.UNDECIDED in verdicts or verdicts == {Verdict.NOT_APPLICABLE}
    if undecided or entry.sometimes:
        return Occurrence.UNDECIDED
    return Occurrence.GONE  # the promise is kept, or broken in another way


def builtin_lists() -> list[str]:
    return sorted(path.stem for path in _LISTS.glob("*.toml"))


def load_deviations(name: str) -> tuple[Deviation, ...]:
    """Load a built-in list by its name, or a file by its path. Raises ``DeviationFileError``."""
    builtin = name in builtin_lists()
    path = _LISTS / f"{name}.toml" if builtin else Path(name)
    if not builtin and path.suffix != ".toml" and not path.exists():
        raise DeviationFileError(
            f"'{name}' is neither a built-in list ({', '.join(builtin_lists())}) nor a file; "
            f"{instead(path.name, [*builtin_lists(), *map(str, Path().glob('*.toml'))])}"
        )
    try:
        content = tomllib.loads(read_text(path, "utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviationFileError(f"{name} is not TOML: {error}.") from None
    except OSError as error:
        raise DeviationFileError(f"{name} cannot be read ({error.strerror}).") from None
    return parse_deviations(content, name)


def parse_deviations(content: Mapping[str, Any], name: str) -> tuple[Deviation, ...]:
    """The entries in the TOML content of the list ``name``. Raises ``DeviationFileError``."""
    unknown = sorted(set(content) - {"deviation"})
    if unknown:
        raise DeviationFileError(
            f"{name}: '{unknown[0]}' is unknown; a list has [[deviation]] entries only."
        )
    entries = content.get("deviation", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise DeviationFileError(f"{name}: 'deviation' is not a list; begin entries [[deviation]].")
    return tuple(
        _entry(fields, f"{name}, entry {number}") for number, fields in enumerate(entries, start=1)
    )


def _entry(fields: Mapping[str, Any], origin: str) -> Deviation:
    rule = fields.get("rule")
    where = f"{origin} (rule '{rule}')" if isinstance(rule, str) else origin
    if unknown := [key for key in fields if key not in _FIELDS]:
        raise DeviationFileError(
            f"{where}: the key '{unknown[0]}' is unknown; an entry takes {', '.join(_FIELDS)}."
        )
    for key in _NEEDED:
        if key not in fields:
            raise DeviationFileError(f"{where}: '{key}' is missing; every entry needs one.")
    for key in _TEXTS:
        value = fields.get(key, "-")
        if not isinstance(value, str) or not value.strip():
            raise DeviationFileError(f"{where}: '{key}' is {value!r}; write a text.")
    if fields["rule"] not in load_rules():
        raise DeviationFileError(
            f"{where}: there is no such rule; name one rule as in the summary's table."
        )
    if {"*", "?"} & set(fields["check"].partition("[")[0]):
        raise DeviationFileError(
            f"{where}: 'check' is {fields['check']!r}; name one check, with patterns between its "
            "brackets only: test_x[*]."
        )
    if not isinstance(sometimes := fields.get("sometimes", False), bool):
        raise DeviationFileError(f"{where}: 'sometimes' is {sometimes!r}; write true or false.")
    return Deviation(
        origin=origin,
        rule=fields["rule"],
        reason=fields["reason"],
        check=fields["check"],
        observed=_observed(fields["observed"], where),
        harm=_harm(fields.get("harm", Harm.LOST_WORK.value), where),
        cell=_cell(fields.get("combination", {}), where),
        link=fields.get("link", ""),
        toolchain=fields.get("toolchain", "*"),
        editions=_editions(fields.get("edition", []), where),
        sometimes=sometimes,
    )


def _listed(value: Any) -> list[Any]:
    """A value that may be a list or a single item, as a list."""
    return value if isinstance(value, list) else [value]


def _editions(value: Any, where: str) -> tuple[str, ...]:
    try:
        return tuple(named(str(each)).name for each in _listed(value))
    except NoEditionError as error:
        known = ", ".join(each.name for each in editions())
        raise DeviationFileError(f"{where}: {error}; use one of {known}.") from None


def _observed(value: Any, where: str) -> tuple[str, ...]:
    patterns = _listed(value)
    if not patterns or not all(isinstance(each, str) and each.strip(" *?") for each in patterns):
        raise DeviationFileError(
            f"{where}: 'observed' is {value!r}; write the codes of the check's facts, as the JSON "
            "report has them, with * for what differs from run to run."
        )
    aspects = [each.value for each in Aspect]
    if texts := [each for each in patterns if each.partition(" ")[0] not in aspects]:
        raise DeviationFileError(
            f"{where}: 'observed' is {texts[0]!r}, which is no code of a fact; take the code from "
            "evidence.facts in the JSON report, such as 'outcome reused/kept, not compiled/stored'."
        )
    return tuple(patterns)


def _harm(value: Any, where: str) -> Harm:
    kinds = [each.value for each in Harm]
    if value not in kinds:
        raise DeviationFileError(f"{where}: 'harm' is {value!r}; use one of {', '.join(kinds)}.")
    return Harm(value)


def _cell(value: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise DeviationFileError(
            f"{where}: 'combination' is {value!r}; write a table: factor = value."
        )
    cell = []
    for factor, chosen in value.items():
        values = _listed(chosen)
        if not values or not all(isinstance(each, str) for each in values):
            raise DeviationFileError(
                f"{where}: the factor '{factor}' is {chosen!r}; write a text or a list of texts."
            )
        cell.append((factor, tuple(values)))
    return tuple(cell)


def _matches(text: str, pattern: str) -> bool:
    # The names of parametrized checks contain brackets, so they must not mean character classes.
    return fnmatchcase(text, pattern.replace("[", "[[]"))
