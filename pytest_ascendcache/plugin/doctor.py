"""``--ascend-doctor``: the toolchains on this machine, what they can be judged for, and the cost.

It runs the positive control of each toolchain, which compiles one small operator a few times, to
see that markers work and how long a run takes. It judges nothing.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_ascendcache.caches.filesystem import AccessTimes, FileSystem
from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.faults import find_strace
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.observation import positive_control
from pytest_ascendcache.plugin.options.option import SMOKE, SMOKE_RUNS
from pytest_ascendcache.plugin.options.places import NO_PATH_OF_ATC
from pytest_ascendcache.plugin.session import CONTROL_OPERATOR, AscendSession
from pytest_ascendcache.plugin.spreading import duration, estimated_starts
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import Toolchain, ToolchainError, atc_toolchain
from pytest_ascendcache.toolchains.installed import InstalledAtc, in_sight
from pytest_ascendcache.toolchains.models import can_write_models
from pytest_ascendcache.words import count
from pytest_ascendcache.words.layout import columns, wrapped

_MAKES_NO_SENSE = {Capability.REHEARSED_WAITS, Capability.SINGLE_OP_DEBUG}
"""Capabilities that only the reference has, or that another capability covers."""
_NAMED = "named"
_ENOUGH = 2 << 30
"""Bytes that the sandboxes of a whole run need at most."""


class DoctorFinding:
    """A thing that was examined. ``state`` is ok, missing or note; ``details`` are lines below."""

    def __init__(self, state: str, what: str, *details: str) -> None:
        self.state = state
        self.what = what
        self.details = details


class Doctor:
    """Examines toolchains and machine; ``fine`` is afterwards whether every toolchain compiles."""

    def __init__(
        self, session: AscendSession, items: Sequence[pytest.Item], language: Language
    ) -> None:
        self._session = session
        self._language = language
        self._checks = [item.nodeid for item in items]
        self.fine = True

    def lines(self) -> Iterator[str]:
        """The report, line by line as it is found out; this runs the toolchains."""
        yield translated("toolchains found", self._language)
        for toolchain, found_by in self._toolchains():
            yield from _described(self._examined(toolchain, found_by), self._language)
            if (
                not isinstance(toolchain, DoctorFinding) and found_by != _NAMED
            ):  # the session closes that one
                toolchain.close()
        for finding in self._others():
            yield from _described(finding, self._language)
        yield translated("this machine", self._language)
        for finding in _machine_findings(self._session.base, self._session.file_system):
            yield from _described(finding, self._language)

    def _toolchains(self) -> Iterator[tuple[Toolchain | DoctorFinding, str]]:
        """The toolchain that the options name, then every other atc found, then the reference."""
        settings, named = self._session.settings, None
        if settings.is_named and settings.toolchain != "reference":
            named = self._session.toolchain
            yield named, _NAMED
        known = {named.installation.program.resolve()} if isinstance(named, InstalledAtc) else set()
        for each in in_sight("atc", os.environ):
            if each.program.resolve() in known:
                continue
            made: Toolchain | DoctorFinding
            try:
                made = atc_toolchain(str(each.program), settings.timeout, settings.soc)
            except ToolchainError as error:
                made = DoctorFinding("missing", f"atc ({each.program})", str(error))
            yield made, f"by {each.found_by}"
        yield reference_toolchain(), "embedded"

    def _examined(self, toolchain: Toolchain | DoctorFinding, found_by: str) -> DoctorFinding:
        if isinstance(toolchain, DoctorFinding):
            self.fine = False
            return toolchain
        title = f"{toolchain.name} {toolchain.version} ({found_by})"
        surroundings = list(_surroundings(toolchain))
        if Capability.OPERATOR_CACHE not in toolchain.capabilities:
            return DoctorFinding("ok", title, *surroundings, *_lacking(toolchain))
        control = positive_control(toolchain, CONTROL_OPERATOR, self._session.sandbox("doctor"))
        if not control.compiles:
            self.fine = False
            return DoctorFinding(
                "missing", title, *surroundings, f"cannot compile: {control.reason}"
            )
        if control.reason:
            surroundings.append(
                f"positive control: {control.reason}; checks that depend on it are undecided"
            )
        costs = self._costs(toolchain, control.seconds)
        return DoctorFinding("ok", title, *surroundings, costs, *_lacking(toolchain))

    def _costs(self, toolchain: Toolchain, seconds: float) -> str:
        if toolchain.name == "reference":
            return f"{SMOKE}: about 15 s, the whole suite: about 2 minutes on 2 quiet cores"
        runs = {
            SMOKE: SMOKE_RUNS,
            "the whole suite": estimated_starts(self._checks, toolchain.capabilities),
        }
        costs = ", ".join(
            f"{selection}: about {number} runs, {duration(number * seconds)}"
            for selection, number in runs.items()
        )
        return f"one run: {seconds:.2g} s as measured; {costs}"

    def _others(self) -> Iterator[DoctorFinding]:
        """Compilers of static kernels, and toolchains that are missing."""
        programs = in_sight("op_compiler", os.environ)
        for each in programs:
            option = f"judged with --ascend-toolchain=op-compiler:{each.program}"
            yield DoctorFinding("ok", f"op_compiler ({each.program}, by {each.found_by})", option)
        if not in_sight("atc", os.environ):
            yield DoctorFinding(
                "missing",
                "atc: neither on PATH nor below ASCEND_TOOLKIT_HOME or ASCEND_HOME_PATH",
                "without one only the reference is judged, which says nothing about CANN",
                "get it: source the toolkit's set_env.sh, or name it: --ascend-atc=PATH",
            )
        if not programs:
            yield DoctorFinding(
                "missing",
                "op_compiler, which compiles static kernels",
                f"of a real atc: {_rules_that_need(Capability.OP_COMPILER)}",
                "get it: a CANN toolkit that has it, or --ascend-toolchain=op-compiler:PATH",
            )


def _surroundings(toolchain: Toolchain) -> Iterator[str]:
    """Details of a toolchain; of a real one its operator package and chips too."""
    for name, value in toolchain.details.items():
        yield f"{name}: {value}"
    if not isinstance(toolchain, InstalledAtc):
        return
    installation = toolchain.installation
    if installation.opp is None:
        yield "operator package: not found; set ASCEND_OPP_PATH"
    socs = sorted(installation.socs or ())
    more = f" and {len(socs) - 6} more" if len(socs) > 6 else ""
    yield f"chips: {', '.join(socs[:6]) + more or 'no descriptions found, so any name is tried'}"


def _lacking(toolchain: Toolchain) -> Iterator[str]:
    """The capabilities that a toolchain lacks, and the rules that need them."""
    needed = {each for rule in load_rules().values() for each in rule.capabilities}
    for missing in sorted(needed - toolchain.capabilities - _MAKES_NO_SENSE):
        yield f"{missing.lacking}: {_rules_that_need(missing)}"


def _described(finding: DoctorFinding, language: Language) -> list[str]:
    """A finding as lines of a terminal's width."""
    first = wrapped(translated(finding.what, language), 12)
    state = text(f"doctor_{finding.state}", language)
    first[0] = f"  {state}{' ' * (10 - columns(state))}{first[0].lstrip()}"
    details = (translated(detail, language) for detail in finding.details)
    return [*first, *(line for detail in details for line in wrapped(detail, 14))]


