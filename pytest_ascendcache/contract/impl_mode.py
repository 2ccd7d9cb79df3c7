"""The implementation mode that an operator is compiled with.

Source: document I (``--op_select_implmode``); for the syntax of its files facts
``cann-operator-cache`` sections 5.1 and 5.2. Tables are passed as texts; no file is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_ascendcache.contract.options import (
    BOTH,
    DEFAULT_SELECT_MODE,
    CompileOptions,
    SelectMode,
)
from pytest_ascendcache.operators import OperatorSpec

OFFERED_TABLE = "all_ops_impl_mode"
"""The name of the table that lists the supported modes of each operator type."""


@dataclass(frozen=True)
class ModeTable:
    """A table or precision file: modes by operator type and by operator name."""

    by_type: Mapping[str, str]
    by_name: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> ModeTable:
        """Parse ``key=mode`` lines. The first of several lines for a key wins."""
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
        """The mode of an operator, or ``None``. Its name takes precedence over its type."""
        return self.by_name.get(operator.name, self.by_type.get(operator.type))


@dataclass(frozen=True)
class ImplModeTables:
    """The tables of an installation: the supported modes of each type, and one table per mode."""

    offered: Mapping[str, frozenset[str]]
    selected: Mapping[SelectMode, ModeTable]

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> ImplModeTables:
        """Parse tables by file name without suffix. Raises ``KeyError`` if one is missing."""
        offered = ModeTable.read(texts[OFFERED_TABLE]).by_type
        return cls(
            {kind: frozenset(map(str.strip, modes.split(","))) for kind, modes in offered.items()},
            {mode: ModeTable.read(texts[mode.value]) for mode in SelectMode},
        )

    def has_two(self, operator: OperatorSpec) -> bool:
        """Whether an operator has two implementations: its type supports both modes, and an input
        is float16, as the modes differ by data type (document I)."""
        half = any(tensor.dtype.name == "float16" for tensor in operator.inputs)
        return half and self.offered.get(operator.type, frozenset()) >= BOTH

    def mode(
        self, options: CompileOptions, operator: OperatorSpec, is_layered: bool = False
    ) -> str | None:
        """The mode of an operator, or ``None`` if it is compiled in its implementation's default.

        A precision file goes before a list of types, and this before the table of the two plain
        modes; the document does not say what a list does with the other two modes. What becomes of
        an operator that the upper one does not name is open: with ``is_layered`` the next one
        decides, else nothing does. A mode that ``all_ops_impl_mode.ini`` does not list for the type
        is not supported and has no effect.
        """
        offered = self.offered.get(operator.type, frozenset())
        modes = [each if each in offered else None for each in self._layers(options, operator)]
        return next(filter(None, modes), None) if is_layered else modes[0]

    def _layers(self, options: CompileOptions, operator: OperatorSpec) -> Iterator[str | None]:
        """What each option says of an operator, beginning with the one that goes before all."""
        select = options.select_implmode or DEFAULT_SELECT_MODE
        if options.precision_file is not None:
            yield ModeTable.read(options.precision_file.content).mode(operator)
        if options.implmode_types is not None and select.value in BOTH:
            yield select.value if operator.type in options.implmode_types else None
        yield self.selected[select].mode(operator)

    def is_open(self, options: CompileOptions, operator: OperatorSpec) -> bool:
        """Whether the document leaves open which mode an operator has: none of the options that go
        before the others names it, and one of the others gives it a mode."""
        return self.mode(options, operator) != self.mode(options, operator, is_layered=True)

    def same_kernel(
        self, one: CompileOptions, other: CompileOptions, operator: OperatorSpec
    ) -> bool | None:
        """Whether two sets of options select the same kernel for an operator. ``None`` if only one
        of them selects a mode: it depends on the default of the operator's implementation; or if
        what the document leaves open decides it."""
        if not self.has_two(operator):
            return True
        first, second = (self._same(one, other, operator, each) for each in (False, True))
        return first if first is second else None

    def _same(
        self, one: CompileOptions, other: CompileOptions, operator: OperatorSpec, is_layered: bool
    ) -> bool | None:
        modes = {self.mode(each, operator, is_layered) for each in (one, other)}
        if len(modes) == 1:
            return True
        return None if None in modes else False
