"""The options of a compile, in the documents' terms.

``None`` always means that the option is not passed, which differs from passing its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypedDict

from pytest_ascendcache.words import instead
from pytest_ascendcache.words.wrong_use import WrongUse, wrong

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    """Values of ``--op_select_implmode`` (document I, parameter values).

    Each applies to the operator types in the table of its name.
    """

    HIGH_PRECISION = HIGH_PRECISION
    HIGH_PERFORMANCE = HIGH_PERFORMANCE
    HIGH_PRECISION_FOR_ALL = "high_precision_for_all"
    HIGH_PERFORMANCE_FOR_ALL = "high_performance_for_all"


DEFAULT_SELECT_MODE = SelectMode.HIGH_PERFORMANCE
"""Document I, default value."""


@dataclass(frozen=True)
class PrecisionFile:
    """The content of the file that ``--op_precision_mode`` names."""

    content: str

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            raise wrong(
                "the content of a PrecisionFile",
                self.content,
                "its text, or use PrecisionFile.of({'Exp': 'high_precision'})",
            )

    @classmethod
    def of(
        cls, by_type: Mapping[str, str], by_name: Mapping[str, str] | None = None
    ) -> PrecisionFile:
        """A file that sets modes by operator type and, in a second section, by operator name."""
        for each in (by_type, by_name or {}):
            if not isinstance(each, Mapping):
                allowed = "a dict such as {'Exp': 'high_precision'}"
                raise wrong("what PrecisionFile.of() takes", each, allowed)
        lines = [f"{key}={mode}" for key, mode in by_type.items()]
        if by_name:
            lines += ["[ByNodeName]", *(f"{key}={mode}" for key, mode in by_name.items())]
        return cls("".join(line + "\n" for line in lines))

    def but(self, operator_type: str, mode: str) -> PrecisionFile:
        """The same file with another mode for one operator type, by a line more if it has none."""
        lines = self.content.splitlines(keepends=True)
        for number, line in enumerate(lines):
            key, separator, old = line.partition("=")
            if separator and key.strip() == operator_type:
                lines[number] = f"{key}={old.replace(old.strip(), mode)}"
                return PrecisionFile("".join(lines))
        return PrecisionFile(f"{operator_type}={mode}\n{self.content}")


DEFAULT_SOC = "Ascend910B1"


def other_soc(soc: str, wanted: str = "Ascend310P3") -> str:
    """A chip other than ``soc``, preferably ``wanted``."""
    return DEFAULT_SOC if wanted == soc else wanted


@dataclass(frozen=True)
class DebugConfig:
    """The content of the file that ``--op_debug_config`` names (document C, parameter constraints).

    ``switches`` are the values of its line ``op_debug_config`` (``ccec_g``, ``dump_cce``, ...).
    ``listed`` are the items of its line ``op_debug_list``: node names, or ``OpType::Type``.
    ``None`` omits the line.
    """

    switches: tuple[str, ...] | None = ("ccec_g",)
    listed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, value in (("switches", self.switches), ("listed", self.listed)):
            if value is not None and not isinstance(value, tuple):
                raise wrong(f"{name} of a DebugConfig", value, f"a tuple, such as ({value!r},)")

    def text(self) -> str:
        """The file's text, as ATC reads it."""
        lines = []
        if self.switches is not None:
            lines.append("op_debug_config = " + ",".join(self.switches))
        if self.listed is not None:
            lines.append("op_debug_list = " + ",".join(self.listed))
        return "".join(line + "\n" for line in lines)

    def lists(self, operator_type: str, operator_name: str) -> bool:
        """Whether the list names this operator, by node name or by type."""
        names = (operator_name,) if "::" not in operator_name else ()
        return not {*names, f"OpType::{operator_type}"}.isdisjoint(self.listed or ())


ModeName = Literal["enable", "force", "disable"]
SelectModeName = Literal[
    "high_precision",
    "high_performance",
    "high_precision_for_all",
    "high_performance_for_all",
]


class EntryOptions(TypedDict, total=False):
    """Options of a compile that decide which entry an operator uses, and debug switches. They are
    fields of ``CompileOptions``; ``None`` does not pass the option."""

    debug_level: int | None
    debug_config: DebugConfig | None
    soc: str
    select_implmode: SelectMode | SelectModeName | None
    implmode_types: tuple[str, ...] | list[str] | None
    precision_file: PrecisionFile | None


class OptionChanges(EntryOptions, total=False):
    """Any fields of ``CompileOptions``."""

    cache_mode: CacheMode | ModeName | None


@dataclass(frozen=True)
class CompileOptions:
    """The options of one compile."""

    cache_mode: CacheMode | None = None
    debug_level: int | None = None
    debug_config: DebugConfig | None = None
    soc: str = DEFAULT_SOC
    select_implmode: SelectMode | None = None
    implmode_types: tuple[str, ...] | None = None
    precision_file: PrecisionFile | None = None

    def __post_init__(self) -> None:
        # Texts are what the documents write, and lists what a test writes.
        if isinstance(self.implmode_types, list):
            object.__setattr__(self, "implmode_types", tuple(self.implmode_types))
        for name, kind in (("cache_mode", CacheMode), ("select_implmode", SelectMode)):
            value = getattr(self, name)
            if isinstance(value, str) and not isinstance(value, kind):
                known = [each.value for each in kind]
                if value not in known:
                    raise WrongUse(f"{name} is {value!r}; {instead(value, known)}")
                object.__setattr__(self, name, kind(value))

    def but(self, **changes: Unpack[OptionChanges]) -> CompileOptions:
        """The same options with some changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # texts become their enums

    @property
    def entry_choice(self) -> CompileOptions:
        """The options that decide which entry an operator uses unless it is under debug."""
        return replace(self, cache_mode=None, debug_level=None, debug_config=None)

    @property
    def effective_mode(self) -> CacheMode:
        """The cache mode that applies unless a debug switch overrides it."""
        return self.cache_mode or DEFAULT_CACHE_MODE
