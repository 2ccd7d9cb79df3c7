"""A checkout of CANN's public repository ``ge``: whether it can be built, and which release it is.

Source: facts ``building-real-parts`` section 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.contract.editions import version_key
from pytest_ascendcache.toolchains.cann_cache.plan import BuildPlan, SourceError, digest_of

_MARK = Path("compiler/opcompiler/op_compile_adapter/source")
"""The directory by which a checkout of ``ge`` is recognised, in every public release."""
_STATEMENTS = (
    ("version.cmake", re.compile(r'set_(?:cann_)?package\([^)]*VERSION\s+"([^"]+)"')),
    ("version.info", re.compile(r"^Version=(.+)$", re.MULTILINE)),
)
"""Where a release states its version: newer ones in the first file, older ones in the second."""


@dataclass(frozen=True)
class Checkout:
    """The files of one release of ``ge``. Nothing is ever written below ``root``."""

    root: Path
    plan: BuildPlan

    @classmethod
    def open(cls, root: Path, plan: BuildPlan) -> Checkout:
        """Check that all files to compile exist. Raises ``SourceError``, which names the first
        missing file."""
        if not root.is_dir():
            raise SourceError(
                f"[{root}] is not a directory; name a checkout of CANN's public repository ge."
            )
        if not (root / _MARK).is_dir():
            raise SourceError(
                f"[{root}] is not a checkout of CANN's public repository ge: it has no {_MARK}/; "
                "name the directory that git clone made."
            )
        for group in plan.groups:
            for source in group.sources:
                if not (root / source).is_file():
                    raise SourceError(
                        f"[{root}] does not fit: {source} is missing; check out the whole "
                        "repository, v8.5.0 or newer."
                    )
        return cls(root.resolve(), plan)

    @cached_property
    def commit(self) -> str:
        """The commit, 40 hexadecimal digits; empty if unknown."""
        return self._git("rev-parse", "HEAD")

    @cached_property
    def is_changed(self) -> bool:
        """Whether files differ from the commit."""
        return bool(self._git("status", "--porcelain", "--untracked-files=no"))

    @cached_property
    def version(self) -> str:
        """The tag, or else the commit, with ``+changes`` if files differ from it, or else the
        files' digest."""
        if not self.commit:
            return f"files {self.digest[:12]}"
        tag = self._git("describe", "--tags", "--exact-match")
        return (tag or self.commit[:12]) + ("+changes" if self.is_changed else "")

    @cached_property
    def release(self) -> str:
        """The CANN release: from the tag, or else from the files, or else the last tag before the
        commit. Empty if unknown."""
        if version_key(self.version) is not None:
            return self.version
        for name, statement in _STATEMENTS:
            path = self.root / name
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            match = statement.search(text)
            if match is not None and version_key(match[1]) is not None:
                return match[1].strip()
        return self._git("describe", "--tags", "--abbrev=0")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the names and contents of every file that a compile can read."""
        files = {self.root / each for group in self.plan.groups for each in group.sources}
        for group in self.plan.groups:
            for directory in group.includes:
                files.update(each for each in (self.root / directory).rglob("*") if each.is_file())
        return digest_of(self.root, files)

    def _git(self, *arguments: str) -> str:
        """What git prints about exactly this directory; empty if it fails."""
        git = shutil.which("git")
        if git is None or not (self.root / ".git").exists():
            return ""
        ended = subprocess.run(
            [git, "-C", str(self.root), *arguments], capture_output=True, text=True, check=False
        )
        return ended.stdout.strip() if ended.returncode == 0 else ""
