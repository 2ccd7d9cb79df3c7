"""The part of gangs that is in the xdist controller: connects workers, and finds what never ran."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.ranks.channels import INPUT
from pytest_ascendcache.ranks.elsewhere import answers, is_elsewhere
from pytest_ascendcache.ranks.hub import Hub
from pytest_ascendcache.ranks.scheduling import GangScheduling, Spread

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

_SHOWN = 10


def is_controller(config: pytest.Config) -> bool:
    """Whether this process distributes tests to workers. ``dsession`` is not there yet when
    plugins are configured."""
    return (
        not hasattr(config, "workerinput")
        and config.getoption("dist", "no") != "no"
        and bool(config.getoption("tx", None))
        and not config.option.collectonly
    )


class GangController:
    """A plugin of the controller; ``seconds`` is the deadline of gangs, ``spread`` says in which
    portions and order ordinary tests are given out.

    ``gangs`` has the node ids of each gang's ranks, as the workers announced them; ``starting``
    the workers that were started and have collected nothing yet.
    """

    def __init__(
        self, config: pytest.Config, seconds: float, always_complete: bool, spread: Spread
    ) -> None:
        self._config = config
        self._spread = spread
        self._nodes: dict[str, WorkerController] = {}
        self._scheduler: GangScheduling | None = None
        self._problems: list[str] = []
        self._collected: dict[str, None] = {}
        self._reported: set[str] = set()
        self._always_complete = always_complete
        self._unreported: list[str] = []
        self._gang_of: dict[str, str] = {}
        self.gangs: dict[str, Sequence[str]] = {}
        self.starting: set[str] = set()
        self._silent: set[str] = set()
        self.hub = Hub(seconds, self._kill)

    def check_of(self, nodeid: str) -> str:
        """The name of a test without its rank: all ranks of a gang are one check."""
        return self._gang_of.get(nodeid, nodeid)

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Give a worker its channel: execnet can send channels, and this is the way in."""
        worker = node.gateway.id
        self._nodes[worker] = node
        self.starting.add(worker)
        channel = node.gateway.newchannel()
        self.hub.connect(worker, channel.send)
        channel.setcallback(partial(self._heard, worker))
        node.workerinput[INPUT] = channel

    def _heard(self, worker: str, message: Sequence[Any]) -> None:
        if message[0] == "gangs":
            _, gangs, problems, host = message
            if is_elsewhere(self._nodes[worker].gateway.spec):
                self.hub.find(worker, host)
            self._gang_of.update((each, name) for name, ids in gangs.items() for each in ids)
            self.gangs = self.gangs or gangs
            self._problems += problems
        else:
            self.hub.heard(worker, message)

    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> GangScheduling | None:
        """Ours for the default way to distribute."""
        if config.getvalue("dist") != "load":
            return None
        self._scheduler = GangScheduling(config, log, self, self._spread)
        return self._scheduler

    def pytest_xdist_node_collection_finished(
        self, node: WorkerController, ids: Sequence[str]
    ) -> None:
        """What the worker announced has arrived before: refuse what cannot be run."""
        self.starting.discard(node.gateway.id)
        if self._problems:
            raise pytest.UsageError(self._problems[0])
        if self.gangs and self._scheduler is None:
            raise pytest.UsageError(
                f"--dist={self._config.getvalue('dist')} cannot run the ranks of "
                f"{next(iter(self.gangs))} at the same time; use --dist=load, the default of -n."
            )
        if not self._collected:
            self._collected = dict.fromkeys(ids)

    def pytest_testnodedown(self, node: WorkerController, error: object | None) -> None:
        """A worker that ended by itself, as with -x, runs none of the ranks it still has."""
        worker = node.gateway.id
        self.starting.discard(worker)
        if error is None:
            why = f"was not run: its worker {self.hub.named(worker)} had ended"
            self.hub.lose_worker(worker, why)
        elif self.gangs:
            self._replace_if_host_answers(node)

    def _replace_if_host_answers(self, node: WorkerController) -> None:
        """To ask a host that does not answer for another worker takes minutes, and ends in an
        error of xdist's. Then it is as if ``--max-worker-restart=0`` had been given."""
        worker = node.gateway.id
        distributing = self._config.pluginmanager.getplugin("dsession")
        if distributing._max_worker_restart == 0:
            return
        if not answers(node.gateway.spec, worker in self._silent):
            distributing._max_worker_restart = 0
            why = "is not replaced: its host does not answer"
            distributing.report_line(f"\nworker {self.hub.named(worker)} {why}")

    def _kill(self, worker: str) -> None:
        """End a worker that does not answer; xdist itself would wait for it for ever."""
        self._silent.add(worker)
        io = self._nodes[worker].gateway._io
        with contextlib.suppress(OSError):
            io.kill()
            # Of a worker behind a socket only the connection can be ended from here.
            if hasattr(io, "sock"):
                io.sock.shutdown(2)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests came to an end; a crash is reported as one of them."""
        if report.when != "setup" or not report.passed:
            self._reported.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run of which a part is missing: xdist says nothing when workers run out."""
        self.hub.close()
        whole = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if session.exitstatus in whole and (self.gangs or self._always_complete):
            self._unreported = [each for each in self._collected if each not in self._reported]
        if self._unreported:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what is missing."""
        if self._unreported:
            shown = ", ".join(self._unreported[:_SHOWN])
            more = len(self._unreported) - _SHOWN
            terminalreporter.line(
                f"ERROR: {len(self._unreported)} of {len(self._collected)} collected tests were "
                f"never run: {shown}{f' and {more} more' if more > 0 else ''}",
                red=True,
            )
