"""What a run judges, said at its end and in its report: nobody may take a pass for another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_ascendcache.qualification.toolchain import ReferenceToolchain

if TYPE_CHECKING:
    from pytest_ascendcache.plugin.options.settings import Settings
    from pytest_ascendcache.toolchains import Toolchain

NOT_CANN = "the embedded reference: this says nothing about CANN"


def judged(settings: Settings, toolchain: Toolchain | None) -> dict[str, str]:
    """``what`` is judged with its ``version`` and ``path`` (empty where it has none), and
    ``text``, which says it in one line."""
    files = [str(each) for each in settings.audit.directories]
    files += [str(each.path) for each in settings.release.releases]
    if toolchain is None:
        text = f"files alone, no toolchain: {', '.join(files)}"
        return {"what": "files", "version": "", "path": ", ".join(files), "text": text}
    what, path = toolchain.name, toolchain.details.get("program", "")
    if isinstance(toolchain, ReferenceToolchain):
        text = f"{what} {toolchain.version}, {NOT_CANN}"
    else:
        text = f"{what} {toolchain.version}" + (f", {path}" if path else "")
    if files:
        text += f"; and the files {', '.join(files)}"
    return {"what": what, "version": toolchain.version, "path": path, "text": text}
