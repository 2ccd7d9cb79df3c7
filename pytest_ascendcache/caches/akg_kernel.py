"""The kernels of MindSpore's graph kernel cache: ``akg_kernel_meta``, one fused operator each.

Source: facts ``mindspore-incremental`` sections 1.2, 1.3 and 2.2 (release 2.10.0 on a CPU). The
object ``.o`` is linked into the library ``.so``, and only the library is loaded. The metadata
contains the digests of both.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches.elf import ElfError, object_size
from pytest_ascendcache.caches.entry import CachedUnit, metadata_text, rewrite, sha256

SUFFIXES = (".info", ".o", ".so", ".json")
"""The files of a kernel in the order in which they are written; the last one completes it."""

_DIGESTS = (("sha256", ".so"), ("objSha256", ".o"))


@dataclass(frozen=True)
class AkgKernel(CachedUnit):
    """The four files of one fused kernel."""

    suffixes = SUFFIXES
    stems = re.compile(r"Fused_(?P<type>\w+?)_\d+", re.ASCII)

    @property
    def object_path(self) -> Path:
        """The path of the library, which is the file that MindSpore loads."""
        return self.path(".so")

    def problems(self) -> list[str]:
        problems = [
            f"the {path.suffix} file is missing" for path in self.paths if not path.is_file()
        ]
        metadata = self.metadata
        if not isinstance(metadata, dict):
            return [*problems, "the metadata is not a JSON object"]
        if not isinstance(self.info, dict):
            problems.append("the .info file is not a JSON object")
        for field, suffix in _DIGESTS:
            data = self.content(suffix)
            if data is not None and metadata.get(field) != sha256(data):
                problems.append(f"the metadata's {field} is not that of the {suffix} file")
        try:
            object_size(self.content(".so") or b"")
        except ElfError as error:
            problems.append(f"the library is not a whole ELF object: {error}")
        return problems

    def put_object(self, data: bytes, symbol: str) -> None:
        """Replace the kernel by another one: linked as MindSpore links it, digests corrected.

        ``symbol`` is the kernel's name in the object ``data``. File times stay the same. Raises
        ``ValueError`` if this kernel is not valid, ``data`` has no such symbol, or there is no
        ``g++`` to link it with.
        """
        changed = self.renamed(data, symbol)
        library = _linked(changed)
        digests = {"sha256": sha256(library), "objSha256": sha256(changed)}
        rewrite(self.path(".o"), changed)
        rewrite(self.path(".so"), library)
        rewrite(self.path(".json"), metadata_text(self.metadata, **digests))


def _linked(data: bytes) -> bytes:
    """The shared library that MindSpore's link command makes of an object."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-link-") as name:
        source, target = Path(name, "kernel.o"), Path(name, "kernel.so")
        source.write_bytes(data)
        command = ["g++", "-shared", "-fPIC", "-o", str(target), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"the kernel cannot be linked: {error}") from None
        return target.read_bytes()
