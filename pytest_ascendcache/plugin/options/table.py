"""Every option of the plugin, declared once. ``Option`` says what follows from a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from pytest_ascendcache.plugin.options.option import (
    BUDGET,
    CHIP,
    COMMAND,
    DIRECTORY,
    INPUT,
    JOURNAL,
    LIST,
    OUTPUT,
    SMOKE,
    TEXT,
    Option,
    duration,
    one_of,
    seconds,
    whole,
)

OP_COMPILER = "op-compiler"
"""The toolchain that consists of an ``op_compiler`` only."""

CANN_CACHE = "cann-cache"
"""The toolchain that is built from a checkout of CANN's sources."""

TORCHAIR = "torchair"
"""The toolchain that runs a user's TorchAir script."""

MINDSPORE_ASCEND = "mindspore-ascend"
"""The toolchain of document M: MindSpore's Ascend releases, with stand-ins for CANN."""

MINDSPORE_TOOLCHAINS = ("mindspore-operator-cache", "mindspore-graph-cache", MINDSPORE_ASCEND)
"""MindSpore's caches as toolchains; listed here so that help needs no import."""

MATRICES = ("pairwise", "triples", "full")
"""Values of ``--ascend-matrix``, the default first."""

SUITES = ("core", "whole")
"""Values of ``--ascend-suite``, the default first."""

DEFAULT_RANKS = 4
"""The size of a gang where neither the test nor an option gives one."""

_MOST_RANKS = 1024
_MOST_NODES = 16
_WEEK = 7 * 24 * 3600.0
_SEED = 2**64 - 1

