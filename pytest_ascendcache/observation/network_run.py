"""One observed run of a network by one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches import KERNEL_META, Change, NetworkLayout, RankKernel, Snapshot
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.impostor import Marks
from pytest_ascendcache.observation.observed import ObservedFiles
from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.toolchains import TrainResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOWHERE = Path()
_TOLERANCE = {"float16": 4e-3, "float32": 1e-4}
"""Relative to the largest magnitude. A network adds up the rounding of its operators."""


@dataclass(frozen=True, repr=False)
class NetworkRun(ObservedFiles):
    """The outputs of one rank's process, and what became of the kernels on disk.

    ``before`` and ``after`` are snapshots of everything the run could write, ``place`` the rank's
    directory in them. ``marked`` are the paths, without suffix, of kernels that were replaced by
    ``impostor``. ``trusted`` says whether this toolchain runs impostors like kernels.
    """

    result: TrainResult
    before: Snapshot
    after: Snapshot
    place: str
    impostor: Marks
    marked: frozenset[str]
    trusted: bool
    layout: NetworkLayout = KERNEL_META

    def __repr__(self) -> str:
        return f"<run of {self.network.name}, {self.result.ending}>"

    @property
    def network(self) -> Network:
        """The network that was run."""
        return self.result.request.network

    @property
    def files_written(self) -> frozenset[str]:
        """Regular files that were added, replaced or changed, except for locks."""
        return frozenset(
            path
            for path, change in self.written.items()
            if change in (Change.ADDED, Change.REPLACED, Change.CHANGED)
            and self.after.files[path].kind == "file"
            and not path.endswith(".lock")
        )

    @property
    def kernels_written(self) -> frozenset[str]:
        """Those of :attr:`files_written` that belong to a kernel. Document M speaks of other files
        beside them, which are a toolchain's own."""
        unit, least = self.layout.unit, min(2, len(self.layout.unit.suffixes))
        return frozenset(
            path
            for path in self.files_written
            if unit.holds(Path(path))
            or sum(path.rpartition(".")[0] + each in self._files for each in unit.suffixes) >= least
        )

    @property
    def stored(self) -> frozenset[str]:
        """Kernels added to the rank's directory, as names without suffix."""
        return self._kernels(self.after) - self._kernels(self.before)

    @property
    def stored_at(self) -> float:
        """When the last of them was written, by the file's time (seconds since the epoch)."""
        files = self.after.files
        written = (files[path].mtime_ns for path in self.files_written if self._is_kernel(path))
        return max(written, default=0) / 1e9

    @property
    def disturbed(self) -> dict[str, str]:
        """Changes of kernel files that existed in the rank's directory before."""
        return {
            path: change.value
            for path, change in self.written.items()
            if self._is_kernel(path) and change is not Change.ADDED
        }

    @property
    def was_marked(self) -> bool:
        """Whether kernels existed before and all of them were marked."""
        stems = self._kernels(self.before)
        return bool(stems) and all(f"{self.place}/{stem}" in self.marked for stem in stems)

    @property
    def reused(self) -> frozenset[str]:
        """Names of the operators that ran a kernel from disk: their output is an impostor's.
        Raises ``NotDecidable`` if kernels lay on disk that were not marked."""
        if self._kernels(self.before) and not self.was_marked:
            raise NotDecidable(
                "kernels lay on disk that were not marked, so nothing tells a reuse; call warm() "
                "or mark() before the run"
            )
        return frozenset(name for name, how in self._delivered.items() if how == "reused")

    @property
    def compiled(self) -> frozenset[str]:
        """Names of the operators with a correct output, although impostors lay on disk. Raises
        ``NotDecidable`` if that does not tell a compile from a reuse."""
        compiled = frozenset(name for name, how in self._delivered.items() if how == "compiled")
        if not self.trusted and self._kernels(self.before):
            rewritten = {_type_of(PurePath(path).stem) for path in self.files_written}
            rewrote = {
                node.operator.name
                for node in self.network.nodes
                if _plain(node.operator.type) in rewritten
            }
            if compiled - rewrote:
                raise NotDecidable(
                    f"{', '.join(sorted(compiled - rewrote))}: this toolchain does not run kernels "
                    "that were changed on disk, and no file tells a reuse from a compile"
                )
        return compiled

    @property
    def wrong(self) -> dict[str, str]:
        """Outputs that are neither the operator's nor an impostor's, with a description of each."""
        if self.result.outputs is None:
            return {"": f"the run {self.result.ending}: {self.output.strip()[-300:]}"}
        unexpected = set(self.result.outputs) ^ set(self.network.outputs)
        problems = dict.fromkeys(unexpected, "missing, or not an output")
        for name in self.network.outputs:
            if name not in unexpected and self._origin(name) == "wrong":
                output, exact = self.result.outputs[name], self._exact[name]
                first = _first_wrong(output, exact)
                problems[name] = f"is {_shown(output, first)}, not {_shown(exact, first)}"
        return problems

    @cached_property
    def _exact(self) -> Mapping[str, NDArray[Any]]:
        from pytest_ascendcache.operators.evaluation import evaluate_network

        return evaluate_network(self.network)

    @cached_property
    def _delivered(self) -> dict[str, str]:
        if wrong := self.wrong:
            raise NotDecidable(f"outputs tell nothing: {wrong}")
        return {
            node.operator.name: self._origin(node.outputs[0])
            for node in self.network.nodes
            if node.outputs[0] in self.network.outputs
        }

    def _origin(self, name: str) -> str:
        """Whether an output is the operator's own, an impostor's, or neither."""
        assert self.result.outputs is not None
        output, exact = self.result.outputs[name], self._exact[name]
        if output.shape != exact.shape or output.dtype != exact.dtype:
            return "wrong"
        if close_enough(output, exact):
            return "compiled"
        node = self._node(name)
        if self.marked and node is not None:
            pretended = self.impostor.output(self._exact[node.inputs[0]])
            if close_enough(output, pretended):
                return "reused"
        return "wrong"

    def _node(self, name: str) -> Node | None:
        nodes = (node for node in self.network.nodes if node.outputs == (name,))
        return next((node for node in nodes if len(node.inputs) == 1), None)

    def _kernels(self, snapshot: Snapshot) -> frozenset[str]:
        """The rank's kernels that have all their files."""
        names = {path for path in snapshot.files if self._is_kernel(path)}
        stems = {path.rpartition(".")[0] for path in names}
        return frozenset(
            PurePath(stem).name
            for stem in stems
            if all(stem + suffix in names for suffix in self.layout.unit.suffixes)
        )

    @cached_property
    def _files(self) -> frozenset[str]:
        """The paths of all files before and after the run."""
        return frozenset((*self.before.files, *self.after.files))

    def _is_kernel(self, path: str) -> bool:
        """Whether it is a file of a kernel, by its name, or because none of the kernel's files is
        missing: no document gives a name's form."""
        place, unit = PurePath(path), self.layout.unit
        stem = path.rpartition(".")[0]
        whole = len(unit.suffixes) > 1 and all(stem + each in self._files for each in unit.suffixes)
        named = unit.holds(Path(path)) or (whole and place.suffix in unit.suffixes)
        return named and str(place.parent) == self.place

    def describe(self) -> tuple[str, ...]:
        try:
            return tuple(f"{name}: {how}" for name, how in self._delivered.items())
        except NotDecidable as reason:
            return (str(reason),)


def _type_of(stem: str) -> str:
    """The operator type that a file is named after, without underscores and in lower case."""
    return _plain(RankKernel(stem, directory=_NOWHERE).operator_type)


def _plain(text: str) -> str:
    return text.replace("_", "").lower()


def close_enough(output: NDArray[Any], exact: NDArray[Any]) -> bool:
    """Whether an output is within the tolerance of its element type."""
    return bool(_close(output, exact).all())


def _close(output: NDArray[Any], exact: NDArray[Any]) -> NDArray[Any]:
    import numpy

    tolerance = _TOLERANCE.get(exact.dtype.name, 0.0)
    scale = float(numpy.max(numpy.abs(exact), initial=0.0)) or 1.0
    close = numpy.isclose(output, exact, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    return numpy.asarray(close)


def _first_wrong(output: NDArray[Any], exact: NDArray[Any]) -> int:
    """The number of the first wrong element; 0 for arrays of different shapes."""
    return int((~_close(output, exact)).argmax()) if output.shape == exact.shape else 0


def _shown(array: NDArray[Any], first: int) -> str:
    kind = f"{array.dtype}{list(array.shape)}"
    return f"{kind} {array.ravel()[first : first + 4]}" + (f" at {first}" if first else "")
