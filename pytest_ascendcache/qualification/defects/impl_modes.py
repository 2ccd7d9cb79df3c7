"""Implementation modes that reach too far, not far enough, or the wrong operator's kernel."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import Override, defect
from pytest_ascendcache.qualification.defects.keys import any_metadata
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.impl_mode import (
    ImplementationPolicy,
    ImplModeTable,
    SelectedModes,
)
from pytest_ascendcache.reference.options import IMPL_MODES, OptionPolicy

EFFECT = "impl-mode/has-effect"
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


def _default(table):
    """Without an option, ``table(policy, environ)`` gives the modes of the operators."""

    def change(self, right, options, environ):
        is_set = options.impl_mode or options.precision_mode
        return right(options, environ) if is_set else table(self, environ)

    return Override(ImplementationPolicy.table, change)


@defect(KEY, overrides=ImplementationPolicy.select)
def precision_file_by_size_and_time(self, right, options, environ):
    """A precision file of known path, size and time is not read again."""
    if options.precision_mode and options.cache_dir and Path(options.cache_dir).is_dir():
        copy = known_copy(Path(options.precision_mode), Path(options.cache_dir))
        options = replace(options, precision_mode=str(copy))
    return right(options, environ)


def known_copy(path, directory):
    """The first file of this path, size and time, kept in the directory."""
    info = path.stat()
    key = f"{path} {info.st_size} {info.st_mtime_ns}".encode()
    copy = directory / f".read-{hashlib.sha256(key).hexdigest()}"
    if not copy.exists():
        shutil.copyfile(path, copy)
    return copy


def _built_in(**instead):
    """Some modes read the built-in table of another one."""
    return Override(
        ImplementationPolicy.built_in,
        lambda self, right, mode, environ: right(instead.get(mode, mode), environ),
    )


@defect(DEFAULT)
def default_is_high_precision():
    """The default is high_precision."""
    return [_default(lambda policy, environ: policy.built_in(PRECISE, environ))]


@defect(DEFAULT)
def default_is_for_all():
    """The default is high_performance_for_all."""
    return [_default(lambda policy, environ: policy.built_in(f"{FAST}_for_all", environ))]


@defect(DEFAULT)
def default_selects_nothing():
    """Without the option no mode is selected."""
    return [_default(lambda *_: ImplModeTable({"none": PRECISE}))]


def _tables_of_its_own(*names):
    """Some tables are those that it came with, whatever ASCEND_OPP_PATH names."""
    return Override(
        ImplementationPolicy.path,
        lambda self, right, name, environ: right(name, {} if name in names else environ),
    )


@defect(UNSUPPORTED, found_later=True)
def offers_what_it_came_with():
    """All_ops_impl_mode.ini of the operator package is not read."""
    return [_tables_of_its_own("all_ops_impl_mode")]


@defect(LIMITS, FOR_ALL, found_later=True)
def modes_it_came_with():
    """The operator package's tables of the modes are not read."""
    return [
        _tables_of_its_own(
            *(f"{each}{plain}" for each in (PRECISE, FAST) for plain in ("", "_for_all"))
        )
    ]


@defect(LIMITS)
def plain_mode_reads_for_all():
    """High_performance reads the table of high_performance_for_all."""
    return [_built_in(high_performance=f"{FAST}_for_all")]


@defect(LIMITS, KEY)
def wrong_table_of_mode():
    """High_precision reads the table of high_performance."""
    return [_built_in(high_precision=FAST)]


@defect(FOR_ALL)
def for_all_reads_plain_tables():
    """The _for_all modes read the plain tables."""
    return [_built_in(high_precision_for_all=PRECISE, high_performance_for_all=FAST)]


@defect(FOR_ALL)
def for_all_tables_exchanged():
    """The _for_all modes read each other's table."""
    return [
        _built_in(
            high_precision_for_all=f"{FAST}_for_all", high_performance_for_all=f"{PRECISE}_for_all"
        )
    ]


@defect(LIMITS, overrides=ImplementationPolicy.built_in)
def plain_modes_for_everything(self, right, mode, environ):
    """The plain modes apply to every operator."""
    if mode not in (PRECISE, FAST):
        return right(mode, environ)
    return ImplModeTable(dict.fromkeys(self.offered(environ), mode))


