"""A small model whose nodes a compiler may fuse, converted on one cache and on empty ones. Which
nodes become one kernel is the compiler's; what is said of a node holds wherever it ends up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable
from pytest_ascendcache.observation.model_file import ModelParts, take_apart
from pytest_ascendcache.toolchains import ConvertRequest
from pytest_ascendcache.toolchains.models import can_write_models

Digests = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class ModelNode:
    """A node, whose output is called as it is itself. Its inputs are other nodes, ``x``, the input
    of the model, and the weights ``w`` (16 x 16) and ``b``."""

    type: str
    name: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The type with its attributes, for messages."""
        return " ".join(
            [self.type, *(f"{name}={value}" for name, value in self.attributes.items())]
        )


@dataclass(frozen=True)
class SmallModel:
    """Nodes, and what they work on: ``x`` has ``rows`` x 16 elements, ``b`` the shape ``bias``."""

    nodes: tuple[ModelNode, ...]
    rows: int = 4
    bias: tuple[int, ...] = (16,)
    element: str = "float16"

    def neighbours(self) -> Iterator[tuple[str, SmallModel]]:
        """What is another, and the model: one attribute or the type of one node, or its tensors."""
        for node in self.nodes:
            others = [
                replace(node, attributes={**node.attributes, name: 2 * value})
                for name, value in node.attributes.items()
            ]
            if node.type in _ALIKE:
                others.append(replace(node, type=_ALIKE[node.type], attributes={}))
            for other in others:
                nodes = tuple(other if each is node else each for each in self.nodes)
                yield f"{node.name} is {other.label}", replace(self, nodes=nodes)
        yield "the input has 8 rows", replace(self, rows=8)
        yield "the bias has one element", replace(self, bias=(1,))
        yield "all tensors are float32", replace(self, element="float32")


_ALIKE = {"Add": "Mul", "LeakyRelu": "Relu", "Tanh": "Sigmoid"}
"""Types that take another's place, with as many inputs and no attributes."""

CHAIN = (
    ModelNode("MatMul", "product", ("x", "w")),
    ModelNode("LeakyRelu", "positive", ("product",), {"alpha": 0.125}),
    ModelNode("Add", "sum", ("positive", "b")),
    ModelNode("LeakyRelu", "leak", ("sum",), {"alpha": 0.25}),
    ModelNode("Add", "shifted", ("leak", "b")),
    ModelNode("Tanh", "curve", ("shifted",)),
    ModelNode("Sqrt", "root", ("w",)),
)
"""Pairs that compilers like to fuse, a product or a sum and what follows it, and a node alone."""
PLAIN = SmallModel(CHAIN)
_OPSET, _IR_VERSION = 11, 6
"""Old enough for every release of the toolkit."""


class NotConverted(NotDecidable):
    """A conversion failed, which tells something only beside one that succeeds without a cache."""


class ModelsUnderTest:
    """Conversions of :data:`CHAIN`, or of other nodes, on the cache under test and on empty ones.
    Skips the check if the toolchain converts no models, or no package writes one."""

    def __init__(self, cache: CacheUnderTest) -> None:
        if not cache.toolchain.converts:
            pytest.skip(f"{cache.toolchain.name}: converts no models")
        if not can_write_models():
            pytest.skip("the package onnx is missing")
        self._cache = cache
        self._made = 0
        self._fresh: dict[str, Digests] = {}

    def warm(self, model: SmallModel = PLAIN) -> ModelParts:
        """Convert into the cache, and see that a second conversion is served. Raises
        ``NotDecidable`` if it is not: then what is compiled again tells nothing."""
        self.convert(model=model)
        parts = self.convert(model=model)
        if compiled := [str(each) for each in parts.kernels if not each.served_from]:
            what = compiled[0]
            raise NotDecidable(f"a model converted twice is not served from the cache: {what}")
        return parts

    def convert(
        self,
        options: Mapping[str, str] | None = None,
        mode: CacheMode = CacheMode.ENABLE,
        model: SmallModel = PLAIN,
        root: Path | None = None,
    ) -> ModelParts:
        """The kernels of the model, of which each says which marked entry it was served from, with
        ATC's ``options``. Raises ``NotConverted`` if the conversion fails, and ``NotDecidable`` if
        there is no kernel in what it delivers."""
        cache, self._made = self._cache, self._made + 1
        place = cache.sandbox / f"model{self._made}"
        place.mkdir()
        path = place / "chain.onnx"
        _write(path, model)
        request = ConvertRequest(
            options={
                "model": str(path),
                "framework": "5",
                "soc_version": cache.options.soc,
                **(options or {}),
            },
            cache_mode=mode.value,
            cache_dir=root or cache.root,
            output=place / "out" / "model",
            work=cache.work,
            home=cache.home,
        )
        marks: Mapping[str, Any] = {}
        if root is None:
            cache.mark()
            marks = cache.known_state()[0]
        (result,) = cache.toolchain.converted([request])
        if not result.succeeded or result.model is None:
            raise NotConverted(f"the model is not converted: {result.missing or result.ending}")
        parts = take_apart(result.model, marks)
        if not parts.kernels:
            raise NotDecidable("no kernel was found in the model")
        return parts

    def fresh(
        self, options: Mapping[str, str], model: SmallModel = PLAIN, again: bool = False
    ) -> Digests:
        """Digests and sizes of kernels converted with an empty cache, once or ``again``."""
        key = str((model, sorted(options.items())))
        if again or key not in self._fresh:
            root = self._cache.sandbox / f"fresh{self._made}"
            self._fresh[key] = self.convert(options, model=model, root=root).digests
        return self._fresh[key]

    def file(self, name: str, content: str) -> str:
        path = self._cache.sandbox / name
        path.write_text(content, encoding="utf-8")
        return str(path)


def _write(path: Path, model: SmallModel) -> None:
    """Write the model; its outputs are what no node takes."""
    import numpy
    import onnx
    from onnx import helper, numpy_helper

    nodes, kind = model.nodes, model.element
    element = helper.np_dtype_to_tensor_dtype(numpy.dtype(kind))
    taken = {name for each in nodes for name in each.inputs}
    weights = {
        "w": numpy.linspace(-1, 1, 256, dtype=kind).reshape(16, 16),
        "b": numpy.linspace(0.5, 2, math.prod(model.bias), dtype=kind).reshape(model.bias),
    }
    graph = helper.make_graph(
        [
            helper.make_node(each.type, each.inputs, [each.name], each.name, **each.attributes)
            for each in nodes
        ],
        "ascendcache",
        [helper.make_tensor_value_info("x", element, (model.rows, 16))],
        [
            helper.make_tensor_value_info(name, element, (model.rows, 16))
            for name in (each.name for each in nodes)
            if name not in taken
        ],
        [numpy_helper.from_array(each, name) for name, each in weights.items() if name in taken],
    )
    opsets = [helper.make_opsetid("", _OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION), str(path))
