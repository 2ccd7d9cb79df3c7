"""What words of a shell script stand for, as far as the script itself says it.

What only a run would tell keeps its text, such as ``$1`` or ``$(nproc)``, and is unknown.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice

from pytest_ascendcache.release.shell_grammar import Lexer, ShellError, part_end

MOST = 4096
"""Turns of loops, fields of a word and characters of a value that are followed."""

_SET = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=(.*)", re.DOTALL)
_NAME = re.compile(r"\$([A-Za-z_]\w*|\d|[@*#?!$-])")
_PARAMETER = re.compile(
    r"([#!]?)([A-Za-z_]\w*|\d+|[@*#?!$-])(?:\[([^\]]*)\])?(:?[-=?+]|%%?|##?|:|)(.*)", re.DOTALL
)
_RANGE = re.compile(r"(?<!\$)\{(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?\}")
_CHOICE = re.compile(r"(?<!\$)\{([^{}\s\"']*,[^{}\s\"']*)\}")


@dataclass(frozen=True)
class ShellVariable:
    """A value, the line that gives it, and why it is not known if that is more than its text."""

    value: str
    line: int = 0
    exported: bool = False
    why: str = ""


@dataclass
class Names:
    """The variables, arrays and arguments of a shell."""

    variables: dict[str, ShellVariable] = field(default_factory=dict)
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
    exports_all: bool = False

    def copy(self) -> Names:
        return replace(self, variables=dict(self.variables), arrays=dict(self.arrays))

    def get(self, name: str) -> str | None:
        """Return the value of a variable or argument, or nothing if the script does not say it."""
        if name.isdecimal() and name != "0" and self.arguments is not None:
            return next(iter(self.arguments[int(name) - 1 : int(name)]), "")
        if name == "#" and self.arguments is not None:
            return str(len(self.arguments))
        if name in self.arrays:
            return next(iter(self.arrays[name]), "")
        found = self.variables.get(name)
        return None if found is None else found.value

    def give(self, name: str, value: str, line: int = 0, *, exported: bool = False) -> None:
        """Give a variable a value; it stays exported if it was."""
        was = self.variables.get(name, ShellVariable(""))
        value = value if len(value) <= MOST else f"${name}"
        exported = exported or was.exported or self.exports_all
        self.arrays.pop(name, None)
        self.variables[name] = ShellVariable(value, line or was.line, exported)

    def take(self, word: str, line: int, *, exported: bool = False) -> str:
        """Follow an assignment, and return its name; empty if the word is none."""
        match = _SET.fullmatch(word) or _SET.fullmatch(text_of(word, self))
        if match is None:
            return ""
        name, index, adds, raw = match.groups()
        if raw.startswith("(") and raw.endswith(")"):
            values = tuple(islice(_elements(raw[1:-1], self), MOST + 1))
            values = (*self.arrays.get(name, ()), *values) if adds else values
            self.variables.pop(name, None)
            self.arrays[name] = values[: MOST + 1]
            return name
        value = text_of(raw, self)
        if index is None:
            before = self.get(name) or "" if name in self.variables else f"${name}"
            self.give(name, before + value if adds else value, line, exported=exported)
            return name
        at, values = arithmetic(index[1:-1], self), self.arrays.get(name, ())
        if at is None or not 0 <= at <= len(values):
            self.arrays[name] = (f"${{{name}[@]}}",)
        elif at < MOST:
            self.arrays[name] = (*values[:at], value, *values[at + 1 :])
        return name


def is_unknown(value: str) -> bool:
    """Return whether a value depends on what the script does not say."""
    return "$" in value or "`" in value


def text_of(word: str, names: Names) -> str:
    """Return what a word stands for where it is not split."""
    if word == "~" or word.startswith("~/"):
        word = f"$HOME{word[1:]}"
    try:
        return " ".join(_fields(word, names, splits=False))
    except ShellError:
        return f"$({word})"


def fields_of(word: str, names: Names) -> list[str]:
    """Return the fields that a word stands for."""
    found = (field for each in _braces(word) for field in _fields(each, names))
    try:
        return list(islice(found, MOST + 1))
    except ShellError:
        return [f"$({word})"]


def _elements(text: str, names: Names) -> Iterator[str]:
    lexer = Lexer(text)
    while (token := lexer.token()).text:
        if token.is_word:
            yield from fields_of(token.text, names)


def _braces(word: str) -> Iterator[str]:
    """Yield the words that braces make of one."""
    found = min(
        (each for each in (_RANGE.search(word), _CHOICE.search(word)) if each),
        key=lambda each: each.start(),
        default=None,
    )
    if found is None or {*word[: found.start()]} & {"'", '"', "(", "`"}:
        yield word
        return
    values: Sequence[object]
    if found.re is _CHOICE:
        values = found[1].split(",")
    else:
        first, last, step = int(found[1]), int(found[2]), max(int(found[3] or 1), 1)
        down = last < first
        values = range(first, last - 1, -step) if down else range(first, last + 1, step)
    for value in values:
        yield from _braces(f"{word[: found.start()]}{value}{word[found.end() :]}")


def _fields(word: str, names: Names, *, splits: bool = True) -> list[str]:
    fields, current, quoted, at = list[str](), None, False, 0
    while at < len(word):
        char = word[at]
        end = part_end(word, at) if char in "\\`$" or (char == "'" and not quoted) else at + 1
        if char == "'" and not quoted:
            values = [word[at + 1 : end - 1]]
        elif char == '"':
            quoted, values = not quoted, [""]
        elif char == "\\":
            kept = quoted and word[at + 1 : end] not in ("$", "`", '"', "\\")
            values = [word[at if kept else at + 1 : end]]
        elif char in "$`":
            end = named.end() if (named := _NAME.match(word, at)) else end
            values = _values(word[at:end], names)
            if splits and not quoted:
                split = [[each] if is_unknown(each) else each.split() for each in values]
                values = [each for several in split for each in several]
            elif not splits:
                values = [" ".join(values)]
        else:
            values = [char]
        for place, each in enumerate(values):
            if place and current is not None:
                fields.append(current)
                current = None
            current = (current or "") + each
        at = end
    return fields if current is None else [*fields, current]


def _values(text: str, names: Names) -> list[str]:
    """Return the values of one expansion; its text if they are unknown."""
    if text.startswith("$((") and text.endswith("))"):
        number = arithmetic(text[3:-2], names)
        return [text if number is None else str(number)]
    if text.startswith(("$(", "`")):
        output = output_of(text[2 if text[0] == "$" else 1 : -1], names)
        return [(output or "").rstrip("\n") or text]
    if text.startswith("$'"):
        return [text[2:-1]]
    inner = text[2:-1] if text.startswith("${") else text[1:]
    if inner in ("@", "*"):
        return [text] if names.arguments is None else [*names.arguments]
    found = _parameter(inner, names)
    return [text] if found is None else found


def _parameter(inner: str, names: Names) -> list[str] | None:
    match = _PARAMETER.fullmatch(inner)
    if match is None:
        return None
    mark, name, index, how, word = match.groups()
    if index is not None:
        array = names.arrays.get(name)
        at = None if index in ("@", "*") else arithmetic(index, names)
        if array is None or any(map(is_unknown, array)) or (at is None and index not in "@*"):
            return None
        if at is None:
            keys = [*map(str, range(len(array)))]
            return [str(len(array))] if mark == "#" else keys if mark else [*array]
        value: str | None = array[at] if -len(array) <= at < len(array) else ""
    else:
        value = names.get(name)
    if mark == "!" and value:
        value = names.get(value)
    if value is None or is_unknown(value):
        return None
    if mark == "#":
        return [str(len(value))]
    if how.startswith(":") and not value and how[1:] in ("-", "=") and how != ":":
        return [text_of(word, names)]
    changed = _changed(value, how, word, names)
    return None if changed is None else [changed]


def _changed(value: str, how: str, word: str, names: Names) -> str | None:
    """Return what is left of a value by ``${NAME%...}``, ``${NAME#...}``, ``${NAME:...}``."""
    if how in ("%", "%%", "#", "##"):
        pattern, size = text_of(word, names), len(value)
        for at in range(size + 1) if how in ("%%", "#") else range(size, -1, -1):
            off, rest = (value[at:], value[:at]) if how[0] == "%" else (value[:at], value[at:])
            if fnmatchcase(off, pattern):
                return rest
        return value
    if how == ":":
        first, _, count = word.partition(":")
        start, size_ = arithmetic(first, names), arithmetic(count or "0", names)
        if start is None or size_ is None:
            return None
        return value[start:][: size_ if count else None]
    if how in (":+", "+"):
        return text_of(word, names) if value or how == "+" else ""
    return value if how or not word else None


def output_of(command: str, names: Names) -> str | None:
    """Return what a command prints that only counts or repeats; nothing if that is unknown."""
    words = list[str]()
    try:
        lexer = Lexer(command)
        while (token := lexer.token()).text:
            words += fields_of(token.text, names) if token.is_word else ["$"]
    except ShellError:
        return None
    return printed(words)


def printed(words: Sequence[str]) -> str | None:
    """Return what the program of some words prints; nothing if only a run would tell."""
    if not words or any(map(is_unknown, words)):
        return None
    program, *arguments = words
    if program == "echo" and arguments[:1] != ["-e"]:
        end = "" if arguments[:1] == ["-n"] else "\n"
        return " ".join(each for each in arguments if each != "-n") + end
    if program == "expr":
        number = arithmetic(" ".join(arguments), Names())
        return None if number is None else f"{number}\n"
    if program == "printf" and arguments:
        return _formatted(*arguments)
    if program == "seq" and 0 < len(arguments) < 4 and all(map(_is_number, arguments)):
        numbers = [int(each) for each in arguments]
        first = numbers[0] if len(numbers) > 1 else 1
        step = numbers[1] if len(numbers) > 2 else 1
        last = numbers[-1] + (1 if step > 0 else -1)
        return "".join(f"{each}\n" for each in islice(range(first, last, step or 1), MOST + 1))
    return None


def _formatted(form: str, *values: str) -> str | None:
    """Return what ``printf`` prints of words and of what ends them."""
    parts = re.split("%[sd]", form.replace("\\n", "\n").replace("\\t", "\t"))
    size = len(parts) - 1
    if any({*each} & {*"%\\"} for each in parts):
        return None
    turns = range(0, max(len(values), 1), size) if size else range(1)
    rows = ([*values[at : at + size], *[""] * size][:size] for at in turns)
    texts = (each for row in rows for each in zip(parts, [*row, ""], strict=True))
    return "".join(part + value for part, value in texts)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,18}", text) is not None


