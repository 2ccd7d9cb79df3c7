"""Options for judging an ``op_compiler``. See ``settings``."""

from __future__ import annotations

import pytest

NAME = "op-compiler"
"""Name of the toolchain that has nothing but an ``op_compiler``."""


def add_op_compiler_option(group: pytest.OptionGroup) -> None:
    """Register the option."""
    group.addoption(
        "--ascend-op-compiler",
        metavar="PATH",
        default=None,
        help=f"judge this op_compiler-compatible command (implies --ascend-toolchain={NAME})",
    )


def read_op_compiler(config: pytest.Config) -> str | None:
    """The command to judge, if one was given.

    Raises:
        pytest.UsageError: where another toolchain is asked for as well.
    """
    command: str | None = config.getoption("--ascend-op-compiler")
    toolchain, atc = config.getoption("--ascend-toolchain"), config.getoption("--ascend-atc")
    if command is not None and (atc is not None or toolchain not in (None, NAME)):
        other = f"--ascend-atc={atc}" if atc is not None else f"--ascend-toolchain={toolchain}"
        raise pytest.UsageError(
            f"--ascend-op-compiler={command} names a command for the toolchain '{NAME}', which "
            f"does not go with {other}; give one of the two."
        )
    return command
