"""Every option of the plugin, once. See ``Option`` for what follows from a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from pytest_ascendcache.plugin.options.option import (
    BUDGET,
    CHIP,
    COMMAND,
    DIRECTORY,
    FILE,
    LIST,
    SMOKE,
    TEXT,
    Access,
    Group,
    Option,
    duration,
    one_of,
    seconds,
    whole,
)

OP_COMPILER = "op-compiler"
"""Name of the toolchain that has nothing but an ``op_compiler``."""

CANN_CACHE = "cann-cache"
"""Name of the toolchain that is built from a checkout of CANN's sources."""

TORCHAIR = "torchair"
"""Name of the toolchain that is a user's script."""

MINDSPORE_TOOLCHAINS = ("mindspore-operator-cache", "mindspore-graph-cache")
"""Names of MindSpore's caches as toolchains; known here so that nothing has to be imported."""

MATRICES = ("pairwise", "triples", "full")
"""Values of ``--ascend-matrix``, the default first."""

SUITES = ("core", "whole")
"""Values of ``--ascend-suite``, the default first."""

DEFAULT_RANKS = 4
"""Ranks of a gang of unknown size."""

_MOST_RANKS = 1024
_MOST_NODES = 16
_WEEK = 7 * 24 * 3600.0
_SEED = 2**64 - 1

