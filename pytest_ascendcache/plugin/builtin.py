"""The toolchains that come with the package, created through the same hook as users' own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.editions import edition_played
from pytest_ascendcache.plugin.options.settings import Settings
from pytest_ascendcache.plugin.options.toolchains import (
    CANN_CACHE,
    MINDSPORE_ASCEND,
    MINDSPORE_TOOLCHAINS,
    OP_COMPILER,
    REFERENCE,
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
    """The toolchain of this name, None for a name of another plugin. Raises ``ToolchainError``
    where it is not installed, ``pytest.UsageError`` for an unknown defect."""
    make = _MAKERS.get(name)
    return None if make is None else make(settings)


def builtin_names() -> tuple[str, ...]:
    """The names that ``--ascend-toolchain`` accepts without any other plugin."""
    return tuple(_MAKERS)


def refuse_to_guess() -> None:
    """Raise ``pytest.UsageError`` where the reference would be judged by default on a machine that
    has a real toolchain."""
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
    """The embedded toolchain, with the defect or the vendor's defects that the options name."""
    flaw, name = settings.defect, ""
    if flaw is not None:
        from pytest_ascendcache.qualification import defect_names, is_mutant, profile_names

        known = [*profile_names(), *defect_names()]
        if flaw not in known and not is_mutant(flaw):
            remedy = instead(flaw, known)
            raise pytest.UsageError(f"--ascend-defect={flaw}: no such defect; {remedy}")
        if flaw in profile_names():
            name = f"reference with the defects of '{flaw}'"
    toolchain = reference_toolchain(
        settings.start, settings.timeout, flaw, settings.soc, edition_played(settings.editions)
    )
    toolchain.name = name or toolchain.name
    return toolchain


def _atc(settings: Settings) -> Toolchain:
    """A real atc, which must know the chips of all releases."""
    socs = settings.release.socs
    chip = settings.soc or (socs[0] if socs else None)
    toolchain = atc_toolchain(settings.place or "atc", settings.timeout, chip)
    for soc in socs:
        toolchain.installation.check_soc(soc)
    return toolchain


def _op_compiler(settings: Settings) -> Toolchain:
    return op_compiler_toolchain(settings.place or "op_compiler", settings.timeout)


def _cann_cache(settings: Settings) -> Toolchain:
    """The cache code of CANN's sources. It is built first, which can take minutes."""
    from pytest_ascendcache.toolchains.cann_cache.toolchain import cann_cache_toolchain

    if settings.place is None:
        raise ToolchainError(
            "it is built from a checkout of CANN's public repository ge; give "
            f"--ascend-toolchain={CANN_CACHE}:DIR"
        )

    show_progress = partial(print, file=sys.stderr, flush=True)
    return cann_cache_toolchain(
        Path(settings.place), settings.timeout, settings.soc, show_progress, kernel_launcher()
    )


def _torchair(settings: Settings) -> Toolchain:
    if settings.place is None:
        raise ToolchainError(
            f"it runs a script of yours; give --ascend-toolchain={TORCHAIR}:SCRIPT.py"
        )
    script = Path(settings.place)
    if not script.is_file():
        raise ToolchainError("it is not a file; name a script")
    return TorchairToolchain(script, settings.torchair_cards, settings.timeout)


def _mindspore(settings: Settings) -> Toolchain:
    from pytest_ascendcache.toolchains.mindspore.toolchain import mindspore_toolchain

    return mindspore_toolchain(
        settings.toolchain,
        settings.place,
        settings.timeout,
        settings.start,
        settings.mindspore_other,
    )


def _mindspore_ascend(settings: Settings) -> Toolchain:
    from pytest_ascendcache.toolchains.mindspore_ascend.toolchain import mindspore_ascend_toolchain

    return mindspore_ascend_toolchain(
        settings.place, settings.timeout, settings.start, settings.mindspore_other
    )


_MAKERS: dict[str, Callable[[Settings], Toolchain]] = {
    REFERENCE: _reference,
    "atc": _atc,
    OP_COMPILER: _op_compiler,
    **dict.fromkeys(MINDSPORE_TOOLCHAINS, _mindspore),
    MINDSPORE_ASCEND: _mindspore_ascend,
    CANN_CACHE: _cann_cache,
    TORCHAIR: _torchair,
}
