"""The installation around the compiler: versions, tuning knowledge base, custom operators.

Source: facts ``cann-operator-cache`` sections 1.6 and 1.7. Knowledge base and operator sources
change kernels but are not in the key, as documented: users run ``force`` after changing them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pytest_ascendcache.reference.errors import AtcError, invalid_path
from pytest_ascendcache.reference.version import own_version

CUSTOM_OPERATORS = Path("op_impl/ai_core/tbe/impl")
"""Where a custom operator package has its implementations."""


class InstallationPolicy:
    """Reads the installation, again in every process."""

    def stamp(self, environ: Mapping[str, str]) -> str:
        """The versions whose change invalidates every cached kernel."""
        adk, ops = self.toolkit_version(environ), self.operators_version(environ)
        return f"adk_version={adk}\nops_version={ops}\n"

    def toolkit_version(self, environ: Mapping[str, str]) -> str:
        """``Version`` of ``$ASCEND_TOOLKIT_HOME/version.info``, or this package's if there is
        none."""
        home = environ.get("ASCEND_TOOLKIT_HOME", "")
        return (_version(Path(home), "ASCEND_TOOLKIT_HOME") if home else "") or own_version()

    def operators_version(self, environ: Mapping[str, str]) -> str:
        """``Version`` of ``$ASCEND_OPP_PATH/version.info``, or ``built-in`` if there is none.

        Raises ``AtcError`` (E40023) if the variable names no directory, or its file no version:
        another version would purge the cache, and a misspelt one must not.
        """
        opp = environ.get("ASCEND_OPP_PATH", "")
        if not opp:
            return "built-in"
        if not Path(opp).is_dir():
            raise invalid_path(opp, "ASCEND_OPP_PATH", "there is no such directory")
        return _version(Path(opp), "ASCEND_OPP_PATH") or "built-in"

    def tuning(self, bank: str, soc: str, environ: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """Tuning parameters for one SoC, by operator type and name.

        They are in ``<soc>.json`` below ``--op_bank_path`` or ``TUNE_BANK_PATH``, e.g. ``{"Add":
        {"tile": 8}}``; ``tile`` counts elements.
        """
        origin = "--op_bank_path" if bank else "TUNE_BANK_PATH"
        directory = bank or environ.get("TUNE_BANK_PATH", "")
        if not directory:
            return {}
        if not Path(directory).is_dir():
            raise invalid_path(directory, origin, "there is no such directory")
        path = Path(directory) / f"{soc}.json"
        if not path.exists():
            return {}
        try:
            return _tuning(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise invalid_path(
                path, origin, f'{error}; write {{"<type>": {{"tile": <elements>}}}}'
            ) from None

    def load_custom_operators(self, environ: Mapping[str, str]) -> None:
        """Let the modules of ``ASCEND_CUSTOM_OPP_PATH`` register operators in this process."""
        package = environ.get("ASCEND_CUSTOM_OPP_PATH", "")
        if package:
            for path in sorted((Path(package) / CUSTOM_OPERATORS).glob("*.py")):
                self.load(path)

    def load(self, path: Path) -> None:
        """Run one module of a custom operator package.

        It is compiled from source every time, because byte code that Python keeps by modification
        time can be stale.
        """
        try:
            source = path.read_text(encoding="utf-8")
            exec(compile(source, path.name, "exec"), {"__name__": path.stem})
        except (Exception, SystemExit) as error:
            raise AtcError(
                "E40021", f"Failed to load custom operators from [{path}]: {error!r}."
            ) from error


def installed_compiler(environ: Mapping[str, str]) -> str:
    """``Version`` of ``$ASCEND_TOOLKIT_HOME/compiler/version.info``, or ``""`` if there is none."""
    home = environ.get("ASCEND_TOOLKIT_HOME", "")
    return _version(Path(home, "compiler"), "ASCEND_TOOLKIT_HOME") if home else ""


def _version(directory: Path, origin: str) -> str:
    """The ``Version`` in a part's ``version.info``, or ``""`` if there is no such file. Raises
    ``AtcError`` (E40023), which names the variable ``origin``, if the file says none."""
    path = directory / "version.info"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise invalid_path(path, origin, str(error)) from None
    for key, _, value in (line.partition("=") for line in text.splitlines()):
        if key.strip().casefold() == "version" and (version := value.strip(" \t\"'")):
            return version
    raise invalid_path(path, origin, "it names no version; write Version=8.0.RC3")


def _tuning(document: Any) -> dict[str, dict[str, int]]:
    if not isinstance(document, dict):
        raise ValueError("the top level is no object")
    for operator, parameters in document.items():
        if not isinstance(parameters, dict):
            raise ValueError(f"[{operator}] is no object")
        for name, value in parameters.items():
            if name != "tile" or type(value) is not int or not 1 <= value <= 4096:
                raise ValueError(f"[{operator}.{name}] is {value!r}, not a tile of 1 to 4096")
    return cast(dict[str, dict[str, int]], document)
