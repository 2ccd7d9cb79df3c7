"""What tests need has one door: ``from pytest_ascendcache import ...``."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_ascendcache
from pytest_ascendcache import Outcome, operator
from pytest_ascendcache.contract.outcome import COMPILED, KEPT, REUSED, STORED

ROOT = Path(__file__).parents[2]
DOORS = {"pytest_ascendcache", "pytest_ascendcache.toolchains"}
"""Tests import from the first, adapters of toolchains from both."""

INTERNAL = {
    "docs/static-kernel-client.md": {"pytest_ascendcache.reference.static_kernel"},
}
"""Pages that show the reference's own modules, which no test needs."""


def test_few_names_are_public() -> None:
    names = pytest_ascendcache.__all__
    assert len(names) <= 25
    assert sorted(names, key=lambda each: (each[0].islower(), each)) == names
    assert all(getattr(pytest_ascendcache, each) is not None for each in names)
    assert {*names} <= {*dir(pytest_ascendcache)}
    with pytest.raises(AttributeError, match="has no attribute 'compile'"):
        _ = pytest_ascendcache.compile


def test_type_checkers_see_the_same_names() -> None:
    source = Path(pytest_ascendcache.__file__).read_text(encoding="utf-8")
    (guarded,) = [each for each in ast.parse(source).body if isinstance(each, ast.If)]
    imported = {
        alias.name: each.module
        for each in guarded.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert imported.keys() == {*pytest_ascendcache.__all__}
    places = {
        name: f"pytest_ascendcache.{place}"
        for place, names in pytest_ascendcache._PLACES.items()
        for name in names
    }
    assert places == imported


def test_the_door_loads_nothing_before_it_is_used() -> None:
    code = (
        "import sys, pytest_ascendcache\n"
        "loaded = [each for each in sys.modules if each.startswith('pytest_ascendcache.')]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/zh").glob("*.md")),
    *sorted((ROOT / "docs").glob("example*/**/*.py")),
    *(ROOT / name for name in ("README.md", "README.zh.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_what_users_read_imports_from_the_door_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    imported = set(re.findall(r"^\s*(?:from|import) (pytest_ascendcache[\w.]*)", text, re.M))
    allowed = DOORS | INTERNAL.get(page.relative_to(ROOT).as_posix(), set())
    assert imported <= allowed


# --- what comes through it ------------------------------------------------------------------


def test_an_operator_is_one_line() -> None:
    add = operator("Add", "float16", 4, 8)
    assert str(add) == "Add(float16[4, 8], float16[4, 8])"
    assert add.outputs[0].shape == (4, 8)
    matmul = operator("MatMulV2", "float16", (4, 8), [8, 2], name="scores")
    assert (matmul.outputs[0].shape, matmul.name) == ((4, 2), "scores")
    mean = operator("ReduceMeanD", "float32", 8, 4, axes=[1], keep_dims=False)
    assert mean.outputs[0].shape == (8,)
    assert mean.attribute("axes") == (1,)
    unknown = operator("OurOwn", "float16", 4, output=(2, 2))
    assert (len(unknown.inputs), unknown.outputs[0].shape) == (1, (2, 2))


def test_an_outcome_can_be_asked_and_read() -> None:
    new, hit = Outcome(COMPILED, STORED), Outcome(REUSED, KEPT)
    assert (new.compiled, new.stored, new.reused, new.kept) == (True, True, False, False)
    assert hit.reused
    assert hit.kept
    assert repr(new) == "<the kernel was compiled and its entry was stored>"


def test_a_failed_assertion_is_a_sentence(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_ascendcache import operator

        ADD = operator("Add", "float16", 4, 8)

        def test_mine(ascend_cache):
            run = ascend_cache.compile(ADD, mode="enable")
            assert run[ADD].stored
            assert run[ADD].reused
        """
    )
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*<the kernel was compiled and its entry was stored>.reused"])
