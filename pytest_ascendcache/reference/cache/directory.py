"""The cache directory: from the option, else the environment, else the home directory.

Source: document C, related parameters; facts ``cann-operator-cache`` section 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.edition import PRESENT, Played
from pytest_ascendcache.reference.errors import AtcError, invalid_path

_REFUSED = re.compile(r"[^A-Za-z0-9.\-_/\x80-\U0010ffff]")
_INI = "[op_compiler_cache]\n"


class DirectoryPolicy:
    """Finds and prepares the cache directory."""

    edition: Played = PRESENT

    def origin(self, option: str, environ: Mapping[str, str]) -> str:
        """The name of the setting that decides the directory: option, else variable, else HOME."""
        if option:
            return "--op_compiler_cache_dir"
        named = self.edition.cache_path and environ.get("ASCEND_CACHE_PATH", "").strip(" \t")
        return "ASCEND_CACHE_PATH" if named else "HOME"

    def root(self, option: str, environ: Mapping[str, str]) -> Path:
        """The directory to use: ``--op_compiler_cache_dir``, else ``ASCEND_CACHE_PATH``, else
        ``$HOME/atc_data``."""
        origin = self.origin(option, environ)
        if origin == "HOME":
            return Path(environ.get("HOME") or "/") / "atc_data"
        return self._checked(option or environ["ASCEND_CACHE_PATH"].strip(" \t"), origin)

    def _checked(self, text: str, origin: str) -> Path:
        if bad := _REFUSED.search(text):
            raise invalid_path(
                text,
                origin,
                f"the path contains the character {bad[0]!r}; use letters, digits and . - _ /",
            )
        return Path(text).absolute()

    def kernel_cache(self, root: Path) -> Path:
        """The directory that holds one directory per SoC."""
        return root / "kernel_cache"

    def soc(self, root: Path, soc: str) -> Path:
        """The directory of one SoC's entries."""
        return self.kernel_cache(root) / soc

    def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
        """Create the SoC's directory and ``op_cache.ini`` if they are missing.

        An existing directory that is read-only is accepted, because it can still serve hits. Raises
        ``AtcError`` (E40023) if the directory cannot be created.
        """
        directory = self.soc(root, soc)
        try:
            fs.make_directories("open.mkdir", directory)
        except OSError as error:
            raise self.cannot_create(directory, origin, error) from None
        ini = root / "op_cache.ini"
        if self.edition.ini and not ini.exists():
            try:
                fs.write_whole("open.ini", ini, _INI.encode())
            except OSError:
                return  # the cache is read-only

    def cannot_create(self, directory: Path, origin: str, error: OSError) -> AtcError:
        """The error for a directory that cannot be created. ``origin`` is the setting behind it."""
        reason = f"the directory cannot be created ({error.strerror}); name one that can"
        return invalid_path(directory, origin, reason)
