"""Caches of another version of the toolchain that are not emptied, or not entirely."""

import os
from pathlib import Path

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.incremental.info import InfoPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.mode import ModePolicy
from pytest_ascendcache.reference.static_kernel.client.package_cache import PackageCachePolicy
from pytest_ascendcache.reference.version import own_version

UPGRADE = "robust/upgrade-stamp"


@defect(UPGRADE, overrides=PurgePolicy.upgrade, crash=CrashKind.KILLED.value)
def stamp_before_purge(self, right, fs, kernel_cache, stamp):
    """The stamp is written before the old entries are removed (T7)."""
    path = kernel_cache / "version.info"
    if self.stamp(fs, path) == stamp:
        return True
    try:
        fs.write_whole("upgrade.stamp", path, stamp.encode())
        for each in fs.entries("upgrade.list", kernel_cache):
            if each.is_dir():
                self.force(fs, Path(each.path))
    except OSError:
        return False
    return True


@defect(UPGRADE, overrides=DirectoryPolicy.soc, memory={"compiled": []})
def upgrade_of_one_soc(self, right, root, soc):
    """Only the chip of the first compile is purged (T6)."""
    self.memory.compiled.append(soc)
    return right(root, soc)


@upgrade_of_one_soc.also(PurgePolicy.force)
def _(self, right, fs, soc_directory):
    return soc_directory.name not in self.memory.compiled or right(fs, soc_directory)


@defect(UPGRADE, overrides=PurgePolicy.upgrade, memory={"chips": -1000}, found_later=True)
def upgrade_of_two_chips(self, right, *arguments):
    """Another version empties the directories of two chips at most."""
    self.memory.chips = 0
    return right(*arguments)


@upgrade_of_two_chips.also(PurgePolicy.force)
def _(self, right, *arguments):
    self.memory.chips += 1
    return self.memory.chips > 2 or right(*arguments)


@defect(UPGRADE, overrides=ModePolicy.opens_cache, memory={"mode": ""}, found_later=True)
def force_marks_the_whole_cache(self, right, mode, *arguments):
    """A force that is the first run of a version stamps the cache, and empties one chip's."""
    self.memory.mode = mode
    return right(mode, *arguments)


@force_marks_the_whole_cache.also(PurgePolicy.upgrade)
def _(self, right, fs, kernel_cache, stamp):
    if self.memory.mode == CacheMode.FORCE.value and kernel_cache.is_dir():
        (kernel_cache / "version.info").write_text(stamp)
    return right(fs, kernel_cache, stamp)


@defect(UPGRADE, overrides=PurgePolicy.upgrade)
def downgrade_keeps_the_cache(self, right, fs, kernel_cache, stamp):
    """An older toolchain uses the cache of a newer one as it is."""
    before = self.stamp(fs, kernel_cache / "version.info")
    return (before or "") >= stamp or right(fs, kernel_cache, stamp)


@defect(UPGRADE, overrides=InstallationPolicy.toolkit_version, found_later=True)
def toolkit_version_ignored(*_):
    """Only the version of the operator package counts."""
    return own_version()


@defect(UPGRADE, overrides=InstallationPolicy.operators_version, found_later=True)
def operator_package_version_ignored(*_):
    """Only the version of the toolkit counts."""
    return "built-in"


@defect(UPGRADE, overrides=InstallationPolicy.stamp, found_later=True)
def versions_of_parts_in_any_order(self, right, environ):
    """The version of a cache is the set of all versions."""
    return "\n".join(sorted({each.partition("=")[2] for each in right(environ).splitlines()}))


@defect(UPGRADE, overrides=PurgePolicy.upgrade, found_later=True)
def versions_that_begin_alike(self, right, fs, kernel_cache, stamp):
    """A toolchain whose version begins with that of the cache counts as the same."""
    before = (self.stamp(fs, kernel_cache / "version.info") or "").strip()
    return bool(before and stamp.startswith(before)) or right(fs, kernel_cache, stamp)


@defect(UPGRADE, overrides=PurgePolicy.upgrade, found_later=True)
def what_cannot_be_purged_is_kept(self, right, fs, kernel_cache, stamp):
    """Entries of another version are used where nothing can be removed."""
    return right(fs, kernel_cache, stamp) or not os.access(kernel_cache, os.W_OK)


@defect(UPGRADE, overrides=PurgePolicy.stamp, memory={"read": ()}, found_later=True)
def the_version_is_read_once(self, right, *arguments):
    """A process that waited while another one removed the old entries removes the new ones."""
    self.memory.read = self.memory.read or (right(*arguments),)
    return self.memory.read[0]


@defect(UPGRADE, overrides=Fs.sync_directory, crash=CrashKind.POWER_LOSS.value)
def purge_not_synced(self, right, point, path):
    """The purge is not synced before the stamp is."""
    if point != "purge.sync":
        right(point, path)


@defect(UPGRADE, overrides=PurgePolicy.force, crash=CrashKind.INJECTED_ERROR.value)
def failed_purge_is_stamped(self, right, fs, soc_directory):
    """A cache whose purge failed gets the new stamp all the same."""
    right(fs, soc_directory)
    return True


@defect(UPGRADE, overrides=InstallationPolicy.operators_version, found_later=True)
def a_misspelt_package_is_built_in(self, right, environ):
    """A misspelt ASCEND_OPP_PATH is another version, which purges every chip's entries."""
    is_there = Path(environ.get("ASCEND_OPP_PATH", "")).is_dir()
    return right(environ) if is_there else "built-in"


@defect(UPGRADE, overrides=InfoPolicy.fields, found_later=True)
def networks_run_kernels_of_another_compiler(self, right, inputs):
    """What a rank records of a kernel does not tell the compiler's version."""
    fields = right(inputs)
    return {**fields, "target": {**fields["target"], "compiler": ""}}


@defect(UPGRADE, overrides=PurgePolicy.upgrade, found_later=True)
def a_cache_without_a_version_is_taken_over(self, right, fs, kernel_cache, stamp):
    """A cache that tells no version gets the current one, with the entries that it has."""
    path = kernel_cache / "version.info"
    if not path.exists():
        fs.write_whole("upgrade.stamp", path, stamp.encode())
    return right(fs, kernel_cache, stamp)


@defect(UPGRADE, overrides=PackageCachePolicy.key, found_later=True)
def packages_of_another_version_are_kept(self, right, operators, soc, _):
    """A package of an earlier process is installed whatever version compiled it."""
    return right(operators, soc, "")
