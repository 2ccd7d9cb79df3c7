"""op_compiler and its packages, done wrongly."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.faults import CrashKind
from pytest_ascendcache.operators.opinfo import InfoTensor, OperatorInfo
from pytest_ascendcache.qualification.catalogue import defect, override
from pytest_ascendcache.qualification.defects.interruption import InPlace
from pytest_ascendcache.reference.cache.fs import FileAct, Fs
from pytest_ascendcache.reference.static_kernel import index as indexing
from pytest_ascendcache.reference.static_kernel import neighbours
from pytest_ascendcache.reference.static_kernel.archive import CARRIED, MANIFEST, PackageManifest
from pytest_ascendcache.reference.static_kernel.compilation import (
    Job,
    StaticKernelPolicy,
)
from pytest_ascendcache.reference.static_kernel.installed import InstalledPolicy
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder
from pytest_ascendcache.reference.static_kernel.options import OpCompilerError
from pytest_ascendcache.reference.static_kernel.package import PackagePolicy
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy

SHAPES = "static-kernel/one-binary-per-shape"
HALF = "static-kernel/no-half-install"
UNION = "static-kernel/install-idempotent"
FAILED = "static-kernel/failed-operator"
RESULT = "static-kernel/result-correct"
SHARED = "static-kernel/shared-package"
POWER = "robust/power-loss"


@defect(SHAPES, overrides=StaticKernelPolicy.key, found_later=True)
def extents_of_1_in_front_do_not_count(self, right, info):
    """Operators share a kernel if their shapes differ in leading extents of 1."""
    return re.sub(r"\((1,)+(?=\d)", "(", right(info))


@defect(UNION, overrides=RegistryPolicy.is_installed, found_later=True)
def damaged_packages_are_installed_already(self, right, fs, ai_core, package, names):
    """A package counts as installed if its files have the right sizes."""
    place = ai_core / package.manifest.name
    sizes = {place / path: len(data) for path, data in package.files.items()}
    same = all(each.is_file() and each.stat().st_size == size for each, size in sizes.items())
    manifest = self.manifest(fs, place) == package.manifest
    return right(fs, ai_core, package, names) or (manifest and place.name in names and same)


@defect(SHAPES, overrides=StaticKernelPolicy.key)
def one_kernel_per_type(self, right, info):
    """Operators of one type share a kernel, whatever their shapes."""
    return info.type


@defect(SHAPES, overrides=StaticKernelPolicy.jobs)
def equal_operators_compiled_again(self, right, operators):
    """An operator is compiled once for each file that describes it."""
    return [job for each in operators for job in right([each])]


@defect(SHAPES, overrides=StaticKernelPolicy.key)
def attributes_not_in_the_key(self, right, info):
    """Operators that differ in attributes are compiled once."""
    return right(OperatorInfo(info.type, info.inputs, info.outputs))


@defect(SHAPES, overrides=StaticKernelPolicy.key, found_later=True)
def flags_are_not_in_the_job_key(self, right, info):
    """Operators that differ in a flag are compiled once."""
    kept = tuple(each for each in info.attributes if each.type != "bool")
    return right(replace(info, attributes=kept))


@defect(SHAPES, overrides=StaticKernelPolicy.key, found_later=True)
def implementation_modes_share_a_kernel(self, right, info):
    """Operators that differ in the implementation mode are compiled once."""
    return right(replace(info, impl_mode=""))


def _with_tensors(parameters, change):
    """Parameters of an operator with other fields of their tensors, as ``change`` gives them."""
    return tuple(
        replace(each, tensor=replace(each.tensor, **change(each.tensor)))
        if isinstance(each, InfoTensor)
        else each
        for each in parameters
    )


def _without_values(info: OperatorInfo) -> OperatorInfo:
    unset = {"is_const": False, "const_value": ()}
    return replace(info, inputs=_with_tensors(info.inputs, lambda _: unset))


@defect(RESULT, overrides=StaticKernelPolicy.key, found_later=True)
def values_of_constants_are_not_in_keys(self, right, info):
    """Operators that differ in a constant are compiled once, with the values of the first."""
    return right(_without_values(info))


@values_of_constants_are_not_in_keys.also(StaticKernelPolicy.kernel_file)
def _(self, right, job, *where):
    return right(replace(job, info=_without_values(job.info)), *where)


@values_of_constants_are_not_in_keys.also(SelectionPolicy.find)
def _(self, right, fs, opp, installed, info):
    return right(fs, opp, installed, _without_values(info))


@defect(SHAPES, overrides=StaticKernelPolicy.kernel_file, found_later=True)
def names_are_cut_after_they_were_made_unique(self, right, job, *where):
    """A kernel's file has the first 32 characters of its name, which others have too."""
    return right(replace(job, stem=job.stem[:32]), *where)


