"""Generates the script a MindSpore user would write for a network.

The operators and their connections are the script's text. Attributes, shapes, types and data come
from a file next to it, as hyperparameters come from a configuration file. The difference matters to
a cache whose key is the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators.evaluation import network_constants
from pytest_ascendcache.operators.network import Network, Node
from pytest_ascendcache.processes.launch import ToolchainError
from pytest_ascendcache.toolchains.training import Script

SUM = "reduced"
"""The name of the output with the sum of all ranks' first outputs."""

_EXPRESSIONS = {
    "Abs": "ops.abs({0})",
    "Add": "{0} + {1}",
    "Exp": "ops.exp({0})",
    "Maximum": "ops.maximum({0}, {1})",
    "Minimum": "ops.minimum({0}, {1})",
    "Mul": "{0} * {1}",
    "Neg": "ops.neg({0})",
    "RealDiv": "{0} / {1}",
    "Relu": "ops.relu({0})",
    "Sigmoid": "ops.sigmoid({0})",
    "Sqrt": "ops.sqrt({0})",
    "Square": "ops.square({0})",
    "Sub": "{0} - {1}",
    "Tanh": "ops.tanh({0})",
}
_CELLS = {"LeakyRelu": 'nn.LeakyReLU(attributes[{0}].get("negative_slope", 0.0))'}
"""Operators that are objects, created with the attributes from the settings."""

_IMPORTS = "import mindspore as ms\nfrom mindspore import Tensor, nn, ops\n"

_CLASS = """\
class {name}(nn.Cell):
    def __init__(self, attributes):
        super().__init__()
{cells}

    def construct(self, {inputs}):
{body}
        return {outputs}
"""

_MAIN = """\
def hold(directory):
    if directory is None:
        return
    with open(os.path.join(directory, "pid"), "w") as file:
        file.write(str(os.getpid()))
    with open(os.path.join(directory, "reached"), "w") as file:
        file.write("x")
    with open(os.path.join(directory, "go"), "rb", buffering=0) as file:
        file.read(1)


def main(path):
    with open(path) as file:
        settings = json.load(file)
    ms.set_context(
        mode=ms.GRAPH_MODE,
        device_target="CPU",
        enable_graph_kernel=settings["graph_kernel"],
        **settings["context"],
    )
    rank = 0
    if settings["gang"]:
        from mindspore.communication import get_rank, init

        init()
        rank = get_rank()
    os.environ.update(settings["of_rank"].get(str(rank), {{}}))
    gate = settings["held"].get(str(rank))
    hold(None if settings["held_late"] else gate)
{late}    classes = [{classes}]
    results = {{}}
    for turn, number in enumerate(settings["order"], 1):
        if turn == len(settings["order"]):
            os.environ.update(settings["later"])
            hold(gate if settings["held_late"] else None)
        network = settings["networks"][number]
        data = np.load(network["data"])
        tensors = [Tensor(data[name]) for name in network["inputs"]]
        cell = classes[number](network["attributes"])
        if settings["training"]:
            cell.set_train()
        outputs = cell(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results = dict(zip(network["outputs"], (each.asnumpy() for each in outputs)))
    if settings["training"]:
        return
    place = settings["results"].replace("RANK", str(rank))
    np.savez(place + ".part.npz", **results)
    os.replace(place + ".part.npz", place)


if __name__ == "__main__":
    main(sys.argv[1])
"""


def network_script(
    networks: Sequence[Network], style: Script, gang: bool = False
) -> dict[str, str]:
    """The files of a script by name. ``network.py`` is the one to start. The ranks of a ``gang``
    add up the first output of each network with ``AllReduce``. Raises ``ToolchainError`` for an
    operator type that has no expression here."""
    names = [f"Network{number}" for number in range(len(networks))]
    code = "\n\n".join(
        _cell(name, each, gang, style.dropout) for name, each in zip(names, networks, strict=True)
    )
    late = f"    from blocks import {', '.join(names)}\n" if style.late_import else ""
    main = _MAIN.format(late=late, classes=", ".join(names))
    head = "import json\nimport os\nimport sys\n\nimport numpy as np\n"
    if not (style.module or style.late_import):
        return {"network.py": f"{head}{_IMPORTS}\n\n\n{code}\n\n{main}"}
    early = f"from blocks import {', '.join(names)}\n" if style.module else ""
    return {
        "network.py": f"{head}{_IMPORTS}{early}\n\n{main}",
        "blocks.py": f"{_IMPORTS}\n\n\n{code}",
    }


def _cell(name: str, network: Network, gang: bool, dropout: bool) -> str:
    """One network as a class. Tensors are numbered, so that their names do not influence the cache
    key."""
    tensors = {each: f"t{number}" for number, each in enumerate(network.tensors)}
    cells = [
        f"        self.operator{number} = {_CELLS[node.operator.type].format(number)}"
        for number, node in enumerate(network.nodes)
        if node.operator.type in _CELLS
    ]
    outputs = [tensors[each] for each in network.outputs]
    if gang:
        cells.append("        self.reduce = ops.AllReduce()")
        outputs.append(f"self.reduce({outputs[0]})")
    body = [
        f"        {tensors[node.outputs[0]]} = {_expression(network, node, tensors)}"
        for node in network.in_order
    ]
    if dropout:
        cells.append("        self.dropout = nn.Dropout(p=0.5)")
        first = tensors[input_names(network)[0]]
        body.insert(0, f"        {first} = self.dropout({first})")
    return _CLASS.format(
        name=name,
        cells="\n".join(cells) or "        pass",
        inputs=", ".join(tensors[each] for each in input_names(network)),
        body="\n".join(body),
        outputs=", ".join(outputs),
    )


def _expression(network: Network, node: Node, tensors: dict[str, str]) -> str:
    inputs = [tensors[each] for each in node.inputs]
    kind = node.operator.type
    if kind in _CELLS:
        return f"self.operator{network.nodes.index(node)}({inputs[0]})"
    if kind not in _EXPRESSIONS or len(node.outputs) != 1:
        known = ", ".join(sorted({*_EXPRESSIONS, *_CELLS}))
        raise ToolchainError(
            f"the operator type {kind} is not known to the MindSpore toolchains; use {known}."
        )
    return _EXPRESSIONS[kind].format(*inputs)


def input_names(network: Network) -> list[str]:
    """The tensors that no operator produces: the arguments of ``construct``."""
    produced = {name for node in network.nodes for name in node.outputs}
    return [name for name in network.tensors if name not in produced]


def network_settings(network: Network, data: Path, gang: bool = False) -> dict[str, Any]:
    """What the script reads about one network. The arrays are written to ``data``."""
    import numpy

    constants: Any = network_constants(network)
    numpy.savez(data, **{name: constants[name] for name in input_names(network)})
    return {
        "data": str(data),
        "inputs": input_names(network),
        "outputs": [*network.outputs, *([SUM] if gang else [])],
        "attributes": [
            {each.name: each.value for each in node.operator.attributes} for node in network.nodes
        ],
    }
