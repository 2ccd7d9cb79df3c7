"""Wrong decisions about cache modes, option values, and changes that force must apply."""

import hashlib
import json
import os
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect, override
from pytest_ascendcache.qualification.defects.entries import altered, never_current
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import LOCK_NAME, LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.fs import LockUnavailable
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.installation import CUSTOM_OPERATORS, InstallationPolicy
from pytest_ascendcache.reference.mode import CacheUse, ModePolicy
from pytest_ascendcache.reference.options import CACHE_MODES, OptionPolicy

BAD_MODE = "cache-mode/rejects-unknown-mode"
INERT = "cache-mode/disable-is-inert"
PURGES = "cache-mode/force-purges-soc"
SPARES = "cache-mode/force-spares-other-soc"
THEN_ENABLE = "cache-mode/force-then-enable"
KNOWLEDGE_BASE = "cache-mode/force-applies-knowledge-base"


@defect("cache-mode/default-is-disable")
class DefaultIsEnable(OptionPolicy):
    """The default mode is enable."""

    default_cache_mode = "enable"


@defect(BAD_MODE, overrides=OptionPolicy.cache_mode)
def unknown_mode_is_disable(self, right, value):
    """An unknown mode counts as disable."""
    return value if value in CACHE_MODES else "disable"


@defect(BAD_MODE, overrides=OptionPolicy.cache_mode)
def mode_in_capitals_is_disable(self, right, value):
    """A mode in capitals counts as disable."""
    return right("disable" if value.lower() in CACHE_MODES and value != value.lower() else value)


@defect(BAD_MODE, overrides=OptionPolicy.cache_mode)
def modes_by_their_beginning(self, right, value):
    """What begins like a mode is that mode."""
    return right(next((each for each in CACHE_MODES if value.startswith(each)), value))


@defect(BAD_MODE, overrides=OptionPolicy.cache_mode, harm=Harm.MISLEADING)
def unknown_mode_without_a_hint(self, right, value):
    """The error for an unknown mode does not list the known ones."""
    if value not in CACHE_MODES:
        raise SystemExit(255)
    return value


@defect("cache-mode/directory-precedence", INERT, overrides=OptionPolicy.parse)
def the_variable_turns_the_cache_on(self, right, argv):
    """ASCEND_CACHE_PATH turns the cache on."""
    options = right(argv)
    is_on = options.cache_mode == "disable" and os.environ.get("ASCEND_CACHE_PATH")
    return replace(options, cache_mode="enable") if is_on and not options.cache_dir else options


@override(ModePolicy.opens_cache)
def opens_always(self, right, mode, level, config):
    """The cache is opened under disable too."""
    return mode == "disable" or right(mode, level, config)


@defect(INERT, overrides=ModePolicy.use, also=[opens_always])
def disable_stores(self, right, mode, debug):
    """Disable stores."""
    return CacheUse(lookup=False, store=not debug.active, replace=True)


@defect(INERT, overrides=ModePolicy.use, also=[opens_always])
def disable_serves(self, right, mode, debug):
    """Disable serves entries of the cache."""
    if mode == "disable":
        return CacheUse(lookup=not debug.active, store=False)
    return right(mode, debug)


@defect(INERT, overrides=ModePolicy.use, also=[opens_always])
def disable_creates_directory(self, right, mode, debug):
    """Disable creates the directory."""
    use = right(mode, debug)
    return CacheUse(False, False) if mode == "disable" else use


@defect(INERT, overrides=OptionPolicy.parse)
def the_file_of_operators_is_tidied(self, right, argv):
    """The file of --singleop is written anew, indented."""
    options = right(argv)
    if options.singleop.is_file():
        text = options.singleop.read_text("utf-8")
        options.singleop.write_text(json.dumps(json.loads(text), indent=1), "utf-8")
    return options


@defect(INERT, overrides=ModePolicy.use, also=[opens_always], memory={"only_reads": False})
def disable_reads(self, right, mode, debug):
    """Disable reads entries and then ignores them."""
    self.memory.only_reads = mode == "disable"
    return CacheUse(True, False) if self.memory.only_reads else right(mode, debug)


@disable_reads.also(LookupPolicy.find)
def _(self, right, fs, entry, expected):
    if self.memory.only_reads:
        with suppress(FileNotFoundError):
            # A plain read: the reference's own reads leave access times alone.
            entry.metadata.read_bytes()
        return None
    return right(fs, entry, expected)


@defect(PURGES, KNOWLEDGE_BASE, overrides=ModePolicy.purges)
def force_purges_nothing(*_):
    """Force replaces the entries it compiles and leaves all others."""
    return False


@defect(PURGES, overrides=ModePolicy.purges, harm=Harm.STALE)
def force_is_enable(*_):
    """Force behaves like enable."""
    return False


@force_is_enable.also(ModePolicy.use)
def _(self, right, mode, debug):
    return right("enable" if mode == "force" else mode, debug)


