"""Command-line options, read once into one value."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.conformance import STRESS_RULE
from pytest_ascendcache.plugin.options.audit import (
    AUDIT_FOLDER,
    AuditSettings,
    add_audit_options,
    asks_for_audit,
    read_audit,
)
from pytest_ascendcache.plugin.options.mindspore import (
    MindSporeSettings,
    add_mindspore_options,
    mindspore_suites,
    read_mindspore,
)
from pytest_ascendcache.plugin.options.op_compiler import NAME as OP_COMPILER
from pytest_ascendcache.plugin.options.op_compiler import add_op_compiler_option, read_op_compiler
from pytest_ascendcache.plugin.options.release import (
    ReleaseSettings,
    add_release_options,
    asks_for_release,
    read_releases,
)
from pytest_ascendcache.plugin.options.reports import (
    ReportSettings,
    add_report_options,
    check_file,
    read_reports,
)
from pytest_ascendcache.plugin.options.toolchain import (
    TORCHAIR,
    ToolchainSettings,
    add_toolchain_options,
    asks_for_script,
    read_toolchain,
)

if TYPE_CHECKING:
    from pytest_ascendcache.contract.deviations import Deviation

MATRICES = ("pairwise", "triples", "full")
"""Values of ``--ascend-matrix``, the default first."""

DEFAULT_TIMEOUT = 120.0
"""Seconds one toolchain process may take. A real atc takes tens of seconds to start."""

DEFAULT_RANKS = 4
"""Ranks of a gang whose size nobody gave."""


DEFAULT_STRESS_STEPS = 120
"""Steps of a stress run whose check is asked for without saying for how long."""


@dataclass(frozen=True)
class StressSettings:
    """How long ranks are set against each other (``seconds`` or ``steps``), and by which ``seed``.

    ``history`` is where every step is written, ``replay`` a history to be carried out again.
    """

    seconds: float | None = None
    steps: int | None = None
    seed: int = 1
    history: Path | None = None
    replay: Path | None = None

    @property
    def arguments(self) -> list[str]:
        """The options that repeat it; a history is written elsewhere the next time."""
        if self.replay is not None:
            return [f"--ascend-stress-replay={self.replay}"]
        if self.seconds is None and self.steps is None:
            return []
        arguments = [f"--ascend-stress-seed={self.seed}"]
        if self.seconds is not None:
            arguments.append(f"--ascend-stress={self.seconds:g}")
        if self.steps is not None:
            arguments.append(f"--ascend-stress-steps={self.steps}")
        return arguments


@dataclass(frozen=True)
class Settings:
    """What the command line asks for. ``timeout`` is seconds one process may take; ``lists``
    are the names of the lists ``deviations`` come from; ``ranks`` is the size of gangs, ``None``
    where it was not given."""

    toolchain: str
    atc: str | None
    start: str
    strict: bool
    reports: ReportSettings
    defect: str | None
    timeout: float
    matrix: str
    ranks: int | None = None
    profile: str | None = None
    lists: tuple[str, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    real_waits: bool = False
    op_compiler: str | None = None
    stress: StressSettings = StressSettings()
    mindspore: MindSporeSettings = field(default_factory=MindSporeSettings)
    more: ToolchainSettings = field(default_factory=ToolchainSettings)
    suite: bool = True
    release: ReleaseSettings = field(default_factory=ReleaseSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)

    @property
    def arguments(self) -> list[str]:
        """The options that decide which toolchain is judged, to repeat a check."""
        arguments = ["--ascend-cache"] if self.suite else []
        if self.atc is not None:
            arguments.append(f"--ascend-atc={self.atc}")
        elif self.op_compiler is not None:
            arguments.append(f"--ascend-op-compiler={self.op_compiler}")
        elif self.toolchain not in ("reference", TORCHAIR):
            arguments.append(f"--ascend-toolchain={self.toolchain}")
        arguments += self.mindspore.arguments
        if self.start != "fork":
            arguments.append(f"--ascend-start={self.start}")
        if self.defect is not None:
            arguments.append(f"--ascend-defect={self.defect}")
        if self.profile is not None:
            arguments.append(f"--ascend-profile={self.profile}")
        arguments += [f"--ascend-deviations={name}" for name in self.lists]
        if self.timeout != DEFAULT_TIMEOUT:
            arguments.append(f"--ascend-timeout={self.timeout:g}")
        if self.real_waits:
            arguments.append("--ascend-real-waits")
        if self.ranks is not None:
            arguments.append(f"--ascend-ranks={self.ranks}")
        if self.matrix != MATRICES[0]:
            arguments.append(f"--ascend-matrix={self.matrix}")
        if self.strict:
            arguments.append("--ascend-strict")
        return [
            *arguments,
            *self.more.arguments,
            *self.stress.arguments,
            *self.audit.arguments,
            *self.release.arguments,
        ]


def add_options(parser: pytest.Parser) -> None:
    """Register the plugin's options."""
    group = parser.getgroup("ascendcache", "Ascend operator compile caches")
    group.addoption(
        "--ascend-cache",
        action="store_true",
        help="judge a toolchain's compile cache with the built-in conformance suite",
    )
    group.addoption(
        "--ascend-toolchain",
        metavar="NAME",
        default=None,
        help="reference (default), atc, op-compiler, mindspore-operator-cache, "
        "mindspore-graph-cache, or one a plugin provides",
    )
    group.addoption(
        "--ascend-atc",
        metavar="PATH",
        default=None,
        help="judge this ATC-compatible command (implies --ascend-toolchain=atc)",
    )
    add_op_compiler_option(group)
    group.addoption(
        "--ascend-start",
        choices=("fork", "process"),
        default="fork",
        help="how the reference is started: by fork from a warm parent, or as fresh processes",
    )
    group.addoption(
        "--ascend-strict", action="store_true", help="a broken 'should' rule fails, not warns"
    )
    group.addoption(
        "--ascend-rule",
        metavar="ID",
        action="append",
        default=[],
        help="judge only this rule (repeatable)",
    )
    group.addoption(
        "--ascend-matrix",
        choices=MATRICES,
        default=MATRICES[0],
        help="which combinations of options are compiled: those that cover every pair of levels "
        "(default), every triple, or all combinations of a reduced model",
    )
    add_report_options(group)
    group.addoption(
        "--ascend-defect",
        metavar="NAME",
        default=None,
        help="run the reference with a seeded defect, to see the checks fail",
    )
    group.addoption(
        "--ascend-real-waits",
        action="store_true",
        help="wait for missing ranks as long as the vendor's shortest timeout lasts (2 minutes)",
    )
    group.addoption(
        "--ascend-deviations",
        metavar="LIST",
        action="append",
        default=[],
        help="known deviations: a TOML file, or a list of the package such as cann (repeatable)",
    )
    group.addoption(
        "--ascend-profile",
        metavar="NAME",
        default=None,
        help="run the reference with all the defects of a vendor, such as cann",
    )
    group.addoption(
        "--ascend-timeout",
        metavar="SECONDS",
        type=float,
        default=DEFAULT_TIMEOUT,
        help="time one toolchain process may take before its group is killed (default: 120); "
        "the ranks of a gang have twice that",
    )
    group.addoption(
        "--ascend-ranks",
        metavar="N",
        type=int,
        default=None,
        help=f"ranks of a test marked ascend_ranks without a number (default: {DEFAULT_RANKS}; "
        "with -n no more than workers)",
    )
    add_toolchain_options(group)
    _add_stress_options(group)
    add_mindspore_options(group)
    add_release_options(group)
    add_audit_options(group)


