"""op_compiler and its packages, done wrongly."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pytest_ascendcache.operators.opinfo import InfoTensor, OperatorInfo
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.qualification.defects.interruption import InPlace
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, Manifest
from pytest_ascendcache.reference.static_kernel.compilation import (
    DETERMINISTIC,
    Job,
    StaticKernelPolicy,
)
from pytest_ascendcache.reference.static_kernel.index import INDEX_NAME, merged, render
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy

SHAPES = "static-kernel/one-binary-per-shape"
NAMES = "static-kernel/package-names"
HALF = "static-kernel/no-half-install"
UNION = "static-kernel/install-idempotent"
FAILED = "static-kernel/failed-operator"
SHARED = "static-kernel/shared-package"
VERIFIED = "static-kernel/verified"
RESULT = "static-kernel/result-correct"


@defect(SHAPES, overrides=StaticKernelPolicy.key)
def one_kernel_per_type(self, right, info):
    """Operators of one type share a kernel, whatever their shapes."""
    return info.type


@defect(SHAPES, what="an operator is compiled once for each file that describes it")
def equal_operators_compiled_again() -> Policies:
    class Wrong(StaticKernelPolicy):
        def jobs(self, operators: Sequence[tuple[Path, OperatorInfo]]) -> list[Job]:
            return [job for each in operators for job in super(Wrong, self).jobs([each])]

    return having(Wrong())


@defect(SHAPES, overrides=StaticKernelPolicy.kernel_files)
def no_deterministic_kernel(self, right, job, data, package, soc):
    """There is no kernel for the deterministic setting."""
    return right(job, data, package, soc)[: len(DETERMINISTIC) - 1]


@defect(SHAPES, overrides=StaticKernelPolicy.key)
def attributes_not_in_the_key(self, right, info):
    """Attributes are left out of what tells operators apart."""
    return right(OperatorInfo(info.type, info.inputs, info.outputs))


@defect(SHAPES, overrides=StaticKernelPolicy.key, found_later=True)
def implementation_modes_share_a_kernel(self, right, info):
    """The implementation mode is left out of what tells operators apart."""
    return right(replace(info, impl_mode=""))


@defect(SHAPES, overrides=StaticKernelPolicy.kernel_files, found_later=True)
def keys_say_another_shape(self, right, job, data, package, soc):
    """A key has the extents of the outputs from last to first: as many keys, none of them right."""
    outputs = tuple(
        replace(each, tensor=replace(each.tensor, shape=each.tensor.shape[::-1]))
        if isinstance(each, InfoTensor)
        else each
        for each in job.info.outputs
    )
    return right(replace(job, info=replace(job.info, outputs=outputs)), data, package, soc)


class OverwrittenNames(PackagePolicy):
    """Names packages by the second, and does not look who has the name."""

    def name(self, now: datetime, process: int) -> str:
        return f"static_kernel_{now:%y%m%d%H%M%S}"

    def reserve(self, fs: Fs, directory: Path, name: str, held: ExitStack) -> bool:
        return True


@defect(NAMES, what="packages are named by the second, and replace each other")
def packages_collide_within_a_second() -> Policies:
    return having(OverwrittenNames())


class _IndexInPlace(InPlace):
    def replace(self, point: str, source: Path, target: Path) -> None:
        if not target.is_file():
            super().replace(point, source, target)
            return
        self.write_temporary(point, target, source.read_bytes())
        self.remove(f"{point}.source", source)


@defect(HALF, what="files that all processes read are written in place")
def index_written_in_place() -> Policies:
    return having(_IndexInPlace())


class ListedAtTheBeginning(RegistryPolicy):
    """An installer writes the list as it was when it began, with its own package behind it."""

    def put(self, fs, ai_core, package, holder):
        place = ai_core / package.manifest.name
        names = self.names(fs, ai_core)
        if self.is_installed(fs, ai_core, package, names):
            return super().put(fs, ai_core, package, holder)
        staged = self.stage(fs, ai_core, package, [holder] if holder else [])
        self.put_in_place(fs, ai_core, staged, place.name)
        self.write(fs, ai_core, [*(each for each in names if each != place.name), place.name])
        return True


@defect(UNION)
class InstallNotLocked(ListedAtTheBeginning):
    """Installers neither wait for each other nor look again."""

    @contextlib.contextmanager
    def turn(self, fs, opp):
        yield self.directory(opp)
        self.sweep(fs, opp)


@defect(HALF, overrides=RegistryPolicy.put_in_place)
def index_before_files(self, right, fs, ai_core, staged, name):
    """The index names a package before its files are there."""
    new = Manifest.parse((staged / MANIFEST).read_bytes())
    found = [self.manifest(fs, ai_core / each) for each in self.names(fs, ai_core)]
    index = merged([*(each.index for each in found if each), new.index])
    directory = ai_core / "config" / new.directory
    self.make_directories(fs, directory)
    self.publish(fs, "install.index", directory / INDEX_NAME, render(index))
    right(fs, ai_core, staged, name)


@defect(HALF, overrides=RegistryPolicy.remove)
def files_before_index(self, right, fs, ai_core, name, *_):
    """A package's files go before the index lets go of them."""
    self.delete(fs, self.hide(fs, ai_core / name))
    self.settle(fs, ai_core)
    return frozenset()