@defect(PURGES, overrides=PurgePolicy.empty)
def force_leaves_objects(self, right, fs, directory):
    """Force removes metadata and leaves objects."""
    for entry in fs.entries("purge.list", directory):
        if entry.name.endswith(".json"):
            self.remove(fs, entry)


@defect(PURGES, overrides=PurgePolicy.empty)
def force_skips_orphans(self, right, fs, directory):
    """Force goes through metadata files, so that objects without metadata stay (T17)."""
    entries = fs.entries("purge.list", directory)
    stems = {Path(each.name).stem for each in entries if each.name.endswith(".json")}
    for entry in entries:
        if Path(entry.name).stem in stems:
            self.remove(fs, entry)


@defect(
    PURGES,
    overrides=PurgePolicy.force,
    memory={"upgrades": False, "stored": set()},
    found_later=True,
)
def force_stores_before_it_removes(self, right, fs, soc_directory):
    """Force removes older entries after it has stored each new one: what fails or is killed leaves
    those that it did not reach."""
    return not self.memory.upgrades or right(fs, soc_directory)


@force_stores_before_it_removes.also(PurgePolicy.upgrade)
def _(self, right, *arguments):
    self.memory.upgrades = True
    done = right(*arguments)
    self.memory.upgrades = False
    return done


@force_stores_before_it_removes.also(StorePolicy.publish)
def _(self, right, fs, entry, data, metadata, keep):
    done = right(fs, entry, data, metadata, keep)
    self.memory.stored |= {entry.object.name, entry.metadata.name, LOCK_NAME}
    for path in [] if keep else entry.directory.iterdir():
        if path.name not in self.memory.stored:
            fs.remove("purge.remove", path)
    return done


@defect(PURGES, overrides=PurgePolicy.remove, memory={"removed": 0}, found_later=True)
def force_removes_64_files(self, right, fs, entry):
    """Force removes 64 files at most."""
    self.memory.removed += 1
    if self.memory.removed <= 64:
        right(fs, entry)


@defect(PURGES, overrides=PurgePolicy.remove, found_later=True)
def purge_stops_at_a_directory(self, right, fs, entry):
    """A directory that is not empty ends the purge."""
    if not entry.is_dir(follow_symlinks=False):
        return right(fs, entry)
    return fs.remove_directory("purge.rmdir", Path(entry.path))


@defect(PURGES, overrides=PurgePolicy.remove, found_later=True)
def force_spares_the_future(self, right, fs, entry):
    """Force leaves files whose time lies in the future."""
    if entry.stat(follow_symlinks=False).st_mtime <= time.time():
        right(fs, entry)


@defect(PURGES, overrides=PurgePolicy.remove, found_later=True)
def force_spares_the_old(self, right, fs, entry):
    """Force leaves files that are older than a day."""
    if entry.stat(follow_symlinks=False).st_mtime >= time.time() - 86400:
        right(fs, entry)


@defect(PURGES, overrides=PurgePolicy.remove, found_later=True)
def what_is_read_only_stays(self, right, fs, entry):
    """Force leaves files that are read-only."""
    if not entry.is_file(follow_symlinks=False) or entry.stat().st_mode & stat.S_IWUSR:
        right(fs, entry)


@defect(PURGES, overrides=PurgePolicy.force, found_later=True)
def second_force_purges_nothing(self, right, fs, soc_directory):
    """A second force within a second purges nothing."""
    mark = soc_directory.parent / f".{soc_directory.name}.purged"
    if mark.exists() and time.time() - mark.stat().st_mtime < 1:
        return True
    mark.touch()
    return right(fs, soc_directory)


@defect(SPARES, overrides=PurgePolicy.force)
def force_purges_every_soc(self, right, fs, soc_directory):
    """Force purges the entries of every chip."""
    for entry in fs.entries("purge.list", soc_directory.parent):
        if entry.is_dir(follow_symlinks=False):
            right(fs, Path(entry.path))
    return True


@defect(SPARES, overrides=PurgePolicy.force)
def force_purges_names_alike(self, right, fs, soc_directory):
    """Force purges every chip whose name begins with that of the requested one."""
    alike = soc_directory.parent.glob(f"{soc_directory.name}*")
    purged = [right(fs, each) for each in alike if each.is_dir()]
    return all(purged)


@defect(THEN_ENABLE, overrides=ModePolicy.use)
def force_stores_nothing(self, right, mode, debug):
    """Force stores nothing."""
    return CacheUse(False, False) if mode == "force" else right(mode, debug)


@defect(THEN_ENABLE, overrides=StorePolicy.publish)
def force_purges_for_every_operator(self, right, fs, entry, data, metadata, keep):
    """Force empties the chip's directory again for every operator of the run."""
    if not keep:
        PurgePolicy().force(fs, entry.directory)
    return right(fs, entry, data, metadata, keep)


