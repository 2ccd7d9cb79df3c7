"""The facts of a failed check, where no judge recorded any.

They are typed values that were compared (outcomes and fates), or the condition that does not hold,
as it stands in the check's code. No text made for people is read.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from pytest_ascendcache.contract import Delivered, Fate, Outcome
from pytest_ascendcache.contract.facts import (
    Aspect,
    Ending,
    Fact,
    FactWitness,
    Words,
    outcome_fact,
)
from pytest_ascendcache.observation.evidence import Step

_Entry = Outcome | Fate | Delivered
_NAME = "pytest_ascendcache"

_REWRITTEN = "@pytest_ar"
"""A global of each module whose assertions pytest has rewritten."""
_SUITE = Path(__file__).parent.parent / "conformance"

_WORDS = ("output", "words", "said")
_NAMING = ("named", "_names")
"""Names that the suite uses for a toolchain's output, and for looking for names in it."""


@dataclass(frozen=True)
class Compared:
    """The last comparison that failed in an assertion, and the code and line that made it."""

    code: CodeType | None
    line: int
    facts: tuple[Fact, ...]


_COMPARED: pytest.StashKey[Compared] = pytest.StashKey()
_NOTHING = Compared(None, 0, ())


def remember(config: pytest.Config, op: str, left: object, right: object) -> None:
    """Keep the facts of a comparison that pytest explains, until the check has ended."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _asserts(frame):
        frame = frame.f_back
    code, line = (frame.f_code, frame.f_lineno) if frame is not None else (None, 0)
    config.stash[_COMPARED] = Compared(code, line, tuple(_of_values(op, left, right)))


def forget(config: pytest.Config) -> None:
    """Forget the last comparison: another check follows, maybe of the same code."""
    config.stash[_COMPARED] = _NOTHING


def _asserts(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return _REWRITTEN in frame.f_globals and not name.startswith("pytest_ascendcache.plugin.")


def _of_values(op: str, left: object, right: object) -> Iterator[Fact]:
    """The facts of compared outcomes or fates, one by one or in collections."""
    allowed = [each for _, each in _named(right)]
    if op not in ("==", "is", "in") or not allowed:
        return
    for about, observed in _named(left):
        mine = right.get(about, allowed) if isinstance(right, Mapping) else allowed
        due = mine if isinstance(mine, list) else [mine]
        if observed not in due:
            name = "" if about is None else about
            yield outcome_fact(observed, due, name, witness=FactWitness.MARKER)


def _named(value: object) -> Iterator[tuple[Any, _Entry]]:
    """The outcomes and fates in a value, by their names in a mapping."""
    values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    pairs = value.items() if isinstance(value, Mapping) else ((None, each) for each in values)
    return ((name, each) for name, each in pairs if isinstance(each, _Entry))


def facts_of(item: pytest.Item, call: pytest.CallInfo[None], steps: Sequence[Step]) -> list[Fact]:
    """The facts of a check that says a promise is broken and has recorded none itself. ``steps``
    are its runs, which show what was under test."""
    return [_placed(fact, steps) for fact in _facts(item, call)]


def _placed(fact: Fact, steps: Sequence[Step]) -> Fact:
    """The fact with the number of its run and what rules over it: the last run, or for an outcome
    the last one that shows it."""
    if fact.subject is not None or not steps:
        return fact
    showing = [number for number, step in enumerate(steps) if fact.observed in step.codes]
    number = showing[-1] if fact.aspect is Aspect.OUTCOME and showing else len(steps) - 1
    return replace(fact, run=number + 1, subject=steps[number].subject)


def _facts(item: pytest.Item, call: pytest.CallInfo[None]) -> list[Fact]:
    compared = item.config.stash.get(_COMPARED, _NOTHING)
    place = _place(item, call)
    if place is None:
        return [Fact.of(Aspect.CLAIM, "not run", witness=FactWitness.CONDITION)]
    path, line = Path(place.path), place.lineno + 1
    # The smallest statement around the line.
    around = [each for each in _statements(path) if _spans(each, line)]
    statement = min(around, key=lambda each: (each.end_lineno or 0) - each.lineno, default=None)
    # An earlier comparison of the same function may have been caught.
    same = compared.code is place.frame.raw.f_code
    if compared.facts and same and (statement is None or _spans(statement, compared.line)):
        return list(compared.facts)
    said = place.name
    if isinstance(statement, ast.Assert):
        if fact := _of_condition(statement.test):
            return [fact]
        is_own = said == (getattr(item, "originalname", None) or item.name)
        counted = _counted(path, line, ast.unparse(statement.test))
        said = counted if is_own else f"{said}: {counted}"
    return [Fact.of(Aspect.CLAIM, said, witness=FactWitness.CONDITION)]


def open_facts(call: pytest.CallInfo[None]) -> list[Fact]:
    """The fact that a check could not tell: which part of the package, or of a user's check, said
    so."""
    if call.excinfo is None:
        return []
    frames = [each.frame.raw for each in call.excinfo.traceback]
    ours = [each for each in frames if each.f_globals.get("__name__", "").startswith(_NAME)]
    if not ours:
        return [Fact.of(Aspect.UNDECIDED, call.excinfo.typename, witness=FactWitness.CONDITION)]
    module = ours[-1].f_globals["__name__"].removeprefix(f"{_NAME}.")
    origin = f"{call.excinfo.typename} in {module}.{ours[-1].f_code.co_name}"
    return [Fact.of(Aspect.UNDECIDED, origin, witness=FactWitness.CONDITION)]


def _place(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """The innermost entry of the traceback in the check, or in the suite's helpers, if any."""
    entries = () if call.excinfo is None else reversed(call.excinfo.traceback)
    paths = ((Path(each.path), each) for each in entries)
    mine = (each for path, each in paths if path == item.path or path.is_relative_to(_SUITE))
    return next(mine, None)


