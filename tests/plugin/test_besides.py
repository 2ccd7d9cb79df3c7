"""What holds after every run is told of a rule of its own, whatever the check asks about."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

WRAPPER = """\
#!/bin/sh
for each; do case $each in --op_compiler_cache_dir=*) root=${{each#*=}} ;; esac; done
ascendcache-atc "$@"
code=$?
{habit}
exit $code
"""
LEAVES = "echo done > notes.txt"
OPENS = '[ ! -d "$root" ] || chmod -R a+w "$root"'
CUTS = 'for each in "$root"/*/*/te_*.o; do [ ! -e "$each" ] || truncate -s 100 "$each"; done'
CHECK = "test_default_stores_nothing or test_enable_stores_every_operator_of_a_run"
MODES, STORES = "security/private-modes", "cache-mode/enable-stores"


@pytest.fixture
def judge(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Judges a toolchain that has this habit after each run: exit status, broken promises."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    program = pytester.path / "atc"

    def judge(habit: str, *options: str):
        program.write_text(WRAPPER.format(habit=habit))
        program.chmod(0o755)
        result = pytester.runpytest_subprocess(
            *("--ascend-cache", f"--ascend-atc={program}", "-k", CHECK, "--ascend-report=r.json"),
            *options,
            *("-p", "no:cacheprovider", "--pyargs", "pytest_ascendcache.conformance.cache_mode"),
        )
        checks = json.loads((pytester.path / "r.json").read_text())["checks"]
        broken = {
            (each["rule"], each["verdict"], each["evidence"]["starts"], each["harm"])
            for each in checks
            if each["verdict"] != "pass"
        }
        return result, broken

    return judge


@pytest.mark.parametrize(
    ("habit", "options", "broken", "status"),
    [
        (":", [], set(), 0),
        (LEAVES, [], {(MODES, "warn", 0, "misplaced")}, 0),
        (LEAVES, ["--ascend-strict"], {(MODES, "fail", 0, "misplaced")}, 1),
        (LEAVES, ["-n2", "--ascend-strict"], {(MODES, "fail", 0, "misplaced")}, 1),
        (OPENS, [], {(MODES, "warn", 0, "misplaced")}, 0),
    ],
)
def test_checks_about_something_else_tell_it(judge, habit, options, broken, status) -> None:
    result, seen = judge(habit, *options)
    assert seen == broken
    assert result.ret == status
    assert result.parseoutcomes()["passed"] > 1  # the promises asked about are kept


def test_a_check_that_is_broken_itself_tells_nothing_else(judge) -> None:
    _, seen = judge(f"{CUTS}; {LEAVES}", "-k", "test_enable_stores_every_operator_of_a_run")
    assert {rule for rule, *_ in seen} == {STORES}


def test_a_resumed_run_tells_it_again(judge) -> None:
    for _ in range(2):
        result, seen = judge(LEAVES, "--ascend-strict", "--ascend-resume=journal")
        assert (result.ret, {rule for rule, *_ in seen}) == (1, {MODES})
