"""The suite: a folder for each document, one short check after the other.

Checks name a rule, compile, and compare an outcome. They know no concrete toolchain.
"""

from __future__ import annotations

PACKAGE = __name__
"""What ``pytest --pyargs`` calls the suite."""

SUITE_NODES = PACKAGE.replace(".", "/") + "/"
"""What the node ids of the suite's checks begin with."""

STRESS_RULE = "robust/stress"
"""The rule that is judged only when it is asked for: its check takes minutes."""


def module_of(check: str) -> str:
    """The module of a check named by node id: its dotted name below the suite."""
    file = check.partition("::")[0].removeprefix(SUITE_NODES)
    return file.removesuffix(".py").replace("/", ".")
