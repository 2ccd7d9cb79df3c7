"""The suite: a folder for each document. A check names a rule, compiles, and compares an
outcome."""

from __future__ import annotations

PACKAGE = __name__
"""The suite's name for ``pytest --pyargs``."""

SUITE_NODES = PACKAGE.replace(".", "/") + "/"
"""The beginning of the node ids of the suite's checks."""

STRESS_RULE = "robust/stress"
"""The rule that is judged only on request, because its check takes minutes."""


def module_of(check: str) -> str:
    """The dotted name, relative to the suite, of the module of a check with this node id."""
    file = check.partition("::")[0].removeprefix(SUITE_NODES)
    return file.removesuffix(".py").replace("/", ".")
