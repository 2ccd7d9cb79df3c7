"""MindSpore's graph cache. Source: facts ``mindspore-incremental`` sections 1.7 and 2.2."""

from __future__ import annotations

import os
import re
from array import array
from dataclasses import dataclass, field

from pytest_ascendcache.audit.entries import Files
from pytest_ascendcache.audit.findings import Check, Ledger
from pytest_ascendcache.audit.rank_kernels import short
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import GRAPH_FILE

_DIGEST = re.compile(rb"[0-9a-f]{64}\n?")


@dataclass
class GraphCache:
    """Graphs in the order they were compiled, and one digest of the scripts they came from."""

    ledger: Ledger
    entries: int = 0
    keys: array[int] = field(default_factory=lambda: array("q"))

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        """Judge one file.

        Raises:
            CannotRead, ChangedWhileRead: where it cannot be.
        """
        match = GRAPH_FILE.fullmatch(name)
        if match is None:
            return
        role, number = match["role"], match["number"]
        if number is None:
            self._dependencies(folder, name, role)
            return
        self.entries += 1
        self.keys.append(short(name.encode()))
        files = Files(self.ledger, folder, (name,))
        before = f"{role}compile_cache_{int(number) - 1}.mindir"
        if not info.st_size:
            files.blame(Check.WHOLE_OBJECTS, name, "is empty", info)
        elif _begins_with_zeros(folder, name):
            files.blame(Check.WHOLE_OBJECTS, name, "is zeros: its data was lost", info)
        elif folder.look(f"{role}compile_dependency.hash") is None:
            detail = f"{role}compile_dependency.hash is missing: the graph is never used"
            files.blame(Check.WHOLE_ENTRIES, name, detail, info)
        elif int(number) and folder.look(before) is None:
            detail = f"{before} is missing: graphs are numbered as they are compiled"
            files.blame(Check.WHOLE_ENTRIES, name, detail, info)

    def _dependencies(self, folder: Folder, name: str, role: str) -> None:
        files = Files(self.ledger, folder, (name, f"{role}compile_cache_0.mindir"))
        content = folder.read(name)
        if content is None:
            return
        if not _DIGEST.fullmatch(content.data):
            detail = f"has {content.info.st_size} bytes that are not one sha256 digest"
            files.blame(Check.METADATA, name, detail, content.info)
        elif folder.look(f"{role}compile_cache_0.mindir") is None:
            detail = "there is no graph to it: its compile failed or was interrupted"
            files.blame(Check.WHOLE_ENTRIES, name, detail, content.info)


def _begins_with_zeros(folder: Folder, name: str) -> bool:
    """A graph is protocol buffers, which never begin with a zero."""
    content = folder.read(name)
    return content is not None and content.data[:8] == bytes(8)
