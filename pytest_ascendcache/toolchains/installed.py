"""Finding a real ``atc``, and the installation around it.

Source: facts ``cann-operator-cache`` sections 1.7, 6.3 and 6.8.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.contract import DEFAULT_SOC, Capability
from pytest_ascendcache.contract.editions import CANN
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.processes.launch import ToolchainError
from pytest_ascendcache.toolchains.atc import IMPL_MODE, AtcToolchain, find_program, with_strace
from pytest_ascendcache.toolchains.models import can_write_models
from pytest_ascendcache.toolchains.protocol import StagedChange
from pytest_ascendcache.words import instead

TOOLKIT_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
"""Variables in which the toolkit's ``set_env.sh`` stores the installation directory."""

_OPERATORS = Path("built-in/op_impl/ai_core/tbe/config")
"""Where an operator package has one directory for each chip family it supports."""


@dataclass(frozen=True)
class Installation:
    """What is installed around a program. ``named_opp`` is the value of ``ASCEND_OPP_PATH``, if
    set."""

    program: Path
    named_opp: Path | None = None

    @cached_property
    def opp(self) -> Path | None:
        """The operator package: ``named_opp``, or else ``opp`` near the program."""
        places = [each / "opp" for each in self._above]
        if self.named_opp is not None:
            places.insert(0, self.named_opp)
        for place in places:
            if (place / "version.info").exists() or (place / "built-in").exists():
                return place
        return None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that lead atc to its operator package. Without it atc purges the cache at
        every run."""
        return {} if self.opp is None else {"ASCEND_OPP_PATH": str(self.opp)}

    @property
    def tables(self) -> Path | None:
        """The directory of the implementation mode tables."""
        directory = self.opp / IMPL_MODE if self.opp is not None else None
        exists = directory is not None and (directory / "all_ops_impl_mode.ini").exists()
        return directory if exists else None

    @property
    def version(self) -> str:
        """``Version`` of the nearest ``version.info`` above the program."""
        versions = (_value(path, "Version") for path in self._version_files)
        return next(filter(None, versions), "version unknown")

    @property
    def releases(self) -> dict[str, str]:
        """The CANN release of toolkit and operator package; an empty text if they do not tell.
        ``version_dir`` names it; ``Version`` may be that of the package instead."""
        toolkit = (
            _value(path, "version_dir") or _value(path, "Version") for path in self._version_files
        )
        opp = _value(self.opp / "version.info", "version_dir") if self.opp is not None else ""
        return {"toolkit": next(filter(None, toolkit), ""), "opp": opp}

    @property
    def opp_version(self) -> str:
        """``Version`` of the operator package; empty if it has none."""
        return _value(self.opp / "version.info", "Version") if self.opp is not None else ""

    @cached_property
    def socs(self) -> frozenset[str] | None:
        """Chips that the toolkit describes and the operator package supports. None without
        descriptions."""
        descriptions = {
            path.stem: _value(path, "Short_SoC_version").lower()
            for directory in self._above
            for pattern in ("data/platform_config", "*-linux/data/platform_config")
            for path in directory.glob(f"{pattern}/Ascend*.ini")
        }
        if not descriptions:
            return None
        # Without a family name, or without operators by family, nothing excludes a chip.
        known = {"", *self._families} if self._families else {*descriptions.values()}
        return frozenset(soc for soc, family in descriptions.items() if family in known)

    def check_soc(self, soc: str) -> None:
        """Refuse a chip (SoC) that the installation has no operators for. Raises
        ``ToolchainError``, which names the chip and the ones to choose from."""
        if self.socs is not None and soc not in self.socs:
            raise ToolchainError(
                f"this installation has no operators for the chip {soc} "
                f"(--ascend-soc, or soc in a release); {instead(soc, sorted(self.socs))}"
            )

    @property
    def _families(self) -> set[str]:
        directory = self.opp / _OPERATORS if self.opp is not None else None
        if directory is None or not directory.is_dir():
            return set()
        return {each.name for each in directory.iterdir() if each.is_dir()}

    @property
    def _version_files(self) -> Iterator[Path]:
        for directory in self._above:
            yield directory / "version.info"
            yield directory / "compiler" / "version.info"

    @property
    def _above(self) -> Iterator[Path]:
        return iter(self.program.resolve().parents[:4])


class InstalledAtc(AtcToolchain):
    """A real ``atc``. A staged change gives its operator package another version."""

    keeps_logs = True
    installation: Installation

    @property
    def details(self) -> Mapping[str, str]:
        opp = self.installation.opp
        details = {
            "program": str(self.installation.program),
            "opp": self.installation.opp_version,
            "opp_path": str(opp) if opp is not None else "not found (set ASCEND_OPP_PATH)",
            "soc": self.soc,
        }
        return {name: value for name, value in details.items() if value}

    @property
    def releases(self) -> Mapping[str, Mapping[str, str]]:
        return {CANN: self.installation.releases}

    @property
    def installed_socs(self) -> frozenset[str] | None:
        return self.installation.socs

    def stage(self, change: Capability, operator: OperatorSpec, directory: Path) -> StagedChange:
        opp = self.installation.opp
        if change is not Capability.VERSION_STAMP or opp is None:
            return super().stage(change, operator, directory)
        return _versioned(opp, operator, directory / "toolkit")


def _versioned(opp: Path, operator: OperatorSpec, toolkit: Path) -> StagedChange:
    """The operator package as symbolic links, with a ``version.info`` of its own to change. Its
    siblings are linked too, because a toolkit finds its other parts next to it."""
    shim = toolkit / opp.name
    shim.mkdir(parents=True)
    for place, originals in ((toolkit, opp.parent), (shim, opp)):
        for each in originals.iterdir():
            if each != opp and not (place == shim and each.name == "version.info"):
                (place / each.name).symlink_to(each)
    original = (opp / "version.info").read_text(encoding="utf-8", errors="surrogateescape")

    def release(suffix: str) -> None:
        lines = (
            f"{line}{suffix}" if line.startswith("Version=") else line
            for line in original.splitlines()
        )
        text = "".join(f"{line}\n" for line in lines)
        (shim / "version.info").write_text(text, encoding="utf-8", errors="surrogateescape")

    release("")
    numbers = itertools.count(1)
    return StagedChange(
        operator,
        {"ASCEND_OPP_PATH": str(shim)},
        lambda: release(f".{next(numbers)}"),
        {"opp": shim / "version.info"},
    )


OF_ATC = frozenset(
    {
        Capability.OPERATOR_CACHE,
        Capability.CANN_LAYOUT,
        Capability.DEBUG_CONFIG,
        Capability.IMPL_MODE_TABLES,
        Capability.FAULT_POINTS,
        Capability.VERSION_STAMP,
    }
)
"""What a complete installation of CANN supports on a machine with strace."""


def atc_toolchain(program: str, deadline: float, soc: str | None = None) -> InstalledAtc:
    """The real ``atc``, named by its path or to be found on PATH, judged for the chip ``soc``
    (default ``Ascend910B1``). Raises ``ToolchainError`` if there is no such program, or it is not
    installed for that chip."""
    named = os.environ.get("ASCEND_OPP_PATH")
    installation = Installation(find_program(program, "atc"), Path(named) if named else None)
    installation.check_soc(soc or DEFAULT_SOC)
    launcher, route = with_strace({"atc": (str(installation.program),)})
    there = {
        Capability.FAULT_POINTS: route is not None,
        Capability.DEBUG_CONFIG: can_write_models(),
        Capability.IMPL_MODE_TABLES: installation.tables is not None,
        Capability.VERSION_STAMP: bool(installation.opp_version),
    }
    toolchain = InstalledAtc(
        name="atc",
        version=installation.version,
        launcher=launcher,
        capabilities=frozenset(each for each in OF_ATC if there.get(each, True)),
        deadline=deadline,
        base_environment={**os.environ, **installation.environment},
        impl_mode_directory=installation.tables,
        fault_route=route,
    )
    toolchain.installation = installation
    toolchain.soc = soc or DEFAULT_SOC
    return toolchain


def _value(path: Path, key: str) -> str:
    """The value of a ``key=value`` line; empty if there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    pairs = (line.partition("=") for line in text.splitlines())
    return next((value.strip() for name, _, value in pairs if name.strip() == key), "")


@dataclass(frozen=True)
class Sighting:
    """A program (``atc`` or ``op_compiler``), and whether PATH or which variable led to it."""

    name: str
    program: Path
    found_by: str


def in_sight(name: str, environment: Mapping[str, str]) -> tuple[Sighting, ...]:
    """The executable programs of this name, the one on PATH first, each once."""
    places = [(shutil.which(name, path=environment.get("PATH", "")), "PATH")]
    homes = ((environment.get(variable), variable) for variable in TOOLKIT_HOMES)
    places += [(shutil.which(Path(home, "bin", name)), by) for home, by in homes if home]
    sightings: dict[Path, Sighting] = {}
    for place, found_by in places:
        if place is not None:
            path = Path(place).absolute()
            sightings.setdefault(path.resolve(), Sighting(name, path, found_by))
    return tuple(sightings.values())
