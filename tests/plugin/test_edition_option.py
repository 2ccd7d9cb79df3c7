"""``--ascend-edition``: header, totals, undecided checks, bad input, audits and releases."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.qualification.scenes.caches import INI, kernel_cache, put

REFERENCE = f"{sys.executable} -m pytest_ascendcache.reference.atc"
FIXTURES = Path(__file__).parents[2] / "fixtures"
SAME = "--ascend-rule=cache-mode/default-is-disable"
DIFFERS = "--ascend-rule=cache-mode/directory-precedence"


def _atc(directory: Path, toolkit: str, opp: str) -> Path:
    """Write an atc that only fails, and the version files that name these releases."""
    put(directory / "toolkit/bin/atc", "#!/bin/sh\nexit 1\n")
    (directory / "toolkit/bin/atc").chmod(0o755)
    for place, release in (("toolkit", toolkit), ("toolkit/opp", opp)):
        unknown = "Version=1.84\n" if place.endswith("opp") else "[nothing]\n"
        text = f"Version=1.84\nversion_dir={release}\n" if release else unknown
        put(directory / place / "version.info", text)
    return directory / "toolkit/bin/atc"


def _report(suite: pytest.Pytester, *arguments: str) -> dict[str, Any]:
    suite.runpytest_subprocess("--ascend-report=report.json", "-q", *arguments)
    document: dict[str, Any] = json.loads((suite.path / "report.json").read_text())
    return document


@pytest.mark.parametrize(
    ("asked", "cann", "others"),
    [
        ((), "8.0.RC3", "MindSpore r1.6, Ascend PyTorch 7.3.0"),
        (("--ascend-edition=7.0",), "7.0", "MindSpore r1.6, Ascend PyTorch 7.3.0"),
        (
            ("--ascend-edition=9.0", "--ascend-edition=torchair-26.0"),
            "9.0",
            "MindSpore r1.6, torchair 26.0.0",
        ),
    ],
    ids=str,
)
def test_header_totals_and_report_say_the_edition(
    suite: pytest.Pytester, asked: tuple[str, ...], cann: str, others: str
) -> None:
    result = suite.runpytest_subprocess(SAME, "--ascend-report=report.json", *asked)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            f"ascendcache: judged by the documents of CANN {cann}, {others}",
            "1 rule: 1 pass, *",
            f"judged by the documents of CANN {cann}",
        ]
    )
    document = json.loads((suite.path / "report.json").read_text())
    assert (document["editions"], document["edition_notices"]) == ([f"CANN {cann}"], [])


@pytest.mark.parametrize(
    ("toolkit", "opp", "why"),
    [
        ("", "", "the version of CANN is not known (nothing)"),
        ("4.1.0", "", "CANN 4.1.0 is older than the oldest edition known, 5.0"),
        (
            "8.0.0",
            "7.0.0",
            "its parts belong to different editions (toolkit 8.0.0, opp 7.0.0)",
        ),
    ],
)
def test_a_breach_is_undecided_where_the_edition_is_not_known(
    suite: pytest.Pytester, toolkit: str, opp: str, why: str
) -> None:
    """Not every edition has ASCEND_CACHE_PATH. What is kept passes, whatever the edition."""
    program = _atc(suite.path, toolkit, opp)
    program.write_text(f'#!/bin/sh\nunset ASCEND_CACHE_PATH\nexec {REFERENCE} "$@"\n')
    result = suite.runpytest_subprocess(
        DIFFERS,
        "--ascend-report=report.json",
        f"--ascend-atc={program}",
        "-k=environment_beats_home or option_beats_environment",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"ascendcache: {why}: a promise that not every edition makes is undecided where it is "
            "not kept; name the edition: --ascend-edition=8.0*"
        ]
    )
    document = json.loads((suite.path / "report.json").read_text())
    checks = {check["check"].partition("::")[2]: check for check in document["checks"]}
    broken = checks["test_environment_beats_home"]
    assert (broken["verdict"], broken["harm"]) == ("undecided", None)
    named = f"{why}, and not every edition promises this; name one: --ascend-edition: "
    assert broken["message"].startswith(named)
    (cause,) = document["causes"]
    assert cause["headline"].startswith("ASCEND_CACHE_PATH has no effect: ")
    assert cause["not_judged"] == 1


def test_a_kept_promise_passes_where_the_edition_is_not_known(suite: pytest.Pytester) -> None:
    program = _atc(suite.path, "", "")
    program.write_text(f'#!/bin/sh\nexec {REFERENCE} "$@"\n')
    result = suite.runpytest_subprocess(
        DIFFERS, f"--ascend-atc={program}", "-k=environment_beats_home"
    )
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])


@pytest.mark.parametrize(
    ("toolkit", "asked", "edition", "notices"),
    [
        ("7.0.0", (), "CANN 7.0", 0),
        ("8.0.RC3.alpha003", (), "CANN 8.0.RC3", 0),
        ("12.0.RC1", (), "CANN 9.1", 1),
        ("", ("--ascend-edition=6.0",), "CANN 6.0", 0),
        ("8.0.0", ("--ascend-edition=6.0",), "CANN 6.0", 1),
        ("8.0.0", ("--ascend-edition=9.0",), "CANN 9.0", 0),
    ],
)
def test_the_version_chooses_and_the_option_overrides(
    suite: pytest.Pytester, toolkit: str, asked: tuple[str, ...], edition: str, notices: int
) -> None:
    program = _atc(suite.path, toolkit, toolkit)
    document = _report(suite, DIFFERS, f"--ascend-atc={program}", *asked)
    assert document["editions"] == [edition]
    assert len(document["edition_notices"]) == notices
    assert all("name one with" not in check["message"] for check in document["checks"])


@pytest.mark.parametrize(
    ("language", "phrase"),
    [
        (
            "en",
            "the toolchain is of CANN 8.0 and judged by CANN 6.0: later promises of the "
            "documents are not judged",
        ),
        ("zh", "工具链属于 CANN 8.0，而以 CANN 6.0 判定：此后版本的承诺没有判定"),
    ],
)
def test_a_milder_judge_is_told_at_the_top_and_beside_the_totals(
    suite: pytest.Pytester, language: str, phrase: str
) -> None:
    program = _atc(suite.path, "8.0.0", "8.0.0")
    result = suite.runpytest_subprocess(
        DIFFERS,
        f"--ascend-atc={program}",
        "--ascend-edition=6.0",
        f"--ascend-language={language}",
        "--ascend-html=page.html",
    )
    assert sum(phrase in line for line in result.outlines) == 2
    assert phrase in (suite.path / "page.html").read_text(encoding="utf-8")


def test_what_could_not_be_told_of_a_later_promise_is_undecided(suite: pytest.Pytester) -> None:
    program = _atc(suite.path, "6.0.1", "6.0.1")
    document = _report(suite, "--ascend-rule=debug/list-caches-unlisted", f"--ascend-atc={program}")
    (rule,) = document["rules"]
    assert rule["verdict"] == "undecided"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ascend-edition=4.0"], "--ascend-edition=4.0: no such edition; "),
        (["--ascend-edition=8.0RC3"], "did you mean '8.0.RC3'?"),
        (["--ascend-edition="], "--ascend-edition is empty; give a name"),
        (
            ["--ascend-edition=7.0", "--ascend-edition=8.0"],
            "a run judges by one edition of a product; name one, or compare two with "
            "--ascend-rules.",
        ),
        (
            ["--ascend-rules", "--ascend-edition=7.0", "--ascend-edition=torchair-7.3"],
            "are of two products; name two editions of one.",
        ),
    ],
    ids=str,
)
def test_an_edition_that_does_not_fit_is_one_sentence(
    suite: pytest.Pytester, arguments: list[str], words: str
) -> None:
    result = suite.runpytest_subprocess(SAME, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line]
    assert error.startswith("ERROR: --ascend-edition")
    assert words in error


def test_two_editions_are_compared_rule_by_rule(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess(
        "--ascend-rules", "--ascend-edition=7.0", "--ascend-edition=8.0"
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "From CANN 7.0 to CANN 8.0",
            "cache-mode/directory-precedence  [[]different]",
            "    https://www.hiascend.com/*",
            "aging/minus-one  [[]not read for the release before]",
            "With an existing cache:",
            "    - Rename the keys in op_cache.ini from ascend_max_op_cache_size,*",
        ]
    )


@pytest.mark.parametrize(
    ("edition", "found"),
    [
        (
            "8.0",
            "sets ascend_max_op_cache_size, a key of CANN 7.0 that CANN 8.0 does not read: "
            "write max_op_cache_size",
        ),
        ("7.0", ""),
        (
            "6.0",
            "sets ascend_max_op_cache_size, a key of CANN 7.0 that CANN 6.0 does not read: "
            "export ASCEND_MAX_OP_CACHE_SIZE",
        ),
    ],
)
def test_an_audit_reads_the_ini_of_its_edition(
    suite: pytest.Pytester, edition: str, found: str
) -> None:
    cache = kernel_cache(suite.path / "atc_data")
    keys = "ascend_max_op_cache_size=100\nascend_remain_cache_size_ratio=50\n"
    put(cache.ini, INI + keys)
    document = _report(
        suite,
        f"--ascend-audit={cache.root}",
        f"--ascend-edition={edition}",
        "--ascend-rule=audit/ini",
    )
    (check,) = document["checks"]
    assert check["verdict"] == ("warn" if found else "pass")
    assert found in check["message"]


@pytest.mark.parametrize(
    ("edition", "verdict", "found"),
    [
        ("5.0", "warn", "ASCEND_MAX_OP_CACHE_SIZE is set, which CANN 5.0 does not read yet"),
        ("6.0", "pass", ""),
        ("9.0", "pass", ""),
    ],
)
def test_a_release_is_judged_by_the_variables_of_its_edition(
    suite: pytest.Pytester, edition: str, verdict: str, found: str
) -> None:
    shutil.copytree(FIXTURES / "release-operators", suite.path / "bert")
    shutil.copy(FIXTURES / "bert_base_encoder_layer.json", suite.path)
    document = _report(
        suite,
        "--ascend-release=bert/release.toml",
        f"--ascend-edition={edition}",
        "--ascend-rule=release/settings-agree",
    )
    (check,) = document["checks"]
    assert (check["rule"], check["verdict"]) == ("release/settings-agree", verdict)
    assert found in check["message"]
