"""The cache key: what two compiles must have in common to share an entry.

Source: document C ("same compile parameters and operator parameters"); facts
``cann-operator-cache`` sections 1.3 to 1.6.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.debug import DebugRequest


@dataclass(frozen=True)
class KeyInputs:
    """Everything that decides a kernel, except the knowledge base and operator sources.

    The document leaves those two out of the key: users run with ``force`` after changing them.
    """

    operator: OperatorSpec
    soc: str
    architecture: str
    compiler_version: str
    implementation: str
    debug: DebugRequest


class KeyPolicy:
    """Derives an entry's name from everything that decides its kernel.

    Names of operators and tensors do not.
    """

    def stem(self, inputs: KeyInputs) -> str:
        """The entry's file name without suffix: ``te_<optype>_<sha256 of the key>``."""
        text = json.dumps(self.fields(inputs), sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"te_{inputs.operator.type}_{digest}".lower().replace("-", "_")

    def fields(self, inputs: KeyInputs) -> dict[str, Any]:
        """The key as a JSON object."""
        operator = inputs.operator
        return {
            "type": operator.type,
            "fuzzy": operator.fuzzy,
            "inputs": [self.tensor(each) for each in operator.inputs],
            "outputs": [self.tensor(each) for each in operator.outputs],
            "attributes": self.attributes(operator),
            "soc": inputs.soc,
            "architecture": inputs.architecture,
            "compiler": inputs.compiler_version,
            "implementation": inputs.implementation,
            "debug": [inputs.debug.optimise, inputs.debug.debug_info, inputs.debug.check_arguments],
        }

    def attributes(self, operator: OperatorSpec) -> list[Any]:
        """The attributes sorted by name, so that their order in the file does not matter."""
        return sorted([each.name, each.type, each.value] for each in operator.attributes)

    def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
        """The fields of a tensor that decide the kernel. Its name does not."""
        return {
            "shape": tensor.shape,
            "dtype": tensor.dtype.name,
            "format": tensor.format,
            "origin_shape": tensor.origin_shape,
            "origin_format": tensor.origin_format,
            "shape_range": tensor.shape_range,
            "dynamic_input": tensor.dynamic_input,
            "is_const": tensor.is_const,
            "const_value": tensor.const_value,
        }
