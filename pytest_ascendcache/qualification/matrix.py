"""Which check notices which defect, as data: ``kills.json`` beside this module.

``ci/qualify --matrix`` writes it: for each defect, and each rule that it claims to break, the
checks that noticed it, with what that cost in runs of the toolchain, and for each entry of a
vendor's list of known deviations the checks that show it. A quick ``ci/qualify`` tries the cheapest
of them first, and ``--ascend-budget`` chooses checks by it. A record decides nothing: where the
checks it names do not notice their defect, all checks of the rules are asked, as if there were no
record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
"""Checks of a rule that are recorded of one defect at the most: the cheapest of those that a run
shows before it has found as many."""
KILLS = Path(__file__).with_name("kills.json")
VENDOR = "deviation of "
"""What names of the entries of vendors' lists begin with: ``deviation of cann, entry 3``."""
BROKEN = (Verdict.FAIL.value, Verdict.WARN.value)


@dataclass(frozen=True, order=True)
class Kill:
    """A check that noticed: runs of the toolchain it took, those to see the harm included, its
    name below the suite, its rule, the harm it saw and the kind of interruption it took.

    A check of generated operators notices with those of some ``types`` alone, where the record has
    them: names with blanks between them.
    """

    runs: int
    check: str
    rule: str
    harm: str
    crash: str
    types: str = ""

    @property
    def node(self) -> str:
        """The check as pytest takes it beside ``--pyargs``."""
        return node_of(self.check)


Kills = Mapping[str, tuple[Kill, ...]]
"""What is known of each defect, by :func:`name_of`; the cheapest checks first."""


def node_of(check: str) -> str:
    """A check, named below the suite, as pytest takes it beside ``--pyargs``."""
    return f"{PACKAGE}.{module_of(check)}::{check.partition('::')[2]}"


def name_of(defect: Defect) -> str:
    """A defect in the edition it is judged as."""
    (edition,) = defect.editions
    return defect.name if edition == DEFAULT_NAMES[CANN] else f"{defect.name} (CANN {edition})"


def read(path: Path = KILLS) -> Kills:
    """The recorded matrix; nothing is known where there is none."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: tuple(sorted(Kill(check=check, **kill) for check, kill in checks.items()))
        for name, checks in document.items()
    }


def write(kills: Kills, path: Path = KILLS) -> None:
    """Store a matrix, a line for each check."""
    defects = []
    for name, checks in sorted(kills.items()):
        lines = [f"  {json.dumps(each.check)}: {json.dumps(_fields(each))}" for each in checks]
        defects.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    write_output(path, "{\n" + ",\n".join(defects) + "\n}\n")


def _fields(kill: Kill) -> dict[str, Any]:
    lacking = {"check"} if kill.types else {"check", "types"}
    return {name: value for name, value in vars(kill).items() if name not in lacking}


def observed(defect: Defect, report: Mapping[str, Any]) -> tuple[Kill, ...]:
    """The checks of a run that noticed a defect, of the rules it claims to break."""
    found = [each for each in noticing(report) if each.rule in defect.breaks]
    by_rule = [[each for each in found if each.rule == rule] for rule in defect.breaks]
    return tuple(sorted(each for checks in by_rule for each in checks[:MOST]))


def noticing(report: Mapping[str, Any]) -> list[Kill]:
    """The checks of a run that found fault, whatever their rules; the cheapest first."""
    lives = _runs_of_lives(report)
    return sorted(_kill(check, lives) for check in report["checks"] if check["verdict"] in BROKEN)


def observed_deviations(report: Mapping[str, Any]) -> dict[str, tuple[Kill, ...]]:
    """The checks of a run of a vendor's profile that show each entry of the list of that name."""
    found: dict[str, list[Kill]] = {}
    lives = _runs_of_lives(report)
    for check in report["checks"]:
        if check["verdict"] == Verdict.KNOWN_DEVIATION.value:
            name = f"{VENDOR}{check['deviation']['entry']}"
            found.setdefault(name, []).append(_kill(check, lives))
    return {name: tuple(sorted(kills)) for name, kills in found.items()}


def shown_by(profile: str, known: Kills, there: Iterable[str]) -> dict[str, Kill]:
    """The cheapest check that is ``there`` for each entry of a vendor's list, by the entry's name;
    without those of which no such check is known."""
    known_checks = set(there)
    found = {}
    for name, kills in known.items():
        usable = [each for each in kills if each.check in known_checks]
        if name.startswith(f"{VENDOR}{profile},") and usable:
            found[name.removeprefix(VENDOR)] = min(usable)
    return found


def by_reason(kills: Kills) -> Kills:
    """The same, with entries of a vendor's list as one deviation where the list gives one reason
    for them: an entry is what one check shows, and many show one difference."""
    found: dict[str, list[Kill]] = {}
    names = _reasons({_profile(name) for name in kills if name.startswith(VENDOR)})
    for name, records in kills.items():
        found.setdefault(names.get(name, name), []).extend(records)
    return {name: tuple(sorted(records)) for name, records in found.items()}


def _reasons(profiles: Iterable[str]) -> dict[str, str]:
    """What each entry of these lists is called by its reason."""
    return {
        f"{VENDOR}{each.origin}": f"{VENDOR}{profile}: {each.reason}"
        for profile in profiles
        for each in load_deviations(profile)
    }


def _profile(name: str) -> str:
    """The list that an entry is of, by the entry's name."""
    return name.removeprefix(VENDOR).partition(",")[0]


def _runs_of_lives(report: Mapping[str, Any]) -> Mapping[str, int]:
    """Runs of each life: its first check counts them, and each of the others takes them alone,
    with runs of its own where it has some."""
    runs: dict[str, int] = {}
    for check in report["checks"]:
        if life := life_of(check["check"].removeprefix(SUITE_NODES)):
            runs[life] = max(runs.get(life, 0), check["evidence"]["starts"])
    return runs


def _kill(check: Mapping[str, Any], lives: Mapping[str, int]) -> Kill:
    name = check["check"].removeprefix(SUITE_NODES)
    runs = lives.get(life_of(name), check["evidence"]["starts"])
    return Kill(
        runs=runs + check["evidence"]["harm_starts"],
        check=name,
        rule=check["rule"],
        harm=check["harm"],
        crash=check["evidence"]["crash"],
    )


def tells(defect: Defect, kills: Sequence[Kill], there: Iterable[str]) -> bool:
    """Whether every rule that a defect breaks has a record of a check that is ``there``."""
    known = set(there)
    return set(defect.breaks) <= {each.rule for each in kills if each.check in known}


def cheapest(defect: Defect, kills: Sequence[Kill], there: Iterable[str]) -> list[Kill]:
    """The cheapest checks that show all a defect claims: each rule it breaks, its harm, and the
    simplest interruption that finds it. None where no record, or no such check, is ``there``.
    """
    known = set(there)
    usable = [each for each in kills if each.check in known and defect.crash in ("", each.crash)]
    chosen = [min((e for e in usable if e.rule == rule), default=None) for rule in defect.breaks]
    if defect.harm is not None:
        chosen.append(min((e for e in usable if e.harm == defect.harm.value), default=None))
    found = [each for each in chosen if each is not None]
    return sorted(set(found)) if len(found) == len(chosen) else []


def telling(rule: str, known: Kills, there: Iterable[str]) -> set[Kill]:
    """The checks of a rule that are known to notice something: the cheapest for each defect."""
    usable = set(there)
    by_defect = [
        [each for each in kills if each.rule == rule and each.check in usable]
        for kills in known.values()
    ]
    return {min(kills) for kills in by_defect if kills}
