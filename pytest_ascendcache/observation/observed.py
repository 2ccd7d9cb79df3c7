"""What every observed run has: how its process ended, and what became of files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pytest_ascendcache.caches import Change, Snapshot
from pytest_ascendcache.processes.ending import ProcessResult

_SHOWN_CHANGES = 20
_SHOWN_OUTPUT = 2000
"""Files, and characters of output, that the evidence of a run shows."""


def shown_output(output: str, succeeded: bool) -> str:
    """What the evidence shows of a process's output: the end of it, where it failed."""
    return "" if succeeded else output[-_SHOWN_OUTPUT:]


class ObservedProcess:
    """One process that was watched. Dataclasses with a ``result`` derive from it."""

    result: ProcessResult

    @property
    def succeeded(self) -> bool:
        """Whether the process ended well and delivered everything it should."""
        return self.result.succeeded

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; ``None`` where it did not end in time."""
        return self.result.returncode

    @property
    def output(self) -> str:
        """The end of what the process printed."""
        return self.result.output


class ObservedFiles(ObservedProcess):
    """One process between two snapshots of the directories it might write."""

    before: Snapshot
    after: Snapshot

    @cached_property
    def changes(self) -> Mapping[str, Change]:
        """What became of each path that differs, access times that reading moved included."""
        return self.before.changes(self.after)

    @property
    def written(self) -> dict[str, Change]:
        """The changes, but for access times that reading moved."""
        return {path: each for path, each in self.changes.items() if each is not Change.READ}

    @property
    def shown_changes(self) -> dict[str, str]:
        """What the evidence shows of :attr:`written`: the first few paths, in words."""
        changes = {path: change.value for path, change in self.written.items()}
        shown = dict(list(changes.items())[:_SHOWN_CHANGES])
        if len(changes) > _SHOWN_CHANGES:
            shown["..."] = f"and {len(changes) - _SHOWN_CHANGES} more"
        return shown
