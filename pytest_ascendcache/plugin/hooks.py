"""The face towards pytest: hooks, and nothing but hooks.

Inert without ``--ascend-cache`` and without one of the fixtures: nothing else of the package
is imported then.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ascendcache.plugin import hookspecs
from pytest_ascendcache.plugin.fixtures import (
    ascend_audit,
    ascend_cache,
    ascend_evidence,
    ascend_file_system,
    ascend_network,
    ascend_network_control,
    ascend_operators,
    ascend_rank,
    ascend_script,
    ascend_session,
    ascend_static_kernels,
    ascend_stress,
    ascend_toolchain,
)
from pytest_ascendcache.plugin.options.reports import check_reports
from pytest_ascendcache.plugin.options.settings import (
    add_options,
    asked_suites,
    check_ranks,
    needs_toolchain,
)
from pytest_ascendcache.plugin.stash import (
    FAILED,
    RENDEZVOUS,
    SESSION,
    ascend_session_of,
    tells_a_story,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_ascendcache.plugin.collector import Collector

__all__ = [
    "ascend_audit",
    "ascend_cache",
    "ascend_evidence",
    "ascend_file_system",
    "ascend_network",
    "ascend_network_control",
    "ascend_operators",
    "ascend_rank",
    "ascend_script",
    "ascend_session",
    "ascend_static_kernels",
    "ascend_stress",
    "ascend_toolchain",
]

pytest.register_assert_rewrite("pytest_ascendcache.conformance")

_COLLECTOR: pytest.StashKey[Collector] = pytest.StashKey()
_SUITE = Path(__file__).parents[1] / "conformance"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "ascend_rule(id): the promise of the documents a test judges"
    )
    config.addinivalue_line(
        "markers", "ascend_cells(factor=levels): the combinations a test of them is for"
    )
    config.addinivalue_line(
        "markers",
        "ascend_ranks(n): ranks of a test that uses ascend_rank (default: --ascend-ranks)",
    )
    check_ranks(config)
    check_reports(config, judged=bool(asked_suites(config)))
    if config.getoption("tx", None) or hasattr(config, "workerinput"):
        from pytest_ascendcache.plugin.gangs.items import join_workers

        join_workers(config)
    if asked_suites(config):
        from pytest_ascendcache.plugin.collector import Collector
        from pytest_ascendcache.reports.progress import TitleProgress

        # Names are checked now: a bad one is a usage error, not a hundred errors.
        session = ascend_session_of(config)
        toolchain = session.toolchain if needs_toolchain(config) else None
        config.stash[_COLLECTOR] = Collector(config, toolchain)
        config.pluginmanager.register(config.stash[_COLLECTOR], "ascendcache-collector")
        config.pluginmanager.register(TitleProgress(config), "ascendcache-title")
        if session.settings.audit.fix is not None:
            from pytest_ascendcache.plugin.audits import PlanWriter

            config.pluginmanager.register(PlanWriter(config), "ascendcache-plan")
        if config.getoption("--ascend-resume"):
            from pytest_ascendcache.plugin.resuming import join_resuming

            join_resuming(config, config.stash[_COLLECTOR].adopt)
    elif config.getoption("--ascend-resume"):
        raise pytest.UsageError("--ascend-resume keeps verdicts of the suite; add --ascend-cache.")


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not asked_suites(config):
        return []
    return config.stash[_COLLECTOR].header()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if suites := asked_suites(session.config):
        from pytest_ascendcache.plugin.collection import with_suite

        config = session.config
        alone = config.args_source is config.ArgsSource.INVOCATION_DIR
        # Whoever has files judged is anywhere, a home directory maybe; whoever has a toolchain
        # judged may have tests of it there.
        nothing_else = alone and not config.getoption("--ascend-cache")
        config.args = with_suite([] if nothing_else else config.args, _SUITE, suites)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing in an audited directory is a test: it would be run."""
    if not config.getoption("--ascend-audit"):
        return None
    audited = ascend_session_of(config).settings.audit.directories
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
    # Last, so that the rank comes last in the test's name.
    if "ascend_rank" in metafunc.fixturenames:
        from pytest_ascendcache.plugin.gangs.items import parametrize_ranks

        parametrize_ranks(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gangs = [item for item in items if item.get_closest_marker("ascend_ranks")]
    if gangs:
        from pytest_ascendcache.plugin.gangs.items import check_gangs

        check_gangs(gangs)
    marked = [item for item in items if item.get_closest_marker("ascend_rule")]
    if marked:
        from pytest_ascendcache.plugin.verdicts import prepare_items

        prepare_items(marked)
    if config.getoption("--ascend-rule"):
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

        judge(item, call, report, strict=item.config.getoption("--ascend-strict"))
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
    from pytest_ascendcache.plugin.verdicts import compare

    return compare(op, left, right)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SESSION in config.stash:
        config.stash[SESSION].close()
        del config.stash[SESSION]
