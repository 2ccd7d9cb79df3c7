"""How the built-in suite is collected: from the installed package, in any directory."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES
from pytest_ascendcache.contract import load_rules
from pytest_ascendcache.plugin.options.parts import SUITE
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.words import instead


def add_suite(config: pytest.Config) -> None:
    """Add the files of the suite to what pytest collects, or collect nothing else."""
    settings = settings_of(config)
    config.args = _with_suite([] if settings.alone else config.args, settings.folders)


def _with_suite(arguments: Sequence[str], folders: Sequence[str]) -> list[str]:
    """The arguments of a run, with the suite's files unless one names a part of it. They are named
    one by one: a user's ``python_files`` must not hide them."""
    files = [str(path) for folder in folders for path in _files_of(folder)]
    whole = {PACKAGE, str(SUITE)}
    expanded: list[str] = []
    chosen = False
    for argument in arguments:
        place = argument.partition("::")[0]
        absolute = os.path.abspath(place)  # noqa: PTH100 - '..' is to be resolved, links not
        if place in whole or absolute in whole:
            expanded += files
            chosen = True
        else:
            chosen = chosen or place.startswith(PACKAGE) or absolute in files
            expanded.append(argument)
    return expanded if chosen else [*expanded, *files]


def has_every_file(checks: Iterable[str], folders: Sequence[str]) -> bool:
    """Whether ``checks`` (node ids) include some of every file in ``folders``."""
    present = {check.partition("::")[0] for check in checks}
    return {_node_of(path) for folder in folders for path in _files_of(folder)} <= present


def _files_of(folder: str) -> list[Path]:
    """The files of the suite in a folder, sorted."""
    return sorted((SUITE / folder).glob("test_*.py"))


def _node_of(path: Path) -> str:
    """The node id of a file of the suite: the same wherever the package is installed."""
    return SUITE_NODES + path.relative_to(SUITE).as_posix()


