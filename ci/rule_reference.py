"""The rule reference ``docs/rules.md``, made from the rule files by ``ci/docs``."""

from __future__ import annotations

import itertools

from pytest_ascendcache.contract import Rule, load_rules

_HEAD = """\
# Rules

Every promise that is judged, by document, with its level: **must** is what a document states,
**should** what it recommends or what no user could accept otherwise, **info** what it leaves open.
Made from the rule files by `ci/docs`.
"""


def rule_reference() -> str:
    """Return all rules as Markdown, in the order of the rule files."""
    rules = load_rules().values()
    parts = [_HEAD]
    for document, members in itertools.groupby(rules, key=lambda rule: rule.source.document):
        parts.append(f"\n## {document}\n")
        parts += map(_rule, members)
    return "".join(parts)


def _rule(rule: Rule) -> str:
    needs = ", ".join(sorted(each.value for each in rule.capabilities))
    # The source is a link if the document is public.
    source = f"[{rule.source}]({rule.source.address})" if rule.source.address else str(rule.source)
    lines = [
        f"\n### {rule.id}\n",
        f"**{rule.level.value}** · {rule.title_en} · {rule.title_zh}\n",
        f"{rule.statement}\n",
        f"{rule.statement_zh}\n",
        f"Source: {source}." + (f" Needs: {needs}." if needs else ""),
    ]
    return "\n".join(lines) + "\n"
