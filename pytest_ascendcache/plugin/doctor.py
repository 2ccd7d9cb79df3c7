"""``--ascend-doctor``: the toolchains on this machine, what they can be judged for, and the cost.

It runs the positive control of each toolchain, which compiles one small operator a few times, to
see that markers work and how long a run takes. It judges nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest

from pytest_ascendcache.contract import Capability, load_rules
from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.observation import positive_control
from pytest_ascendcache.plugin.doctor_machine import (
    DoctorFinding,
    machine_findings,
    rules_that_need,
)
from pytest_ascendcache.plugin.estimate import duration, estimated_starts
from pytest_ascendcache.plugin.options.option import SMOKE, SMOKE_RUNS
from pytest_ascendcache.plugin.session import CONTROL_OPERATOR, AscendSession
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import Toolchain, ToolchainError, atc_toolchain
from pytest_ascendcache.toolchains.installed import InstalledAtc, Sighting, in_sight
from pytest_ascendcache.words.layout import columns, wrapped

_MAKES_NO_SENSE = {Capability.REHEARSED_WAITS, Capability.SINGLE_OP_DEBUG}
"""Capabilities that only the reference has, or that another capability covers."""
_NAMED = "named"


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
        for finding in machine_findings(self._session.base, self._session.file_system):
            yield from _described(finding, self._language)

    def _toolchains(self) -> Iterator[tuple[Toolchain | DoctorFinding, str]]:
        """The toolchain that the options name, then every other atc found, then the reference."""
        settings, named = self._session.settings, None
        if settings.is_named and settings.toolchain != "reference":
            named = self._session.toolchain
            yield named, _NAMED
        known = {named.installation.program.resolve()} if isinstance(named, InstalledAtc) else set()
        for each in in_sight("atc", os.environ):
            if each.program.resolve() not in known:
                yield self._made(each), f"by {each.found_by}"
        yield reference_toolchain(), "embedded"

    def _made(self, sighting: Sighting) -> Toolchain | DoctorFinding:
        try:
            settings = self._session.settings
            return atc_toolchain(str(sighting.program), settings.timeout, settings.soc)
        except ToolchainError as error:
            return DoctorFinding("missing", f"atc ({sighting.program})", str(error))

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
                f"of a real atc: {rules_that_need(Capability.OP_COMPILER)}",
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
        yield f"{missing.lacking}: {rules_that_need(missing)}"


def _described(finding: DoctorFinding, language: Language) -> list[str]:
    """A finding as lines of a terminal's width."""
    first = wrapped(translated(finding.what, language), 12)
    state = text(f"doctor_{finding.state}", language)
    first[0] = f"  {state}{' ' * (10 - columns(state))}{first[0].lstrip()}"
    details = (translated(detail, language) for detail in finding.details)
    return [*first, *(line for detail in details for line in wrapped(detail, 14))]
