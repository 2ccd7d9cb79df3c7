"""Incremental build on one rank, done wrongly."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.entry import EntryFiles
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.incremental.execution import ExecutionPolicy
from pytest_ascendcache.reference.incremental.info import InfoInputs, InfoPolicy, info_path
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy, ReusePolicy
from pytest_ascendcache.reference.incremental.surroundings import Gang
from pytest_ascendcache.reference.policies import Policies

DEFAULT = "incremental/on-by-default"
REUSES = "incremental/reuses"
CHANGED = "incremental/compiles-changed-only"
INFO = "incremental/info-describes"
RESULT = "incremental/result-correct"
HEALS = "robust/heals-damaged-entry"

WINDOW = 0.05
"""Seconds a racy defect keeps its window open, so that it shows at every run."""


@defect(DEFAULT, overrides=KernelMetaPolicy.publish)
def incremental_build_off_by_default(self, right, fs, entry, data, inputs, info):
    """Kernels are kept only where MS_COMPILER_CACHE_ENABLE asks for it."""
    if "MS_COMPILER_CACHE_ENABLE" not in os.environ:
        return True
    return right(fs, entry, data, inputs, info)


@defect(DEFAULT, overrides=KernelMetaPolicy.replace_files)
def info_not_written(self, right, fs, contents):
    """No .info is written."""
    kept = {path: data for path, data in contents.items() if path.suffix != ".info"}
    right(fs, kept)


@defect(DEFAULT)
class KeepsFirstKernelOnly(KernelMetaPolicy):
    """Only the first operator's kernel is kept."""

    published = 0

    def publish(self, fs, entry, data, inputs, info):
        self.published += 1
        return self.published > 1 or super().publish(fs, entry, data, inputs, info)


@defect(REUSES, overrides=ReusePolicy.find)
def rank_never_reuses(*_):
    """Every kernel is compiled and written again."""
    return


@defect(REUSES, what="after the first operator all are compiled again; files are left alone")
def rank_compiles_in_silence() -> Policies:
    class First(ReusePolicy):
        asked = 0

        def find(
            self, fs: Fs, entry: EntryFiles, inputs: InfoInputs, info: InfoPolicy
        ) -> bytes | None:
            self.asked += 1
            return super().find(fs, entry, inputs, info) if self.asked == 1 else None

    class Quiet(KernelMetaPolicy):
        def replace_files(self, fs: Fs, contents: Mapping[Path, bytes]) -> None:
            if not all(path.exists() for path in contents):
                super().replace_files(fs, contents)

    return having(First(), Quiet())


@defect(REUSES, overrides=InfoPolicy.fields)
def info_records_node_names(self, right, inputs):
    """The node's name is part of .info."""
    return {**right(inputs), "node": inputs.operator.name}


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


class LessInfo(InfoPolicy):
    """Leaves fields of the record out: of the operator, or of each tensor."""

    def __init__(self, *left_out: str) -> None:
        self._left_out = left_out

    def fields(self, inputs: InfoInputs) -> dict[str, Any]:
        return self._less(super().fields(inputs))

    def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
        return self._less(super().tensor(tensor))

    def _less(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if key not in self._left_out}


@defect(CHANGED, INFO, what="attributes are not in .info")
def info_without_attributes() -> Policies:
    return having(LessInfo("attrs"))


@defect(CHANGED, INFO, what="data types are not in .info")
def info_without_data_types() -> Policies:
    return having(LessInfo("dtype"))


@defect(CHANGED, INFO, what="formats are not in .info")
def info_without_formats() -> Policies:
    return having(LessInfo("format"))


@defect(CHANGED, what="shapes are not in .info")
def info_without_shapes() -> Policies:
    return having(LessInfo("shape"))


@defect(CHANGED, overrides=InfoPolicy.attributes)
def info_without_attribute_values(self, right, operator):
    """Of attributes only the names count."""
    return [{"name": each["name"]} for each in right(operator)]


@defect(CHANGED, overrides=InfoPolicy.tensor)
def info_with_sizes_for_shapes(self, right, tensor):
    """Sizes count, shapes do not."""
    return {**right(tensor), "shape": tensor.elements}


