"""Reading cache directories: layouts, entries, snapshots, ELF objects and markers.

This room reads files, and edits them to place markers. It knows no options and no toolchain.
"""

from pytest_ascendcache.caches.akg_kernel import AkgKernel
from pytest_ascendcache.caches.canary import Canary, find_canaries, plant_canary, same_code
from pytest_ascendcache.caches.elf import ElfError, embedded_objects
from pytest_ascendcache.caches.entry import Entry, entries_in_place, read_entries
from pytest_ascendcache.caches.filesystem import (
    AccessTimes,
    FileSystem,
    keep_access_time_of,
    keep_access_times,
    make_immutable,
    probe_file_system,
)
from pytest_ascendcache.caches.layout import (
    AKG_KERNEL_META,
    GRAPH_CACHE,
    KERNEL_META,
    CacheLayout,
    NetworkLayout,
    RankKernel,
)
from pytest_ascendcache.caches.shared_memory import remove_segments, segments_of
from pytest_ascendcache.caches.snapshot import Change, FileState, Snapshot
from pytest_ascendcache.caches.static_kernels import InstalledKernels, TornIndex

__all__ = [
    "AKG_KERNEL_META",
    "GRAPH_CACHE",
    "KERNEL_META",
    "AccessTimes",
    "AkgKernel",
    "CacheLayout",
    "Canary",
    "Change",
    "ElfError",
    "Entry",
    "FileState",
    "FileSystem",
    "InstalledKernels",
    "NetworkLayout",
    "RankKernel",
    "Snapshot",
    "TornIndex",
    "embedded_objects",
    "entries_in_place",
    "find_canaries",
    "keep_access_time_of",
    "keep_access_times",
    "make_immutable",
    "plant_canary",
    "probe_file_system",
    "read_entries",
    "remove_segments",
    "same_code",
    "segments_of",
]