@defect(SHAPES, overrides=StaticKernelPolicy.kernel_files, found_later=True)
def keys_say_another_shape(self, right, job, data, package, soc):
    """The keys have the extents of outputs in reverse order: as many keys, none of them right."""
    outputs = _with_tensors(job.info.outputs, lambda each: {"shape": each.shape[::-1]})
    return right(replace(job, info=replace(job.info, outputs=outputs)), data, package, soc)


@defect(SHAPES, overrides=StaticKernelPolicy.files)
def files_of_one_name_are_one(self, right, directory):
    """Of two files with one name, in two folders, only the last is compiled."""
    return list({path.name: path for path in right(directory)}.values())


@defect(SHAPES, overrides=StaticKernelPolicy.files, found_later=True)
def same_file_names_are_one(self, right, directory):
    """Of several files with one name, in several folders, only the first is compiled."""
    return list({path.name: path for path in reversed(right(directory))}.values())


@defect(SHAPES, overrides=StaticKernelPolicy.jobs, found_later=True)
def files_of_one_name_leave_nothing_to_compile(self, right, operators):
    """If two files have one name, nothing is compiled."""
    names = [path.name for path, _ in operators]
    return right(operators) if len(set(names)) == len(names) else []


@defect(SHAPES, overrides=StaticKernelPolicy.jobs, found_later=True)
def a_numbered_name_may_be_taken(self, right, operators):
    """A kernel whose name is taken gets a number, although a file may have that name, too."""
    jobs: list[Job] = []
    given: Counter[tuple[str, str]] = Counter()
    for job in right(operators):
        name = job.info.bin_filename or job.source.stem
        number = given[job.info.type, name]
        given[job.info.type, name] += 1
        jobs.append(replace(job, stem=f"{name}_{number}" if number else name))
    return jobs


@defect("static-kernel/package-names", overrides=PackagePolicy.name)
def packages_collide_within_a_second(self, right, now, process):
    """Packages are named by the second and replace each other."""
    return f"static_kernel_{now:%y%m%d%H%M%S}"


@packages_collide_within_a_second.also(PackagePolicy.reserve)
def _(*_):
    return True


@defect(UNION, overrides=PackagePolicy.content, found_later=True)
def package_does_not_quote_its_path(self, right, *given):
    """A package below a directory with a blank in its name reports itself as damaged."""
    body = right(*given).split(b"\n", 2)[2].replace(b'"$file" | sha', b"$file | sha", 1)
    digest = hashlib.sha256(body).hexdigest()
    return f"#!/bin/sh\nif sha256={digest}; then\n".encode() + body


@defect(UNION, overrides=PackagePolicy.uninstall_script, found_later=True)
def uninstall_script_without_quotes(self, right, installer, path):
    """An installed uninstall.sh does not quote its directory."""
    return right(installer, path).replace(
        f'"$directory/{CARRIED}"'.encode(), f"$directory/{CARRIED}".encode()
    )


@defect("security/private-modes", overrides=RegistryPolicy.stage, found_later=True)
def uninstall_script_for_everyone(self, right, *arguments):
    """An installed uninstall.sh is writable by everyone."""
    staged = right(*arguments)
    (staged / "uninstall.sh").chmod(0o777)
    return staged


@defect(FAILED, overrides=PackagePolicy.reserved)
@contextlib.contextmanager
def failed_runs_leave_folders(self, right, fs, directory, *arguments):
    """A run that fails leaves a working directory behind."""
    with right(fs, directory, *arguments) as name:
        (directory / f"{name}_extent").mkdir()
        kernel = directory / f"{name}_extent/kernel.o"
        kernel.write_text("half a kernel")
        yield name
        kernel.unlink()
        kernel.parent.rmdir()


@defect("static-kernel/first-card", overrides=PackagePolicy.publish, found_later=True)
def a_package_has_a_second_name(self, right, fs, path, content):
    """Beside each package lies the same one as latest.run, which is a package, too."""
    right(fs, path, content)
    right(fs, path.with_name("latest.run"), content)


@defect(FAILED, overrides=PackagePolicy.publish)
def success_without_a_package(self, right, *arguments):
    """Success is reported although the package cannot be written."""
    with contextlib.suppress(OSError):
        right(*arguments)


