"""Incremental build on one rank, done wrongly."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import Override, defect, override, register
from pytest_ascendcache.qualification.defects.entries import WINDOW
from pytest_ascendcache.reference.cache.entry import kernel_name
from pytest_ascendcache.reference.cache.fs import Fs, LockUnavailable
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.execution import ExecutionPolicy
from pytest_ascendcache.reference.incremental.info import InfoPolicy, info_path
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy, ReusePolicy
from pytest_ascendcache.reference.incremental.surroundings import (
    SurroundingsPolicy,
    invalid_variable,
)

DEFAULT = "incremental/on-by-default"
REUSES = "incremental/reuses"
CHANGED = "incremental/compiles-changed-only"
INFO = "incremental/info-describes"
RESULT = "incremental/result-correct"
HEALS = "robust/heals-damaged-entry"


@defect(DEFAULT, overrides=KernelMetaPolicy.publish)
def incremental_build_off_by_default(self, right, fs, entry, data, inputs, info):
    """Kernels are kept only if MS_COMPILER_CACHE_ENABLE is set."""
    if "MS_COMPILER_CACHE_ENABLE" not in os.environ:
        return True
    return right(fs, entry, data, inputs, info)


@defect(DEFAULT, overrides=KernelMetaPolicy.replace_files)
def info_not_written(self, right, fs, contents):
    """No .info is written."""
    kept = {path: data for path, data in contents.items() if path.suffix != ".info"}
    right(fs, kept)


@defect(DEFAULT, overrides=KernelMetaPolicy.publish, memory={"published": 0})
def keeps_first_kernel_only(self, right, *arguments):
    """Only the first operator's kernel is kept."""
    self.memory.published += 1
    return self.memory.published > 1 or right(*arguments)


@defect(CHANGED, overrides=KernelMetaPolicy.publish, memory={"kept": 0}, found_later=True)
def ten_kernels_of_a_run(self, right, *arguments):
    """A run keeps ten kernels at most."""
    self.memory.kept += 1
    return self.memory.kept > 10 or right(*arguments)


@defect(REUSES, overrides=ReusePolicy.find)
def rank_never_reuses(*_):
    """Every kernel is compiled and written again."""
    return


@defect(REUSES, overrides=ReusePolicy.find, memory={"asked": 0})
def rank_compiles_in_silence(self, right, *arguments):
    """After the first operator all are compiled again, but files are left as they are."""
    self.memory.asked += 1
    return right(*arguments) if self.memory.asked == 1 else None


@rank_compiles_in_silence.also(KernelMetaPolicy.replace_files)
def _(self, right, fs, contents):
    if not all(path.exists() for path in contents):
        right(fs, contents)


@defect(REUSES, overrides=InfoPolicy.fields, found_later=True)
def kernels_of_another_language(self, right, inputs):
    """Kernels are compiled again where messages have another language."""
    return {**right(inputs), "language": os.environ.get("LC_ALL", "")[:2]}


@defect(REUSES, overrides=InfoPolicy.fields)
def info_records_the_working_directory(self, right, inputs):
    """The working directory is part of .info."""
    return {**right(inputs), "directory": str(Path.cwd())}


@defect(REUSES, overrides=ReusePolicy.find)
def reused_kernels_are_rewritten(self, right, fs, entry, inputs, info):
    """Reused kernels are written again."""
    data = right(fs, entry, inputs, info)
    if data is not None:
        KernelMetaPolicy().publish(fs, entry, data, inputs, info)
    return data


@defect(REUSES, overrides=SurroundingsPolicy.size, found_later=True)
def a_gang_of_one_is_refused(self, right, environ):
    """A RANK_SIZE of 1 is refused."""
    size = right(environ)
    if size == 1:
        raise invalid_variable("RANK_SIZE", size, "there are no other ranks")
    return size


@defect(CHANGED, overrides=ReusePolicy.find, memory={"missed": False})
def one_change_compiles_the_rest(self, right, *arguments):
    """After the first operator that must be compiled, all others are compiled too."""
    data = None if self.memory.missed else right(*arguments)
    self.memory.missed = data is None
    return data


@defect(CHANGED, overrides=ReusePolicy.find, memory={"used": set()}, found_later=True)
def kernels_of_two_networks_are_kept(self, right, fs, entry, *arguments):
    """A run removes kernels that neither it nor the run before used."""
    self.memory.used.add(entry.stem)
    return right(fs, entry, *arguments)


