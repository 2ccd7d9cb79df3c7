"""The options of a run as one value: read and checked once, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.plugin.options.audit import AuditSettings, read_audit
from pytest_ascendcache.plugin.options.editions import read_editions
from pytest_ascendcache.plugin.options.known import read_baseline, read_deviations
from pytest_ascendcache.plugin.options.nodes import NodeSettings, read_nodes
from pytest_ascendcache.plugin.options.option import SMOKE, Access, Budget
from pytest_ascendcache.plugin.options.places import check_places
from pytest_ascendcache.plugin.options.release import (
    ReleaseSettings,
    check_toolchains,
    read_releases,
)
from pytest_ascendcache.plugin.options.stress import StressSettings, draw_seed, read_stress
from pytest_ascendcache.plugin.options.table import (
    CANN_CACHE,
    MATRICES,
    MINDSPORE_ASCEND,
    MINDSPORE_TOOLCHAINS,
    OPTIONS,
    SUITES,
)
from pytest_ascendcache.plugin.options.values import Values, typed_options

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition
    from pytest_ascendcache.contract.deviations import Deviation
    from pytest_ascendcache.reports.baseline import Baseline

SUITE = Path(__file__).parents[2] / "conformance"
"""The directory of the suite."""

DOCUMENTS = ("cache_mode", "impl_mode", "incremental", "static_kernel", "robustness")
"""Folders of the suite that ``--ascend-cache`` runs, in the order of the documents."""

_RELEASE = "release"
"""The suite's folder with the checks of releases; some of them need a toolchain."""

_AUDIT = "audit"
"""The suite's folder with the checks of audits, which need no toolchain."""

_IMPLIES = (
    "--ascend-torchair-script",
    "--ascend-atc",
    "--ascend-op-compiler",
    "--ascend-cann-source",
)
"""Options that choose the toolchain where ``--ascend-toolchain`` does not."""


@dataclass(frozen=True)
class Settings:
    """The checked options of a run. A field named like an option holds that option's value.

    Attributes:
        folders: folders of the suite to collect; without any the plugin is inert.
        arguments: the options of the command that repeats a check.
        named: the user or the project names the toolchain.
        typed: the command line names the toolchain.
        chosen_by: the option that names the toolchain, with its value, for messages.
        selected_rules: ids of the rules that ``--ascend-rule`` selects.
        takes_core: run only the core of the suite.
        listed: the text of ``--ascend-rules``; None without that option.
    """

    folders: tuple[str, ...]
    arguments: tuple[str, ...]
    toolchain: str
    named: bool
    typed: bool
    chosen_by: str
    atc: str | None
    op_compiler: str | None
    cann_source: Path | None
    mindspore: str | None
    mindspore_other: str | None
    torchair_script: Path | None
    torchair_cards: int
    soc: str | None
    start: str
    defect: str | None
    profile: str | None
    selected_rules: tuple[str, ...]
    takes_core: bool
    matrix: str
    seed: int
    strict: bool
    timeout: float
    ranks: int | None
    real_waits: bool
    budget: Budget | None
    doctor: bool
    listed: str | None
    report: Path | None
    html: Path | None
    badge: Path | None
    baseline: Baseline | None
    resume: Path | None
    editions: tuple[Edition, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    stress: StressSettings = field(default_factory=StressSettings)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)

    @property
    def needs_toolchain(self) -> bool:
        """Whether the run judges a toolchain, and not only files."""
        of_files = {_AUDIT} if self.is_named else {_AUDIT, _RELEASE}
        return any(folder not in of_files for folder in self.folders)

    @property
    def looks(self) -> bool:
        """Whether the run only prints information and judges nothing."""
        return self.doctor or self.listed is not None

    @property
    def is_named(self) -> bool:
        """Whether the user, the project or a release names the toolchain."""
        return self.named or bool(self.release.toolchain)


