"""The rule reference ``docs/rules.md``, made from the rule files."""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

from pytest_ascendcache.contract import Rule, load_rules
from pytest_ascendcache.files import write_output

_HEAD = """\
# Rules

Every promise that is judged, by document, with its level: **must** is what a document states,
**should** what it recommends or what no user could accept otherwise, **info** what it leaves open.
Made from the rule files by `ci/docs`.
"""


def rule_reference() -> str:
    """All rules as Markdown, in the order of the rule files."""
    rules = load_rules().values()
    parts = [_HEAD]
    for document, members in itertools.groupby(rules, key=lambda rule: rule.source.document):
        parts.append(f"\n## {document}\n")
        parts += map(_rule, members)
    return "".join(parts)


def _rule(rule: Rule) -> str:
    needs = ", ".join(sorted(each.value for each in rule.capabilities))
    lines = [
        f"\n### {rule.id}\n",
        f"**{rule.level.value}** · {rule.title_en} · {rule.title_zh}\n",
        f"{rule.statement}\n",
        f"{rule.statement_zh}\n",
        f"Source: {_source(rule)}." + (f" Needs: {needs}." if needs else ""),
    ]
    return "\n".join(lines) + "\n"


def _source(rule: Rule) -> str:
    """Document and section, as a link if the document is public."""
    source = rule.source
    return f"[{source}]({source.address})" if source.address else str(source)


def main(arguments: list[str] | None = None) -> int:
    """Write the reference to a file; called by ``ci/docs``."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_ascendcache.reports.rule_reference",
        description="Writes the rule reference from the rule files.",
    )
    parser.add_argument("file", type=Path, help="where it goes, such as docs/rules.md")
    place = parser.parse_args(arguments).file
    try:
        write_output(place, rule_reference())
    except OSError as error:
        parser.error(f"{place} cannot be written: {error.strerror}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
