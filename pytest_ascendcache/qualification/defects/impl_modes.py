"""Implementation modes that reach too far, not far enough, or the wrong operator's kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.impl_mode import (
    ImplementationPolicy,
    ModeTable,
    SelectedModes,
)
from pytest_ascendcache.reference.options import AtcOptions, OptionPolicy
from pytest_ascendcache.reference.policies import Policies

DEFAULT = "impl-mode/default-is-performance"
LIMITS = "impl-mode/list-limits"
FOR_ALL = "impl-mode/for-all"
DTYPE = "impl-mode/by-dtype"
SINGLE = "impl-mode/single-implementation"
TYPES = "impl-mode/type-list"
FILE = "impl-mode/precision-file"
COPY = "impl-mode/user-copy"
UNSUPPORTED = "impl-mode/unsupported"
BAD = "impl-mode/rejects-bad"
KEY = "impl-mode/key-separates"
ACCURACY = "impl-mode/accuracy"

PRECISE, FAST = "high_precision", "high_performance"
Environment = Mapping[str, str]


def _table(change: Callable[[ImplementationPolicy, AtcOptions, Environment], Any]) -> Policies:
    """Another table than the options ask for; ``None`` leaves it."""

    class Wrong(ImplementationPolicy):
        def table(self, options: AtcOptions, environ: Environment) -> ModeTable:
            return change(self, options, environ) or super().table(options, environ)

    return having(Wrong())


def _choice(change: Callable[[str, OperatorSpec, SelectedModes], str]) -> Policies:
    """Another implementation than was chosen, among those there are."""

    class Wrong(ImplementationPolicy):
        def choose(
            self, operator: OperatorSpec, available: Sequence[str], selected: SelectedModes
        ) -> str:
            chosen = change(super().choose(operator, available, selected), operator, selected)
            return chosen if chosen in available else available[0]

    return having(Wrong())


def _key(change: Callable[[KeyInputs], str]) -> KeyPolicy:
    """Another mode in the key."""

    class Wrong(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return {**super().fields(inputs), "implementation": change(inputs)}

    return Wrong()


def _mode_in_key(concerns: Callable[[OperatorSpec], bool]) -> Policies:
    """The mode asked for is in the key, whether or not it changes the kernel."""

    class Asked(ImplementationPolicy):
        options: str = ""

        def select(self, options: AtcOptions, environ: Environment) -> SelectedModes:
            self.options = options.precision_mode or options.impl_mode
            return super().select(options, environ)

    asked = Asked()
    key = _key(
        lambda inputs: inputs.implementation + (asked.options if concerns(inputs.operator) else "")
    )
    return having(asked, key)


@defect(DEFAULT, what="the default is high_precision")
def default_is_high_precision() -> Policies:
    return _table(
        lambda policy, options, environ: (
            None
            if options.impl_mode or options.precision_mode
            else policy.built_in(PRECISE, environ)
        )
    )


@defect(DEFAULT, what="the default is high_performance_for_all")
def default_is_for_all() -> Policies:
    return _table(
        lambda policy, options, environ: (
            None
            if options.impl_mode or options.precision_mode
            else policy.built_in(f"{FAST}_for_all", environ)
        )
    )


@defect(DEFAULT, what="without the option no mode is selected at all")
def default_selects_nothing() -> Policies:
    return _table(
        lambda policy, options, environ: (
            None if options.impl_mode or options.precision_mode else ModeTable({"none": PRECISE})
        )
    )


@defect(LIMITS, overrides=ImplementationPolicy.built_in)
def plain_modes_for_everything(self, right, mode, environ):
    """The plain modes give their mode to every operator."""
    if mode not in (PRECISE, FAST):
        return right(mode, environ)
    return ModeTable(dict.fromkeys(self.offered(environ), mode))


@defect(LIMITS, what="high_performance reads the table of high_performance_for_all")
def plain_mode_reads_for_all() -> Policies:
    return _other_table({FAST: f"{FAST}_for_all"})


@defect(LIMITS, KEY, what="high_precision reads the table of high_performance")
def wrong_table_of_mode() -> Policies:
    return _other_table({PRECISE: FAST})


@defect(FOR_ALL, what="the _for_all modes read the plain tables")
def for_all_reads_plain_tables() -> Policies:
    return _other_table({f"{PRECISE}_for_all": PRECISE, f"{FAST}_for_all": FAST})


@defect(FOR_ALL, what="the _for_all modes read each other's table")
def for_all_tables_exchanged() -> Policies:
    return _other_table(
        {f"{PRECISE}_for_all": f"{FAST}_for_all", f"{FAST}_for_all": f"{PRECISE}_for_all"}
    )


def _other_table(instead: Mapping[str, str]) -> Policies:
    class Wrong(ImplementationPolicy):
        def built_in(self, mode: str, environ: Environment) -> ModeTable:
            return super().built_in(instead.get(mode, mode), environ)

    return having(Wrong())


def _is_float32(operator: OperatorSpec) -> bool:
    return operator.inputs[0].dtype.name == "float32"


@defect(DTYPE, what="the mode is in the key of float32 operators too")
def mode_in_key_of_float32() -> Policies:
    return _mode_in_key(_is_float32)


@defect(DTYPE, DEFAULT, what="float16 operators are always compiled for precision")
def float16_ignores_mode() -> Policies:
    return _choice(lambda chosen, operator, selected: PRECISE)


@defect(SINGLE, what="the mode is in the key of operators with one implementation")
def mode_in_key_of_one_implementation() -> Policies:
    return _mode_in_key(lambda operator: operator.type in ("Add", "Mul"))


@defect(SINGLE, what="a listed operator is compiled twice though it has one implementation")
def listed_operator_compiled_twice() -> Policies:
    class Wrong(KeyPolicy):
        def stem(self, inputs: KeyInputs) -> str:
            return super().stem(inputs) + asked.suffix(inputs.operator)

    class Asked(ImplementationPolicy):
        types: tuple[str, ...] = ()

        def suffix(self, operator: OperatorSpec) -> str:
            return "_1" if operator.type in self.types else ""

        def listed(self, types: Sequence[str], mode: str) -> ModeTable:
            self.types = tuple(types) if mode == FAST else ()
            return super().listed(types, mode)

    asked = Asked()
    return having(asked, Wrong())


@defect(TYPES, what="a type list is ignored")
def type_list_ignored() -> Policies:
    return _table(
        lambda policy, options, environ: (
            policy.built_in(options.impl_mode, environ)
            if options.impl_mode_types and not options.precision_mode
            else None
        )
    )


@defect(TYPES, overrides=ImplementationPolicy.select)
def type_list_for_everything(self, right, options, environ):
    """A type list gives the mode to every operator."""
    selected = right(options, environ)
    if not options.impl_mode_types or options.precision_mode:
        return selected
    return replace(selected, table=ModeTable(dict.fromkeys(selected.offered, options.impl_mode)))


@defect(TYPES, overrides=ImplementationPolicy.listed)
def type_list_of_one(self, right, types, mode):
    """Only the first type of a list counts."""
    return right(types[:1], mode)


@defect(TYPES, overrides=ImplementationPolicy.table)
def type_list_within_table(self, right, options, environ):
    """A type list reaches no further than the mode's table."""
    table = right(options, environ)
    if not options.impl_mode_types or options.precision_mode:
        return table
    own = self.built_in(options.impl_mode, environ).by_type
    return ModeTable({each: own[each] for each in table.by_type if each in own})


