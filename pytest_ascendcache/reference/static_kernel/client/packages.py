"""Packages of this process: compiled, installed, and uninstalled when it ends.

For each package and process there is a record beside the operator package's ``static_kernel``,
named after the process. A record whose process is dead is for the next start, which uninstalls
what it names. It is there before the install and goes after the uninstall, so that no moment of a
crash is missed. No lock is needed, which another node might not see; of a process of another node
nobody here can tell whether it lives, so it is taken to. Source: facts ``static-kernel`` sections
3.4 and 4.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.client.cards import Alone, Cards
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.programs import Ended, run
from pytest_ascendcache.reference.static_kernel.installed import ATTEMPTS
from pytest_ascendcache.reference.static_kernel.leases import VARIABLE, Holder
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE, LOCK_NAME

OWNERS = ".static_kernel_owners"


@dataclass
class Owned:
    """A package this process installs: its ``.run``, and the record of it."""

    package: Path
    record: Path


class PackagePolicy:
    """Installs packages for this process, and what becomes of them."""

    def opp(self, environ: Mapping[str, str]) -> Path:
        """The operator package kernels are installed into.

        Raises:
            StaticKernelError: where ``ASCEND_OPP_PATH`` names no directory.
        """
        text = environ.get("ASCEND_OPP_PATH", "")
        if not text or not Path(text).is_dir():
            reason = f"is {text!r}, which is no directory" if text else "is not set"
            raise StaticKernelError(
                f"ASCEND_OPP_PATH {reason}; set it to the operator package static kernels are "
                "installed into (CANN's set_env.sh does)."
            )
        return Path(text).absolute()

    def op_compiler(self, given: str, environ: Mapping[str, str]) -> str | None:
        """The command to compile with; ``None`` is the embedded one.

        Raises:
            StaticKernelError: where the one that was named is none.
        """
        found = shutil.which(given or "op_compiler", path=environ.get("PATH"))
        if given and found is None:
            raise StaticKernelError(
                f"aclgraph.op_compiler is {given!r}, which is no command; name one on PATH or by "
                "its path."
            )
        return found

    def made(self, directory: Path, ended: Ended) -> list[Path]:
        """The packages op_compiler left in a directory.

        Raises:
            StaticKernelError: where it failed, or left none.
        """
        packages = sorted(directory.glob("*.run"))
        if ended.status != 0:
            raise StaticKernelError(f"op_compiler {ended.words}")
        if not packages:
            raise StaticKernelError(f"op_compiler made no package, though it {ended.words}")
        return packages

    def claim(self, fs: Fs, opp: Path, package: Path) -> Owned:
        """Put this process's name on a package that is about to be installed.

        Raises:
            StaticKernelError: where the directory of names is gone whenever it was made.
        """
        record = opp / OWNERS / package.stem / _own_name()
        for _ in range(ATTEMPTS):
            fs.make_directories("owner.mkdir", record.parent)
            try:
                fs.write_new("owner.record", record, f"{package}\n".encode())
            except FileNotFoundError:
                continue  # the directory was cleaned up
            except FileExistsError:
                pass  # it has installed this one before
            return Owned(package, record)
        raise StaticKernelError(
            f"{record.parent} does not stay: it was made {ATTEMPTS} times; see what removes it."
        )

    def install(self, owned: Owned, environ: Mapping[str, str], cards: Cards) -> None:
        """Run a package.

        Raises:
            StaticKernelError: where it does not install itself.
        """
        ended = run([str(owned.package)], _counted(environ), cards)
        if ended.status != 0:
            raise StaticKernelError(f"installing {owned.package} {ended.words}")

    def release(self, owned: Owned, opp: Path, environ: Mapping[str, str]) -> str:
        """Uninstall a package unless it has another owner; what went wrong, if anything did."""
        wrong = ""
        if self.others(owned):
            self.forget(owned.record)  # the last owner uninstalls it, unless it goes just now, too
        if not self.others(owned):
            wrong = self.uninstall(opp, owned.package, environ)
            if not wrong:
                self.forget(owned.record)
        return wrong

    def others(self, owned: Owned) -> bool:
        """Whether another process that lives has the package, too."""
        names = [each.name for each in _listed(owned.record.parent)]
        holders = (Holder.parse(each) for each in names if each != owned.record.name)
        return any(each.lives() for each in holders if each)

    def uninstall(self, opp: Path, package: Path, environ: Mapping[str, str]) -> str:
        """Remove one package, whole or not; what went wrong, if anything did."""
        script = opp / AI_CORE / package.stem / "uninstall.sh"
        begun = (opp / each for each in (AI_CORE.parent, LOCK_NAME))
        if script.is_file():
            command = [str(script)]
        elif package.is_file() and any(each.exists() for each in begun):
            command = [str(package), "--uninstall"]  # it may be installed in part
        else:
            return ""
        try:
            ended = run(command, {**_counted(environ), "ASCEND_OPP_PATH": str(opp)}, Alone())
        except StaticKernelError as error:
            return str(error)
        return "" if ended.status == 0 else f"{command[0]} {ended.words}"

    def forget(self, record: Path) -> None:
        """Remove a record, and the directories with the last one."""
        record.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            record.parent.rmdir()
            record.parent.parent.rmdir()

    def clean(self, opp: Path, environ: Mapping[str, str]) -> list[str]:
        """Uninstall what dead processes left; what went wrong."""
        wrong: list[str] = []
        for record in self.records(opp):
            holder = Holder.parse(record.name)
            if holder is None or holder.lives():
                continue
            own = record.with_name(_own_name())
            try:
                record.rename(own)
                lines = own.read_text("utf-8", "replace").splitlines()
            except OSError:
                continue  # cleaned by another process just now
            # The directory says which package, whatever was written in the record.
            package = Path(lines[0] if lines else "").parent / f"{own.parent.name}.run"
            wrong.append(self.release(Owned(package, own), opp, environ))
        return [each for each in wrong if each]

    def records(self, opp: Path) -> list[Path]:
        """The records of all processes."""
        return [each for package in _listed(opp / OWNERS) for each in _listed(package)]


@dataclass
class Packages:
    """The packages of this process."""

    policy: PackagePolicy
    fs: Fs
    opp: Path
    environ: Mapping[str, str]
    owned: list[Owned] = field(default_factory=list)

    def install(self, packages: list[Path], cards: Cards) -> None:
        """Install packages; of those that cannot all be, none stays.

        Raises:
            StaticKernelError: naming the one that cannot be installed.
        """
        before = len(self.owned)
        try:
            for package in packages:
                owned = self.policy.claim(self.fs, self.opp, package)
                self.owned.append(owned)
                self.policy.install(owned, self.environ, cards)
        except BaseException:
            self.remove(before)
            raise

    def remove(self, first: int = 0) -> list[str]:
        """Uninstall what this process installed, the last one first; what went wrong."""
        wrong: list[str] = []
        while len(self.owned) > first:
            wrong.append(self.policy.release(self.owned.pop(), self.opp, self.environ))
        return [each for each in wrong if each]


def _counted(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of packages: this process holds them."""
    return {**environ, VARIABLE: str(os.getpid())}


def _own_name() -> str:
    """The name of this process's records."""
    holder = Holder.of(os.getpid())
    if holder is None:
        raise StaticKernelError("/proc does not show this process; mount it.")
    return holder.name


def _listed(directory: Path) -> list[Path]:
    """What a directory holds; nothing where it is none."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
