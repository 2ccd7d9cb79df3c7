"""The account of an audit: each name below the directory ends in exactly one class.

Source: the contract, section *What lies in a cache directory*.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from pytest_ascendcache.audit.reading import FirstFew
from pytest_ascendcache.caches.elf import MAGIC
from pytest_ascendcache.caches.recognition import CacheKind, split

_LOADED = frozenset(
    (
        *(".o", ".so", ".a", ".bin", ".om", ".air", ".ptx", ".cubin"),
        *(".mindir", ".run", ".info", ".hash"),
    )
)
"""Suffixes of what toolchains load or run."""

TEMPORARY = re.compile(
    r".*\.te?mp|.*\.(part|partial|filepart)|\..+\.(o|so|h|json|info|ini|lock|run)\.\w{6}",
    re.DOTALL,
)
"""Temporary files of writers: of toolchains, of downloads, and rsync's."""

_KEPT_BY_HAND = re.compile(
    r".*(~|\.(bak|orig|old|save|rej|sw[a-p]|md|txt|rst|log|patch|diff))|#.*#|\.git\w*|README.*"
    r"|LICENSE.*|\.DS_Store|Thumbs\.db",
    re.IGNORECASE,
)

_KNOWN = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r".*\.lock|\.op_cache\.lock|kernel_build_tmp\.key", "locks"),
        (TEMPORARY.pattern, "temporary files"),
        (r"op_cache\.ini", "limits of a cache"),
        (r"version\.info", "versions"),
        (r"\.nfs[0-9a-f]+", "files that NFS keeps while they are open"),
        (r".*_loc\.json|.*_compute\.json|.*\.cce|.*\.i|.*\.ll", "debug output of CANN's compiler"),
        (r"buildPidInfo\.json|task_pid_\d+_\d+\.txt", "owners of build scratch"),
        (r"Initialize\.info", "MindSpore's start of the compiler"),
        (r"not_support_fusion_op\.cache", "MindSpore's list of operators that are not fused"),
        (r"group_\d+\.ckpt|somas_\w*\.json", "MindSpore's records of a run"),
        (r".*\.log|.*_compile_log", "logs"),
        (
            r"config\.ini|uninstall\.sh|install\.py|uninstall\.py|installer\.pyz|package\.json"
            r"|[0-9a-f]{8}\.[0-9a-f-]{36}(\.\d+){3}",  # a holder of a package
            "an installation's own files",
        ),
        (r"CANN-.*\.json", "an index of static kernels that were compiled"),
        (r"cache\.conf", "settings of GE's graph cache"),
    )
)


@dataclass
class Account:
    """How many names are what. ``entries`` are part of an entry and judged; ``known`` are harmless,
    counted by what they are; ``unread`` could be loaded by a toolchain and were not read; no
    toolchain loads what is ``foreign``."""

    entries: int = 0
    known: Counter[str] = field(default_factory=Counter)
    unread: FirstFew = field(default_factory=FirstFew)
    foreign: FirstFew = field(default_factory=FirstFew)

    @property
    def names(self) -> int:
        """The number of all names that are no directories."""
        return self.entries + self.known.total() + self.unread.count + self.foreign.count

    def lines(self) -> list[str]:
        """Return the account, whose numbers add up, and what is foreign or not read by name."""
        parts = [f"{self.entries} of entries", f"{self.known.total()} known and harmless"]
        parts += [f"{self.unread.count} not read", f"{self.foreign.count} foreign"]
        lines = [f"{self.names} names: {', '.join(parts)}"]
        if self.known:
            kinds = "; ".join(f"{count} {what}" for what, count in sorted(self.known.items()))
            lines.append(f"known: {kinds}")
        if self.unread.count:
            lines.append(f"not read: {self.unread}")
        if self.foreign.count:
            lines.append(f"foreign: {self.foreign}")
        return lines


_PACKAGE = frozenset(("op_impl", "op_info_cfg", "op_proto", "vendors"))
"""Directories of an operator package. Source: facts ``cann-operator-cache`` section 1.6."""
_PACKAGED = {".py": "operators' sources", ".json": "operators' descriptions"}


def is_kept_by_hand(name: str) -> bool:
    """Return whether a file is a person's own: a note, an editor's backup."""
    return _KEPT_BY_HAND.fullmatch(name) is not None


def known(name: str) -> str:
    """Return what a file is that some toolchain leaves and none loads; empty for another."""
    return next((what for pattern, what in _KNOWN if pattern.fullmatch(name)), "")


def is_outside(name: str) -> str:
    """Return what a file outside of all caches is that a toolchain could load by its name, which
    then has to be whole; empty for any other."""
    if is_kept_by_hand(name):
        return ""
    return "shared libraries" if _LIBRARY.fullmatch(name) else _OUTSIDE.get(split(name)[1], "")


def is_of_package(directory: str, name: str) -> str:
    """Return what a text of an operator package is that a compile reads or imports, by the
    directory that it is in; empty for any other file."""
    inside = not _PACKAGE.isdisjoint(directory.split("/")) and not is_kept_by_hand(name)
    return _PACKAGED.get(split(name)[1], "") if inside else ""


def is_loadable(name: str, head: bytes, kind: CacheKind | None) -> bool:
    """Return whether a toolchain could load a file that belongs to no entry, by its name and its
    first bytes. Outside of a cache that needs an object of an Ascend chip."""
    if is_kept_by_hand(name):
        return False
    if kind is None:
        return name.endswith(".o") and head[:6] == MAGIC and head[18:20] == _ASCEND
    return split(name)[1] in _LOADED or head[:4] == MAGIC[:4]


_LIBRARY = re.compile(r".+\.so(\.\d+)*")
_OUTSIDE = {".om": "models", ".mindir": "models", ".air": "models"}


_ASCEND = (0x1029).to_bytes(2, "little")
"""The machine of an Ascend chip in an ELF header."""