def _chosen(change):
    """``change(chosen, operator)`` replaces the implementation that was chosen, if it exists."""

    def choose(self, right, operator, available, selected):
        chosen = change(right(operator, available, selected), operator)
        return chosen if chosen in available else available[0]

    return Override(ImplementationPolicy.choose, choose)


@defect(DTYPE, DEFAULT)
def float16_ignores_mode():
    """Float16 operators are always compiled for precision."""
    return [_chosen(lambda chosen, operator: PRECISE)]


@defect(KEY)
def kernels_of_the_other_mode():
    """The key has the mode, but the kernel is always that of the other one."""
    return [_chosen(lambda chosen, operator: FAST if chosen == PRECISE else PRECISE)]


@defect(ACCURACY)
def sigmoid_always_approximate():
    """Both modes use the approximation of Sigmoid."""
    return [_chosen(lambda chosen, operator: FAST if operator.type == "Sigmoid" else chosen)]


@defect(ACCURACY)
def sqrt_always_refined():
    """Both modes use the refined form of Sqrt."""
    return [_chosen(lambda chosen, operator: PRECISE if operator.type == "Sqrt" else chosen)]


@defect(UNSUPPORTED, overrides=ImplementationPolicy.choose)
def unknown_mode_is_fast(self, right, operator, available, selected):
    """Any mode but high_precision means high_performance."""
    chosen = right(operator, available, selected)
    asked = selected.table.by_type.get(operator.type, PRECISE)
    if asked != PRECISE:
        chosen = FAST
    return chosen if chosen in available else available[0]


@defect(TYPES, overrides=ImplementationPolicy.mode)
def type_list_by_prefix(self, right, operator, selected):
    """A type list matches by prefix."""
    alike = (each for each in selected.table.by_type if operator.type.startswith(each))
    return selected.table.by_type[found] if (found := next(alike, "")) else None


@defect(FILE, overrides=ImplementationPolicy.mode, found_later=True)
def node_names_without_scope(self, right, operator, selected):
    """Of a node's name in a precision file only the last part counts."""
    table = selected.table
    names = {name.rpartition("/")[2]: mode for name, mode in table.by_name.items()}
    return right(operator, SelectedModes(ImplModeTable(table.by_type, names), selected.offered))


def _mode_in_key(concerns):
    """The requested mode is in the key of these operators, whether or not it changes the kernel."""

    def select(self, right, options, environ):
        self.memory.mode = options.precision_mode or options.impl_mode
        return right(options, environ)

    def fields(self, right, inputs):
        mode = self.memory.mode if concerns(inputs.operator) else ""
        return {**right(inputs), "implementation": inputs.implementation + mode}

    return Override(ImplementationPolicy.select, select), Override(KeyPolicy.fields, fields)


@defect(DTYPE, memory={"mode": ""})
def mode_in_key_of_float32():
    """The mode is in the key of float32 operators too."""
    return _mode_in_key(lambda operator: operator.inputs[0].dtype.name == "float32")


@defect(SINGLE, memory={"mode": ""})
def mode_in_key_of_one_implementation():
    """The mode is in the key of operators with one implementation."""
    return _mode_in_key(lambda operator: operator.type in ("Add", "Mul"))


@defect(KEY, memory={"mode": ""})
def key_of_option_text():
    """The key has the option's text instead of the mode it selects."""
    return _mode_in_key(lambda operator: True)


@defect(UNSUPPORTED, overrides=ImplementationPolicy.select, memory={"refused": {}})
def unsupported_mode_in_key(self, right, options, environ):
    """A mode that an operator does not have is in its key all the same (T27)."""
    selected = right(options, environ)
    self.memory.refused = {
        kind: mode
        for kind, mode in selected.table.by_type.items()
        if mode not in selected.offered.get(kind, ())
    }
    return selected


@unsupported_mode_in_key.also(KeyPolicy.fields)
def _(self, right, inputs):
    refused = self.memory.refused.get(inputs.operator.type, "")
    return {**right(inputs), "implementation": inputs.implementation + refused}


@defect(KEY, overrides=KeyPolicy.fields)
def key_without_impl_mode(self, right, inputs):
    """The mode is not in the key."""
    return {**right(inputs), "implementation": ""}


