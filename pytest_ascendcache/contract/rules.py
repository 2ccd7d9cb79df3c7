"""The rules: one TOML file per document below ``rules/``, loaded and checked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_ascendcache.contract.toml import tomllib


class Level(str, Enum):
    """How binding a rule is.

    ``MUST``: a document states it. ``SHOULD``: a document recommends it, or no user could
    accept the opposite. ``INFO``: the document leaves it open; observed, reported, never failed.
    """

    MUST = "must"
    SHOULD = "should"
    INFO = "info"


class Capability(str, Enum):
    """What a toolchain can do beyond compiling; a rule that needs more is not applicable."""

    OPERATOR_CACHE = "operator-cache"
    CANN_LAYOUT = "cann-layout"
    RUN_KERNELS = "run-kernels"
    DEBUG_CONFIG = "debug-config"
    SINGLE_OP_DEBUG = "single-op-debug"
    KNOWLEDGE_BASE = "knowledge-base"
    TOOLCHAIN_CHANGE = "toolchain-change"
    IMPL_MODE_TABLES = "impl-mode-tables"
    FAULT_POINTS = "fault-points"
    VERSION_STAMP = "version-stamp"
    INCREMENTAL_BUILD = "incremental-build"
    REHEARSED_WAITS = "rehearsed-waits"
    GANG_LAUNCHER = "gang-launcher"
    OP_COMPILER = "op-compiler"
    STATIC_KERNEL_CLIENT = "static-kernel-client"

    @property
    def lacking(self) -> str:
        """What to say where a toolchain does not have it."""
        return {
            Capability.OPERATOR_CACHE: "compiles no single operators into a cache",
            Capability.CANN_LAYOUT: "does not lay its cache out as CANN does",
            Capability.RUN_KERNELS: "kernels cannot be run on this machine",
            Capability.DEBUG_CONFIG: "does not take --op_debug_config for single operators, and "
            "models cannot be written: pip install pytest-ascendcache[onnx]",
            Capability.SINGLE_OP_DEBUG: "does not take --op_debug_config for single operators",
            Capability.KNOWLEDGE_BASE: "no way to change its tuning knowledge base is known",
            Capability.TOOLCHAIN_CHANGE: "no way to change one of its dependencies is known",
            Capability.IMPL_MODE_TABLES: "its implementation mode tables (opp/built-in/op_impl/"
            "ai_core/tbe/impl_mode) are not found",
            Capability.FAULT_POINTS: "its file operations cannot be watched: there is no strace, "
            "or ptrace is refused here",
            Capability.VERSION_STAMP: "no way to give it another version is known",
            Capability.INCREMENTAL_BUILD: "runs no network with incremental build",
            Capability.GANG_LAUNCHER: "has no launcher of its own that starts several ranks",
            Capability.REHEARSED_WAITS: "cannot shorten the seconds it waits for other ranks; "
            "--ascend-real-waits waits the two minutes",
            Capability.OP_COMPILER: "has no op_compiler; --ascend-op-compiler names one",
            Capability.STATIC_KERNEL_CLIENT: "runs no network with static kernels",
        }[self]


@dataclass(frozen=True)
class Source:
    """Where a promise is made: the document and its section.

    ``document_zh`` is its name in Chinese; ``address`` its page, where it is public.
    """

    document: str
    section: str
    document_zh: str = ""
    address: str = ""

    def __str__(self) -> str:
        return f"{self.document}: {self.section}"


@dataclass(frozen=True)
class Rule:
    """One promise. Titles are short sentences, statements whole ones, both in two languages.

    ``rests_on`` is the id of a rule that explains this one where both are broken: what is not
    where it has to be is not read either.
    """

    id: str
    level: Level
    title_en: str
    title_zh: str
    statement: str
    source: Source
    capabilities: frozenset[Capability]
    statement_zh: str = ""
    rests_on: str = ""


class RuleFileError(ValueError):
    """A rule file that does not describe rules."""


_FIELDS = {"id", "level", "title_en", "title_zh", "statement", "section"}
_OPTIONAL = {"capabilities", "statement_zh", "rests_on"}
_DOCUMENT = {"document", "document_zh", "address"}


@lru_cache(maxsize=1)
def load_rules() -> Mapping[str, Rule]:
    """Every rule by its id, in the order of the files.

    Raises:
        RuleFileError: for a missing or unknown field, or an id used twice.
    """
    rules: dict[str, Rule] = {}
    for path in sorted((Path(__file__).parent / "rules").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if not {"document", "rule"} <= set(content) <= {"rule", *_DOCUMENT}:
            raise RuleFileError(
                f"{path.name}: needs one 'document' and a list of 'rule', and may have "
                "'document_zh' and 'address'."
            )
        for fields in content["rule"]:
            rule = _rule(fields, content, path.name)
            if rule.id in rules:
                raise RuleFileError(f"{path.name}: the rule '{rule.id}' exists twice.")
            rules[rule.id] = rule
    return MappingProxyType(rules)


@lru_cache(maxsize=8)
def rules_for(toolchain: str) -> Mapping[str, Rule]:
    """The rules as they are for a toolchain's cache, by its name.

    A cache that has documents of its own is judged by those: a file below ``other_caches/`` says
    which level, statement and source a rule then has.

    Raises:
        RuleFileError: for a file that does not say that.
    """
    rules = dict(load_rules())
    for path in sorted((Path(__file__).parent / "other_caches").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if content["toolchain"] != toolchain:
            continue
        for fields in content["rule"]:
            if fields.get("id") not in rules or set(fields) - {"statement_zh"} != _OTHER_FIELDS:
                raise RuleFileError(f"{path.name}: {fields} describes no rule that there is.")
            rules[fields["id"]] = replace(
                rules[fields["id"]],
                level=Level(fields["level"]),
                statement=fields["statement"],
                statement_zh=fields.get("statement_zh", ""),
                source=_source(content, fields["section"]),
            )
    return MappingProxyType(rules)


_OTHER_FIELDS = {"id", "level", "statement", "section"}


def _rule(fields: dict[str, Any], document: Mapping[str, Any], origin: str) -> Rule:
    name = fields.get("id", "without id")
    wrong = (set(fields) ^ _FIELDS) - _OPTIONAL
    if wrong:
        raise RuleFileError(f"{origin}: rule '{name}': missing or unknown {sorted(wrong)}.")
    try:
        return Rule(
            id=fields["id"],
            level=Level(fields["level"]),
            title_en=fields["title_en"],
            title_zh=fields["title_zh"],
            statement=fields["statement"],
            statement_zh=fields.get("statement_zh", ""),
            source=_source(document, fields["section"]),
            capabilities=frozenset(map(Capability, fields.get("capabilities", ()))),
            rests_on=fields.get("rests_on", ""),
        )
    except ValueError as error:
        raise RuleFileError(f"{origin}: rule '{name}': {error}.") from None


def _source(document: Mapping[str, Any], section: str) -> Source:
    """A section of the document that a file of rules is about."""
    names = (document.get(each, "") for each in ("document_zh", "address"))
    return Source(document["document"], section, *names)
