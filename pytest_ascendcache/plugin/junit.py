"""What JUnit files, and so GitLab and Jenkins, show of a check.

pytest writes the file. The rule goes into the name of a test case, because viewers show names and
no properties; what warns, and known deviations, are entries of their own kind, as pytest's xfail
is, because a test that simply passed hides them.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any

import pytest

# There is no public way from a plugin that runs beside workers to pytest's own writer; the
# fixtures that pytest offers act in the process of the test alone.
from _pytest.junitxml import xml_key

from pytest_ascendcache.language import Language, text
from pytest_ascendcache.reports.reasons import reason

_VISIBLE = ("warn", "known deviation")


def tell_junit(config: pytest.Config, report: pytest.TestReport, record: Mapping[str, Any]) -> None:
    """Say rule, harm, reason and the command that repeats it; before pytest writes the case."""
    writer = config.stash.get(xml_key, None)
    if writer is None:
        return
    case = writer.node_reporter(report)
    name = report.nodeid.rpartition("::")[2]
    case.add_attribute("name", f"{record['rule']}: {name}")
    verdict = record["verdict"]
    if report.failed:
        if config.getoption("tbstyle") == "auto":
            report.longrepr = told(record)
    elif verdict in _VISIBLE and report.when == "call":
        message = told(record)
        shown = ElementTree.Element("skipped", type=f"ascend.{verdict.replace(' ', '-')}")
        shown.set("message", message.partition("\n")[0])
        shown.text = message
        case.append(shown)
        # That counts it; pytest will count it as passed too when it sees the report.
        writer.stats["passed"] -= 1


def told(record: Mapping[str, Any]) -> str:
    """First rule, verdict, harm and reason in one line; then details and how to repeat it."""
    harm = record.get("harm")
    words = [record["rule"], record["verdict"], *([_words_of(harm)] if harm else [])]
    lines = [": ".join([", ".join(words), reason(record)])]
    if record.get("deviation"):
        lines.append(record["deviation"]["reason"])
    return "\n".join([*lines, record["message"], f"repeat: {record['repeat']}"])


def _words_of(harm: str) -> str:
    return text(f"harm_{harm}", Language.ENGLISH)
