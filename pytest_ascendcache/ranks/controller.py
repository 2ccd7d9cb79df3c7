"""Gangs in the xdist controller: connects workers to the hub, and reports tests that never ran."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.ranks.channels import INPUT
from pytest_ascendcache.ranks.hub import Hub
from pytest_ascendcache.ranks.scheduling import GangScheduling, Spread

if TYPE_CHECKING:
    from execnet.xspec import XSpec
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

_SHOWN = 10
_PATIENCE = 15
"""Seconds within which a host must answer. The whole run waits for it."""


def is_controller(config: pytest.Config) -> bool:
    """Whether this process distributes tests to workers. (xdist's plugin ``dsession`` does not
    exist yet when this is asked.)"""
    return (
        not hasattr(config, "workerinput")
        and config.getoption("dist", "no") != "no"
        and bool(config.getoption("tx", None))
        and not config.option.collectonly
    )


class GangController:
    """A pytest plugin for the controller.

    ``seconds`` is the deadline of gangs; ``spread`` decides the portions and the order in which
    ordinary tests are given out.
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
        self._gangs: dict[str, Sequence[str]] = {}  # the node ids of each gang's ranks
        self._starting: set[str] = set()  # workers that have not finished collection
        self._silent: set[str] = set()
        self.hub = Hub(seconds, self._kill)

    def check_of(self, nodeid: str) -> str:
        """The node id of a test, without the rank if it is one: a gang counts as one check."""
        return self._gang_of.get(nodeid, nodeid)

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Send a worker its channel along with its input."""
        worker = node.gateway.id
        self._nodes[worker] = node
        self._starting.add(worker)
        channel = node.gateway.newchannel()
        self.hub.connect(worker, channel.send)
        channel.setcallback(partial(self._heard, worker))
        node.workerinput[INPUT] = channel

    def _heard(self, worker: str, message: Sequence[Any]) -> None:
        if message[0] == "gangs":
            _, gangs, problems, host = message
            if not self._nodes[worker].gateway.spec.popen:
                self.hub.find(worker, host)
            self._gang_of.update((each, name) for name, ids in gangs.items() for each in ids)
            if not self._gangs:
                self._gangs.update(gangs)
            self._problems += problems
        else:
            self.hub.heard(worker, message)

    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> GangScheduling | None:
        """Use :class:`GangScheduling` for ``--dist=load``, the default."""
        if config.getvalue("dist") != "load":
            return None
        self._scheduler = GangScheduling(
            config, log, self.hub, self._gangs, self._starting, self._spread
        )
        return self._scheduler

    def pytest_xdist_node_collection_finished(
        self, node: WorkerController, ids: Sequence[str]
    ) -> None:
        """Refuse tests that cannot be run. The worker's announcement has arrived before."""
        self._starting.discard(node.gateway.id)
        if self._problems:
            raise pytest.UsageError(self._problems[0])
        if self._gangs and self._scheduler is None:
            raise pytest.UsageError(
                f"--dist={self._config.getvalue('dist')} cannot run the ranks of "
                f"{next(iter(self._gangs))} at the same time; use --dist=load, the default of -n."
            )
        if not self._collected:
            self._collected = dict.fromkeys(ids)

    def pytest_testnodedown(self, node: WorkerController, error: object | None) -> None:
        """Drop the ranks of a worker that ended by itself, as with -x, or replace one that died."""
        worker = node.gateway.id
        self._starting.discard(worker)
        if error is None:
            why = f"was not run: its worker {self.hub.named(worker)} had ended"
            self.hub.lose_worker(worker, why)
        elif self._gangs:
            self._replace_if_host_answers(node)

    def _replace_if_host_answers(self, node: WorkerController) -> None:
        """Have xdist replace no worker if the host does not answer: trying takes minutes, and fails
        with an internal error. This is like ``--max-worker-restart=0``."""
        worker = node.gateway.id
        distributing = self._config.pluginmanager.getplugin("dsession")
        if distributing._max_worker_restart == 0:
            return
        if not _answers(node.gateway.spec, worker in self._silent):
            distributing._max_worker_restart = 0
            why = "is not replaced: its host does not answer"
            distributing.report_line(f"\nworker {self.hub.named(worker)} {why}")

    def _kill(self, worker: str) -> None:
        """Kill a worker that does not answer. xdist would wait for it forever."""
        self._silent.add(worker)
        io = self._nodes[worker].gateway._io
        with contextlib.suppress(OSError):
            io.kill()
            # For a worker behind a socket only the connection can be closed from here.
            if hasattr(io, "sock"):
                io.sock.shutdown(2)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the tests that have ended. xdist reports a crash like a test's end."""
        if report.when != "setup" or not report.passed:
            self._reported.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that lacks tests: xdist says nothing when no worker is left."""
        self.hub.close()
        completed = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if session.exitstatus in completed and (self._gangs or self._always_complete):
            self._unreported = [each for each in self._collected if each not in self._reported]
        if self._unreported:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the tests that never ran."""
        if self._unreported:
            shown = ", ".join(self._unreported[:_SHOWN])
            more = len(self._unreported) - _SHOWN
            terminalreporter.line(
                f"ERROR: {len(self._unreported)} of {len(self._collected)} collected tests were "
                f"never run: {shown}{f' and {more} more' if more > 0 else ''}",
                red=True,
            )


def _answers(spec: XSpec, was_silent: bool) -> bool:
    """Whether the host of a worker that died can start another one.

    A host behind ssh is asked. A socket server cannot be asked, because execnet's server ends with
    its first connection: it counts as silent if its worker ``was_silent``.
    """
    if spec.popen:
        return True
    if not spec.ssh:
        return not was_silent
    from execnet.gateway_io import ssh_args

    program, *arguments = ssh_args(spec)[:-1]
    own = ["-o", f"ConnectTimeout={_PATIENCE}", "-o", "BatchMode=yes"]
    try:
        # The last argument is a shell command on that host.
        done = subprocess.run(
            [program, *own, *arguments, "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
