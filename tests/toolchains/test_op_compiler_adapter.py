"""``--ascend-toolchain=op-compiler:PATH``: the suite judges what has op_compiler's interface."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("ascendcache-op-compiler")
TWELVE_DIGITS = """\
#!/bin/sh
# Names packages like CANN 8. Everything else is the reference's.
while getopts p:v:j:o: name; do
    case $name in o) output=$OPTARG ;; p) params=$OPTARG ;; v) soc=$OPTARG ;; esac
done
exec {command} -p "$params" -v "$soc" -j 2 -o "$output/static_kernel_$(date +%y%m%d%H%M%S)"
"""


def _judged(suite: pytest.Pytester, *arguments: str) -> dict[str, str]:
    """Judge an op_compiler. Returns the verdicts by rule."""
    options = ["--ascend-cache", "--ascend-report=report.json", *arguments]
    options += ["--pyargs", "pytest_ascendcache.conformance"]
    suite.runpytest_subprocess(*options, timeout=300)
    report = json.loads((suite.path / "report.json").read_text())
    return {rule["id"]: rule["verdict"] for rule in report["rules"] if rule["verdict"]}


def test_a_command_is_judged_by_its_packages(suite: pytest.Pytester) -> None:
    rules = ("static-kernel/failed-operator", "static-kernel/verified", "cache-mode/enable-stores")
    verdicts = _judged(
        suite,
        f"--ascend-toolchain=op-compiler:{COMMAND}",
        *(f"--ascend-rule={rule}" for rule in (*rules, "static-kernel/mode")),
    )
    assert verdicts["static-kernel/failed-operator"] == "pass"
    assert verdicts["static-kernel/verified"] == "pass"
    assert verdicts["cache-mode/enable-stores"] == "not applicable"
    assert verdicts["static-kernel/mode"] == "not applicable"


@pytest.mark.nightly  # test_command_is_judged covers the adapter by day
def test_names_of_twelve_digits_are_a_known_kind(suite: pytest.Pytester) -> None:
    """The check accepts such names. Their collision within a second is a separate finding."""
    command = suite.path / "op_compiler"
    command.write_text(TWELVE_DIGITS.format(command=COMMAND))
    command.chmod(0o755)
    verdicts = _judged(
        suite,
        f"--ascend-toolchain=op-compiler:{command}",
        "--ascend-rule=static-kernel/one-binary-per-shape",
        "--ascend-rule=static-kernel/package-names",
    )
    assert verdicts["static-kernel/one-binary-per-shape"] == "pass"
    assert verdicts["static-kernel/package-names"] == "warn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--ascend-toolchain=op-compiler:nowhere/op_compiler"],
            "nowhere/op_compiler: '",  # the option and the reason
        ),
        (
            ["--ascend-toolchain=op-compiler:a", "--ascend-atc=b"],
            "does not go with --ascend-toolchain=op-compiler:a",
        ),
        (
            ["--ascend-toolchain=atc:a", "--ascend-atc=b"],
            "does not go with --ascend-toolchain=atc:a",
        ),
    ],
)
def test_what_cannot_be_judged(suite: pytest.Pytester, arguments: list[str], message: str) -> None:
    result = suite.runpytest_subprocess("--ascend-cache", "--collect-only", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
