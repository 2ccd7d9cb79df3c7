"""Wrong decisions about where the cache is."""

import errno
import os
from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.limits import LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.errors import invalid_path

PLACE = "cache-mode/directory-precedence"


@defect(PLACE, overrides=DirectoryPolicy.root)
def environment_beats_option(self, right, option, environ):
    """ASCEND_CACHE_PATH beats the option."""
    return right("" if environ.get("ASCEND_CACHE_PATH") else option, environ)


@defect(PLACE, overrides=DirectoryPolicy.root, harm=Harm.OUTSIDE_TOUCHED, found_later=True)
def home_stands_for_what_cannot_be_made(self, right, option, environ):
    """The cache below HOME is used in place of a directory that cannot be made."""
    root = right(option, environ)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError:
        return right("", {"HOME": environ["HOME"]})
    return root


@defect("cache-mode/force-spares-other-soc", overrides=DirectoryPolicy.soc)
def boards_share_a_directory(self, right, root, soc):
    """Chips whose names differ after a dash have one directory."""
    return right(root, soc.partition("-")[0])


@defect("cache-mode/force-spares-other-soc", overrides=DirectoryPolicy.soc)
def packages_share_a_directory(self, right, root, soc):
    """Chips whose names differ in a letter at the end have one directory."""
    return right(root, soc.rstrip("C"))


@defect(PLACE, overrides=DirectoryPolicy.root)
def home_is_checked(self, right, option, environ):
    """The signs that a path of the option may have are asked of HOME, too."""
    is_home = not option and not environ.get("ASCEND_CACHE_PATH") and environ.get("HOME")
    return right(f"{environ['HOME']}/atc_data" if is_home else option, environ)


@defect("cache-mode/transparent", overrides=DirectoryPolicy.prepare)
def ini_has_to_be_made(self, right, fs, root, soc, origin):
    """A run fails that cannot make op_cache.ini."""
    right(fs, root, soc, origin)
    if not (ini := root / "op_cache.ini").exists():
        raise self.cannot_create(ini, origin, OSError(errno.EROFS, "read-only"))


@defect(PLACE, overrides=DirectoryPolicy.root)
def environment_ignored(self, right, option, environ):
    """ASCEND_CACHE_PATH is ignored."""
    return right(option, {"HOME": environ["HOME"]})


@defect(PLACE, overrides=DirectoryPolicy.root)
def default_directory_is_here(self, right, option, environ):
    """The default is the working directory."""
    if not option and not environ.get("ASCEND_CACHE_PATH"):
        return Path.cwd() / "atc_data"
    return right(option, environ)


@defect(PLACE, overrides=PurgePolicy.force)
def force_purges_the_environment(self, right, fs, soc_directory):
    """Force purges the directory of ASCEND_CACHE_PATH even if the option names another."""
    named = os.environ.get("ASCEND_CACHE_PATH")
    if named:
        right(fs, Path(named) / "kernel_cache" / soc_directory.name)
    return right(fs, soc_directory)


@defect(PLACE, overrides=DirectoryPolicy.root)
def relative_directory_from_home(self, right, option, environ):
    """A relative directory of the option is taken from HOME."""
    if option and not Path(option).is_absolute():
        return Path(environ["HOME"]) / option
    return right(option, environ)


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def relative_variable_below_home(self, right, option, environ):
    """A relative ASCEND_CACHE_PATH is taken from HOME."""
    text = environ.get("ASCEND_CACHE_PATH", "")
    if option or not text or Path(text).is_absolute():
        return right(option, environ)
    return Path(environ["HOME"]) / text


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def empty_variable_is_here(self, right, option, environ):
    """An empty ASCEND_CACHE_PATH means the working directory."""
    empty = not option and environ.get("ASCEND_CACHE_PATH") == ""
    return Path.cwd() if empty else right(option, environ)


@defect("cache-mode/enable-reuses", overrides=DirectoryPolicy.root, found_later=True)
def home_is_needed(self, right, option, environ):
    """HOME must be set even if the option names a directory."""
    return right(option, environ) if "HOME" in environ else Path("/nonexistent")


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def a_run_without_the_option_fails(self, right, option, environ):
    """Without --op_compiler_cache_dir a run fails."""
    if not option:
        raise invalid_path("", "--op_compiler_cache_dir", "it is missing")
    return right(option, environ)


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def long_directory_is_cut(self, right, option, environ):
    """A long path is cut after 200 characters."""
    return Path(str(right(option, environ))[:200])


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def directory_of_ascii(self, right, option, environ):
    """Letters beyond ASCII are dropped from the directory."""
    return Path(str(right(option, environ)).encode("ascii", "ignore").decode())


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def linked_directory_is_not_used(self, right, option, environ):
    """A directory that is a link is not used."""
    root = right(option, environ)
    return root.with_name(f"{root.name}-not-a-link") if root.is_symlink() else root


@defect(PLACE, overrides=DirectoryPolicy.prepare)
def directory_not_created(self, right, fs, root, soc, origin):
    """A missing directory is not created (T33)."""
    if root.exists() or root.parent.exists():
        right(fs, root, soc, origin)


@defect("cache-mode/enable-reuses", overrides=LimitPolicy.places, found_later=True)
def limits_of_the_variable(self, right, root, kernel_cache):
    """op_cache.ini of ASCEND_CACHE_PATH counts even if the option names another directory."""
    text = os.environ.get("ASCEND_CACHE_PATH", "")
    places = right(root, kernel_cache)
    return (Path(text) / "op_cache.ini", *places) if text else places


@defect(PLACE, overrides=PurgePolicy.force, found_later=True)
def no_purge_through_a_link(self, right, fs, soc_directory):
    """Force purges nothing where a link is on the way to the directory."""
    return soc_directory.resolve() != soc_directory or right(fs, soc_directory)


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def own_name_is_not_repeated(self, right, option, environ):
    """A directory that is called kernel_cache is taken for the one that is made in it."""
    path = right(option, environ)
    return path.parent if path.name == "kernel_cache" else path


@defect(PLACE, overrides=DirectoryPolicy.root, found_later=True)
def parents_by_text(self, right, option, environ):
    """The name before .. is left out of a path, also if it is a link."""
    return Path(os.path.abspath(right(option, environ)))  # noqa: PTH100  (the defect)