@defect(THEN_ENABLE, overrides=PurgePolicy.force, also=[never_current])
def force_sticks(self, right, fs, soc_directory):
    """After a run with force, enable compiles everything again each time."""
    done = right(fs, soc_directory)
    (soc_directory / "forced.lock").touch()
    return done


@force_sticks.also(LookupPolicy.find)
def _(self, right, fs, entry, expected):
    forced = (entry.directory / "forced.lock").exists()
    return None if forced else right(fs, entry, expected)


@defect(PURGES, overrides=PurgePolicy.force, memory={"upgrades": False}, found_later=True)
def force_that_had_to_wait_purges_nothing(self, right, fs, soc_directory):
    """A run with force that finds the lock taken leaves the purge to the lock's holder."""
    if not self.memory.upgrades:
        lock = soc_directory / LOCK_NAME
        try:
            with fs.lock("purge.lock", lock, patience=0.0):
                pass
        except LockUnavailable:
            with suppress(LockUnavailable, OSError), fs.lock("purge.lock", lock):
                return True
    return right(fs, soc_directory)


@force_that_had_to_wait_purges_nothing.also(PurgePolicy.upgrade)
def _(self, right, *arguments):
    self.memory.upgrades = True
    try:
        return right(*arguments)
    finally:
        self.memory.upgrades = False


@defect(PURGES, overrides=PurgePolicy.upgrade, found_later=True)
def entries_come_back_with_their_version(self, right, fs, kernel_cache, stamp):
    """Entries of another version are moved aside, and force does not purge them there."""
    found, directories = self.stamp(fs, kernel_cache / "version.info"), []
    if found not in (None, stamp):
        entries = fs.entries("upgrade.list", kernel_cache)
        directories = [Path(each.path) for each in entries if each.is_dir()]
    for each in directories:
        _move(fs, each, _aside(each, found))
    done = right(fs, kernel_cache, stamp)
    for each in directories:
        _move(fs, _aside(each, stamp), each)
    return done


def _move(fs, source, target):
    """Move the files of a directory except its lock."""
    fs.make_directories("upgrade.mkdir", target)
    for each in fs.entries("upgrade.list", source):
        if each.is_file(follow_symlinks=False) and each.name != LOCK_NAME:
            fs.replace("upgrade.aside", Path(each.path), target / each.name)


def _aside(directory, version):
    """Where a chip's entries of one version are while another version is in use."""
    name = hashlib.sha256(version.encode()).hexdigest()[:16]
    return directory.parent.parent / f".of_{name}" / directory.name


@defect(KNOWLEDGE_BASE, overrides=InstallationPolicy.tuning, memory={"loaded": {}})
def knowledge_base_remembered(self, right, *arguments):
    """The knowledge base is remembered next to the cache, and force does not clear it."""
    self.memory.loaded.update(right(*arguments))
    return self.memory.loaded


@knowledge_base_remembered.also(DirectoryPolicy.prepare)
def _(self, right, fs, root, *arguments):
    right(fs, root, *arguments)
    remembered = root / "tuning.json"
    if not remembered.exists():
        remembered.write_text(json.dumps(self.memory.loaded))
    self.memory.loaded.update(json.loads(remembered.read_text()))


@defect("cache-mode/force-applies-toolchain-change", overrides=DirectoryPolicy.prepare)
def operator_sources_remembered(self, right, fs, root, *arguments):
    """Operator sources are remembered next to the cache, and force does not clear them."""
    right(fs, root, *arguments)
    package = os.environ.get("ASCEND_CUSTOM_OPP_PATH")
    if package:
        remembered = root / "operators"
        if not remembered.exists():
            shutil.copytree(Path(package) / CUSTOM_OPERATORS, remembered)
        for path in sorted(remembered.glob("*.py")):
            InstallationPolicy().load(path)


@defect(
    "cache-mode/force-applies-toolchain-change",
    overrides=InstallationPolicy.load,
    found_later=True,
)
def older_sources_are_not_read(self, right, path):
    """Sources of operators are kept beside them, and read again only if they are newer."""
    kept = path.with_suffix(".kept")
    if not kept.exists() or kept.stat().st_mtime < path.stat().st_mtime:
        shutil.copyfile(path, kept)
    return right(kept)


@defect(KNOWLEDGE_BASE, overrides=OptionPolicy.cache_mode, memory={"mode": ""})
def force_without_knowledge_base(self, right, value):
    """Force does not read the knowledge base."""
    self.memory.mode = right(value)
    return self.memory.mode


@force_without_knowledge_base.also(InstallationPolicy.tuning)
def _(self, right, *arguments):
    return {} if self.memory.mode == "force" else right(*arguments)


@defect("cache-mode/enable-after-change", overrides=LookupPolicy.find)
def mixture_after_change(self, right, fs, entry, expected):
    """Once a knowledge base is named, the served kernel is neither the old nor the new one."""
    data = right(fs, entry, expected)
    if data is None or "TUNE_BANK_PATH" not in os.environ:
        return data
    return altered(data)
