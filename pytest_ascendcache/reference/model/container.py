"""The ``.om`` file of a converted model: the graph, its weights and its kernels.

A ZIP archive like that of one operator (see ``reference.om``), with the members ``manifest.json``
(format, graph, digests of the other members), ``weights.bin`` (each tensor at a multiple of 64
bytes), and ``kernels/<entry>.o`` with its ``.json``.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_ascendcache.operators.network import Node
from pytest_ascendcache.operators.singleop import (
    parse_single_op,
    parse_tensor,
    single_op_document,
    tensor_fields,
)
from pytest_ascendcache.reference.model.graph import Array, Graph, Port
from pytest_ascendcache.reference.om import (
    EPOCH,
    UNREADABLE,
    OmError,
    add_member,
    check_version,
    json_bytes,
    reading,
    whole_file,
)

FORMAT, FORMAT_VERSION = "ascendcache-om-model", 1
MANIFEST, WEIGHTS, KERNELS = "manifest.json", "weights.bin", "kernels"
_ALIGNMENT = 64


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel of a model."""

    symbol: str
    object: bytes
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class CompiledModel:
    """A graph with kernels; ``order`` has the kernel's stem for each node."""

    graph: Graph
    soc: str
    kernels: Mapping[str, CompiledKernel]
    order: tuple[str, ...]

    def write(self, path: Path) -> None:
        """Write the file so that no reader ever sees half of it; equal models give equal bytes.

        Raises ``OSError`` if the file cannot be written. Then nothing of it remains.
        """
        with (
            whole_file(path) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        ):
            offsets, digest = self._write_weights(archive)
            for stem, kernel in self.kernels.items():
                add_member(archive, f"{KERNELS}/{stem}.o", kernel.object)
                metadata = json_bytes(dict(kernel.metadata))
                add_member(archive, f"{KERNELS}/{stem}.json", metadata)
            add_member(archive, MANIFEST, json_bytes(self._manifest(offsets, digest)))

    def _write_weights(self, archive: zipfile.ZipFile) -> tuple[dict[str, int], str]:
        """The offset of each weight, and the digest of all."""
        offsets, place, digest = {}, 0, hashlib.sha256()
        info = zipfile.ZipInfo(WEIGHTS, EPOCH)
        with archive.open(info, "w", force_zip64=True) as member:
            for name, value in sorted(self.graph.weights.items()):
                data = value.tobytes()
                padding = bytes(-(place + len(data)) % _ALIGNMENT)
                offsets[name] = place
                for part in (data, padding):
                    member.write(part)
                    digest.update(part)
                place += len(data) + len(padding)
        return offsets, digest.hexdigest()

    def _manifest(self, offsets: Mapping[str, int], digest: str) -> dict[str, Any]:
        graph = self.graph
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "name": graph.name,
            "soc": self.soc,
            "inputs": _ports(graph.inputs),
            "outputs": _ports(graph.outputs),
            "tensors": {name: tensor_fields(each) for name, each in graph.tensors.items()},
            "weights": dict(offsets),
            "weights_sha256": digest,
            "nodes": [
                {
                    "operator": single_op_document([node.operator])[0],
                    "inputs": list(node.inputs),
                    "outputs": list(node.outputs),
                    "kernel": stem,
                }
                for node, stem in zip(graph.nodes, self.order, strict=True)
            ],
            "kernels": {
                stem: {"symbol": each.symbol, "sha256": hashlib.sha256(each.object).hexdigest()}
                for stem, each in self.kernels.items()
            },
        }


def is_model(path: Path) -> bool:
    """Whether a file's manifest says that it is the container of a model."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(MANIFEST))
    except UNREADABLE:
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def read_container(path: Path) -> CompiledModel:
    """Open a container and check every digest."""
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            check_version(path, manifest, FORMAT_VERSION, "convert")
            weights = archive.read(WEIGHTS)
            if hashlib.sha256(weights).hexdigest() != manifest["weights_sha256"]:
                raise OmError(f"[{path}] carries weights whose digest is wrong.")
            kernels = {
                stem: _kernel(archive, path, stem, fields)
                for stem, fields in manifest["kernels"].items()
            }
        tensors = {
            name: parse_tensor(each, f"{path}: {name}")
            for name, each in manifest["tensors"].items()
        }
        graph = Graph(
            manifest["name"],
            tensors,
            {name: _weight(weights, at, tensors[name]) for name, at in manifest["weights"].items()},
            tuple(_node(each, path) for each in manifest["nodes"]),
            {name: Port(**each) for name, each in manifest["inputs"].items()},
            {name: Port(**each) for name, each in manifest["outputs"].items()},
        )
        order = tuple(each["kernel"] for each in manifest["nodes"])
        return CompiledModel(graph, manifest["soc"], kernels, order)


def _kernel(
    archive: zipfile.ZipFile, path: Path, stem: str, fields: Mapping[str, str]
) -> CompiledKernel:
    data = archive.read(f"{KERNELS}/{stem}.o")
    if hashlib.sha256(data).hexdigest() != fields["sha256"]:
        raise OmError(f"[{path}] carries the kernel {stem}, whose digest is wrong.")
    metadata = json.loads(archive.read(f"{KERNELS}/{stem}.json"))
    return CompiledKernel(fields["symbol"], data, metadata)


def _weight(data: bytes, at: int, tensor: Any) -> Array:
    return np.frombuffer(data, tensor.dtype.numpy, tensor.elements, at).reshape(tensor.shape)


def _node(fields: Mapping[str, Any], path: Path) -> Node:
    (operator,) = parse_single_op([fields["operator"]], str(path))
    return Node(operator, tuple(fields["inputs"]), tuple(fields["outputs"]))


def _ports(ports: Mapping[str, Port]) -> dict[str, Any]:
    return {name: asdict(each) for name, each in ports.items()}
