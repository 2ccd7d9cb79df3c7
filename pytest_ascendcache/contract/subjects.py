"""What rules over a run: the option that a fact about it is about."""

from __future__ import annotations

from pytest_ascendcache.contract.facts import Subject, SubjectKind
from pytest_ascendcache.contract.options import CompileOptions

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


def implementing(options: CompileOptions) -> Subject | None:
    """The option that selects implementation modes in a run, None if none does."""
    if options.precision_file is not None:
        return Subject(SubjectKind.OPTION, "--op_precision_mode")
    if options.select_implmode is None:
        return None
    return Subject(SubjectKind.OPTION, "--op_select_implmode", options.select_implmode.value)
