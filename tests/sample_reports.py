"""Sample reports for tests of summaries and pages, and a parser of pages."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.observation import CacheSize, Evidence, RankEvent
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.reports.files import Document
from pytest_ascendcache.reports.json_report import document
from pytest_ascendcache.reports.records import VerdictRecord

OUTCOME = "combinations/outcome"
_CELLS = "pytest_ascendcache/conformance/cache_mode/test_combinations.py::test_outcome"


def record(
    check: str = "test_a.py::test_a",
    rule: str = "cache-mode/enable-reuses",
    verdict: Verdict = Verdict.PASS,
    message: str = "",
    **evidence: Any,
) -> VerdictRecord:
    """Return a record. ``evidence`` replaces parts of the evidence of a check that did nothing."""
    complete = {**Evidence().as_dict(), **evidence}
    repeat = f"pytest --ascend-cache {check}"
    return VerdictRecord(rule, check, verdict, message, repeat, 0.01, complete)


def failing(check: str = "test_a.py::test_broken", message: str = "it is wrong") -> VerdictRecord:
    """Return the record of a broken promise with all kinds of evidence."""
    step = Step(
        "cd /box/work && atc", "ended with exit status 0", ("Add: reused",), {"a.o": "x"}, ""
    )
    return record(
        check,
        verdict=Verdict.FAIL,
        message=message,
        expected="compiled, entry stored",
        observed="reused, entry kept",
        sandbox="/box",
        steps=[step.as_dict()],
        timeline=[vars(RankEvent(each, 0.5, "end")) for each in "01"],
        sizes=[vars(CacheSize(run, 10, 5, 1, 1)) for run in (1, 2)],
    )


def report(*records: VerdictRecord, **description: Any) -> Document:
    """Return a report of these records."""
    about = {
        "plugin": "0.1.0",
        "toolchain": {"name": "reference", "version": "0.1.0"},
        "host": {"machine": "x86_64", "python": "3.11", "file_system": "ext4"},
        "exit_status": 0,
        "checks_without_verdict": 0,
    }
    return document({**about, **description}, records, load_rules())


def matrix_report(checks: int, broken_each: int = 50) -> Document:
    """Return a report of so many checks of combinations, named like the suite's. One in
    ``broken_each`` of them is broken."""
    levels = (4, 6, 4, 5, 5, 3, 5, 7, 2, 7, 5, 2)
    records = []
    for number in range(checks):
        rest, cell = number * 7919, {}
        for factor, count in enumerate(levels):
            rest, level = divmod(rest, count)
            cell[f"factor_{factor}"] = f"level-{level}-of-this"
            rest += number
        name = "+".join(f"{factor}:{level}" for factor, level in cell.items())
        check = (
            f"pytest_ascendcache/conformance/cache_mode/test_combinations.py::test_outcome[{name}]"
        )
        if number % broken_each == 0:
            broken = failing(check)
            records.append(
                VerdictRecord(
                    **{
                        **vars(broken),
                        "rule": OUTCOME,
                        "evidence": {**broken.evidence, "factors": cell},
                    }
                )
            )
        else:
            records.append(record(check, OUTCOME, factors=cell))
    return report(*records)


class Page(HTMLParser):
    """A page: its elements, its text, and the data embedded in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["script"]:
            self.scripts[-1] += data
        elif "style" not in self._inside:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        """The data that the page's script reads."""
        return json.loads(self.scripts[0])

    def having(self, attribute: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements that have ``attribute``."""
        return [each for _, each in self.elements if attribute in each]


def page(path: Path) -> Page:
    """Read the page in a file."""
    return Page(path.read_text(encoding="utf-8"))
