"""The JSON report: every verdict record, versioned. All other files are made from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_ascendcache.reports.causes import causes
from pytest_ascendcache.reports.files import SCHEMA, Document
from pytest_ascendcache.reports.records import RuleResult, accuracy_rows, totals


def document(description: Mapping[str, Any], results: Sequence[RuleResult]) -> Document:
    """The report as plain data.

    Fields: ``schema``; ``plugin``, ``toolchain``, ``host``; ``judged``, what the run judged
    (``what``, ``version``, ``path``, and ``text``, one line for people); ``editions`` of the
    documents it was judged by, with ``edition_notices``; ``started``, when, with
    the zone; ``totals`` of rules and checks for all six verdicts; ``causes``, the broken checks by
    what they share (see ``causes.Cause``), the worst first; ``deviations``, the listed ones and
    what became of each (empty where only a part of the suite was run); ``matrix``, which
    combinations were tried; ``is_part``, true where options or arguments left some of the suite
    out (``selection`` says what a budget did); ``suite``, where its core was run: how many checks
    of how many, and the known defects that they notice; ``baseline``, what is new and fixed since
    an earlier report;
    ``rules`` with id, level, titles, source, verdict, harm, readings; ``accuracy`` of measured
    kernels by operator and mode, in ulp; ``checks``, one verdict record each (see
    ``records.VerdictRecord``).
    """
    checks = [record for result in results for record in result.records]
    told = [record.as_dict() for record in checks]
    return {
        "schema": SCHEMA,
        **description,
        "totals": {
            "rules": _counts([result.verdict for result in results]),
            "checks": _counts([record.verdict for record in checks]),
        },
        "causes": [each.as_dict() for each in causes(told, [each.rule.id for each in results])],
        "rules": [_rule(result) for result in results],
        "accuracy": accuracy_rows(checks),
        "checks": told,
    }


def as_json(report: Document) -> str:
    """The text of the file."""
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"


def _counts(verdicts: Sequence[Any]) -> dict[str, int]:
    return {verdict.value: count for verdict, count in totals(verdicts).items()}


def _rule(result: RuleResult) -> dict[str, Any]:
    rule = result.rule
    return {
        "id": rule.id,
        "level": rule.level.value,
        "title_en": rule.title_en,
        "title_zh": rule.title_zh,
        "statement": rule.statement,
        "statement_zh": rule.statement_zh,
        "source": {
            "document": rule.source.document,
            "document_zh": rule.source.document_zh,
            "section": rule.source.section,
            "address": rule.source.address,
        },
        "verdict": result.verdict.value,
        "harm": result.harm,
        "readings": result.readings,
    }
