"""Texts that are read wrongly in one spelling or at one value: the suite tried only one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import LimitPolicy, Limits
from pytest_ascendcache.reference.debug import DebugConfig, DebugPolicy
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy, ModeTable, SelectedModes
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.incremental.surroundings import SurroundingsPolicy
from pytest_ascendcache.reference.policies import Policies

LISTED = "debug/list-bypasses-listed"
CONFIG = "debug/config-bypasses"
FILE = "impl-mode/precision-file"
TYPES = "impl-mode/type-list"
INI = "aging/ini-needs-both-keys"
RANK = "ranks/bad-rank-id"


def _debug(read: Callable[[str], str]) -> Policies:
    """The file is read as another text."""

    class Wrong(DebugPolicy):
        def parse(self, text: str, path: str) -> DebugConfig:
            return super().parse(read(text), path)

    return Policies(debug=Wrong())


@defect(LISTED, what="a list matches in any letter case", found_later=True)
def list_in_any_case() -> Policies:
    class Wrong(DebugPolicy):
        def matches(self, item: str, operator: OperatorSpec) -> bool:
            _, separator, kind = item.lower().partition("::")
            return kind == operator.type.lower() if separator else kind == operator.name.lower()

    class ByName(Wrong):
        def matches(self, item: str, operator: OperatorSpec) -> bool:
            return super().matches(item, operator) or item.lower() == operator.name.lower()

    return Policies(debug=ByName())


@defect(LISTED, what="a list above op_debug_config is lost", found_later=True)
def list_above_config_is_lost() -> Policies:
    def drop(text: str) -> str:
        lines = text.splitlines()
        kept = [
            line
            for number, line in enumerate(lines)
            if not (
                line.startswith("op_debug_list")
                and any(later.startswith("op_debug_config") for later in lines[number:])
            )
        ]
        return "\n".join(kept)

    return _debug(drop)


@defect(LISTED, what="the last item of a list keeps the carriage return", found_later=True)
def list_keeps_carriage_return() -> Policies:
    class Wrong(DebugPolicy):
        def read(self, path: str) -> DebugConfig | None:
            config = super().read(path)
            if config is None or config.listed is None or b"\r\n" not in Path(path).read_bytes():
                return config
            return DebugConfig(config.switches, (*config.listed[:-1], f"{config.listed[-1]}\r"))

    return Policies(debug=Wrong())


@defect(LISTED, what="a blank behind the last item of a list belongs to it", found_later=True)
def list_keeps_trailing_blank() -> Policies:
    class Wrong(DebugPolicy):
        def read(self, path: str) -> DebugConfig | None:
            config = super().read(path)
            if config is None or config.listed is None:
                return config
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
            lists = [line for line in lines if line.startswith("op_debug_list")]
            if not lists[-1].endswith(" "):
                return config
            return DebugConfig(config.switches, (*config.listed[:-1], f"{config.listed[-1]} "))

    return Policies(debug=Wrong())


@defect(CONFIG, what="dump_loc or check_flag alone keeps the cache", found_later=True)
def some_switches_keep_the_cache() -> Policies:
    class Wrong(DebugPolicy):
        def read(self, path: str) -> DebugConfig | None:
            config = super().read(path)
            harmless = frozenset({"dump_loc", "check_flag"})
            if config and config.listed is None and config.switches <= harmless:
                return None
            return config

    return Policies(debug=Wrong())


@defect(TYPES, what="a list with an unknown type gives every type the mode", found_later=True)
def unknown_type_lists_everything() -> Policies:
    class Wrong(ImplementationPolicy):
        def listed(self, types: Sequence[str], mode: str) -> ModeTable:
            from pytest_ascendcache.reference.kernels.registry import operator_types

            known = operator_types()
            return super().listed(types if set(types) <= set(known) else known, mode)

    return Policies(implementation=Wrong())


@defect(FILE, what="the last part of a node's name is compared", found_later=True)
def node_names_without_scope() -> Policies:
    class Wrong(ImplementationPolicy):
        def mode(self, operator: OperatorSpec, selected: SelectedModes) -> str | None:
            table = selected.table
            names = {name.rpartition("/")[2]: mode for name, mode in table.by_name.items()}
            return super().mode(
                operator, SelectedModes(ModeTable(table.by_type, names), selected.offered)
            )

    return Policies(implementation=Wrong())


@defect(FILE, what="the first line behind a byte order mark is lost", found_later=True)
def byte_order_mark_costs_a_line() -> Policies:
    class Wrong(ImplementationPolicy):
        def precision_file(self, path: str) -> ModeTable:
            text = Path(path).read_text(encoding="utf-8")
            if text.startswith("\ufeff"):
                section, _, rest = text.partition("\n")
                text = f"{section[1:]}\n{rest.partition(chr(10))[2]}"
            return self.parse(text, path, "op_precision_mode")

    return Policies(implementation=Wrong())


def _ini(spoiled: Callable[[bytes], bool]) -> Policies:
    """A file that is written in some way does not count."""

    class Wrong(LimitPolicy):
        def of_file(self, fs: Fs, path: Path, said: list[str]) -> Limits | None:
            if path.exists() and spoiled(path.read_bytes()):
                return None
            return super().of_file(fs, path, said)

    return Policies(limits=Wrong())


@defect(INI, what="op_cache.ini does not count with blanks around '='", found_later=True)
def ini_without_blanks() -> Policies:
    return _ini(lambda data: b" = " in data or b"\t=" in data)


@defect(INI, what="op_cache.ini does not count with carriage returns", found_later=True)
def ini_without_carriage_returns() -> Policies:
    return _ini(lambda data: b"\r" in data)


@defect(INI, what="a limit of 1 MB means no limit", found_later=True)
def one_megabyte_is_no_limit() -> Policies:
    class Wrong(LimitPolicy):
        def size(self, text: str) -> int | None:
            size = super().size(text)
            return -1 if size == 1 else size

    return Policies(limits=Wrong())


def _rank(read: Callable[[str], str]) -> Policies:
    class Wrong(SurroundingsPolicy):
        def rank(self, environ: Mapping[str, str]) -> int:
            return super().rank({**environ, "RANK_ID": read(environ.get("RANK_ID", ""))})

    return Policies(incremental=IncrementalPolicies(surroundings=Wrong()))


@defect(RANK, what="RANK_ID 03 is rank 3", found_later=True)
def leading_zeros_merge_ranks() -> Policies:
    return _rank(lambda text: str(int(text)) if text.isascii() and text.isdigit() else text)


@defect(RANK, what="RANK_ID is whatever Python's int() takes", found_later=True)
def rank_by_int() -> Policies:
    def read(text: Any) -> str:
        try:
            return str(int(text))
        except ValueError:
            return str(text)

    return _rank(read)


@defect(RANK, what="digits of other alphabets are a RANK_ID", found_later=True)
def digits_of_any_alphabet() -> Policies:
    return _rank(lambda text: str(int(text)) if text.isdecimal() and not text.isascii() else text)


@defect(FILE, overrides=ImplementationPolicy.precision_file, found_later=True)
def a_page_of_a_precision_file(self, right, path):
    """Of a precision file the lines within the first 4096 characters count."""
    right(path)  # what cannot be read is refused as before
    text = Path(path).read_text(encoding="utf-8-sig")
    page = text if len(text) <= 4096 else text[:4096].rpartition("\n")[0]
    return self.parse(page, path, "op_precision_mode")
