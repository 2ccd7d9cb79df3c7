"""A stand-in for the part of ``torch_npu`` that TorchAir's Python needs to run on a CPU.

``ASCENDCACHE_TORCH_NPU`` names the directory with the unpacked wheel. Only ``torch_npu/dynamo`` of
the wheel is used, unmodified: TorchAir and npugraph_ex.
"""

import os
import sys
import types
from pathlib import Path

import torch

from torch_npu import _C, native, npu

_WHEEL = Path(os.environ["ASCENDCACHE_TORCH_NPU"])
_DYNAMO = _WHEEL / "torch_npu/dynamo"

torch.npu = npu
torch.Tensor.is_npu = property(lambda self: False)
sys.modules["torch.npu"] = npu
sys.path.append(str(_DYNAMO))
for package in ("torchair", "npugraph_ex"):
    # Imported before TorchAir's own shared object, which needs CANN's.
    sys.modules[f"{package}.core._torchair"] = native
    sys.modules[f"{package}.core._npu_utils"] = native


def without_compiler():
    """Make single files of TorchAir importable without the whole package."""
    for name in ("torchair", "torchair.core", "torchair._utils", "torchair._acl_concrete_graph"):
        package = sys.modules.setdefault(name, types.ModuleType(name))
        package.__path__ = [str(_DYNAMO / name.replace(".", "/"))]
    unused = types.ModuleType("torchair._ge_concrete_graph.utils")
    unused._get_input_shape = unused._get_output_shapes = None
    dynamo = types.ModuleType("torch._dynamo")
    dynamo.reset = lambda: None
    dynamo.disable = lambda function, *_, **__: function
    for module in (unused, dynamo, types.ModuleType("torchair._ge_concrete_graph")):
        sys.modules.setdefault(module.__name__, module)
    torch._dynamo = sys.modules["torch._dynamo"]


def get_npu_format(tensor):
    """Return ND, the format of every tensor."""
    return 2


__all__ = ["_C", "get_npu_format", "npu", "without_compiler"]
