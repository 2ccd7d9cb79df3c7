"""The ``.info`` file of a kernel. Its content alone decides whether the kernel is reused.

Source: document M (``.info`` records everything about the operator: name, attributes, formats and
data types of inputs and outputs, ...; it is used to find the ``.o`` and to decide whether that is
reusable; caches of different scenarios cannot be shared).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.cache.entry import EntryFiles
from pytest_ascendcache.reference.cache.fs import Fs


class NetworkPhase(str, Enum):
    """Whether a network is run for training or for inference."""

    TRAINING = "training"
    INFERENCE = "inference"


@dataclass(frozen=True)
class KernelScenario:
    """The scenario of a run: one card or several, training or inference.

    Kernels of different scenarios are not shared.
    """

    several_cards: bool
    phase: NetworkPhase


@dataclass(frozen=True)
class InfoInputs:
    """Everything that decides a kernel. ``target`` is the SoC, architecture and compiler;
    ``versions`` are those of the installation."""

    operator: OperatorSpec
    scenario: KernelScenario
    device: int
    target: dict[str, str]
    versions: str


class InfoPolicy:
    """Decides what ``.info`` records about a kernel, and when a record matches a request."""

    def fields(self, inputs: InfoInputs) -> dict[str, Any]:
        """The content of ``.info`` without the kernel's name."""
        operator = inputs.operator
        return {
            "op_name": operator.type,
            "attrs": self.attributes(operator),
            "inputs": [self.tensor(each) for each in operator.inputs],
            "outputs": [self.tensor(each) for each in operator.outputs],
            "scenario": self.scenario(inputs.scenario),
            "device_id": inputs.device,
            "target": inputs.target,
            "versions": inputs.versions,
        }

    def attributes(self, operator: OperatorSpec) -> list[Any]:
        """The attributes sorted by name, so that their order in the network does not matter."""
        return [
            {"name": each.name, "type": each.type, "value": each.value}
            for each in sorted(operator.attributes, key=lambda each: each.name)
        ]

    def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
        """The fields of a tensor that decide the kernel. Its name does not."""
        return {
            "dtype": tensor.dtype.name,
            "format": tensor.format,
            "shape": tensor.shape,
            "origin_format": tensor.origin_format,
            "origin_shape": tensor.origin_shape,
            "const_value": tensor.const_value if tensor.is_const else None,
        }

    def scenario(self, scenario: KernelScenario) -> dict[str, str]:
        """The scenario as it is recorded."""
        return {
            "cards": "several" if scenario.several_cards else "one",
            "phase": scenario.phase.value,
        }

    def stem(self, inputs: InfoInputs) -> str:
        """The file name without suffix: ``<operator>_<64-bit hash>_<device>``, as in MindSpore.

        The hash does not depend on the card, so that ranks can be compared.
        """
        hashed = {key: value for key, value in self.fields(inputs).items() if key != "device_id"}
        text = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return f"{_plain(inputs.operator.type)}_{number}_{inputs.device}"

    def text(self, inputs: InfoInputs) -> bytes:
        """The content of the ``.info`` file."""
        content = {"kernel_name": self.stem(inputs), **self.fields(inputs)}
        return json.dumps(content, indent=4, sort_keys=True).encode()

    def allows_reuse(self, fs: Fs, entry: EntryFiles, inputs: InfoInputs) -> bool:
        """Whether the entry's ``.info`` records exactly the requested kernel."""
        try:
            found = json.loads(fs.read("meta.lookup.info", info_path(entry)))
        except (OSError, ValueError, RecursionError):
            return False
        return self.matches(found, json.loads(self.text(inputs)))

    def matches(self, found: Any, wanted: Any) -> bool:
        """Whether a record equals the one that this request would write."""
        return bool(found == wanted)


def info_path(entry: EntryFiles) -> Path:
    return entry.directory / f"{entry.stem}.info"


def _plain(operator_type: str) -> str:
    """An operator type as part of a file name: at most 64 safe characters, in lower case."""
    kept = "".join(each if each.isascii() and each.isalnum() else "_" for each in operator_type)
    return kept.lower()[:64]
