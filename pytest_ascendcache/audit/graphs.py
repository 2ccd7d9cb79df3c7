"""MindSpore's graph cache. Source: facts ``mindspore-incremental`` sections 1.7 and 2.2."""

from __future__ import annotations

import os
import re
from array import array
from dataclasses import dataclass, field

from pytest_ascendcache.audit.entries import Files, Judge
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.rank_kernels import numbers, short
from pytest_ascendcache.audit.reading import Folder
from pytest_ascendcache.caches.recognition import GRAPH_FILE

_DIGEST = re.compile(rb"[0-9a-f]{64}\n?")


@dataclass
class GraphCache(Judge):
    """Judges graphs, numbered as they were compiled, and the digest of the scripts behind them.

    ``keys`` stand for the graphs' file names.
    """

    keys: array[int] = field(default_factory=numbers)

    def file(self, folder: Folder, name: str, info: os.stat_result) -> None:
        match = GRAPH_FILE.fullmatch(name)
        if match is None:
            return
        role, number = match["role"], match["number"]
        if number is None:
            self._dependencies(folder, name, role)
            return
        self.entries += 1
        self.keys.append(short(name.encode()))
        files = Files(folder, (name,))
        before = f"{role}compile_cache_{int(number) - 1}.mindir"
        if not info.st_size:
            raise files.blame(Check.WHOLE_OBJECTS, name, "is empty", info)
        content = folder.read(name)
        # A graph is protocol buffers, which never begin with a zero.
        if content is not None and content.data[:8] == bytes(8):
            raise files.blame(Check.WHOLE_OBJECTS, name, "is zeros: its data was lost", info)
        if folder.look(f"{role}compile_dependency.hash") is None:
            detail = f"{role}compile_dependency.hash is missing: the graph is never used"
            raise files.blame(Check.WHOLE_ENTRIES, name, detail, info)
        if int(number) and folder.look(before) is None:
            detail = f"{before} is missing: graphs are numbered as they are compiled"
            raise files.blame(Check.WHOLE_ENTRIES, name, detail, info)

    def _dependencies(self, folder: Folder, name: str, role: str) -> None:
        graph = f"{role}compile_cache_0.mindir"
        files = Files(folder, (name, graph))
        content = folder.read(name)
        if content is None:
            return
        if not _DIGEST.fullmatch(content.data):
            detail = f"has {content.info.st_size} bytes that are not one sha256 digest"
            raise files.blame(Check.METADATA, name, detail, content.info)
        if folder.look(graph) is None:
            detail = "has no graph: its compile failed or was interrupted"
            raise files.blame(Check.WHOLE_ENTRIES, name, detail, content.info)
