"""MindSpore's published wheel as two toolchains: its operator cache and its graph cache."""

from pytest_ascendcache.toolchains.mindspore.toolchain import (
    MindSporeToolchain,
    mindspore_toolchain,
)

__all__ = ["MindSporeToolchain", "mindspore_toolchain"]
