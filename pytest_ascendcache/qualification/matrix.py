"""The kill matrix: which check notices which defect, stored in ``kills.json``.

``ci/qualify --matrix`` writes it. For each defect and each rule that the defect claims to break, it
names checks that noticed the defect and their cost in runs of the toolchain. For each entry of a
vendor's list of known deviations it names checks that show the entry. A quick ``ci/qualify`` tries
the cheapest of them first, and ``--ascend-select`` chooses checks by them. A record decides no
verdict: if its checks do not notice the defect, ``ci/qualify`` runs all checks of the rules.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES, module_of
from pytest_ascendcache.conformance.costs import life_of
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.contract.editions import CANN, DEFAULT_NAMES
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.files import write_output
from pytest_ascendcache.qualification.catalogue import Defect

MOST = 3
"""Checks of one rule that are recorded for one defect, at most. A recording run ends when it has
found as many; the cheapest of its checks are kept."""
KILLS = Path(__file__).with_name("kills.json")
VENDOR = "deviation of "
"""The prefix of names of entries of vendors' lists: ``deviation of cann, entry 3``."""
BROKEN = (Verdict.FAIL.value, Verdict.WARN.value)


@dataclass(frozen=True, order=True)
class Kill:
    """A check that noticed a defect.

    ``runs`` of the toolchain include those that looked for harm. ``check`` is its name below the
    suite, ``harm`` the harm it saw, ``crash`` the kind of interruption it needed. A check of
    generated operators notices the defect with operators of these ``types`` alone (names separated
    by blanks); empty means that all types are needed.
    """

    runs: int
    check: str
    rule: str
    harm: str
    crash: str
    types: str = ""

    @property
    def node(self) -> str:
        """The check's name for ``pytest --pyargs``."""
        return node_of(self.check)


Kills = Mapping[str, tuple[Kill, ...]]
"""The recorded checks of each defect, by :func:`name_of`, the cheapest first."""


def node_of(check: str) -> str:
    """The name for ``pytest --pyargs`` of a check that is named below the suite."""
    return f"{PACKAGE}.{module_of(check)}::{check.partition('::')[2]}"


def name_of(defect: Defect) -> str:
    """The name of a defect in the one edition it is judged as."""
    (edition,) = defect.editions
    return defect.name if edition == DEFAULT_NAMES[CANN] else f"{defect.name} (CANN {edition})"