@defect(FAILED, overrides=StaticKernelPolicy.whole)
def partial_package_is_success(self, right, compiled, *_):
    """Operators that failed are left out of the package, and success is reported."""
    return compiled


@defect(FAILED, overrides=StaticKernelPolicy.whole)
def failed_operator_not_named(self, right, compiled, failures):
    """An operator that failed is reported without its name."""
    return right(compiled, ["an operator"] if failures else [])


class _IndexInPlace(InPlace):
    """Writes straight to the place of files that exist."""

    def replace(self, point, source, target):
        if not target.is_file():
            super().replace(point, source, target)
            return
        self.write_temporary(point, target, source.read_bytes())
        self.remove(f"{point}.source", source)


@defect(HALF)
def index_written_in_place():
    """Files that all processes read are written in place."""
    return [_IndexInPlace]


@override(RegistryPolicy.put)
def listed_at_the_beginning(self, right, fs, ai_core, package, holder):
    """An installer appends its package to the list as that was when the installer began."""
    place = ai_core / package.manifest.name
    names = self.names(fs, ai_core)
    if self.is_installed(fs, ai_core, package, names):
        return right(fs, ai_core, package, holder)
    staged = self.stage(fs, ai_core, package, [holder] if holder else [])
    self.put_in_place(fs, ai_core, staged, place.name)
    self.write(fs, ai_core, [*(each for each in names if each != place.name), place.name])
    return True


@defect(UNION, overrides=RegistryPolicy.turn, also=[listed_at_the_beginning])
@contextlib.contextmanager
def install_not_locked(self, right, fs, opp):
    """Installers neither wait for each other nor read the list again."""
    yield self.directory(opp)
    self.sweep(fs, opp)


@defect(HALF, overrides=RegistryPolicy.put_in_place)
def index_before_files(self, right, fs, ai_core, staged, name):
    """The index names a package before its files are there."""
    new = PackageManifest.parse((staged / MANIFEST).read_bytes())
    found = [self.manifest(fs, ai_core / each) for each in self.names(fs, ai_core)]
    index = indexing.merged([*(each.index for each in found if each), new.index])
    directory = ai_core / "config" / new.directory
    self.make_directories(fs, directory)
    self.publish(fs, "install.index", directory / indexing.INDEX_NAME, indexing.render(index))
    right(fs, ai_core, staged, name)


@defect(HALF, overrides=RegistryPolicy.remove)
def files_before_index(self, right, fs, ai_core, name, *_):
    """A package's files are removed before the index stops naming them."""
    self.delete(fs, self.hide(fs, ai_core / name))
    self.settle(fs, ai_core)
    return frozenset()


@defect(UNION, overrides=RegistryPolicy.install)
def second_install_refused(self, right, fs, opp, package, holder):
    """Installing a package again is refused, also where it is half installed."""
    if package.manifest.name in self.order(fs, self.directory(opp)):
        raise OSError(17, "has been installed, continue?", package.manifest.name)
    return right(fs, opp, package, holder)


@defect(UNION, overrides=RegistryPolicy.is_installed)
def second_install_asks(self, right, *arguments):
    """Installing a package again asks a question if there is a terminal."""
    installed = right(*arguments)
    if installed and sys.stdin.isatty():
        os.read(0, 1)
    return installed


@defect(UNION, overrides=RegistryPolicy.turn)
@contextlib.contextmanager
def other_programs_taken_for_installers(self, right, fs, opp):
    """Any program called install.py keeps packages from being installed."""
    for path in Path("/proc").glob("[1-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = path.read_bytes().split(b"\0")
            if any(each.endswith(b"/install.py") for each in words[1:3]):
                raise OSError(16, "is installing", str(path))
    with right(fs, opp) as ai_core:
        yield ai_core


@defect(UNION, overrides=RegistryPolicy.is_installed, found_later=True)
def same_keys_are_installed(self, right, fs, ai_core, package, names):
    """A package counts as installed if another one of its name has the same index."""
    there = self.manifest(fs, ai_core / package.manifest.name)
    named = package.manifest.name in names and there is not None
    return named and there.index == package.manifest.index


@defect(UNION, overrides=RegistryPolicy.is_installed, found_later=True)
def same_name_is_installed(self, right, fs, ai_core, package, names):
    """A package counts as installed if another one of the same name is."""
    return package.manifest.name in names


def _write(fs, point, path, data, mode, announced):
    """Write a new file and do not sync it; ``announced``: report a sync all the same."""
    fs.step(f"{point}.create", FileAct.CREATE, path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, fs.file_mode if mode is None else mode), "wb") as file:
        fs.step(f"{point}.write", FileAct.WRITE, path, data)
        file.write(data)
        if announced:
            fs.step(f"{point}.fsync", FileAct.SYNC, path)


