"""Checks that wait, hang, or use several ranks or caches: they pass, and fail with a fault.

The stand-in (``tests/mindspore_standin``) has a cache of kernels, ranks, and these faults.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.toolchains.test_mindspore import GRAPH, OPERATORS, judged, standin, verdicts

NEW = (
    "killed or builder or finished or still_waits or fifo or vouched or no_directory or both_caches"
    " or named_late or cached_is or _wait or log_is or forked or wait_for"
)
"""Words in the names of the tested checks, as an expression for pytest's ``-k``."""

FAULTS = {
    "trusts-digest": {
        OPERATORS: {"test_a_damaged_file_heals[so-cut-and-vouched-for]": ("fail", "unusable")}
    },
    "bricked": {
        OPERATORS: {"test_what_is_no_directory_costs_no_run[a-file]": ("fail", "unusable")},
        GRAPH: {"test_what_is_no_directory_costs_no_run[a-file]": ("fail", "unusable")},
    },
    "graph-names-kernels": {
        OPERATORS: {"test_both_caches_at_once_compile_nothing_again": ("warn", "not-determined")}
    },
    "late-directory": {
        kind: {
            "test_a_directory_that_is_named_late_is_not_ignored_in_part": (
                *("warn", "not-determined"),
            )
        }
        for kind in (OPERATORS, GRAPH)
    },
    "keeps-release": {
        OPERATORS: {"test_what_another_release_cached_is_compiled_anew": ("fail", "stale-kernel")}
    },
    "raw-rank-log": {
        kind: {"test_no_log_is_written_elsewhere[/../../x]": ("warn", "lost-work")}
        for kind in (OPERATORS, GRAPH)
    },
    "forked-apart": {
        GRAPH: {"test_a_process_from_nothing_and_a_forked_one_share": ("fail", "lost-work")}
    },
    "odd-wait": {OPERATORS: {"test_an_odd_wait_is_taken_or_named[abc]": ("warn", "misleading")}},
    "quiet-wait": {
        OPERATORS: {
            "test_ranks_with_kernels_wait_for_one_without[short-wait]": ("warn", "misleading")
        },
        GRAPH: {"test_warm_ranks_wait_for_a_cold_one[short-wait]": ("warn", "misleading")},
    },
    "waits-not": {
        OPERATORS: {
            "test_ranks_with_kernels_wait_for_one_without[long-wait]": ("warn", "lost-work")
        },
        GRAPH: {"test_warm_ranks_wait_for_a_cold_one[long-wait]": ("warn", "lost-work")},
    },
    "unnamed-rank": {
        GRAPH: {
            "test_a_killed_rank_ends_the_others[between-networks]": ("warn", "misleading"),
        }
    },
    "forgets-ranks": {
        GRAPH: {
            "test_a_killed_rank_ends_the_others[before-a-network]": ("warn", "lost-work"),
        }
    },
}

BY_DAY = {
    ("trusts-digest", OPERATORS),
    ("bricked", OPERATORS),
    ("keeps-release", OPERATORS),
    ("forked-apart", GRAPH),
    ("odd-wait", OPERATORS),
    ("waits-not", GRAPH),
    ("unnamed-rank", GRAPH),
}
"""One fault of each kind: damage, places, releases, processes, waits and ranks. Nightly runs use
all faults."""

HANGS = {
    "opens-a-fifo": {
        OPERATORS: {"test_a_damaged_file_heals[so-a-fifo]": ("fail", "hang")},
        GRAPH: {"test_a_damaged_file_heals[a-fifo-mindir]": ("fail", "hang")},
    },
    "waits-for-a-dead-worker": {
        OPERATORS: {"test_a_killed_compile_worker_is_noticed": ("fail", "hang")}
    },
    "waits-for-the-dead": {
        OPERATORS: {
            "test_who_waits_for_a_killed_builder_goes_on": ("fail", "hang"),
            "test_who_comes_while_another_still_waits_is_not_blocked": ("fail", "hang"),
            "test_who_waits_takes_what_a_dead_builder_still_finished": ("fail", "hang"),
        }
    },
}
"""Faults that a check notices only by waiting twenty seconds or more."""


@pytest.fixture(autouse=True)
def _linker() -> None:
    if shutil.which("g++") is None:
        pytest.skip("kernels are linked with g++, which is not there")


@pytest.mark.nightly
@pytest.mark.parametrize("toolchain", [OPERATORS, GRAPH])
def test_a_cache_without_faults_passes(
    pytester: pytest.Pytester, tmp_path: Path, toolchain: str
) -> None:
    other = standin(tmp_path / "other", mindspore="2.9.0")
    python = standin(tmp_path)
    arguments = (f"--override-ini=ascend_mindspore_other={other}", "-k", NEW)
    judged(pytester, python, *arguments, toolchain=toolchain)
    by_check = verdicts(pytester)
    asked = {each for fault in (FAULTS | HANGS).values() for each in fault.get(toolchain, {})}
    assert asked <= by_check.keys(), "-k leaves checks out that a fault is asked of"
    assert {name: each for name, each in by_check.items() if each != "pass"} == {
        name: "not applicable" for name in by_check if by_check[name] == "not applicable"
    }
    assert {by_check[name] for name in asked} == {"pass"}


def _cases(faults: dict[str, dict[str, dict[str, tuple[str, str]]]]) -> list[tuple[str, str]]:
    return [(fault, toolchain) for fault, toolchains in faults.items() for toolchain in toolchains]


@pytest.mark.parametrize(
    ("fault", "toolchain"),
    [
        *((fault, kind) for fault, kind in _cases(FAULTS) if (fault, kind) in BY_DAY),
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in _cases(FAULTS | HANGS)
            if case not in BY_DAY
        ),
    ],
)
def test_a_fault_is_noticed(
    pytester: pytest.Pytester,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    toolchain: str,
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", fault)
    other = standin(tmp_path / "other", mindspore="2.9.0")
    python = standin(tmp_path)
    wanted = (FAULTS | HANGS)[fault][toolchain]
    names = " or ".join(each.replace("[", " and ").rstrip("]") for each in wanted)
    if any(mark in names for mark in "/."):  # -k does not accept such names
        names = " or ".join(each.partition("[")[0] for each in wanted)
    judged(
        pytester,
        python,
        f"--override-ini=ascend_mindspore_other={other}",
        "-k",
        names,
        toolchain=toolchain,
    )
    verdict, harm = verdicts(pytester), verdicts(pytester, "harm")
    assert {name: (verdict[name], harm[name]) for name in wanted} == wanted
