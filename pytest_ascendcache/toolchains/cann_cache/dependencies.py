"""Records which files a source was preprocessed from, so that it need not be preprocessed again.

A note is valid while no file it names has changed, and no file was added to or removed from the
include directories.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from pytest_ascendcache.toolchains.cann_cache.plan import Plan

_NAME = re.compile(r"(?:\\.|[^\s\\])+")


def digest(*parts: str) -> str:
    """SHA-256 of texts."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def prerequisites(rule: str) -> list[str]:
    """The files in a rule for ``make``, as ``-MD`` writes it."""
    names = _NAME.findall(rule.replace("\\\n", " ").partition(":")[2])
    return [re.sub(r"\\(.)", r"\1", each).replace("$$", "$") for each in names]


class Notes:
    """The notes of one build of the checkout ``root``, in ``directory``. Each file is read once per
    build."""

    def __init__(self, directory: Path, root: Path, plan: Plan) -> None:
        self._directory, self._root, self._plan = directory, root, plan
        includes = {root / each for group in plan.groups for each in group.includes}
        names = {str(path) for include in includes for path in include.rglob("*")}
        self._surroundings = digest(str(root), plan.digest, *sorted(names))
        self._digests: dict[str, str] = {}

    def find(self, command: Iterable[str]) -> str:
        """The name of the object this command produced; empty if a file has changed since."""
        try:
            noted = json.loads(self._path(command).read_text(encoding="utf-8"))
            same = all(self._digest(name) == was for name, was in noted["read"].items())
            return str(noted["object"]) if same else ""
        except (OSError, ValueError, KeyError):
            return ""  # there is no note yet, or a file is gone

    def write(self, command: Iterable[str], name: str, read: Iterable[str], since: int) -> None:
        """Record that a command read these files and produced the object ``name``. Nothing is
        recorded if one of them changed at ``since`` (nanoseconds of the epoch) or later: the
        command may have read the earlier contents."""
        try:
            if any((self._root / each).stat().st_ctime_ns >= since for each in read):
                return
            noted = {"object": name, "read": {each: self._digest(each) for each in read}}
        except OSError:
            return  # a file was removed meanwhile
        path = self._path(command)
        temporary = path.with_name(f"{path.stem}.{secrets.token_hex(4)}.tmp")
        temporary.write_text(json.dumps(noted), encoding="utf-8")
        temporary.replace(path)

    def _path(self, command: Iterable[str]) -> Path:
        return self._directory / f"{digest(self._surroundings, *command)}.json"

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = hashlib.sha256((self._root / name).read_bytes()).hexdigest()
        return self._digests[name]
