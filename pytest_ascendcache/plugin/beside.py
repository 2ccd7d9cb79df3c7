"""How the plugin gets on with others: who sees a verdict first, and what a rerun means.

Other plugins read a report as it is when their hook is called. A verdict may differ from the
outcome that pytest gives a check, so it is made before they look. A rule that was broken once is
broken: a check that judges one is not run again, and neither is a gang, whose ranks would wait for
each other.
"""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.runner import pytest_runtest_protocol

from pytest_ascendcache.plugin.stash import MERGED

_RERUNS = ("rerunfailures", "pytest_rerunfailures")
"""The plugin's names: as pytest finds it, and where ``-p`` names its module."""
_PYTESTS_OWN = "_pytest."


def judge_first(config: pytest.Config, hooks: object) -> None:
    """Call our wrapper of ``pytest_runtest_makereport`` inside those of other plugins.

    pytest's own wrappers, such as that of xfail, stay inside ours. pluggy has no public way to
    order plugins by name; they come in the order in which they were found.
    """
    caller: Any = config.hook.pytest_runtest_makereport
    order: list[Any] | None = getattr(caller, "_hookimpls", None)
    ours = [each for each in order or () if each.plugin is hooks]
    if order is None or len(ours) != 1:
        return
    order.remove(ours[0])
    inner = [
        place
        for place, each in enumerate(order)
        if not each.tryfirst
        and getattr(each.plugin, "__name__", type(each.plugin).__module__).startswith(_PYTESTS_OWN)
    ]
    order.insert(max(inner, default=-1) + 1, ours[0])


def run_once(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a check that no plugin shall run again; None leaves it to pytest."""
    if not any(map(item.config.pluginmanager.hasplugin, _RERUNS)):
        return None
    return pytest_runtest_protocol(item, nextitem)


def reported(item: pytest.Item, merged: pytest.TestReport) -> pytest.TestReport:
    """The report of a gang, shown to other plugins as that of any other test."""

    def end() -> None:
        if merged.failed:
            pytest.fail(merged.longreprtext, pytrace=False)
        if merged.skipped and not hasattr(merged, "wasxfail"):
            pytest.skip(str(merged.longrepr[2]) if isinstance(merged.longrepr, tuple) else "")

    call = pytest.CallInfo.from_call(end, when="call")
    item.stash[MERGED] = merged
    try:
        seen: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    finally:
        del item.stash[MERGED]
    return seen
