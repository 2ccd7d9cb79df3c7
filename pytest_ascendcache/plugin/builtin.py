"""The toolchains that come with the plugin, behind the same hook as a user's own."""

from __future__ import annotations

import pytest

from pytest_ascendcache.plugin.options.settings import Settings
from pytest_ascendcache.plugin.options.table import MINDSPORE_TOOLCHAINS, OP_COMPILER, TORCHAIR
from pytest_ascendcache.qualification import defect_names, profile_names
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.toolchains import Toolchain, atc_toolchain, op_compiler_toolchain
from pytest_ascendcache.toolchains.torchair import TorchairToolchain
from pytest_ascendcache.words import instead


def built_in(settings: Settings) -> Toolchain | None:
    """The toolchain ``--ascend-toolchain`` names; ``None`` for a name that is none of these.

    Raises:
        ToolchainError: where the toolchain is not to be had here.
        pytest.UsageError: where there is no such defect or profile.
    """
    name = settings.toolchain
    if name == "reference":
        return reference(settings)
    if name == "atc":
        return _atc(settings)
    if name == OP_COMPILER:
        return op_compiler_toolchain(settings.op_compiler or "op_compiler", settings.timeout)
    if name == TORCHAIR and settings.script is not None:
        return TorchairToolchain(settings.script, settings.cards, settings.timeout)
    if name in MINDSPORE_TOOLCHAINS:
        from pytest_ascendcache.toolchains.mindspore import mindspore_toolchain

        return mindspore_toolchain(name, settings.python, settings.timeout)
    return None


def _atc(settings: Settings) -> Toolchain:
    """A real atc, which has to know the chips of all releases."""
    socs = settings.release.socs
    chip = settings.soc or (socs[0] if socs else None)
    made = atc_toolchain(settings.atc or "atc", settings.timeout, chip)
    for soc in socs:
        made.installation.check_soc(soc)
    return made


def reference(settings: Settings) -> Toolchain:
    """The embedded toolchain, with the defect or profile that was asked for.

    Raises:
        pytest.UsageError: where there is no such defect or profile.
    """
    for option, name, names in (
        ("defect", settings.defect, defect_names),
        ("profile", settings.profile, profile_names),
    ):
        if name is not None and name not in (known := names()):
            raise pytest.UsageError(
                f"--ascend-{option}={name}: no such {option}; {instead(name, known)}"
            )
    wrong = settings.defect or settings.profile
    toolchain = reference_toolchain(settings.start, settings.timeout, wrong, settings.soc)
    if settings.profile is not None:
        toolchain.name = f"reference with profile '{settings.profile}'"
    return toolchain
