"""Runs a kernel from its object.

Only for a process that may die: a damaged object ends it with a signal, and loaded code is never
unloaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from llvmlite import binding

from pytest_ascendcache.operators.spec import TensorDesc
from pytest_ascendcache.reference.kernels.errors import KernelError

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


class LoadedKernel:
    """A kernel in memory: ``int symbol(void **in_out)``, callable as long as this object lives.

    Raises ``KernelError`` if the object does not define ``symbol``.
    """

    def __init__(self, object: bytes, symbol: str) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(object))
        self._engine.finalize_object()
        address = self._engine.get_function_address(symbol)
        if not address:
            raise KernelError(f"the object defines no symbol {symbol!r}; ask for the kernel's own.")
        self._function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)

    def call(self, pointers: Sequence[int | None]) -> int:
        """Call the kernel with raw addresses; returns its status, 0 for success."""
        return int(self._function((ctypes.c_void_p * len(pointers))(*pointers)))

    def run(self, inputs: Sequence[Array], outputs: Sequence[TensorDesc]) -> list[Array]:
        """Compute the outputs.

        ``inputs`` has one array per connected input, in the operator's order and of its element
        type. Raises ``KernelError`` if numpy cannot hold an output, or the kernel returns non-zero.
        """
        arguments = [np.ascontiguousarray(each) for each in inputs]
        results: list[Array] = []
        for desc in outputs:
            if desc.dtype.numpy is None:
                raise KernelError(f"numpy cannot hold {desc.dtype}; use an element type it has.")
            results.append(np.zeros(desc.shape, desc.dtype.numpy))
        status = self.call([each.ctypes.data for each in (*arguments, *results)])
        if status:
            raise KernelError(f"the kernel returned {status} instead of 0; check its arguments.")
        return results
