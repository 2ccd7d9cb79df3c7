"""What a run judged: the last line of its output, and a part of its report.

Nobody may take a pass of the embedded reference for one of their own toolchain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_ascendcache.language import text, translated
from pytest_ascendcache.plugin.stash import JUDGED, JUDGED_BY, ascend_session_of, settings_of
from pytest_ascendcache.plugin.users_language import language_of, say
from pytest_ascendcache.qualification.toolchain import ReferenceToolchain

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain


def judged(settings: Settings, toolchain: Toolchain | None) -> dict[str, str]:
    """``what`` is judged with its ``version`` and ``path`` (empty if it has none), and ``text``,
    the same in one line."""
    files = [str(each) for each in settings.audit.directories]
    files += [str(each.path) for each in settings.release.releases]
    if toolchain is None:
        line = f"files alone, no toolchain: {', '.join(files)}"
        return {"what": "files", "version": "", "path": ", ".join(files), "text": line}
    what, path = toolchain.name, toolchain.details.get("program", "")
    line = f"{what} {toolchain.version}"
    if isinstance(toolchain, ReferenceToolchain):
        line += ", the embedded reference: this says nothing about CANN"
    elif path:
        line += f", {path}"
    if files:
        line += f"; and the files {', '.join(files)}"
    return {"what": what, "version": toolchain.version, "path": path, "text": line}


def tell_controller(config: pytest.Config) -> None:
    """Have an xdist worker say what it judged; of a user's own tests only workers know that."""
    if (toolchain := ascend_session_of(config).made_toolchain) is not None:
        line = judged(settings_of(config), toolchain)["text"]
        config.workeroutput[JUDGED_BY] = line  # type: ignore[attr-defined]


def write_nothing(config: pytest.Config, reason: str) -> None:
    """Write why a run that is not red judged nothing either."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    language = language_of(config)
    reporter.write_line(text("t_nothing", language, reason=translated(reason, language)), red=True)


def write_judged(config: pytest.Config) -> None:
    """Write the line that says what was judged, if this run judged anything."""
    settings = settings_of(config)
    reporter = config.pluginmanager.getplugin("terminalreporter")
    quiet = config.option.collectonly or settings.looks or hasattr(config, "workerinput")
    if reporter is None or quiet:
        return
    toolchain = ascend_session_of(config).made_toolchain
    lines = config.stash.get(JUDGED, set())
    if toolchain is not None or config.pluginmanager.hasplugin("ascendcache-collector"):
        lines = {judged(settings, toolchain)["text"]}
    for line in sorted(lines):
        what = say(config, line)
        reporter.write_line(text("t_judged", language_of(config), what=what))