_TABLE = (
    Option(
        "--ascend-cache",
        Group.JUDGED,
        "judge a toolchain's compile cache with the built-in conformance suite; options that say "
        "which toolchain imply it, unless tests are named",
    ),
    Option(
        "--ascend-toolchain",
        Group.JUDGED,
        "reference (the embedded one), atc, op-compiler, cann-cache, mindspore-operator-cache, "
        "mindspore-graph-cache, or one that a plugin provides",
        "NAME",
        TEXT,
        ini=True,
        asks=True,
        names_toolchain=True,
    ),
    Option(
        "--ascend-atc",
        Group.JUDGED,
        "judge this ATC-compatible command (implies --ascend-toolchain=atc)",
        "PATH",
        COMMAND,
        ini=True,
        asks=True,
        about="atc",
        names_toolchain=True,
    ),
    Option(
        "--ascend-op-compiler",
        Group.JUDGED,
        f"judge this op_compiler-compatible command (implies --ascend-toolchain={OP_COMPILER})",
        "PATH",
        COMMAND,
        ini=True,
        asks=True,
        about=OP_COMPILER,
        names_toolchain=True,
    ),
    Option(
        "--ascend-cann-source",
        Group.JUDGED,
        "build the cache layer of this checkout of CANN's public repository ge and judge it "
        f"(implies --ascend-toolchain={CANN_CACHE})",
        "DIR",
        DIRECTORY,
        ini=True,
        asks=True,
        about=CANN_CACHE,
        names_toolchain=True,
    ),
    Option(
        "--ascend-mindspore",
        Group.JUDGED,
        "the Python of an environment with MindSpore's wheel, for the toolchains "
        f"{' and '.join(MINDSPORE_TOOLCHAINS)} (default: .venv-mindspore/bin/python, "
        "or this Python)",
        "PYTHON",
        COMMAND,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-mindspore-other",
        Group.JUDGED,
        "the Python of an environment with another release of MindSpore: what that one cached is "
        "found by the release that is judged",
        "PYTHON",
        COMMAND,
        ini=True,
    ),
    Option(
        "--ascend-torchair-script",
        Group.JUDGED,
        "run this script, which compiles static kernels with TorchAir, and judge what it leaves",
        "FILE.py",
        FILE,
        access=Access.READS,
        about=TORCHAIR,
        names_toolchain=True,
    ),
    Option(
        "--ascend-torchair-cards",
        Group.JUDGED,
        "cards of that script where it runs on several (default: 2)",
        "N",
        whole(2, _MOST_RANKS),
        default=2,
        ini=True,
    ),
    Option(
        "--ascend-soc",
        Group.JUDGED,
        "judge the toolchain for this chip (default: Ascend910B1)",
        "NAME",
        CHIP,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-edition",
        Group.JUDGED,
        "judge by this edition of the documents, such as 7.0 or torchair-26.0, instead of that of "
        "the toolchain's version; the reference plays it. With --ascend-rules: list its rules, or "
        "what is different between two",
        "NAME",
        TEXT,
        repeatable=True,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-start",
        Group.JUDGED,
        "fork or process: how the reference or MindSpore is started, by fork from a warm parent "
        "(default) or as fresh processes",
        "HOW",
        one_of("fork", "process"),
        default="fork",
        asks=True,
    ),
    Option(
        "--ascend-defect",
        Group.JUDGED,
        "run the reference with a seeded defect, to see the checks fail",
        "NAME",
        TEXT,
        asks=True,
        about="reference",
        names_toolchain=True,
    ),
    Option(
        "--ascend-profile",
        Group.JUDGED,
        "run the reference with all the defects of a vendor, such as cann",
        "NAME",
        TEXT,
        asks=True,
        about="reference",
        names_toolchain=True,
    ),
    Option(
        "--ascend-rule",
        Group.CHECKS,
        "of the suite's checks run only those of this rule",
        "ID",
        TEXT,
        repeatable=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-suite",
        Group.CHECKS,
        "core or whole: each question once, with the cases that notice a known defect (default), "
        "or with all of its types, moments and surroundings; a part that is named (a module, a "
        "check, -k, -m, --ascend-rule) and another --ascend-matrix are always whole",
        "NAME",
        one_of(*SUITES),
        default=SUITES[0],
        ini=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-budget",
        Group.CHECKS,
        "run the checks that notice the most known defects within a time or a number of runs of "
        "atc, such as 10m or 100runs, and say what is left out",
        "AMOUNT",
        BUDGET,
        ini=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-smoke",
        Group.CHECKS,
        f"a first selection: the same as --ascend-budget={SMOKE.runs}runs",
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-matrix",
        Group.CHECKS,
        "pairwise, triples or full: which combinations of options are compiled, those that cover "
        "every pair of levels (default), every triple, or all combinations of a reduced model",
        "NAME",
        one_of(*MATRICES),
        default=MATRICES[0],
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-seed",
        Group.CHECKS,
        "which operators, texts and numbers are generated (default: 0, the same in every run); "
        "stress has a seed of its own",
        "N",
        whole(0, 10**9),
        default=0,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-strict", Group.CHECKS, "a broken 'should' rule fails instead of warning", ini=True
    ),
    Option(
        "--ascend-deviations",
        Group.CHECKS,
        "known deviations: a TOML file, or a list of the package such as cann",
        "LIST",
        LIST,
        repeatable=True,
        ini=True,
    ),
    Option(
        "--ascend-timeout",
        Group.CHECKS,
        "time one toolchain process may take before its group is killed (default: 120); the ranks "
        "of a gang have twice that",
        "SECONDS",
        seconds(_WEEK),
        default=120.0,  # a real atc takes tens of seconds to start
        ini=True,
    ),
    Option(
        "--ascend-ranks",
        Group.CHECKS,
        f"ranks of a test marked ascend_ranks without a number (default: {DEFAULT_RANKS}; with -n "
        "no more than workers)",
        "N",
        whole(1, _MOST_RANKS),
        ini=True,
    ),
    Option(
        "--ascend-real-waits",
        Group.CHECKS,
        "wait for missing ranks as long as the vendor's shortest timeout lasts (2 minutes)",
        ini=True,
    ),
    Option(
        "--ascend-nodes",
        Group.CHECKS,
        "judge a cache that so many nodes share, too: each is a mount of its own of one directory "
        "(needs root and FUSE)",
        "N",
        whole(2, _MOST_NODES),
        asks=True,
    ),
    Option(
        "--ascend-node",
        Group.CHECKS,
        "the same on real nodes: where one of them has the shared directory mounted; a directory "
        "of the run's own is made in it, and removed",
        "DIR",
        DIRECTORY,
        repeatable=True,
        asks=True,
    ),
    Option(
        "--ascend-report",
        Group.REPORTS,
        "write every verdict as JSON",
        "FILE.json",
        FILE,
        access=Access.WRITES,
    ),
    Option(
        "--ascend-html",
        Group.REPORTS,
        "write a page with every rule, combination and failure; it needs no network",
        "FILE.html",
        FILE,
        access=Access.WRITES,
    ),
    Option(
        "--ascend-badge",
        Group.REPORTS,
        "write a badge of the outcome, as shields.io's endpoint reads it",
        "FILE.json",
        FILE,
        access=Access.WRITES,
    ),
    Option(
        "--ascend-language",
        Group.REPORTS,
        "language of the summary and of errors: zh or en (default: the locale's)",
        "LANGUAGE",
        one_of("zh", "en"),
        ini=True,
        repeats=False,
    ),
    Option(
        "--ascend-baseline",
        Group.REPORTS,
        "an earlier --ascend-report: what was broken there too does not fail the run",
        "FILE.json",
        FILE,
        access=Access.READS,
        repeats=False,
    ),
    Option(
        "--ascend-resume",
        Group.REPORTS,
        "write each verdict here as it is found; if the file exists, go on where that run was "
        "interrupted",
        "FILE.jsonl",
        FILE,
        access=Access.CONTINUES,
    ),
    Option(
        "--ascend-stress",
        Group.STRESS,
        "let ranks compile, age, delete, damage and kill at random for so long, and check",
        "TIME",
        duration(5 * _WEEK),
        asks=True,
    ),
    Option(
        "--ascend-stress-steps",
        Group.STRESS,
        "the same for so many steps; with --ascend-stress, whatever is reached first",
        "N",
        whole(1, 10**9),
        asks=True,
    ),
    Option(
        "--ascend-stress-seed",
        Group.STRESS,
        "what decides the steps (default: drawn, and printed)",
        "N",
        whole(0, _SEED),
    ),
    Option(
        "--ascend-stress-operators",
        Group.STRESS,
        "operators that the ranks compile (default: 8); --ascend-ranks says how many ranks",
        "N",
        whole(1, 1000),
    ),
    Option(
        "--ascend-stress-history",
        Group.STRESS,
        "write every step here (default: beside the sandboxes)",
        "FILE.jsonl",
        FILE,
        access=Access.WRITES,
    ),
    Option(
        "--ascend-stress-replay",
        Group.STRESS,
        "carry out the steps of a history again",
        "FILE.jsonl",
        FILE,
        access=Access.READS,
        asks=True,
    ),
    Option(
        "--ascend-audit",
        Group.EXISTING,
        "look for faults in an existing cache: kernel_cache, rank_*/kernel_meta, graph_cache, "
        "static kernel outputs; strictly read-only, no toolchain is started",
        "DIR",
        DIRECTORY,
        repeatable=True,
    ),
    Option(
        "--ascend-audit-fix",
        Group.EXISTING,
        "write a shell script that removes what an audit found broken; nothing is removed now",
        "PLAN.sh",
        FILE,
        access=Access.WRITES,
    ),
    Option(
        "--ascend-release",
        Group.EXISTING,
        "judge a model's release: settings, precision file, caches, kernels",
        "FILE.toml",
        FILE,
        repeatable=True,
        access=Access.READS,
    ),
    Option(
        "--ascend-manifest-update",
        Group.EXISTING,
        "write the golden kernel manifests of the releases instead of comparing with them",
        repeats=False,
    ),
    Option(
        "--ascend-doctor",
        Group.LOOKING,
        "tell which toolchains are in sight, what this machine lacks, which rules that makes not "
        "applicable, how to get it, and what a run costs",
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-rules",
        Group.LOOKING,
        "list the rules, or those with a text in their name, title or source, with level, number "
        "of checks and source",
        "TEXT",
        TEXT,
        repeats=False,
        asks=True,
        alone="/",
    ),
)

