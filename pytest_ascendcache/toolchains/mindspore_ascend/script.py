"""Generates the script that a user of MindSpore 1.x would write for a network.

Source: document M, the listing of ``test_square.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.ranks import Phase
from pytest_ascendcache.operators.evaluation import network_constants
from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.processes.launch import ToolchainError
from pytest_ascendcache.toolchains.mindspore.script import input_names
from pytest_ascendcache.toolchains.training import TrainRequest

_PRIMITIVES = {
    "Abs": "ops.Abs()",
    "Add": "ops.Add()",
    "Exp": "ops.Exp()",
    "LeakyRelu": "own.LeakyRelu({negative_slope})",
    "MatMul": "ops.MatMul({transpose_x1}, {transpose_x2})",
    "Maximum": "ops.Maximum()",
    "Minimum": "ops.Minimum()",
    "Mul": "ops.Mul()",
    "Neg": "ops.Neg()",
    "RealDiv": "ops.RealDiv()",
    "ReduceSum": "ops.ReduceSum({keep_dims})",
    "Relu": "ops.ReLU()",
    "Sigmoid": "ops.Sigmoid()",
    "Sqrt": "ops.Sqrt()",
    "Square": "ops.Square()",
    "Sub": "ops.Sub()",
    "Swish": "own.Swish({scale})",
    "Tanh": "ops.Tanh()",
}
_DEFAULTS: dict[str, Any] = {
    "keep_dims": False,
    "negative_slope": 0.0,
    "scale": 1.0,
    "transpose_x1": False,
    "transpose_x2": False,
}
"""Values of attributes that a network leaves out."""

_SCRIPT = """\
import json
import os
import sys

import ascendcache_operators as own
import numpy as np
from mindspore import Tensor, context, nn, ops


class Network(nn.Cell):
    def __init__(self):
        super(Network, self).__init__()
{cells}

    def construct(self, {inputs}):
{body}
        return {outputs}


def main(path):
    with open(path) as file:
        settings = json.load(file)
    mode = context.PYNATIVE_MODE if settings["pynative"] else context.GRAPH_MODE
    context.set_context(mode=mode, device_target="Ascend", **settings["context"])
    if os.environ.get("DEVICE_ID"):
        context.set_context(device_id=int(os.environ["DEVICE_ID"]))
    data = np.load(settings["data"])
    network = Network()
    network.set_train(settings["training"])
    outputs = network(*(Tensor(data[name]) for name in settings["inputs"]))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    results = dict(zip(settings["outputs"], (each.asnumpy() for each in outputs)))
    part = settings["results"] + ".part.npz"
    np.savez(part, **results)
    os.replace(part, settings["results"])
    if settings["leaves"]:
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
"""


def write_script(request: TrainRequest, leaves: bool) -> Path:
    """Write the script of a request, its data and its settings. Returns the settings file.

    With ``leaves`` the process ends as soon as it has written its outputs. Raises
    ``ToolchainError`` for a network that MindSpore 1.x cannot express.
    """
    import numpy

    network = request.network
    inputs = [name for name in input_names(network) if not network.tensors[name].is_const]
    constants: Any = network_constants(network)
    data = request.directory / "data.npz"
    numpy.savez(data, **{name: constants[name] for name in inputs})
    (request.directory / "network.py").write_text(_text(network, inputs), encoding="utf-8")
    settings = {
        "context": {},
        "data": str(data),
        "inputs": inputs,
        "leaves": leaves,
        "outputs": list(network.outputs),
        "pynative": request.script.jit_level == PYNATIVE,
        "results": str(request.directory / "outputs.npz"),
        "training": request.phase is not Phase.INFERENCE,
    }
    path = request.directory / "settings.json"
    path.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return path


PYNATIVE = "pynative"
"""The ``Script.jit_level`` of a script in PyNative mode."""


def _text(network: Network, inputs: Sequence[str]) -> str:
    """One network as a class. Tensors are numbered, so that their names play no part."""
    tensors = {each: f"t{number}" for number, each in enumerate(network.tensors)}
    cells = [
        f"        self.operator{number} = {_primitive(network, node)}"
        for number, node in enumerate(network.nodes)
    ]
    body = [f"        {_call(network, node, tensors)}" for node in network.in_order]
    return _SCRIPT.format(
        cells="\n".join(cells),
        inputs=", ".join(tensors[each] for each in inputs),
        body="\n".join(body),
        outputs=", ".join(tensors[each] for each in network.outputs),
    )


def _primitive(network: Network, node: Node) -> str:
    kind = node.operator.type
    if kind not in _PRIMITIVES or len(node.outputs) != 1:
        known = ", ".join(sorted(_PRIMITIVES))
        raise ToolchainError(f"mindspore-ascend: operator type {kind} is not known; use {known}")
    for name in (*node.inputs, *node.outputs):
        if network.tensors[name].format != "ND":
            raise ToolchainError(
                f"mindspore-ascend: a script cannot ask for format {network.tensors[name].format}; "
                "MindSpore chooses formats itself"
            )
    given = {each.name: each.value for each in node.operator.attributes}
    return _PRIMITIVES[kind].format(**{**_DEFAULTS, **given})


def _call(network: Network, node: Node, tensors: Mapping[str, str]) -> str:
    arguments = [
        repr(tuple(map(int, network.tensors[name].const_value)))
        if network.tensors[name].is_const
        else tensors[name]
        for name in node.inputs
    ]
    number = network.nodes.index(node)
    return f"{tensors[node.outputs[0]]} = self.operator{number}({', '.join(arguments)})"
