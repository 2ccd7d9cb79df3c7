"""The JSON report: every verdict record, with a schema version. Other reports are made from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_ascendcache.contract import Rule, Verdict
from pytest_ascendcache.reports.causes import causes
from pytest_ascendcache.reports.files import SCHEMA, Document
from pytest_ascendcache.reports.records import WORST_FIRST, VerdictRecord, accuracy_rows, harm_rank


def document(
    description: Mapping[str, Any], records: Iterable[VerdictRecord], rules: Mapping[str, Rule]
) -> Document:
    """The report as plain data, of the records of a run that judged by these rules.

    Fields: ``schema``; ``plugin``, ``toolchain``, ``host``; ``judged``, what the run judged
    (``what``, ``version``, ``path``, and ``text``, one line for people); ``editions`` of the
    documents that it judged by, with ``edition_notices``; ``started``, the time with its zone;
    ``totals`` of rules and checks for all six verdicts; ``causes`` of the broken checks (see
    ``causes.Cause``), the worst first; ``deviations``, the listed ones and whether each occurred
    (empty if only a part of the suite was run); ``matrix``, which combinations were tried;
    ``is_part``, true if options or arguments left some of the suite out; ``selection``, what a
    budget left out; ``not_judged``, the other rules of the judged documents, with the reasons;
    ``notices`` about how the toolchain behaves; ``suite``, if only the core was run: how many
    checks of how many, and the known defects that they notice; ``baseline``, what is new and fixed
    since an earlier report; ``rules`` with id, level, titles, source, verdict, harm, readings;
    ``accuracy`` of measured kernels by operator and mode, in ulp; ``checks``, a verdict record
    each (see ``records.VerdictRecord``).
    """
    by_rule: dict[str, list[VerdictRecord]] = {}
    for record in sorted(
        records, key=lambda each: (WORST_FIRST.index(each.verdict), harm_rank(each.harm))
    ):
        by_rule.setdefault(record.rule, []).append(record)
    judged = [_rule(rule, by_rule[id_]) for id_, rule in rules.items() if id_ in by_rule]
    ordered = [record for rule in judged for record in by_rule[rule["id"]]]
    checks = [record.as_dict() for record in ordered]
    return {
        "schema": SCHEMA,
        **description,
        "totals": {"rules": _counts(judged), "checks": _counts(checks)},
        "causes": [each.as_dict() for each in causes(checks, [rule["id"] for rule in judged])],
        "rules": judged,
        "accuracy": accuracy_rows(ordered),
        "checks": checks,
    }


def as_json(report: Document) -> str:
    """The text of the file."""
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"


def _counts(judged: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How often each verdict occurs, zeros included."""
    counts = Counter(each["verdict"] for each in judged)
    return {verdict.value: counts[verdict.value] for verdict in Verdict}


def _rule(rule: Rule, records: Sequence[VerdictRecord]) -> dict[str, Any]:
    """A rule with the worst verdict and harm of its records, which come the worst first."""
    names = ("id", "title_en", "title_zh", "statement", "statement_zh")
    readings = (reading for record in records for reading in record.evidence["readings"])
    return {
        **{name: getattr(rule, name) for name in names},
        "level": rule.level.value,
        "source": asdict(rule.source),
        "verdict": records[0].verdict.value,
        "harm": min((each.harm for each in records), key=harm_rank),
        "readings": list(dict.fromkeys(readings)),
    }
