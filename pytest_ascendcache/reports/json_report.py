"""The JSON report: every verdict record, with a schema version. Other reports are made from it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.causes import causes
from pytest_ascendcache.reports.files import SCHEMA, Document
from pytest_ascendcache.reports.records import RuleResult, accuracy_rows


def document(description: Mapping[str, Any], results: Sequence[RuleResult]) -> Document:
    """The report as plain data.

    Fields: ``schema``; ``plugin``, ``toolchain``, ``host``; ``judged``, what the run judged
    (``what``, ``version``, ``path``, and ``text``, one line for people); ``editions`` of the
    documents that it judged by, with ``edition_notices``; ``started``, the time with its zone;
    ``totals`` of rules and checks for all six verdicts; ``causes`` of the broken checks (see
    ``causes.Cause``), the worst first; ``deviations``, the listed ones and whether each occurred
    (empty if only a part of the suite was run); ``matrix``, which combinations were tried;
    ``is_part``, true if options or arguments left some of the suite out; ``selection``, what a
    budget left out; ``suite``, if only the core was run: how many checks of how many, and the known
    defects that they notice; ``baseline``, what is new and fixed since an earlier report;
    ``rules`` with id, level, titles, source, verdict, harm, readings; ``accuracy`` of measured
    kernels by operator and mode, in ulp; ``checks``, a verdict record each (see
    ``records.VerdictRecord``).
    """
    checks = [record for result in results for record in result.records]
    records = [record.as_dict() for record in checks]
    return {
        "schema": SCHEMA,
        **description,
        "totals": {
            "rules": _counts(result.verdict for result in results),
            "checks": _counts(record.verdict for record in checks),
        },
        "causes": [each.as_dict() for each in causes(records, [each.rule.id for each in results])],
        "rules": [_rule(result) for result in results],
        "accuracy": accuracy_rows(checks),
        "checks": records,
    }


def as_json(report: Document) -> str:
    """The text of the file."""
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"


def _counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counts = Counter(verdicts)
    return {verdict.value: counts[verdict] for verdict in Verdict}


def _rule(result: RuleResult) -> dict[str, Any]:
    rule = result.rule
    names = ("id", "title_en", "title_zh", "statement", "statement_zh")
    return {
        **{name: getattr(rule, name) for name in names},
        "level": rule.level.value,
        "source": asdict(rule.source),
        "verdict": result.verdict.value,
        "harm": result.harm,
        "readings": result.readings,
    }
