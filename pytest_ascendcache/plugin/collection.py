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
from pytest_ascendcache.plugin.stash import ascend_session_of, settings_of
from pytest_ascendcache.words import instead

_FILES = Path(__file__).parents[1] / "conformance"


def with_suite(arguments: Sequence[str], suite: Path, folders: Sequence[str]) -> list[str]:
    """The arguments of a run with the suite's files added.

    An argument that names something of the suite already means just that. Files are named
    one by one, so that a user's own ``python_files`` does not hide them. ``folders`` names the
    asked documents (:func:`~pytest_ascendcache.plugin.options.settings.Settings`).
    """
    files = [str(path) for folder in folders for path in _files_of(suite / folder)]
    whole = {PACKAGE, str(suite)}
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
    files = {path for folder in folders for path in _files_of(_FILES / folder)}
    return {_node_of(path) for path in files} <= present


def _files_of(folder: Path) -> list[Path]:
    """The suite's files in a folder, in their order."""
    return sorted(folder.glob("test_*.py"))


def _node_of(path: Path) -> str:
    """The node id of a file of the suite: the same wherever the package is installed."""
    return SUITE_NODES + path.relative_to(_FILES).as_posix()


def select_rules(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what of the suite judges none of the rules ``--ascend-rule`` names.

    A user's own tests stay: the option selects among the suite's.

    Raises:
        pytest.UsageError: for a rule that does not exist.
    """
    wanted = set(settings_of(config).rules)
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
        is_own = item.getparent(SuiteModule) is None
        is_wanted = marker is not None and marker.args[0] in wanted
        (kept if is_own or is_wanted else dropped).append(item)
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def parametrize_cells(metafunc: pytest.Metafunc) -> None:
    """Give a check of combinations its cells; those of one batch follow each other.

    ``ascend_cells`` says which levels a check is for. Cells are not even made for checks that
    ``--ascend-rule`` deselects.
    """
    session = ascend_session_of(metafunc.config)
    wanted = session.settings.rules
    judged = metafunc.definition.get_closest_marker("ascend_rule")
    if wanted and (judged is None or judged.args[0] not in wanted):
        cells = session.no_plan.cells
    else:
        cells = session.plan.cells
        marker = metafunc.definition.get_closest_marker("ascend_cells")
        for factor, levels in (marker.kwargs if marker else {}).items():
            accepted = (levels,) if isinstance(levels, str) else levels
            cells = tuple(cell for cell in cells if cell.levels[factor] in accepted)
    # The scope is what makes pytest keep the checks of one cell together.
    metafunc.parametrize("ascend_cell", cells, ids=[cell.id for cell in cells], scope="module")


def parametrize_releases(metafunc: pytest.Metafunc) -> None:
    """Have a check of releases once for each release ``--ascend-release`` names."""
    asked = settings_of(metafunc.config).release
    metafunc.parametrize("ascend_release", asked.releases, ids=asked.ids, scope="module")


def parametrize_audits(metafunc: pytest.Metafunc) -> None:
    """Have a check of audits once for each directory ``--ascend-audit`` names."""
    directories = settings_of(metafunc.config).audit.directories
    metafunc.parametrize(
        "ascend_audited", directories, ids=[str(each) for each in directories], scope="module"
    )


def parametrize_nodes(metafunc: pytest.Metafunc) -> None:
    """Have a check of nodes once for each profile of their mounts, or once on real ones.

    The marker ``ascend_node_profiles`` names the profiles a check is for; real mounts may be any.
    """
    from pytest_ascendcache.nodes import NodeProfile, profiles

    wanted: tuple[NodeProfile, ...] = (NodeProfile.GIVEN,)
    if not settings_of(metafunc.config).nodes.directories:
        marker = metafunc.definition.get_closest_marker("ascend_node_profiles")
        wanted = marker.args if marker else profiles()
    names = [each.value for each in wanted]
    metafunc.parametrize("ascend_node_profile", wanted, ids=names, scope="module")


class SuiteModule(pytest.Module):
    """A file of the suite; its node ids do not depend on where the package is installed."""

    @classmethod
    def make(cls, parent: pytest.Collector, path: Path) -> SuiteModule:
        """Collect ``path`` under the name of the package."""
        module: SuiteModule = cls.from_parent(parent, path=path, nodeid=_node_of(path))
        return module

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The checks of the file; fixtures of its folder and of the suite are its own.

        In a ``conftest.py`` of the suite they would be seen by a user's own tests too, before
        pytest 9.2, and a user's fixture of the same name by the checks.
        """
        folders = self.path.parent.relative_to(_FILES).parts
        for depth in range(len(folders), -1, -1):  # what is nearest counts
            name = ".".join((PACKAGE, *folders[:depth], "fixtures"))
            if importlib.util.find_spec(name):
                fixtures = importlib.import_module(name)
                for each in fixtures.__all__:
                    vars(self.obj).setdefault(each, getattr(fixtures, each))
        return super().collect()

    def funcnamefilter(self, name: str) -> bool:
        """The suite's own naming, whatever ``python_functions`` says."""
        return name.startswith("test_")

    def _genfunctions(self, name: str, funcobj: Callable[..., object]) -> Iterator[Any]:
        """The cases of a check; one item stands for all where ``--ascend-rule`` leaves it out.

        To make all of them takes most of the time of a run of few checks. Where cases are named
        on the command line, they are there to be found.
        """
        wanted = {*settings_of(self.config).rules}
        marks = getattr(funcobj, "pytestmark", ())
        judged = {each.args[0] for each in marks if each.name == "ascend_rule"}
        named = any("::" in each for each in self.config.args)
        # What has no rule has one for each case.
        if wanted and judged and not judged & wanted and not named:
            yield LeftOut.from_parent(self, name=name)
        else:
            yield from super()._genfunctions(name, funcobj)


class LeftOut(pytest.Item):
    """A check that ``--ascend-rule`` leaves out; :func:`select_rules` deselects it."""

    def runtest(self) -> None:
        """Fail: a check that was left out has judged nothing."""
        raise AssertionError(f"{self.nodeid} was left out and is run all the same")
