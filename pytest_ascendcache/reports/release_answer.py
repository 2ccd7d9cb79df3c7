"""The answer of the release gate: one sentence for the person who decides whether to ship."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.records import WORST_FIRST, VerdictRecord
from pytest_ascendcache.words import count

_NOT_READY = "is not ready to ship"


@dataclass(frozen=True)
class JudgedRelease:
    """A release that was judged.

    ``ids`` are what its checks have in brackets: its own id, and the directories of its caches.
    ``compiler`` describes what compiled it; empty if nothing did.
    """

    name: str
    ids: frozenset[str]
    compiler: str = ""

    def answer(self, records: Sequence[VerdictRecord], missing: int = 0) -> str:
        """The answer as a sentence, from the run's records; ``missing`` checks gave no verdict."""
        mine = [each for each in records if self._is_mine(each)]
        verdicts = _by_rule(mine)
        compiled = any(each.evidence["compiles"] for each in mine)
        return f"Release {self.name} {_state(verdicts, self._means(compiled), missing)}"

    def _is_mine(self, record: VerdictRecord) -> bool:
        return record.check.partition("[")[2].removesuffix("]") in self.ids

    def _means(self, compiled: bool) -> str:
        if not compiled or not self.compiler:
            return "nothing was compiled, so only settings and files were looked at"
        return f"compiled with {self.compiler}"


def _by_rule(records: Sequence[VerdictRecord]) -> dict[str, Verdict]:
    """The worst verdict of each rule."""
    verdicts: dict[str, Verdict] = {}
    for record in sorted(records, key=lambda each: -WORST_FIRST.index(each.verdict)):
        verdicts[record.rule] = record.verdict
    return verdicts


def _state(verdicts: dict[str, Verdict], means: str, missing: int) -> str:
    broken = _of(verdicts, Verdict.FAIL)
    undecided = _of(verdicts, Verdict.UNDECIDED)
    advice = _of(verdicts, Verdict.WARN)
    kept = _of(verdicts, Verdict.PASS)
    if broken:
        return f"{_NOT_READY}: {count(len(broken), 'rule')} broken ({_names(broken)}); {means}."
    if undecided:
        rules = f"{count(len(undecided), 'rule')} undecided ({_names(undecided)})"
        return f"{_NOT_READY}: {rules}; {means}."
    if missing:
        return f"{_NOT_READY}: the run ended before {count(missing, 'check')} had a verdict."
    known = _of(verdicts, Verdict.KNOWN_DEVIATION)
    if not (kept or advice or known):
        return f"{_NOT_READY}: no rule was judged; {means}."
    apart = [
        f"{len(rules)} {what} ({_names(rules)})"
        for rules, what in (
            (known, "broken as a list of known deviations says"),
            (advice, "recommended only and not followed"),
        )
        if rules
    ]
    if not apart:
        rules = "the 1 rule that was" if len(kept) == 1 else f"all {len(kept)} rules that were"
        return f"keeps {rules} judged; {means}."
    return f"keeps {count(len(kept), 'rule')}; {'; '.join(apart)}; {means}."


def _of(verdicts: dict[str, Verdict], wanted: Verdict) -> list[str]:
    return [rule for rule, verdict in verdicts.items() if verdict is wanted]


def _names(rules: Sequence[str], shown: int = 2) -> str:
    more = f" and {len(rules) - shown} more" if len(rules) > shown else ""
    return ", ".join(rules[:shown]) + more
