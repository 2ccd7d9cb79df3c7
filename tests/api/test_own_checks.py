"""Checks that a user writes from the guide notice what a cache breaks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTICED = {
    "never-hits": "test_hits_stay_hits",
    "serves-once": "test_hits_stay_hits",
    "disable-stores": "test_disable_leaves_the_cache_alone",
    "disable-serves": "test_disable_leaves_the_cache_alone",
    "force-purges-nothing": "test_force_empties_the_cache",
    "level-1-keeps-cache": "test_a_debug_level_bypasses_it",
    "list-disables-everything": "test_a_list_names_what_is_debugged",
    "list-ignores-names": "test_a_list_names_what_is_debugged",
    "ranks-help-each-other": "test_ranks_keep_apart",
    "rank-is-always-0": "test_ranks_keep_apart",
    "precision-file-ignored": "test_a_precision_file_counts",
    "key-without-impl-mode": "test_modes_have_their_own_kernels",
    "type-list-ignored": "test_a_type_list_limits_the_mode",
    "type-list-for-everything": "test_a_type_list_limits_the_mode",
    "one-change-compiles-the-rest": "test_only_what_changed_is_compiled",
}
"""Seeded defects, and a check that fails for each."""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    shutil.copy(Path(__file__).with_name("own_checks.py"), pytester.path / "test_own.py")
    shutil.copy(ROOT / "docs/example/models/regression.json", pytester.path)
    return pytester


def test_they_pass_where_nothing_is_broken(project: pytest.Pytester) -> None:
    assert project.runpytest_subprocess("-q").ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(each, marks=() if "type-list" in each else pytest.mark.nightly)
        for each in NOTICED
    ],
)
def test_a_broken_promise_is_noticed(project: pytest.Pytester, defect: str) -> None:
    result = project.runpytest_subprocess("-q", f"--ascend-defect={defect}", "test_own.py")
    result.stdout.fnmatch_lines([f"FAILED *::{NOTICED[defect]}*"])
