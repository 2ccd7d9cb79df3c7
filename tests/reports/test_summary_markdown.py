"""What GitHub is shown of a run, and nobody else; and what JUnit says of a check."""

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
    """A directory, and an environment that is no CI's."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester


def _run(run: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return run.runpytest_subprocess("--ascend-cache", f"--ascend-rule={RULE}", *arguments)


def test_the_summary_is_appended_where_github_says(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = run.path / "summary.md"
    place.write_text("# before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
    result = _run(run, DEFECT)
    text = place.read_text(encoding="utf-8")
    assert text.startswith("# before\n## Ascend cache contract: reference with defect")
    assert "| rules | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert f"<code>{RULE}</code>" in text
    assert "\n        expected: compiled, entry absent\n" in text
    assert "::error" not in result.stdout.str()


def test_a_summary_that_cannot_be_written_costs_one_line(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(run.path))
    result = _run(run)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["WARNING: GITHUB_STEP_SUMMARY=* cannot be written: *directory."])


def test_one_annotation_a_broken_rule(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = _run(run, DEFECT)
    lines = [line for line in result.outlines if line.startswith("::")]
    assert len(lines) == 1
    assert lines[0].startswith(f"::error title=fail%3A {RULE}::Without the option nothing")
    assert lines[0].endswith("(and 2 more checks)")


def test_other_ci_systems_are_told_nothing(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITLAB_CI", "true")
    assert "::" not in _run(run, DEFECT).outlines[-1]
    assert [each.name for each in run.path.glob("*.md")] == []


def test_commands_and_markup_cannot_be_smuggled_in() -> None:
    nasty = "x\n::error::y <b>`bold`</b> | 100%"
    found = report(failing(message=nasty), toolchain={"name": nasty, "version": "1"})
    (command,) = workflow_commands(found)
    assert "\n" not in command
    assert "%0A::error::y" in command
    assert "100%25" in command
    text = summary(found)
    assert "<b>`" not in text.splitlines()[0]
    # Below the heading, which is one line, a message is only ever an indented block of code.
    told = [line for line in text.splitlines()[1:] if "::error::y" in line]
    assert told == ["      ::error::y <b>`bold`</b> | 100%"]


def test_a_warning_is_a_warning_and_what_passes_is_not_told() -> None:
    found = report(record(verdict=Verdict.WARN, message="m"), record(rule=RULE))
    (command,) = workflow_commands(found)
    assert command.startswith("::warning title=warn%3A cache-mode/enable-reuses::")


def test_a_summary_stays_below_what_github_takes() -> None:
    broken = [
        failing(f"test_a.py::test_{number}[{'x' * 5000}]", "y" * 9000) for number in range(20)
    ]
    spread = [
        record(each.check, rule, Verdict.FAIL, each.message)
        for rule in load_rules()
        for each in broken
    ]
    text = summary(report(*spread))
    assert len(text) < 1_000_000
    assert text.endswith("There is more than GitHub shows; see the other reports.\n\n")


def test_junit_has_rule_level_document_and_title(run: pytest.Pytester) -> None:
    _run(run, "--junitxml=junit.xml")
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
