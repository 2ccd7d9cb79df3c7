"""Options of the MindSpore toolchains."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

MINDSPORE_TOOLCHAINS = ("mindspore-operator-cache", "mindspore-graph-cache")
"""Names ``--ascend-toolchain`` takes; known here so that nothing has to be imported."""


@dataclass(frozen=True)
class MindSporeSettings:
    """``python`` is the Python that has the wheel; ``None`` is that of ``.venv-mindspore``."""

    python: str | None = None

    @property
    def arguments(self) -> list[str]:
        """The options that repeat it."""
        return [f"--ascend-mindspore={self.python}"] if self.python is not None else []


def add_mindspore_options(group: pytest.OptionGroup) -> None:
    """Register them."""
    group.addoption(
        "--ascend-mindspore",
        metavar="PYTHON",
        default=None,
        help="the Python of an environment with MindSpore's wheel, for the toolchains "
        f"{' and '.join(MINDSPORE_TOOLCHAINS)} (default: .venv-mindspore/bin/python, "
        "or this Python)",
    )


def read_mindspore(config: pytest.Config, toolchain: str) -> MindSporeSettings:
    """Check them.

    Raises:
        pytest.UsageError: where the option is given for another toolchain.
    """
    python = config.getoption("--ascend-mindspore")
    if python is not None and toolchain not in MINDSPORE_TOOLCHAINS:
        raise pytest.UsageError(
            f"--ascend-mindspore={python} names a Python for MindSpore, but the toolchain is "
            f"'{toolchain}'; add --ascend-toolchain={MINDSPORE_TOOLCHAINS[0]} or leave it out."
        )
    return MindSporeSettings(python)


def mindspore_suites(config: pytest.Config) -> tuple[str, ...]:
    """The suite's folders for a MindSpore toolchain, which replace those for single operators;
    none for any other toolchain."""
    toolchain = config.getoption("--ascend-toolchain")
    if toolchain not in MINDSPORE_TOOLCHAINS:
        return ()
    cache = toolchain.removeprefix("mindspore-").replace("-", "_")
    return ("mindspore/common", f"mindspore/{cache}")
