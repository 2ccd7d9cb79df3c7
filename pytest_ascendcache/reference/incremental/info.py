"""What ``.info`` says of a kernel. It alone decides whether the kernel can be used again.

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


class Phase(str, Enum):
    """What a network is run for."""

    TRAINING = "training"
    INFERENCE = "inference"


@dataclass(frozen=True)
class Scenario:
    """What separates caches beside the operator: one card or several, training or inference."""

    several_cards: bool
    phase: Phase


@dataclass(frozen=True)
class InfoInputs:
    """Everything a kernel is compiled from and for. ``target`` names machine and compiler."""

    operator: OperatorSpec
    scenario: Scenario
    device: int
    target: dict[str, str]


class InfoPolicy:
    """What is recorded of a kernel, and when a record matches a request."""

    def fields(self, inputs: InfoInputs) -> dict[str, Any]:
        """The content of ``.info``, but for the kernel's own name."""
        operator = inputs.operator
        return {
            "op_name": operator.type,
            "attrs": self.attributes(operator),
            "inputs": [self.tensor(each) for each in operator.inputs],
            "outputs": [self.tensor(each) for each in operator.outputs],
            "scenario": self.scenario(inputs.scenario),
            "device_id": inputs.device,
            "target": inputs.target,
        }

    def attributes(self, operator: OperatorSpec) -> list[Any]:
        """By name, so that their order in the network does not matter."""
        return [
            {"name": each.name, "type": each.type, "value": each.value}
            for each in sorted(operator.attributes, key=lambda each: each.name)
        ]

    def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
        """What of a tensor decides the kernel; its name does not."""
        return {
            "dtype": tensor.dtype.name,
            "format": tensor.format,
            "shape": tensor.shape,
            "origin_format": tensor.origin_format,
            "origin_shape": tensor.origin_shape,
            "const_value": tensor.const_value if tensor.is_const else None,
        }

    def scenario(self, scenario: Scenario) -> dict[str, str]:
        """What separates the caches of different scenarios."""
        return {
            "cards": "several" if scenario.several_cards else "one",
            "phase": scenario.phase.value,
        }

    def stem(self, inputs: InfoInputs) -> str:
        """File name without suffix: ``<operator>_<64-bit hash>_<device>``, as MindSpore's.

        The hash is the same on every card, so that ranks can be compared.
        """
        hashed = {key: value for key, value in self.fields(inputs).items() if key != "device_id"}
        text = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return f"{_plain(inputs.operator.type)}_{number}_{inputs.device}"

    def text(self, inputs: InfoInputs) -> bytes:
        """The file."""
        content = {"kernel_name": self.stem(inputs), **self.fields(inputs)}
        return json.dumps(content, indent=4, sort_keys=True).encode()

    def allows_reuse(self, fs: Fs, entry: EntryFiles, inputs: InfoInputs) -> bool:
        """Whether the ``.info`` at the entry's place records exactly what is asked for."""
        try:
            found = json.loads(fs.read("meta.lookup.info", info_path(entry)))
        except (OSError, ValueError, RecursionError):
            return False
        return self.matches(found, json.loads(self.text(inputs)))

    def matches(self, found: Any, wanted: Any) -> bool:
        """Whether a record is the one this request would write."""
        return bool(found == wanted)


def info_path(entry: EntryFiles) -> Path:
    """The ``.info`` file of an entry."""
    return entry.directory / f"{entry.stem}.info"


def _plain(operator_type: str) -> str:
    """An operator type as part of a file name, whatever a network file calls it."""
    kept = "".join(each if each.isascii() and each.isalnum() else "_" for each in operator_type)
    return kept.lower()[:64]
