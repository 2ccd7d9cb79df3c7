"""Defects that show how bad a broken promise is: each kind of harm has one, here or elsewhere."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import os
import signal

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.entry import LookupPolicy

HEALS = "robust/heals-damaged-entry"


@defect(HEALS, overrides=LookupPolicy.find, harm=Harm.HANG)
def damaged_entry_is_waited_for(self, right, fs, entry, expected):
    """A damaged entry is waited for, as if a process were writing it."""
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        signal.pause()
    return data


@defect(HEALS, overrides=LookupPolicy.find, harm=Harm.CRASH)
def damaged_entry_crashes_once(self, right, fs, entry, expected):
    """Cleaning up a damaged entry crashes the compiler; the next run works."""
    data = right(fs, entry, expected)
    if data is None and entry.metadata.exists():
        entry.metadata.unlink()
        os.abort()
    return data
