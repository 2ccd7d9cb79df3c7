"""Options of existing caches and releases: which of them a run judges."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.plugin.options.values import Values

if TYPE_CHECKING:
    from pytest_ascendcache.release.file import Release

_NO_ID = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters to keep out of the name of a check, which users type on a command line."""

_PACKAGES = ("ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH")
RELEASE, UPDATE = "--ascend-release", "--ascend-manifest-update"


@dataclass(frozen=True)
class ReleaseSettings:
    """The releases to judge; ``update`` writes their manifests instead of comparing with them."""

    releases: tuple[Release, ...] = ()
    update: bool = False

    @property
    def toolchain(self) -> str:
        """The toolchain that the releases name: a name, an absolute path, or empty."""
        return self.releases[0].toolchain if self.releases else ""

    @property
    def socs(self) -> list[str]:
        """The chips (SoCs) that the releases are for."""
        return list(dict.fromkeys(release.soc for release in self.releases))

    @property
    def ids(self) -> list[str]:
        """The releases' names for the ids of checks; equal ones get a number."""
        names = [_NO_ID.sub("-", release.name) for release in self.releases]
        return [
            f"{name}-{number}" if names.count(name) > 1 else name
            for number, name in enumerate(names, start=1)
        ]

    @property
    def manifests(self) -> list[tuple[str, Path]]:
        """The manifests to write: a text that says why each is written, and the file."""
        return [
            (f"{UPDATE}: the manifest {release.manifest} of {release.path}", release.manifest)
            for release in self.releases
            if self.update and release.manifest is not None
        ]

    @property
    def inputs(self) -> list[tuple[str, Path]]:
        """The files that the releases name and no run may replace, each with its release."""
        return [
            (f"{RELEASE}={release.path}", path)
            for release in self.releases
            for path in release.files
            if not (self.update and path == release.manifest)
        ]


def read_releases(values: Values) -> ReleaseSettings:
    """Read the release files. Raises ``pytest.UsageError`` for a file that cannot be used."""
    paths, update = values[RELEASE], values[UPDATE]
    if not paths:
        if update:
            raise pytest.UsageError(f"{UPDATE} needs a release; name its file with {RELEASE}.")
        return ReleaseSettings()
    from pytest_ascendcache.release.file import ReleaseFileError, read_release

    try:
        # A file that is given twice is one release.
        distinct = dict.fromkeys(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100 - links stay
        releases = tuple(read_release(path, os.environ) for path in distinct)
    except ReleaseFileError as error:
        raise pytest.UsageError(f"{RELEASE}: {error}") from None
    for release in releases:
        _check_caches(release)
        if update and release.manifest is None:
            raise pytest.UsageError(
                f'{UPDATE}: {release.path} names no manifest; add manifest = "kernels.json".'
            )
    return ReleaseSettings(releases, update)


def check_toolchains(releases: tuple[Release, ...]) -> None:
    """Raise ``pytest.UsageError`` for releases that name different toolchains: a run judges one."""
    for release in releases:
        first = releases[0]
        if release.toolchain != first.toolchain:
            raise pytest.UsageError(
                f"{RELEASE}: {first.path} names the toolchain {first.toolchain!r} and "
                f"{release.path} names {release.toolchain!r}; judge them in two runs, or name one "
                "for both with --ascend-toolchain."
            )


def check_packages(releases: tuple[Release, ...]) -> None:
    """Refuse releases that are to be compiled with an operator package that does not exist. Where
    only files are judged, it may be on another machine. Raises ``pytest.UsageError``."""
    for release in releases:
        for name in _PACKAGES:
            for package in filter(None, release.kernel_environment.get(name, "").split(os.pathsep)):
                if not Path(package).is_dir():
                    raise pytest.UsageError(
                        f"{RELEASE}: {release.path}: {name}: there is no directory {package}; name "
                        "the operator package, or leave it out."
                    )


def _check_caches(release: Release) -> None:
    """Refuse a release whose ``caches`` are not caches."""
    from pytest_ascendcache.audit import holds_a_cache

    for cache in release.caches:
        try:
            reason = "" if holds_a_cache(cache) else "holds no known cache"
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
        if reason:
            raise pytest.UsageError(
                f"{RELEASE}: {release.path}: 'caches': {cache} {reason}; name a directory that "
                "holds a cache, or leave it out."
            )


@dataclass(frozen=True)
class AuditSettings:
    """Absolute directories to audit, and ``fix``, the removal plan to write."""

    directories: tuple[Path, ...] = ()
    fix: Path | None = None


def read_audit(values: Values, release: ReleaseSettings) -> AuditSettings:
    """The directories to audit, with the caches of releases. Raises ``pytest.UsageError`` for one
    that holds no cache, or a plan that cannot be written."""
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
