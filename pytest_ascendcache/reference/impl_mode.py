"""Implementation modes: which of its implementations an operator is compiled with.

Source: document I (``--op_select_implmode``); facts ``cann-operator-cache`` sections 5.1 to 5.4.
Where CANN drops a line silently, a bad line is an error here: a user who misspells a mode would
otherwise measure something else than he wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.errors import AtcError, invalid_value
from pytest_ascendcache.reference.options import AtcOptions

TABLES = Path("built-in/op_impl/ai_core/tbe/impl_mode")
"""Where an operator package keeps its tables."""

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
"""Names a table may use; this compiler implements the first two."""

_SECTIONS = {"[ByOpType]": "type", "[ByNodeName]": "name"}


@dataclass(frozen=True)
class ModeTable:
    """Contents of an ini file: modes by operator type, and by the operator's own name."""

    by_type: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SelectedModes:
    """What one run selects; ``offered`` are the modes each operator type may be given."""

    table: ModeTable = field(default_factory=ModeTable)
    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)


class ImplementationPolicy:
    """Reads the options and tables of implementation modes, and decides for each operator."""

    def select(self, options: AtcOptions, environ: Mapping[str, str]) -> SelectedModes:
        """What the options select.

        Raises:
            AtcError: E10001 for a file that cannot be read, E20003 for a bad line.
        """
        return SelectedModes(self.table(options, environ), self.offered(environ))

    def table(self, options: AtcOptions, environ: Mapping[str, str]) -> ModeTable:
        """A precision file wins alone; a type list limits the two plain modes to its types and
        goes beyond their tables."""
        if options.precision_mode:
            return self.precision_file(options.precision_mode)
        mode = options.impl_mode or DEFAULT_MODE
        if options.impl_mode_types and mode in ("high_precision", "high_performance"):
            return self.listed(options.impl_mode_types, mode)
        return self.built_in(mode, environ)

    def listed(self, types: Sequence[str], mode: str) -> ModeTable:
        """The table a type list stands for."""
        return ModeTable(dict.fromkeys(types, mode))

    def precision_file(self, path: str) -> ModeTable:
        """The file ``--op_precision_mode`` names."""
        return self.parse(_read(Path(path), "--op_precision_mode"), path, "op_precision_mode")

    def built_in(self, mode: str, environ: Mapping[str, str]) -> ModeTable:
        """The installation's table of a value of ``--op_select_implmode``."""
        path = self.path(mode, environ)
        return self.parse(_read(path, "--op_select_implmode"), str(path), "op_select_implmode")

    def path(self, name: str, environ: Mapping[str, str]) -> Path:
        """Where a table is: below ``ASCEND_OPP_PATH``, or, where that has none, built in."""
        opp = environ.get("ASCEND_OPP_PATH", "")
        path = Path(opp) / TABLES / f"{name}.ini"
        return path if opp and path.is_file() else BUILT_IN / f"{name}.ini"

    def offered(self, environ: Mapping[str, str]) -> dict[str, frozenset[str]]:
        """Modes that ``all_ops_impl_mode.ini`` lists, by operator type: ``Type=mode[,mode]``.

        Modes are not checked by name: CANN's own file has some that no table can use.
        """
        path = self.path(OFFERED, environ)
        pairs = _lines(_read(path, "--op_select_implmode"), str(path), "op_select_implmode")
        return {
            key: frozenset(each.strip() for each in value.split(","))
            for _, _, key, value in reversed(pairs)
        }

    def parse(self, text: str, path: str, parameter: str) -> ModeTable:
        """Read a table: ``key=mode`` lines, by type before the first section line."""
        table: dict[str, dict[str, str]] = {"type": {}, "name": {}}
        for number, section, key, mode in _lines(text, path, parameter):
            if mode not in KNOWN_MODES:
                raise _bad_content(
                    path,
                    parameter,
                    f"line {number} gives [{key}] the mode [{mode}]; use one of "
                    f"{', '.join(KNOWN_MODES)}",
                )
            self.enter(table[section], key, mode)
        return ModeTable(table["type"], table["name"])

    def enter(self, modes: dict[str, str], key: str, mode: str) -> None:
        """Put one line into a table; of two lines for one key the first counts."""
        modes.setdefault(key, mode)

    def mode(self, operator: OperatorSpec, selected: SelectedModes) -> str | None:
        """The mode an operator is asked for, or ``None``: by its name, else by its type.

        A mode the installation does not list for the type is none.
        """
        table = selected.table
        mode = table.by_name.get(operator.name) or table.by_type.get(operator.type)
        return mode if mode in selected.offered.get(operator.type, ()) else None

    def choose(
        self, operator: OperatorSpec, available: Sequence[str], selected: SelectedModes
    ) -> str:
        """The implementation to compile: the one asked for where it is available, else the
        operator's default, which comes first."""
        mode = self.mode(operator, selected)
        return mode if mode is not None and mode in available else available[0]


def _lines(text: str, path: str, parameter: str) -> list[tuple[int, str, str, str]]:
    """Line number, section, key and value of every line but comments, sections and blanks."""
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
            raise _bad_content(
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
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise invalid_value(
            parameter, path, f"The file cannot be read ({reason}); name an ini file."
        ) from None


def _bad_content(path: str, parameter: str, reason: str) -> AtcError:
    return AtcError(
        "E20003",
        f"Configuration file [{path}] for parameter [{parameter}] has invalid content. "
        f"Reason: {reason}.",
    )
