"""MindSpore's Ascend releases, with stand-ins for CANN, as one toolchain."""

from pytest_ascendcache.toolchains.mindspore_ascend.toolchain import (
    Happened,
    MindSporeAscendToolchain,
    mindspore_ascend_toolchain,
)

__all__ = [
    "Happened",
    "MindSporeAscendToolchain",
    "mindspore_ascend_toolchain",
]
