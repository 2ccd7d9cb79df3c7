"""What GitHub shows of a run: the summary of a job, and one annotation a broken rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_ascendcache.reports.files import Document

_BROKEN = ("fail", "undecided", "warn")
_SHOWN = 5
_LONGEST = 500
_ROOM = 300_000
"""Characters of sections: GitHub refuses a summary of more than 1 MiB altogether."""


def summary(report: Document) -> str:
    """Markdown: totals, then every broken rule with its first checks and how to repeat them."""
    toolchain = report["toolchain"]
    counts = report["totals"]
    lines = [
        f"## Ascend cache contract: {_plain(toolchain['name'])} {_plain(toolchain['version'])}",
        "",
        "| | " + " | ".join(counts["rules"]) + " |",
        "|---|" + "---:|" * len(counts["rules"]),
        *(
            f"| {what} | " + " | ".join(str(each) for each in counts[what].values()) + " |"
            for what in ("rules", "checks")
        ),
        "",
    ]
    if missing := report.get("checks_without_verdict"):
        lines += [f"**Incomplete:** {missing} selected checks gave no verdict.", ""]
    if news := report.get("baseline"):
        lines += [
            f"Against the baseline `{_code(news['file'])}`: {len(news['new'])} new, "
            f"{len(news['fixed'])} fixed, {news['same']} as before.",
            "",
        ]
    room = _ROOM
    for rule, checks in _broken(report):
        section = _section(rule, checks)
        room -= sum(map(len, section))
        if room < 0:
            lines += ["There is more than GitHub shows; see the other reports.", ""]
            break
        lines += section
    return "\n".join(lines) + "\n"


def workflow_commands(report: Document) -> list[str]:
    """GitHub's workflow commands, no more than one a broken rule."""
    lines = []
    for rule, checks in _broken(report):
        kind = "warning" if rule["verdict"] == "warn" else "error"
        title = f"{rule['verdict']}: {rule['id']}"
        more = f" (and {len(checks) - 1} more checks)" if len(checks) > 1 else ""
        text = f"{rule['title_en']}: {checks[0]['message'][:_LONGEST]}{more}"
        lines.append(f"::{kind} title={_property(title)}::{_escaped(text)}")
    return lines


def _broken(report: Document) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Broken rules with their broken checks, in the report's order: the worst check first."""
    for rule in report["rules"]:
        if rule["verdict"] in _BROKEN:
            yield (
                rule,
                [
                    check
                    for check in report["checks"]
                    if check["rule"] == rule["id"] and check["verdict"] in _BROKEN
                ],
            )


def _section(rule: Mapping[str, Any], checks: list[Mapping[str, Any]]) -> list[str]:
    source = rule["source"]
    lines = [
        f"<details><summary><b>{rule['verdict']}</b> <code>{rule['id']}</code>: "
        f"{_plain(rule['title_en'])} ({len(checks)})</summary>",
        "",
        f"{_plain(rule['statement'])} ({rule['level']}; {_plain(source['document'])}: "
        f"{_plain(source['section'])})",
        "",
    ]
    for check in checks[:_SHOWN]:
        lines += [f"- `{_code(check['check'])}`", "", *_block(check["message"][:_LONGEST])]
        lines += [*_block(check["repeat"]), ""]
    if len(checks) > _SHOWN:
        lines += [f"and {len(checks) - _SHOWN} more", ""]
    return [*lines, "</details>", ""]


def _block(text: str) -> list[str]:
    """Indented as code below a list item: no text can end that, as it can a fence."""
    return ["      " + _printable(line) for line in text.splitlines()] + [""]


def _code(text: str) -> str:
    return _printable(text).replace("`", "'")


def _plain(text: str) -> str:
    escaped = _printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + each if each in "\\`*_[]|" else each for each in escaped)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
