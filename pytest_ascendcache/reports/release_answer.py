"""The answer of the release gate: one sentence for the person who decides whether to ship."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.records import WORST_FIRST, VerdictRecord
from pytest_ascendcache.words import count


def release_answer(
    name: str,
    ids: Collection[str],
    compiler: str,
    records: Sequence[VerdictRecord],
    missing: int = 0,
) -> str:
    """The sentence about the release ``name``, from the records of a run.

    ``ids`` are what the release's checks have in brackets: its own id, and the directories of its
    caches. ``compiler`` describes what compiled it, empty if nothing did; ``missing`` checks of the
    run gave no verdict.
    """
    # pytest writes a character that is not ASCII as an escape, unless its configuration forbids it.
    ids = {*ids, *(each.encode("unicode_escape").decode() for each in ids)}
    audits = tuple(f"-{each}" for each in ids)  # an audit's check is named after its rule, too
    inner = [each.check.partition("[")[2].removesuffix("]") for each in records]
    own = [
        record
        for record, name_ in zip(records, inner, strict=True)
        if name_ in ids or (record.rule.startswith("audit/") and name_.endswith(audits))
    ]
    compiled = compiler and any(each.evidence["compiles"] for each in own)
    means = (
        f"compiled with {compiler}"
        if compiled
        else "nothing was compiled, so only settings and files were looked at"
    )
    worst: dict[str, Verdict] = {}
    for record in sorted(own, key=lambda each: -WORST_FIRST.index(each.verdict)):
        worst[record.rule] = record.verdict
    rules = {verdict: [rule for rule in worst if worst[rule] is verdict] for verdict in Verdict}
    not_ready = f"Release {name} is not ready to ship"
    for verdict, what in ((Verdict.FAIL, "broken"), (Verdict.UNDECIDED, "undecided")):
        if found := rules[verdict]:
            return f"{not_ready}: {count(len(found), 'rule')} {what} ({_names(found)}); {means}."
    if missing:
        return f"{not_ready}: the run ended before {count(missing, 'check')} had a verdict."
    kept, known, warned = (
        rules[verdict] for verdict in (Verdict.PASS, Verdict.KNOWN_DEVIATION, Verdict.WARN)
    )
    if not (kept or known or warned):
        return f"{not_ready}: no rule was judged; {means}."
    exceptions = []
    if known:
        exceptions.append(f"{len(known)} broken, but listed as known deviations ({_names(known)})")
    if warned:
        exceptions.append(f"{len(warned)} recommended only and not followed ({_names(warned)})")
    if exceptions:
        kept_rules = count(len(kept), "rule")
        return f"Release {name} keeps {kept_rules}; {'; '.join(exceptions)}; {means}."
    judged = "the 1 rule that was" if len(kept) == 1 else f"all {len(kept)} rules that were"
    return f"Release {name} keeps {judged} judged; {means}."


def _names(rules: Sequence[str], shown: int = 2) -> str:
    more = f" and {len(rules) - shown} more" if len(rules) > shown else ""
    return ", ".join(rules[:shown]) + more
