"""Implementation modes: which implementation of an operator is compiled.

Source: document I (``--op_select_implmode``); facts ``cann-operator-cache`` sections 5.1 to 5.4.
CANN silently ignores a bad line. Here it is an error, because a user who misspells a mode would
otherwise measure another mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.errors import bad_content, invalid_value, unreadable
from pytest_ascendcache.reference.options import AtcOptions

TABLES = Path("built-in/op_impl/ai_core/tbe/impl_mode")
"""Where an operator package has its tables."""

BUILT_IN = Path(__file__).parent / "opp" / TABLES
OFFERED = "all_ops_impl_mode"
DEFAULT_MODE = "high_performance"
KNOWN_MODES = (
    "high_performance",
    "high_precision",
    "super_performance",
    "support_out_of_bound_index",
    "enable_float_32_execution",
    "enable_hi_float_32_execution",
    "keep_fp16",
    "norm_class",
)
"""The modes that a table may name. This compiler implements the first two."""

_SECTIONS = {"[ByOpType]": "type", "[ByNodeName]": "name"}


@dataclass(frozen=True)
class ImplModeTable:
    """The contents of an ini file: modes by operator type, and by operator name."""

    by_type: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SelectedModes:
    """The modes that one run selects; ``offered`` are the modes each operator type supports."""

    table: ImplModeTable = field(default_factory=ImplModeTable)
    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)


class ImplementationPolicy:
    """Reads the options and tables of implementation modes, and decides for each operator."""

    def select(self, options: AtcOptions, environ: Mapping[str, str]) -> SelectedModes:
        """The modes that the options select."""
        return SelectedModes(self.table(options, environ), self.offered(environ))

    def table(self, options: AtcOptions, environ: Mapping[str, str]) -> ImplModeTable:
        """The table that the options select.

        A precision file overrides everything else. With a type list, the two plain modes apply to
        its types only, even to types that their tables lack.
        """
        if options.precision_mode:
            return self.precision_file(options.precision_mode)
        mode = options.impl_mode or DEFAULT_MODE
        if options.impl_mode_types and mode in ("high_precision", "high_performance"):
            return self.listed(options.impl_mode_types, mode)
        return self.built_in(mode, environ)

    def listed(self, types: Sequence[str], mode: str) -> ImplModeTable:
        """The table that gives all listed types one mode."""
        return ImplModeTable(dict.fromkeys(types, mode))

    def precision_file(self, path: str) -> ImplModeTable:
        """The table in the file of ``--op_precision_mode``."""
        return self.parse(_read(Path(path), "--op_precision_mode"), path, "op_precision_mode")

    def built_in(self, mode: str, environ: Mapping[str, str]) -> ImplModeTable:
        """The installation's table for a value of ``--op_select_implmode``."""
        path = self.path(mode, environ)
        return self.parse(_read(path, "--op_select_implmode"), str(path), "op_select_implmode")

    def path(self, name: str, environ: Mapping[str, str]) -> Path:
        """The file of a table: below ``ASCEND_OPP_PATH`` if it exists there, else built in."""
        opp = environ.get("ASCEND_OPP_PATH", "")
        path = Path(opp) / TABLES / f"{name}.ini"
        return path if opp and path.is_file() else BUILT_IN / f"{name}.ini"

    def offered(self, environ: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """The modes that ``all_ops_impl_mode.ini`` lists (``Type=mode[,mode]``), by operator type.

        Their names are not checked, because CANN's file has some that no table can use.
        """
        path = self.path(OFFERED, environ)
        pairs = _lines(_read(path, "--op_select_implmode"), str(path), "op_select_implmode")
        return {
            key: frozenset(each.strip() for each in value.split(","))
            for _, _, key, value in reversed(pairs)
        }

    def parse(self, text: str, path: str, parameter: str) -> ImplModeTable:
        """Read a table of ``key=mode`` lines. Before the first section line keys are types."""
        table: dict[str, dict[str, str]] = {"type": {}, "name": {}}
        for number, section, key, mode in _lines(text, path, parameter):
            if mode not in KNOWN_MODES:
                raise bad_content(
                    path,
                    parameter,
                    f"line {number} gives [{key}] the mode [{mode}]; use one of "
                    f"{', '.join(KNOWN_MODES)}",
                )
            self.enter(table[section], key, mode)
        return ImplModeTable(table["type"], table["name"])

    def enter(self, modes: dict[str, str], key: str, mode: str) -> None:
        """Enter one line into a table; of two lines for one key the first counts."""
        modes.setdefault(key, mode)

    def mode(self, operator: OperatorSpec, selected: SelectedModes) -> str | None:
        """The mode that the table selects by the operator's name, else by its type, or ``None``.

        A mode that the installation does not list for the type counts as ``None``.
        """
        table = selected.table
        mode = table.by_name.get(operator.name) or table.by_type.get(operator.type)
        return mode if mode in selected.offered.get(operator.type, ()) else None

    def choose(
        self, operator: OperatorSpec, available: Sequence[str], selected: SelectedModes
    ) -> str:
        """The implementation to compile: the selected one if available, else the first one."""
        mode = self.mode(operator, selected)
        return mode if mode is not None and mode in available else available[0]


def _lines(text: str, path: str, parameter: str) -> list[tuple[int, str, str, str]]:
    """Line number, section, key and value of each line that is not a comment, section or blank."""
    section, pairs = "type", []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if content in _SECTIONS:
            section = _SECTIONS[content]
            continue
        key, _, value = (part.strip() for part in content.partition("="))
        if not key or not value:
            raise bad_content(
                path,
                parameter,
                f"line {number} is [{content}]; write <operator type>=<mode>, [ByOpType] or "
                "[ByNodeName]",
            )
        pairs.append((number, section, key, value))
    return pairs


def _read(path: Path, parameter: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = f"The file cannot be read ({unreadable(error)}); name an ini file."
        raise invalid_value(parameter, path, reason) from None
