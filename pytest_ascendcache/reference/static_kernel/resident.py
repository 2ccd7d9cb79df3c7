"""Packages whose code is loaded here: a fork starts them, not ``sh``, ``sha256sum`` and Python.

A ``.run`` file and an ``uninstall.sh`` end in a Python that reads the installer from an archive.
Where every byte that decides what they do is what this process has loaded (shell header, digest,
every module of the archive and no other), a fork of this process does the same in a tenth of the
time. Any other file is for its caller to execute, as packages are everywhere else.
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
"""Installers of this process, by the words that start them; no words are a package's own."""

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
    """What a package would start: an installer's words (none: its own), and its arguments."""

    words: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """The command line of :func:`start`."""
        return (json.dumps(self.words), *self.arguments)

    def run(self, environ: Mapping[str, str]) -> int:
        """Be that installer, in a process of its own."""
        return start(self.command, environ)


def resident(command: Sequence[str], environ: Mapping[str, str]) -> Resident | None:
    """What a command starts, where that is an installer this code knows every byte of.

    ``command`` is the absolute path of a package or of its ``uninstall.sh``, then arguments.
    """
    path, *arguments = command
    if not Path(path).is_absolute() or not os.access(path, os.R_OK | os.X_OK):
        return None
    if shlex.quote(path) != path:
        return None  # what a shell makes of such a name, a shell has to say
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
    """A program of the fork server: an installer by its words, as JSON, and its arguments."""
    words, *arguments = argv
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    return LOADED[tuple(json.loads(words))](arguments, environ)


def _words_of_package(path: Path) -> tuple[str, ...] | None:
    """The words a ``.run`` file starts its installer with, unless it is not all as it should be."""
    data = path.read_bytes()
    found = _BEGINNING.match(data[:_LONGEST_HEADER])
    if found is None:
        return None
    words = tuple(shlex.split(found["words"].decode()))
    expected = header(found["name"].decode(), words).encode()
    digest = hashlib.sha256(memoryview(data)[found.start("header") :]).hexdigest()
    if found["header"] != expected or found["digest"].decode() != digest:
        return None
    return words if _carries_what_is_loaded(path) else None


def _carries_what_is_loaded(path: Path) -> bool:
    """Whether Python would find in an archive the modules of this process, and no others."""
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
    """The same of the ``uninstall.sh`` of an installed package."""
    text = path.read_bytes()
    found = _SCRIPT.search(text)
    if found is None or os.path.normpath(path) != str(path):
        return None
    words = tuple(shlex.split(found["words"].decode()))
    whole = PackagePolicy().uninstall_script(words, path.name) == text
    return words if whole and path.with_name(CARRIED).read_bytes() == carried_archive() else None
