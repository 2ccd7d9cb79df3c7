"""Prints rows as C: the ``.cce`` dump, a complete C99 translation unit with one row per line."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ascendcache.reference.kernels.trace import Row, Trace, Type, Value

_PREAMBLE = """\
/* {title} */
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float value)
{{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}}

static inline float float_of(uint32_t bits)
{{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}}

int {symbol}(void **in_out)
{{"""

_TYPES = {Type.BOOL: "int", Type.WORD: "uint32_t", Type.INDEX: "int64_t", Type.FLOAT: "float"}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_OPERATORS = {
    **{f"{kind}{name}": sign for kind in "fi" for name, sign in _COMPARISONS.items()},
    **{f"{kind}{name}": sign for kind in ("", "f") for name, sign in _ARITHMETIC.items()},
    "fdiv": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "lshr": ">>",
    "seq": "==",
    "ult": "<",
}
_EXPRESSIONS = {
    **{f"s{name}": f"(int32_t){{0}} {sign} (int32_t){{1}}" for name, sign in _COMPARISONS.items()},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in _OPERATORS.items()},
    "fneg": "-{0}",
    "fsqrt": "sqrtf({0})",
    "fnan": "{0} != {0}",
    "ashr": "(uint32_t)((int32_t){0} >> {1})",
    "smin": "{0} < {1} ? {0} : {1}",
    "select": "{0} ? {1} : {2}",
    "bits": "bits_of({0})",
    "asfloat": "float_of({0})",
    "sitofp": "(float)(int32_t){0}",
    "isitofp": "(float){0}",
    "fptosi": "(uint32_t)(int32_t){0}",
    "ifptosi": "(int64_t){0}",
    "sext": "(int64_t)(int32_t){0}",
    "trunc": "(uint32_t){0}",
    "read": "{0}",
}


@dataclass(frozen=True)
class SourceLocation:
    """A line of the ``.cce`` dump (from 1) and the Python line it was traced from."""

    line: int
    file: str
    python_line: int


@dataclass(frozen=True)
class CText:
    """A printed kernel.

    ``function_line`` is the line of the function's opening brace; the rows follow it, one a line.
    ``locations`` has where each row was traced.
    """

    text: str
    function_line: int
    locations: tuple[SourceLocation, ...]


def print_c(trace: Trace, symbol: str, title: str) -> CText:
    """Print the kernel ``symbol``; ``title`` goes into the leading comment."""
    lines = _PREAMBLE.format(symbol=symbol, title=title.replace("*/", "* /")).split("\n")
    function_line = len(lines)
    depth = 1
    for row in trace.rows:
        depth -= row.operation == "end"
        lines.append("    " * depth + _statement(row))
        depth += row.operation == "loop"
    lines += ["    return 0;", "}", ""]
    locations = (
        SourceLocation(line, row.place.file, row.place.line)
        for line, row in enumerate(trace.rows, start=function_line + 1)
    )
    return CText("\n".join(lines), function_line, tuple(locations))


def _statement(row: Row) -> str:
    operands = [_operand(each) for each in row.operands]
    name = "" if row.result is None else row.result.name
    match row.operation:
        case "argument":
            return f"void *{name} = in_out[{row.number}];"
        case "reject":
            pointer = operands[0] if operands else "in_out"
            return f"if (!{pointer} || (uintptr_t){pointer} % {row.number}) return 1;"
        case "load":
            made = "int64_t" if row.number == 64 else "uint32_t"
            return f"{made} {name} = ((const uint{row.number}_t *){operands[0]})[{operands[1]}];"
        case "store":
            width = f"uint{row.number}_t"
            return f"(({width} *){operands[0]})[{operands[1]}] = ({width}){operands[2]};"
        case "loop":
            start, stop, step = operands
            head = f"int64_t {name} = {start}; {name} < {stop}; {name} += {step}"
            return f"for ({head}) {{"
        case "end":
            return "}"
        case "set":
            return f"{operands[0]} = {operands[1]};"
    assert row.result is not None
    expression = "{0}" if row.operation == "variable" else _EXPRESSIONS[row.operation]
    return f"{_TYPES[row.result.type]} {name} = {expression.format(*operands)};"


def _operand(value: Value) -> str:
    constant = value.constant
    if constant is None:
        return value.name
    if value.type is Type.WORD:
        return f"{constant:#x}u" if constant > 9 else f"{constant}u"
    if value.type is Type.FLOAT:
        return _float(float(constant))
    return str(constant)


def _float(number: float) -> str:
    if number != number:
        return "float_of(0x7fc00000u)"
    if number in (float("inf"), float("-inf")):
        return "float_of(0x7f800000u)" if number > 0 else "float_of(0xff800000u)"
    text = f"{number:.9g}"
    text += "f" if "." in text or "e" in text else ".0f"
    return f"({text})" if text.startswith("-") else text
