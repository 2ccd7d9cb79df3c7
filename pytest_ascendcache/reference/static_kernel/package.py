"""Making a ``.run`` package: a shell script that checks itself, followed by a ZIP archive.

Python runs the archive directly, so nothing is unpacked before the installation. The second line
contains the digest of all that follows, so damage is noticed before anything is executed. Source:
facts ``static-kernel`` section 3.1.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.static_kernel.archive import (
    CARRIED,
    EXECUTABLES,
    MANIFEST,
    PAYLOAD,
    PackageManifest,
)
from pytest_ascendcache.reference.static_kernel.index import INDEX_NAME, render
from pytest_ascendcache.reference.static_kernel.installer import main as install

_ROOT = Path(__file__).parents[3]
_CARRIED = (
    *("__init__", "reference/__init__", "reference/cache/__init__", "reference/cache/fs"),
    *(f"reference/static_kernel/{name}" for name in ("__init__", "archive", "index")),
    *(f"reference/static_kernel/{name}" for name in ("index_file", "installed", "installer")),
    *(f"reference/static_kernel/{name}" for name in ("leases", "neighbours", "registry")),
)
_EPOCH = (1980, 1, 1, 0, 0, 0)
_RUN_MODE = 0o750
_LOCK = ".run.ascendcache-lock"
_OURS = re.compile(r"\..+\.run\..")

_MAIN = f"""\
import sys
from {install.__module__} import main
sys.exit(main(sys.argv))
"""
_HEADER = """\
    # Static kernel package {name}; see --help. A ZIP archive follows.
    case "$0" in */*) file=$0 ;; *) file=./$0 ;; esac
    sum=$(tail -n +3 "$file" | sha256sum) || exit 2
    if [ "${{sum%% *}}" != "$sha256" ]; then
        echo "[ERROR] $file: the package is damaged; copy or compile it again." >&2
        exit 2
    fi
    exec {words} "$file" "$@"
fi
"""
_UNINSTALL = """\
#!/bin/sh
directory=$(CDPATH= cd -- "$(dirname -- "$0")/{up}" && pwd) || exit 1
exec {words} "$directory/{carried}" --uninstall "$@"
"""
PYTHON = "python3 -I -S -B"
"""The command that runs the archive: isolated, with only the standard library, without writing
bytecode."""


class NameTaken(OSError):
    """A package of the requested name exists, or is being made."""


class PackagePolicy:
    """Names, makes and publishes packages."""

    def name(self, now: datetime, process: int) -> str:
        """The default name of a package, with time in microseconds and process, as in CANN 9."""
        return f"static_kernel_{now:%y%m%d%H%M%S%f}_{process}"

    def content(
        self, manifest: PackageManifest, kernels: Mapping[str, bytes], installer: Sequence[str] = ()
    ) -> bytes:
        """The content of the ``.run`` file.

        ``kernels`` maps paths in the package to contents; they are added to ``manifest``.
        ``installer`` is the command that the package starts instead of its own installer. Raises
        ``PackageError`` for a name or path that no installer accepts.
        """
        carried = carried_modules()
        files = {
            **kernels,
            CARRIED: carried_archive(),
            # CANN's uninstaller rebuilds the index from these files of the other packages.
            f"config/{manifest.directory}/{INDEX_NAME}": render(manifest.index),
            **{path: self.uninstall_script(installer, path) for path in EXECUTABLES},
        }
        digests = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        whole = replace(manifest, files=digests).to_bytes()
        PackageManifest.parse(whole)
        members = {**carried, MANIFEST: whole}
        members.update({PAYLOAD + path: data for path, data in files.items()})
        body = header(manifest.name, installer).encode() + _zip(members)
        # The "if" makes the shell read the whole script before it executes any of it.
        digest = hashlib.sha256(body).hexdigest()
        return f"#!/bin/sh\nif sha256={digest}; then\n".encode() + body

    def uninstall_script(self, installer: Sequence[str], path: str) -> bytes:
        """The package's ``uninstall.sh``, and its ``scripts/uninstall.py``.

        CANN's ``uninstall.sh`` of all packages starts the latter in the last package, with
        ``--all``.
        """
        words = shlex.join(installer) or PYTHON
        up = "/".join(".." for _ in path.split("/")[1:])
        return _UNINSTALL.format(words=words, carried=CARRIED, up=up).encode()

    @contextmanager
    def reserved(self, fs: Fs, directory: Path, given: str = "") -> Iterator[str]:
        """Reserve a package's name while the package is made: ``given``, or a new one.

        The leftovers of killed processes are removed first. Raises ``NameTaken`` if ``given``
        exists or another process has reserved it, and ``OSError`` if the directory cannot be
        written.
        """
        self.clean(fs, directory)
        with ExitStack() as held:
            name = given or self.name(datetime.now(), os.getpid())
            while not self.reserve(fs, directory, name, held):
                if given:
                    raise NameTaken(f"[{directory / name}.run] exists already; name another.")
                name = self.name(datetime.now(), os.getpid())
            yield name

    def reserve(self, fs: Fs, directory: Path, name: str, held: ExitStack) -> bool:
        """Try to reserve a name until ``held`` is closed. Returns False if it is taken.

        Without working locks the name is not protected against other processes.
        """
        lock = directory / f".{name}{_LOCK}"
        try:
            held.enter_context(fs.lock("package.reserve", lock, patience=0.0))
        except LockUnavailable as error:
            if error.errno == errno.EAGAIN:
                return False
            if error.errno != errno.ENOLCK:
                raise
        held.callback(fs.remove, "package.release", lock)
        if self.exists(fs, directory / f"{name}.run"):
            held.close()
            return False
        return True

    def exists(self, fs: Fs, path: Path) -> bool:
        try:
            fs.state("package.exists", path)
        except FileNotFoundError:
            return False
        return True

    def publish(self, fs: Fs, path: Path, content: bytes) -> None:
        """Write an executable package atomically."""
        temporary = fs.temporary_path(path)
        fs.write_new("package", temporary, content, _RUN_MODE)
        try:
            fs.replace("package.rename", temporary, path)
        except BaseException:
            fs.remove("package.abandon", temporary)
            raise
        fs.sync_directory("package.sync", path.parent)

    def clean(self, fs: Fs, directory: Path) -> None:
        """Remove the temporary packages and locks of killed processes."""
        for entry in fs.entries("package.list", directory):
            if not _OURS.search(entry.name):
                continue
            with suppress(OSError):
                if fs.is_abandoned(entry):
                    fs.remove("package.clean", Path(entry.path))
                elif entry.name.endswith(_LOCK):
                    with fs.lock("package.clean", Path(entry.path), patience=0.0):
                        fs.remove("package.clean", Path(entry.path))


def header(name: str, installer: Sequence[str] = ()) -> str:
    """The shell script of a package, which checks the digest and starts ``installer``."""
    return _HEADER.format(name=name, words=shlex.join(installer) or PYTHON)


@cache
def carried_archive() -> bytes:
    return _zip(carried_modules())


@cache
def carried_modules() -> dict[str, bytes]:
    """The modules of the installer, as members of an archive that Python runs."""
    names = [f"pytest_ascendcache/{name}.py" for name in _CARRIED]
    return {
        "__main__.py": _MAIN.encode(),
        **{name: (_ROOT / name).read_bytes() for name in names},
    }


def _zip(members: Mapping[str, bytes]) -> bytes:
    """An archive with fixed dates: equal members give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
