"""The release gate's answer: one sentence for the person who decides about the release."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.reports.release_answer import release_answer
from tests.sample_reports import record

GATE = "conformance/release/test_release.py"
AUDIT = "conformance/audit/test_audit.py::test_audit"
IDS = {"bert", "/c"}


def _answer(*verdicts: Verdict, compiler: str = "atc 8.1", compiles: int = 1) -> str:
    rules = ("release/debug-off", "release/manifest", "release/settings-agree", "audit/digests")
    records = [
        record(f"{GATE}::test_{number}[bert]", rule, verdict, compiles=compiles)
        for number, (rule, verdict) in enumerate(zip(rules, verdicts, strict=False))
    ]
    return release_answer("bert", IDS, compiler, records)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([Verdict.PASS], "keeps the 1 rule that was judged; compiled with atc 8.1."),
        (
            [Verdict.PASS, Verdict.FAIL, Verdict.UNDECIDED],
            "is not ready to ship: 1 rule broken (release/manifest); compiled with atc 8.1.",
        ),
        (
            [Verdict.PASS, Verdict.UNDECIDED],
            "is not ready to ship: 1 rule undecided (release/manifest); compiled with atc 8.1.",
        ),
        (
            [Verdict.FAIL] * 4,
            "is not ready to ship: 4 rules broken (release/debug-off, release/manifest and 2 "
            "more); compiled with atc 8.1.",
        ),
        (
            [Verdict.PASS, Verdict.WARN],
            "keeps 1 rule; 1 recommended only and not followed (release/manifest); compiled with "
            "atc 8.1.",
        ),
        (
            [Verdict.WARN],
            "keeps 0 rules; 1 recommended only and not followed (release/debug-off); compiled "
            "with atc 8.1.",
        ),
        (
            [Verdict.NOT_APPLICABLE],
            "is not ready to ship: no rule was judged; compiled with atc 8.1.",
        ),
    ],
)
def test_the_answer_is_one_sentence(verdicts: list[Verdict], said: str) -> None:
    assert _answer(*verdicts) == f"Release bert {said}"


def test_nothing_compiled_is_said() -> None:
    sentence = "nothing was compiled, so only settings and files were looked at."
    assert _answer(Verdict.PASS, compiles=0).endswith(sentence)
    assert _answer(Verdict.PASS, compiler="").endswith(sentence)


def test_only_its_own_checks_and_its_caches_count() -> None:
    records = [
        record(f"{GATE}::test_a[bert]", "release/debug-off", Verdict.PASS, compiles=1),
        record(f"{GATE}::test_a[other]", "release/debug-off", Verdict.FAIL),
        record(f"{AUDIT}[ini-/d]", "audit/ini", Verdict.FAIL),
        record(
            "conformance/audit/test_audit.py::test_b[digests-/c]", "audit/digests", Verdict.FAIL
        ),
    ]
    assert "1 rule broken (audit/digests)" in release_answer("bert", IDS, "atc 8.1", records)
    cut_short = release_answer("bert", IDS, "atc 8.1", records[:1], missing=3)
    assert "ended before 3 checks had a verdict" in cut_short
