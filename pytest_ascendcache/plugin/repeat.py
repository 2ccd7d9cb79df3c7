"""The command line that repeats one check alone, whatever PATH and the current directory are."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.conformance import PACKAGE, module_of
from pytest_ascendcache.plugin.builtin import builtin_names
from pytest_ascendcache.plugin.collection import SuiteModule
from pytest_ascendcache.plugin.options.parts import typed
from pytest_ascendcache.plugin.stash import GANG, settings_of
from pytest_ascendcache.words import pytest_command


def repeat_line(item: pytest.Item) -> str:
    """The command line that repeats this check alone; it can be pasted in any directory."""
    config = item.config
    check = item.stash.get(GANG, item.nodeid)  # all ranks, where each is a test of its own
    name = check.partition("::")[2]
    words = [*pytest_command(), *settings_of(config).arguments]
    for plugin in getattr(typed(config), "plugins", None) or ():
        words += ["-p", plugin]
    if item.getparent(SuiteModule) is None:
        return shlex.join([*_imports(item), *words, *_project(config), f"{item.path}::{name}"])
    line = shlex.join([*words, "--pyargs", f"{PACKAGE}.{module_of(check)}::{name}"])
    if not _is_of_conftest(config):
        return line
    # pytest looks for conftest.py from where it is started.
    return f"cd {shlex.quote(str(config.invocation_params.dir))} && {line}"


def _project(config: pytest.Config) -> Iterator[str]:
    """The options by which the user told pytest where the project and its settings are."""
    given = typed(config)
    if given.inifilename and config.inipath is not None:
        yield from ("-c", str(config.inipath))
    if given.rootdir:
        yield f"--rootdir={config.rootpath}"
    for each in given.override_ini or ():
        if not each.startswith("ascend_"):  # the settings have those
            yield from ("-o", each)


def _is_of_conftest(config: pytest.Config) -> bool:
    """Whether a ``conftest.py`` provides the toolchain that is judged."""
    hooks = config.hook.pytest_ascendcache_toolchain.get_hookimpls()
    files = (Path(getattr(each.plugin, "__file__", None) or "") for each in hooks)
    is_foreign = settings_of(config).toolchain not in builtin_names()
    return is_foreign and any(each.name == "conftest.py" for each in files)


def _imports(item: pytest.Item) -> tuple[str, ...]:
    """``env PYTHONPATH=...`` for tests that import from the directory where pytest was started:
    nothing but ``python -m pytest`` puts it on the path of imports."""
    started = item.config.invocation_params.dir
    known = {item.path.parent, *item.config.getini("pythonpath")}
    if {str(started), ""}.isdisjoint(sys.path) or started in known:
        return ()
    if (started / "conftest.py").exists():  # pytest puts its directory on the path
        return ()
    path = filter(None, (str(started), os.environ.get("PYTHONPATH")))
    return ("env", f"PYTHONPATH={os.pathsep.join(path)}")
