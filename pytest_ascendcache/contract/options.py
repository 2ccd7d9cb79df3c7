"""The documents' vocabulary of options.

``None`` always means "the option is not given", which is different from giving its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


class CacheMode(str, Enum):
    """Values of ``--op_compiler_cache_mode`` (document C, parameter values)."""

    ENABLE = "enable"
    FORCE = "force"
    DISABLE = "disable"


DEFAULT_CACHE_MODE = CacheMode.DISABLE
"""Document C, default value."""

HIGH_PRECISION = "high_precision"
HIGH_PERFORMANCE = "high_performance"
BOTH = frozenset({HIGH_PRECISION, HIGH_PERFORMANCE})


class SelectMode(str, Enum):
    """Values of ``--op_select_implmode`` (document I, parameter values). Each acts on the
    operator types of the table of its own name."""

    HIGH_PRECISION = HIGH_PRECISION
    HIGH_PERFORMANCE = HIGH_PERFORMANCE
    HIGH_PRECISION_FOR_ALL = "high_precision_for_all"
    HIGH_PERFORMANCE_FOR_ALL = "high_performance_for_all"


DEFAULT_SELECT_MODE = SelectMode.HIGH_PERFORMANCE
"""Document I, default value."""


@dataclass(frozen=True)
class PrecisionFile:
    """Contents of the file ``--op_precision_mode`` names."""

    content: str

    @classmethod
    def of(
        cls, by_type: Mapping[str, str], by_name: Mapping[str, str] | None = None
    ) -> PrecisionFile:
        """A file with a mode for each operator type and, in its own section, operator name."""
        lines = [f"{key}={mode}" for key, mode in by_type.items()]
        if by_name:
            lines += ["[ByNodeName]", *(f"{key}={mode}" for key, mode in by_name.items())]
        return cls("".join(line + "\n" for line in lines))

    def but(self, operator_type: str, mode: str) -> PrecisionFile:
        """The same file with the line of one operator type changed.

        Raises:
            ValueError: where it has no such line.
        """
        lines = self.content.splitlines(keepends=True)
        for number, line in enumerate(lines):
            key, separator, old = line.partition("=")
            if separator and key.strip() == operator_type:
                lines[number] = f"{key}={old.replace(old.strip(), mode)}"
                return PrecisionFile("".join(lines))
        raise ValueError(f"the file has no line for {operator_type}.")


DEFAULT_SOC = "Ascend910B1"


def other_soc(soc: str, wanted: str = "Ascend310P3") -> str:
    """A chip beside ``soc``: the wanted one, unless it is that one itself."""
    return DEFAULT_SOC if wanted == soc else wanted


@dataclass(frozen=True)
class DebugConfig:
    """Contents of the file ``--op_debug_config`` names (document C, parameter constraints).

    ``switches`` are the values of its line ``op_debug_config`` (``ccec_g``, ``dump_cce``, ...);
    ``listed`` the items of its line ``op_debug_list``: a node's name, or ``OpType::Type``.
    ``None`` leaves the line out.
    """

    switches: tuple[str, ...] | None = ("ccec_g",)
    listed: tuple[str, ...] | None = None

    def text(self) -> str:
        """The file as ATC reads it."""
        lines = []
        if self.switches is not None:
            lines.append("op_debug_config = " + ",".join(self.switches))
        if self.listed is not None:
            lines.append("op_debug_list = " + ",".join(self.listed))
        return "".join(line + "\n" for line in lines)

    def lists(self, operator_type: str, operator_name: str) -> bool:
        """Whether the list names this operator, by node name or by type."""
        for item in self.listed or ():
            kind, separator, rest = item.partition("::")
            if separator:
                if rest == operator_type:
                    return True
            elif kind == operator_name:
                return True
        return False


@dataclass(frozen=True)
class CompileOptions:
    """What one compile is asked for, in the documents' terms."""

    cache_mode: CacheMode | None = None
    debug_level: int | None = None
    debug_config: DebugConfig | None = None
    soc: str = DEFAULT_SOC
    select_implmode: SelectMode | None = None
    implmode_types: tuple[str, ...] | None = None
    precision_file: PrecisionFile | None = None

    def but(self, **changes: object) -> CompileOptions:
        """The same options with some changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # field types are checked at use

    @property
    def entry_choice(self) -> CompileOptions:
        """What of these options chooses the entry of an operator that is not debugged."""
        return replace(self, cache_mode=None, debug_level=None, debug_config=None)

    @property
    def effective_mode(self) -> CacheMode:
        """The mode that holds where no debug switch overrides it."""
        return self.cache_mode or DEFAULT_CACHE_MODE
