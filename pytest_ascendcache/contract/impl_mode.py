"""Which implementation mode an operator is compiled with.

Source: document I (``--op_select_implmode``); for the syntax of its files facts
``cann-operator-cache`` sections 5.1 and 5.2. Tables come in as texts; nothing is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ascendcache.contract.options import (
    BOTH,
    DEFAULT_SELECT_MODE,
    CompileOptions,
    SelectMode,
)
from pytest_ascendcache.operators import OperatorSpec

OFFERED_TABLE = "all_ops_impl_mode"
"""The table that says which modes an operator type may be given."""


@dataclass(frozen=True)
class ModeTable:
    """Modes by operator type and by operator name, as a table or precision file gives them."""

    by_type: Mapping[str, str]
    by_name: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> ModeTable:
        """Read ``key=mode`` lines; of several lines for one key the first counts."""
        by_type: dict[str, str] = {}
        by_name: dict[str, str] = {}
        target = by_type
        for line in text.lstrip("\ufeff").splitlines():
            if line.strip() == "[ByNodeName]":
                target = by_name
            elif line.strip() == "[ByOpType]":
                target = by_type
            elif "=" in line and not line.startswith("#"):
                key, _, mode = line.partition("=")
                target.setdefault(key.strip(), mode.strip())
        return cls(by_type, by_name)

    def mode(self, operator: OperatorSpec) -> str | None:
        """What it says of an operator; its name goes before its type."""
        return self.by_name.get(operator.name, self.by_type.get(operator.type))


@dataclass(frozen=True)
class ImplModeTables:
    """The tables of one installation: modes ``offered`` to each type, and one table a mode."""

    offered: Mapping[str, frozenset[str]]
    selected: Mapping[SelectMode, ModeTable]

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> ImplModeTables:
        """Read an installation's texts by file name without suffix.

        Raises:
            KeyError: for the name of a missing table.
        """
        offered = ModeTable.read(texts[OFFERED_TABLE]).by_type
        return cls(
            {kind: frozenset(map(str.strip, modes.split(","))) for kind, modes in offered.items()},
            {mode: ModeTable.read(texts[mode.value]) for mode in SelectMode},
        )

    def has_two(self, operator: OperatorSpec) -> bool:
        """Whether an operator has both implementations: its type is offered both modes, and an
        input is float16, for document I tells modes apart by data type."""
        half = any(tensor.dtype.name == "float16" for tensor in operator.inputs)
        return half and self.offered.get(operator.type, frozenset()) >= BOTH

    def mode(self, options: CompileOptions, operator: OperatorSpec) -> str | None:
        """The mode an operator is given, ``None`` for none: then it is compiled as its
        implementation has it.

        A precision file rules alone. A type list replaces the table of the two plain modes; of
        a list beside the others the document says nothing. What ``all_ops_impl_mode.ini`` does
        not list for the type is not supported, so it is no mode.
        """
        if options.precision_file is not None:
            mode = ModeTable.read(options.precision_file.content).mode(operator)
        else:
            select = options.select_implmode or DEFAULT_SELECT_MODE
            if options.implmode_types is not None and select.value in BOTH:
                mode = select.value if operator.type in options.implmode_types else None
            else:
                mode = self.selected[select].mode(operator)
        return mode if mode in self.offered.get(operator.type, frozenset()) else None

    def same_kernel(
        self, one: CompileOptions, other: CompileOptions, operator: OperatorSpec
    ) -> bool | None:
        """Whether two sets of options select one kernel for an operator.

        ``None`` where the document does not say: where one of them selects a mode and the other
        none, it depends on the mode the operator's implementation takes by itself.
        """
        if not self.has_two(operator):
            return True
        modes = {self.mode(one, operator), self.mode(other, operator)}
        if len(modes) == 1:
            return True
        return None if None in modes else False
