"""Carries out ``--model``: reads and fuses the graph, serves or compiles its operators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.compiler import Compiler
from pytest_ascendcache.reference.debug import DebugFile
from pytest_ascendcache.reference.errors import as_invalid_path
from pytest_ascendcache.reference.kernels import KernelError, implementations
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.model.container import CompiledKernel, CompiledModel
from pytest_ascendcache.reference.model.fusion import Allows, switched_off
from pytest_ascendcache.reference.model.graph import Graph
from pytest_ascendcache.reference.model.importing import Importer
from pytest_ascendcache.reference.model.mapping import MAPPED
from pytest_ascendcache.reference.model.precision import in_half_precision
from pytest_ascendcache.reference.model.reading import read_model
from pytest_ascendcache.reference.options import AtcOptions
from pytest_ascendcache.reference.policies import Policies


def convert(policies: Policies, options: AtcOptions, environ: Mapping[str, str], log: Log) -> Path:
    """Carry out a command line with ``--model``; returns the path of the ``.om`` file.

    Raises ``AtcError`` for the first thing that cannot be done. Then no file is written.
    """
    model = options.model
    assert model is not None
    off = switched_off(options.fusion_switch)
    graph = Importer(read_model(model, options.input_shape), model.stem, MAPPED).graph()
    if options.half_precision:
        graph = in_half_precision(graph)
    compiler = Compiler(policies, options, environ, log)
    path = options.output.with_name(f"{options.output.name}.om")
    config, cache = compiler.open(path.parent)
    fused = policies.fusion.fuse(graph, _allows(policies, compiler, config), off)
    converted = _compiled(compiler, fused, config, cache, options)
    with as_invalid_path(path, "--output"):
        policies.outputs.deliver_model(path, converted)
    return path


def _allows(policies: Policies, compiler: Compiler, config: DebugFile | None) -> Allows:
    """Keeps apart what a debug list or a precision file names, and different implementations."""

    def is_named(operator: OperatorSpec) -> bool:
        if config is None or config.listed is None:
            return compiler.is_named(operator)
        return compiler.is_named(operator) or policies.debug.covers(operator, config)

    def allows(operators: tuple[OperatorSpec, ...]) -> bool:
        modes = {compiler.implementation(each) for each in operators if _has_two(each)}
        return len(modes) < 2 and not any(map(is_named, operators))

    return allows


def _has_two(operator: OperatorSpec) -> bool:
    try:
        return len(implementations(operator)) > 1
    except KernelError:
        return False


def _compiled(
    compiler: Compiler,
    graph: Graph,
    config: DebugFile | None,
    cache: Path | None,
    options: AtcOptions,
) -> CompiledModel:
    kernels: dict[str, CompiledKernel] = {}
    order: list[str] = []
    for node in graph.nodes:
        made = compiler.compiled(node.operator, config, cache)
        name = made.metadata["binFileName"]
        if name in kernels and kernels[name].object != made.object:
            name += f"_{len(order)}"  # one of two equal nodes is debugged, the other was served
        kernels.setdefault(name, CompiledKernel(made.symbol, made.object, made.metadata))
        order.append(name)
    return CompiledModel(graph, options.soc_version, kernels, tuple(order))
