"""The packages of this process: it installs them, and uninstalls them when it ends.

For each package and process there is a record next to the operator package's ``static_kernel``,
named after the process. The next process uninstalls what the records of dead processes name. A
record is written before the installation and removed after the uninstallation, so a crash at any
moment leaves one. That needs no lock, which other nodes might not see. Processes of other nodes
count as living, since this node cannot look. Source: facts ``static-kernel`` sections 3.4 and 4.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.programs import EndedProgram, run
from pytest_ascendcache.reference.static_kernel.installed import ATTEMPTS
from pytest_ascendcache.reference.static_kernel.leases import VARIABLE, Holder
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE, LOCK_NAME

OWNERS = ".static_kernel_owners"


@dataclass
class Owned:
    """A package that this process installs, and its record."""

    package: Path
    record: Path


class ClientPackagePolicy:
    """Installs packages for this process, and uninstalls them."""

    def opp(self, environ: Mapping[str, str]) -> Path:
        """The operator package that kernels are installed into."""
        text = environ.get("ASCEND_OPP_PATH", "")
        if not text or not Path(text).is_dir():
            reason = f"is {text!r}, which is not a directory" if text else "is not set"
            raise StaticKernelError(
                f"ASCEND_OPP_PATH {reason}; set it to the operator package static kernels are "
                "installed into (CANN's set_env.sh does)."
            )
        return Path(text).absolute()

    def op_compiler(self, given: str, environ: Mapping[str, str]) -> str | None:
        """The command that compiles, or ``None`` for the embedded one."""
        command = shutil.which(given or "op_compiler", path=environ.get("PATH"))
        if given and command is None:
            raise StaticKernelError(
                f"aclgraph.op_compiler is {given!r}, which is not a command; name one on PATH or "
                "by its path."
            )
        return command

    def made(self, directory: Path, ended: EndedProgram) -> list[Path]:
        """The packages that op_compiler made in a directory."""
        packages = sorted(directory.glob("*.run"))
        if ended.status != 0:
            raise StaticKernelError(f"op_compiler {ended.words}")
        if not packages:
            raise StaticKernelError(f"op_compiler made no package, though it {ended.words}")
        return packages

    def claim(self, fs: Fs, opp: Path, package: Path) -> Owned:
        """Record that this process is about to install a package."""
        record = opp / OWNERS / package.stem / _own_name()
        for _ in range(ATTEMPTS):
            fs.make_directories("owner.mkdir", record.parent)
            try:
                fs.write_new("owner.record", record, f"{package}\n".encode())
            except FileNotFoundError:
                continue  # another process has just removed the empty directory
            except FileExistsError:
                pass  # this process has installed the package before
            return Owned(package, record)
        raise StaticKernelError(
            f"{record.parent} does not stay: it was made {ATTEMPTS} times; see what removes it."
        )

    def install(self, owned: Owned, environ: Mapping[str, str], cards: Cards) -> None:
        """Run a package, which installs itself. Raises ``StaticKernelError`` if that fails."""
        ended = run([str(owned.package)], _counted(environ), cards)
        if ended.status != 0:
            raise StaticKernelError(f"installing {owned.package} {ended.words}")

    def release(self, owned: Owned, opp: Path, environ: Mapping[str, str]) -> str:
        """Uninstall a package unless it has another owner. Returns the problem, or ``""``."""
        problem = ""
        if self.others(owned):
            self.forget(owned.record)  # the last owner uninstalls it, unless it ends right now too
        if not self.others(owned):
            problem = self.uninstall(opp, owned.package, environ)
            if not problem:
                self.forget(owned.record)
        return problem

    def others(self, owned: Owned) -> bool:
        """Whether another living process has installed the package too."""
        names = [each.name for each in _listed(owned.record.parent)]
        holders = (Holder.parse(each) for each in names if each != owned.record.name)
        return any(each.lives() for each in holders if each)

    def uninstall(self, opp: Path, package: Path, environ: Mapping[str, str]) -> str:
        """Uninstall a package, even a partly installed one. Returns the problem, or ``""``."""
        script = opp / AI_CORE / package.stem / "uninstall.sh"
        begun = (opp / each for each in (AI_CORE.parent, LOCK_NAME))
        if script.is_file():
            command = [str(script)]
        elif package.is_file() and any(each.exists() for each in begun):
            command = [str(package), "--uninstall"]  # it may be partly installed
        else:
            return ""
        try:
            ended = run(command, {**_counted(environ), "ASCEND_OPP_PATH": str(opp)}, Cards())
        except StaticKernelError as error:
            return str(error)
        return "" if ended.status == 0 else f"{command[0]} {ended.words}"

    def forget(self, record: Path) -> None:
        """Remove a record, and its directories if they are empty then."""
        record.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            record.parent.rmdir()
            record.parent.parent.rmdir()

    def clean(self, opp: Path, environ: Mapping[str, str]) -> list[str]:
        """Uninstall the packages of dead processes. Returns the problems."""
        problems: list[str] = []
        for record in self.records(opp):
            holder = Holder.parse(record.name)
            if holder is None or holder.lives():
                continue
            own = record.with_name(_own_name())
            try:
                record.rename(own)
                lines = own.read_text("utf-8", "replace").splitlines()
            except OSError:
                continue  # another process has just cleaned it up
            # The directory's name is that of the package, even if the record was not written yet.
            package = Path(lines[0] if lines else "").parent / f"{own.parent.name}.run"
            problems.append(self.release(Owned(package, own), opp, environ))
        return [each for each in problems if each]

    def records(self, opp: Path) -> list[Path]:
        """The records of all processes."""
        return [each for package in _listed(opp / OWNERS) for each in _listed(package)]


@dataclass
class Packages:
    """The packages of this process."""

    policy: ClientPackagePolicy
    fs: Fs
    opp: Path
    environ: Mapping[str, str]
    owned: list[Owned] = field(default_factory=list)

    def install(self, packages: list[Path], cards: Cards) -> None:
        """Install all packages, or none of them."""
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
        """Uninstall this process's packages from the last to ``first``. Returns the problems."""
        problems: list[str] = []
        while len(self.owned) > first:
            problems.append(self.policy.release(self.owned.pop(), self.opp, self.environ))
        return [each for each in problems if each]


def _counted(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a package's installer, which names this process as the holder."""
    return {**environ, VARIABLE: str(os.getpid())}


def _own_name() -> str:
    """The file name of this process's records."""
    holder = Holder.of(os.getpid())
    if holder is None:
        raise StaticKernelError("/proc does not show this process; mount it.")
    return holder.name


def _listed(directory: Path) -> list[Path]:
    """The sorted content of a directory; empty if it does not exist."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
