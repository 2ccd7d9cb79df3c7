"""Options that say more of the toolchain under test, and how a long run of it goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

TORCHAIR = "torchair"
"""The toolchain a user's script is."""


@dataclass(frozen=True)
class ToolchainSettings:
    """``soc`` is the chip to judge, ``None`` for the usual one; ``resume`` the file in which
    verdicts are kept as they are found, to go on after an interruption; ``script`` a user's
    script that compiles static kernels, run on one card and on ``cards``."""

    soc: str | None = None
    resume: Path | None = None
    script: Path | None = None
    cards: int = 2

    @property
    def arguments(self) -> list[str]:
        """The options that decide what is judged, to repeat a check."""
        arguments = [] if self.soc is None else [f"--ascend-soc={self.soc}"]
        if self.script is not None:
            arguments.append(f"--ascend-torchair-script={self.script}")
            if self.cards != ToolchainSettings.cards:
                arguments.append(f"--ascend-torchair-cards={self.cards}")
        return arguments


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

    group.addoption(
        "--ascend-torchair-script",
        metavar="FILE.py",
        default=None,
        help="run this script, which compiles static kernels with TorchAir, and judge what it "
        "leaves",
    )
    group.addoption(
        "--ascend-torchair-cards",
        metavar="N",
        type=int,
        default=ToolchainSettings.cards,
        help="cards of that script where it runs on several (default: 2)",
    )


def asks_for_script(config: pytest.Config) -> bool:
    """Whether a user's script is to be judged."""
    return config.getoption("--ascend-torchair-script") is not None


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
    script = config.getoption("--ascend-torchair-script")
    cards = config.getoption("--ascend-torchair-cards")
    if script is not None and not Path(script).is_file():
        raise pytest.UsageError(
            f"--ascend-torchair-script={script} is no file; name a Python script."
        )
    if script is not None and config.getoption("--ascend-toolchain") not in (None, TORCHAIR):
        raise pytest.UsageError(
            f"--ascend-torchair-script={script} is a toolchain of its own ({TORCHAIR}); leave out "
            "--ascend-toolchain."
        )
    if cards < 2:
        raise pytest.UsageError(f"--ascend-torchair-cards={cards}: give 2 or more.")
    return ToolchainSettings(
        soc,
        Path(resume).absolute() if resume is not None else None,
        Path(script).absolute() if script is not None else None,
        cards,
    )
