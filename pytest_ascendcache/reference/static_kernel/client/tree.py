"""Where output goes, and its names.

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
from pytest_ascendcache.reference.static_kernel.client.config import LATER
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

ROOT = "aclnn_static_shape_kernel_outputs"
_OPTION = "_aclnn_static_shape_kernel_build_dir"


@dataclass(frozen=True)
class Outputs:
    """The folders of one compile. ``later`` says whose names they have.

    ``selected`` are the operators to be compiled, ``gathered`` those of a whole node; in the
    document's tree both are there only while they are needed.
    """

    directory: Path
    pid: int
    later: bool

    @property
    def target(self) -> Path:
        """Operators static kernels are for."""
        return self.directory / str(self.pid)

    @property
    def everything(self) -> Path:
        """Every operator."""
        return self.directory / f"{self.pid}_debug"

    @property
    def opcompile(self) -> Path | None:
        """What later versions compile from."""
        return self.directory / f"{self.pid}_opcompile" if self.later else None

    @property
    def selected(self) -> Path:
        """Operators of this card that have no static kernel yet."""
        return self.directory / self._name("selected")

    @property
    def gathered(self) -> Path:
        """Those of all cards of the node."""
        return self.directory / self._name("gathered")

    def _name(self, what: str) -> str:
        return f"{self.pid}_opcompile_{what}" if self.later else f".{what}"


class TreePolicy:
    """Which build directories are taken, and what is made in them."""

    def build_directory(self, given: str | None, script: Path) -> Path:
        """The directory output goes below; by default that of the script.

        Raises:
            StaticKernelError: for one that is not there, is reached through a link or ``..``, or
                may not be read and written.
        """
        text = given or str(script)
        if "\0" in text:
            raise self.refused(text, "it contains a null byte")
        if ".." in Path(text).parts:
            raise self.refused(text, "it contains '..'")
        path = Path(text).absolute()
        for each in (*reversed(path.parents), path):
            # A default is the user's own directory; how it is reached is the user's business.
            if given and each.is_symlink():
                raise self.refused(text, f"{each} is a symbolic link")
        self.usable(text, path)
        return path

    def usable(self, text: str, path: Path) -> None:
        """It has to be there and open to the user."""
        if not path.exists():
            raise self.refused(text, "it does not exist")
        if not path.is_dir():
            raise self.refused(text, "it is not a directory")
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise self.refused(text, "it may not be read and written")

    def refused(self, text: str, reason: str) -> StaticKernelError:
        """The error for a directory that is not taken."""
        return StaticKernelError(
            f"{_OPTION} is {text!r}: {reason}; name an existing directory, without links and "
            "'..', that you may read and write."
        )

    def make(self, fs: Fs, build_directory: Path, later: bool) -> Outputs:
        """Folders for one compile, made now; no other compile has them.

        Raises:
            StaticKernelError: where they cannot be made.
        """
        root = build_directory / ROOT
        pid = os.getpid()
        try:
            fs.make_directories("tree.root", root)
            while True:
                directory = root / self.name(datetime.now(), pid, later)
                try:
                    directory.mkdir(fs.directory_mode)
                except FileExistsError:
                    continue  # the clock went back; another moment has another name
                return Outputs(directory, pid, later)
        except OSError as error:
            raise StaticKernelError(
                f"output below {_OPTION} cannot be made: {root}: {error.strerror}; name a "
                "directory that you may write, with room."
            ) from None

    def tidy(self, outputs: Outputs) -> None:
        """Remove what the document's tree does not have."""
        if not outputs.later:
            for path in (outputs.selected, outputs.gathered):
                shutil.rmtree(path, ignore_errors=True)

    def name(self, moment: datetime, pid: int, later: bool) -> str:
        """The folder of one compile."""
        time = moment.strftime("%Y%m%d%H%M%S%f")
        return f"ts{time}_pid{pid}_outputs" if later else f"{time}_{pid}_outputs"


def is_later(tree: str) -> bool:
    """Whether a configuration asks for the names of later versions."""
    return tree == LATER
