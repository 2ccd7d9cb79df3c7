"""Options of audits: which existing caches a run looks at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.release import ReleaseSettings
from pytest_ascendcache.plugin.options.values import Values


@dataclass(frozen=True)
class AuditSettings:
    """Absolute directories to audit, and ``fix``, the removal plan to write."""

    directories: tuple[Path, ...] = ()
    fix: Path | None = None


def read_audit(values: Values, release: ReleaseSettings) -> AuditSettings:
    """The directories to audit, with the caches that releases name.

    Raises ``pytest.UsageError`` for a directory that holds no cache, or a plan that cannot be
    written.
    """
    fix = values["--ascend-audit-fix"]
    directories = [_cache(each) for each in values["--ascend-audit"]]
    directories += [cache for each in release.releases for cache in each.caches]
    if fix is not None and not directories:
        raise pytest.UsageError(
            f"--ascend-audit-fix={fix} needs a directory to look at; give --ascend-audit=DIR."
        )
    if fix is not None:
        _check_plan(fix)
    return AuditSettings(tuple(dict.fromkeys(directories)), fix)


def _check_plan(fix: Path) -> None:
    """Refuse to replace a script that is not a removal plan: the user may have written it."""
    from pytest_ascendcache.audit import is_plan
    from pytest_ascendcache.files import is_stream

    try:
        is_ours = is_stream(fix) or not fix.exists() or is_plan(fix)
    except OSError:
        is_ours = False
    if not is_ours and fix.is_file():
        raise pytest.UsageError(
            f"--ascend-audit-fix={fix} exists and is not a removal plan; name another file, or "
            "remove it."
        )


def _cache(directory: Path) -> Path:
    """The directory, if it holds a cache; otherwise the user named it by mistake."""
    from pytest_ascendcache.audit import holds_a_cache

    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise pytest.UsageError(
            f"--ascend-audit={directory} {what}; name a directory that holds a cache."
        )
    try:
        known = holds_a_cache(directory)
    except OSError as error:
        raise pytest.UsageError(
            f"--ascend-audit={directory} cannot be read ({error.strerror}); run pytest as a user "
            "who may read it, or audit a copy."
        ) from None
    if not known:
        raise pytest.UsageError(
            f"--ascend-audit={directory} holds no known cache: neither CANN's kernel_cache, "
            "nor MindSpore's rank_*/kernel_meta, akg_kernel_meta or graph_cache, nor TorchAir's "
            "static kernels; name one of these, or the directory they are in."
        )
    return directory
