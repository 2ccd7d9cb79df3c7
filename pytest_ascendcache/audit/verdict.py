"""What an audit means for one rule."""

from __future__ import annotations

from pytest_ascendcache.audit.findings import Check, Found
from pytest_ascendcache.audit.limits import megabytes
from pytest_ascendcache.audit.result import Audit

_SHOWN = 5
_OF_CONTENTS = frozenset(
    {
        Check.WHOLE_ENTRIES,
        Check.DIGESTS,
        Check.WHOLE_OBJECTS,
        Check.METADATA,
        Check.NAMES_INSIDE,
        Check.INI,
        Check.RANK_DUPLICATES,
        Check.ONE_TOOLCHAIN,
    }
)


def undecided(result: Audit, check: Check) -> str:
    """Why an audit cannot tell of a rule; empty where it can."""
    found = result.found.get(check, Found())
    so_far = f" (found so far: {found.count})" if found.count else ""
    if result.changed.count:
        return (
            f"{result.directory} changed while it was read: {result.changed}{so_far}; audit it "
            "again when nobody compiles, or audit a copy"
        )
    if result.unlisted.count:
        return f"what is in {result.directory} cannot be looked into: {result.unlisted}{so_far}"
    if result.unread.count and not found.count and check in _OF_CONTENTS:
        count = result.unread.count
        files = "1 file" if count == 1 else f"{count} files"
        return f"{files} in {result.directory} cannot be read: {result.unread}"
    return ""


def story(result: Audit, check: Check) -> str:
    """What is wrong, with the first few files by name; empty where nothing is."""
    found = result.found.get(check)
    if found is None:
        return ""
    size = f", {megabytes(found.bytes)}" if found.bytes else ""
    count = "1 fault" if found.count == 1 else f"{found.count} faults"
    lines = [f"{count}{size} in {result.directory}"]
    lines += [f"  {each.path}: {each.detail}" for each in found.first[:_SHOWN]]
    if found.count > _SHOWN:
        lines.append(f"  and {found.count - _SHOWN} more")
    return "\n".join(lines)
