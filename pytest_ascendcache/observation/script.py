"""A user's script under test: runs that are watched from outside."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from pytest_ascendcache.observation.evidence import Evidence, Step
from pytest_ascendcache.observation.meeting_place import meeting_place
from pytest_ascendcache.observation.observed import shown_output
from pytest_ascendcache.toolchains import ToolchainError
from pytest_ascendcache.toolchains.torchair import ScriptRun, TorchairToolchain


class ScriptUnderTest:
    """Runs the script of a toolchain, each time in a new empty working directory."""

    def __init__(self, toolchain: TorchairToolchain, sandbox: Path, evidence: Evidence) -> None:
        self.toolchain = toolchain
        self.sandbox = sandbox
        self.evidence = evidence
        self._numbers: Iterator[int] = count()

    def run(self, cards: int = 1) -> ScriptRun:
        """Run it on so many cards.

        Raises:
            ToolchainError: where it fails or does not end: no verdict rests on it.
        """
        run = self.attempt(cards)
        if not run.succeeded:
            words = [line for output in run.outputs for line in output.strip().splitlines()[-1:]]
            raise ToolchainError(f"the script {run.ending}: {'; '.join(words)[:400]}")
        return run

    def attempt(self, cards: int = 1, local_world_size: str | None = "fitting") -> ScriptRun:
        """Like :meth:`run`, where failing is an answer too; only a hang is not.

        Raises:
            ToolchainError: where a card does not end.
        """
        work = self.sandbox / f"work{next(self._numbers)}"
        work.mkdir()
        with meeting_place(cards) as place:
            run = self.toolchain.run_script(work, place.port, cards, local_world_size)
        self.evidence.starts += len(run.commands)
        for command, code, output in zip(run.commands, run.returncodes, run.outputs, strict=True):
            said = shown_output(output, code == 0)
            self.evidence.steps.append(Step(command, f"ended with {code}", (), {}, said))
        if None in run.returncodes:
            raise ToolchainError("the script did not end and was killed")
        return run
