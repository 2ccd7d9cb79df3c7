"""The summary and annotations of a run on GitHub, and the JUnit record of a check."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.reports.markdown import summary, workflow_commands
from tests.sample_reports import failing, record, report

RULE = "cache-mode/default-is-disable"
DEFECT = "--ascend-defect=default-is-enable"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory, and an environment without CI variables."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester


def _run(run: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return run.runpytest_subprocess("--ascend-cache", f"--ascend-rule={RULE}", *arguments)


def test_the_summary_is_appended_and_junit_says_rule_reason_and_how_to_repeat(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = run.path / "summary.md"
    place.write_text("# before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
    result = _run(run, DEFECT, "--junitxml=junit.xml")
    text = place.read_text(encoding="utf-8")
    assert text.startswith("# before\n## Ascend cache contract: reference with defect")
    assert "| rules | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert f"<code>{RULE}</code>" in text
    assert "**Do not ship: 1 cause, 3 checks broken.**" in text
    assert "the cache is used: kernels from before are served (3 checks in" in text
    assert "- with no cache mode: compiled, entry stored; expected: compiled, entry absent" in text
    assert "::error" not in result.stdout.str()
    root = ElementTree.parse(run.path / "junit.xml").getroot()
    case = root.find(".//testcase")
    assert case is not None
    assert (case.get("name") or "").startswith(f"{RULE}: test_default_")
    failure = case.find("failure")
    assert failure is not None
    first, *_, last = (failure.text or "").splitlines()
    assert first.startswith(f"{RULE}, fail")
    assert "; expected: compiled, entry " in first
    assert last.startswith("repeat: ")
    assert "--ascend-defect=default-is-enable" in last


def test_a_summary_that_cannot_be_written_costs_one_line_and_junit_is_written(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(run.path))
    result = _run(run, "--junitxml=junit.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["WARNING: GITHUB_STEP_SUMMARY=* cannot be written: *directory."])
    case = ElementTree.parse(run.path / "junit.xml").getroot().find(".//testcase")
    assert case is not None
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    rule = load_rules()[RULE]
    assert properties == {
        "rule": RULE,
        "level": "must",
        "title": rule.title_en,
        "document": rule.source.document,
        "source": str(rule.source),
        "verdict": "pass",
    }


def test_one_annotation_a_cause(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = _run(run, DEFECT)
    lines = [line for line in result.outlines if line.startswith("::")]
    # The run wrongly reuses an entry and stores another: one cause.
    (line,) = lines
    assert line.startswith(f"::error title=fail%3A {RULE} (stale kernel)::")
    assert "the cache is used: kernels from before are served (3 checks in" in line
    assert "reused, entry kept  <- expected: compiled, entry kept" in line
    assert "%0A" in line  # a line break before the command that repeats the check
    assert "--ascend-defect=default-is-enable" in line


def test_other_ci_systems_are_told_nothing(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITLAB_CI", "true")
    assert "::" not in _run(run, DEFECT).outlines[-1]
    assert [each.name for each in run.path.glob("*.md")] == []


def test_commands_and_markup_cannot_be_smuggled_in() -> None:
    nasty = "::error::y <b>`bold`</b> | 100%\n::error::z"
    broken = record(verdict=Verdict.FAIL, message=nasty)
    document = report(broken, toolchain={"name": nasty, "version": "1"})
    (command,) = workflow_commands(document)
    assert "\n" not in command
    assert "100%25" in command
    text = summary(document)
    assert "<b>`" not in text.splitlines()[0]
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "<b>`bold" not in text


def test_a_warning_is_a_warning_and_what_passes_is_not_told() -> None:
    document = report(record(verdict=Verdict.WARN, message="m"), record(rule=RULE))
    (command,) = workflow_commands(document)
    assert command.startswith("::warning title=warn%3A cache-mode/enable-reuses::")


def test_a_summary_stays_below_what_github_takes() -> None:
    broken = [
        failing(
            f"test_a.py::test_{number}[{'x' * 5000}]",
            f"it is {rule.replace('/', ' ')}, {'y' * 9000}",
        )
        for number, rule in enumerate(load_rules())
    ]
    spread = [
        record(each.check, rule, Verdict.FAIL, each.message)
        for rule, each in zip(load_rules(), broken, strict=True)
    ]
    text = summary(report(*spread))
    assert len(text) < 1_000_000
    assert text.endswith("GitHub cannot show everything; see the other reports.\n\n")


def test_junit_shows_what_warns(run: pytest.Pytester) -> None:
    rule = "aging/orphans"
    run.runpytest_subprocess(
        "--ascend-cache",
        f"--ascend-rule={rule}",
        "--ascend-defect=cann",
        "-k",
        "object-alone",
        "--junitxml=junit.xml",
    )
    root = ElementTree.parse(run.path / "junit.xml").getroot()
    (shown,) = root.iter("skipped")
    assert shown.get("type") == "ascend.warn"
    assert (shown.get("message") or "").startswith(f"{rule}, warn")
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("2", "1", "0")
