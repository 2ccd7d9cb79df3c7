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
from pytest_ascendcache.reference.kernels.compiler import Implementation as Implementation
from pytest_ascendcache.reference.kernels.compiler import Kernel as Kernel
from pytest_ascendcache.reference.kernels.compiler import KernelOptions as KernelOptions
from pytest_ascendcache.reference.kernels.compiler import build as build
from pytest_ascendcache.reference.kernels.compiler import check as check
from pytest_ascendcache.reference.kernels.compiler import implementations as implementations
from pytest_ascendcache.reference.kernels.errors import KernelError as KernelError
from pytest_ascendcache.reference.kernels.errors import UnsupportedOperator as UnsupportedOperator
from pytest_ascendcache.reference.kernels.errors import UnsupportedSoc as UnsupportedSoc
from pytest_ascendcache.reference.kernels.fused import fused_parts as fused_parts
from pytest_ascendcache.reference.kernels.fused import fused_type as fused_type
from pytest_ascendcache.reference.kernels.objects import SOCS as SOCS
from pytest_ascendcache.reference.kernels.objects import compiler_version as compiler_version
from pytest_ascendcache.reference.kernels.registry import operator_types as operator_types
