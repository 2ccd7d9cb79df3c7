"""Running packages in a fork instead of with ``sh``, ``sha256sum`` and a new Python.

A ``.run`` file or ``uninstall.sh`` ends up in a Python that loads the installer from an archive.
If everything that decides what it does is what this process has loaded (shell header, digest, all
modules of the archive and no others), a fork of this process does the same in a tenth of the
time. Callers execute any other file as usual.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.reference.static_kernel import installer
from pytest_ascendcache.reference.static_kernel.archive import CARRIED, MANIFEST, PAYLOAD
from pytest_ascendcache.reference.static_kernel.package import (
    PYTHON,
    PackagePolicy,
    carried_archive,
    carried_modules,
    header,
)

Installer = Callable[[Sequence[str], Mapping[str, str]], int]

LOADED: dict[tuple[str, ...], Installer] = {(): installer.run}
"""The installers in this process, by the command that starts them. The empty command is a
package's own installer."""

_BEGINNING = re.compile(
    rb"#!/bin/sh\nif sha256=(?P<digest>[0-9a-f]{64}); then\n"
    rb"(?P<header>    # Static kernel package (?P<name>[^\n;]*);.*?"
    rb'\n    exec (?P<words>[^\n]*) "\$file" "\$@"\nfi\n)',
    re.DOTALL,
)
_LONGEST_HEADER = 4096
_SCRIPT = re.compile(rb'exec (?P<words>[^\n]*) "\$directory/')


@dataclass(frozen=True)
class Resident:
    """What a package would start: an installer's command (empty: its own), and its arguments."""

    words: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The arguments of :func:`start`."""
        return (json.dumps(self.words), *self.arguments)


def resident(command: Sequence[str], environ: Mapping[str, str]) -> Resident | None:
    """The installer that a command starts, or ``None`` if this process has not loaded its code.

    ``command`` is the absolute path of a package or of its ``uninstall.sh``, then arguments.
    """
    path, *arguments = command
    if not Path(path).is_absolute() or not os.access(path, os.R_OK | os.X_OK):
        return None
    if shlex.quote(path) != path:
        return None  # the shell might interpret the name
    script = path.endswith("/uninstall.sh")
    try:
        words = _words_of_script(Path(path)) if script else _words_of_package(Path(path))
    except (OSError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile):
        return None
    if words is None or shutil.which(words[0], path=environ.get("PATH")) is None:
        return None
    started = (str(Path(path).parent / CARRIED), "--uninstall") if script else (path,)
    own = () if words == tuple(shlex.split(PYTHON)) else words
    return Resident(own, (*started, *arguments))


def start(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """A program of the fork server: runs an installer.

    ``argv`` is the command in :data:`LOADED` as JSON, then the installer's arguments.
    """
    words, *arguments = argv
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    return LOADED[tuple(json.loads(words))](arguments, environ)


def _words_of_package(path: Path) -> tuple[str, ...] | None:
    """The command that a ``.run`` file starts its installer with, or ``None`` if it differs."""
    data = path.read_bytes()
    match = _BEGINNING.match(data[:_LONGEST_HEADER])
    if match is None:
        return None
    words = tuple(shlex.split(match["words"].decode()))
    expected = header(match["name"].decode(), words).encode()
    digest = hashlib.sha256(memoryview(data)[match.start("header") :]).hexdigest()
    if match["header"] != expected or match["digest"].decode() != digest:
        return None
    return words if _carries_what_is_loaded(path) else None


def _carries_what_is_loaded(path: Path) -> bool:
    """Whether the modules in an archive are exactly those of this process."""
    carried = carried_modules()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        code = [each for each in names if each != MANIFEST and not each.startswith(PAYLOAD)]
        return (
            len(names) == len(set(names))
            and set(code) == set(carried)
            and all(archive.read(name) == data for name, data in carried.items())
        )


def _words_of_script(path: Path) -> tuple[str, ...] | None:
    """The command that an ``uninstall.sh`` starts its installer with, or ``None`` if it differs."""
    text = path.read_bytes()
    match = _SCRIPT.search(text)
    if match is None or os.path.normpath(path) != str(path):
        return None
    words = tuple(shlex.split(match["words"].decode()))
    same = PackagePolicy().uninstall_script(words, path.name) == text
    return words if same and path.with_name(CARRIED).read_bytes() == carried_archive() else None
