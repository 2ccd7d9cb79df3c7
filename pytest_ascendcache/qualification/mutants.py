"""Generated mutants of the reference: one small change of one expression, which nobody chose.

The seeded defects say that the suite notices what its authors thought of. Mutants say how much it
notices of what nobody did. A mutant is the reference with one comparison, connective, constant,
call or return value changed; the suite judges it like any toolchain. What it does not notice is
listed with its place, and ``mutants.toml`` says of those that were looked at why: *equivalent* (no
run can tell), *not promised* (a difference that no document speaks of), or *missed*.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest_ascendcache

_PACKAGE = Path(pytest_ascendcache.__file__).parent
_COPIED = ("reference", "operators")
"""The rooms a run of the reference needs."""

TARGETS: Mapping[str, tuple[str, ...]] = {
    "reference/cache/*.py": ("cache_mode", "robustness"),
    "reference/compiler.py": ("cache_mode", "impl_mode", "robustness"),
    "reference/mode.py": ("cache_mode",),
    "reference/debug.py": ("cache_mode",),
    "reference/impl_mode.py": ("impl_mode", "cache_mode"),
    "reference/incremental/[!w]*.py": ("incremental", "robustness"),
    "reference/static_kernel/index*.py": ("static_kernel",),
    "reference/static_kernel/registry.py": ("static_kernel",),
    "reference/static_kernel/selection.py": ("static_kernel",),
    "reference/static_kernel/compilation.py": ("static_kernel",),
}
"""Files of the reference -> the folders of the suite that speak of what they do."""

_OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_WORDS = 90


@dataclass(frozen=True)
class Mutant:
    """One change: in which file, in which function, which of its changes, in words."""

    path: str
    function: str
    number: int
    what: str
    rooms: tuple[str, ...]

    @property
    def name(self) -> str:
        """Names the change as long as its expression stays: independent of line numbers."""
        return f"{self.path}::{self.function}: {self.what}"

    def write(self, directory: Path) -> None:
        """Copy the reference with this change into it below ``directory``."""
        package = directory / _PACKAGE.name
        for room in _COPIED:
            shutil.copytree(
                _PACKAGE / room, package / room, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(_PACKAGE / "__init__.py", package)
        tree = ast.parse((_PACKAGE / self.path).read_text(encoding="utf-8"))
        for number, (_, _, change) in enumerate(_changes(tree)):
            if number == self.number:
                change()
        (package / self.path).write_text(ast.unparse(ast.fix_missing_locations(tree)))

    def asked(
        self, rooms: Callable[[tuple[str, ...]], list[str]], most: int = 1
    ) -> Callable[[Path], list[str]]:
        """A run of the suite on it, up to ``most`` checks that do not pass."""

        def ask(directory: Path) -> list[str]:
            self.write(directory)
            # Of the child that asks; the reference's processes inherit it.
            os.environ["PYTHONPATH"] = str(directory)
            limits = ("--ascend-timeout=120", "--ascend-strict", f"--maxfail={most}")
            return ["--ascend-cache", *limits, *rooms(self.rooms)]

        return ask


@lru_cache(maxsize=1)
def all_mutants() -> tuple[Mutant, ...]:
    """Every mutant of the reference's files, in a fixed order."""
    return tuple(
        Mutant(str(path.relative_to(_PACKAGE)), function, number, what, rooms)
        for pattern, rooms in TARGETS.items()
        for path in sorted(_PACKAGE.glob(pattern))
        for number, (function, what, _) in enumerate(
            _changes(ast.parse(path.read_text(encoding="utf-8")))
        )
    )


def sample(count: int, seed: int) -> list[Mutant]:
    """Some of them, the same for one seed; each file in proportion to what it decides."""
    every = all_mutants()
    return random.Random(seed).sample(every, min(count, len(every)))


Change = Callable[[], None]


def _changes(tree: ast.Module) -> Iterator[tuple[str, str, Change]]:
    """Every change of a module: the function, the words, and what carries it out."""
    for name, function in _functions(tree):
        for node in _decisions(function):
            for words, change in _changes_of(node):
                yield name, words, change


def _functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{outer}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{outer}{node.name}", node


def _decisions(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What a function's body decides by; not its annotations, messages and errors."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, (ast.Raise, ast.JoinedStr)):
            continue
        yield node
        pending += ast.iter_child_nodes(node)


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Change]]:
    before = ast.unparse(node) if isinstance(node, (ast.expr, ast.stmt)) else ""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        other = _OPPOSITES[type(node.ops[0])]()
        yield _words(before, "opposite comparison"), lambda: setattr(node, "ops", [other])
    elif isinstance(node, ast.BoolOp):
        connective = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _words(before, "and/or"), lambda: setattr(node, "op", connective)
        shorter = node.values[:-1]
        yield _words(before, "last left out"), lambda: setattr(node, "values", shorter)
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        sign = _ARITHMETIC[type(node.op)]()
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
        and not ast.unparse(node.value.func).endswith(".step")  # only tells the suite where it is
    ):
        yield (
            _words(before, "not called"),
            lambda: setattr(node, "value", ast.Constant(None)),
        )


def _words(before: str, change: str) -> str:
    flat = " ".join(before.split())
    return f"`{flat if len(flat) <= _WORDS else flat[:_WORDS] + '...'}` {change}"
