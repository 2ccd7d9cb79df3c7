"""What the options ask for, as one value: read and checked once, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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
    MINDSPORE_TOOLCHAINS,
    OPTIONS,
    SUITES,
)
from pytest_ascendcache.plugin.options.values import Values, files_of, typed_options

if TYPE_CHECKING:
    from pytest_ascendcache.contract import Edition
    from pytest_ascendcache.contract.deviations import Deviation
    from pytest_ascendcache.reports.baseline import Baseline

RELEASE_FOLDER = "release"
"""The suite's folder with the checks of releases; some need a toolchain."""

AUDIT_FOLDER = "audit"
"""The suite's folder with the checks of audits, which need no toolchain."""

SUITE = Path(__file__).parents[2] / "conformance"
"""Where the suite's files are."""

DOCUMENTS = ("cache_mode", "impl_mode", "incremental", "static_kernel", "robustness")
"""Folders of the suite that ``--ascend-cache`` asks for, in the documents' order."""


@dataclass(frozen=True)
class ReportSettings:
    """Files to be written, and the earlier report of ``--ascend-baseline``."""

    json: Path | None = None
    html: Path | None = None
    badge: Path | None = None
    baseline: Baseline | None = None


@dataclass(frozen=True)
class Settings:
    """What the options ask for.

    ``folders`` are those of the suite to collect; with none the plugin is inert. ``arguments``
    repeat a check. ``listed`` is the text of the rules to list. ``named``: the user or the
    project says which toolchain is judged; ``typed``: the command line does; ``chosen_by`` is the
    option that does, with its value. ``timeout`` is seconds one process may take; ``ranks`` the
    size of gangs, ``None`` where it was not given.
    ``python`` has MindSpore's wheel; ``script`` is a user's, run on one card and on ``cards``.
    ``takes_core``: of the suite its core is run; ``budget`` limits which checks are run. ``resume``
    is where verdicts are kept as they are found. ``editions`` are those of ``--ascend-edition``.
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
    python: str | None
    other_python: str | None
    script: Path | None
    cards: int
    soc: str | None
    start: str
    defect: str | None
    profile: str | None
    rules: tuple[str, ...]
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
    resume: Path | None
    editions: tuple[Edition, ...] = ()
    reports: ReportSettings = field(default_factory=ReportSettings)
    deviations: tuple[Deviation, ...] = ()
    stress: StressSettings = field(default_factory=StressSettings)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)

    @property
    def needs_toolchain(self) -> bool:
        """Whether the run judges a toolchain, and not only files."""
        files = {AUDIT_FOLDER} if self.is_named else {AUDIT_FOLDER, RELEASE_FOLDER}
        return any(folder not in files for folder in self.folders)

    @property
    def looks(self) -> bool:
        """Whether the run only looks around: nothing is judged."""
        return self.doctor or self.listed is not None

    @property
    def is_named(self) -> bool:
        """Whether the user, the project or a release says which toolchain is judged."""
        return self.named or bool(self.release.toolchain)


def read_settings(config: pytest.Config) -> Settings:
    """Check the options, one by one and together.

    Raises:
        pytest.UsageError: for values that cannot be used, in one sentence.
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
    # As if it had been typed: xdist hands the options on to its workers.
    config.option.ascend_cache = suite
    folders = _folders(values, suite, toolchain, stress, nodes, release, audit)
    if not folders:
        _check_needed(values)
    check_places(config, values, release, audit.directories)
    return Settings(
        folders=folders,
        arguments=_arguments(values, suite),
        toolchain=toolchain,
        named=named,
        typed=any(OPTIONS[name].names_toolchain for name in typed_options(config)),
        chosen_by=_chosen_by(values, toolchain),
        atc=atc,
        op_compiler=values["--ascend-op-compiler"],
        cann_source=values["--ascend-cann-source"],
        python=values["--ascend-mindspore"],
        other_python=values["--ascend-mindspore-other"],
        script=values["--ascend-torchair-script"],
        cards=values["--ascend-torchair-cards"],
        soc=values["--ascend-soc"],
        start=values["--ascend-start"],
        defect=values["--ascend-defect"],
        profile=values["--ascend-profile"],
        rules=values["--ascend-rule"],
        takes_core=_takes_core(config, values, folders),
        matrix=values["--ascend-matrix"],
        seed=values["--ascend-seed"],
        strict=values["--ascend-strict"],
        timeout=values["--ascend-timeout"],
        ranks=values["--ascend-ranks"],
        real_waits=values["--ascend-real-waits"],
        budget=_budget(values),
        doctor=values["--ascend-doctor"],
        listed=values["--ascend-rules"],
        resume=values["--ascend-resume"],
        editions=read_editions(values["--ascend-edition"], values.given("--ascend-rules")),
        reports=ReportSettings(
            json=values["--ascend-report"],
            html=values["--ascend-html"],
            badge=values["--ascend-badge"],
            baseline=read_baseline(values["--ascend-baseline"]),
        ),
        deviations=read_deviations(values["--ascend-deviations"], toolchain),
        stress=stress,
        nodes=nodes,
        release=release,
        audit=audit,
    )


