"""Where the cache is: option, then environment, then home.

Source: document C, related parameters; facts ``cann-operator-cache`` section 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.errors import AtcError, invalid_path

_REFUSED = re.compile(r"[^A-Za-z0-9.\-_/\x80-\U0010ffff]")
_INI = "[op_compiler_cache]\n"


class DirectoryPolicy:
    """Finds and prepares the cache directory."""

    def root(self, option: str, environ: Mapping[str, str]) -> Path:
        """The directory to use: ``--op_compiler_cache_dir``, else ``ASCEND_CACHE_PATH``, else
        ``$HOME/atc_data``.

        Raises:
            AtcError: E40023 for characters ATC does not take, naming where they came from.
        """
        from_environment = environ.get("ASCEND_CACHE_PATH", "").strip(" \t")
        if option:
            return self._checked(option, "--op_compiler_cache_dir")
        if from_environment:
            return self._checked(from_environment, "ASCEND_CACHE_PATH")
        return Path(environ.get("HOME") or "/") / "atc_data"

    def _checked(self, text: str, origin: str) -> Path:
        if bad := _REFUSED.search(text):
            raise invalid_path(
                text,
                origin,
                f"the path contains the character {bad[0]!r}; use letters, digits and . - _ /",
            )
        return Path(text).absolute()

    def kernel_cache(self, root: Path) -> Path:
        """The directory of all SoCs."""
        return root / "kernel_cache"

    def soc(self, root: Path, soc: str) -> Path:
        """The directory of one SoC's entries."""
        return self.kernel_cache(root) / soc

    def prepare(self, fs: Fs, root: Path, soc: str) -> None:
        """Create what is missing: the SoC's directory and ``op_cache.ini``.

        A directory that exists but cannot be written is fine: it can still give hits.

        Raises:
            AtcError: E40023 where the directory cannot be created.
        """
        directory = self.soc(root, soc)
        try:
            fs.make_directories("open.mkdir", directory)
        except OSError as error:
            raise self.cannot_create(directory, error) from None
        ini = root / "op_cache.ini"
        if not ini.exists():
            try:
                temporary = fs.write_temporary("open.ini", ini, _INI.encode())
                fs.replace("open.ini.rename", temporary, ini)
            except OSError:
                return  # a cache that may only be read

    def cannot_create(self, directory: Path, error: OSError) -> AtcError:
        """The error for a directory that cannot be created."""
        reason = f"the directory cannot be created ({error.strerror}); name one that can"
        return invalid_path(directory, "--op_compiler_cache_dir", reason)
