"""The toolchains that come with the package, created through the same hook as users' own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

import pytest

from pytest_ascendcache.plugin.editions import edition_played
from pytest_ascendcache.plugin.options.settings import Settings
from pytest_ascendcache.plugin.options.table import (
    CANN_CACHE,
    MINDSPORE_ASCEND,
    MINDSPORE_TOOLCHAINS,
    OP_COMPILER,
    TORCHAIR,
)
from pytest_ascendcache.qualification.toolchain import kernel_launcher, reference_toolchain
from pytest_ascendcache.toolchains import (
    Toolchain,
    ToolchainError,
    atc_toolchain,
    op_compiler_toolchain,
)
from pytest_ascendcache.toolchains.installed import TOOLKIT_HOMES, in_sight
from pytest_ascendcache.toolchains.torchair import TorchairToolchain
from pytest_ascendcache.words import instead


def builtin_toolchain(name: str, settings: Settings) -> Toolchain | None:
    """The toolchain of this name, or None for a name of another plugin.

    Raises ``ToolchainError`` if the toolchain is not installed, and ``pytest.UsageError`` for a
    defect or a profile that does not exist.
    """
    make = _MAKERS.get(name)
    return None if make is None else make(settings)


def builtin_names() -> tuple[str, ...]:
    """The names that ``--ascend-toolchain`` accepts without any other plugin."""
    return tuple(name for name in _MAKERS if name != TORCHAIR)


def refuse_to_guess() -> None:
    """Refuse to judge the reference by default on a machine that has a real toolchain.

    Raises ``pytest.UsageError`` with the toolchain, and the options that choose between the two.
    """
    sighted = in_sight("atc", os.environ)
    homes = [f"{name}={os.environ[name]}" for name in TOOLKIT_HOMES if os.environ.get(name)]
    if not sighted and not homes:
        return
    if sighted:
        seen = f"{sighted[0].program} (by {sighted[0].found_by})"
        real = (
            "--ascend-toolchain=atc"
            if sighted[0].found_by == "PATH"
            else (f"--ascend-atc={sighted[0].program}")
        )
    else:
        seen, real = homes[0], "--ascend-atc=PATH"
    raise pytest.UsageError(
        f"this machine has a real toolchain, {seen}, and no option says what to judge; add {real} "
        "to judge it, or --ascend-toolchain=reference to judge the embedded reference."
    )


def _reference(settings: Settings) -> Toolchain:
    """The embedded toolchain, with the defect or profile that the options name."""
    from pytest_ascendcache.qualification import defect_names, is_mutant, profile_names

    if not is_mutant(settings.defect or ""):
        _known("--ascend-defect", settings.defect, "defect", defect_names)
    _known("--ascend-profile", settings.profile, "profile", profile_names)
    flawed = settings.defect or settings.profile
    toolchain = reference_toolchain(
        settings.start, settings.timeout, flawed, settings.soc, edition_played(settings.editions)
    )
    if settings.profile is not None:
        toolchain.name = f"reference with profile '{settings.profile}'"
    return toolchain


def _known(option: str, name: str | None, kind: str, names: Callable[[], list[str]]) -> None:
    """Refuse a name that is not one of the known names."""
    if name is not None and name not in names():
        raise pytest.UsageError(f"{option}={name}: no such {kind}; {instead(name, names())}")


def _atc(settings: Settings) -> Toolchain:
    """A real atc, which must know the chips of all releases."""
    socs = settings.release.socs
    chip = settings.soc or (socs[0] if socs else None)
    toolchain = atc_toolchain(settings.atc or "atc", settings.timeout, chip)
    for soc in socs:
        toolchain.installation.check_soc(soc)
    return toolchain


def _op_compiler(settings: Settings) -> Toolchain:
    return op_compiler_toolchain(settings.op_compiler or "op_compiler", settings.timeout)


def _cann_cache(settings: Settings) -> Toolchain:
    """The cache code of CANN's sources. It is built first, which can take minutes."""
    from pytest_ascendcache.toolchains.cann_cache import cann_cache_toolchain

    if settings.cann_source is None:
        raise ToolchainError("it is built from a checkout; give --ascend-cann-source=DIR")

    show_progress = partial(print, file=sys.stderr, flush=True)
    return cann_cache_toolchain(
        settings.cann_source, settings.timeout, settings.soc, show_progress, kernel_launcher()
    )


def _torchair(settings: Settings) -> Toolchain:
    if settings.torchair_script is None:
        raise ToolchainError("it runs a script of yours; give --ascend-torchair-script=FILE.py")
    return TorchairToolchain(settings.torchair_script, settings.torchair_cards, settings.timeout)


def _mindspore(settings: Settings) -> Toolchain:
    from pytest_ascendcache.toolchains.mindspore import mindspore_toolchain

    return mindspore_toolchain(
        settings.toolchain,
        settings.mindspore,
        settings.timeout,
        settings.start,
        settings.mindspore_other,
    )


def _mindspore_ascend(settings: Settings) -> Toolchain:
    from pytest_ascendcache.toolchains.mindspore_ascend import mindspore_ascend_toolchain

    return mindspore_ascend_toolchain(
        settings.mindspore, settings.timeout, settings.start, settings.mindspore_other
    )


_MAKERS: dict[str, Callable[[Settings], Toolchain]] = {
    "reference": _reference,
    "atc": _atc,
    OP_COMPILER: _op_compiler,
    **dict.fromkeys(MINDSPORE_TOOLCHAINS, _mindspore),
    MINDSPORE_ASCEND: _mindspore_ascend,
    CANN_CACHE: _cann_cache,
    TORCHAIR: _torchair,
}
