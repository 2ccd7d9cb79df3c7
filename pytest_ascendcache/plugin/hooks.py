"""The entry point of the plugin: pytest's hooks, and nothing but hooks.

Each hook hands over to the module that does the work and imports it only then. Without
``--ascend-cache`` and without one of the fixtures, nothing else of the package is imported.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.plugin import fixtures, hookspecs
from pytest_ascendcache.plugin.beside import judge_first, run_once
from pytest_ascendcache.plugin.options.parts import SUITE
from pytest_ascendcache.plugin.options.settings import read_settings
from pytest_ascendcache.plugin.options.table import add_options
from pytest_ascendcache.plugin.options.values import SETTLED
from pytest_ascendcache.plugin.stash import (
    FAILED,
    JUDGED,
    JUDGED_BY,
    MERGED,
    RENDEZVOUS,
    SESSION,
    SETTINGS,
    ascend_session_of,
    keeps_sandbox,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain

_MARKERS = (
    "ascend_rule(id): the promise of the documents that a test judges",
    "ascend_elementary(cases): a check, or some cases of it, on which others rest: it comes first",
    "ascend_cells(factor=levels): the combinations of options that a test is for",
    "ascend_node_profiles(profiles): the mounts that a test of several nodes is for",
    "ascend_ranks(n): ranks of a test that uses ascend_rank (default: --ascend-ranks)",
)
_PARAMETERS = {"ascend_cell", "ascend_release", "ascend_audited", "ascend_node_profile"}


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)
    pluginmanager.register(fixtures, "ascendcache-fixtures")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Users read the descriptions in --help only; other runs need no catalogue of translations.
    if {"-h", "--help"}.isdisjoint(sys.argv):
        add_options(parser)
    else:
        from pytest_ascendcache.plugin.users_language import translator_before_parsing

        add_options(parser, translator_before_parsing(sys.argv))


@pytest.hookimpl(trylast=True)
def pytest_ascendcache_toolchain(name: str, settings: Settings) -> Toolchain | None:
    from pytest_ascendcache.plugin.builtin import builtin_toolchain

    return builtin_toolchain(name, settings)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | pytest.ExitCode | None:
    if config.option.ascend_words:
        from pytest_ascendcache.plugin.looking import explain

        return explain(config)
    if not (config.option.ascend_doctor or config.option.ascend_rules):
        return None
    from pytest_ascendcache.plugin.looking import look_around

    return look_around(config)


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    judge_first(config, sys.modules[__name__])
    with _usage_errors_in_language(config):
        settings = config.stash[SETTINGS] = read_settings(config)
        if config.getoption("tx", None) or hasattr(config, "workerinput"):
            from pytest_ascendcache.plugin.gangs.items import join_workers

            join_workers(config)
        if settings.judges or settings.typed:
            from pytest_ascendcache.plugin.registration import register_plugins

            register_plugins(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    settings = settings_of(session.config)
    if settings.judges and settings.needs_toolchain:
        ascend_session_of(session.config).check_base()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    stash = session.config.stash
    if SESSION in stash and hasattr(session.config, "workerinput"):
        from pytest_ascendcache.plugin.judged import tell_controller

        tell_controller(session.config)
    yield
    reason = ""
    if session.exitstatus == pytest.ExitCode.OK and (checks := _skipped_alone(session.config)):
        from pytest_ascendcache.plugin.collection import without_subject

        if reason := without_subject(checks):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and _has_workers(session.config):
        # xdist drops what its workers say of a name that they do not find.
        reason = "no check was collected; without -n pytest says why"
    if reason:
        from pytest_ascendcache.plugin.judged import write_nothing

        write_nothing(session.config, reason)
    # After everything else, also with -q: the last line says what was judged.
    nothing = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
    if (SESSION in stash or JUDGED in stash) and session.exitstatus not in nothing:
        from pytest_ascendcache.plugin.judged import write_judged

        write_judged(session.config)


def _has_workers(config: pytest.Config) -> bool:
    """Whether this run was to judge, and spread its checks over workers."""
    is_spread = config.getoption("tx", None) and not hasattr(config, "workerinput")
    return bool(is_spread) and settings_of(config).judges


def _skipped_alone(config: pytest.Config) -> list[pytest.TestReport]:
    """Return the suite's checks that were skipped, if nothing else has run."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    stats = {} if reporter is None else reporter.stats
    if stats.keys() - {"", "skipped", "deselected", "warnings"}:
        return []
    return [each for each in stats.get("skipped", ()) if getattr(each, "ascend_verdict", None)]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[SETTLED] = dict(settings_of(node.config).texts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if what := getattr(node, "workeroutput", {}).get(JUDGED_BY):
        node.config.stash.setdefault(JUDGED, set()).add(what)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if settings_of(session.config).folders:
        from pytest_ascendcache.plugin.collection import add_suite

        add_suite(session.config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep pytest out of audited directories: it would run what it collects there."""
    audited = settings_of(config).audit.directories
    return True if any(collection_path.is_relative_to(each) for each in audited) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if not module_path.is_relative_to(SUITE):
        return None
    from pytest_ascendcache.plugin.collection import SuiteModule

    return SuiteModule.make(parent, module_path)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not _PARAMETERS.isdisjoint(metafunc.fixturenames):
        from pytest_ascendcache.plugin.collection import parametrize

        parametrize(metafunc)
    # Last, so that the rank comes last in the test's name.
    if "ascend_rank" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.gangs.items import parametrize_ranks

        parametrize_ranks(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    with _usage_errors_in_language(config):
        if checks := [item for item in items if item.get_closest_marker("ascend_rule")]:
            from pytest_ascendcache.plugin.verdicts import prepare_items

            prepare_items(checks)
        if settings_of(config).selected_rules:
            from pytest_ascendcache.plugin.collection import select_rules

            select_rules(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_collection_finish(session: pytest.Session) -> Generator[None, None, None]:
    """Check what gangs need, when it is known which of them run, before workers announce them."""
    gangs = [
        item
        for item in session.items
        if item.get_closest_marker("ascend_ranks")
        or "ascend_rank" in getattr(item, "fixturenames", ())
    ]
    with _usage_errors_in_language(session.config):
        if gangs:
            from pytest_ascendcache.plugin.gangs.items import check_gangs

            check_gangs(gangs)
    yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if "ascend_rank" in getattr(item, "fixturenames", ()):
        from pytest_ascendcache.plugin.gangs.items import run_gang_item

        return run_gang_item(item, nextitem) or run_once(item, nextitem)
    return run_once(item, nextitem) if item.get_closest_marker("ascend_rule") else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if MERGED in item.stash:
        return item.stash[MERGED]
    if item.get_closest_marker("ascend_rule"):
        from pytest_ascendcache.plugin.verdicts import judge

        judge(item, call, report, strict=settings_of(item.config).strict)
    if RENDEZVOUS in item.stash:
        from pytest_ascendcache.plugin.gangs.items import leave_gang

        leave_gang(item, call, report)
    if keeps_sandbox(report):
        item.stash[FAILED] = True
    if getattr(report, "ascend_verdict", "") == "warn":
        call.excinfo = None  # other plugins would take the exception for a failure
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.CollectReport | pytest.TestReport,
) -> Generator[None, Any, Any]:
    data = yield
    if getattr(report, "ascend_verdict", None) is None:
        return data
    from pytest_ascendcache.words import in_unicode

    return in_unicode(data)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> Any:
    verdict = getattr(report, "ascend_verdict", None)
    if verdict is None:
        return None
    from pytest_ascendcache.plugin.verdicts import status

    return status(verdict)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    stats = terminalreporter.stats
    if not {"undecided", "warned", "known deviation", "skipped"}.isdisjoint(stats):
        from pytest_ascendcache.plugin.reporting import write_own_checks

        write_own_checks(terminalreporter, with_reasons=not settings_of(config).judges)


def pytest_assertrepr_compare(
    config: pytest.Config, op: str, left: object, right: object
) -> list[str] | None:
    if SESSION not in config.stash:
        return None
    from pytest_ascendcache.plugin.claims import remember
    from pytest_ascendcache.plugin.comparisons import compare

    remember(config, op, left, right)
    return compare(op, left, right)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SESSION in config.stash:
        config.stash[SESSION].close()
        del config.stash[SESSION]


@contextmanager
def _usage_errors_in_language(config: pytest.Config) -> Iterator[None]:
    """Raise usage errors in the user's language."""
    try:
        yield
    except pytest.UsageError as error:
        from pytest_ascendcache.plugin.users_language import say

        raise pytest.UsageError(*(say(config, str(each)) for each in error.args)) from None
