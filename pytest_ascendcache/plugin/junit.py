"""What JUnit files, and so GitLab and Jenkins, show of a check.

pytest writes the file. The rule becomes part of a test case's name, because viewers show names but
no properties. Known deviations are what pytest calls xfailed. Warnings get an entry like theirs,
because viewers hide tests that passed.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

import pytest

# There is no public way to pytest's writer for a plugin in xdist's controller; the fixtures that
# pytest offers work only in the process of the test.
from _pytest.junitxml import xml_key

from pytest_ascendcache.language import Language, text
from pytest_ascendcache.reports.cause import said_of


def tell_junit(config: pytest.Config, report: pytest.TestReport, record: Mapping[str, Any]) -> None:
    """Add rule, harm, reason and repeat command to the test case, before pytest writes it."""
    writer = config.stash.get(xml_key, None)
    if writer is None:
        return
    case = writer.node_reporter(report)
    name = report.nodeid.rpartition("::")[2]
    case.add_attribute("name", f"{record['rule']}: {name}")
    verdict = record["verdict"]
    if report.failed:
        if config.getoption("tbstyle") == "auto":
            report.longrepr = _text(record)
    elif hasattr(report, "wasxfail"):
        report.wasxfail = _text(record)  # of which pytest makes the entry
    elif verdict == "warn" and report.when == "call":
        message = _text(record)
        shown = ElementTree.Element("skipped", type=f"ascend.{verdict.replace(' ', '-')}")
        shown.set("message", message.partition("\n")[0])
        shown.text = message
        case.append(shown)
        # pytest counts this entry, and will count the report as passed in addition.
        writer.stats["passed"] -= 1


def _text(record: Mapping[str, Any]) -> str:
    """Rule, verdict, harm and reason in one line; then details and the repeat command."""
    head = [record["rule"], record["verdict"]]
    if harm := record.get("harm"):
        head.append(text(f"harm_{harm}", Language.ENGLISH))
    lines = [f"{', '.join(head)}: {said_of(record)}"]
    if record.get("deviation"):
        lines.append(record["deviation"]["reason"])
    return "\n".join([*lines, record["message"], f"repeat: {record['repeat']}"])
