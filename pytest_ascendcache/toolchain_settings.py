"""Options that say more of the toolchain under test, and how a long run of it goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class ToolchainSettings:
    """``soc`` is the chip to judge, ``None`` for the usual one; ``resume`` the file in which
    verdicts are kept as they are found, to go on after an interruption."""

    soc: str | None = None
    resume: Path | None = None

    @property
    def arguments(self) -> list[str]:
        """The options that decide what is judged, to repeat a check."""
        return [] if self.soc is None else [f"--ascend-soc={self.soc}"]


def add_toolchain_options(group: pytest.OptionGroup) -> None:
    """Register the options of this topic."""
    group.addoption(
        "--ascend-soc",
        metavar="NAME",
        default=None,
        help="judge the toolchain for this chip (default: Ascend910B1)",
    )
    group.addoption(
        "--ascend-resume",
        metavar="FILE.jsonl",
        default=None,
        help="write each verdict here as it is found; if the file is there already, go on where "
        "that run was interrupted",
    )


def read_toolchain(config: pytest.Config) -> ToolchainSettings:
    """Check the options.

    Raises:
        pytest.UsageError: for values that cannot be used.
    """
    soc = config.getoption("--ascend-soc")
    resume = config.getoption("--ascend-resume")
    if soc is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", soc):
        raise pytest.UsageError(
            f"--ascend-soc={soc} is no name of a chip; give one such as Ascend910B1."
        )
    return ToolchainSettings(soc, Path(resume).absolute() if resume is not None else None)