@kernels_of_two_networks_are_kept.also(RankDirectoryPolicy.claimed)
@contextmanager
def _(self, right, fs, base, gang):
    with right(fs, base, gang):
        yield
    used, noted = self.memory.used, self.rank_directory(base, gang) / ".used"
    before = noted.read_text().split() if noted.exists() else ()
    for path in self.kernel_meta(base, gang).glob("*.*") if before else ():
        if path.stem not in used.union(before) and not path.name.startswith("."):
            path.unlink(missing_ok=True)
    noted.write_text(" ".join(used))


@defect(CHANGED, overrides=InfoPolicy.stem)
def one_kernel_an_operator_type(self, right, inputs):
    """Each operator type has one kernel, which every change overwrites."""
    return f"{inputs.operator.type.lower()}_1_{inputs.device}"


def _without(field):
    """.info lacks a field, of the operator and of each tensor."""

    def left_out(self, right, described):
        return {name: value for name, value in right(described).items() if name != field}

    return Override(InfoPolicy.fields, left_out), Override(InfoPolicy.tensor, left_out)


for name, what, field in (
    ("info-without-attributes", "attributes are not in .info", "attrs"),
    ("info-without-data-types", "data types are not in .info", "dtype"),
    ("info-without-formats", "formats are not in .info", "format"),
):
    register(name, CHANGED, INFO, what=what, parts=_without(field))


@defect(CHANGED)
def info_without_shapes():
    """Shapes are not in .info."""
    return _without("shape")


@defect(CHANGED, overrides=InfoPolicy.attributes)
def info_without_attribute_values(self, right, operator):
    """Only the names of attributes are in .info."""
    return [{"name": each["name"]} for each in right(operator)]


@defect(CHANGED, overrides=InfoPolicy.attributes, found_later=True)
def info_of_eight_items(self, right, operator):
    """Of a list in an attribute only eight elements are in .info."""
    return [
        {**each, "value": each["value"][:8] if _is_list(each["value"]) else each["value"]}
        for each in right(operator)
    ]


def _is_list(value):
    return isinstance(value, (tuple, list))


@defect(RESULT, overrides=InfoPolicy.attributes, found_later=True)
def info_leaves_out_zeros(self, right, operator):
    """Attributes that are zero, false or empty are not in .info."""
    return right(replace(operator, attributes=tuple(a for a in operator.attributes if a.value)))


@defect(CHANGED, overrides=InfoPolicy.tensor)
def info_with_sizes_for_shapes(self, right, tensor):
    """The size of a tensor is in .info instead of its shape."""
    return {**right(tensor), "shape": tensor.elements}


@defect(CHANGED, overrides=InfoPolicy.tensor)
def info_without_constants(self, right, tensor):
    """Values of constant inputs are not in .info."""
    return {**right(tensor), "const_value": None}


@defect(CHANGED, overrides=InfoPolicy.tensor, found_later=True)
def large_constants_are_weights(self, right, tensor):
    """The value of a constant of more than eight elements decides no kernel."""
    fields = right(tensor)
    return fields if tensor.elements <= 8 else {**fields, "const_value": None}


@defect(CHANGED, overrides=InfoPolicy.fields)
def info_of_first_input(self, right, inputs):
    """Only the first input is in .info."""
    fields = right(inputs)
    return {**fields, "inputs": fields["inputs"][:1]}


@defect(CHANGED, overrides=InfoPolicy.fields)
def info_without_order_of_inputs(self, right, inputs):
    """The order of inputs is not in .info."""
    fields = right(inputs)
    return {**fields, "inputs": sorted(fields["inputs"], key=str)}


@defect(INFO, overrides=InfoPolicy.allows_reuse)
def info_ignored(*_):
    """.info is ignored: names and digests decide, as in MindSpore."""
    return True


@defect(INFO, overrides=InfoPolicy.allows_reuse)
def info_has_to_exist_only(self, right, fs, entry, *_):
    """A kernel is reused whenever its .info exists."""
    return info_path(entry).exists()


@defect(INFO, overrides=InfoPolicy.matches)
def info_compared_by_name(self, right, found, wanted):
    """Only the operator's name in .info is compared."""
    return isinstance(found, dict) and found.get("op_name") == wanted["op_name"]