def _add_stress_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--ascend-stress",
        metavar="SECONDS",
        type=float,
        default=None,
        help="let ranks compile, age, delete, damage and kill at random for so long, and check",
    )
    group.addoption(
        "--ascend-stress-steps",
        metavar="N",
        type=int,
        default=None,
        help="the same for so many steps; with --ascend-stress, whatever is reached first",
    )
    group.addoption(
        "--ascend-stress-seed",
        metavar="N",
        type=int,
        default=None,
        help="what decides the steps (default: drawn, and printed)",
    )
    group.addoption(
        "--ascend-stress-history",
        metavar="FILE.jsonl",
        default=None,
        help="write every step here (default: beside the sandboxes)",
    )
    group.addoption(
        "--ascend-stress-replay",
        metavar="FILE.jsonl",
        default=None,
        help="carry out the steps of a history again",
    )


DOCUMENTS = ("cache_mode", "impl_mode", "incremental", "static_kernel", "robustness")
"""Folders of the suite that ``--ascend-cache`` asks for, in the documents' order."""


def asked_suites(config: pytest.Config) -> tuple[str, ...]:
    """The folders of the suite to collect; with none the plugin is inert."""
    folders: list[str] = []
    if config.getoption("--ascend-cache"):
        folders += mindspore_suites(config) or DOCUMENTS
        if asks_for_stress(config):
            folders.append("stress")
    if asks_for_release(config):
        folders.append("release")
    if asks_for_audit(config):
        folders.append(AUDIT_FOLDER)
    if asks_for_script(config):
        folders.append("torchair_script")
    return tuple(folders)


