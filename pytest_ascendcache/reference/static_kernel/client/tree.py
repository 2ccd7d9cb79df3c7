"""The directories of the client's output.

``<build dir>/aclnn_static_shape_kernel_outputs/<20 digits>_<pid>_outputs/{<pid>,<pid>_debug}``.
Source: document K, output; facts ``static-kernel`` sections 1 and 5.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

ROOT = "aclnn_static_shape_kernel_outputs"
_OPTION = "_aclnn_static_shape_kernel_build_dir"


@dataclass(frozen=True)
class Outputs:
    """The folders of one compile. With ``later`` they have the names of later versions.

    ``everything`` has all operators, ``target`` those that static kernels are compiled for, as has
    ``opcompile``, from which only later versions compile. ``selected`` has the operators of this
    card without a static kernel yet, ``gathered`` those of all cards of the node. In the document's
    tree these two exist only while they are needed.
    """

    directory: Path
    later: bool
    everything: Path
    target: Path
    opcompile: Path | None
    selected: Path
    gathered: Path

    @classmethod
    def of(cls, directory: Path, pid: int, later: bool) -> Outputs:
        """The folders in the directory of one compile."""
        prefix = f"{pid}_opcompile_" if later else "."
        return cls(
            directory,
            later,
            everything=directory / f"{pid}_debug",
            target=directory / str(pid),
            opcompile=directory / f"{pid}_opcompile" if later else None,
            selected=directory / f"{prefix}selected",
            gathered=directory / f"{prefix}gathered",
        )


class TreePolicy:
    """Decides which build directories are accepted, and creates folders in them."""

    def build_directory(self, given: str | None, script: Path) -> Path:
        """The directory for output; by default the script's directory.

        Raises ``StaticKernelError`` if it does not exist, its path contains a link or ``..``, or it
        is not readable and writable.
        """
        text = given or str(script)
        if "\0" in text:
            raise self.refused(text, "it contains a null byte")
        if ".." in Path(text).parts:
            raise self.refused(text, "it contains '..'")
        path = Path(text).absolute()
        for each in (*reversed(path.parents), path):
            # Links are accepted in the default, which is the user's own directory.
            if given and each.is_symlink():
                raise self.refused(text, f"{each} is a symbolic link")
        self.usable(text, path)
        return path

    def usable(self, text: str, path: Path) -> None:
        """Check that the directory exists and is readable and writable."""
        if not path.exists():
            raise self.refused(text, "it does not exist")
        if not path.is_dir():
            raise self.refused(text, "it is not a directory")
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise self.refused(text, "it may not be read and written")

    def refused(self, text: str, reason: str) -> StaticKernelError:
        return StaticKernelError(
            f"{_OPTION} is {text!r}: {reason}; name an existing directory, without links and "
            "'..', that you may read and write."
        )

    def make(self, fs: Fs, build_directory: Path, later: bool) -> Outputs:
        """Create new folders for one compile."""
        root = build_directory / ROOT
        pid = os.getpid()
        try:
            fs.make_directories("tree.root", root)
            while True:
                directory = root / self.name(datetime.now(), pid, later)
                try:
                    directory.mkdir(fs.directory_mode)
                except FileExistsError:
                    continue  # the clock went back; the next moment has another name
                return Outputs.of(directory, pid, later)
        except OSError as error:
            raise StaticKernelError(
                f"output below {_OPTION} cannot be made: {root}: {error.strerror}; name a "
                "writable directory with free space."
            ) from None

    def tidy(self, outputs: Outputs) -> None:
        """Remove the folders that the document's tree does not have."""
        if not outputs.later:
            for path in (outputs.selected, outputs.gathered):
                shutil.rmtree(path, ignore_errors=True)

    def name(self, moment: datetime, pid: int, later: bool) -> str:
        """The name of the folder of one compile."""
        time = moment.strftime("%Y%m%d%H%M%S%f")
        return f"ts{time}_pid{pid}_outputs" if later else f"{time}_{pid}_outputs"
