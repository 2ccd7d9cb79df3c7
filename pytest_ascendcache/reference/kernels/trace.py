"""Traces operator definitions into three-address rows.

An operator definition is ordinary Python that computes with :class:`Value` objects. It computes
nothing while it runs: every operation appends one :class:`Row`. The printers turn the rows into
C text (``c_text``) and LLVM IR (``llvm_ir``); one row is one line of C.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import PurePath
from types import FrameType
from typing import NamedTuple

_PACKAGE = __name__.partition(".")[0]
_DIRECTORY = __name__.rpartition(".")[0]
# A row is attributed to the line of the operator definition, not to these modules underneath it.
_MACHINERY = frozenset(
    [
        "contextlib",
        *(f"{_DIRECTORY}.{name}" for name in ("trace", "half", "operator", "layout")),
    ]
)
_ENTRANCE = f"{_DIRECTORY}.compiler"


class Type(Enum):
    """Type of a traced value. The member's value prefixes the value's name in the printed text."""

    BOOL = "b"
    WORD = "w"
    """32 bits. Each operation decides whether it takes them as signed."""
    INDEX = "i"
    """64 bits, signed: an offset, a loop counter or an element."""
    FLOAT = "f"
    """IEEE binary32."""
    POINTER = "p"

    prefix: str
    __hash__ = object.__hash__  # faster than Enum's own, which hashes the name

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix


class RowPlace(NamedTuple):
    """A line of a Python file, which is relative to the package, or a bare name outside of it."""

    file: str
    line: int


def _binary(name: str, swap: bool = False) -> Callable[[Value, Value | float], Value]:
    """A method that appends the operation ``name`` of a value and another one.

    With ``swap`` the other one is the left operand.
    """

    def method(self: Value, other: Value | float) -> Value:
        right = self.trace.operand(other, self.type)
        operands = (right, self) if swap else (self, right)
        prefix = "f" if self.type is Type.FLOAT else ""
        return self.trace.emit(prefix + name, self.type, operands)

    return method


def _comparison(name: str) -> Callable[[Value, Value | float], Value]:
    """A method that compares a value with another one, both signed; false if one is NaN."""

    def method(self: Value, other: Value | float) -> Value:
        prefix = {Type.FLOAT: "f", Type.INDEX: "i"}.get(self.type, "s")
        operands = (self, self.trace.operand(other, self.type))
        return self.trace.emit(prefix + name, Type.BOOL, operands)

    return method


class Value:
    """The result of a row, or a constant. Python numbers mix freely with values."""

    __slots__ = ("constant", "name", "trace", "type")

    def __init__(
        self, trace: Trace, type: Type, number: int, constant: float | int | None = None
    ) -> None:
        self.trace = trace
        self.type = type
        self.constant = constant
        self.name = "" if constant is not None else f"{type.prefix}{number}"
        """Name in the printed text, e.g. ``f12``."""

    __add__ = _binary("add")
    __radd__ = _binary("add", swap=True)
    __sub__ = _binary("sub")
    __rsub__ = _binary("sub", swap=True)
    __mul__ = _binary("mul")
    __rmul__ = _binary("mul", swap=True)
    __truediv__ = _binary("div")
    __rtruediv__ = _binary("div", swap=True)
    __and__ = _binary("and")
    __or__ = _binary("or")
    __xor__ = _binary("xor")
    __lshift__ = _binary("shl")
    __rshift__ = _binary("lshr")
    """Right shift of the unsigned word."""
    shift_signed = _binary("ashr")
    """Right shift that repeats the sign bit."""
    __lt__ = _comparison("lt")
    __le__ = _comparison("le")
    __gt__ = _comparison("gt")
    __ge__ = _comparison("ge")
    equals = _comparison("eq")
    """Equality. (``==`` keeps Python's meaning.)"""

    def __neg__(self) -> Value:
        if self.type is Type.FLOAT:
            return self.trace.emit("fneg", Type.FLOAT, (self,))
        return 0 - self

    def below(self, other: Value | int) -> Value:
        """Comparison of unsigned words."""
        return self.trace.emit("ult", Type.BOOL, (self, self.trace.operand(other, Type.WORD)))

    def is_nan(self) -> Value:
        """True for NaN."""
        return self.trace.emit("fnan", Type.BOOL, (self,))

    def bits(self) -> Value:
        """The word that encodes this float."""
        return self.trace.emit("bits", Type.WORD, (self,))

    def as_float(self) -> Value:
        """The float that this word encodes."""
        return self.trace.emit("asfloat", Type.FLOAT, (self,))

    def to_float(self) -> Value:
        """A signed word or an index as a float, ties to even."""
        operation = "sitofp" if self.type is Type.WORD else "isitofp"
        return self.trace.emit(operation, Type.FLOAT, (self,))

    def to_word(self) -> Value:
        """A float as a signed word, towards zero, or the low half of an index.

        A float must fit: the caller clamps it.
        """
        operation = "fptosi" if self.type is Type.FLOAT else "trunc"
        return self.trace.emit(operation, Type.WORD, (self,))

    def to_index(self) -> Value:
        """A signed word as an index, or a float, towards zero. A float must fit."""
        operation = "sext" if self.type is Type.WORD else "ifptosi"
        return self.trace.emit(operation, Type.INDEX, (self,))

    def absolute(self) -> Value:
        """A float without its sign."""
        return (self.bits() & 0x7FFFFFFF).as_float()

    def square_root(self) -> Value:
        """Correctly rounded square root: one instruction on every supported machine."""
        return self.trace.emit("fsqrt", Type.FLOAT, (self,))


class Row(NamedTuple):
    """One operation.

    ``number`` is what the operation needs besides values: the width of an access in bits, the
    position of an argument, or an alignment in bytes.
    """

    operation: str
    result: Value | None
    operands: tuple[Value, ...]
    number: int
    place: RowPlace


class Variable:
    """A mutable float or word that keeps its value across the iterations of a loop."""

    def __init__(self, trace: Trace, slot: Value) -> None:
        self._trace = trace
        self.slot = slot

    def get(self) -> Value:
        """The value at this point of the program."""
        return self._trace.emit("read", self.slot.type, (self.slot,))

    def set(self, value: Value | float) -> None:
        """Assign."""
        operand = self._trace.operand(value, self.slot.type)
        self._trace.append("set", None, (self.slot, operand))


def select(condition: Value, yes: Value | float, no: Value | float) -> Value:
    """``yes`` if the condition holds, else ``no``. Both are evaluated."""
    type = next((each.type for each in (yes, no) if isinstance(each, Value)), Type.FLOAT)
    trace = condition.trace
    operands = (condition, trace.operand(yes, type), trace.operand(no, type))
    return trace.emit("select", type, operands)


class Trace:
    """The rows of one kernel, in program order.

    ``tile`` splits outermost loops into blocks of that many iterations; 0 leaves them alone. The
    order of operations on an element does not change, so results stay the same. Rows that no line
    of a definition asked for, such as the arguments, are attributed to the first line of
    ``origin``.
    """

    def __init__(self, origin: Callable[..., object], tile: int = 0) -> None:
        self.rows: list[Row] = []
        self._origin = _first_line(origin)
        self._tile = tile
        self._depth = 0
        self._numbers = 0
        self._files: dict[tuple[str, str], str] = {}

    def operand(self, value: Value | float, type: Type) -> Value:
        """``value`` as an operand of ``type``; Python numbers become constants.

        Raises ``TypeError`` if the value has another type, which is a mistake in an operator
        definition.
        """
        if isinstance(value, Value):
            if value.type is not type:
                raise TypeError(f"a {type.name} operation got the {value.type.name} {value.name}")
            return value
        if type is Type.FLOAT:
            return Value(self, type, 0, struct.unpack("<f", struct.pack("<f", value))[0])
        if type is Type.WORD:
            return Value(self, type, 0, int(value) & 0xFFFFFFFF)
        return Value(self, type, 0, int(value))

    def index(self, value: int) -> Value:
        """A 64-bit constant."""
        return Value(self, Type.INDEX, 0, value)

    def word(self, value: int) -> Value:
        """A 32-bit constant."""
        return self.operand(value, Type.WORD)

    def floating(self, value: float) -> Value:
        """A float constant, rounded to binary32."""
        return self.operand(value, Type.FLOAT)

    def emit(
        self, operation: str, type: Type, operands: tuple[Value, ...], number: int = 0
    ) -> Value:
        """Append a row, and return its result."""
        if type is Type.INDEX and operation in ("add", "mul"):
            folded = self._fold(operation, *operands)
            if folded is not None:
                return folded
        result = self._fresh(type)
        self.append(operation, result, operands, number)
        return result

    def append(
        self, operation: str, result: Value | None, operands: tuple[Value, ...], number: int = 0
    ) -> None:
        """Append a row, which may have no result."""
        self.rows.append(Row(operation, result, operands, number, self._place()))

    def argument(self, position: int) -> Value:
        """The pointer ``in_out[position]``."""
        return self.emit("argument", Type.POINTER, (), position)

    def reject_unusable(self, pointer: Value | None, alignment: int) -> None:
        """Return 1 from the kernel if the pointer is null or not aligned to ``alignment`` bytes.

        ``None`` stands for ``in_out`` itself.
        """
        self.append("reject", None, () if pointer is None else (pointer,), alignment)

    def load(self, pointer: Value, index: Value, bits: int) -> Value:
        """Element ``index``: 8, 16 or 32 bits as a zero-extended word, or 64 bits as an index."""
        type = Type.INDEX if bits == 64 else Type.WORD
        return self.emit("load", type, (pointer, index), bits)

    def store(self, pointer: Value, index: Value, bits: int, word: Value) -> None:
        """Write the low 8, 16 or 32 bits of ``word``, or the 64 of an index, to one element."""
        self.append("store", None, (pointer, index, word), bits)

    def variable(self, initial: Value | float, type: Type = Type.FLOAT) -> Variable:
        """A variable that starts as ``initial``; ``type`` is that of a Python number."""
        if isinstance(initial, Value):
            type = initial.type
        slot = self._fresh(type)
        self.append("variable", slot, (self.operand(initial, type),))
        return Variable(self, slot)

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int = 1) -> Iterator[Value]:
        """Repeat what the ``with`` block traces for ``start <= index < stop``; yields the index."""
        counter = self._fresh(Type.INDEX)
        stride = self.index(step)
        self._depth += 1
        self.append("loop", counter, (start, stop, stride))
        yield counter
        self.append("end", counter, (start, stop, stride))
        self._depth -= 1

    @contextmanager
    def nest(self, extents: Sequence[int]) -> Iterator[list[Value]]:
        """Nest loops over all ``extents``, the last one innermost; yields their counters."""
        tile = 0 if self._depth else self._tile
        with ExitStack() as loops:
            bounds = []
            for extent in extents:
                if extent == 1:
                    continue
                if 0 < tile < extent:
                    first = loops.enter_context(self.loop(self.index(0), self.index(extent), tile))
                    last = first + tile
                    if extent % tile:
                        last = self.emit("smin", Type.INDEX, (last, self.index(extent)))
                    bounds.append((first, last))
                else:
                    bounds.append((self.index(0), self.index(extent)))
            running = iter([loops.enter_context(self.loop(*each)) for each in bounds])
            yield [self.index(0) if extent == 1 else next(running) for extent in extents]

    def _fresh(self, type: Type) -> Value:
        self._numbers += 1
        return Value(self, type, self._numbers)

    def _fold(self, operation: str, left: Value, right: Value) -> Value | None:
        """The result of arithmetic on constant offsets, which keeps the printed text short."""
        first, second = left.constant, right.constant
        neutral = 0 if operation == "add" else 1
        if first is not None and second is not None:
            return self.index(int(first + second if operation == "add" else first * second))
        if operation == "mul" and 0 in (first, second):
            return self.index(0)
        return right if first == neutral else left if second == neutral else None

    def _place(self) -> RowPlace:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in _MACHINERY:
            frame = frame.f_back
        if frame is None or frame.f_globals.get("__name__") == _ENTRANCE:
            return self._origin
        key = (str(frame.f_globals.get("__name__")), frame.f_code.co_filename)
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = _file_name(*key)
        return RowPlace(file, frame.f_lineno)


def _first_line(function: Callable[..., object]) -> RowPlace:
    code = getattr(function, "__code__", None)
    if code is None:
        return RowPlace(_file_name(function.__module__, f"{function.__module__}.py"), 1)
    return RowPlace(_file_name(function.__module__, code.co_filename), code.co_firstlineno)


def _file_name(module: str, path: str) -> str:
    """The name of a module's file, which must not depend on where the package is installed."""
    package, _, inside = module.partition(".")
    if package == _PACKAGE and inside:
        return inside.replace(".", "/") + ".py"
    return PurePath(path).name
