"""What rules over a run: the option that a fact about it is about."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ascendcache.contract.facts import Subject, SubjectKind
from pytest_ascendcache.contract.options import DEFAULT_SOC, CompileOptions

RUNS_END = "robust/runs-end"
"""The rule that accidents break: crashes and hangs that say nothing about the check they hit."""
ONCE = Subject(SubjectKind.EVENT, "once")
"""An accident that did not happen again with the same options."""
STOPPED = Subject(SubjectKind.EVENT, "stopped")
"""The end of all answers: several runs in a row, and a plain compile, did not end or crashed."""


def ruling(options: CompileOptions) -> Subject:
    """The option that rules over the cache in a run: a debug switch, or else the mode."""
    if options.debug_level:
        return Subject(SubjectKind.OPTION, "--op_debug_level", str(options.debug_level))
    if options.debug_config is not None:
        listed = options.debug_config.listed is not None
        return Subject(SubjectKind.OPTION, "op_debug_list" if listed else "--op_debug_config")
    mode = options.cache_mode
    return Subject(SubjectKind.OPTION, "--op_compiler_cache_mode", mode.value if mode else "")


_RAW = ("op_debug_config", "op_select_implmode", "optypelist_for_implmode", "op_precision_mode")


def unchecked(values: Mapping[str, str | None]) -> Subject | None:
    """The first option of this document among options whose values are given unchecked, None if
    there is none. A path is no value to name."""
    for name, value in values.items():
        if value is not None and name in ("op_compiler_cache_mode", *_RAW):
            return Subject(SubjectKind.OPTION, f"--{name}", "" if "/" in value else value)
    return None


def implementing(options: CompileOptions) -> Subject | None:
    """The option that selects implementation modes in a run, None if none does."""
    if options.precision_file is not None:
        return Subject(SubjectKind.OPTION, "--op_precision_mode")
    if options.implmode_types is not None:
        types = ",".join(options.implmode_types)
        return Subject(SubjectKind.OPTION, "--optypelist_for_implmode", types)
    if options.select_implmode is None:
        return None
    return Subject(SubjectKind.OPTION, "--op_select_implmode", options.select_implmode.value)


def keyed(options: CompileOptions) -> Subject | None:
    """The option of a run that sets its entries apart from those of others, None if none does: what
    selects implementation modes, or a chip that is not the default."""
    chip = Subject(SubjectKind.OPTION, "--soc_version", options.soc)
    return implementing(options) or (chip if options.soc != DEFAULT_SOC else None)
