"""MindSpore's Ascend releases, with stand-ins for CANN, as one toolchain."""

from pytest_ascendcache.toolchains.mindspore_ascend.toolchain import (
    Happened,
    MindSporeAscendToolchain,
    compiled,
    mindspore_ascend_toolchain,
    ran,
)

__all__ = [
    "Happened",
    "MindSporeAscendToolchain",
    "compiled",
    "mindspore_ascend_toolchain",
    "ran",
]