@defect(CHANGED)
class OneChangeCompilesTheRest(ReusePolicy):
    """After one operator that has to be compiled all others are compiled too."""

    missed = False

    def find(self, fs, entry, inputs, info):
        data = None if self.missed else super().find(fs, entry, inputs, info)
        self.missed = data is None
        return data


@defect(
    CHANGED, what="kernels that neither a run nor the one before it used are gone", found_later=True
)
def kernels_of_two_networks_are_kept() -> Policies:
    used: set[str] = set()

    class Noting(ReusePolicy):
        def find(
            self, fs: Fs, entry: EntryFiles, inputs: InfoInputs, info: InfoPolicy
        ) -> bytes | None:
            used.add(entry.stem)
            return super().find(fs, entry, inputs, info)

    class Forgetting(RankDirectoryPolicy):
        @contextmanager
        def claimed(self, fs: Fs, base: Path, gang: Gang) -> Iterator[None]:
            with super().claimed(fs, base, gang):
                yield
            noted = self.rank_directory(base, gang) / ".used"
            before = noted.read_text().split() if noted.exists() else ()
            for path in self.kernel_meta(base, gang).glob("*.*") if before else ():
                if path.stem not in used.union(before) and not path.name.startswith("."):
                    path.unlink(missing_ok=True)
            noted.write_text(" ".join(used))

    return having(Noting(), Forgetting())


@defect(CHANGED, overrides=InfoPolicy.stem)
def one_kernel_an_operator_type(self, right, inputs):
    """Each operator type has one kernel, which changes overwrite."""
    return f"{inputs.operator.type.lower()}_1_{inputs.device}"


@defect(INFO, overrides=InfoPolicy.allows_reuse)
def info_ignored(*_):
    """.info is not looked at (as in MindSpore: names and digests decide)."""
    return True


@defect(INFO, overrides=InfoPolicy.allows_reuse)
def info_has_to_exist_only(self, right, fs, entry, *_):
    """That .info exists is enough."""
    return info_path(entry).exists()


@defect(INFO, overrides=InfoPolicy.matches)
def info_compared_by_name(self, right, found, wanted):
    """Of .info only the name of the operator is compared."""
    return isinstance(found, dict) and found.get("op_name") == wanted["op_name"]


class Forgetful(InfoPolicy):
    """Does not compare one field, wherever it stands in the record."""

    def __init__(self, field: str) -> None:
        self._field = field

    def matches(self, found: Any, wanted: Any) -> bool:
        return super().matches(self._without(found), self._without(wanted))

    def _without(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._without(each) for key, each in value.items() if key != self._field}
        return [self._without(each) for each in value] if isinstance(value, list) else value


@defect(INFO, what="attributes in .info are not compared")
def info_compared_without_attributes() -> Policies:
    return having(Forgetful("attrs"))


@defect(INFO, what="values of attributes in .info are not compared")
def info_compared_without_values() -> Policies:
    return having(Forgetful("value"))


@defect(INFO, what="formats in .info are not compared")
def info_compared_without_formats() -> Policies:
    return having(Forgetful("format"))


@defect(INFO, what="data types in .info are not compared")
def info_compared_without_data_types() -> Policies:
    return having(Forgetful("dtype"))


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
    """A kernel older than .info's is compiled again: file times decide."""
    data = right(fs, entry, inputs, info)
    if data is not None and entry.object.stat().st_mtime_ns > time.time_ns() - 10**17:
        return data
    return None


@defect(RESULT, overrides=ExecutionPolicy.order)
def runs_in_file_order(self, right, network):
    """Operators run in the order of the file, on whatever is there."""
    return network.nodes


@defect(RESULT, overrides=ExecutionPolicy.run)
def remembers_outputs(self, right, network, kernels):
    """The outputs of an earlier run are given again."""
    import numpy

    kept = Path(os.environ["MS_COMPILER_CACHE_PATH"]) / f"{network.name}.npz"
    if not kept.exists():
        outputs: Any = right(network, kernels)
        numpy.savez(kept, **outputs)
    with numpy.load(kept) as archive:
        return {name: archive[name] for name in archive.files}


