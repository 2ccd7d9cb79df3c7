"""The configuration of the client.

The document defines ``config.mode`` and, in ``config.experimental_config.aclgraph``,
``_aclnn_static_shape_kernel`` and ``_aclnn_static_shape_kernel_build_dir``. The other options exist
only in this reference. Source: document K, table 1; facts ``static-kernel`` section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError

MAX_AUTOTUNE, REDUCE_OVERHEAD = MODES = ("max-autotune", "reduce-overhead")
"""The values of ``config.mode``, the default first."""

DOCUMENT, LATER = TREES = ("document", "later")
"""The values of ``output_tree``: the document's folder names, or those of later versions."""


class _Options:
    """Options that refuse an unknown name or a value of a wrong type when they are set."""

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
    """The options of captured graphs.

    ``_aclnn_static_shape_kernel_build_dir`` is the directory of all output; ``None`` and ``""``
    mean the directory of the script. ``output_tree`` is one of :data:`TREES`. ``op_compiler`` is
    the command that compiles; by default it is ``op_compiler`` on PATH, else the embedded one.
    """

    _aclnn_static_shape_kernel: bool = False
    _aclnn_static_shape_kernel_build_dir: str | None = None
    output_tree: str = DOCUMENT
    op_compiler: str = ""


@dataclass(eq=False)
class ExperimentalConfig(_Options):
    """Experimental options, as in the document."""

    aclgraph: AclGraphConfig = field(default_factory=AclGraphConfig)


@dataclass(eq=False)
class CompilerConfig(_Options):
    """How graphs are run. ``soc_version`` is the card's chip, which real clients detect."""

    mode: str = MAX_AUTOTUNE
    experimental_config: ExperimentalConfig = field(default_factory=ExperimentalConfig)
    soc_version: str = "Ascend910B1"


@dataclass(frozen=True)
class Profiling:
    """The settings of a profiler. It begins after ``skip_first`` steps."""

    record_op_args: bool = False
    skip_first: int = 0


class ConfigPolicy:
    """Decides which configurations are supported."""

    def check(self, config: CompilerConfig, profiling: Profiling) -> None:
        """Check that a configuration is supported."""
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
        return config.experimental_config.aclgraph._aclnn_static_shape_kernel

    def mode(self, config: CompilerConfig) -> None:
        """Refuse an unknown mode, and static kernels in any but the mode they are for."""
        if config.mode not in MODES:
            raise StaticKernelError(f"mode is {config.mode!r}; set it to {' or '.join(MODES)}.")
        if self.wants(config) and config.mode != REDUCE_OVERHEAD:
            raise StaticKernelError(
                f"mode is {config.mode!r}, in which _aclnn_static_shape_kernel has no effect; set "
                f"mode to {REDUCE_OVERHEAD!r}, or the option to False."
            )

    def product(self, soc: str) -> None:
        """Refuse static kernels for chips other than those of Atlas A2 and Atlas A3."""
        from pytest_ascendcache.reference.kernels import SOCS

        supported = [each for each in SOCS if is_supported(each)]
        if soc not in supported:
            raise StaticKernelError(
                f"soc_version is {soc!r}, which has no static kernels; they are for Atlas A2 and "
                f"A3: {', '.join(supported)}. Set _aclnn_static_shape_kernel to False."
            )

    def profiler(self, profiling: Profiling) -> None:
        """Refuse a profiler that records operators from the first step on: the dump needs that."""
        if profiling.record_op_args and profiling.skip_first == 0:
            raise StaticKernelError(
                "the profiler has record_op_args=True and skip_first=0, which does not go together "
                "with _aclnn_static_shape_kernel; set skip_first to 1 or more, or one of the two "
                "options to False."
            )


def is_supported(soc: str) -> bool:
    """Whether a chip is that of an Atlas A2 (``Ascend910B<n>``) or A3 (``Ascend910_93<nn>``)."""
    return soc.startswith("Ascend910_93") or soc[:-1].startswith("Ascend910B")