def _budget(values: Values) -> Budget | None:
    """The limit on checks, and the option that gave it."""
    given: Budget | None = values["--ascend-budget"]
    if values["--ascend-smoke"]:
        if given is not None:
            raise pytest.UsageError(
                f"--ascend-smoke is a budget of {SMOKE.runs} runs and does not go with "
                f"{values.shown('--ascend-budget')}; leave one of the two out."
            )
        return SMOKE
    return given


def _takes_core(config: pytest.Config, values: Values, folders: Sequence[str]) -> bool:
    """Whether of the suite its core is run: the whole suite was not asked for, nor a part named."""
    if values["--ascend-suite"] != SUITES[0] or values["--ascend-matrix"] != MATRICES[0]:
        return False
    given = config.option
    named = given.keyword or given.markexpr or values["--ascend-rule"]
    named = named or getattr(given, "lf", False) or any(map(_is_part, config.args))
    return not named and any(folder in DOCUMENTS for folder in folders)


def _is_part(argument: str) -> bool:
    """Whether an argument names a part of the suite, by package or by path."""
    place = argument.partition("::")[0]
    absolute = Path(os.path.abspath(place))  # noqa: PTH100 - '..' is to be resolved, links not
    return place.startswith(f"{PACKAGE}.") or SUITE in absolute.parents


def _arguments(values: Values, suite: bool) -> tuple[str, ...]:
    given = [each for each in values.repeated if each != "--ascend-cache"]
    return ("--ascend-cache", *given) if suite else tuple(given)


def _is_implied(
    config: pytest.Config, values: Values, release: ReleaseSettings, audit: AuditSettings
) -> bool:
    """Whether what was typed asks for the suite although ``--ascend-cache`` was not given.

    A project's configuration (``addopts``, ini keys) does not: it says how, not whether.
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
    folders: list[str] = []
    if suite and toolchain in MINDSPORE_TOOLCHAINS:
        cache = toolchain.removeprefix("mindspore-").replace("-", "_")
        folders += ["mindspore/common", f"mindspore/{cache}"]
    elif suite:
        folders += DOCUMENTS
    if suite and stress.asked:
        folders.append("stress")
        if nodes.number and toolchain not in MINDSPORE_TOOLCHAINS:
            folders.append("stress_on_nodes")
    if suite and nodes.number and toolchain not in MINDSPORE_TOOLCHAINS:
        folders.append("shared")
    if release.releases:
        folders.append(RELEASE_FOLDER)
    if audit.directories:
        folders.append(AUDIT_FOLDER)
    if values.given("--ascend-torchair-script"):
        folders.append("torchair_script")
    return tuple(folders)


def _check_needed(values: Values) -> None:
    """Refuse what is about verdicts where nothing is judged: there would be none."""
    about_verdicts = files_of(values, Access.WRITES, Access.CONTINUES)
    if values.given("--ascend-baseline"):
        about_verdicts.append((values.shown("--ascend-baseline"), values["--ascend-baseline"]))
    if about_verdicts:
        raise pytest.UsageError(
            f"{about_verdicts[0][0]}: nothing is judged that could be reported; add "
            "--ascend-cache, --ascend-audit=DIR or --ascend-release=FILE.toml."
        )


def _toolchain(values: Values) -> str:
    """The name of the toolchain, and that the options about it agree."""
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
        raise pytest.UsageError(f"--ascend-torchair-script={script} is no file; name a script.")
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


def _chosen_by(values: Values, toolchain: str) -> str:
    """The option that says the most about what is judged, with its value, for messages."""
    chosen = (*_IMPLIES, "--ascend-toolchain")
    given = (values.shown(name) for name in chosen if values.given(name))
    return next(given, f"--ascend-toolchain={toolchain}")


_IMPLIES = (
    "--ascend-torchair-script",
    "--ascend-atc",
    "--ascend-op-compiler",
    "--ascend-cann-source",
)
"""Options that say which toolchain is judged where ``--ascend-toolchain`` does not."""


def _refuse_both(shown: str, about: str, other: str) -> None:
    raise pytest.UsageError(
        f"{shown} is about the toolchain '{about}' and does not go with {other}; leave one of the "
        "two out."
    )
