"""Commands that stand in for software that this machine does not have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest_ascendcache

_OPP = Path(pytest_ascendcache.__file__).parent / "reference/opp"


def install_atc(toolkit: Path, *socs: str, server: Path | None = None) -> Path:
    """Lay out a toolkit around the stand-in ``atc`` for these chips. Returns its program.

    ``server`` is the socket of a warm process (``warm_atc.py``) that runs it.
    """
    program = toolkit / "bin/atc"
    program.parent.mkdir(parents=True)
    script, client = (Path(__file__).with_name(name) for name in ("atc.py", "client.py"))
    command = f"{sys.executable} {script}"
    if server is not None:
        command = f"{sys.executable} -I -S {client} {server} {command}"
    program.write_text(f'#!/bin/sh\nSTANDIN_TOOLKIT={toolkit} exec {command} "$@"\n')
    program.chmod(0o755)
    (toolkit / "version.info").write_text("Version=8.0.STANDIN\n")
    (toolkit / "opp").mkdir()
    (toolkit / "opp/version.info").write_text("Version=7.7.0\nversion_dir=8.0\n")
    (toolkit / "opp/built-in").symlink_to(_OPP / "built-in")
    descriptions = toolkit / "x86_64-linux/data/platform_config"
    descriptions.mkdir(parents=True)
    for soc in socs:
        (descriptions / f"{soc}.ini").write_text(f"[version]\nSoC_version={soc}\n")
    return program