@defect(FILE, COPY, what="a precision file is ignored")
def precision_file_ignored() -> Policies:
    return _table(
        lambda policy, options, environ: (
            policy.table(replace(options, precision_mode=""), environ)
            if options.precision_mode
            else None
        )
    )


@defect(FILE, what="--op_select_implmode beats the precision file")
def select_beats_precision_file() -> Policies:
    return _table(
        lambda policy, options, environ: (
            policy.table(replace(options, precision_mode=""), environ)
            if options.precision_mode and options.impl_mode and not options.impl_mode_types
            else None
        )
    )


@defect(FILE, what="a type list beats the precision file")
def type_list_beats_precision_file() -> Policies:
    return _table(
        lambda policy, options, environ: (
            policy.listed(options.impl_mode_types, options.impl_mode)
            if options.precision_mode and options.impl_mode_types
            else None
        )
    )


@defect(FILE, overrides=ImplementationPolicy.enter)
def last_of_two_lines(self, right, modes, key, mode):
    """Of two lines for one operator the last counts."""
    modes[key] = mode


def _parsing(change: Callable[[str], str]) -> Policies:
    class Wrong(ImplementationPolicy):
        def parse(self, text: str, path: str, parameter: str) -> ModeTable:
            return super().parse(change(text), path, parameter)

    return having(Wrong())


@defect(FILE, what="the last line counts only with its line end")
def last_line_needs_its_end() -> Policies:
    return _parsing(lambda text: text[: text.rfind("\n") + 1])


