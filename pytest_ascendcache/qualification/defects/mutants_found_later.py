"""Siblings of generated mutants that the suite did not notice when they were first tried."""

from __future__ import annotations

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import StorePolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.errors import AtcError, invalid_path
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.incremental.surroundings import (
    SurroundingsPolicy,
    invalid_variable,
)
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

DIRECTORY = "cache-mode/directory-precedence"
HEALS = "robust/heals-damaged-entry"
LISTED = "debug/list-bypasses-listed"
PRECISION = "impl-mode/precision-file"
LOCKS = "shared/node-local-locks"
REUSES = "incremental/reuses"
STAMP = "robust/upgrade-stamp"


@defect(STAMP, found_later=True)
class TheVersionIsReadOnce(PurgePolicy):
    """Who has waited for another to remove the old entries removes the new ones."""

    read: tuple[str | None, ...] = ()

    def stamp(self, fs, path):
        self.read = self.read or (super().stamp(fs, path),)
        return self.read[0]


@defect(DIRECTORY, overrides=DirectoryPolicy.root, found_later=True)
def a_run_without_the_option_fails(self, right, option, environ):
    """Without --op_compiler_cache_dir a run fails."""
    if not option:
        raise invalid_path("", "--op_compiler_cache_dir", "it is missing")
    return right(option, environ)


@defect(HEALS, overrides=StorePolicy.clear, found_later=True)
def what_stands_for_metadata_stays(self, right, fs, path):
    """What stands in the place of metadata is not removed before it is replaced."""
    if path.suffix != ".json":
        right(fs, path)


@defect(LISTED, overrides=DebugPolicy.parse, found_later=True)
def notes_are_no_debug_lines(self, right, text, path):
    """A debug file with a note in it is refused."""
    if "#" in text:
        raise AtcError("E20003", f"Configuration file [{path}] has invalid content.")
    return right(text, path)


@defect("debug/config-bypasses", overrides=DebugPolicy.parse, found_later=True)
def no_debug_file_is_taken(self, right, text, path):
    """Every debug file is refused."""
    raise AtcError("E20003", f"Configuration file [{path}] has invalid content.")


@defect(PRECISION, overrides=ImplementationPolicy.parse, found_later=True)
def empty_lines_are_no_modes(self, right, text, path, parameter):
    """A precision file with an empty line in it is refused."""
    if "" in map(str.strip, text.splitlines()):
        raise AtcError("E20003", f"Configuration file [{path}] has invalid content.")
    return right(text, path, parameter)


@defect(REUSES, overrides=SurroundingsPolicy.size, found_later=True)
def a_gang_of_one_is_refused(self, right, environ):
    """A size of one is no size."""
    size = right(environ)
    if size == 1:
        raise invalid_variable("RANK_SIZE", size, "there is nobody to meet")
    return size


@defect(LOCKS, overrides=RegistryPolicy.remove, found_later=True)
def a_late_comer_holds_nothing(self, right, fs, ai_core, name, leaver=None, force=False):
    """A package goes although a process came to use it while it was being uninstalled."""
    return right(fs, ai_core, name, leaver, True)
