"""Faults injected into a cache from outside: damage, interruptions, errors. This room knows no
rules."""

from pytest_ascendcache.faults.crash import (
    CrashKind,
    CrashState,
    after_all,
    crash_states,
    lost_when_done,
)
from pytest_ascendcache.faults.damage import DAMAGES, METADATA_REPLACED, Damage, damage_named
from pytest_ascendcache.faults.gate import FaultGate
from pytest_ascendcache.faults.plan import Action, FaultPlan, FaultPoints, FaultRoute
from pytest_ascendcache.faults.strace import SINGLE_CALLS, Strace, find_strace
from pytest_ascendcache.faults.trace import Act, Operation, TraceError
from pytest_ascendcache.faults.tree import Tree

__all__ = [
    "DAMAGES",
    "METADATA_REPLACED",
    "SINGLE_CALLS",
    "Act",
    "Action",
    "CrashKind",
    "CrashState",
    "Damage",
    "FaultGate",
    "FaultPlan",
    "FaultPoints",
    "FaultRoute",
    "Operation",
    "Strace",
    "TraceError",
    "Tree",
    "after_all",
    "crash_states",
    "damage_named",
    "find_strace",
    "lost_when_done",
]