_JUDGED = (
    Option(
        "--ascend-cache",
        "judge a toolchain's compile cache with the built-in conformance suite, or with the tests "
        "that are named; implied by options that name the toolchain, unless tests are named",
    ),
    Option(
        "--ascend-toolchain=NAME",
        "the toolchain to judge: reference (embedded), atc, op-compiler, cann-cache, "
        "mindspore-operator-cache, mindspore-graph-cache, mindspore-ascend, or one that another "
        "plugin provides",
        TEXT,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-atc=PATH",
        "judge this ATC-compatible command (implies --ascend-toolchain=atc)",
        COMMAND,
        ini=True,
        asks=True,
        about="atc",
    ),
    Option(
        "--ascend-op-compiler=PATH",
        f"judge this op_compiler-compatible command (implies --ascend-toolchain={OP_COMPILER})",
        COMMAND,
        ini=True,
        asks=True,
        about=OP_COMPILER,
    ),
    Option(
        "--ascend-cann-source=DIR",
        "build the cache layer of this checkout of CANN's public repository ge and judge it "
        f"(implies --ascend-toolchain={CANN_CACHE})",
        DIRECTORY,
        ini=True,
        asks=True,
        about=CANN_CACHE,
    ),
    Option(
        "--ascend-mindspore=PYTHON",
        "the Python of an environment with MindSpore's wheel, for the toolchains "
        f"{', '.join(MINDSPORE_TOOLCHAINS)} (default: .venv-mindspore/bin/python, or this Python; "
        "for mindspore-ascend build/mindspore-ascend/1.6.2/python)",
        COMMAND,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-mindspore-other=PYTHON",
        "the Python of an environment with another release of MindSpore; the judged release must "
        "cope with the cache that this one leaves",
        COMMAND,
        ini=True,
    ),
    Option(
        "--ascend-torchair-script=FILE.py",
        "run this script, which compiles static kernels with TorchAir, and judge what it leaves",
        INPUT,
        about=TORCHAIR,
    ),
    Option(
        "--ascend-torchair-cards=N",
        "number of cards that script uses in runs on several cards (default: 2)",
        whole(2, _MOST_RANKS),
        default=2,
        ini=True,
    ),
    Option(
        "--ascend-soc=NAME",
        "judge the toolchain for this chip (default: Ascend910B1)",
        CHIP,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-edition=NAME",
        "judge by this edition of the documents, such as 7.0 or torchair-26.0, instead of the one "
        "for the toolchain's version; the reference behaves accordingly. With --ascend-rules: list "
        "its rules, or compare two editions",
        TEXT,
        repeatable=True,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-start=HOW",
        "fork or process: start the reference or MindSpore by forking a warm parent (default), or "
        "as fresh processes",
        one_of("fork", "process"),
        default="fork",
        asks=True,
    ),
    Option(
        "--ascend-defect=NAME",
        "run the reference with a seeded defect, to see the checks fail",
        TEXT,
        asks=True,
        about="reference",
    ),
    Option(
        "--ascend-profile=NAME",
        "run the reference with all the defects of a vendor, such as cann",
        TEXT,
        asks=True,
        about="reference",
    ),
)
_CHECKS = (
    Option(
        "--ascend-rule=ID",
        "of the suite's checks, run only those of this rule",
        TEXT,
        repeatable=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-suite=NAME",
        "core (default): ask each question once, in the cases that catch a known defect; whole: "
        "with every data type, moment and environment. A named part (a module, a check, -k, -m, "
        "--ascend-rule) and any other --ascend-matrix always run whole",
        one_of(*SUITES),
        default=SUITES[0],
        ini=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-budget=AMOUNT",
        "run the checks that catch the most known defects within a time or a number of runs of "
        "atc, such as 10m or 100runs, and report what was left out",
        BUDGET,
        ini=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-smoke",
        f"a quick first selection: the same as --ascend-budget={SMOKE.runs}runs",
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-matrix=NAME",
        "which combinations of options are compiled: pairwise covers every pair of levels "
        "(default), triples every triple; full compiles all combinations of a reduced model",
        one_of(*MATRICES),
        default=MATRICES[0],
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-seed=N",
        "seed of the generated operators, texts and numbers (default: 0, the same in every run); "
        "stress has a seed of its own",
        whole(0, 10**9),
        default=0,
        ini=True,
        asks=True,
    ),
    Option("--ascend-strict", "a broken 'should' rule fails instead of warning", ini=True),
    Option(
        "--ascend-deviations=LIST",
        "known deviations: a TOML file, or a list of the package such as cann",
        LIST,
        repeatable=True,
        ini=True,
    ),
    Option(
        "--ascend-timeout=SECONDS",
        "time one toolchain process may take before its process group is killed (default: 120); "
        "the ranks of a gang have twice that",
        seconds(_WEEK),
        default=120.0,  # a real atc takes tens of seconds to start
        ini=True,
    ),
    Option(
        "--ascend-ranks=N",
        "number of ranks of a test marked ascend_ranks without a number (default: "
        f"{DEFAULT_RANKS}; with -n no more than there are workers)",
        whole(1, _MOST_RANKS),
        ini=True,
    ),
    Option(
        "--ascend-real-waits",
        "wait for missing ranks as long as the vendor's shortest timeout lasts (2 minutes)",
        ini=True,
    ),
    Option(
        "--ascend-nodes=N",
        "judge a cache that this many nodes share; each node is a separate mount of one "
        "directory (needs root and FUSE)",
        whole(2, _MOST_NODES),
        asks=True,
    ),
    Option(
        "--ascend-node=DIR",
        "the same on real nodes: where one of them has the shared directory mounted; the run "
        "creates a directory in it and removes it at the end",
        DIRECTORY,
        repeatable=True,
        asks=True,
    ),
)
_REPORTS = (
    Option("--ascend-report=FILE.json", "write every verdict as JSON", OUTPUT),
    Option(
        "--ascend-html=FILE.html",
        "write a page with every rule, combination and failure; it needs no network",
        OUTPUT,
    ),
    Option(
        "--ascend-badge=FILE.json",
        "write a badge of the outcome, in the format of shields.io's endpoint",
        OUTPUT,
    ),
    Option(
        "--ascend-language=LANGUAGE",
        "language of the summary and of errors: zh or en (default: the locale's)",
        one_of("zh", "en"),
        ini=True,
        repeats=False,
    ),
    Option(
        "--ascend-baseline=FILE.json",
        "an earlier --ascend-report: what was already broken there does not fail the run",
        INPUT,
        repeats=False,
    ),
    Option(
        "--ascend-resume=FILE.jsonl",
        "write each verdict to this file as it is made; if the file exists, resume the run that "
        "was interrupted",
        JOURNAL,
    ),
)
_STRESS = (
    Option(
        "--ascend-stress=TIME",
        "for this long, let ranks compile, age, delete, damage and kill at random, and check the "
        "outcome",
        duration(5 * _WEEK),
        asks=True,
    ),
    Option(
        "--ascend-stress-steps=N",
        "the same for this many steps; with --ascend-stress, whichever limit is reached first",
        whole(1, 10**9),
        asks=True,
    ),
    Option(
        "--ascend-stress-seed=N",
        "seed of the steps (default: drawn at random, and printed)",
        whole(0, _SEED),
    ),
    Option(
        "--ascend-stress-operators=N",
        "number of operators that the ranks compile (default: 8); --ascend-ranks sets the number "
        "of ranks",
        whole(1, 1000),
    ),
    Option(
        "--ascend-stress-history=FILE.jsonl",
        "write every step to this file (default: next to the sandboxes)",
        OUTPUT,
    ),
    Option(
        "--ascend-stress-replay=FILE.jsonl",
        "repeat the steps of a recorded history",
        INPUT,
        asks=True,
    ),
)
_EXISTING = (
    Option(
        "--ascend-audit=DIR",
        "look for faults in an existing cache: kernel_cache, rank_*/kernel_meta, graph_cache, "
        "static kernel outputs; strictly read-only, starts no toolchain",
        DIRECTORY,
        repeatable=True,
    ),
    Option(
        "--ascend-audit-fix=PLAN.sh",
        "write a shell script that removes what an audit found broken; nothing is removed now",
        OUTPUT,
    ),
    Option(
        "--ascend-release=FILE.toml",
        "judge a model's release: settings, precision file, caches, kernels",
        INPUT,
        repeatable=True,
    ),
    Option(
        "--ascend-manifest-update",
        "write the golden kernel manifests of the releases instead of comparing with them",
        repeats=False,
    ),
)
_LOOKING = (
    Option(
        "--ascend-doctor",
        "show which toolchains were found, what this machine lacks and how to get it, which rules "
        "that makes not applicable, and what a run costs",
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-rules[=TEXT]",
        "list the rules, or those with TEXT in their name, title or source, with level, number of "
        "checks and source",
        TEXT,
        repeats=False,
        asks=True,
        alone="/",
    ),
)

