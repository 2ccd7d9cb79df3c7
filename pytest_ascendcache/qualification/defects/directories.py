"""Wrong decisions about where the cache is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.policies import Policies


@defect("cache-mode/directory-precedence", what="ASCEND_CACHE_PATH beats the option")
def environment_beats_option() -> Policies:
    class Wrong(DirectoryPolicy):
        def root(self, option: str, environ: Mapping[str, str]) -> Path:
            return super().root("" if environ.get("ASCEND_CACHE_PATH") else option, environ)

    return Policies(directory=Wrong())


@defect("cache-mode/directory-precedence", what="ASCEND_CACHE_PATH is not looked at")
def environment_ignored() -> Policies:
    class Wrong(DirectoryPolicy):
        def root(self, option: str, environ: Mapping[str, str]) -> Path:
            return super().root(option, {"HOME": environ["HOME"]})

    return Policies(directory=Wrong())


@defect("cache-mode/directory-precedence", what="the default is the working directory")
def default_directory_is_here() -> Policies:
    class Wrong(DirectoryPolicy):
        def root(self, option: str, environ: Mapping[str, str]) -> Path:
            if not option and not environ.get("ASCEND_CACHE_PATH"):
                return Path.cwd() / "atc_data"
            return super().root(option, environ)

    return Policies(directory=Wrong())


@defect("cache-mode/directory-precedence", what="force purges ASCEND_CACHE_PATH, option or not")
def force_purges_the_environment() -> Policies:
    class Wrong(PurgePolicy):
        def force(self, fs: Fs, soc_directory: Path) -> bool:
            named = os.environ.get("ASCEND_CACHE_PATH")
            if named:
                super().force(fs, Path(named) / "kernel_cache" / soc_directory.name)
            return super().force(fs, soc_directory)

    return Policies(purge=Wrong())


@defect("cache-mode/directory-precedence", what="a relative directory is taken from HOME")
def relative_directory_from_home() -> Policies:
    class Wrong(DirectoryPolicy):
        def root(self, option: str, environ: Mapping[str, str]) -> Path:
            if option and not Path(option).is_absolute():
                return Path(environ["HOME"]) / option
            return super().root(option, environ)

    return Policies(directory=Wrong())


@defect("cache-mode/directory-precedence", what="a missing directory is not created (T33)")
def directory_not_created() -> Policies:
    class Wrong(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            if root.exists() or root.parent.exists():
                super().prepare(fs, root, soc, origin)

    return Policies(directory=Wrong())
