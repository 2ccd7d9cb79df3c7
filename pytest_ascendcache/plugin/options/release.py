"""Options of the release gate."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_ascendcache.release import Release

_NO_ID = re.compile(r"[^A-Za-z0-9._-]+")
"""What is better not in the name of a check, which people give on a command line."""

RELEASE, UPDATE = "--ascend-release", "--ascend-manifest-update"


@dataclass(frozen=True)
class ReleaseSettings:
    """The releases to be judged, and whether their manifests are written rather than compared."""

    releases: tuple[Release, ...] = ()
    update: bool = False

    @property
    def arguments(self) -> list[str]:
        """The options that repeat it; a manifest is written once."""
        return [f"{RELEASE}={release.path}" for release in self.releases]

    @property
    def ids(self) -> list[str]:
        """The releases' names, made different by a number where they are alike."""
        names = [_NO_ID.sub("-", release.name) for release in self.releases]
        return [
            f"{name}-{number}" if names.count(name) > 1 else name
            for number, name in enumerate(names, start=1)
        ]


def add_release_options(group: pytest.OptionGroup) -> None:
    """Register the options."""
    group.addoption(
        RELEASE,
        metavar="FILE.toml",
        action="append",
        default=[],
        help="judge a model's release: settings, precision file, caches, kernels (repeatable)",
    )
    group.addoption(
        UPDATE,
        action="store_true",
        help="write the golden kernel manifests of the releases instead of comparing with them",
    )


def asks_for_release(config: pytest.Config) -> bool:
    """Whether a release is to be judged, or would be if it were named."""
    return bool(config.getoption(RELEASE) or config.getoption(UPDATE))


def read_releases(config: pytest.Config) -> ReleaseSettings:
    """Read the release files, and have the caches that go with the releases audited.

    Raises:
        pytest.UsageError: for one that cannot be used.
    """
    names, update = config.getoption(RELEASE), config.getoption(UPDATE)
    if not names:
        if update:
            raise pytest.UsageError(f"{UPDATE} needs a release; name its file with {RELEASE}.")
        return ReleaseSettings()
    from pytest_ascendcache.release import ReleaseFileError, read_release

    try:
        # A file that is named twice is one release.
        paths = dict.fromkeys(Path(os.path.abspath(name)) for name in names)  # noqa: PTH100 - links stay
        releases = tuple(read_release(path, os.environ) for path in paths)
    except ReleaseFileError as error:
        raise pytest.UsageError(f"{RELEASE}: {error}") from None
    for release in releases:
        _check_caches(release)
    if update:
        _check_manifests(releases)
    # As if --ascend-audit had named them; xdist hands the options on to its workers.
    audited = config.getoption("--ascend-audit")
    caches = (str(cache) for release in releases for cache in release.caches)
    config.option.ascend_audit = list(dict.fromkeys([*audited, *caches]))
    return ReleaseSettings(releases, update)


def _check_caches(release: Release) -> None:
    """What goes with a release as a cache is one."""
    from pytest_ascendcache.audit import holds_a_cache

    for cache in release.caches:
        try:
            reason = "" if holds_a_cache(cache) else "holds no cache that is known"
        except OSError as error:
            reason = f"cannot be looked into ({error.strerror})"
        if reason:
            raise pytest.UsageError(
                f"{RELEASE}: {release.path}: 'caches': {cache} {reason}; name a directory that "
                "holds a cache, or leave it out."
            )


def _check_manifests(releases: tuple[Release, ...]) -> None:
    """Each release has a manifest of its own to be written."""
    seen: dict[Path, Path] = {}
    for release in releases:
        if release.manifest is None:
            raise pytest.UsageError(
                f'{UPDATE}: {release.path} names no manifest; add manifest = "kernels.json".'
            )
        if release.manifest in seen:
            raise pytest.UsageError(
                f"{UPDATE}: {seen[release.manifest]} and {release.path} have the same manifest "
                f"{release.manifest}; give each its own."
            )
        seen[release.manifest] = release.path
        if inside := [each for each in release.caches if release.manifest.is_relative_to(each)]:
            raise pytest.UsageError(
                f"{UPDATE}: the manifest {release.manifest} is in the cache {inside[0]}, which is "
                "audited and not written to; name another place."
            )
