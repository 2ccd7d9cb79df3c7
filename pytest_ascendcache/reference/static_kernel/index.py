"""The index ``binary_info_config.json``: which kernel file belongs to which simplified key.

An index is a pure function of the packages and their load order: if two packages have a kernel
for the same key, the later one wins. Source: facts ``static-kernel`` sections 2.5 and 3.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

INDEX_NAME = "binary_info_config.json"

Index = Mapping[str, Mapping[str, Any]]
"""Maps an operator type to ``simplifiedKeyMode``, ``staticList`` and, if the type has any,
``valueDependIndex``."""


def merged(indexes: Iterable[Index]) -> dict[str, dict[str, Any]]:
    """Merge the indexes of several packages, given in load order."""
    kernels: dict[str, dict[str, Any]] = {}
    depends: dict[str, set[int]] = {}
    for index in indexes:
        for kind, listed in index.items():
            depends.setdefault(kind, set()).update(listed.get("valueDependIndex", ()))
            for entry in listed["staticList"]:
                of_kind = kernels.setdefault(kind, {})
                of_kind.pop(entry["simplifiedKey"], None)
                of_kind[entry["simplifiedKey"]] = entry
    return {
        kind: {
            "simplifiedKeyMode": 0,
            **({"valueDependIndex": sorted(depends[kind])} if depends[kind] else {}),
            "staticList": list(entries.values()),
        }
        for kind, entries in sorted(kernels.items())
    }


def render(index: Index) -> bytes:
    """The index file's content, one line per kernel. Equal indexes give equal bytes."""
    kinds = []
    for kind, listed in index.items():
        fields = {key: value for key, value in listed.items() if key != "staticList"}
        entries = ",\n".join(json.dumps(entry) for entry in listed["staticList"])
        kinds.append(
            f'{json.dumps(kind)}: {json.dumps(fields)[:-1]}, "staticList": [\n{entries}]}}'
        )
    return ("{" + ",\n".join(kinds) + "}\n").encode()


def parse(data: bytes) -> dict[str, dict[str, Any]]:
    """Parse an index file. Raises ``ValueError`` if the data is not JSON or not an index."""
    try:
        document = json.loads(data)
        for listed in document.values():
            for entry in listed["staticList"]:
                if not isinstance(entry["simplifiedKey"], str):
                    raise ValueError("a simplifiedKey is no string")
                if not isinstance(entry["binPath"], str):
                    raise ValueError("a binPath is no string")
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is no index ({error!r})") from None
    return cast("dict[str, dict[str, Any]]", document)


def entries_by_key(index: Index) -> dict[tuple[str, str], dict[str, Any]]:
    """All index entries by operator type and simplified key."""
    return {
        (kind, entry["simplifiedKey"]): entry
        for kind, listed in index.items()
        for entry in listed["staticList"]
    }


def of_entries(index: Index, chosen: Mapping[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    """The part of an index with the chosen operator types and simplified keys."""
    parts: dict[str, dict[str, Any]] = {}
    for kind, listed in index.items():
        kept = [each for each in listed["staticList"] if (kind, each["simplifiedKey"]) in chosen]
        if kept:
            parts[kind] = {**listed, "staticList": kept}
    return parts


def package_of(entry: Mapping[str, Any]) -> str:
    """The name of an index entry's package: the first part of the kernel's path."""
    return str(entry["binPath"]).split("/", 1)[0]