@defect(UNION, overrides=RegistryPolicy.uninstall)
def uninstall_by_substring(self, right, fs, opp, name, *given):
    """Uninstalling takes a package's name out of the list as text."""
    done = right(fs, opp, name, *given)
    ai_core = self.directory(opp)
    names = ",".join(self.order(fs, ai_core)).replace(name, "").split(",")
    self.write(fs, ai_core, [each for each in names if each])
    return done


@defect(UNION)
class OverriddenKernelDoesNotComeBack(RegistryPolicy):
    """Of two kernels for one operator the first install wins for ever."""

    def write_index(self, fs, directory, indexes):
        return super().write_index(fs, directory, list(reversed(indexes)))


@defect(UNION, overrides=RegistryPolicy.install)
def second_install_refused(self, right, fs, opp, package, holder):
    """Installing a package again is refused."""
    if package.manifest.name in self.order(fs, self.directory(opp)):
        raise OSError(17, "has been installed, continue?", package.manifest.name)
    return right(fs, opp, package, holder)


@defect(UNION, overrides=RegistryPolicy.sweep)
def empty_directories_stay(*_):
    """The last uninstall leaves directories behind."""


@defect(UNION)
class CutShortInstallsStay(RegistryPolicy):
    """What a killed install left is never cleaned up."""

    def remove_leftovers(self, fs, directory):
        pass


@defect(UNION, overrides=RegistryPolicy.is_installed)
def second_install_asks(self, right, *arguments):
    """Installing a package again asks a question where there is a terminal."""
    installed = right(*arguments)
    if installed and sys.stdin.isatty():
        os.read(0, 1)
    return installed


@defect(UNION)
class OtherProgramsTakenForInstallers(RegistryPolicy):
    """Any program called install.py keeps packages from being installed."""

    @contextlib.contextmanager
    def turn(self, fs, opp):
        for path in Path("/proc").glob("[1-9]*/cmdline"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = path.read_bytes().split(b"\0")
                if any(each.endswith(b"/install.py") for each in words[1:3]):
                    raise OSError(16, "is installing", str(path))
        with super().turn(fs, opp) as ai_core:
            yield ai_core


@defect(SHARED, overrides=RegistryPolicy.holders)
def packages_of_living_processes_go(*_):
    """An uninstall removes a package that other processes hold."""
    return frozenset()


@defect(SHARED, overrides=RegistryPolicy.holders)
def killed_processes_hold_packages(self, right, fs, directory):
    """A process that was killed holds its packages for ever."""
    named = (each.name for each in fs.entries("install.leases", directory / LEASES))
    return frozenset(each for each in map(Holder.parse, named) if each)


@defect(SHAPES, overrides=StaticKernelPolicy.files)
def files_of_one_name_are_one(self, right, directory):
    """Of files with one name in two folders only one is compiled."""
    return list({path.name: path for path in right(directory)}.values())


@defect(FAILED)
class FailedRunsLeaveFolders(PackagePolicy):
    """A run that fails leaves a working directory behind."""

    @contextlib.contextmanager
    def reserved(self, fs, directory, given=""):
        with super().reserved(fs, directory, given) as name:
            (directory / f"{name}_extent").mkdir()
            yield name
            (directory / f"{name}_extent").rmdir()


@defect(FAILED, overrides=PackagePolicy.publish)
def success_without_a_package(self, right, *arguments):
    """A package that cannot be written is reported as success."""
    with contextlib.suppress(OSError):
        right(*arguments)


@defect(FAILED, overrides=StaticKernelPolicy.whole)
def partial_package_is_success(self, right, compiled, *_):
    """Operators that failed are left out, and the rest is packed as success."""
    return compiled


@defect(FAILED, overrides=StaticKernelPolicy.whole)
def failed_operator_not_named(self, right, compiled, failures):
    """An operator that failed is reported without its name."""
    return right(compiled, ["an operator"] if failures else [])


@defect(VERIFIED, overrides=SelectionPolicy.digest_matches)
def installed_kernels_not_verified(*_):
    """Installed kernels are trusted without a look at their digests."""
    return True


@defect(RESULT, overrides=SelectionPolicy.find)
def kernel_of_another_shape(self, right, fs, opp, installed, *_):
    """A kernel is found by its operator type alone."""
    entries = sorted(installed.items())
    return self.load(fs, opp, entries[0][1]) if entries else None
