"""Prints rows as LLVM IR text.

LLVM parses text in a fraction of the time that building the same module object by object takes.
No instruction carries a fast-math flag, so LLVM neither contracts nor reassociates anything, and
every optimisation level gives the same bits.
"""

from __future__ import annotations

import struct

from pytest_ascendcache.reference.kernels.trace import Row, Trace, Type, Value

_TYPES = {
    Type.BOOL: "i1",
    Type.WORD: "i32",
    Type.INDEX: "i64",
    Type.FLOAT: "float",
    Type.POINTER: "ptr",
}
_ORDERS = ("lt", "le", "gt", "ge")
_COMPARISONS = {
    **{f"f{name}": f"fcmp o{name}" for name in (*_ORDERS, "eq")},
    **{f"{kind}{name}": f"icmp s{name}" for kind in "si" for name in _ORDERS},
    **dict.fromkeys(("seq", "ieq"), "icmp eq"),
    "ult": "icmp ult",
}
_CASTS = {
    "bits": "bitcast float {0} to i32",
    "asfloat": "bitcast i32 {0} to float",
    "sitofp": "sitofp i32 {0} to float",
    "isitofp": "sitofp i64 {0} to float",
    "fptosi": "fptosi float {0} to i32",
    "ifptosi": "fptosi float {0} to i64",
    "sext": "sext i32 {0} to i64",
    "trunc": "trunc i64 {0} to i32",
    "fneg": "fneg float {0}",
    "fnan": "fcmp uno float {0}, {0}",
    "fsqrt": "call float @llvm.sqrt.f32(float {0})",
}


class _Printer:
    """Collects the printed parts of one module; ``debug`` adds line numbers to instructions."""

    def __init__(self, debug: bool) -> None:
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.metadata: list[str] = []
        self._debug = debug
        self._block = "entry"
        self._suffix = ""
        self._auxiliary = 0
        # 0 is the identification, 1 to 5 describe the compile unit.
        self._next_node = 6

    def row(self, line: int, row: Row) -> None:
        """Print the row of one line of the dump; it may take several instructions."""
        if self._debug:
            self._suffix = self.location(line)
        operands = [_operand(each) for each in row.operands]
        result = "" if row.result is None else f"%{row.result.name}"
        match row.operation:
            case "argument":
                slot = self._temporary(f"getelementptr ptr, ptr %in_out, i64 {row.number}")
                self._add(f"{result} = load ptr, ptr {slot}")
            case "reject":
                self._reject(operands[0] if operands else "%in_out", row.number)
            case "load":
                address = self._address(operands, row.number)
                if row.number >= 32:
                    self._add(f"{result} = load i{row.number}, ptr {address}")
                else:
                    narrow = self._temporary(f"load i{row.number}, ptr {address}")
                    self._add(f"{result} = zext i{row.number} {narrow} to i32")
            case "store":
                address = self._address(operands, row.number)
                word = operands[2]
                if row.number < 32:
                    word = self._temporary(f"trunc i32 {word} to i{row.number}")
                self._add(f"store i{row.number} {word}, ptr {address}")
            case "variable":
                assert row.result is not None
                type = _TYPES[row.result.type]
                # In the entry block, because elsewhere every iteration would take new stack.
                self.entry.append(f"  {result} = alloca {type}")
                self._add(f"store {type} {operands[0]}, ptr {result}")
            case "set":
                self._add(f"store {_TYPES[row.operands[0].type]} {operands[1]}, ptr {operands[0]}")
            case "read":
                self._add(f"{result} = load {_TYPES[row.operands[0].type]}, ptr {operands[0]}")
            case "loop":
                self._loop(result, operands)
            case "end":
                self._end(result, operands[2])
            case _:
                self._expression(row, result, operands)

    def _expression(self, row: Row, result: str, operands: list[str]) -> None:
        type = _TYPES[row.operands[0].type]
        if row.operation in _CASTS:
            self._add(f"{result} = {_CASTS[row.operation].format(*operands)}")
        elif row.operation in _COMPARISONS:
            comparison = _COMPARISONS[row.operation]
            self._add(f"{result} = {comparison} {type} {operands[0]}, {operands[1]}")
        elif row.operation == "smin":
            first = self._temporary(f"icmp slt {type} {operands[0]}, {operands[1]}")
            self._add(f"{result} = select i1 {first}, {type} {operands[0]}, {type} {operands[1]}")
        elif row.operation == "select":
            type = _TYPES[row.operands[1].type]
            condition, yes, no = operands
            self._add(f"{result} = select i1 {condition}, {type} {yes}, {type} {no}")
        else:
            self._add(f"{result} = {row.operation} {type} {operands[0]}, {operands[1]}")

    def _loop(self, counter: str, bounds: list[str]) -> None:
        name = counter[1:]
        before = self._block
        self._add(f"br label %head.{name}")
        self._label(f"head.{name}")
        self._add(
            f"{counter} = phi i64 [ {bounds[0]}, %{before} ], [ {counter}.next, %next.{name} ]"
        )
        more = self._temporary(f"icmp slt i64 {counter}, {bounds[1]}")
        self._add(f"br i1 {more}, label %body.{name}, label %done.{name}")
        self._label(f"body.{name}")

    def _end(self, counter: str, step: str) -> None:
        name = counter[1:]
        self._add(f"br label %next.{name}")
        self._label(f"next.{name}")
        self._add(f"{counter}.next = add nsw i64 {counter}, {step}")
        self._add(f"br label %head.{name}, !llvm.loop !{self._plain_loop()}")
        self._label(f"done.{name}")

    def _reject(self, pointer: str, alignment: int) -> None:
        number = self._temporary(f"ptrtoint ptr {pointer} to i64")
        null = self._temporary(f"icmp eq i64 {number}, 0")
        low = self._temporary(f"and i64 {number}, {alignment - 1}")
        misaligned = self._temporary(f"icmp ne i64 {low}, 0")
        unusable = self._temporary(f"or i1 {null}, {misaligned}")
        self._auxiliary += 1
        self._add(f"br i1 {unusable}, label %rejected, label %usable.{self._auxiliary}")
        self._label(f"usable.{self._auxiliary}")

    def _address(self, operands: list[str], bits: int) -> str:
        return self._temporary(f"getelementptr i{bits}, ptr {operands[0]}, i64 {operands[1]}")

    def _temporary(self, instruction: str) -> str:
        self._auxiliary += 1
        self._add(f"%t{self._auxiliary} = {instruction}")
        return f"%t{self._auxiliary}"

    def _add(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}{self._suffix}")

    def _label(self, name: str) -> None:
        self._block = name
        self.lines.append(f"{name}:")

    def location(self, line: int) -> str:
        """The suffix that attributes an instruction to a line of the dump."""
        return f", !dbg !{self._node(f'!DILocation(line: {line}, column: 5, scope: !4)')}"

    def _plain_loop(self) -> int:
        """A node that keeps LLVM from unrolling a loop."""
        hint = self._node('!{!"llvm.loop.unroll.disable"}')
        own = self._next_node
        return self._node(f"distinct !{{!{own}, !{hint}}}")

    def _node(self, text: str) -> int:
        number = self._next_node
        self._next_node += 1
        self.metadata.append(f"!{number} = {text}")
        return number