TABLE = {
    "what is judged": _JUDGED,
    "which checks run, and how strictly": _CHECKS,
    "reports": _REPORTS,
    "stress": _STRESS,
    "existing caches and releases": _EXISTING,
    "looking around, without judging": _LOOKING,
}
"""The options by heading, in the order of ``pytest --help`` and docs/options.md."""

OPTIONS = {option.name: option for options in TABLE.values() for option in options}
"""The options by name, in the same order."""


def add_options(parser: pytest.Parser, translate: Callable[[str], str] = str) -> None:
    """Register the table with pytest; ``translate`` turns English help into the user's language."""
    for heading, options in TABLE.items():
        title = f"{translate('Ascend operator compile caches')}: {translate(heading)}"
        group = parser.getgroup(f"ascendcache: {heading}", title)
        for option in options:
            _add(parser, group, option, option.description(translate).replace("%", "%%"))


def _add(
    parser: pytest.Parser, group: pytest.OptionGroup, option: Option, description: str
) -> None:
    if option.kind is None:
        group.addoption(option.name, action="store_true", help=description)
    else:
        # Values stay texts until they are checked, so that xdist can send them to its workers.
        group.addoption(
            option.name,
            action="append" if option.repeatable else "store",
            **({"nargs": "?", "const": option.alone} if option.alone else {}),
            default=None,
            metavar=option.usage.partition("=")[2].rstrip("]"),
            help=description,
        )
    if option.ini:
        kind: Literal["linelist", "string", "bool"] = "string" if option.kind else "bool"
        kind = "linelist" if option.repeatable else kind
        parser.addini(option.key, f"see {option.name}", type=kind, default=None)
