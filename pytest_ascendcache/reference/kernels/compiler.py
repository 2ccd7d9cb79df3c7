"""Compiles an operator to a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from pytest_ascendcache.operators.spec import OperatorSpec
from pytest_ascendcache.reference.kernels import objects
from pytest_ascendcache.reference.kernels.c_text import CText, SourceLocation, print_c
from pytest_ascendcache.reference.kernels.errors import KernelError, UnsupportedOperator
from pytest_ascendcache.reference.kernels.llvm_ir import print_llvm
from pytest_ascendcache.reference.kernels.operator import KernelContext
from pytest_ascendcache.reference.kernels.registry import definition
from pytest_ascendcache.reference.kernels.trace import Trace

_MOST_ELEMENTS = 2**36
"""The most elements that a tensor may have: 64 Gi, more than the memory of a card holds."""


class Implementation(str, Enum):
    """Which of an operator type's implementations is compiled."""

    HIGH_PRECISION = "high_precision"
    HIGH_PERFORMANCE = "high_performance"


@dataclass(frozen=True)
class KernelOptions:
    """Everything besides the operator that decides a kernel's bytes.

    * ``soc`` decides the pinned CPU and is recorded in the object's ``.comment`` section.
    * ``architecture`` is ``x86_64``, ``aarch64``, or "" for this machine's.
    * ``implementation`` matters only if :func:`implementations` returns two.
    * ``optimise`` keeps values in registers; without it the code is O0. Results have the same
      bits.
    * ``debug_info`` adds a DWARF line table that points at ``<symbol>.cce``.
    * ``check_arguments`` makes the kernel return 1 for a null or misaligned pointer, before it
      touches any element.
    * ``tuning`` comes from a knowledge base: ``tile`` is the block size of outermost loops. It
      never changes results.
    """

    soc: str
    architecture: str = ""
    implementation: Implementation = Implementation.HIGH_PRECISION
    optimise: bool = True
    debug_info: bool = False
    check_arguments: bool = False
    tuning: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A compiled operator.

    ``object`` is a relocatable ELF object that defines ``int symbol(void **in_out)`` and needs no
    other symbol. ``in_out`` holds the addresses of the connected inputs, then of the outputs; the
    function returns 0 for success. ``printed`` returns the same kernel as C.
    """

    symbol: str
    object: bytes
    printed: Callable[[], CText] = field(repr=False, compare=False)

    @property
    def source(self) -> str:
        """The kernel as C."""
        return self.printed().text

    @property
    def locations(self) -> tuple[SourceLocation, ...]:
        """The Python line that each line of ``source`` comes from."""
        return self.printed().locations


def build(spec: OperatorSpec, symbol: str, options: KernelOptions) -> Kernel:
    """Compile an operator. The bytes depend only on the arguments and the compiler version.

    ``symbol`` names the function and, in debug information, the file ``<symbol>.cce``.

    Raises:
        UnsupportedOperator: an unknown type or data type, a dynamic or inconsistent shape, or a
            missing or bad attribute.
        UnsupportedSoc: an unknown SoC or architecture.
        KernelError: ``symbol`` is not a C identifier.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", symbol, re.ASCII):
        raise KernelError(f"symbol {symbol!r} is not a C identifier; use letters, digits and _.")
    soc = objects.soc(options.soc)
    architecture = objects.resolve_architecture(options.architecture)
    implementation, trace = _traced(spec, options)
    outputs = ", ".join(f"{each.dtype}{list(each.shape)}" for each in spec.outputs)
    title = f"{spec} -> {outputs}, {implementation.value}"
    printed = cache(lambda: print_c(trace, symbol, title))
    module = print_llvm(
        trace,
        symbol,
        objects.triple(architecture),
        f"pytest-ascendcache kernels, {soc.name}",
        printed().function_line if options.debug_info else None,
    )
    code = objects.emit_object(module, architecture, soc.cpus[architecture], options.optimise)
    return Kernel(symbol, code, printed)


def check(spec: OperatorSpec, options: KernelOptions) -> None:
    """Check that an operator can be compiled, at a fraction of the cost of compiling it.

    Raises ``KernelError`` like :func:`build`.
    """
    objects.soc(options.soc)
    _traced(spec, options)


def _traced(spec: OperatorSpec, options: KernelOptions) -> tuple[Implementation, Trace]:
    implementation = options.implementation
    if implementation not in implementations(spec):
        implementation = Implementation.HIGH_PRECISION
    for tensor in (*spec.inputs, *spec.outputs):
        if tensor.is_static and not tensor.is_absent and tensor.elements > _MOST_ELEMENTS:
            raise UnsupportedOperator(
                f"{spec.type}: a tensor of shape {list(tensor.shape)} has "
                f"{tensor.elements} elements, which no card's memory holds; give "
                f"{_MOST_ELEMENTS} at most."
            )
    known = definition(spec.type)
    trace = Trace(known.trace, options.tuning.get("tile", 0))
    precise = implementation is Implementation.HIGH_PRECISION
    known.trace(KernelContext(known, spec, trace, precise, options.check_arguments))
    return implementation, trace


def implementations(spec: OperatorSpec) -> tuple[Implementation, ...]:
    """The different implementations of an operator, the default one first.

    There are two if CANN's ``all_ops_impl_mode.ini`` lists both for the type and an input is
    float16. Otherwise both modes give the same kernel.
    """
    half = any(each.dtype.name == "float16" for each in spec.inputs)
    if definition(spec.type).two_implementations and half:
        return (Implementation.HIGH_PRECISION, Implementation.HIGH_PERFORMANCE)
    return (Implementation.HIGH_PRECISION,)