def select_rules(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the suite's checks of rules that ``--ascend-rule`` does not name. Raises
    ``pytest.UsageError`` for a rule that does not exist."""
    wanted = set(settings_of(config).selected_rules)
    rules = load_rules()
    if unknown := sorted(wanted - set(rules)):
        raise pytest.UsageError(
            f"--ascend-rule={unknown[0]}: no such rule; "
            + instead(unknown[0], rules, "pytest --ascend-rules lists them.")
        )
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("ascend_rule")
        is_users = item.getparent(SuiteModule) is None
        is_wanted = marker is not None and marker.args[0] in wanted
        (kept if is_users or is_wanted else dropped).append(item)
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


_Cases = tuple[Sequence[Any], Sequence[str]]


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a check once for each cell, release, audited directory or profile of nodes. The scope
    keeps those of one together."""
    for name, cases_of in _PARAMETERS.items():
        if name in metafunc.fixturenames:
            cases, ids = cases_of(metafunc)
            if not cases and name in _UNNAMED:
                cases = [pytest.param(None, marks=pytest.mark.skip(reason=_UNNAMED[name]))]
                ids = ["none"]
            metafunc.parametrize(name, cases, ids=ids, scope="module")


_UNNAMED = {
    "ascend_release": "no release is named: add --ascend-release=FILE.toml",
    "ascend_audited": "no directory is named: add --ascend-audit=DIR",
}
"""Why a check has nothing to judge."""


def without_subject(reports: Sequence[pytest.TestReport]) -> str:
    """Return why none of the checks that ran had anything to judge; empty if one had."""
    places = [each.longrepr for each in reports]
    reasons = {str(each[2]).removeprefix("Skipped: ") for each in places if isinstance(each, tuple)}
    return "; ".join(sorted(reasons)) if reasons and reasons <= {*_UNNAMED.values()} else ""


def _cells(metafunc: pytest.Metafunc) -> _Cases:
    """The combinations that the marker ``ascend_cells`` accepts; a placeholder for a check that
    ``--ascend-rule`` deselects, because real cells take time to compute."""
    session = ascend_session_of(metafunc.config)
    wanted = session.settings.selected_rules
    rule = metafunc.definition.get_closest_marker("ascend_rule")
    if wanted and (rule is None or rule.args[0] not in wanted):
        cells = session.no_plan.cells
    else:
        cells = session.plan.cells
        marker = metafunc.definition.get_closest_marker("ascend_cells")
        for factor, levels in (marker.kwargs if marker else {}).items():
            accepted = (levels,) if isinstance(levels, str) else levels
            cells = tuple(cell for cell in cells if cell.levels[factor] in accepted)
    return cells, [cell.id for cell in cells]


def _releases(metafunc: pytest.Metafunc) -> _Cases:
    release = settings_of(metafunc.config).release
    return release.releases, release.ids


def _audited(metafunc: pytest.Metafunc) -> _Cases:
    directories = settings_of(metafunc.config).audit.directories
    return directories, [str(each) for each in directories]


def _node_profiles(metafunc: pytest.Metafunc) -> _Cases:
    """The profiles of the marker ``ascend_node_profiles``, or all; real mounts have one profile."""
    from pytest_ascendcache.nodes import NodeProfile, profiles

    wanted: tuple[NodeProfile, ...] = (NodeProfile.GIVEN,)
    if not settings_of(metafunc.config).nodes.directories:
        marker = metafunc.definition.get_closest_marker("ascend_node_profiles")
        wanted = marker.args if marker else profiles()
    return wanted, [each.value for each in wanted]


_PARAMETERS: dict[str, Callable[[pytest.Metafunc], _Cases]] = {
    "ascend_cell": _cells,
    "ascend_release": _releases,
    "ascend_audited": _audited,
    "ascend_node_profile": _node_profiles,
}


class SuiteModule(pytest.Module):
    """A file of the suite; its node ids do not depend on where the package is installed."""

    @classmethod
    def make(cls, parent: pytest.Collector, path: Path) -> SuiteModule:
        """Collect ``path`` under the name of the package."""
        module: SuiteModule = cls.from_parent(parent, path=path, nodeid=_node_of(path))
        return module

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Collect the checks; the module gets the fixtures of its folder and of those above it.

        In a ``conftest.py`` of the suite a user's own tests would see them too (before pytest
        9.2), and the checks would see a user's fixture of the same name.
        """
        folders = self.path.parent.relative_to(SUITE).parts
        for depth in range(len(folders), -1, -1):  # the nearest definition counts
            name = ".".join((PACKAGE, *folders[:depth], "fixtures"))
            if importlib.util.find_spec(name):
                fixtures = importlib.import_module(name)
                for each in fixtures.__all__:
                    vars(self.obj).setdefault(each, getattr(fixtures, each))
        return super().collect()

    def funcnamefilter(self, name: str) -> bool:
        """Whether a function is a check, whatever ``python_functions`` says."""
        return name.startswith("test_")

    def _genfunctions(self, name: str, funcobj: Callable[..., object]) -> Iterator[Any]:
        """The cases of a check; a single item where ``--ascend-rule`` leaves the check out.

        Creating all cases would take most of the time of a run of few checks. Cases that the
        command line names are always created.
        """
        wanted = {*settings_of(self.config).selected_rules}
        marks = getattr(funcobj, "pytestmark", ())
        rules = {each.args[0] for each in marks if each.name == "ascend_rule"}
        names_cases = any("::" in each for each in self.config.args)
        # A check without a rule on the function has one on each case.
        if wanted and rules and not rules & wanted and not names_cases:
            yield LeftOut.from_parent(self, name=name)
        else:
            yield from super()._genfunctions(name, funcobj)


class LeftOut(pytest.Item):
    """Stands for a check that ``--ascend-rule`` leaves out; :func:`select_rules` deselects it."""

    def runtest(self) -> None:
        """Fail: a check that was left out has judged nothing."""
        raise AssertionError(f"{self.nodeid} was left out, but was run")
