"""Configuration as the document has it.

``config.mode``, ``config.experimental_config.aclgraph._aclnn_static_shape_kernel`` and
``..._aclnn_static_shape_kernel_build_dir``; the rest is this reference's own. Source: document K,
table 1; facts ``static-kernel`` section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

MAX_AUTOTUNE, REDUCE_OVERHEAD = MODES = ("max-autotune", "reduce-overhead")
"""Values of ``config.mode``, the default first."""

DOCUMENT, LATER = TREES = ("document", "later")
"""Values of ``output_tree``: the document's folder names, or those of later versions."""


class _Options:
    """Options that are checked when they are set: an unknown name, or a value of another type."""

    def __setattr__(self, name: str, value: object) -> None:
        known = {each.name: str(each.type) for each in fields(self)}  # type: ignore[arg-type]
        where = type(self).__name__
        if name not in known:
            raise AttributeError(f"{where} has no option {name!r}; there are {', '.join(known)}.")
        kinds = known[name].split(" | ")
        if type(value).__name__.replace("NoneType", "None") not in kinds:
            raise TypeError(
                f"{where}.{name} = {value!r}: that is a {type(value).__name__}; "
                f"give a {' or '.join(kinds)}."
            )
        object.__setattr__(self, name, value)


@dataclass(eq=False)
class AclGraphConfig(_Options):
    """Options of captured graphs.

    ``_aclnn_static_shape_kernel_build_dir`` is where output goes; ``None`` and ``""`` mean the
    directory of the script. ``output_tree`` is one of :data:`TREES`. ``op_compiler`` is the
    command to compile with; by default ``op_compiler`` on PATH, else the embedded one.
    """

    _aclnn_static_shape_kernel: bool = False
    _aclnn_static_shape_kernel_build_dir: str | None = None
    output_tree: str = DOCUMENT
    op_compiler: str = ""


@dataclass(eq=False)
class ExperimentalConfig(_Options):
    """Options that may change."""

    aclgraph: AclGraphConfig = field(default_factory=AclGraphConfig)


@dataclass(eq=False)
class CompilerConfig(_Options):
    """How graphs are run. ``soc_version`` stands for the product the card is."""

    mode: str = MAX_AUTOTUNE
    experimental_config: ExperimentalConfig = field(default_factory=ExperimentalConfig)
    soc_version: str = "Ascend910B1"


@dataclass(frozen=True)
class Profiling:
    """What a profiler was asked for; ``skip_first`` counts steps before it begins."""

    record_op_args: bool = False
    skip_first: int = 0


class ConfigPolicy:
    """Which configurations can be carried out."""

    def check(self, config: CompilerConfig, profiling: Profiling) -> None:
        """See that static kernels can be had as configured.

        Raises:
            StaticKernelError: naming the option, its value, and what to set.
        """
        self.mode(config)
        if not self.wants(config):
            return
        tree = config.experimental_config.aclgraph.output_tree
        if tree not in TREES:
            raise StaticKernelError(
                f"aclgraph.output_tree is {tree!r}; set it to {' or '.join(TREES)}."
            )
        self.product(config.soc_version)
        self.profiler(profiling)

    def wants(self, config: CompilerConfig) -> bool:
        """Whether static kernels are asked for."""
        return config.experimental_config.aclgraph._aclnn_static_shape_kernel

    def mode(self, config: CompilerConfig) -> None:
        """Static kernels are for one mode only."""
        if config.mode not in MODES:
            raise StaticKernelError(f"mode is {config.mode!r}; set it to {' or '.join(MODES)}.")
        if self.wants(config) and config.mode != REDUCE_OVERHEAD:
            raise StaticKernelError(
                f"mode is {config.mode!r}, in which _aclnn_static_shape_kernel has no effect; set "
                f"mode to {REDUCE_OVERHEAD!r}, or the option to False."
            )

    def product(self, soc: str) -> None:
        """Only Atlas A2 and Atlas A3 have static kernels."""
        from pytest_ascendcache.reference.kernels import SOCS

        supported = [each for each in SOCS if is_supported(each)]
        if soc not in supported:
            raise StaticKernelError(
                f"soc_version is {soc!r}, which has no static kernels; they are for Atlas A2 and "
                f"A3: {', '.join(supported)}. Set _aclnn_static_shape_kernel to False."
            )

    def profiler(self, profiling: Profiling) -> None:
        """Operator statistics from the first step on are the dump's own."""
        if profiling.record_op_args and profiling.skip_first == 0:
            raise StaticKernelError(
                "the profiler has record_op_args=True and skip_first=0, which does not go together "
                "with _aclnn_static_shape_kernel; set skip_first to 1 or more, or one of the two "
                "options to False."
            )


def is_supported(soc: str) -> bool:
    """Whether a SoC is one of Atlas A2 (``Ascend910B<n>``) or A3 (``Ascend910_93<nn>``)."""
    return soc.startswith("Ascend910_93") or soc[:-1].startswith("Ascend910B")