def read_settings(config: pytest.Config) -> Settings:
    """Check the options, one by one and together.

    Raises ``pytest.UsageError`` for values that cannot be used, in one sentence.
    """
    draw_seed(config)
    values = Values(config)
    stress, release, nodes = read_stress(values), read_releases(values), read_nodes(values)
    named = any(values.given(name) for name in OPTIONS if OPTIONS[name].names_toolchain)
    toolchain, atc = _toolchain(values), values["--ascend-atc"]
    if not named and release.releases:
        check_toolchains(release.releases)
        is_path = os.sep in release.toolchain
        toolchain = "atc" if is_path else release.toolchain or toolchain
        atc = release.toolchain if is_path else None
    audit = read_audit(values, release)
    suite = values["--ascend-cache"] or _is_implied(config, values, release, audit)
    # As if it had been typed: xdist passes the options on to its workers.
    config.option.ascend_cache = suite
    folders = _folders(values, suite, toolchain, stress, nodes, release, audit)
    if not folders:
        _check_needed(values)
    check_places(config, values, release, audit.directories)
    repeated = [each for each in values.repeated if each != "--ascend-cache"]
    derived: dict[str, Any] = {
        "folders": folders,
        "arguments": ("--ascend-cache", *repeated) if suite else tuple(repeated),
        "toolchain": toolchain,
        "named": named,
        "typed": any(OPTIONS[name].names_toolchain for name in typed_options(config)),
        "chosen_by": _chosen_by(values, toolchain),
        "atc": atc,
        "selected_rules": values["--ascend-rule"],
        "takes_core": _takes_core(config, values, folders),
        "budget": _budget(values),
        "listed": values["--ascend-rules"],
        "editions": read_editions(values["--ascend-edition"], values.given("--ascend-rules")),
        "baseline": read_baseline(values["--ascend-baseline"]),
        "deviations": read_deviations(values["--ascend-deviations"], toolchain),
        "stress": stress,
        "nodes": nodes,
        "release": release,
        "audit": audit,
    }
    keys = {option.key.removeprefix("ascend_"): name for name, option in OPTIONS.items()}
    as_given = {
        each.name: values[keys[each.name]] for each in fields(Settings) if each.name in keys
    }
    return Settings(**as_given | derived)


def _budget(values: Values) -> Budget | None:
    """The budget of ``--ascend-budget`` or ``--ascend-smoke``."""
    budget: Budget | None = values["--ascend-budget"]
    if not values["--ascend-smoke"]:
        return budget
    if budget is not None:
        raise pytest.UsageError(
            f"--ascend-smoke is a budget of {SMOKE.runs} runs and does not go with "
            f"{values.shown('--ascend-budget')}; leave one of the two out."
        )
    return SMOKE


def _takes_core(config: pytest.Config, values: Values, folders: Sequence[str]) -> bool:
    """Whether to run only the core: neither the whole suite nor a part of it was asked for."""
    if values["--ascend-suite"] != SUITES[0] or values["--ascend-matrix"] != MATRICES[0]:
        return False
    option = config.option
    names_part = option.keyword or option.markexpr or values["--ascend-rule"]
    names_part = names_part or getattr(option, "lf", False) or any(map(_is_part, config.args))
    return not names_part and any(folder in DOCUMENTS for folder in folders)


def _is_part(argument: str) -> bool:
    """Whether an argument names a part of the suite, by package or by path."""
    place = argument.partition("::")[0]
    absolute = Path(os.path.abspath(place))  # noqa: PTH100 - '..' is to be resolved, links not
    return place.startswith(f"{PACKAGE}.") or SUITE in absolute.parents


def _is_implied(
    config: pytest.Config, values: Values, release: ReleaseSettings, audit: AuditSettings
) -> bool:
    """Whether the command line asks for the suite without ``--ascend-cache``.

    A project's configuration (``addopts``, ini keys) does not: it sets how the suite judges, not
    that it runs.
    """
    elsewhere = release.releases or audit.directories or values.given("--ascend-torchair-script")
    names_tests = config.args_source is config.ArgsSource.ARGS
    if elsewhere or (names_tests and not any(each.startswith(PACKAGE) for each in config.args)):
        return False
    return any(OPTIONS[name].asks for name in typed_options(config))


