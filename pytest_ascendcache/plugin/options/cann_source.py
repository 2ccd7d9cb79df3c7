"""The option for judging CANN's own cache code. See ``settings``."""

from __future__ import annotations

from pathlib import Path

import pytest

NAME = "cann-cache"
"""Name of the toolchain that is built from a checkout of CANN's sources."""


def add_cann_source_option(group: pytest.OptionGroup) -> None:
    """Register the option."""
    group.addoption(
        "--ascend-cann-source",
        metavar="DIR",
        default=None,
        help="build the cache layer of this checkout of CANN's public repository ge and judge it "
        f"(implies --ascend-toolchain={NAME})",
    )


def read_cann_source(config: pytest.Config) -> Path | None:
    """The checkout to judge, if one was given.

    Raises:
        pytest.UsageError: where another toolchain is asked for as well, or where the toolchain is
            asked for without a checkout.
    """
    source = config.getoption("--ascend-cann-source")
    asked = config.getoption("--ascend-toolchain")
    if source is None:
        if asked == NAME:
            raise pytest.UsageError(
                f"--ascend-toolchain={NAME} needs a checkout of CANN's public repository ge; give "
                "--ascend-cann-source=DIR."
            )
        return None
    others = (
        *((f"--ascend-toolchain={asked}",) if asked not in (None, NAME) else ()),
        *(
            f"{name}={config.getoption(name)}"
            for name in ("--ascend-atc", "--ascend-op-compiler", "--ascend-torchair-script")
            if config.getoption(name) is not None
        ),
    )
    if others:
        raise pytest.UsageError(
            f"--ascend-cann-source={source} is a toolchain of its own ({NAME}), which does not go "
            f"with {others[0]}; give one of the two."
        )
    return Path(source).absolute()