OPTIONS = {option.name: option for option in _TABLE}
"""The table, by name, in the order of ``pytest --help``."""


def add_options(parser: pytest.Parser, say: Callable[[str], str] = str) -> None:
    """Register the table with pytest, in the language that ``say`` brings a sentence into."""
    for group in Group:
        title = f"{say('Ascend operator compile caches')}: {say(group.value)}"
        place = parser.getgroup(f"ascendcache-{group.name.lower()}", title)
        for option in OPTIONS.values():
            if option.group is group:
                _add(parser, place, option, say)


def _add(
    parser: pytest.Parser, place: pytest.OptionGroup, option: Option, say: Callable[[str], str]
) -> None:
    help_text = option.told(say).replace("%", "%%")
    if option.kind is None:
        place.addoption(option.name, action="store_true", help=help_text)
    else:
        # Values stay texts until they are checked, so that xdist can hand them on.
        place.addoption(
            option.name,
            action="append" if option.repeatable else "store",
            **({"nargs": "?", "const": option.alone} if option.alone else {}),
            default=None,
            metavar=option.metavar,
            help=help_text,
        )
    if option.ini:
        kind: Literal["linelist", "string", "bool"] = "string" if option.kind else "bool"
        kind = "linelist" if option.repeatable else kind
        parser.addini(option.key, f"see {option.name}", type=kind, default=None)
