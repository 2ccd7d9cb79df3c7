"""What every observed run has: the end of a process, and changed files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pytest_ascendcache.caches import Change, Snapshot
from pytest_ascendcache.contract.facts import Subject
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.processes.ending import ProcessResult

_SHOWN_CHANGES = 20
_SHOWN_OUTPUT = 2000
"""How many changed files, and how many characters of output, the evidence of a run shows."""


def shown_output(output: str, succeeded: bool) -> str:
    """The output to show as evidence: its end, if the process failed."""
    return "" if succeeded else output[-_SHOWN_OUTPUT:]


class ObservedProcess:
    """One watched process. Dataclasses with a ``result`` derive from it."""

    result: ProcessResult

    @property
    def succeeded(self) -> bool:
        """Whether the process reports success and delivered everything."""
        return self.result.succeeded

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None if the process did not end in time."""
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
        """The change of each path that differs, including moved access times."""
        return self.before.changes(self.after)

    @property
    def written(self) -> dict[str, Change]:
        """The changes without access times moved by reading."""
        return {path: each for path, each in self.changes.items() if each is not Change.READ}

    @property
    def shown_changes(self) -> dict[str, str]:
        """The first few paths of :attr:`written`, with their changes in words, as evidence."""
        changes = {path: change.value for path, change in self.written.items()}
        shown = dict(list(changes.items())[:_SHOWN_CHANGES])
        if len(changes) > _SHOWN_CHANGES:
            shown["..."] = f"and {len(changes) - _SHOWN_CHANGES} more"
        return shown

    def describe(self) -> tuple[str, ...]:
        """One line for each operator, for the report."""
        raise NotImplementedError

    def codes(self) -> tuple[str, ...]:
        """The machine form of each operator's outcome, empty for what cannot be told."""
        return ()

    @property
    def subject(self) -> Subject | None:
        """The option that rules over the cache in this run, None if none is known."""
        return None

    def step(self, log: str = "", metadata: Mapping[str, tuple[str, str]] | None = None) -> Step:
        """This run as evidence. ``log`` is what log files say about a failure."""
        return Step(
            command=self.result.command,
            ending=self.result.ending,
            outcomes=self.describe() if self.succeeded else (),
            changes=self.shown_changes,
            output=shown_output(self.output, self.succeeded) + log,
            codes=self.codes() if self.succeeded else (),
            subject=self.subject,
            metadata=dict(metadata or {}),
        )
