"""The example in ``docs/``: a user's own toolchain, with a different kind of cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_ascendcache.contract import Capability
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import BaseToolchain, ToolchainError

EXAMPLE = Path(__file__).parents[2] / "docs/example-ccache"
X = TensorDesc.of("float32", 4)
ABS = OperatorSpec("Abs", (X,), (X,), name="abs")

needs_ccache = pytest.mark.skipif(
    shutil.which("ccache") is None or shutil.which("gcc") is None,
    reason="the example is about ccache and gcc: apt-get install ccache gcc",
)


@pytest.fixture
def example(pytester: pytest.Pytester) -> pytest.Pytester:
    for path in EXAMPLE.glob("*.*"):
        shutil.copy(path, pytester.path)
    return pytester


def test_a_base_toolchain_says_what_it_lacks(tmp_path: Path) -> None:
    toolchain = BaseToolchain()
    toolchain.name = "mine"
    assert (toolchain.soc, toolchain.birthmarks, toolchain.details) == ("Ascend910B1", False, {})
    assert toolchain.installed_socs is None
    for lacking, ask in (
        (Capability.OPERATOR_CACHE, lambda: toolchain.compile_together([])),
        (Capability.RUN_KERNELS, lambda: toolchain.run_kernel(tmp_path, ABS, [])),
        (
            Capability.VERSION_STAMP,
            lambda: toolchain.stage(Capability.VERSION_STAMP, ABS, tmp_path),
        ),
        (Capability.IMPL_MODE_TABLES, toolchain.impl_mode_tables),
        (Capability.FAULT_POINTS, toolchain.fault_route),
    ):
        with pytest.raises(ToolchainError) as error:
            ask()
        assert str(error.value).startswith("mine")
        assert lacking.lacking in str(error.value)
    toolchain.close()


@needs_ccache
def test_the_example_keeps_all_promises_but_one(example: pytest.Pytester) -> None:
    options = ["-p", "no:cacheprovider"]
    result = example.runpytest_subprocess(*options)
    result.assert_outcomes(passed=8, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_ccache.py::test_force_removes_what_was_there*"])
    known = example.runpytest_subprocess(*options, "--ascend-deviations=deviations.toml")
    assert known.ret == pytest.ExitCode.OK
    assert known.parseoutcomes() == {"passed": 8, "known": 1}


@needs_ccache
def test_the_suite_is_not_for_a_cache_of_another_kind(example: pytest.Pytester) -> None:
    result = example.runpytest_subprocess(
        *("--ascend-cache", "--ascend-toolchain=ccache", "-k", "force_then", "-rs"),
        *("--ascend-rule=cache-mode/force-then-enable", "-p", "no:cacheprovider"),
        *("--pyargs", "pytest_ascendcache.conformance.cache_mode.test_cache_mode"),
        *("-k", "test_enable_reuses_what_force_stored"),
    )
    result.stdout.fnmatch_lines(
        [
            "not applicable: cache-mode, 1 check: ccache: does not lay its cache out as CANN does",
            "1 check: 0 pass*1 not applicable*",
            "NOTHING WAS JUDGED: none of 1 check is applicable",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


NEVER_HITS = """#!/bin/sh
exec "$@"
"""
ALWAYS_HITS = """#!/bin/sh
for last; do :; done
[ -e "$CCACHE_DIR/o" ] || { "$@"; mkdir -p "$CCACHE_DIR"; cp "$last" "$CCACHE_DIR/o"; }
cp "$CCACHE_DIR/o" "$last"
"""


@needs_ccache
@pytest.mark.parametrize(
    ("script", "broken"),
    [
        pytest.param(
            NEVER_HITS,
            ["enable_reuses", "enable_reuses_what_force_stored"],
            marks=pytest.mark.nightly,
        ),
        (ALWAYS_HITS, ["a_change_is_compiled*type*", "disable_leaves_the_cache_alone"]),
    ],
)
def test_the_example_finds_bad_caches(
    example: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, script: str, broken: list[str]
) -> None:
    program = example.path / "bin/ccache"
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    result = example.runpytest_subprocess("-p", "no:cacheprovider")
    for name in broken:
        result.stdout.fnmatch_lines([f"FAILED test_ccache.py::test_{name}*"])


def test_what_the_example_needs(
    example: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = example.runpytest_subprocess("--ascend-cache", "--ascend-toolchain=ccache")
    result.stderr.fnmatch_lines(
        ["ERROR: --ascend-toolchain=ccache: ccache and gcc are needed: apt-get install*"]
    )