def _folders(
    values: Values,
    suite: bool,
    toolchain: str,
    stress: StressSettings,
    nodes: NodeSettings,
    release: ReleaseSettings,
    audit: AuditSettings,
) -> tuple[str, ...]:
    """The folders of the suite that the options ask for."""
    folders: list[str] = []
    is_mindspore = toolchain in MINDSPORE_TOOLCHAINS
    if suite and toolchain == MINDSPORE_ASCEND:
        folders += ["incremental", "mindspore_ascend", "robustness"]
    elif suite and is_mindspore:
        cache = toolchain.removeprefix("mindspore-").replace("-", "_")
        folders += ["mindspore/common", f"mindspore/{cache}"]
    elif suite:
        folders += DOCUMENTS
    on_nodes = suite and nodes.number and not is_mindspore
    asked = {
        "stress": suite and stress.asked,
        "stress_on_nodes": on_nodes and stress.asked,
        "shared": on_nodes,
        _RELEASE: release.releases,
        _AUDIT: audit.directories,
        "torchair_script": values.given("--ascend-torchair-script"),
    }
    return (*folders, *(folder for folder, wanted in asked.items() if wanted))


def _check_needed(values: Values) -> None:
    """Refuse options about verdicts in a run that judges nothing."""
    about_verdicts = values.files(Access.WRITES, Access.CONTINUES)
    if values.given("--ascend-baseline"):
        about_verdicts.append((values.shown("--ascend-baseline"), values["--ascend-baseline"]))
    if about_verdicts:
        raise pytest.UsageError(
            f"{about_verdicts[0][0]}: nothing is judged that could be reported; add "
            "--ascend-cache, --ascend-audit=DIR or --ascend-release=FILE.toml."
        )


def _toolchain(values: Values) -> str:
    """The name of the toolchain.

    Raises ``pytest.UsageError`` if the options about it contradict each other, or one is missing.
    """
    implied = [name for name in _IMPLIES if values.given(name)]
    toolchain: str = values["--ascend-toolchain"] or (
        OPTIONS[implied[0]].about if implied else "reference"
    )
    decides = "--ascend-toolchain" if values.given("--ascend-toolchain") else (implied or [""])[0]
    shown = values.shown(decides) if decides else f"the toolchain '{toolchain}'"
    for option in OPTIONS.values():
        if option.about and values.given(option.name) and option.about != toolchain:
            _refuse_both(values.shown(option.name), option.about, shown)
    if values.given("--ascend-defect") and values.given("--ascend-profile"):
        _refuse_both(values.shown("--ascend-profile"), "reference", values.shown("--ascend-defect"))
    script = values["--ascend-torchair-script"]
    if script is not None and not script.is_file():
        raise pytest.UsageError(f"--ascend-torchair-script={script} is not a file; name a script.")
    if toolchain == CANN_CACHE and not values.given("--ascend-cann-source"):
        raise pytest.UsageError(
            f"--ascend-toolchain={CANN_CACHE} needs a checkout of CANN's public repository ge; "
            "give --ascend-cann-source=DIR."
        )
    for name in ("--ascend-mindspore", "--ascend-mindspore-other"):
        if values.given(name) and toolchain not in MINDSPORE_TOOLCHAINS:
            raise pytest.UsageError(
                f"{values.shown(name)} names a Python for MindSpore, but the "
                f"toolchain is '{toolchain}'; add --ascend-toolchain={MINDSPORE_TOOLCHAINS[0]} or "
                "leave it out."
            )
    return toolchain


def _refuse_both(shown: str, about: str, other: str) -> None:
    raise pytest.UsageError(
        f"{shown} is about the toolchain '{about}' and does not go with {other}; leave one of the "
        "two out."
    )


def _chosen_by(values: Values, toolchain: str) -> str:
    """The most specific option that names the toolchain, with its value, for messages."""
    names = (*_IMPLIES, "--ascend-toolchain")
    given = (values.shown(name) for name in names if values.given(name))
    return next(given, f"--ascend-toolchain={toolchain}")
