"""op_compiler and its packages, done wrongly."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.qualification.defects.interruption import InPlace
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import MANIFEST, Manifest, Package
from pytest_ascendcache.reference.static_kernel.compilation import (
    DETERMINISTIC,
    Job,
    KernelFile,
    StaticKernelPolicy,
)
from pytest_ascendcache.reference.static_kernel.index import INDEX_NAME, Index, merged, render
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.policies import StaticKernelPolicies
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


def with_compilation(compilation: StaticKernelPolicy) -> Policies:
    """The reference whose op_compiler compiles otherwise."""
    return Policies(static_kernel=StaticKernelPolicies(compilation=compilation))


def with_packages(packages: PackagePolicy) -> Policies:
    """The reference whose packages are made otherwise."""
    return Policies(static_kernel=StaticKernelPolicies(packages=packages))


def with_registry(registry: RegistryPolicy) -> Policies:
    """The reference whose packages install themselves otherwise."""
    return Policies(static_kernel=StaticKernelPolicies(registry=registry))


def with_selection(selection: SelectionPolicy) -> Policies:
    """The reference that finds installed kernels otherwise."""
    return Policies(static_kernel=StaticKernelPolicies(selection=selection))


@defect(SHAPES, what="operators of one type share a kernel, whatever their shapes")
def one_kernel_per_type() -> Policies:
    class Wrong(StaticKernelPolicy):
        def key(self, info: OperatorInfo) -> str:
            return info.type

    return with_compilation(Wrong())


@defect(SHAPES, what="an operator is compiled once for each file that describes it")
def equal_operators_compiled_again() -> Policies:
    class Wrong(StaticKernelPolicy):
        def jobs(self, operators: Sequence[tuple[Path, OperatorInfo]]) -> list[Job]:
            return [job for each in operators for job in super(Wrong, self).jobs([each])]

    return with_compilation(Wrong())


@defect(SHAPES, what="there is no kernel for the deterministic setting")
def no_deterministic_kernel() -> Policies:
    class Wrong(StaticKernelPolicy):
        def kernel_files(self, job: Job, data: bytes, package: str, soc: str) -> list[KernelFile]:
            return super().kernel_files(job, data, package, soc)[: len(DETERMINISTIC) - 1]

    return with_compilation(Wrong())


@defect(SHAPES, what="attributes are left out of what tells operators apart")
def attributes_not_in_the_key() -> Policies:
    class Wrong(StaticKernelPolicy):
        def key(self, info: OperatorInfo) -> str:
            return super().key(OperatorInfo(info.type, info.inputs, info.outputs))

    return with_compilation(Wrong())


class OverwrittenNames(PackagePolicy):
    """Names packages by the second, and does not look who has the name."""

    def name(self, now: datetime, process: int) -> str:
        return f"static_kernel_{now:%y%m%d%H%M%S}"

    def reserve(self, fs: Fs, directory: Path, name: str, held: ExitStack) -> bool:
        return True


@defect(NAMES, what="packages are named by the second, and replace each other")
def packages_collide_within_a_second() -> Policies:
    return with_packages(OverwrittenNames())


@defect(HALF, what="files that all processes read are written in place")
def index_written_in_place() -> Policies:
    return Policies(fs=InPlace())


@defect(UNION, what="installers do not wait for each other")
def install_not_locked() -> Policies:
    class Wrong(RegistryPolicy):
        @contextlib.contextmanager
        def locked(self, fs: Fs, opp: Path) -> Iterator[None]:
            yield
            self.sweep(fs, opp)

    return with_registry(Wrong())


@defect(HALF, what="the index names a package before its files are there")
def index_before_files() -> Policies:
    class Wrong(RegistryPolicy):
        def put_in_place(
            self, fs: Fs, ai_core: Path, staged: Path, name: str, others: Sequence[str]
        ) -> None:
            new = Manifest.parse((staged / MANIFEST).read_bytes())
            found = [self.manifest(fs, ai_core / each) for each in others]
            index = merged([*(each.index for each in found if each), new.index])
            directory = ai_core / "config" / new.directory
            self.make_directories(fs, directory)
            self.publish(fs, "install.index", directory / INDEX_NAME, render(index))
            super().put_in_place(fs, ai_core, staged, name, others)

    return with_registry(Wrong())


@defect(HALF, what="a package's files go before the index lets go of them")
def files_before_index() -> Policies:
    class Wrong(RegistryPolicy):
        def remove(self, fs: Fs, ai_core: Path, name: str, others: Sequence[str]) -> None:
            self.discard(fs, ai_core / name)
            self.write_order(fs, ai_core, others)
            self.write_indexes(fs, ai_core, others)

    return with_registry(Wrong())


@defect(UNION, what="uninstalling takes a package's name out of the list as text")
def uninstall_by_substring() -> Policies:
    class Wrong(RegistryPolicy):
        def remove(self, fs: Fs, ai_core: Path, name: str, others: Sequence[str]) -> None:
            text = ",".join(self.order(fs, ai_core)).replace(name, "")
            names = [each for each in text.split(",") if each]
            super().remove(fs, ai_core, name, names)

    return with_registry(Wrong())


@defect(UNION, what="of two kernels for one operator the first install wins for ever")
def overridden_kernel_does_not_come_back() -> Policies:
    class Wrong(RegistryPolicy):
        def write_index(self, fs: Fs, directory: Path, indexes: Sequence[Index]) -> None:
            super().write_index(fs, directory, list(reversed(indexes)))

    return with_registry(Wrong())


@defect(UNION, what="installing a package again is refused")
def second_install_refused() -> Policies:
    class Wrong(RegistryPolicy):
        def install(
            self, fs: Fs, opp: Path, package: Package, holder: Holder | None = None
        ) -> bool:
            if package.manifest.name in self.order(fs, self.directory(opp)):
                raise OSError(17, "has been installed, continue?", package.manifest.name)
            return super().install(fs, opp, package, holder)

    return with_registry(Wrong())


@defect(UNION, what="the last uninstall leaves directories behind")
def empty_directories_stay() -> Policies:
    class Wrong(RegistryPolicy):
        def sweep(self, fs: Fs, opp: Path) -> None:
            pass

    return with_registry(Wrong())


@defect(UNION, what="what a killed install left is never cleaned up")
def cut_short_installs_stay() -> Policies:
    class Wrong(RegistryPolicy):
        def remove_leftovers(self, fs: Fs, directory: Path) -> None:
            pass

    return with_registry(Wrong())


@defect(UNION, what="installing a package again asks a question where there is a terminal")
def second_install_asks() -> Policies:
    class Wrong(RegistryPolicy):
        def is_installed(
            self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]
        ) -> bool:
            installed = super().is_installed(fs, ai_core, package, names)
            if installed and sys.stdin.isatty():
                os.read(0, 1)
            return installed

    return with_registry(Wrong())


@defect(UNION, what="any program called install.py keeps packages from being installed")
def other_programs_taken_for_installers() -> Policies:
    class Wrong(RegistryPolicy):
        @contextlib.contextmanager
        def locked(self, fs: Fs, opp: Path) -> Iterator[None]:
            for path in Path("/proc").glob("[1-9]*/cmdline"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    words = path.read_bytes().split(b"\0")
                    if any(each.endswith(b"/install.py") for each in words[1:3]):
                        raise OSError(16, "is installing", str(path))
            with super().locked(fs, opp):
                yield

    return with_registry(Wrong())


@defect(SHARED, what="an uninstall removes a package whoever else holds it")
def packages_of_living_processes_go() -> Policies:
    class Wrong(RegistryPolicy):
        def holders(self, fs: Fs, directory: Path) -> frozenset[Holder]:
            return frozenset()

    return with_registry(Wrong())


@defect(SHARED, what="a process that was killed holds its packages for ever")
def killed_processes_hold_packages() -> Policies:
    class Wrong(RegistryPolicy):
        def holders(self, fs: Fs, directory: Path) -> frozenset[Holder]:
            named = (each.name for each in fs.entries("install.leases", directory / LEASES))
            return frozenset(each for each in map(Holder.parse, named) if each)

    return with_registry(Wrong())


@defect(SHAPES, what="of files with one name in two folders only one is compiled")
def files_of_one_name_are_one() -> Policies:
    class Wrong(StaticKernelPolicy):
        def files(self, directory: Path) -> list[Path]:
            return list({path.name: path for path in super().files(directory)}.values())

    return with_compilation(Wrong())


@defect(FAILED, what="a run that fails leaves a working directory behind")
def failed_runs_leave_folders() -> Policies:
    class Wrong(PackagePolicy):
        @contextlib.contextmanager
        def reserved(self, fs: Fs, directory: Path, given: str = "") -> Iterator[str]:
            with super().reserved(fs, directory, given) as name:
                (directory / f"{name}_extent").mkdir()
                yield name
                (directory / f"{name}_extent").rmdir()

    return with_packages(Wrong())


@defect(FAILED, what="a package that cannot be written is reported as success")
def success_without_a_package() -> Policies:
    class Wrong(PackagePolicy):
        def publish(self, fs: Fs, path: Path, content: bytes) -> None:
            with contextlib.suppress(OSError):
                super().publish(fs, path, content)

    return with_packages(Wrong())


@defect(FAILED, what="operators that failed are left out, and the rest is packed as success")
def partial_package_is_success() -> Policies:
    class Wrong(StaticKernelPolicy):
        def whole(
            self, compiled: list[tuple[Job, bytes]], failures: Sequence[str]
        ) -> list[tuple[Job, bytes]]:
            return compiled

    return with_compilation(Wrong())


@defect(FAILED, what="an operator that failed is reported without its name")
def failed_operator_not_named() -> Policies:
    class Wrong(StaticKernelPolicy):
        def whole(
            self, compiled: list[tuple[Job, bytes]], failures: Sequence[str]
        ) -> list[tuple[Job, bytes]]:
            return super().whole(compiled, ["an operator"] if failures else [])

    return with_compilation(Wrong())


@defect(VERIFIED, what="installed kernels are trusted without a look at their digests")
def installed_kernels_not_verified() -> Policies:
    class Wrong(SelectionPolicy):
        def digest_matches(self, data: bytes, digest: object) -> bool:
            return True

    return with_selection(Wrong())


@defect(RESULT, what="a kernel is found by its operator type alone")
def kernel_of_another_shape() -> Policies:
    class Wrong(SelectionPolicy):
        def find(
            self,
            fs: Fs,
            opp: Path,
            installed: Mapping[tuple[str, str], Mapping[str, Any]],
            info: OperatorInfo,
            deterministic: bool,
        ) -> Any:
            entries = sorted(installed.items())
            return self.load(fs, opp, entries[0][1]) if entries else None

    return with_selection(Wrong())
