"""The content of a package: its manifest, and the files in a ``.run`` file.

A ``.run`` file is a shell script followed by a ZIP archive. ``package.json`` in the archive lists
every file of the package with its digest. Paths that lead out of the package are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "package.json"
PAYLOAD = "payload/"
CARRIED = "installer.pyz"
"""The installer inside an installed package, which its ``uninstall.sh`` starts."""
EXECUTABLES = ("uninstall.sh", "scripts/uninstall.py")
FORMAT = "ascendcache-static-kernel"
VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z", re.ASCII)
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)


class PackageError(ValueError):
    """The file is damaged, or is not a package."""


@dataclass(frozen=True)
class PackageManifest:
    """The manifest of a package.

    ``directory`` is the SoC's short name, which names the directory of kernels and index;
    ``index`` is the package's part of the index; ``files`` maps each path in the package to its
    sha256.
    """

    name: str
    soc: str
    directory: str
    index: dict[str, Any]
    files: Mapping[str, str]

    @classmethod
    def parse(cls, data: bytes) -> PackageManifest:
        """Parse ``package.json``."""
        try:
            fields = json.loads(data)
            if fields["format"] != FORMAT or fields["version"] != VERSION:
                raise PackageError(f"format {fields['format']!r} {fields['version']!r} is unknown")
            manifest = cls(
                name=checked_name(fields["name"]),
                soc=str(fields["soc"]),
                directory=checked_name(fields["directory"]),
                index=fields["index"],
                files={checked_path(path): str(sha) for path, sha in fields["files"].items()},
            )
            manifest.check_index()
        except PackageError:
            raise
        except _UNREADABLE as error:
            raise PackageError(f"its {MANIFEST} is damaged ({error})") from None
        return manifest

    def check_index(self) -> None:
        """Check that the index names only files of this package."""
        for listed in self.index.values():
            for entry in listed["staticList"]:
                package, _, path = str(entry["binPath"]).partition("/")
                if package != self.name or path not in self.files:
                    raise PackageError(f"its index names [{entry['binPath']}], which it lacks")

    def to_bytes(self) -> bytes:
        """The content of ``package.json``. Equal manifests give equal bytes."""
        fields = {"format": FORMAT, "version": VERSION, **self.__dict__}
        return (json.dumps(fields, sort_keys=True, indent=1) + "\n").encode()


def checked_name(name: object) -> str:
    """Check that a name can be a directory's name and an item of the list in ``config.ini``."""
    if not isinstance(name, str) or not _NAME.match(name) or name == "config" or len(name) > 200:
        raise PackageError(
            f"[{name}] cannot name a package; use at most 200 letters, digits, '.', '-' and '_', "
            "and not 'config'"
        )
    return name


def checked_path(path: str) -> str:
    """Check that a relative path does not lead out of its directory."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise PackageError(f"it has the path [{path}], which leads out of the package")
    return path


@dataclass(frozen=True)
class Package:
    """A package whose files all have the digests in its manifest."""

    manifest: PackageManifest
    files: Mapping[str, bytes]

    @classmethod
    def read(cls, path: Path) -> Package:
        """Read a ``.run`` file and check all its files."""
        try:
            with zipfile.ZipFile(path) as archive:
                manifest = PackageManifest.parse(archive.read(MANIFEST))
                _refuse_links(archive)
                names = {each[len(PAYLOAD) :] for each in archive.namelist() if _is_payload(each)}
                if names != set(manifest.files):
                    raise PackageError("its files are not those its package.json names")
                files = {name: archive.read(PAYLOAD + name) for name in manifest.files}
        except PackageError:
            raise
        except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
            raise PackageError(f"it is not a complete package ({error})") from None
        for name, data in files.items():
            if hashlib.sha256(data).hexdigest() != manifest.files[name]:
                raise PackageError(f"its file [{name}] is damaged")
        return cls(manifest, files)


def _is_payload(name: str) -> bool:
    return name.startswith(PAYLOAD) and not name.endswith("/")


def _refuse_links(archive: zipfile.ZipFile) -> None:
    """Refuse an archive with a link or device. The members of our packages are plain files."""
    for member in archive.infolist():
        if (member.external_attr >> 28) not in (0o00, 0o04, 0o10):
            raise PackageError(f"its member [{member.filename}] is not a plain file")
