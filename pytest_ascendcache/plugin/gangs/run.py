"""Runs a gang without xdist: one item whose body runs in a process for each rank.

The parent sets up what the ranks share (fixtures wider than the test). Each rank runs setup, call
and teardown of the test itself, and the parent merges their reports into one.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from _pytest.runner import runtestprotocol

from pytest_ascendcache.plugin.beside import reported
from pytest_ascendcache.plugin.gangs import PLACE, PlaceInGang, gang_directory
from pytest_ascendcache.plugin.gangs.reports import (
    PlainReport,
    RankFate,
    outcome_of,
    plain,
    record_of,
    sections,
)
from pytest_ascendcache.plugin.stash import (
    FAILED,
    RENDEZVOUS,
    SESSION,
    as_known,
    ascend_session_of,
    keeps_sandbox,
)
from pytest_ascendcache.ranks import RankLost
from pytest_ascendcache.ranks.local import GangError, RankEnding, run_gang
from pytest_ascendcache.ranks.pipes import PipeRendezvous

Phase = Literal["setup", "call", "teardown"]


class GangItem:
    """One item as a gang of ``size`` processes, which are killed after ``seconds``.

    ``run`` is called by the hook ``pytest_runtest_protocol`` and logs all reports of the item.
    """

    def __init__(self, item: pytest.Function, size: int, seconds: float) -> None:
        self._item = item
        self._size = size
        self._seconds = seconds
        self._base: Path | None = None

    def run(self, nextitem: pytest.Item | None) -> None:
        """Run the item and log its reports: shared setup, all ranks, teardown."""
        item, hook = self._item, self._item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        # pytest needs the item on its setup stack. Here its setup is only that of wider fixtures;
        # each rank sets up the item's own.
        item.setup = self._share  # type: ignore[method-assign]
        setup = self._phase("setup", lambda: hook.pytest_runtest_setup(item=item))
        del item.setup
        hook.pytest_runtest_logreport(report=setup)
        if setup.passed and not item.config.getoption("setuponly", False):
            report = self._run_ranks()
            hook.pytest_runtest_logreport(report=report)
            if not keeps_sandbox(report):
                self._discard()
        if item.session.shouldfail or item.session.shouldstop:
            nextitem = None
        teardown = self._phase(
            "teardown", lambda: hook.pytest_runtest_teardown(item=item, nextitem=nextitem)
        )
        hook.pytest_runtest_logreport(report=teardown)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _phase(self, when: Phase, action: Callable[[], None]) -> pytest.TestReport:
        call = pytest.CallInfo.from_call(
            action, when=when, reraise=(pytest.exit.Exception, KeyboardInterrupt)
        )
        report: pytest.TestReport = self._item.ihook.pytest_runtest_makereport(
            item=self._item, call=call
        )
        return report

    def _share(self) -> None:
        """Set up wider fixtures and directories once, in the parent; the ranks inherit them."""
        item = self._item
        for name in item.fixturenames:
            definitions = item._fixtureinfo.name2fixturedefs.get(name)
            if definitions and definitions[-1].scope != "function":
                item._request.getfixturevalue(name)
        factory: pytest.TempPathFactory = item._request.getfixturevalue("tmp_path_factory")
        if "ascend_session" in item.fixturenames:
            # The ranks inherit the positive control and a warm toolchain.
            session = ascend_session_of(item.config)
            session.prepare()
            self._base = session.sandbox(f"gang-{item.name}")
        else:
            self._base = gang_directory(item, factory)
        (self._base / "shared").mkdir()
        for rank in range(self._size):
            for name in ("sandboxes", "tmp"):
                (self._base / f"rank-{rank}" / name).mkdir(parents=True)

    def _run_ranks(self) -> pytest.TestReport:
        item = self._item
        properties = list(item.user_properties)
        start = time.time()
        try:
            run = run_gang(item.nodeid, self._size, self._be_rank, self._seconds)
        except GangError as error:
            return self._phase("call", partial(_raise, error))
        stop = time.time()
        if item.config.getoption("capture") == "no":
            for ending in run.endings:
                sys.stdout.write(ending.words)
        fates = [
            RankFate(ending.rank, ending.ending(self._seconds), ending.words, self._phases(ending))
            for ending in run.endings
        ]
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            when="call",
            sections=sections(fates, run.leftovers),
            duration=stop - start,
            start=start,
            stop=stop,
            user_properties=properties,
            **outcome_of(fates),
        )
        item.user_properties[:] = properties
        record = record_of(item.nodeid, fates, str(self._base))
        if record is not None:
            item.user_properties.append(("verdict", record.verdict.value))
            report.user_properties = list(item.user_properties)
            report.ascend_record = record.as_dict()  # type: ignore[attr-defined]
            report.ascend_verdict = record.verdict.value  # type: ignore[attr-defined]
            if record.deviation is not None:
                as_known(report, record.deviation["reason"])
        return reported(item, report)

    def _discard(self) -> None:
        assert self._base is not None
        if SESSION in self._item.config.stash:
            self._item.config.stash[SESSION].discard(self._base)
        else:
            shutil.rmtree(self._base, ignore_errors=True)

    def _phases(self, ending: RankEnding) -> list[PlainReport]:
        """The reports of a rank's phases; for a rank that died, a report that says so."""
        if ending.result is not None:
            return [PlainReport(**each) for each in ending.result]
        reason = f"rank {ending.rank} {ending.ending(self._seconds)}"
        output = ending.words.strip().splitlines()
        if output:
            reason += f"; its last output: {output[-1]}"
        report = self._phase("call", partial(_raise, RankLost(reason)))
        return [replace(plain(report), text=reason)]

    def _be_rank(self, rank: int, rendezvous: PipeRendezvous) -> list[dict[str, Any]]:
        """Run the whole test in the rank's process, with separate output and sandboxes."""
        item, config = self._item, self._item.config
        _separate_output(config)
        assert self._base is not None
        base = self._base / f"rank-{rank}"
        if SESSION in config.stash:
            config.stash[SESSION].move(base / "sandboxes")
        # In the session's directory the ranks would race for numbered names.
        config._tmp_path_factory._basetemp = base / "tmp"  # type: ignore[attr-defined]
        item.stash[PLACE] = PlaceInGang(rank, self._size, self._base / "shared")
        item.stash[RENDEZVOUS] = rendezvous
        item.stash[FAILED] = True  # a rank keeps its sandbox; the parent decides about it
        # Tear down to the item's parent, which every rank inherited, and no further.
        item.session._setupstate.teardown_exact(item.parent)  # type: ignore[arg-type]
        reports = runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]
        return [asdict(plain(report)) for report in reports]


def _raise(error: Exception) -> None:
    raise error


def _separate_output(config: pytest.Config) -> None:
    """Send output to the rank's own file, and keep debuggers from waiting for input."""
    manager = config.pluginmanager.getplugin("capturemanager")
    if manager is not None:
        # The ranks share the parent's temporary files and their offsets. Without global capture
        # all output goes to descriptors 1 and 2; capsys and capfd still work.
        config.pluginmanager.unregister(manager)
        plain_manager = type(manager)("no")
        plain_manager.start_global_capturing()
        config.pluginmanager.register(plain_manager, "capturemanager")
    debugger = config.pluginmanager.getplugin("pdbinvoke")
    if debugger is not None:
        config.pluginmanager.unregister(debugger)
