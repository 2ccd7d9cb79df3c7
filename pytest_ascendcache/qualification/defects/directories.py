"""Wrong decisions about where the cache is."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy


@defect("cache-mode/directory-precedence", overrides=DirectoryPolicy.root)
def environment_beats_option(self, right, option, environ):
    """ASCEND_CACHE_PATH beats the option."""
    return right("" if environ.get("ASCEND_CACHE_PATH") else option, environ)


@defect("cache-mode/directory-precedence", overrides=DirectoryPolicy.root)
def environment_ignored(self, right, option, environ):
    """ASCEND_CACHE_PATH is not looked at."""
    return right(option, {"HOME": environ["HOME"]})


@defect("cache-mode/directory-precedence", overrides=DirectoryPolicy.root)
def default_directory_is_here(self, right, option, environ):
    """The default is the working directory."""
    if not option and not environ.get("ASCEND_CACHE_PATH"):
        return Path.cwd() / "atc_data"
    return right(option, environ)


@defect("cache-mode/directory-precedence", overrides=PurgePolicy.force)
def force_purges_the_environment(self, right, fs, soc_directory):
    """Force purges ASCEND_CACHE_PATH, option or not."""
    named = os.environ.get("ASCEND_CACHE_PATH")
    if named:
        right(fs, Path(named) / "kernel_cache" / soc_directory.name)
    return right(fs, soc_directory)


@defect("cache-mode/directory-precedence", overrides=DirectoryPolicy.root)
def relative_directory_from_home(self, right, option, environ):
    """A relative directory is taken from HOME."""
    if option and not Path(option).is_absolute():
        return Path(environ["HOME"]) / option
    return right(option, environ)


@defect("cache-mode/directory-precedence", overrides=DirectoryPolicy.prepare)
def directory_not_created(self, right, fs, root, soc, origin):
    """A missing directory is not created (T33)."""
    if root.exists() or root.parent.exists():
        right(fs, root, soc, origin)
