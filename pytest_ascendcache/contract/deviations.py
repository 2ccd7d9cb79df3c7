"""Known deviations: broken promises a list names beforehand, with the reason.

A list is a TOML file of ``[[deviation]]`` entries. Here it is read and matched, and what became
of each entry is worked out; that a broken promise becomes *known deviation* is decided where
every verdict is made (``judging``).

An entry says which check breaks which rule, and what that check observes, so that a new fault of
the same rule, or of the same check, is none of it. Required: ``rule``, its id; ``check``, its name
within its module as pytest shows it (``test_x[case]``; patterns between the brackets only);
``observed``, a pattern of what it says, or a list of them; ``reason``. ``harm`` is the worst harm
it is known to do; unless it is given, that is lost work. ``cell`` (a table: factor of a check ->
value, or list of values), ``link``, ``toolchain`` (pattern of the names of those it is about,
where a list is about several) and ``edition`` (name, or list of names, of those whose documents
promise otherwise) may be left out. In patterns ``*`` is any text and ``?`` any
character; brackets mean themselves; what a check says is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.editions import Edition, NoEditionError, editions, named
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.renamed import names_in_module
from pytest_ascendcache.contract.rules import load_rules
from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.files import read_text
from pytest_ascendcache.words import instead

_LISTS = Path(__file__).parent / "deviations"
_FIELDS = ("rule", "check", "observed", "harm", "cell", "reason", "link", "toolchain", "edition")
_NEEDED = ("rule", "check", "observed", "reason")
_TEXTS = ("rule", "check", "reason", "link", "toolchain")


class DeviationFileError(ValueError):
    """A list of deviations that cannot be used; the text is one sentence for its author."""


@dataclass(frozen=True)
class Fault:
    """A broken promise: which check of which rule found it, what it said, and the harm it saw.
    ``check`` is a node id."""

    rule: str
    check: str
    factors: Mapping[str, str]
    message: str
    harm: Harm | None = None


@dataclass(frozen=True)
class Deviation:
    """One entry of a list. ``origin`` says which: the list's name, and the entry's number."""

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

    def is_about(self, toolchain: str) -> bool:
        """Whether the entry says something of the toolchain of this name."""
        return _matches(toolchain, self.toolchain)

    def is_by(self, judged_by: Iterable[Edition]) -> bool:
        """Whether what the entry says is a deviation by one of these editions."""
        return not self.editions or any(each.name in self.editions for each in judged_by)

    def matches(self, fault: Fault) -> bool:
        """Whether this is what the entry is about: the check, what it saw, and no worse harm."""
        said = " ".join(fault.message.split())
        return (
            self.names(fault.rule, fault.check, fault.factors)
            and any(_matches(said, each) for each in self.observed)
            and (fault.harm is None or fault.harm.rank >= self.harm.rank)
        )

    def may_name(self, check: str) -> bool:
        """Whether the entry may mean this check (a node id), of whatever rule and factors."""
        return any(_matches(name, self.check) for name in names_in_module(check))

    def names(self, rule: str, check: str, factors: Mapping[str, str]) -> bool:
        """Whether the entry means this check of this rule.

        ``check`` is a node id; its module does not matter, and a former name will do. A cell means
        checks that have all of its factors, each with one of the listed values.
        """
        return (
            rule == self.rule
            and self.may_name(check)
            and all(factors.get(factor) in values for factor, values in self.cell)
        )


class Occurrence(str, Enum):
    """What a whole run says of an entry. ``UNDECIDED``: its checks could not tell, or this
    toolchain cannot be asked for its combinations."""

    OCCURS = "occurs"
    GONE = "no longer occurs"
    NOTHING = "matches nothing"
    UNDECIDED = "undecided"


STALE = (Occurrence.GONE, Occurrence.NOTHING)
"""What a list should no longer say."""


@dataclass(frozen=True)
class Judged:
    """What matters here of a verdict record; ``entry``: the origin of the one it is known by."""

    rule: str
    check: str
    factors: Mapping[str, str]
    verdict: Verdict
    entry: str = ""


def occurrences(
    entries: Sequence[Deviation], judged: Iterable[Judged]
) -> list[tuple[Deviation, Occurrence]]:
    """What became of each entry in a run of the whole suite."""
    seen = list(judged)
    tried = {factor for each in seen for factor in each.factors}
    return [
        (
            entry,
            Occurrence.UNDECIDED
            if tried and not {factor for factor, _ in entry.cell} <= tried
            else _occurrence(
                entry,
                [each for each in seen if entry.names(each.rule, each.check, each.factors)],
            ),
        )
        for entry in entries
    ]


def _occurrence(entry: Deviation, named: Sequence[Judged]) -> Occurrence:
    if not named:
        return Occurrence.NOTHING
    if any(each.entry == entry.origin for each in named):
        return Occurrence.OCCURS
    verdicts = {each.verdict for each in named}
    if Verdict.UNDECIDED in verdicts or verdicts == {Verdict.NOT_APPLICABLE}:
        return Occurrence.UNDECIDED
    return Occurrence.GONE  # it passes, or breaks in another way


def builtin_lists() -> list[str]:
    """Names of the lists that come with the package."""
    return sorted(path.stem for path in _LISTS.glob("*.toml"))


def load_deviations(name: str) -> tuple[Deviation, ...]:
    """The entries of a list: a built-in name, or the path of a file.

    Raises:
        DeviationFileError: for a list that is not there, or does not describe deviations.
    """
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
    """The entries of a parsed list called ``name``.

    Raises:
        DeviationFileError: naming the list and the entry that is wrong.
    """
    unknown = sorted(set(content) - {"deviation"})
    if unknown:
        raise DeviationFileError(
            f"{name}: '{unknown[0]}' is unknown; a list has [[deviation]] entries only."
        )
    entries = content.get("deviation", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise DeviationFileError(f"{name}: 'deviation' is no list; begin entries [[deviation]].")
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
            f"{where}: no rule is called so; name one rule, as the summary's table does."
        )
    if {"*", "?"} & set(fields["check"].partition("[")[0]):
        raise DeviationFileError(
            f"{where}: 'check' is {fields['check']!r}; name one check, with patterns between its "
            "brackets only: test_x[*]."
        )
    return Deviation(
        origin=origin,
        rule=fields["rule"],
        reason=fields["reason"],
        check=fields["check"],
        observed=_observed(fields["observed"], where),
        harm=_harm(fields.get("harm", Harm.LOST_WORK.value), where),
        cell=_cell(fields.get("cell", {}), where),
        link=fields.get("link", ""),
        toolchain=fields.get("toolchain", "*"),
        editions=_editions(fields.get("edition", []), where),
    )


def _editions(value: Any, where: str) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    try:
        return tuple(named(str(each)).name for each in names)
    except NoEditionError as error:
        known = ", ".join(each.name for each in editions())
        raise DeviationFileError(f"{where}: {error}; use one of {known}.") from None


def _observed(value: Any, where: str) -> tuple[str, ...]:
    patterns = value if isinstance(value, list) else [value]
    if not patterns or not all(isinstance(each, str) and each.strip(" *?") for each in patterns):
        raise DeviationFileError(
            f"{where}: 'observed' is {value!r}; write what the check says, with * for what differs "
            "from run to run."
        )
    return tuple(patterns)


def _harm(value: Any, where: str) -> Harm:
    kinds = [each.value for each in Harm]
    if value not in kinds:
        raise DeviationFileError(f"{where}: 'harm' is {value!r}; use one of {', '.join(kinds)}.")
    return Harm(value)


def _cell(value: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise DeviationFileError(f"{where}: 'cell' is {value!r}; write a table: factor = value.")
    cell = []
    for factor, given in value.items():
        values = given if isinstance(given, list) else [given]
        if not values or not all(isinstance(each, str) for each in values):
            raise DeviationFileError(
                f"{where}: the factor '{factor}' is {given!r}; write a text or a list of texts."
            )
        cell.append((factor, tuple(values)))
    return tuple(cell)


def _matches(text: str, pattern: str) -> bool:
    # Names of parametrized checks have brackets, so these are no character classes here.
    return fnmatchcase(text, pattern.replace("[", "[[]"))