def _machine_findings(base: Path, file_system: FileSystem) -> list[DoctorFinding]:
    """The findings about this machine; sandboxes are made in ``base``, on ``file_system``."""
    findings = [_python(), _strace(), _onnx(), _access_times(file_system), _user()]
    return [*findings, _space(base)]


def _rules_that_need(missing: Capability) -> str:
    """How many rules are not applicable without a capability, and which."""
    names = [rule.id for rule in load_rules().values() if missing in rule.capabilities]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{count(len(names), 'rule')} not applicable ({shown})" if names else "no rule needs it"


def _python() -> DoctorFinding:
    cores = len(os.sched_getaffinity(0))
    versions = (f"{name} {version(name)}" for name in ("pytest", "pytest-xdist", "llvmlite"))
    own = f"pytest-ascendcache {version('pytest-ascendcache')}, Python {platform.python_version()}"
    return DoctorFinding(
        "ok",
        f"{own} on {platform.machine()}, {count(cores, 'core')}",
        ", ".join(versions),
        f"-n {cores} uses all cores" if cores > 1 else "-n 1 is enough",
    )


def _strace() -> DoctorFinding:
    if program := find_strace():
        return DoctorFinding("ok", f"strace watches file operations ({program})")
    if found := shutil.which("strace"):
        reason = f"strace is installed ({found}), but may not trace and kill a process"
        remedy = "in a container: --cap-add=SYS_PTRACE; on a host: sysctl kernel.yama.ptrace_scope"
    else:
        reason, remedy = "no strace on PATH", "apt-get install strace, or dnf install strace"
    needed = _rules_that_need(Capability.FAULT_POINTS)
    return DoctorFinding("missing", reason, f"of a real atc: {needed}", f"get it: {remedy}")


def _onnx() -> DoctorFinding:
    if can_write_models():
        return DoctorFinding("ok", "onnx writes the models that debug switches are judged with")
    needed = _rules_that_need(Capability.DEBUG_CONFIG)
    return DoctorFinding(
        "missing",
        "the package onnx",
        f"of a real atc: {needed}",
        "get it: python -m pip install onnx",
    )


def _access_times(file_system: FileSystem) -> DoctorFinding:
    if file_system.access_times is AccessTimes.NONE:
        return DoctorFinding(
            "missing",
            f"access times: {file_system} never renews them",
            "aging/works-on-relatime has no mount to check, and only markers show whether a "
            "file was read",
            "get it: --basetemp on a file system that is mounted relatime",
        )
    return DoctorFinding("ok", f"access times of sandboxes: {file_system}")


def _user() -> DoctorFinding:
    if os.geteuid() != 0:
        return DoctorFinding("ok", f"user {os.geteuid()}, an ordinary one")
    return DoctorFinding(
        "note",
        "root",
        "checks of file permissions are not applicable: a cache of another user, a build "
        "directory that is closed",
        "get them: run as an ordinary user, as a CI job should",
    )


def _space(base: Path) -> DoctorFinding:
    if refused := NO_PATH_OF_ATC.search(str(base)):
        return DoctorFinding(
            "missing",
            f"sandboxes in {base}: the path contains {refused[0]!r}, which ATC does not accept",
            "get it: --basetemp=/tmp/ascendcache",
        )
    free = shutil.disk_usage(base).free
    megabytes = f"{free >> 20} MB free for sandboxes in {base}"
    if free >= _ENOUGH:
        return DoctorFinding("ok", megabytes)
    return DoctorFinding(
        "missing",
        megabytes,
        f"a whole run takes up to {_ENOUGH >> 20} MB",
        "get it: --basetemp=DIR where there is more",
    )