def needs_toolchain(config: pytest.Config) -> bool:
    """Whether the run judges a toolchain, and not only files."""
    return any(folder != AUDIT_FOLDER for folder in asked_suites(config))


def asks_for_stress(config: pytest.Config) -> bool:
    """Whether the stress checks are to be collected: for a time, by a history, or by their rule."""
    names = ("--ascend-stress", "--ascend-stress-steps", "--ascend-stress-replay")
    asked = any(config.getoption(name) is not None for name in names)
    return asked or STRESS_RULE in config.getoption("--ascend-rule")


def _read_stress(config: pytest.Config) -> StressSettings:
    seconds, steps = config.getoption("--ascend-stress"), config.getoption("--ascend-stress-steps")
    seed = config.getoption("--ascend-stress-seed")
    history = config.getoption("--ascend-stress-history")
    replay = config.getoption("--ascend-stress-replay")
    if seconds is not None and not 0 < seconds < math.inf:
        raise pytest.UsageError(
            f"--ascend-stress={seconds:g} is no time to run; give seconds greater than 0."
        )
    if steps is not None and steps < 1:
        raise pytest.UsageError(f"--ascend-stress-steps={steps}: give 1 step or more.")
    if seed is not None and seed < 0:
        raise pytest.UsageError(f"--ascend-stress-seed={seed}: give a number from 0 on.")
    given = seconds is not None or steps is not None
    if replay is not None and (given or seed is not None):
        raise pytest.UsageError(
            f"--ascend-stress-replay={replay} already says what is done; leave out the seed and "
            "how long."
        )
    if replay is not None and not Path(replay).is_file():
        raise pytest.UsageError(
            f"--ascend-stress-replay={replay} is no file; name a history of --ascend-stress."
        )
    if replay is not None:
        _check_history(replay)
    check_file("--ascend-stress-history", history)
    if given and seed is None:
        seed = secrets.randbelow(2**32)
        # xdist hands the options on to its workers: they are to take the same one.
        config.option.ascend_stress_seed = seed
    return StressSettings(
        seconds=seconds,
        steps=steps,
        seed=1 if seed is None else seed,
        history=Path(history).absolute() if history is not None else None,
        replay=Path(replay).absolute() if replay is not None else None,
    )


def _check_history(name: str) -> None:
    from pytest_ascendcache.stress import HistoryError, read_history

    try:
        read_history(Path(name))
    except HistoryError as error:
        raise pytest.UsageError(f"--ascend-stress-replay: {error}") from None


