"""Files that an index names: graphs of GE, and the kernels of an operator package.

Source: GE's page on its graph cache (``<graph_key>.idx``, ``.om``, ``.rdcpkt``); operator packages
of msopgen, ``kernel/config/<SoC>``; facts ``field-evidence`` section 1.2.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import PurePosixPath
from typing import Any

from pytest_ascendcache.audit.entries import (
    EntryJudge,
    Files,
    Metadata,
    check_whole,
    read_metadata,
)
from pytest_ascendcache.audit.findings import Check
from pytest_ascendcache.audit.reading import CannotRead, Folder
from pytest_ascendcache.caches.recognition import split

_WEIGHTS = "weight"
"""The directory of ``--external_weight``, and how the names in it begin."""


@dataclass
class GeGraphs(EntryJudge):
    """Judges graphs that GE compiled, and the index of each graph key, whose files lie beside,
    in the directory ``place``: GE joins it to their names. ``weights`` counts files of weights that
    graphs have outside of themselves."""

    alone = re.compile(r".*\.(om|rdcpkt|idx)", re.DOTALL)
    _: KW_ONLY
    place: str
    weights: int = 0

    @property
    def untold(self) -> str:
        what = "files of weights are there, and nothing tells whether they are whole"
        return f"{self.weights} {what}" if self.weights else ""

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        stem, suffix = split(name)
        if PurePosixPath(folder.relative).name == _WEIGHTS and name.startswith(f"{_WEIGHTS}_"):
            if not info.st_size:
                raise CannotRead(f"{folder.path(name)}: is empty")
            self.weights += 1
            return True
        if suffix in (".om", ".rdcpkt"):
            self.entries += suffix == ".om"
            check_whole(Files(folder, (name,)), name, info)
            return True
        if suffix != ".idx" or (index := read_metadata(Files(folder, (name,)), name, info)) is None:
            return False
        listed = index.fields.get("cache_file_list")
        if not isinstance(listed, list):
            raise index.blame(Check.METADATA, "has no cache_file_list, which GE reads")
        names = [isinstance(each, dict) and each.get("cache_file_name") for each in listed]
        if not names or not all(isinstance(each, str) and each for each in names):
            detail = f"cache_file_list is {str(listed)[:60]}, and names no graph"
            raise index.blame(Check.METADATA, detail)
        for each in listed:
            for key in ("cache_file_name", "var_desc_file_name"):
                if isinstance(path := each.get(key), str) and path:
                    file = PurePosixPath(path).name
                    _named(index, file if path == f"{self.place}/{file}" else path, file)
            if isinstance(said := each.get("graph_key"), str) and said != stem:
                detail = f"graph_key is {said[:90]}, and the file's name is another key's"
                raise index.blame(Check.AGREEMENT, detail)
        return True


class PackageConfig(EntryJudge):
    """Judges what an operator package says of its kernels, which lie below its grandparent."""

    def file(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        if not name.endswith(".json"):
            return False
        config = read_metadata(Files(folder, ()), name, info)
        keys: dict[str, str] = {}
        for kernel in _described(config.fields) if config is not None else ():
            assert config is not None
            for key in ("binPath", "jsonPath", "jsonFilePath"):
                if isinstance(path := kernel.get(key), str) and path:
                    _named(config, path, f"../../{path}")
            path, simple = kernel.get("binPath"), kernel.get("simplifiedKey")
            if not isinstance(path, str) or not isinstance(simple, str):
                continue
            if (before := keys.setdefault(simple, path)) != path:
                detail = f"has two kernels for {simple[:80]}: {before[:80]} and {path[:80]}"
                raise config.blame(Check.AGREEMENT, detail)
        return True


def _named(index: Metadata, path: str, place: str) -> None:
    """Raise ``EntryProblem`` unless a file that an index names lies where a reader looks."""
    if (plain := PurePosixPath(path)).is_absolute() or ".." in plain.parts:
        detail = f"{path[:100]!r} leads to another directory"
        raise index.blame(Check.NAMES_INSIDE, detail)
    if lacking := index.files.lacks(place):
        what = lacking.removeprefix(place).strip()
        what = "does not exist" if what == "is missing" else what
        raise index.blame(Check.WHOLE_ENTRIES, f"names {path[:150]}, which {what}")


def _described(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in JSON data, whatever holds them."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
        if isinstance(each, (dict, list)):
            waiting.extend(each.values() if isinstance(each, dict) else each)
