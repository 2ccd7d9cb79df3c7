"""Options of the audit of existing caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.reports import check_file

AUDIT_FOLDER = "audit"
"""The suite's folder with the checks of audits."""


@dataclass(frozen=True)
class AuditSettings:
    """Directories to be looked at, absolute, and where suggested removals are written."""

    directories: tuple[Path, ...] = ()
    fix: Path | None = None

    @property
    def arguments(self) -> list[str]:
        """The options that repeat it; a plan is not written again."""
        return [f"--ascend-audit={each}" for each in self.directories]


def add_audit_options(group: pytest.OptionGroup) -> None:
    """Register the options of audits."""
    group.addoption(
        "--ascend-audit",
        metavar="DIR",
        action="append",
        default=[],
        help="look for faults in an existing cache: kernel_cache, rank_*/kernel_meta, graph_cache, "
        "static kernel outputs (repeatable; strictly read-only, no toolchain is started)",
    )
    group.addoption(
        "--ascend-audit-fix",
        metavar="PLAN.sh",
        default=None,
        help="write a shell script that removes what an audit found broken; nothing is removed now",
    )


def asks_for_audit(config: pytest.Config) -> bool:
    """Whether a directory is to be audited; a plan alone is asked back about."""
    return bool(config.getoption("--ascend-audit") or config.getoption("--ascend-audit-fix"))


def read_audit(config: pytest.Config) -> AuditSettings:
    """Check the options of audits.

    Raises:
        pytest.UsageError: for a directory that is no cache, or a place a run would write to.
    """
    given = [Path(each) for each in config.getoption("--ascend-audit")]
    fix = config.getoption("--ascend-audit-fix")
    if fix is not None and not given:
        raise pytest.UsageError(
            f"--ascend-audit-fix={fix} needs a directory to look at; give --ascend-audit=DIR."
        )
    directories = tuple(dict.fromkeys(_cache(each) for each in given))
    for option, place in _written(config, fix):
        _keep_out(option, place, directories)
    return AuditSettings(directories, check_file("--ascend-audit-fix", fix))


def _cache(given: Path) -> Path:
    """The absolute directory; where nothing is recognised, it was a mistake."""
    from pytest_ascendcache.audit import holds_a_cache

    if not given.is_dir():
        what = "is no directory" if given.exists() else "does not exist"
        raise pytest.UsageError(
            f"--ascend-audit={given} {what}; name a directory that holds a cache."
        )
    try:
        known = holds_a_cache(given.absolute())
    except OSError as error:
        raise pytest.UsageError(
            f"--ascend-audit={given} cannot be looked into ({error.strerror}); run it as somebody "
            "who may, or on a copy."
        ) from None
    if not known:
        raise pytest.UsageError(
            f"--ascend-audit={given} holds no cache that is known: neither CANN's kernel_cache, "
            "nor MindSpore's rank_*/kernel_meta, akg_kernel_meta or graph_cache, nor TorchAir's "
            "static kernels; name one of these, or the directory they are in."
        )
    return given.absolute()


def _written(config: pytest.Config, fix: str | None) -> Iterator[tuple[str, Path]]:
    """Where this run is going to write."""
    if fix is not None:
        yield f"--ascend-audit-fix={fix}", Path(fix)
    for option in (
        "--ascend-report",
        "--ascend-html",
        "--ascend-badge",
        "--basetemp",
        "--junitxml",
    ):
        name = config.getoption(option, None)
        if name is not None:
            yield f"{option}={name}", Path(name)
    if config.pluginmanager.hasplugin("cacheprovider"):
        place = config.rootpath / config.getini("cache_dir")
        yield f"pytest's own cache {place} (leave it out with -p no:cacheprovider)", place


def _keep_out(option: str, place: Path, directories: tuple[Path, ...]) -> None:
    resolved = place.absolute().resolve()
    for directory in directories:
        audited = directory.resolve()
        # pytest empties its --basetemp.
        if resolved.is_relative_to(audited) or (
            option.startswith("--basetemp") and audited.is_relative_to(resolved)
        ):
            raise pytest.UsageError(
                f"{option} would be written in {directory}, which is audited and not written to; "
                "name another place."
            )