def check_ranks(config: pytest.Config) -> None:
    """Refuse a size no gang can have; also asked for without ``--ascend-cache``.

    Raises:
        pytest.UsageError: naming the value.
    """
    ranks = config.getoption("--ascend-ranks")
    if ranks is not None and ranks < 1:
        raise pytest.UsageError(f"--ascend-ranks={ranks} is no number of ranks; give 1 or more.")


def read_settings(config: pytest.Config) -> Settings:
    """Check the options.

    Raises:
        pytest.UsageError: for values that cannot be used, alone or together.
    """
    atc, op_compiler = config.getoption("--ascend-atc"), read_op_compiler(config)
    implied = "atc" if atc else OP_COMPILER if op_compiler else "reference"
    if asks_for_script(config):
        implied = TORCHAIR
    toolchain = config.getoption("--ascend-toolchain") or implied
    defect = config.getoption("--ascend-defect")
    timeout = config.getoption("--ascend-timeout")
    if atc and toolchain != "atc":
        raise pytest.UsageError(
            f"--ascend-atc={atc} names a command for the toolchain 'atc', but --ascend-toolchain "
            f"is '{toolchain}'; give one of the two."
        )
    if defect and toolchain != "reference":
        raise pytest.UsageError(
            f"--ascend-defect={defect} is a defect of the reference, but the toolchain is "
            f"'{toolchain}'; leave one of the two out."
        )
    profile = config.getoption("--ascend-profile")
    if profile and (defect or toolchain != "reference"):
        other = f"--ascend-defect={defect}" if defect else f"the toolchain '{toolchain}'"
        raise pytest.UsageError(
            f"--ascend-profile={profile} is a bundle of defects of the reference and does not go "
            f"with {other}; leave one of the two out."
        )
    if not timeout > 0:
        raise pytest.UsageError(
            f"--ascend-timeout={timeout:g} is no time to wait; give seconds greater than 0."
        )
    check_file("--ascend-resume", config.getoption("--ascend-resume"))
    releases = read_releases(config)  # before audits: caches of releases are audited too
    return Settings(
        toolchain=toolchain,
        atc=atc,
        op_compiler=op_compiler,
        start=config.getoption("--ascend-start"),
        strict=config.getoption("--ascend-strict"),
        reports=read_reports(config),
        defect=defect,
        timeout=timeout,
        real_waits=config.getoption("--ascend-real-waits"),
        ranks=config.getoption("--ascend-ranks"),
        matrix=config.getoption("--ascend-matrix"),
        stress=_read_stress(config),
        mindspore=read_mindspore(config, toolchain),
        more=read_toolchain(config),
        suite=config.getoption("--ascend-cache"),
        release=releases,
        audit=read_audit(config),
        profile=profile,
        **_deviations(config.getoption("--ascend-deviations"), toolchain),
    )


def _deviations(lists: list[str], toolchain: str) -> dict[str, tuple[Any, ...]]:
    """The lists and their entries; paths made absolute, so that a check can be repeated."""
    if not lists:
        return {}
    from pytest_ascendcache.combinations.factors import unknown_level
    from pytest_ascendcache.contract.deviations import (
        DeviationFileError,
        builtin_lists,
        load_deviations,
    )

    try:
        entries = tuple(entry for name in lists for entry in load_deviations(name))
        for entry in entries:
            if wrong := unknown_level(dict(entry.cell)):
                raise DeviationFileError(f"{entry.origin}: {wrong}")
    except DeviationFileError as error:
        raise pytest.UsageError(f"--ascend-deviations: {error}") from None
    places = (
        name if name in builtin_lists() else str(Path(name).absolute())
        for name in dict.fromkeys(lists)
    )
    about = tuple(entry for entry in entries if entry.is_about(toolchain))
    return {"lists": tuple(places), "deviations": about}
