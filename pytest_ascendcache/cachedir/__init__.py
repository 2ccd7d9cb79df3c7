"""Looking at cache directories: layout, entries, snapshots, canaries.

This room reads files (and, for canaries, edits them); it knows no options and no toolchain.
"""

from pytest_ascendcache.cachedir.canary import Canary, find_canaries, plant_canary
from pytest_ascendcache.cachedir.elf import ElfError, embedded_objects
from pytest_ascendcache.cachedir.entry import Entry, read_entries
from pytest_ascendcache.cachedir.filesystem import (
    AccessTimes,
    FileSystem,
    keep_access_times,
    probe_file_system,
)
from pytest_ascendcache.cachedir.kernel_meta import RankKernel, read_kernel_meta
from pytest_ascendcache.cachedir.layout import CacheLayout
from pytest_ascendcache.cachedir.snapshot import Change, FileState, Snapshot
from pytest_ascendcache.cachedir.static_kernels import InstalledKernels, TornIndex

__all__ = [
    "AccessTimes",
    "CacheLayout",
    "Canary",
    "Change",
    "ElfError",
    "Entry",
    "FileState",
    "FileSystem",
    "InstalledKernels",
    "RankKernel",
    "Snapshot",
    "TornIndex",
    "embedded_objects",
    "find_canaries",
    "keep_access_times",
    "plant_canary",
    "probe_file_system",
    "read_entries",
    "read_kernel_meta",
]
