"""``--ascend-doctor``: what the suite can do on this machine."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

from pytest_ascendcache.caches.filesystem import AccessTimes, FileSystem
from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.faults import find_strace
from pytest_ascendcache.plugin.options.places import NO_PATH_OF_ATC
from pytest_ascendcache.toolchains.models import can_write_models
from pytest_ascendcache.words import count

_ENOUGH = 2 << 30
"""Bytes that the sandboxes of a whole run need at most."""


class DoctorFinding:
    """A thing that was examined. ``state`` is ok, missing or note; ``details`` are lines below."""

    def __init__(self, state: str, what: str, *details: str) -> None:
        self.state = state
        self.what = what
        self.details = details


def machine_findings(base: Path, file_system: FileSystem) -> list[DoctorFinding]:
    """The findings about this machine; sandboxes are made in ``base``, on ``file_system``."""
    findings = [_python(), _strace(), _onnx(), _access_times(file_system), _user()]
    return [*findings, _space(base)]


def rules_that_need(missing: Capability) -> str:
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
    needed = rules_that_need(Capability.FAULT_POINTS)
    return DoctorFinding("missing", reason, f"of a real atc: {needed}", f"get it: {remedy}")


def _onnx() -> DoctorFinding:
    if can_write_models():
        return DoctorFinding("ok", "onnx writes the models that debug switches are judged with")
    needed = rules_that_need(Capability.DEBUG_CONFIG)
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
