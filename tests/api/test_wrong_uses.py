"""Every wrong use of the API is refused three times: by mypy, by pyright, and by the call."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache import NetworkUnderTest, Run, WrongUse, operator, reference_toolchain
from pytest_ascendcache.caches import Entry, Snapshot
from pytest_ascendcache.contract import CompileOptions
from pytest_ascendcache.observation import (
    CacheUnderTest,
    NetworkControl,
    PositiveControl,
    StaticKernelsUnderTest,
)
from pytest_ascendcache.observation.impostor import Impostor
from pytest_ascendcache.toolchains import CompileRequest, CompileResult
from tests.api import wrong_uses

ROOT = Path(__file__).parents[2]
FILE = Path(wrong_uses.__file__)
USES: dict[str, Callable[..., object]] = {
    **wrong_uses.OF_A_CACHE,
    **wrong_uses.OF_NOTHING,
    **wrong_uses.OF_A_RUN,
    **wrong_uses.OF_AN_ENTRY,
    **wrong_uses.OF_NETWORKS,
}
LINES = {use.__code__.co_firstlineno for use in USES.values()}
OF_PYTHON = {
    "an option of options that does not exist",
    "a change of options that does not exist",
}
"""Refused by Python itself, in as many words."""


def _static(cache: CacheUnderTest) -> StaticKernelsUnderTest:
    place = cache.sandbox / "static"
    place.mkdir(parents=True)
    return StaticKernelsUnderTest(cache.toolchain, place, place / "shelf")


MORE = {
    "a chip in lower case": lambda cache: cache.compile(wrong_uses.ADD, soc="ascend910b1"),
    "a negative debug level": lambda cache: cache.compile(wrong_uses.ADD, debug_level=-1),
    "a debug level too high": lambda cache: cache.warm(wrong_uses.ADD, debug_level=9),
    "no operator": lambda cache: cache.compile(),
    "a package that does not exist": lambda cache: _static(cache).install("nothing.run"),
    "an empty directory": lambda cache: cache.compile(wrong_uses.ADD, cache_dir=""),
    "a type in lower case": lambda _: operator("add", "float16", 4),
    "a type that does not exist": lambda _: operator("Add", "float61", 4),
    "a shape too many": lambda _: operator("Exp", "float16", (4,), (4,)),
    "shapes that do not fit": lambda _: operator("MatMulV2", "float16", (4, 8), (3, 2)),
}
"""Wrong uses that no type can tell."""


def _lines_of(output: str) -> set[int]:
    return {int(each) for each in re.findall(rf"{FILE.name}:(\d+)", output)}


@pytest.fixture
def given(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the uses take, without a run of the toolchain."""
    toolchain = reference_toolchain()
    try:
        cache = CacheUnderTest(toolchain, tmp_path / "cache", PositiveControl())
        request: CompileRequest = cache.request(wrong_uses.ADD)
        result = CompileResult(
            argv=("atc",),
            returncode=0,
            output="",
            deadline=1.0,
            request=request,
            environment={},
            delivered=(tmp_path / "add.om",),
        )
        nothing = Snapshot({})
        yield {
            "cache": cache,
            "networks": NetworkUnderTest(
                toolchain, tmp_path / "networks", NetworkControl(Impostor(b"", ""))
            ),
            "run": Run(result, (wrong_uses.ADD,), nothing, nothing, {}, {}, ""),
            "entry": Entry("te_add_0", tmp_path),
        }
    finally:
        toolchain.close()


def _is_sentence(text: str) -> bool:
    return "\n" not in text and text.endswith((".", "?")) and len(text) < 300


@pytest.mark.parametrize("name", USES)
def test_the_call_is_refused_in_one_sentence(name: str, given: dict[str, Any]) -> None:
    use = USES[name]
    arguments = {each: given[each] for each in inspect.signature(use).parameters}
    with pytest.raises((WrongUse, TypeError, AttributeError)) as raised:
        use(**arguments)
    if name not in OF_PYTHON:
        assert _is_sentence(str(raised.value)), raised.value
        assert isinstance(raised.value, WrongUse) or "use object_path" in str(raised.value)


@pytest.mark.parametrize("name", MORE)
def test_what_no_type_can_tell_is_refused_too(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(WrongUse) as raised:
        MORE[name](given["cache"])
    assert _is_sentence(str(raised.value)), raised.value


def test_mypy_refuses_each() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(FILE)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = _lines_of(ended.stdout)
    assert found == LINES, ended.stdout + ended.stderr


@pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("pyright", path=Path(sys.executable).parent)),
    reason="pyright needs node",
)
def test_pyright_refuses_each() -> None:
    pyright = shutil.which("pyright", path=Path(sys.executable).parent)
    assert pyright is not None
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, str(FILE)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(ended.stdout)["generalDiagnostics"]
    lines = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert lines == LINES, ended.stdout


def test_there_are_many_of_them() -> None:
    assert len(LINES) == len(USES) >= 55
    assert CompileOptions(cache_mode="enable") == CompileOptions().but(cache_mode="enable")  # type: ignore[arg-type]
