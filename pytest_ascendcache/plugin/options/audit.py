"""The existing caches that are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.release import ReleaseSettings
from pytest_ascendcache.plugin.options.values import Values


@dataclass(frozen=True)
class AuditSettings:
    """Directories to be looked at, absolute, and where suggested removals are written."""

    directories: tuple[Path, ...] = ()
    fix: Path | None = None


def read_audit(values: Values, release: ReleaseSettings) -> AuditSettings:
    """Check the directories to be audited; the caches that go with releases are among them.

    Raises:
        pytest.UsageError: for a directory that is no cache.
    """
    fix = values["--ascend-audit-fix"]
    given = [_cache(each) for each in values["--ascend-audit"]]
    given += [cache for each in release.releases for cache in each.caches]
    if fix is not None and not given:
        raise pytest.UsageError(
            f"--ascend-audit-fix={fix} needs a directory to look at; give --ascend-audit=DIR."
        )
    if fix is not None:
        _check_plan(fix)
    return AuditSettings(tuple(dict.fromkeys(given)), fix)


def _check_plan(fix: Path) -> None:
    """Never replaces a script that the user wrote."""
    from pytest_ascendcache.audit import is_plan
    from pytest_ascendcache.files import is_stream

    try:
        is_ours = is_stream(fix) or not fix.exists() or is_plan(fix)
    except OSError:
        is_ours = False
    if not is_ours and fix.is_file():
        raise pytest.UsageError(
            f"--ascend-audit-fix={fix} exists and is no removal plan; name another file, or remove "
            "it."
        )


def _cache(given: Path) -> Path:
    """The directory; where nothing is recognised, it was a mistake."""
    from pytest_ascendcache.audit import holds_a_cache

    if not given.is_dir():
        what = "is no directory" if given.exists() else "does not exist"
        raise pytest.UsageError(
            f"--ascend-audit={given} {what}; name a directory that holds a cache."
        )
    try:
        known = holds_a_cache(given)
    except OSError as error:
        raise pytest.UsageError(
            f"--ascend-audit={given} cannot be read ({error.strerror}); run pytest as a user who "
            "may read it, or audit a copy."
        ) from None
    if not known:
        raise pytest.UsageError(
            f"--ascend-audit={given} holds no cache that is known: neither CANN's kernel_cache, "
            "nor MindSpore's rank_*/kernel_meta, akg_kernel_meta or graph_cache, nor TorchAir's "
            "static kernels; name one of these, or the directory they are in."
        )
    return given