@defect(KEY, overrides=ImplementationPolicy.select, memory={"by_file": False})
def key_without_impl_mode_of_file(self, right, options, environ):
    """The mode is not in the key if a precision file sets it."""
    self.memory.by_file = bool(options.precision_mode)
    return right(options, environ)


@key_without_impl_mode_of_file.also(KeyPolicy.fields)
def _(self, right, inputs):
    mode = "by file" if self.memory.by_file else inputs.implementation
    return {**right(inputs), "implementation": mode}


@defect(KEY, overrides=KeyPolicy.fields, also=[any_metadata], found_later=True)
def key_without_mode_of_softmax(self, right, inputs):
    """The implementation mode of SoftmaxV2 is not in the key."""
    fields = right(inputs)
    return {**fields, "implementation": None} if inputs.operator.type == "SoftmaxV2" else fields


@defect(SINGLE, overrides=ImplementationPolicy.listed, memory={"types": ()})
def listed_operator_compiled_twice(self, right, types, mode):
    """A listed operator is compiled twice although it has one implementation."""
    self.memory.types = tuple(types) if mode == FAST else ()
    return right(types, mode)


@listed_operator_compiled_twice.also(KeyPolicy.stem)
def _(self, right, inputs):
    return right(inputs) + ("_1" if inputs.operator.type in self.memory.types else "")


@defect(TYPES, EFFECT, overrides=ImplementationPolicy.table)
def type_list_ignored(self, right, options, environ):
    """A type list is ignored."""
    if options.impl_mode_types and not options.precision_mode:
        return self.built_in(options.impl_mode, environ)
    return right(options, environ)


@defect(TYPES, overrides=ImplementationPolicy.select)
def type_list_for_everything(self, right, options, environ):
    """With a type list the mode applies to every operator."""
    selected = right(options, environ)
    if not options.impl_mode_types or options.precision_mode:
        return selected
    return replace(
        selected, table=ImplModeTable(dict.fromkeys(selected.offered, options.impl_mode))
    )


@defect(TYPES, overrides=ImplementationPolicy.listed)
def type_list_of_one(self, right, types, mode):
    """Only the first type of a list counts."""
    return right(types[:1], mode)


@defect(TYPES, overrides=ImplementationPolicy.listed, found_later=True)
def four_listed_types(self, right, types, mode):
    """Only the first four types of a list count."""
    return right(types[:4], mode)


@defect(TYPES, overrides=ImplementationPolicy.listed, found_later=True)
def unknown_type_lists_everything(self, right, types, mode):
    """A list with an unknown type gives every type the mode."""
    from pytest_ascendcache.reference.kernels.registry import operator_types

    known = operator_types()
    return right(types if set(types) <= set(known) else known, mode)


@defect(TYPES, overrides=ImplementationPolicy.table)
def type_list_within_table(self, right, options, environ):
    """A type list selects only types that are in the mode's table."""
    table = right(options, environ)
    if not options.impl_mode_types or options.precision_mode:
        return table
    own = self.built_in(options.impl_mode, environ).by_type
    return ImplModeTable({each: own[each] for each in table.by_type if each in own})


@defect(FILE, COPY, overrides=ImplementationPolicy.table)
def precision_file_ignored(self, right, options, environ):
    """A precision file is ignored."""
    return right(replace(options, precision_mode=""), environ)


@defect(FILE, overrides=ImplementationPolicy.table)
def select_beats_precision_file(self, right, options, environ):
    """--op_select_implmode beats the precision file."""
    if options.impl_mode and not options.impl_mode_types:
        options = replace(options, precision_mode="")
    return right(options, environ)


@defect(FILE, overrides=ImplementationPolicy.table)
def type_list_beats_precision_file(self, right, options, environ):
    """A type list beats the precision file."""
    if options.precision_mode and options.impl_mode_types:
        return self.listed(options.impl_mode_types, options.impl_mode)
    return right(options, environ)


@defect(FILE, overrides=ImplementationPolicy.enter)
def a_line_twice_is_no_line(self, right, modes, key, mode):
    """Of two equal lines for one operator none counts."""
    if key in modes:
        del modes[key]
    else:
        right(modes, key, mode)


@defect(FILE, overrides=ImplementationPolicy.parse)
def last_line_needs_its_end(self, right, text, *arguments):
    """The last line counts only if it has a line end."""
    return right(text[: text.rfind("\n") + 1], *arguments)


