"""Debug switches: the ``--op_debug_config`` file, and how they change a compile.

Source: document C, parameter constraints; facts ``cann-operator-cache`` section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.reference.edition import PRESENT, Played
from pytest_ascendcache.reference.errors import AtcError, bad_content, unreadable

SWITCHES = ("oom", "dump_cce", "dump_loc", "ccec_O0", "ccec_g", "check_flag")


@dataclass(frozen=True)
class DebugFile:
    """A debug configuration file. ``listed`` is ``None`` if it has no ``op_debug_list``."""

    switches: frozenset[str]
    listed: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DebugRequest:
    """How debugging compiles one operator, and which files it keeps."""

    active: bool = False
    optimise: bool = True
    debug_info: bool = False
    check_arguments: bool = False
    keep_binary: bool = False
    keep_source: bool = False
    keep_locations: bool = False


class DebugPolicy:
    """Decides which operators are debugged, and how."""

    edition: Played = PRESENT

    def read(self, path: str) -> DebugFile | None:
        """Read the file of ``--op_debug_config``; ``None`` if the option is empty."""
        if not path:
            return None
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise AtcError(
                "E20101",
                f"Value [{path}] for parameter [op_debug_config] is invalid. "
                f"Reason: the file cannot be read ({unreadable(error)}).",
            ) from None
        return self.parse(text, path)

    def parse(self, text: str, path: str) -> DebugFile:
        """Read the lines of a debug configuration."""
        bad = partial(bad_content, path, "op_debug_config")
        values: dict[str, tuple[str, ...]] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key, separator, value = (part.strip() for part in line.partition("="))
            items = tuple(item.strip() for item in value.split(",") if item.strip())
            if key not in ("op_debug_config", "op_debug_list") or not separator:
                raise bad(
                    f"line {number} is [{line.strip()}]; write op_debug_config = ... or "
                    "op_debug_list = ..."
                )
            if not items:
                raise bad(f"line {number} gives [{key}] no value; list at least one")
            values[key] = items
        if not values:
            raise bad("it is empty; write op_debug_config = ...")
        switches = values.get("op_debug_config", ())
        unknown = next((each for each in switches if each not in SWITCHES), None)
        if unknown is not None:
            raise bad_content(
                path,
                "op_debug_config",
                f"[{unknown}] is no debug switch; use {', '.join(SWITCHES)}",
            )
        return DebugFile(frozenset(switches), values.get("op_debug_list"))

    def covers(self, operator: OperatorSpec, config: DebugFile) -> bool:
        """Whether a configuration applies to this operator."""
        if config.listed is None:
            return True
        return any(self.matches(item, operator) for item in config.listed)

    def matches(self, item: str, operator: OperatorSpec) -> bool:
        """Whether one item of the list names this operator: by ``OpType::Type``, or by name."""
        _, separator, operator_type = item.partition("::")
        return operator_type == operator.type if separator else item == operator.name

    def request(self, operator: OperatorSpec, level: int, config: DebugFile | None) -> DebugRequest:
        """The debug request for this operator; inactive if no switch applies to it."""
        covered = config is not None and self.covers(operator, config)
        switches = config.switches if config is not None and covered else frozenset()
        if not level and not covered:
            return DebugRequest()
        return DebugRequest(
            active=covered or level in self.edition.levels,
            optimise=level != 2 and "ccec_O0" not in switches,
            debug_info=level == 2 or "ccec_g" in switches,
            check_arguments="oom" in switches,
            keep_binary=True,
            keep_source=level in (1, 2, 4) or "dump_cce" in switches,
            keep_locations=level in (1, 2) or "dump_loc" in switches,
        )
