"""Generated mutants of the reference: one small change of one expression each.

Seeded defects show that the suite notices what its authors thought of. Mutants show how much it
notices of what they did not think of. A mutant is the reference with one comparison, connective,
constant, call or return value changed; the suite judges it like any toolchain. ``ci/qualify`` lists
the mutants that survive. ``mutants.toml`` has the triage verdict of those we examined:
*equivalent* (no run can tell), *not promised* (no document speaks of the difference), or *missed*.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest_ascendcache
from pytest_ascendcache.qualification.catalogue import Defect
from pytest_ascendcache.qualification.reach import Lines
from pytest_ascendcache.reference.policies import Policies

_PACKAGE = Path(pytest_ascendcache.__file__).parent
PREFIX = "mutant-"
"""The prefix of names of mutants; no seeded defect has it."""

TARGETS = (
    "reference/cache/*.py",
    "reference/compiler.py",
    "reference/mode.py",
    "reference/debug.py",
    "reference/impl_mode.py",
    "reference/incremental/[!w]*.py",
    "reference/static_kernel/index*.py",
    "reference/static_kernel/registry.py",
    "reference/static_kernel/selection.py",
    "reference/static_kernel/compilation.py",
)
"""The files of the reference that decide what the documents promise."""

_PAIRS = (
    *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.In, ast.NotIn)),
    *((ast.Is, ast.IsNot), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv)),
)
_OPPOSITES: Mapping[type[ast.AST], Any] = {
    one: other for pair in _PAIRS for one, other in (pair, pair[::-1])
}
_WORDS = 90


@dataclass(frozen=True)
class Mutant:
    """One change: its file, its function, its number among the file's changes, and a description.

    ``span`` are the first and the last line of the changed expression in the current file.
    """

    path: str
    function: str
    number: int
    what: str
    span: tuple[int, int]

    @property
    def place(self) -> str:
        """What is changed where. It stays the same as long as the expression does."""
        return f"{self.path}::{self.function}: {self.what}"

    @cached_property
    def name(self) -> str:
        """The mutant's name on command lines: its file and a short digest of its place."""
        digest = hashlib.sha256(self.place.encode()).hexdigest()[:8]
        return f"{PREFIX}{Path(self.path).stem}-{digest}"

    @property
    def lines(self) -> Lines:
        """The lines that a process runs if it runs the changed expression."""
        pending, numbers = [self.function_code], set()
        while pending:
            each = pending.pop()
            numbers |= {line for _, _, line in each.co_lines() if line is not None}
            pending += [inner for inner in each.co_consts if isinstance(inner, CodeType)]
        first, last = self.span
        # An expression need not start on a line that has code.
        own = {line for line in numbers if first <= line <= last} or numbers
        return frozenset((self.path, line) for line in own)

    @property
    def defect(self) -> Defect:
        """The mutant as a defect, with which the reference's programs can be started."""
        return Defect(self.name, (), self.place, self._policies)

    def _policies(self) -> Policies:
        """The plain policies. The function is changed in this process, permanently.

        This replaces its code object, so that subclasses and modules that already refer to the
        function call the changed one.
        """
        function = _living(self.path, self.function)
        function.__code__ = self.code(function.__code__)
        return Policies()

    def code(self, before: CodeType) -> CodeType:
        """The function's code with the change, to replace ``before``."""
        path = _PACKAGE / self.path
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # List all changes first: an inserted expression must not be changed again.
        _, node, change = list(_changes(tree))[self.number]
        change.make()
        # A change may remove the only use of super(), but free variables must stay the same.
        kept: list[ast.stmt] = [ast.Expr(ast.Name(each)) for each in before.co_freevars]
        if kept:
            node.body.append(ast.If(ast.Constant(False), kept, []))
        for each in ast.walk(tree):
            if isinstance(each, ast.Name) and not hasattr(each, "ctx"):
                each.ctx = ast.Load()
        changed = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
        return _code(changed, before)

    @property
    def function_code(self) -> CodeType:
        """The function's present code."""
        return _living(self.path, self.function).__code__


def _living(path: str, name: str) -> FunctionType:
    """The function that this process uses, without its wrappers."""
    module = path.removesuffix(".py").replace("/", ".")
    found: Any = importlib.import_module(f"{_PACKAGE.name}.{module}")
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "func", getattr(found, "__func__", found))
    function = inspect.unwrap(found)
    if not isinstance(function, FunctionType):
        raise TypeError(f"{path}: {name} is no function but {function!r}.")
    return function