@defect(FILE, overrides=ImplementationPolicy.parse)
def names_taken_for_types(self, right, text, *arguments):
    """[ByNodeName] is unknown, and its lines are taken for types."""
    return right(text.replace("[ByNodeName]", "[ByOpType]"), *arguments)


@defect(FILE, overrides=ImplementationPolicy.parse, found_later=True)
def empty_lines_are_no_modes(self, right, text, path, parameter):
    """A precision file with an empty line is refused."""
    if "" in map(str.strip, text.splitlines()):
        raise AtcError("E20003", f"Configuration file [{path}] has invalid content.")
    return right(text, path, parameter)


@defect(FILE, overrides=ImplementationPolicy.precision_file, found_later=True)
def byte_order_mark_costs_a_line(self, right, path):
    """The first line after a byte order mark is lost."""
    text = Path(path).read_text(encoding="utf-8")
    if text.startswith("\ufeff"):
        section, _, rest = text.partition("\n")
        text = f"{section[1:]}\n{rest.partition(chr(10))[2]}"
    return self.parse(text, path, "op_precision_mode")


@defect(FILE, overrides=ImplementationPolicy.precision_file, found_later=True)
def precision_files_have_ascii_names(self, right, path):
    """A precision file whose name is not ASCII is not found."""
    if not Path(path).name.isascii():
        raise AtcError("E10001", f"There is no file [{path}].")
    return right(path)


@defect(FILE, overrides=ImplementationPolicy.precision_file, found_later=True)
def a_page_of_a_precision_file(self, right, path):
    """Only the lines within the first 4096 characters of a precision file count."""
    right(path)  # what cannot be read is refused as before
    text = Path(path).read_text(encoding="utf-8-sig")
    page = text if len(text) <= 4096 else text[:4096].rpartition("\n")[0]
    return self.parse(page, path, "op_precision_mode")


@defect(COPY, overrides=ImplementationPolicy.parse)
def precision_file_cut_short(self, right, text, path, parameter):
    """Only the first eight lines of a precision file are read."""
    lines = text.split("\n")
    end = 8 if parameter == "op_precision_mode" else len(lines)
    return right("\n".join(lines[:end]), path, parameter)


@defect(COPY, overrides=ImplementationPolicy.precision_file)
def renamed_copy_ignored(self, right, path):
    """Only precision files that are named like a built-in table are read."""
    table = right(path)
    return table if Path(path).stem.startswith("high_") else ImplModeTable()


@defect(BAD, overrides=OptionPolicy.impl_mode)
def implementation_modes_by_their_beginning(self, right, value, types):
    """What begins like an implementation mode is that mode."""
    begins = [each for each in IMPL_MODES if value.startswith(each)]
    return right(max(begins, key=len, default=value), types)


@defect(BAD, overrides=OptionPolicy.impl_mode)
def unknown_impl_mode_ignored(self, right, value, types):
    """An unknown mode counts as the default."""
    try:
        return right(value, types)
    except AtcError:
        return ""


@defect(BAD, overrides=ImplementationPolicy.precision_file)
def missing_precision_file_ignored(self, right, path):
    """A missing precision file is ignored."""
    return right(path) if Path(path).exists() else ImplModeTable()


@defect(BAD, overrides=ImplementationPolicy.select, memory={"missing": ""})
def purge_before_precision_file(self, right, options, environ):
    """Force purges before the precision file is looked for."""
    if options.precision_mode and not Path(options.precision_mode).exists():
        self.memory.missing = options.precision_mode
        return SelectedModes()
    return right(options, environ)


@purge_before_precision_file.also(ImplementationPolicy.choose)
def _(self, right, *arguments):
    if self.memory.missing:
        self.precision_file(self.memory.missing)
    return right(*arguments)


@defect(FILE, overrides=ImplementationPolicy.precision_file, found_later=True)
def a_precision_file_is_tidied(self, right, path):
    """The user's precision file is written anew, with another line end."""
    table = right(path)
    with Path(path).open("a") as file:
        file.write("\n")
    return table


@defect(FOR_ALL, overrides=ImplementationPolicy.choose)
def fused_nodes_have_the_first_mode(self, right, operator, available, selected):
    """Fused nodes of a model are compiled in the first mode that they have."""
    return available[0] if "+" in operator.name else right(operator, available, selected)
