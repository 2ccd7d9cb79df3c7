"""Makes the table of budgets in docs/atc.md: the defects that a number of runs of atc notices."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile

import pytest

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES
from pytest_ascendcache.qualification import matrix
from pytest_ascendcache.qualification.core import core_of
from pytest_ascendcache.qualification.cover import candidates_of, noticed_by
from pytest_ascendcache.qualification.independent import noticed, selections
from pytest_ascendcache.qualification.matrix import VENDOR
from pytest_ascendcache.toolchains.installed import OF_ATC

_HEAD = """\
| runs | checks | rules | seeded defects noticed | CANN's deviations | generated changes |
|---:|---:|---:|---:|---:|---:|
"""


class _Collected:
    """A plugin that collects the checks of the suite, each with its rule."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            marker = item.get_closest_marker("ascend_rule")
            if marker is not None:
                self.rules[item.nodeid.removeprefix(SUITE_NODES)] = marker.args[0]


def budget_table() -> str:
    """Return the table. The kill matrix shows the least that each budget notices."""
    rules = _collected()
    candidates = candidates_of(rules, OF_ATC)
    notices = noticed_by(matrix.read(), {each.check for each in candidates})
    known = frozenset().union(*notices.values())
    mutants = noticed().values()
    lines = [_HEAD]
    costs = {each.check: each.cost for each in candidates}
    core = core_of(rules, OF_ATC).chosen & set(costs)
    chosen = {str(budget): set(selection.chosen) for budget, selection in selections(rules).items()}
    chosen[f"core ({sum(costs[each] for each in core):.0f})"] = set(core)
    chosen[f"whole ({sum(costs.values()):.0f})"] = set(costs)
    for runs, checks in chosen.items():
        seen = frozenset().union(*(notices.get(each, frozenset()) for each in checks))
        cells = (
            runs,
            str(len(checks)),
            str(len({rules[each] for each in checks})),
            _share(seen, known, deviations=False),
            _share(seen, known, deviations=True),
            _of(sum(not each.isdisjoint(checks) for each in mutants), len(mutants)),
        )
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _share(seen: frozenset[str], known: frozenset[str], deviations: bool) -> str:
    some, every = (
        sum(each.startswith(VENDOR) is deviations for each in names) for names in (seen, known)
    )
    return _of(some, every)


def _of(some: int, every: int) -> str:
    share = 100 if some == every else min(99, round(100 * some / every))
    return f"{some} of {every} ({share}%)"


def _collected() -> dict[str, str]:
    """Return the rule of each check of the suite."""
    collected = _Collected()
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        tempfile.TemporaryDirectory(prefix="ascendcache-budgets-") as empty,
    ):
        arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
        arguments += [f"--rootdir={empty}", "--ascend-select=whole"]
        if pytest.main([*arguments, "--pyargs", PACKAGE], plugins=[collected]):
            raise SystemExit(output.getvalue())
    return collected.rules


if __name__ == "__main__":
    only_rules = sys.argv[1:] == ["--rules"]  # for tests: the checks with their rules, as JSON
    print(json.dumps(_collected()) if only_rules else budget_table(), end="")
