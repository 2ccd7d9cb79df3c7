"""What a run writes outside the cache: ``.om`` files, and the files that debugging keeps.

Source: facts ``cann-operator-cache`` sections 3.1, 3.4 and 6.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.reference.debug import DebugRequest
from pytest_ascendcache.reference.errors import as_invalid_path, invalid_path
from pytest_ascendcache.reference.om import OmModel, om_name, write_whole

if TYPE_CHECKING:
    from pytest_ascendcache.reference.kernels import Kernel
    from pytest_ascendcache.reference.model.container import CompiledModel


class OutputPolicy:
    """Writes the results of a run."""

    def prepare(self, output: Path) -> None:
        """Create the directory of ``--output``."""
        with as_invalid_path(output, "--output", "the directory cannot be created"):
            output.mkdir(parents=True, exist_ok=True)

    def deliver(self, output: Path, index: int, model: OmModel) -> Path:
        """Write one operator's container. Raises ``AtcError`` (E40023) if it cannot be written."""
        path = output / om_name(index, model.operator)
        with as_invalid_path(path, "--output"):
            write_whole(path, self.contents(model))
        return path

    def deliver_model(self, path: Path, model: CompiledModel) -> None:
        """Write the container of a converted model. Raises ``OSError`` if it cannot be written."""
        model.write(path)

    def contents(self, model: OmModel) -> bytes:
        """The bytes of an operator's container."""
        return model.to_bytes()

    def debug_directory(self, option: str, environ: Mapping[str, str]) -> Path:
        """The ``kernel_meta`` directory of ``--debug_dir``, else ``ASCEND_WORK_PATH``, else
        here."""
        if option and not Path(option).is_dir():
            raise invalid_path(option, "--debug_dir", "there is no such directory; create it first")
        return Path(option or environ.get("ASCEND_WORK_PATH", "") or ".") / "kernel_meta"

    def debug_origin(self, option: str, environ: Mapping[str, str]) -> str:
        """What names the directory of :meth:`debug_directory`, for messages."""
        if option:
            return "--debug_dir"
        return "ASCEND_WORK_PATH" if environ.get("ASCEND_WORK_PATH") else "working directory"

    def keep(
        self,
        directory: Path,
        origin: str,
        stem: str,
        kernel: Kernel,
        metadata: dict[str, Any],
        debug: DebugRequest,
    ) -> None:
        """Write the files of one kernel that debugging keeps; ``origin`` named the directory."""
        files = self.kept_files(stem, kernel, metadata, debug)
        with as_invalid_path(directory, origin):
            directory.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                write_whole(directory / name, data)

    def kept_files(
        self, stem: str, kernel: Kernel, metadata: dict[str, Any], debug: DebugRequest
    ) -> dict[str, bytes]:
        """The files that debugging keeps of one kernel: contents by file name."""
        files: dict[str, bytes] = {}
        if debug.keep_binary:
            files[f"{stem}.o"] = kernel.object
            files[f"{stem}.json"] = json.dumps(metadata, indent=4, sort_keys=True).encode()
        if debug.keep_source:
            files[f"{stem}.cce"] = kernel.source.encode()
        if debug.keep_locations:
            locations = [
                {"cce_line": each.line, "file": each.file, "line": each.python_line}
                for each in kernel.locations
            ]
            files[f"{stem}_loc.json"] = json.dumps(locations, indent=1).encode()
        return files