def print_llvm(
    trace: Trace,
    symbol: str,
    triple: str,
    identification: str,
    function_line: int | None = None,
) -> str:
    """Print the kernel as a module.

    ``identification`` ends up in the object's ``.comment`` section. With ``function_line``, the
    line of ``<symbol>.cce`` before that of the first row, the module carries a DWARF line table.
    """
    debug = function_line is not None
    first = (function_line or 0) + 1
    printer = _Printer(debug)
    for line, row in enumerate(trace.rows, first):
        printer.row(line, row)
    uses_reject = any(row.operation == "reject" for row in trace.rows)
    at_end = printer.location(first + len(trace.rows)) if debug else ""
    lines = [
        f'source_filename = "{symbol}.cce"',
        f'target triple = "{triple}"',
        "declare float @llvm.sqrt.f32(float)",
        f"define i32 @{symbol}(ptr %in_out) #0{' !dbg !4' if debug else ''} {{",
        "entry:",
        *printer.entry,
        *printer.lines,
        f"  ret i32 0{at_end}",
        *(["rejected:", f"  ret i32 1{at_end}"] if uses_reject else []),
        "}",
        # Without no-builtins a copying loop becomes a call of memcpy.
        'attributes #0 = { nounwind "no-builtins" }',
        "!llvm.ident = !{!0}",
        f'!0 = !{{!"{identification}"}}',
    ]
    if function_line is not None:
        lines += _debug_nodes(symbol, identification, function_line)
    return "\n".join([*lines, *printer.metadata, ""])


def _debug_nodes(symbol: str, identification: str, function_line: int) -> list[str]:
    """The nodes that describe the compile unit and the function.

    LLVM drops all debug information unless ``llvm.dbg.cu`` names the unit. The directory is "." so
    that the object does not depend on where it was compiled.
    """
    return [
        "!llvm.dbg.cu = !{!1}",
        "!llvm.module.flags = !{!3, !5}",
        "!1 = distinct !DICompileUnit(language: DW_LANG_C99, file: !2, "
        f'producer: "{identification}", isOptimized: false, runtimeVersion: 0, '
        "emissionKind: FullDebug)",
        f'!2 = !DIFile(filename: "{symbol}.cce", directory: ".")',
        '!3 = !{i32 2, !"Debug Info Version", i32 3}',
        f'!4 = distinct !DISubprogram(name: "{symbol}", scope: !2, file: !2, '
        f"line: {function_line}, type: !DISubroutineType(types: !{{}}), "
        f"scopeLine: {function_line}, spFlags: DISPFlagDefinition, unit: !1)",
        '!5 = !{i32 2, !"Dwarf Version", i32 4}',
    ]


def _operand(value: Value) -> str:
    constant = value.constant
    if constant is None:
        return f"%{value.name}"
    if value.type is Type.FLOAT:
        # LLVM writes a float constant as the bits of the double of the same value.
        return f"0x{struct.unpack('<Q', struct.pack('<d', constant))[0]:016X}"
    if value.type is Type.WORD:
        return str(int(constant))
    return str(constant)