def _code(module: CodeType, like: CodeType) -> CodeType:
    """The code of the same function in another compilation of its module."""
    pending = [module]
    while pending:
        code = pending.pop()
        if (code.co_name, code.co_firstlineno) == (like.co_name, like.co_firstlineno):
            return code
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    raise LookupError(f"{like.co_filename} has no {like.co_name} at line {like.co_firstlineno}.")


@lru_cache(maxsize=1)
def all_mutants() -> Mapping[str, Mutant]:
    """Every mutant of the reference's files by name, in a fixed order."""
    return {each.name: each for path in _files() for each in _mutants_of(path)}


def mutant(name: str) -> Mutant:
    """A mutant by name. Only its own file is read. Raises ``KeyError`` for an unknown name."""
    stem = name.removeprefix(PREFIX).rpartition("-")[0]
    near = (each for path in _files() if path.stem == stem for each in _mutants_of(path))
    return {each.name: each for each in near}[name]


def _files() -> list[Path]:
    return [path for pattern in TARGETS for path in sorted(_PACKAGE.glob(pattern))]


def _mutants_of(path: Path) -> Iterator[Mutant]:
    where = str(path.relative_to(_PACKAGE))
    met: Counter[tuple[str, str]] = Counter()
    changes = _changes(ast.parse(path.read_text(encoding="utf-8")))
    for number, (name, _, change) in enumerate(changes):
        met[name, change.words] += 1
        nth = met[name, change.words]
        what = change.words if nth == 1 else f"{change.words} (the {nth}. of them)"
        yield Mutant(where, name, number, what, change.span)


def sample(count: int, seed: int) -> list[Mutant]:
    """A random sample of mutants; a seed always gives the same one."""
    every = [*all_mutants().values()]
    return random.Random(seed).sample(every, min(count, len(every)))


@dataclass(frozen=True)
class _Change:
    """A change of one node: its description, what makes it, and the lines it affects."""

    words: str
    make: Callable[[], None]
    span: tuple[int, int]


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, _Change]]:
    """Every change of a module, with its function and the function's name."""
    for name, function in _functions(tree):
        for node in _decisions(function):
            shown = node.test if isinstance(node, (ast.If, ast.While)) else node
            for words, make in _changes_of(node):
                assert isinstance(shown, (ast.expr, ast.stmt))
                last = shown.end_lineno or shown.lineno
                yield name, function, _Change(words, make, (shown.lineno, last))


def _functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{outer}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{outer}{node.name}", node


def _decisions(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body except messages and errors."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, (ast.Raise, ast.JoinedStr)):
            continue
        yield node
        pending += ast.iter_child_nodes(node)


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    before = ast.unparse(node) if isinstance(node, (ast.expr, ast.stmt)) else ""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        other = _OPPOSITES[type(node.ops[0])]()
        yield _words(before, "opposite comparison"), lambda: setattr(node, "ops", [other])
    elif isinstance(node, ast.BoolOp):
        connective = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _words(before, "and/or"), lambda: setattr(node, "op", connective)
        neutral = ast.Constant(isinstance(node.op, ast.And))  # a connective takes two at least
        shorter = [*node.values[:-1], neutral]
        yield _words(before, "last left out"), lambda: setattr(node, "values", shorter)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPPOSITES:
        sign = _OPPOSITES[type(node.op)]()
        yield _words(before, "opposite arithmetic"), lambda: setattr(node, "op", sign)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        value = (not node.value) if isinstance(node.value, bool) else node.value + 1
        yield _words(before, f"is {value}"), lambda: setattr(node, "value", value)
    elif isinstance(node, ast.IfExp):
        body, orelse = node.body, node.orelse
        yield _words(before, "exchanged"), lambda: node.__dict__.update(body=orelse, orelse=body)
    elif isinstance(node, (ast.If, ast.While)):
        test = ast.unparse(node.test)
        for value in (True, False) if isinstance(node, ast.If) else (False,):
            constant = ast.Constant(value)
            yield (
                _words(f"if {test}", f"always {value}"),
                lambda constant=constant: setattr(node, "test", constant),  # type: ignore[misc]
            )
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id in ("sorted", "frozenset", "set"):
            yield (
                _words(before, "is a list"),
                lambda: node.__dict__.update(func=ast.Name("list"), keywords=[]),
            )
    elif (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and not ast.unparse(node.value.func).endswith(".step")  # only reports progress to the suite
    ):
        yield (_words(before, "not called"), lambda: setattr(node, "value", ast.Constant(None)))


def _words(before: str, change: str) -> str:
    flat = " ".join(before.split())
    return f"`{flat if len(flat) <= _WORDS else flat[:_WORDS] + '...'}` {change}"
