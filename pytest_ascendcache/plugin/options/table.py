"""Every option of the plugin, declared once. ``Option`` says what follows from a row."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Literal

import pytest

from pytest_ascendcache.plugin.options.option import (
    CHIP,
    COMMAND,
    DIRECTORY,
    INPUT,
    JOURNAL,
    LIST,
    NODES,
    OUTPUT,
    SELECTION,
    STRESS,
    TEXT,
    Option,
    Selection,
    one_of,
    seconds,
    whole,
)
from pytest_ascendcache.plugin.options.toolchains import MINDSPORE_TOOLCHAINS, REFERENCE, TOOLCHAIN

DEFAULT_RANKS = 4
"""The size of a gang where neither the test nor an option gives one."""

_MOST_RANKS = 1024
_WEEK = 7 * 24 * 3600.0
_SEED = 2**64 - 1

_JUDGED = (
    Option(
        "--ascend-cache",
        "judge a compile cache by the built-in suite, or by the tests that are named; any option "
        "that names a toolchain implies it",
    ),
    Option(
        "--ascend-atc=PATH",
        "judge this atc, or a command with its interface",
        COMMAND,
        ini=True,
        asks=True,
        about="atc",
    ),
    Option(
        "--ascend-toolchain=NAME[:WHERE]",
        "judge atc, reference (embedded), op-compiler:PATH, torchair:SCRIPT.py, cann-cache:GE, "
        f"{', '.join(MINDSPORE_TOOLCHAINS)}[:PYTHON], or one of another plugin",
        TOOLCHAIN,
        ini=True,
        asks=True,
    ),
    Option("--ascend-soc=NAME", "the chip (default: Ascend910B1)", CHIP, ini=True, asks=True),
    Option(
        "--ascend-edition=NAME",
        "judge by this edition of the documents, such as 7.0, not by that of the toolchain's "
        "version",
        TEXT,
        repeatable=True,
        ini=True,
        asks=True,
    ),
    Option(
        "--ascend-defect=NAME",
        "break the reference: a seeded defect, or all those of a vendor, such as cann",
        TEXT,
        asks=True,
        about=REFERENCE,
    ),
)
_CHECKS = (
    Option(
        "--ascend-select=WHAT",
        "core (default): each question once; whole: all types, moments, environments; triples, "
        "full: more combinations; 60runs, 20m: what finds most for that price",
        SELECTION,
        default=Selection(),
        ini=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-rule=ID",
        "only the suite's checks of this rule",
        TEXT,
        repeatable=True,
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-seed=N",
        "generate other operators, texts and numbers (default: 0; drawn for stress)",
        whole(0, _SEED),
        default=0,
        ini=True,
        asks=True,
    ),
    Option("--ascend-strict", "a broken 'should' rule fails too", ini=True),
    Option(
        "--ascend-deviations=LIST",
        "known deviations: a TOML file, or a list of the package such as cann",
        LIST,
        repeatable=True,
        ini=True,
    ),
    Option(
        "--ascend-baseline=JSON",
        "an earlier --ascend-report; what was broken there does not fail the run",
        INPUT,
        repeats=False,
    ),
    Option(
        "--ascend-timeout=SEC",
        "longest time of one compile (default: 120; ranks: twice that)",
        seconds(_WEEK),
        default=120.0,  # a real atc takes tens of seconds to start
        ini=True,
    ),
    Option(
        "--ascend-ranks=N",
        f"ranks of a gang whose test gives no number (default: {DEFAULT_RANKS})",
        whole(1, _MOST_RANKS),
        ini=True,
    ),
    Option(
        "--ascend-nodes=N|DIR",
        "judge a cache that N nodes share (needs root and FUSE), or real nodes that have the "
        "shared directory mounted at DIR, DIR, ...",
        NODES,
        repeatable=True,
        asks=True,
    ),
    Option(
        "--ascend-stress=WHAT",
        "let ranks compile, delete and kill at random for 30s or 500steps; or repeat a "
        "HISTORY.jsonl",
        STRESS,
        asks=True,
    ),
)
_REPORTS = (
    Option("--ascend-report=JSON", "write every verdict to this file", OUTPUT),
    Option("--ascend-html=HTML", "write a page with causes and rules", OUTPUT),
    Option(
        "--ascend-resume=FILE",
        "write each verdict as it is made; go on from there if the file exists",
        JOURNAL,
    ),
    Option(
        "--ascend-language=LANGUAGE",
        "zh or en, of summary and errors (default: the locale's)",
        one_of("zh", "en"),
        ini=True,
        repeats=False,
    ),
)
_EXISTING = (
    Option(
        "--ascend-audit=DIR",
        "look for faults in a cache of CANN, MindSpore or TorchAir; read-only",
        DIRECTORY,
        repeatable=True,
    ),
    Option(
        "--ascend-audit-fix=PLAN.sh",
        "write, but do not run, a script that removes what is broken",
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
        "approve a release's kernels: write its manifest",
        repeats=False,
    ),
)
_LOOKING = (
    Option(
        "--ascend-doctor",
        "show the toolchains found, what this machine lacks, and what a run costs",
        repeats=False,
        asks=True,
    ),
    Option(
        "--ascend-rules[=TEXT]",
        "list the rules, or those that contain TEXT; with two --ascend-edition, what changed",
        TEXT,
        repeats=False,
        asks=True,
        alone="/",
    ),
    Option("--ascend-words", "explain the words of reports and messages", repeats=False),
)
_INI = (
    Option(
        "ascend_start=HOW",
        "start the reference or MindSpore by 'fork' of a warm parent, or as a 'process' (default: "
        "fork)",
        one_of("fork", "process"),
        default="fork",
        ini=True,
    ),
    Option(
        "ascend_real_waits=BOOL",
        "wait for missing ranks as long as the vendor's shortest timeout (2 minutes)",
        ini=True,
    ),
    Option(
        "ascend_mindspore_other=PYTHON",
        "the Python of another release of MindSpore, whose cache the judged one must cope with",
        COMMAND,
        ini=True,
    ),
    Option(
        "ascend_torchair_cards=N",
        "cards of a TorchAir script in runs on several cards (default: 2)",
        whole(2, _MOST_RANKS),
        default=2,
        ini=True,
    ),
    Option(
        "ascend_stress_operators=N",
        "operators that the ranks of a stress run compile (default: 8)",
        whole(1, 1000),
        default=8,
        ini=True,
    ),
    Option(
        "ascend_stress_history=FILE.jsonl",
        "where a stress run writes its steps (default: next to the sandboxes)",
        OUTPUT,
        ini=True,
    ),
)

TABLE = {
    "what is judged": _JUDGED,
    "which checks, how strictly": _CHECKS,
    "reports": _REPORTS,
    "existing caches and releases": _EXISTING,
    "looking around": _LOOKING,
}
"""The options by heading, in the order of ``pytest --help`` and docs/options.md."""

SETTINGS_OF_INI = {option.name: option for option in _INI}
"""What belongs to a project or a machine: settings of the ini file without an option."""

OPTIONS = {option.name: option for options in TABLE.values() for option in options}
"""The options by name, in the same order."""

ROWS = OPTIONS | SETTINGS_OF_INI
"""Everything that can be set."""

REMOVED = {
    "--ascend-op-compiler": "--ascend-toolchain=op-compiler:{}",
    "--ascend-cann-source": "--ascend-toolchain=cann-cache:{}",
    "--ascend-torchair-script": "--ascend-toolchain=torchair:{}",
    "--ascend-mindspore": "--ascend-toolchain=mindspore-operator-cache:{}",
    "--ascend-mindspore-other": "-o ascend_mindspore_other={}",
    "--ascend-torchair-cards": "-o ascend_torchair_cards={}",
    "--ascend-start": "-o ascend_start={}",
    "--ascend-real-waits": "-o ascend_real_waits=true",
    "--ascend-profile": "--ascend-defect={}",
    "--ascend-suite": "--ascend-select={}",
    "--ascend-matrix": "--ascend-select={}",
    "--ascend-budget": "--ascend-select={}",
    "--ascend-smoke": "--ascend-select=60runs",
    "--ascend-node": "--ascend-nodes={}",
    "--ascend-badge": "ascendcache-badge REPORT.json {}",
    "--ascend-stress-steps": "--ascend-stress={}steps",
    "--ascend-stress-seed": "--ascend-seed={}",
    "--ascend-stress-operators": "-o ascend_stress_operators={}",
    "--ascend-stress-history": "-o ascend_stress_history={}",
    "--ascend-stress-replay": "--ascend-stress={}",
}
"""Names of earlier days, and what says the same today."""


class _Refused(argparse.Action):
    """Remembers a removed name, which a usage error explains once the language is known."""

    def __call__(self, _: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, (option_string, values or "VALUE"))


def add_options(parser: pytest.Parser, translate: Callable[[str], str] = str) -> None:
    """Register the table with pytest; ``translate`` turns English help into the user's language."""
    for heading, options in TABLE.items():
        title = f"{translate('Ascend operator compile caches')}: {translate(heading)}"
        group = parser.getgroup(f"ascendcache: {heading}", title)
        for option in options:
            _add(group, option, option.description(translate).replace("%", "%%"))
    for name in REMOVED:
        group.addoption(
            name, action=_Refused, dest="ascend_removed", nargs="?", help=argparse.SUPPRESS
        )
    for option in ROWS.values():
        if option.ini:
            kind: Literal["linelist", "string", "bool"] = "string" if option.kind else "bool"
            kind = "linelist" if option.repeatable else kind
            about = f"{translate('as')} {option.name}" if option.is_typed else ""
            parser.addini(
                option.key, about or option.description(translate), type=kind, default=None
            )


def _add(group: pytest.OptionGroup, option: Option, description: str) -> None:
    if option.kind is None:
        group.addoption(option.name, action="store_true", help=description)
        return
    # Values stay texts until they are checked.
    group.addoption(
        option.name,
        action="append" if option.repeatable else "store",
        **({"nargs": "?", "const": option.alone} if option.alone else {}),
        default=None,
        metavar=option.usage.partition("=")[2].removesuffix("]" if option.alone else ""),
        help=description,
    )


def refused_name(given: tuple[str, str]) -> str:
    """The sentence about a removed option with its value."""
    name, value = given
    return f"{name} is now {REMOVED[name].format(value)}."
