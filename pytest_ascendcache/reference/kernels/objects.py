"""Compiles LLVM IR text to ELF objects for the target machines.

The CPU is pinned per SoC and architecture. The host's CPU does not matter, because the same
request must give the same bytes on every machine.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from pytest_ascendcache.reference.installation import installed_compiler
from pytest_ascendcache.reference.kernels.errors import KernelError, UnsupportedSoc


@dataclass(frozen=True)
class Soc:
    """A SoC name and LLVM's name of the CPU its kernels are compiled for, per architecture."""

    name: str
    cpus: Mapping[str, str]


def _family(x86_64: str, aarch64: str, *names: str) -> dict[str, Soc]:
    cpus = MappingProxyType({"x86_64": x86_64, "aarch64": aarch64})
    return {name: Soc(name, cpus) for name in names}


SOCS: Mapping[str, Soc] = MappingProxyType(
    {
        **_family("x86-64", "generic", "Ascend310", "Ascend610"),
        **_family("x86-64", "generic", *(f"Ascend310P{number}" for number in (1, 2, 3, 4, 5, 7))),
        **_family("x86-64", "cortex-a72", *(f"Ascend310B{number}" for number in (1, 2, 3, 4))),
        **_family(
            "x86-64",
            "cortex-a72",
            *("Ascend910", "Ascend910A", "Ascend910B"),
            *("Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"),
        ),
        **_family(
            "x86-64-v2",
            "tsv110",
            *(f"Ascend910B{number}" for number in (1, 2, 3, 4)),
            *("Ascend910B2C", "Ascend910B4-1"),
            *(f"Ascend910_{number}" for number in (9361, 9362, 9372, 9381, 9382, 9391, 9392)),
        ),
    }
)
"""SoC names as CANN's ``soc_version`` spells them."""

ARCHITECTURES = ("x86_64", "aarch64")
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def soc(name: str) -> Soc:
    """The entry of :data:`SOCS`. Raises ``UnsupportedSoc`` if the table has no such name."""
    if name not in SOCS:
        raise UnsupportedSoc(
            f"SoC {name!r} (soc_version) is not known to the reference toolchain; "
            f"use one of {', '.join(SOCS)}."
        )
    return SOCS[name]


def machine_architecture() -> str:
    """This machine's architecture as LLVM spells it."""
    machine = platform.machine().lower()
    return _ALIASES.get(machine, machine)


def resolve_architecture(name: str) -> str:
    """The architecture called ``name``, which may be an alias; "" is this machine's."""
    resolved = _ALIASES.get(name, name) or machine_architecture()
    if resolved not in ARCHITECTURES:
        raise UnsupportedSoc(
            f"architecture {resolved!r} (option architecture) has no kernels; "
            f"use {' or '.join(ARCHITECTURES)}."
        )
    return resolved


def triple(architecture: str) -> str:
    """LLVM's target triple."""
    return f"{architecture}-unknown-linux-gnu"


def compiler_version() -> str:
    """The versions that decide the bytes, e.g. ``LLVM 22.1.0, llvmlite 0.50.0``, and that of the
    toolkit's compiler, if it has one. Read again in every process."""
    compiler = installed_compiler(os.environ)
    return ", ".join(filter(None, (_llvm(), compiler and f"compiler {compiler}")))


@cache
def _llvm() -> str:
    import llvmlite
    from llvmlite import binding

    llvm = ".".join(map(str, binding.llvm_version_info))
    return f"LLVM {llvm}, llvmlite {llvmlite.__version__}"


@cache
def _initialise(foreign: bool) -> None:
    """llvmlite >= 0.45 initialises LLVM itself, but registers no targets."""
    from llvmlite import binding

    if foreign:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    else:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()


@cache
def _target_machine(architecture: str, cpu: str) -> Any:
    from llvmlite import binding

    _initialise(architecture != machine_architecture())
    return binding.Target.from_triple(triple(architecture)).create_target_machine(
        cpu=cpu, opt=0, reloc="pic", codemodel="small"
    )


def emit_object(text: str, architecture: str, cpu: str, optimise: bool) -> bytes:
    """Compile a module to a relocatable ELF object."""
    from llvmlite import binding

    machine = _target_machine(architecture, cpu)
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise KernelError(f"LLVM refuses the kernel's code: {error}") from error
    if optimise:
        _optimise(module, machine)
    return bytes(machine.emit_object(module))


def _optimise(module: Any, machine: Any) -> None:
    """Keep values in registers. All of O2 would make a compile three times as long, for loops that
    run once."""
    from llvmlite import binding

    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_unroll_pass()  # unrolls nothing, but brings loops into their canonical form
    passes.run(
        module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options())
    )
