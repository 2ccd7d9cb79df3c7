"""Judges innocents: behaviour that is merely different must be neither accused nor left undecided.

Innocents are judged in companies, each of them one toolchain that takes all the liberties of its
members: four runs of the core take the place of forty. If a company is accused, each member is
asked alone what accused it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.catalogue import Company, Defect
from pytest_ascendcache.qualification.judging import verdicts_of
from pytest_ascendcache.qualification.runs import Named, SuiteRuns

_ENOUGH = 0.9
"""The share of rules that must be decided, or an innocent would be acquitted by silence."""

QUICK = (
    "cache_mode/test_aging.py::test_a_bad_size_is_named_and_the_default_used[-environment]",
    "cache_mode/test_aging.py::test_a_reused_entry_survives_the_next_aging[5]",
    "cache_mode/test_aging.py::test_a_run_creates_the_file_where_the_document_says[enable]",
    "cache_mode/test_combinations.py::test_outcome[cache_mode:enable+debug_level:0"
    "+debug_config:dump_cce+debug_list:others+select_implmode:high_precision+type_list:others"
    "+precision_file:precision-by-name+operator:Gelu+dtype:float32+before:stale]",
    "cache_mode/test_debug.py::test_what_a_level_keeps[3]",
    "robustness/test_robust.py::test_many_processes_compile_one_key[0-empty]",
)
"""Checks that are asked beside the smallest selection, because they notice changes of the suite
(``ci/overzealous.toml``) that it does not."""
_SHOWN, _WIDTH = 40, 400
"""Checks that are shown, and characters of each message."""


@dataclass(frozen=True)
class Acquittal:
    """What a run says of an innocent: the checks that accuse it, with their verdicts and headlines,
    the rules that stay undecided, and how many are decided."""

    accused: Mapping[str, str]
    undecided: tuple[str, ...]
    decided: int

    @classmethod
    def of(cls, *reports: Mapping[str, Any]) -> Acquittal:
        """Read it from the reports of its runs."""
        accused, verdicts = dict[str, str](), dict[str, str]()
        for report in reports:
            verdicts = {**verdicts_of(report), **verdicts}
            for each in (one for one in report["checks"] if one["verdict"] in matrix.BROKEN):
                said = f"{each['verdict']}: {' '.join(each['message'].split())[:_WIDTH]}"
                accused[each["check"].removeprefix(SUITE_NODES)] = said
        lacking = [rule for rule, each in verdicts.items() if each == Verdict.UNDECIDED.value]
        decided = [rule for rule, each in verdicts.items() if each == Verdict.PASS.value]
        return cls(accused, tuple(lacking), len(decided))

    @property
    def is_acquitted(self) -> bool:
        """Whether nothing accuses it, and nearly everything was decided, but not nothing."""
        enough = self.decided >= _ENOUGH * (self.decided + len(self.undecided))
        return not self.accused and self.decided > 0 and enough

    def __str__(self) -> str:
        return f"{self.decided} rules decided, {len(self.undecided)} not"


def judge_innocents(
    runs: SuiteRuns, companies: Sequence[Company], arguments: Sequence[str], *more: str
) -> int:
    """Judge companies, and each member alone where its company is not acquitted. ``more`` are
    checks that are asked beside those that the arguments select.

    Returns the number of innocents that are not acquitted.
    """
    nodes = [matrix.node_of(each) for each in more]
    chosen = [[*arguments, PACKAGE], *([nodes] if nodes else [])]
    asked = [
        Named((*_given(each.defect), *names), harm=False) for each in companies for names in chosen
    ]
    ended = runs(asked)
    told: Counter[bool] = Counter()
    for company in companies:
        found = Acquittal.of(*(next(ended).report for _ in chosen))
        of_each: Iterable[Acquittal] = repeat(found)
        if not found.is_acquitted and len(company.members) > 1:
            print(f"{'ACCUSED':<9}  {company.defect.name:<36} {found}", flush=True)
            _details(found)
            accusing = [matrix.node_of(each) for each in found.accused] or [PACKAGE]
            alone = [Named((*_given(each), *accusing), harm=False) for each in company.members]
            of_each = (Acquittal.of(one.report) for one in runs(alone))
        for each, of_one in zip(company.members, of_each, strict=False):
            _tell(each, of_one)
            told[of_one.is_acquitted] += 1
    print(f"innocents: {told[True]} passed, {told[False]} failed")
    return told[False]


def _given(innocent: Defect) -> tuple[str, ...]:
    return ("--ascend-cache", f"--ascend-defect={innocent.name}")


def _tell(innocent: Defect, found: Acquittal) -> None:
    state = "acquitted" if found.is_acquitted else "ACCUSED"
    print(f"{state:<9}  {innocent.name:<36} {innocent.what}; {found}", flush=True)
    if not found.is_acquitted:
        _details(found)


def _details(found: Acquittal) -> None:
    for check, said in [*found.accused.items()][:_SHOWN]:
        print(f"           {check}\n               {said}")
    if found.undecided:
        print(f"           undecided: {', '.join(found.undecided)}", flush=True)
