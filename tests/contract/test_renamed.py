"""Former names of checks still work in journals, baselines and lists of deviations."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pytest_ascendcache import conformance
from pytest_ascendcache.contract import Verdict, renamed
from pytest_ascendcache.contract.deviations import BrokenPromise, Deviation
from pytest_ascendcache.contract.facts import Delivery, Fact
from pytest_ascendcache.contract.renamed import names_in_module, present_name
from pytest_ascendcache.reports.baseline import Baseline
from pytest_ascendcache.reports.journal import Journal
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import record, report

SUITE = Path(conformance.__file__).parent
FORMER = "pytest_ascendcache/conformance/test_aging.py::test_a[case]"
PRESENT = "pytest_ascendcache/conformance/cache_mode/test_aging.py::test_a[case]"


def functions(path: str) -> set[str]:
    tree = ast.parse((SUITE / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_present_name_exists_and_no_former_one() -> None:
    modules, checks = renamed.renamed()["modules"], renamed.renamed()["checks"]
    assert [path for path in modules.values() if not (SUITE / path).is_file()] == []
    assert [path for path in modules if (SUITE / path).exists()] == []
    for former, present in checks.items():
        path, _, function = present.partition("::")
        assert function in functions(path)
        assert former.partition("::")[2] not in functions(former.partition("::")[0])


@pytest.mark.parametrize(
    ("check", "present"),
    [
        (FORMER, PRESENT),
        (PRESENT, PRESENT),
        ("tests/test_aging.py::test_a", "tests/test_aging.py::test_a"),
    ],
    ids=["former", "present", "a user's own"],
)
def test_a_former_name_becomes_the_present_one(check: str, present: str) -> None:
    assert present_name(check) == present


@pytest.fixture
def renamed_function(monkeypatch: pytest.MonkeyPatch) -> str:
    """A list in which ``test_a`` was renamed to ``test_b``. Returns the present node id."""
    path = "cache_mode/test_aging.py"
    names = {"modules": {"test_aging.py": path}, "checks": {f"{path}::test_a": f"{path}::test_b"}}
    monkeypatch.setattr(renamed, "renamed", lambda: names)
    return f"pytest_ascendcache/conformance/{path}::test_b[case]"


def test_modules_and_functions_may_both_be_renamed(renamed_function: str) -> None:
    assert present_name(FORMER) == renamed_function


def test_a_deviation_may_name_a_former_function(renamed_function: str) -> None:
    assert names_in_module(renamed_function) == ("test_b[case]", "test_a[case]")
    for pattern in ("test_a*", "test_b[case]"):
        assert entry(pattern).names("aging/x", renamed_function, {})
    assert not entry("test_c*").names("aging/x", renamed_function, {})


def entry(check: str) -> Deviation:
    return Deviation("list, entry 1", "aging/x", "known", check, ("claim *",))


def test_a_journal_of_former_names_goes_on(tmp_path: Path) -> None:
    path, identity = tmp_path / "run.jsonl", {"toolchain": "atc"}
    journal = Journal(path, identity)
    journal.append(record(FORMER).as_dict())
    journal.close()
    journal = Journal(path, identity)
    journal.close()
    assert {check: each.verdict for check, each in journal.decided.items()} == {
        PRESENT: Verdict.PASS
    }


def test_a_baseline_of_former_names_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "then.json"
    fact = Fact.seen(Delivery.STALE, "an old kernel")
    broken = record(FORMER, verdict=Verdict.FAIL, facts=[fact.as_dict()])
    path.write_text(as_json(report(broken)))
    then = Baseline.read(path)
    now = BrokenPromise(broken.rule, PRESENT, {}, (fact.code,))
    assert then.deviation(now, Verdict.FAIL) is not None
