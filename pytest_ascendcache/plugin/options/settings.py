"""The options of a run as one value: read and checked once, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.plugin.options.campaigns import (
    NodeSettings,
    StressSettings,
    read_nodes,
    read_stress,
)
from pytest_ascendcache.plugin.options.existing import (
    AuditSettings,
    ReleaseSettings,
    check_packages,
    check_toolchains,
    read_audit,
    read_releases,
)
from pytest_ascendcache.plugin.options.known import read_baseline, read_deviations, read_editions
from pytest_ascendcache.plugin.options.option import Access, Budget, Selection
from pytest_ascendcache.plugin.options.parts import (
    AUDIT,
    DOCUMENTS,
    RELEASE,
    is_judging,
    names_part,
    read_parts,
)
from pytest_ascendcache.plugin.options.places import check_places
from pytest_ascendcache.plugin.options.table import OPTIONS, ROWS
from pytest_ascendcache.plugin.options.toolchains import REFERENCE, ToolchainChoice
from pytest_ascendcache.plugin.options.values import Values, typed_options

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition
    from pytest_ascendcache.contract.deviations import Deviation
    from pytest_ascendcache.reports.baseline import Baseline


@dataclass(frozen=True)
class Settings:
    """The checked options of a run. A field named like an option holds that option's value.

    Attributes:
        judges: verdicts are summed up and reported; without it the plugin is inert.
        folders: folders of the suite to collect.
        alone: nothing but these folders is collected.
        texts: the given options, for xdist's workers.
        arguments: the options of the command that repeats a check.
        named: the user or the project names the toolchain.
        typed: the command line names the toolchain.
        place: the toolchain's program, script or checkout, if one is named.
        chosen_by: the option that names the toolchain, with its value, for messages.
        selected_rules: ids of the rules that ``--ascend-rule`` selects.
        takes_core: run only the core of the suite.
        matrix: which combinations of options are compiled.
        listed: the text of ``--ascend-rules``; None without that option.
    """

    judges: bool
    folders: tuple[str, ...]
    alone: bool
    texts: Mapping[str, Sequence[str]]
    arguments: tuple[str, ...]
    toolchain: str
    place: str | None
    named: bool
    typed: bool
    chosen_by: str
    mindspore_other: str | None
    torchair_cards: int
    soc: str | None
    start: str
    defect: str | None
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
        of_files = {AUDIT} if self.is_named else {AUDIT, RELEASE}
        if not self.folders:
            return self.judges
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
    """Check the options, one by one and together. Raises ``pytest.UsageError`` with one
    sentence."""
    values = Values(config)
    release, nodes = read_releases(values), read_nodes(values)
    stress = read_stress(values, nodes)
    named = any(values.given(name) for name in OPTIONS if OPTIONS[name].names_toolchain)
    chosen = _toolchain(values) if named else _of_releases(release)
    if named or release.toolchain:
        check_packages(release.releases)
    toolchain = chosen.name
    audit = read_audit(values, release)
    parts = read_parts(
        config,
        values,
        toolchain,
        stress=stress.asked,
        nodes=nodes.number > 0,
        release=bool(release.releases),
        audit=bool(audit.directories),
    )
    if not parts.judges:
        _check_needed(values)
    check_places(config, values, release, audit.directories)
    repeated = [each for each in values.repeated if each != "--ascend-cache"]
    selection: Selection = values["--ascend-select"]
    if selection.matrix != Selection.matrix:  # its combinations are in no other run
        repeated.append(values.shown("--ascend-select"))
    derived: dict[str, Any] = {
        **vars(parts),
        "texts": values.texts,
        "arguments": ("--ascend-cache", *repeated)
        if is_judging(config, values)
        else tuple(repeated),
        "toolchain": toolchain,
        "place": chosen.place,
        "named": named,
        "typed": any(OPTIONS[name].names_toolchain for name in typed_options(config)),
        "chosen_by": _chosen_by(values, toolchain),
        "selected_rules": values["--ascend-rule"],
        "takes_core": not selection.whole and _takes_core(config, values, parts.folders),
        "matrix": selection.matrix,
        "budget": selection.budget,
        "listed": values["--ascend-rules"],
        "editions": read_editions(values["--ascend-edition"], values.given("--ascend-rules")),
        "baseline": read_baseline(values["--ascend-baseline"]),
        "deviations": read_deviations(values["--ascend-deviations"], toolchain),
        "stress": stress,
        "nodes": nodes,
        "release": release,
        "audit": audit,
    }
    keys = {option.key.removeprefix("ascend_"): name for name, option in ROWS.items()}
    as_given = {
        each.name: values[keys[each.name]] for each in fields(Settings) if each.name in keys
    }
    return Settings(**as_given | derived)


def _takes_core(config: pytest.Config, values: Values, folders: tuple[str, ...]) -> bool:
    """Whether no part of the suite is named, so that its core can be run alone."""
    option = config.option
    selects = option.keyword or option.markexpr or values["--ascend-rule"]
    selects = selects or getattr(option, "lf", False) or names_part(config)
    return not selects and any(folder in DOCUMENTS for folder in folders)


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


def _toolchain(values: Values) -> ToolchainChoice:
    """Raises ``pytest.UsageError`` if the options about the toolchain contradict each other."""
    atc, named = values["--ascend-atc"], values["--ascend-toolchain"]
    chosen = named or ToolchainChoice("atc" if atc else REFERENCE)
    for option in OPTIONS.values():
        if option.about and values.given(option.name) and option.about != chosen.name:
            other = "--ascend-toolchain" if named else "--ascend-atc"
            _refuse_both(values.shown(option.name), option.about, values.shown(other))
    if atc and chosen.place:
        _refuse_both(values.shown("--ascend-atc"), "atc", values.shown("--ascend-toolchain"))
    return ToolchainChoice(chosen.name, atc) if atc else chosen


def _of_releases(release: ReleaseSettings) -> ToolchainChoice:
    """The toolchain that the releases name, a name or a path; else the reference."""
    check_toolchains(release.releases)
    if os.sep in release.toolchain:
        return ToolchainChoice("atc", release.toolchain)
    return ToolchainChoice(release.toolchain or REFERENCE)


def _refuse_both(shown: str, about: str, other: str) -> None:
    raise pytest.UsageError(
        f"{shown} is about the toolchain '{about}' and does not go with {other}; leave one of the "
        "two out."
    )


def _chosen_by(values: Values, toolchain: str) -> str:
    """The most specific option that names the toolchain, with its value, for messages."""
    given = (
        values.shown(name) for name in ("--ascend-atc", "--ascend-toolchain") if values.given(name)
    )
    return next(given, f"--ascend-toolchain={toolchain}")