def read(path: Path = KILLS) -> Kills:
    """The recorded matrix, empty if the file does not exist."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: tuple(sorted(Kill(check=check, **kill) for check, kill in checks.items()))
        for name, checks in document.items()
    }


def write(kills: Kills, path: Path = KILLS) -> None:
    """Store a matrix with one line for each check."""
    defects = []
    for name, checks in sorted(kills.items()):
        lines = []
        for each in checks:
            fields = {key: value for key, value in vars(each).items() if key != "check"}
            if not each.types:
                del fields["types"]
            lines.append(f"  {json.dumps(each.check)}: {json.dumps(fields)}")
        defects.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    write_output(path, "{\n" + ",\n".join(defects) + "\n}\n")


def observed(defect: Defect, report: Mapping[str, Any]) -> tuple[Kill, ...]:
    """The checks of a run that noticed a defect, for the rules it claims to break."""
    found = [each for each in noticing(report) if each.rule in defect.breaks]
    by_rule = [[each for each in found if each.rule == rule] for rule in defect.breaks]
    return tuple(sorted(each for checks in by_rule for each in checks[:MOST]))


def noticing(report: Mapping[str, Any]) -> list[Kill]:
    """The failed checks of a run, whatever their rules, the cheapest first."""
    known = _runs_of(report)
    return sorted(_kill(check, known) for check in report["checks"] if check["verdict"] in BROKEN)


def observed_deviations(report: Mapping[str, Any]) -> dict[str, tuple[Kill, ...]]:
    """The checks of a run of a vendor's profile that show each entry of the vendor's list."""
    found: dict[str, list[Kill]] = {}
    known = _runs_of(report)
    for check in report["checks"]:
        if check["verdict"] == Verdict.KNOWN_DEVIATION.value:
            name = f"{VENDOR}{check['deviation']['entry']}"
            found.setdefault(name, []).append(_kill(check, known))
    return {name: tuple(sorted(kills)) for name, kills in found.items()}


def shown_by(profile: str, known: Kills, there: Collection[str]) -> dict[str, Kill]:
    """The cheapest check of each entry of a vendor's list, by the entry's name.

    Only checks that are ``there`` count. Entries without one are left out.
    """
    found = {}
    for name, kills in known.items():
        usable = [each for each in kills if each.check in there]
        if name.startswith(f"{VENDOR}{profile},") and usable:
            found[name.removeprefix(VENDOR)] = min(usable)
    return found


def by_reason(kills: Kills) -> Kills:
    """The same matrix, in which entries of a vendor's list with one reason are one deviation.

    An entry is what one check shows, and several checks may show one difference.
    """
    # The name of an entry begins with that of its list: "deviation of cann, entry 3".
    lists = {name.removeprefix(VENDOR).partition(",")[0] for name in kills if VENDOR in name}
    names = {
        f"{VENDOR}{each.origin}": f"{VENDOR}{profile}: {each.reason}"
        for profile in lists
        for each in load_deviations(profile)
    }
    found: dict[str, list[Kill]] = {}
    for name, records in kills.items():
        found.setdefault(names.get(name, name), []).extend(records)
    return {name: tuple(sorted(records)) for name, records in found.items()}


def _runs_of(report: Mapping[str, Any]) -> Mapping[str, int]:
    """The runs that each check or life takes: the most that one of its records counted.

    The first check counts the runs of the life; any other one would take the same, plus its own.
    What the runs of a check broke besides has a record of its own, which counts none.
    """
    runs: dict[str, int] = {}
    for check in report["checks"]:
        name = check["check"].removeprefix(SUITE_NODES)
        key = life_of(name) or name
        runs[key] = max(runs.get(key, 0), check["evidence"]["starts"])
    return runs


def _kill(check: Mapping[str, Any], known: Mapping[str, int]) -> Kill:
    name = check["check"].removeprefix(SUITE_NODES)
    return Kill(
        runs=known[life_of(name) or name] + check["evidence"]["harm_starts"],
        check=name,
        rule=check["rule"],
        harm=check["harm"],
        crash=check["evidence"]["crash"],
    )


def is_recorded(defect: Defect, kills: Sequence[Kill], there: Collection[str]) -> bool:
    """Whether every rule that a defect breaks has a recorded check that is ``there``."""
    return set(defect.breaks) <= {each.rule for each in kills if each.check in there}


def cheapest(defect: Defect, kills: Sequence[Kill], there: Collection[str]) -> list[Kill]:
    """The cheapest checks that show all a defect claims, among those that are ``there``.

    They show each rule it breaks, its harm, and its simplest interruption. Empty if the record
    does not have such checks for every claim.
    """
    usable = [each for each in kills if each.check in there and defect.crash in ("", each.crash)]
    chosen = [min((e for e in usable if e.rule == rule), default=None) for rule in defect.breaks]
    if defect.harm is not None:
        chosen.append(min((e for e in usable if e.harm == defect.harm.value), default=None))
    found = [each for each in chosen if each is not None]
    return sorted(set(found)) if len(found) == len(chosen) else []


def telling(rule: str, known: Kills, there: Collection[str]) -> set[Kill]:
    """The checks of a rule that are known to notice a defect, the cheapest for each defect."""
    by_defect = [
        [each for each in kills if each.rule == rule and each.check in there]
        for kills in known.values()
    ]
    return {min(kills) for kills in by_defect if kills}