@defect(POWER, overrides=Fs.write_new, crash=CrashKind.POWER_LOSS.value, found_later=True)
def packages_are_not_synced(self, right, point, path, data, mode=None):
    """Files of an installed package are not synced, and a package of its name counts as whole."""
    if not point.startswith("install."):
        return right(point, path, data, mode)
    return _write(self, point, path, data, mode, announced=False)


@packages_are_not_synced.also(RegistryPolicy.is_installed)
def _(self, right, fs, ai_core, package, names):
    return package.manifest.name in names


@defect(POWER, overrides=PackagePolicy.clean, found_later=True)
def op_compiler_refuses_leftovers(self, right, fs, directory):
    """op_compiler fails in a directory where another run was cut short."""
    if left := [each.name for each in fs.entries("package.list", directory) if "temp" in each.name]:
        raise OpCompilerError(f"[{directory}] has {left}")
    right(fs, directory)


@defect(POWER, overrides=Fs.write_new, found_later=True)
def syncs_are_only_announced(self, right, point, path, data, mode=None):
    """A file is reported as synced and is not."""
    _write(self, point, path, data, mode, announced=True)


# --- order and index ------------------------------------------------------------------------


@defect(UNION, found_later=True)
def an_install_ends_at_a_list_of_another_user():
    """Directories are the group's and files their owner's: an install of another user stays half
    done where the list cannot be written."""

    class OfTheGroup(Fs):
        directory_mode = 0o770

    class Half(RegistryPolicy):
        def write_order(self, fs, ai_core, names):
            if list(names) != self.order(fs, ai_core):
                with contextlib.suppress(FileNotFoundError):
                    os.close(os.open(ai_core / "config.ini", os.O_WRONLY))
            return super().write_order(fs, ai_core, names)

        def give_up(self, *_):
            pass

    return [OfTheGroup, Half]


@defect(UNION, overrides=RegistryPolicy.write_indexes, found_later=True)
def indexes_of_all_chips(self, right, fs, ai_core, names):
    """Every chip's index has the packages of all chips."""
    right(fs, ai_core, names)
    found = [self.parts(fs, ai_core / name) for name in names]
    every = [index for parts in found for index in parts.values()]
    for directory in sorted(set().union(*found)):
        self.write_index(fs, ai_core / "config" / directory, every)
    return False


@defect(UNION, overrides=RegistryPolicy.write_index, found_later=True)
def values_of_the_last_package(self, right, fs, directory, indexes):
    """Only the last package's list of inputs whose values matter counts."""
    seen: set[str] = set()
    changed: list[indexing.Index] = []
    for index in reversed(indexes):
        changed.insert(
            0,
            {
                kind: {**listed, "valueDependIndex": []} if kind in seen else listed
                for kind, listed in index.items()
            },
        )
        seen |= set(index)
    return right(fs, directory, changed)


@defect("security/private-modes", overrides=RegistryPolicy.write_index, found_later=True)
def index_with_the_rights_of_the_umask(self, right, fs, directory, indexes):
    """The index has whatever rights the umask leaves, also that of everybody to write."""
    changed = right(fs, directory, indexes)
    path = directory / indexing.INDEX_NAME
    if changed and path.exists():
        text = path.read_bytes()
        path.unlink()
        path.write_bytes(text)
    return changed


@defect(UNION, overrides=RegistryPolicy.uninstall)
def uninstall_by_substring(self, right, fs, opp, name, *given):
    """Uninstalling removes the package's name from the list as a substring."""
    done = right(fs, opp, name, *given)
    ai_core = self.directory(opp)
    names = ",".join(self.order(fs, ai_core)).replace(name, "").split(",")
    self.write(fs, ai_core, [each for each in names if each])
    return done


@defect(UNION, overrides=RegistryPolicy.uninstall, found_later=True)
def removal_takes_shared_keys(self, right, fs, opp, name, *given):
    """Removing a package removes keys from the index that another package has too."""
    ai_core = self.directory(opp)
    gone = self.parts(fs, ai_core / name)
    done = right(fs, opp, name, *given)
    for soc, index in gone.items():
        path = ai_core / "config" / soc / indexing.INDEX_NAME
        if path.is_file():
            now = indexing.parse(path.read_bytes())
            taken = indexing.entries_by_key(index)
            entries = indexing.entries_by_key(now).items()
            left = {key: one for key, one in entries if key not in taken}
            path.write_bytes(indexing.render(indexing.of_entries(now, left)))
    return done


