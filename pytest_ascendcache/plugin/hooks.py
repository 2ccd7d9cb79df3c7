"""The face towards pytest: hooks, and nothing but hooks.

Inert without ``--ascend-cache`` and without one of the fixtures: nothing else of the package
is imported then.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.plugin import hookspecs
from pytest_ascendcache.plugin.fixtures import (
    ascend_audit,
    ascend_cache,
    ascend_evidence,
    ascend_file_system,
    ascend_mounts,
    ascend_network,
    ascend_network_control,
    ascend_nodes,
    ascend_operators,
    ascend_rank,
    ascend_script,
    ascend_session,
    ascend_static_kernels,
    ascend_stress,
    ascend_stress_on_nodes,
    ascend_toolchain,
)
from pytest_ascendcache.plugin.options.settings import read_settings
from pytest_ascendcache.plugin.options.table import add_options
from pytest_ascendcache.plugin.stash import (
    FAILED,
    RENDEZVOUS,
    SESSION,
    SETTINGS,
    ascend_session_of,
    settings_of,
    tells_a_story,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_ascendcache.plugin.collector import Collector
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain

__all__ = [
    "ascend_audit",
    "ascend_cache",
    "ascend_evidence",
    "ascend_file_system",
    "ascend_mounts",
    "ascend_network",
    "ascend_network_control",
    "ascend_nodes",
    "ascend_operators",
    "ascend_rank",
    "ascend_script",
    "ascend_session",
    "ascend_static_kernels",
    "ascend_stress",
    "ascend_stress_on_nodes",
    "ascend_toolchain",
]

_COLLECTOR: pytest.StashKey[Collector] = pytest.StashKey()
_SUITE = Path(__file__).parents[1] / "conformance"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    # Only help is read by people; without it no catalogue is loaded.
    if {"-h", "--help"}.isdisjoint(sys.argv):
        add_options(parser)
    else:
        from pytest_ascendcache.plugin.summary import said_by_the_command_line

        add_options(parser, said_by_the_command_line(sys.argv))


@pytest.hookimpl(trylast=True)
def pytest_ascendcache_toolchain(name: str, settings: Settings) -> Toolchain | None:
    from pytest_ascendcache.plugin.builtin import builtin_toolchain

    return builtin_toolchain(name, settings)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | pytest.ExitCode | None:
    if not (config.option.ascend_doctor or config.option.ascend_rules):
        return None
    from pytest_ascendcache.plugin.looking import look_around

    return look_around(config)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "ascend_rule(id): the promise of the documents a test judges"
    )
    config.addinivalue_line(
        "markers", "ascend_cells(factor=levels): the combinations a test of them is for"
    )
    config.addinivalue_line(
        "markers", "ascend_node_profiles(profiles): the mounts a test of several nodes is for"
    )
    config.addinivalue_line(
        "markers",
        "ascend_ranks(n): ranks of a test that uses ascend_rank (default: --ascend-ranks)",
    )
    try:
        _configure(config)
    except pytest.UsageError as error:
        from pytest_ascendcache.plugin.summary import in_language

        raise in_language(config, error) from None


def _configure(config: pytest.Config) -> None:
    settings = config.stash[SETTINGS] = read_settings(config)
    if settings.folders:
        from pytest_ascendcache.combinations import seed

        seed.choose(settings.seed)
    if config.getoption("tx", None) or hasattr(config, "workerinput"):
        from pytest_ascendcache.plugin.gangs.items import join_workers

        join_workers(config)
    if settings.folders and not settings.looks:
        from pytest_ascendcache.plugin.collector import Collector

        # Names are checked now: a bad one is a usage error, not a hundred errors.
        session = ascend_session_of(config)
        toolchain = session.toolchain if settings.needs_toolchain else None
        config.stash[_COLLECTOR] = Collector(config, toolchain)
        config.pluginmanager.register(config.stash[_COLLECTOR], "ascendcache-collector")
        if settings.audit.fix is not None:
            from pytest_ascendcache.plugin.removal import PlanWriter

            config.pluginmanager.register(PlanWriter(config), "ascendcache-plan")
        if settings.budget is not None or settings.takes_core:
            from pytest_ascendcache.plugin.selection import join_selecting

            join_selecting(config)
        if settings.resume is not None:
            from pytest_ascendcache.plugin.resuming import join_resuming

            join_resuming(config, config.stash[_COLLECTOR].adopt)
    elif settings.typed:
        _ = ascend_session_of(config).toolchain  # an unknown name is an error here too


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    settings = settings_of(session.config)
    if settings.folders and settings.needs_toolchain:
        ascend_session_of(session.config).check_base()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    yield
    # Behind everything else, also with -q: the last line says what was judged.
    config = session.config
    reporter = config.pluginmanager.getplugin("terminalreporter")
    said = not (config.option.collectonly or settings_of(config).looks)
    if reporter is None or not said or hasattr(config, "workerinput"):
        return
    toolchain = config.stash[SESSION].made_toolchain if SESSION in config.stash else None
    if _COLLECTOR in config.stash or toolchain is not None:
        from pytest_ascendcache.plugin.judged import judged
        from pytest_ascendcache.plugin.summary import told

        what = judged(settings_of(config), toolchain)["text"]
        reporter.write_line(told(config, "t_judged", what))


def pytest_report_header(config: pytest.Config) -> list[str]:
    if _COLLECTOR not in config.stash:
        return []
    from pytest_ascendcache.plugin.summary import in_its_language

    return [in_its_language(config, line) for line in config.stash[_COLLECTOR].header()]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    settings = settings_of(session.config)
    if settings.folders:
        from pytest_ascendcache.plugin.collection import with_suite

        config = session.config
        alone = config.args_source is config.ArgsSource.INVOCATION_DIR
        # Files can be judged from any directory, so tests that happen to be in it are not
        # collected. With --ascend-cache the directory may hold the user's own checks.
        nothing_else = alone and (settings.looks or not config.getoption("--ascend-cache"))
        config.args = with_suite([] if nothing_else else config.args, _SUITE, settings.folders)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing in an audited directory is a test: it would be run."""
    audited = settings_of(config).audit.directories
    return True if any(collection_path.is_relative_to(each) for each in audited) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if not module_path.is_relative_to(_SUITE):
        return None
    from pytest_ascendcache.plugin.collection import SuiteModule

    return SuiteModule.make(parent, module_path)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ascend_cell" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.collection import parametrize_cells

        parametrize_cells(metafunc)
    if "ascend_release" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.collection import parametrize_releases

        parametrize_releases(metafunc)
    if "ascend_audited" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.collection import parametrize_audits

        parametrize_audits(metafunc)
    if "ascend_node_profile" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.collection import parametrize_nodes

        parametrize_nodes(metafunc)
    # Last, so that the rank comes last in the test's name.
    if "ascend_rank" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.gangs.items import parametrize_ranks

        parametrize_ranks(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    try:
        _check_and_select(config, items)
    except pytest.UsageError as error:
        from pytest_ascendcache.plugin.summary import in_language

        raise in_language(config, error) from None


def _check_and_select(config: pytest.Config, items: list[pytest.Item]) -> None:
    gangs = [item for item in items if item.get_closest_marker("ascend_ranks")]
    if gangs:
        from pytest_ascendcache.plugin.gangs.items import check_gangs

        check_gangs(gangs)
    marked = [item for item in items if item.get_closest_marker("ascend_rule")]
    if marked:
        from pytest_ascendcache.plugin.verdicts import prepare_items

        prepare_items(marked)
    if settings_of(config).rules:
        from pytest_ascendcache.plugin.collection import select_rules

        select_rules(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if "ascend_rank" not in getattr(item, "fixturenames", ()):
        return None
    from pytest_ascendcache.plugin.gangs.items import run_gang_item

    return run_gang_item(item, nextitem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("ascend_rule"):
        from pytest_ascendcache.plugin.verdicts import judge

        judge(item, call, report, strict=settings_of(item.config).strict)
    if RENDEZVOUS in item.stash:
        from pytest_ascendcache.plugin.gangs.items import tell_the_others

        tell_the_others(item, call, report)
    if tells_a_story(report):
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> Any:
    verdict = getattr(report, "ascend_verdict", None)
    if verdict is None:
        return None
    from pytest_ascendcache.plugin.verdicts import status

    return status(verdict)


def pytest_assertrepr_compare(
    config: pytest.Config, op: str, left: object, right: object
) -> list[str] | None:
    if SESSION not in config.stash:
        return None
    from pytest_ascendcache.plugin import comparisons, verdicts

    return verdicts.compare(op, left, right) or comparisons.compare(op, left, right)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SESSION in config.stash:
        config.stash[SESSION].close()
        del config.stash[SESSION]