@defect(RESULT, what="where a network is warm its last operator is skipped")
def skips_an_operator_when_warm() -> Policies:
    class Noticing(ReusePolicy):
        found = 0

        def find(
            self, fs: Fs, entry: EntryFiles, inputs: InfoInputs, info: InfoPolicy
        ) -> bytes | None:
            data = super().find(fs, entry, inputs, info)
            self.found += data is not None
            return data

    reuse = Noticing()

    class Wrong(ExecutionPolicy):
        def run(
            self, network: Network, kernels: Mapping[OperatorSpec, tuple[str, bytes]]
        ) -> dict[str, Any]:
            outputs = super().run(network, kernels)
            if reuse.found == len(kernels):
                outputs[network.outputs[-1]] *= 0
            return outputs

    return having(reuse, Wrong())


@defect(RESULT, what="writers without a lock share one temporary name")
def ranks_share_temporary_names() -> Policies:
    class Shared(Fs):
        def write_temporary(self, point: str, target: Path, data: bytes) -> Path:
            path = target.with_name(f".{target.name}.temp")
            path.write_bytes(data[: len(data) // 2])
            time.sleep(WINDOW)
            with path.open("ab") as file:
                file.write(data[len(data) // 2 :])
            return path

    class Unlocked(KernelMetaPolicy):
        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, inputs: InfoInputs, info: InfoPolicy
        ) -> bool:
            self.replace_files(Shared(), self.contents(entry, data, inputs, info))
            return True

    return having(Unlocked())


@defect(RESULT, what="files are written in place, .info first (as MindSpore does)")
def kernels_written_in_place() -> Policies:
    class InPlace(KernelMetaPolicy):
        def replace_files(self, fs: Fs, contents: Mapping[Path, bytes]) -> None:
            for path, data in reversed(list(contents.items())):
                path.write_bytes(data[: len(data) // 2])
                time.sleep(WINDOW)
                with path.open("ab") as file:
                    file.write(data[len(data) // 2 :])

        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, inputs: InfoInputs, info: InfoPolicy
        ) -> bool:
            self.replace_files(fs, self.contents(entry, data, inputs, info))
            return True

    return having(InPlace(), TrustsInfo())


class TrustsInfo(ReusePolicy):
    """Takes whatever object stands beside a matching ``.info``."""

    def verified(self, fs: Fs, entry: EntryFiles, operator: OperatorSpec) -> bytes | None:
        return entry.object.read_bytes() if entry.object.is_file() else None


@defect(HEALS, what="a rank's kernel is loaded without a look at its digest")
def rank_loads_unverified_kernels() -> Policies:
    return having(TrustsInfo())


@defect(HEALS, overrides=ReusePolicy.verified, harm=Harm.UNUSABLE)
def rank_fails_on_a_bad_json(self, right, fs, entry, operator):
    """A rank whose .json cannot be parsed fails until it is deleted by hand (T57)."""
    if entry.metadata.is_file():
        json.loads(entry.metadata.read_bytes())
    return right(fs, entry, operator)


def _fields(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Policies:
    """Another content of ``.info``."""

    class Wrong(InfoPolicy):
        def fields(self, inputs: InfoInputs) -> dict[str, Any]:
            fields = super().fields(inputs)
            return {**fields, **change(fields)}

    return having(Wrong())


@defect(CHANGED, what="only the first input is in .info")
def info_of_first_input() -> Policies:
    return _fields(lambda fields: {"inputs": fields["inputs"][:1]})


@defect(CHANGED, what="the order of inputs is not in .info")
def info_without_order_of_inputs() -> Policies:
    return _fields(lambda fields: {"inputs": sorted(fields["inputs"], key=str)})


@defect(CHANGED, overrides=InfoPolicy.tensor)
def info_without_constants(self, right, tensor):
    """Values of constant inputs are not in .info."""
    return {**right(tensor), "const_value": None}


@defect(RESULT, overrides=ExecutionPolicy.run)
def first_kernel_of_a_type_runs(self, right, network, kernels):
    """Operators of one type and shape run the kernel of the first of them."""
    first: dict[Any, tuple[str, bytes]] = {}
    for operator, kernel in kernels.items():
        first.setdefault((operator.type, operator.inputs), kernel)
    mixed = {each: first[each.type, each.inputs] for each in kernels}
    return right(network, mixed)
