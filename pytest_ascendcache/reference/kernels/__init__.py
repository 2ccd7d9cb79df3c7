"""The reference toolchain's kernel compiler: it turns an operator into an ELF object and C text.

Operator definitions (``elementwise``, ``reductions``, ``normalisation``, ``matrix``, ``images``,
``movement``, ``comparison``, ``transformer``, ``attention``, ``fused``) are traced
into rows (``trace``), which are printed as C (``c_text``) and as LLVM IR (``llvm_ir``) and compiled
by llvmlite (``objects``). ``execute`` runs kernels. It is not imported here, because it needs numpy
and belongs in a throw-away process.
"""

from pytest_ascendcache.reference.kernels import (  # noqa: F401  (fills the registry)
    attention,
    comparison,
    elementwise,
    fused,
    images,
    matrix,
    movement,
    normalisation,
    reductions,
    transformer,
)
from pytest_ascendcache.reference.kernels.compiler import (
    Implementation,
    Kernel,
    KernelOptions,
    build,
    check,
    implementations,
)
from pytest_ascendcache.reference.kernels.errors import (
    KernelError,
    UnsupportedOperator,
    UnsupportedSoc,
)
from pytest_ascendcache.reference.kernels.fused import fused_parts, fused_type
from pytest_ascendcache.reference.kernels.objects import SOCS, compiler_version
from pytest_ascendcache.reference.kernels.registry import operator_types

__all__ = [
    "SOCS",
    "Implementation",
    "Kernel",
    "KernelError",
    "KernelOptions",
    "UnsupportedOperator",
    "UnsupportedSoc",
    "build",
    "check",
    "compiler_version",
    "fused_parts",
    "fused_type",
    "implementations",
    "operator_types",
]
