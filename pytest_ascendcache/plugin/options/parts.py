"""Which parts of the suite a run collects: decided by the options and the tests that are named.

The project's ``testpaths`` and ``addopts`` have no say in it, so a command means the same in every
directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.plugin.options.table import OPTIONS
from pytest_ascendcache.plugin.options.toolchains import (
    MINDSPORE_ASCEND,
    MINDSPORE_TOOLCHAINS,
    TORCHAIR,
)
from pytest_ascendcache.plugin.options.values import Values, typed_options

SUITE = Path(__file__).parents[2] / "conformance"
"""The directory of the suite."""

DOCUMENTS = ("cache_mode", "impl_mode", "incremental", "static_kernel", "robustness")
"""Folders of the suite that ``--ascend-cache`` runs, in the order of the documents."""

RELEASE = "release"
"""The suite's folder with the checks of releases; some of them need a toolchain."""

AUDIT = "audit"
"""The suite's folder with the checks of audits, which need no toolchain."""

_ON_FILES = ("--ascend-release", "--ascend-audit")
"""Options that name what is judged instead of a toolchain's cache."""

_LOOKING = ("--ascend-doctor", "--ascend-rules")


@dataclass(frozen=True)
class Parts:
    """What a run collects.

    Attributes:
        judges: verdicts are summed up and reported; without it the plugin is inert.
        folders: folders of the suite to collect.
        alone: nothing but the suite is collected, because the command line asks for it and names
            no tests.
    """

    judges: bool = False
    folders: tuple[str, ...] = ()
    alone: bool = False


def is_judging(config: pytest.Config, values: Values) -> bool:
    """Whether the options ask for verdicts about a toolchain's cache.

    ``--ascend-cache`` does; so does, on the command line alone, any option about such a run unless
    it names tests of the user's own, or files to judge.
    """
    if values["--ascend-cache"]:
        return True
    if any(values.given(each) for each in _ON_FILES) or runs_script(values):
        return False
    if _names_own_tests(config) and not any(map(values.given, _LOOKING)):
        return False
    return any(OPTIONS[name].asks for name in typed_options(config))


def runs_script(values: Values) -> bool:
    """Whether the options name a TorchAir script, and so what is judged."""
    named = values["--ascend-toolchain"]
    return named is not None and named.name == TORCHAIR


def read_parts(
    config: pytest.Config,
    values: Values,
    toolchain: str,
    *,
    stress: bool,
    nodes: bool,
    release: bool,
    audit: bool,
) -> Parts:
    """What the run collects. ``stress`` and the like say what is asked for beside the documents'
    checks."""
    judging, on_nodes = is_judging(config, values), nodes and toolchain not in MINDSPORE_TOOLCHAINS
    looks = any(map(values.given, _LOOKING))
    own = _names_own_tests(config) and not looks
    chosen = bool(values["--ascend-rule"] or typed_tests(config)) or looks
    asked = {
        "stress": stress,
        "stress_on_nodes": on_nodes and stress,
        "shared": on_nodes and (not stress or chosen),  # stress on nodes is one campaign
        RELEASE: release,
        AUDIT: audit,
        "torchair_script": runs_script(values),
    }
    also = tuple(folder for folder, wanted in asked.items() if wanted)
    campaign = (stress or nodes) and not chosen
    documents = judging and not campaign and (not own or bool(values["--ascend-rule"]))
    folders = (*_documents(toolchain), *also) if documents else also
    given = typed_options(config)
    asks = any(OPTIONS[name].asks or name in ("--ascend-cache", *_ON_FILES) for name in given)
    alone = bool(folders) and (looks or (asks and not typed_tests(config)))
    return Parts(judging or bool(folders), folders, alone)


def _documents(toolchain: str) -> tuple[str, ...]:
    """The folders with the promises about a toolchain."""
    if toolchain == MINDSPORE_ASCEND:
        return ("incremental", "mindspore_ascend", "robustness")
    if toolchain in MINDSPORE_TOOLCHAINS:
        cache = toolchain.removeprefix("mindspore-").replace("-", "_")
        return ("mindspore/common", f"mindspore/{cache}")
    return DOCUMENTS


def names_part(config: pytest.Config) -> bool:
    """Whether an argument names a part of the suite, by package or by path."""
    return any(map(_is_part, typed_tests(config)))


def typed_tests(config: pytest.Config) -> Sequence[str]:
    """The tests that the command line itself names, without the project's ``addopts``."""
    if not getattr(config.option, "file_or_dir", ()):  # pytest --help has no such attribute
        return ()
    return tuple(typed(config).file_or_dir)


def typed(config: pytest.Config) -> Any:
    """pytest's options as the command line itself gives them, without the project's ``addopts``."""
    # There is no public way to read a command line without what the project adds to it.
    parser: Any = config._parser
    return parser.parse_known_args([str(each) for each in config.invocation_params.args])


def _names_own_tests(config: pytest.Config) -> bool:
    """Whether the command line names tests, none of which is the suite's."""
    named = typed_tests(config)
    return bool(named) and not any(
        each == PACKAGE or _absolute(each) == SUITE or _is_part(each) for each in named
    )


def _absolute(argument: str) -> Path:
    place = argument.partition("::")[0]
    return Path(os.path.abspath(place))  # noqa: PTH100 - '..' is to be resolved, links not


def _is_part(argument: str) -> bool:
    return argument.startswith(f"{PACKAGE}.") or SUITE in _absolute(argument).parents