def _compared_without(field):
    """One field of .info is not compared, wherever it stands."""

    def without(value):
        if isinstance(value, dict):
            return {key: without(each) for key, each in value.items() if key != field}
        return [without(each) for each in value] if isinstance(value, list) else value

    return Override(
        InfoPolicy.matches,
        lambda self, right, found, wanted: right(without(found), without(wanted)),
    )


for name, what, field in (
    ("info-compared-without-attributes", "attributes in .info are not compared", "attrs"),
    ("info-compared-without-values", "values of attributes in .info are not compared", "value"),
    ("info-compared-without-formats", "formats in .info are not compared", "format"),
    ("info-compared-without-data-types", "data types in .info are not compared", "dtype"),
):
    register(name, INFO, what=what, parts=[_compared_without(field)])


@defect(INFO, overrides=InfoPolicy.allows_reuse)
def bad_info_ends_the_run(self, right, fs, entry, inputs):
    """An .info that cannot be parsed ends the run (T57)."""
    path = info_path(entry)
    return path.exists() and self.matches(
        json.loads(path.read_bytes()), json.loads(self.text(inputs))
    )


@defect(INFO, overrides=KernelMetaPolicy.replace_files)
def stale_info_stays(self, right, fs, contents):
    """An existing .info is not replaced when its kernel is compiled again."""
    kept = {
        path: data for path, data in contents.items() if path.suffix != ".info" or not path.exists()
    }
    right(fs, kept)


@defect(INFO, overrides=ReusePolicy.find)
def file_times_decide(self, right, fs, entry, inputs, info):
    """File times decide whether a kernel is reused."""
    data = right(fs, entry, inputs, info)
    if data is not None and entry.object.stat().st_mtime_ns > time.time_ns() - 10**17:
        return data
    return None


@defect(RESULT, overrides=ExecutionPolicy.order)
def runs_in_file_order(self, right, network):
    """Operators run in the order of the file, whether or not their inputs exist."""
    return network.nodes


@defect(RESULT, overrides=ExecutionPolicy.run)
def remembers_outputs(self, right, network, kernels):
    """A run returns the outputs of an earlier one."""
    import numpy

    kept = Path(os.environ["MS_COMPILER_CACHE_PATH"]) / f"{network.name}.npz"
    if not kept.exists():
        outputs: Any = right(network, kernels)
        numpy.savez(kept, **outputs)
    with numpy.load(kept) as archive:
        return {name: archive[name] for name in archive.files}


@defect(RESULT, overrides=ReusePolicy.find, memory={"reused": 0})
def skips_an_operator_when_warm(self, right, *arguments):
    """If all kernels of a network are reused, its last operator is skipped."""
    data = right(*arguments)
    self.memory.reused += data is not None
    return data


@skips_an_operator_when_warm.also(ExecutionPolicy.run)
def _(self, right, network, kernels):
    outputs = right(network, kernels)
    if self.memory.reused == len(kernels):
        outputs[network.outputs[-1]] *= 0
    return outputs


@defect(RESULT, overrides=ExecutionPolicy.run)
def first_kernel_of_a_type_runs(self, right, network, kernels):
    """Operators of one type and shape run the first one's kernel."""
    first: dict[Any, tuple[str, bytes]] = {}
    for operator, kernel in kernels.items():
        first.setdefault((operator.type, operator.inputs), kernel)
    mixed = {each: first[each.type, each.inputs] for each in kernels}
    return right(network, mixed)


@defect(RESULT, overrides=ExecutionPolicy.run, found_later=True)
def constants_share_a_kernel(self, right, network, kernels):
    """Operators that differ only in a constant input run the first one's kernel."""

    def plain(operator):
        inputs = tuple(replace(each, const_value=()) for each in operator.inputs)
        return replace(operator, inputs=inputs)

    first: dict[Any, Any] = {}
    for operator, kernel in kernels.items():
        first.setdefault(plain(operator), kernel)
    return right(network, {operator: first[plain(operator)] for operator in kernels})


