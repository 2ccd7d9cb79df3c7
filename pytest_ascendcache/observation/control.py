"""The positive control: what checks may take for granted of a toolchain.

An untouched canary under enable must be served. Without knowing that, "never hits" and
"refuses marked entries" look like correct answers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation.cache import CacheUnderTest
from pytest_ascendcache.observation.evidence import NotDecidable, PositiveControl
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import Toolchain, ToolchainError


def positive_control(
    toolchain: Toolchain, operator: OperatorSpec, sandbox: Path
) -> PositiveControl:
    """Compile, store, mark, compile again, and look for the mark."""
    cache = CacheUnderTest(toolchain, sandbox, PositiveControl())
    try:
        cache.compile(operator, mode=CacheMode.DISABLE)
    except ToolchainError as error:
        return PositiveControl(compiles=False, serves_marked=False, reason=str(error))
    try:
        cache.warm(operator)
        run = cache.compile(operator, mode=CacheMode.ENABLE)
        if not run.served_from(operator):
            return _without_marks("an untouched canary under enable is not served")
        copy = cache.elsewhere(sandbox / "copy")
        shutil.copytree(cache.root, copy.root, symlinks=True)
        relocates = bool(copy.compile(operator, mode=CacheMode.ENABLE).served_from(operator))
    except (ToolchainError, NotDecidable) as error:
        return _without_marks(str(error))
    return PositiveControl(relocates=relocates)


def _without_marks(reason: str) -> PositiveControl:
    return PositiveControl(serves_marked=False, reason=reason)