_STEP = re.compile(r"\s*(?:(\+\+|--)\s*(\w+)|(\w+)\s*(\+\+|--))\s*")
_GIVES = re.compile(r"\s*([A-Za-z_]\w*)\s*([-+*/%]?)=(?!=)(.*)", re.DOTALL)
_CHOOSES = re.compile(r"([^?:]+)\?([^?:]+):([^?:]+)")
_ITEM = re.compile(r"([A-Za-z_]\w*)\[([^\[\]]+)\]")


def arithmetic(text: str, names: Names, depth: int = 0) -> int | None:
    """Return the value of an arithmetic expression, and give the variables that it sets theirs."""
    *before, last = text.split(",")
    for each in before:
        arithmetic(each, names, depth)
    if (step := _STEP.fullmatch(last)) is not None:
        name, sign = step[2] or step[3], 1 if "+" in (step[1] or step[4]) else -1
        old = _number(name, names, depth)
        names.give(name, f"${name}" if old is None else str(old + sign))
        return old + sign if old is not None and step[1] else old
    if (gives := _GIVES.fullmatch(last)) is not None:
        value = arithmetic(f"{gives[1]} {gives[2]} ({gives[3]})" if gives[2] else gives[3], names)
        names.give(gives[1], f"${gives[1]}" if value is None else str(value))
        return value
    last = text_of(last.replace("'", "").replace('"', ""), names)
    last = _ITEM.sub(lambda item: text_of(f"${{{item[1]}[{item[2]}]}}", names), last)
    if is_unknown(last) or len(last) > MOST:
        return None
    found = {name: _number(name, names, depth) for name in re.findall(r"[A-Za-z_]\w*", last)}
    last = re.sub(r"[A-Za-z_]\w*", lambda name: f"({found[name[0]]})", last)
    if (chooses := _CHOOSES.fullmatch(last)) is not None:
        last = f"({chooses[2]}) if ({chooses[1]}) else ({chooses[3]})"
    last = last.replace("&&", " and ").replace("||", " or ")
    last = re.sub(r"!(?!=)", " not ", last).strip()
    try:
        return None if not last else _evaluated(ast.parse(last, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _number(name: str, names: Names, depth: int) -> int | None:
    value = names.get(name)
    if value is None or is_unknown(value) or depth > 8:
        return None
    return arithmetic(value or "0", names, depth + 1)


def _divided(one: int, other: int) -> int:
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


_TWO: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.Mod: lambda one, other: one - _divided(one, other) * other,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _evaluated(node: ast.expr) -> int:
    """Evaluate an expression in 64 bits. Raises ``ValueError`` for what is not known here."""
    result: int
    match node:
        case ast.Constant(value=int(number)):
            result = number
        case ast.UnaryOp(op=sign, operand=inner) if not isinstance(sign, ast.Invert):
            value = _evaluated(inner)
            result = value == 0 if isinstance(sign, ast.Not) else value
            result = -value if isinstance(sign, ast.USub) else result
        case ast.BinOp(left=left, op=how, right=right) if type(how) in _TWO:
            result = _TWO[type(how)](_evaluated(left), _evaluated(right))
        case ast.Compare(left=left, ops=[compared], comparators=[right]) if type(compared) in _TWO:
            result = _TWO[type(compared)](_evaluated(left), _evaluated(right))
        case ast.BoolOp(op=ast.And(), values=values):
            result = all(_evaluated(each) for each in values)
        case ast.BoolOp(values=values):
            result = any(_evaluated(each) for each in values)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            result = _evaluated(body if _evaluated(test) else orelse)
        case _:
            raise ValueError
    return (int(result) + 2**63) % 2**64 - 2**63


_COMPARED = {f"-{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def decided(words: Sequence[str]) -> bool | None:
    """Return what a test says of words; nothing if only a run would tell."""
    for joints, stops in ((("||", "-o"), True), (("&&", "-a"), False)):
        at = next((index for index, each in enumerate(words) if each in joints), 0)
        if at:
            answers = [decided(words[:at]), decided(words[at + 1 :])]
            if stops in answers:
                return stops
            return None if None in answers else not stops
    if words[:1] == ["!"] and len(words) > 1:
        answer = decided(words[1:])
        return None if answer is None else not answer
    if any(map(is_unknown, words)):
        return None
    match [*words]:
        case [text]:
            return bool(text)
        case ["-z" | "-n" as how, text]:
            return bool(text) is (how == "-n")
        case [one, "=" | "==", other]:
            return fnmatchcase(one, other)
        case [one, "!=", other]:
            return not fnmatchcase(one, other)
        case [one, how, other] if how in _COMPARED and _is_number(one) and _is_number(other):
            return bool(_COMPARED[how](int(one), int(other)))
    return False if not words else None