@defect(FILE, what="[ByNodeName] is not known, and its lines are taken for types")
def names_taken_for_types() -> Policies:
    return _parsing(lambda text: text.replace("[ByNodeName]", "[ByOpType]"))


@defect(COPY, overrides=ImplementationPolicy.precision_file)
def renamed_copy_ignored(self, right, path):
    """Only files called like a built-in table are read."""
    table = right(path)
    return table if Path(path).stem.startswith("high_") else ModeTable()


@defect(COPY, overrides=ImplementationPolicy.parse)
def precision_file_cut_short(self, right, text, path, parameter):
    """Only the first eight lines of a precision file are read."""
    lines = text.split("\n")
    end = 8 if parameter == "op_precision_mode" else len(lines)
    return right("\n".join(lines[:end]), path, parameter)


@defect(UNSUPPORTED, what="any mode but high_precision means high_performance")
def unknown_mode_is_fast() -> Policies:
    def fast(chosen: str, operator: OperatorSpec, selected: SelectedModes) -> str:
        asked = selected.table.by_type.get(operator.type, PRECISE)
        return chosen if asked == PRECISE else FAST

    return _choice(fast)


@defect(UNSUPPORTED, what="a mode that is not applied is in the key all the same (T27)")
def unsupported_mode_in_key() -> Policies:
    class Remembers(ImplementationPolicy):
        refused: Mapping[str, str] = {}

        def select(self, options: AtcOptions, environ: Environment) -> SelectedModes:
            selected = super().select(options, environ)
            self.refused = {
                kind: mode
                for kind, mode in selected.table.by_type.items()
                if mode not in selected.offered.get(kind, ())
            }
            return selected

    remembers = Remembers()
    key = _key(
        lambda inputs: inputs.implementation + remembers.refused.get(inputs.operator.type, "")
    )
    return having(remembers, key)


@defect(BAD, overrides=OptionPolicy.impl_mode)
def unknown_impl_mode_ignored(self, right, value, types):
    """An unknown mode counts as the default."""
    try:
        return right(value, types)
    except AtcError:
        return ""


@defect(BAD, overrides=ImplementationPolicy.precision_file)
def missing_precision_file_ignored(self, right, path):
    """A missing precision file counts as none."""
    return right(path) if Path(path).exists() else ModeTable()


@defect(BAD, what="force purges before the precision file is looked for")
class PurgeBeforePrecisionFile(ImplementationPolicy):
    """Asked for the implementation of an operator, it reads the file."""

    missing = ""

    def select(self, options, environ):
        if options.precision_mode and not Path(options.precision_mode).exists():
            self.missing = options.precision_mode
            return SelectedModes()
        return super().select(options, environ)

    def choose(self, operator, available, selected):
        if self.missing:
            self.precision_file(self.missing)
        return super().choose(operator, available, selected)


@defect(KEY, what="the mode is not in the key")
def key_without_impl_mode() -> Policies:
    return having(_key(lambda inputs: ""))


class _KnowsTheFile(ImplementationPolicy):
    by_file = False

    def select(self, options: AtcOptions, environ: Environment) -> SelectedModes:
        self.by_file = bool(options.precision_mode)
        return super().select(options, environ)


@defect(KEY, what="the mode is not in the key when a precision file sets it")
def key_without_impl_mode_of_file() -> Policies:
    knows = _KnowsTheFile()
    key = _key(lambda inputs: "by file" if knows.by_file else inputs.implementation)
    return having(knows, key)


@defect(KEY, what="the option's text is in the key, not the mode it selects")
def key_of_option_text() -> Policies:
    return _mode_in_key(lambda operator: True)


@defect(KEY, what="the key says the mode, the kernel is always of the other one")
def kernels_of_the_other_mode() -> Policies:
    return _choice(
        lambda chosen, operator, selected: FAST if chosen == PRECISE else PRECISE,
    )


@defect(ACCURACY, what="Sigmoid has its approximation under both modes")
def sigmoid_always_approximate() -> Policies:
    return _choice(
        lambda chosen, operator, selected: FAST if operator.type == "Sigmoid" else chosen
    )


@defect(ACCURACY, what="Sqrt has its refined form under both modes")
def sqrt_always_refined() -> Policies:
    return _choice(
        lambda chosen, operator, selected: PRECISE if operator.type == "Sqrt" else chosen
    )


@defect(TYPES, overrides=ImplementationPolicy.mode)
def type_list_by_prefix(self, right, operator, selected):
    """A type list matches by prefix."""
    alike = (each for each in selected.table.by_type if operator.type.startswith(each))
    return selected.table.by_type[found] if (found := next(alike, "")) else None
