"""The program inside a static kernel package, which installs and uninstalls the package.

The package's shell header or its ``uninstall.sh`` starts it, so it needs only Python 3.9 and its
standard library. It never prompts.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.archive import (
    CARRIED,
    Package,
    PackageError,
    PackageManifest,
)
from pytest_ascendcache.reference.static_kernel.index_file import RegistryError
from pytest_ascendcache.reference.static_kernel.leases import LEASES, caller, holding
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE, RegistryPolicy

EXIT_SUCCESS, EXIT_FAILED, EXIT_DAMAGED = 0, 1, 2
"""makeself also ends with 2 if a package's checksum is wrong."""


class InstallerError(Exception):
    """A command line cannot be carried out. The text names the value, its origin and the remedy."""


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    registry: RegistryPolicy | None = None,
    fs: Fs | None = None,
) -> int:
    """Carry out one command line. Returns the exit status.

    ``argv`` begins with the ``.run`` file, or the ``installer.pyz`` of an installed package. The
    status is 0 on success, also if there was nothing to do; 2 for a damaged package; else 1.
    """
    source, *arguments = argv
    try:
        options = _parser(Path(source).name).parse_args(arguments)
        return _Run(Path(source), options, environ, registry or RegistryPolicy(), fs or Fs()).run()
    except PackageError as error:
        return _fail(f"{source}: {error}; nothing was changed.", EXIT_DAMAGED)
    except (InstallerError, RegistryError) as error:
        return _fail(f"{source}: {error}", EXIT_FAILED)
    except BrokenPipeError:
        return _unread()
    except OSError as error:
        what = f"{error.strerror or error} [{error.filename or source}]"
        return _fail(f"{source}: {what}; correct that and run it again.", EXIT_FAILED)
    except KeyboardInterrupt:
        return _fail(f"{source}: interrupted; run it again.", 130)


@dataclass(frozen=True)
class _Run:
    """One command line."""

    _source: Path
    _options: argparse.Namespace
    _environ: Mapping[str, str]
    _registry: RegistryPolicy
    _fs: Fs

    def run(self) -> int:
        """Carry it out. Returns the exit status."""
        if self._source.name == CARRIED:
            directory = self._source.absolute().parent
            return self._uninstall(directory.name, directory.parents[2])
        package = Package.read(self._source)
        manifest = package.manifest
        if self._options.list:
            for listed in manifest.index.values():
                for entry in listed["staticList"]:
                    print(f"{entry['binPath']}  {entry['simplifiedKey']}")
        elif self._options.check:
            self._say(f"[{manifest.name}] is whole: {_kernels(manifest)} for {manifest.soc}.")
        elif self._options.uninstall:
            return self._uninstall(manifest.name, self._opp())
        else:
            self._install(package)
        return EXIT_SUCCESS

    def _install(self, package: Package) -> None:
        manifest, opp = package.manifest, self._opp()
        holder = caller(self._environ)
        done = self._registry.install(self._fs, opp, package, holder)
        place = opp / AI_CORE / manifest.name
        what = "is installed" if done else "was installed already"
        self._say(
            f"[{manifest.name}] {what}: {_kernels(manifest)} for {manifest.soc} in [{place}]."
        )

    def _uninstall(self, name: str, opp: Path) -> int:
        if self._options.all:
            names = self._registry.uninstall_all(self._fs, opp)
            self._say(f"[{', '.join(names)}] are uninstalled in [{opp}].")
            return EXIT_SUCCESS
        leases = opp / AI_CORE / name / LEASES
        holder = holding(leases, self._environ)
        gives_up = holder is not None and (leases / holder.name).exists()
        done, holders = self._registry.uninstall(self._fs, opp, name, holder, self._options.force)
        if holders:
            living = ", ".join(str(each.pid) for each in sorted(holders, key=lambda each: each.pid))
            self._say(f"[{name}] stays in [{opp}]: process {living} holds it; see --force.")
            return EXIT_SUCCESS if gives_up else EXIT_FAILED
        self._say(f"[{name}] {'is uninstalled' if done else 'was not installed'} in [{opp}].")
        return EXIT_SUCCESS

    def _opp(self) -> Path:
        """The directory of the operator package to install into."""
        origin, value = "--install-path", self._options.install_path
        if value is None:
            origin, value = "ASCEND_OPP_PATH", self._environ.get("ASCEND_OPP_PATH", "")
        if not value:
            raise InstallerError(
                f"{origin} is not set; name the operator package's directory with "
                "ASCEND_OPP_PATH or --install-path=DIR."
            )
        if not Path(value).is_dir():
            raise InstallerError(f"{origin} is [{value}], which is not a directory; name one.")
        return Path(value).absolute()

    def _say(self, text: str) -> None:
        if not self._options.quiet:
            print(text)


def _kernels(manifest: PackageManifest) -> str:
    number = sum(len(listed["staticList"]) for listed in manifest.index.values())
    return f"{number} kernels"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InstallerError(f"{message}; see --help.")


def _parser(name: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=name,
        usage=(
            "%(prog)s [--install-path=DIR] [-q] [--check | --list | --uninstall [--force | --all]]"
        ),
        description="Installs static kernels below $ASCEND_OPP_PATH/static_kernel/ai_core.",
        allow_abbrev=False,
    )
    parser.add_argument("--install-path", metavar="DIR", help="instead of $ASCEND_OPP_PATH")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="check the package, install nothing")
    action.add_argument("--list", action="store_true", help="list its kernels, install nothing")
    action.add_argument("--uninstall", action="store_true", help="remove the installed package")
    removal = parser.add_mutually_exclusive_group()
    removal.add_argument(
        "--force", action="store_true", help="uninstall it though a living process holds it"
    )
    removal.add_argument(
        "--all", action="store_true", help="uninstall every package, also those of other users"
    )
    return parser


def _fail(reason: str, status: int) -> int:
    print(f"[ERROR] {reason}", file=sys.stderr)
    return status


def main(argv: Sequence[str]) -> int:
    """Entry point. ``argv`` is the package, then the command line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    status = run(argv, os.environ)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _unread()
    return status


def _unread() -> int:
    """Succeed although the reader closed the pipe, as ``head`` does: the work itself is done."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_SUCCESS