def _write_slowly(path, data):
    """Write a file in two halves, a while apart."""
    path.write_bytes(data[: len(data) // 2])
    time.sleep(WINDOW)
    with path.open("ab") as file:
        file.write(data[len(data) // 2 :])


class _SharedNames(Fs):
    """Gives all writers of a file one temporary name."""

    def write_temporary(self, point, target, data):
        path = target.with_name(f".{target.name}.temp")
        _write_slowly(path, data)
        return path


@defect(RESULT, overrides=KernelMetaPolicy.publish)
def ranks_share_temporary_names(self, right, fs, entry, data, inputs, info):
    """Writers without a lock share one temporary name."""
    self.replace_files(_SharedNames(), self.contents(entry, data, inputs, info))
    return True


@override(ReusePolicy.verified)
def trusts_info(self, right, fs, entry, operator):
    """A rank reuses whatever object is next to a matching .info."""
    return entry.object.read_bytes() if entry.object.is_file() else None


@defect(RESULT, overrides=KernelMetaPolicy.replace_files, also=[trusts_info])
def kernels_written_in_place(self, right, fs, contents):
    """Files are written in place, .info first, as MindSpore does."""
    for path, data in reversed(list(contents.items())):
        _write_slowly(path, data)


@kernels_written_in_place.also(KernelMetaPolicy.publish)
def _(self, right, fs, entry, data, inputs, info):
    self.replace_files(fs, self.contents(entry, data, inputs, info))
    return True


@defect(HEALS)
def rank_loads_unverified_kernels():
    """A rank loads a kernel without checking its digest."""
    return [trusts_info]


@defect("security/verify-before-load", overrides=ReusePolicy.verified, found_later=True)
def rank_loads_before_it_verifies(self, right, fs, entry, operator):
    """A rank loads an object before it checks its digest."""
    from pytest_ascendcache.reference.kernels.errors import KernelError
    from pytest_ascendcache.reference.kernels.execute import LoadedKernel

    with suppress(OSError, KernelError, RuntimeError):
        LoadedKernel(entry.object.read_bytes(), kernel_name(entry.stem))
    return right(fs, entry, operator)


@defect(HEALS, overrides=ReusePolicy.verified, harm=Harm.UNUSABLE)
def rank_fails_on_a_bad_json(self, right, fs, entry, operator):
    """A rank fails on a .json that cannot be parsed until it is deleted by hand (T57)."""
    if entry.metadata.is_file():
        json.loads(entry.metadata.read_bytes())
    return right(fs, entry, operator)


@defect(INFO, overrides=InfoPolicy.attributes)
def info_rounds_numbers(self, right, operator):
    """Numbers are recorded with three digits after the point."""
    recorded = right(operator)
    for each in recorded:
        each["value"] = round(each["value"], 3) if each["type"] == "float" else each["value"]
    return recorded


@defect("robust/read-only-cache", overrides=RankDirectoryPolicy.claimed)
@contextmanager
def ranks_need_their_lock(self, right, fs, base, gang):
    """A rank of several is refused where it cannot lock its directory."""
    if gang.several and not os.access(self.rank_directory(base, gang), os.W_OK):
        raise AtcError("EI0001", f"rank[{gang.rank}] cannot lock its directory")
    with right(fs, base, gang):
        yield


@defect("robust/read-only-cache", overrides=RankDirectoryPolicy.claimed, found_later=True)
@contextmanager
def no_lock_means_taken(self, right, fs, base, gang):
    """Whatever keeps a rank of several from its lock, it says that another process has it."""
    lock = self.rank_directory(base, gang) / ".rank.lock"
    try:
        with fs.lock("meta.claim", lock, patience=0.0) if gang.several else right(fs, base, gang):
            yield
    except LockUnavailable:
        raise AtcError("EI0001", f"another process has rank[{gang.rank}]") from None


@defect("incremental/on-by-default", overrides=RankDirectoryPolicy.prepare)
def temporary_files_of_the_living_removed(self, right, *arguments):
    """A run first removes temporary files, also those that another run is about to publish."""
    directory = right(*arguments)
    for path in directory.glob("*.temp") if directory else ():
        path.unlink(missing_ok=True)
    return directory


@defect("incremental/on-by-default", overrides=RankDirectoryPolicy.prepare)
def a_deleted_directory_stays_away(self, right, fs, base, gang):
    """A rank's directory that lacks its kernel_meta stays without, and nothing is kept."""
    was_there = self.rank_directory(base, gang).exists()
    if was_there and not self.kernel_meta(base, gang).exists():
        return None
    return right(fs, base, gang)