def _spans(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


@lru_cache(maxsize=64)
def _statements(path: Path) -> Sequence[ast.stmt]:
    try:
        parsed = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ()
    return [each for each in ast.walk(parsed) if isinstance(each, ast.stmt)]


def _counted(path: Path, line: int, condition: str) -> str:
    """A condition, with its number if the function has several that read the same."""
    functions = [
        each
        for each in _statements(path)
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and _spans(each, line)
    ]
    if not functions:
        return condition
    inner = max(functions, key=lambda each: each.lineno)
    alike = [
        each.lineno
        for each in ast.walk(inner)
        if isinstance(each, ast.Assert) and ast.unparse(each.test) == condition
    ]
    number = sum(each <= line for each in alike)
    return f"{condition} #{number}" if number > 1 else condition


def _of_condition(condition: ast.expr) -> Fact | None:
    """The fact of a condition that asks how a process ended, or what it printed."""
    negated = isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)
    inner = condition.operand if isinstance(condition, ast.UnaryOp) and negated else condition
    if isinstance(inner, ast.Attribute) and inner.attr == "succeeded":
        observed, due = (
            (Ending.SUCCESS, Ending.REFUSAL) if negated else (Ending.FAILURE, Ending.SUCCESS)
        )
        return Fact.of(Aspect.ENDING, observed, (due,), witness=FactWitness.PROCESS)
    text = ast.unparse(condition)  # no operator of a network's run may be compiled
    if isinstance(condition, ast.Compare) and text.endswith(".compiled == frozenset()"):
        return outcome_fact(Delivered.COMPILED, [Delivered.REUSED])
    if _is_about_words(condition):
        return Fact.of(Aspect.WORDS, Words.MISSING, (Words.AS_DUE,), witness=FactWitness.OUTPUT)
    return None


def _is_about_words(condition: ast.expr) -> bool:
    """Whether a condition looks for words in what a toolchain printed."""
    nodes = list(ast.walk(condition))
    looked_in = [
        where
        for node in nodes
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn))
        for where in node.comparators
    ]
    named = [condition, *(node.func for node in nodes if isinstance(node, ast.Call))]
    return any(isinstance(each, ast.Name) and each.id in _NAMING for each in named) or any(
        (isinstance(each, ast.Attribute) and each.attr == "output")
        or (isinstance(each, ast.Name) and each.id in _WORDS)
        for each in looked_in
    )