@defect(UNION, overrides=RegistryPolicy.remove_leftovers)
def cut_short_installs_stay(*_):
    """The remains of a killed install are never cleaned up."""


@defect(SHARED, overrides=RegistryPolicy.holders)
def packages_of_living_processes_go(*_):
    """An uninstall removes a package that other processes use."""
    return frozenset()


@defect(SHARED, overrides=RegistryPolicy.holders)
def killed_processes_hold_packages(self, right, fs, directory):
    """A killed process keeps its packages from being removed for ever."""
    named = (each.name for each in fs.entries("install.leases", directory / LEASES))
    return frozenset(each for each in map(Holder.parse, named) if each)


@defect(SHARED, overrides=RegistryPolicy.holders, found_later=True)
def zombies_hold_packages(self, right, fs, directory):
    """A killed process that its parent has not waited for keeps its packages."""
    named = (each.name for each in fs.entries("install.leases", directory / LEASES))
    return frozenset(
        each
        for each in map(Holder.parse, named)
        if each and (Path("/proc") / str(each.pid)).exists()
    )


@defect("static-kernel/verified", overrides=SelectionPolicy.digest_matches)
def installed_kernels_not_verified(*_):
    """Digests of installed kernels are not checked."""
    return True


@defect("static-kernel/result-correct", overrides=SelectionPolicy.find)
def kernel_of_another_shape(self, right, fs, opp, installed, *_):
    """A kernel is found by its operator type alone."""
    entries = sorted(installed.items())
    return self.load(fs, opp, entries[0][1]) if entries else None


@defect(UNION, overrides=RegistryPolicy.publish, found_later=True)
def the_index_is_its_owners_alone(self, right, fs, point, path, data, mode=None):
    """Other users may read the kernels, but neither list nor index."""
    return right(fs, point, path, data, mode or 0o600)


@defect(UNION, overrides=RegistryPolicy.publish, found_later=True)
def the_index_is_of_its_writers_group(self, right, fs, point, path, *more):
    """List and index of a team's operator package are not the team's."""
    right(fs, point, path, *more)
    os.chown(path, -1, os.getegid())


@defect(POWER, overrides=RegistryPolicy.hide, crash=CrashKind.POWER_LOSS.value, found_later=True)
def an_uninstall_is_not_synced(self, right, fs, directory):
    """After a power loss the next install brings back what was uninstalled."""
    hidden = fs.temporary_path(directory)
    fs.replace("uninstall.rename", directory, hidden)
    return hidden


@defect(HALF, overrides=RegistryPolicy.turn, found_later=True)
def an_install_waits_for_no_uninstaller_of_cann(self, right, fs, opp):
    """Only CANN's installers are waited for, not its uninstallers."""
    neighbours._SCRIPT = re.compile(rb"/static_kernel/ai_core/[^/]+/scripts/install\.py$")
    return right(fs, opp)


@defect(UNION, overrides=RegistryPolicy.uninstall, found_later=True)
def an_uninstall_is_of_the_current_toolkit(self, right, fs, opp, *arguments):
    """An uninstall.sh removes the package of its name that ASCEND_OPP_PATH has, not its own."""
    return right(fs, Path(os.environ.get("ASCEND_OPP_PATH") or opp), *arguments)


@defect("static-kernel/install-idempotent", overrides=InstalledPolicy.order, found_later=True)
def the_list_is_split_at_commas_only(self, right, fs, ai_core):
    """A package whose name has a line end behind it in config.ini is lost."""
    text = (self.content(fs, ai_core / "config.ini") or b"").decode()
    ended = {line.rpartition(",")[2].rpartition("=")[2] for line in text.split("\n")[:-1]}
    return [each for each in right(fs, ai_core) if each not in ended]


@the_list_is_split_at_commas_only.also(RegistryPolicy.names)
def _(self, right, fs, ai_core):
    listed = self.order(fs, ai_core)
    return [each for each in right(fs, ai_core) if each in listed]


@defect("security/no-path-escape", overrides=SelectionPolicy.place, found_later=True)
def the_index_may_lead_outside(self, right, ai_core, name):
    """A kernel is run from any place that begins like the directory of packages, as text."""
    path = ai_core / name
    return path if path.is_relative_to(ai_core) else right(ai_core, name)
