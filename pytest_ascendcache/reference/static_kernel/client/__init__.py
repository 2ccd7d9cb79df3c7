"""The client of static kernels, with the document's interface.

::

    from pytest_ascendcache.reference.static_kernel import client as torchair

    config = torchair.CompilerConfig()
    config.mode = "reduce-overhead"
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = "/path/test"
    npu_backend = torchair.get_npu_backend(compiler_config=config)
    opt_model = torchair.compile(model, backend=npu_backend)
    outputs = opt_model()

A model is a :class:`~pytest_ascendcache.operators.network.Network` or the path of a network file.
Its first call compiles and installs its static kernels, which are uninstalled when the process
ends. Source: document K.
"""

from pytest_ascendcache.reference.static_kernel.client.api import (
    CompiledModel,
    NpuBackend,
    compile,
    get_npu_backend,
    profile,
)
from pytest_ascendcache.reference.static_kernel.client.config import CompilerConfig
from pytest_ascendcache.reference.static_kernel.client.errors import CardsError, StaticKernelError

__all__ = [
    "CardsError",
    "CompiledModel",
    "CompilerConfig",
    "NpuBackend",
    "StaticKernelError",
    "compile",
    "get_npu_backend",
    "profile",
]
