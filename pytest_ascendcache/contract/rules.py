"""The rules: one TOML file per document below ``rules/``, loaded and checked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_ascendcache.contract.editions import (
    DEFAULT_NAMES,
    Edition,
    NoEditionError,
    address_of,
    default,
    editions_of,
    named,
)
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
    where it has to be is not read either. ``product`` is the one whose documents make it, empty
    for what no edition changes; ``differs`` says that its editions do not all say the same.
    ``promised_by`` is the edition that promises it where the one that is judged by does not;
    ``unread`` says that the page of the edition that is judged by was not found, or not its part
    on this. The level is *info* in both cases.
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
    product: str = ""
    differs: bool = False
    promised_by: str = ""
    unread: bool = False


class RuleFileError(ValueError):
    """A rule file that does not describe rules."""


_SPREAD = {"since", "until", "unread", "edition"}
"""What says that editions differ in a rule."""
_FIELDS = {"id", "level", "title_en", "title_zh", "statement", "section"}
_OPTIONAL = {"capabilities", "statement_zh", "rests_on", "page", *_SPREAD}
_DOCUMENT = {"document", "document_zh", "address", "product", "page", "unread"}
_SPAN = {"from", "until"}
_VARIED = _FIELDS - {"id"} | {"statement_zh"}


@lru_cache(maxsize=32)
def load_rules(*judged_by: Edition) -> Mapping[str, Rule]:
    """Every rule by its id, in the order of the files, as editions of the documents have it.

    A product of which no edition is given is judged by its default one.

    Raises:
        RuleFileError: for a missing or unknown field, or an id used twice.
    """
    editions = {product: default(product) for product in DEFAULT_NAMES}
    editions |= {each.product: each for each in judged_by}
    rules: dict[str, Rule] = {}
    for path in sorted((Path(__file__).parent / "rules").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if not {"document", "rule"} <= set(content) <= {"rule", *_DOCUMENT}:
            raise RuleFileError(
                f"{path.name}: needs one 'document' and a list of 'rule', and may have "
                "'document_zh', 'address', 'product', 'page' and 'unread'."
            )
        edition = editions.get(content.get("product", ""))
        for fields in content["rule"]:
            rule = _rule(fields, content, path.name, edition)
            if rule.id in rules:
                raise RuleFileError(f"{path.name}: the rule '{rule.id}' exists twice.")
            rules[rule.id] = rule
    return MappingProxyType(rules)


@lru_cache(maxsize=32)
def rules_for(toolchain: str, *judged_by: Edition) -> Mapping[str, Rule]:
    """The rules as they are for a toolchain's cache, by its name, in editions of the documents.

    A cache that has documents of its own is judged by those: a file below ``other_caches/`` says
    which level, statement and source a rule then has.

    Raises:
        RuleFileError: for a file that does not say that.
    """
    rules = dict(load_rules(*judged_by))
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
                differs=False,
                promised_by="",
                unread=False,
            )
    return MappingProxyType(rules)


_OTHER_FIELDS = {"id", "level", "statement", "section"}


def _rule(
    fields: dict[str, Any], document: Mapping[str, Any], origin: str, edition: Edition | None
) -> Rule:
    name = fields.get("id", "without id")
    wrong = (set(fields) ^ _FIELDS) - _OPTIONAL
    if wrong:
        raise RuleFileError(f"{origin}: rule '{name}': missing or unknown {sorted(wrong)}.")
    try:
        varied = fields if edition is None else _in_edition(fields, edition)
        own_page = {"page": fields["page"]} if "page" in fields else {}
        rule = Rule(
            id=fields["id"],
            level=Level(varied["level"]),
            title_en=varied["title_en"],
            title_zh=varied["title_zh"],
            statement=varied["statement"],
            statement_zh=varied.get("statement_zh", ""),
            source=_source({**document, **own_page}, varied["section"], edition),
            capabilities=frozenset(map(Capability, fields.get("capabilities", ()))),
            rests_on=fields.get("rests_on", ""),
            product=document.get("product", ""),
            differs=bool(_SPREAD & (set(fields) | set(document))),
        )
        if edition is None:
            return rule
        if edition in map(named, fields.get("unread", document.get("unread", ()))):
            return _unread(rule, edition)
        return _where_promised(rule, fields, edition)
    except (ValueError, NoEditionError) as error:
        raise RuleFileError(f"{origin}: rule '{name}': {error}.") from None


def _in_edition(fields: Mapping[str, Any], edition: Edition) -> Mapping[str, Any]:
    """A rule's fields with what an edition says in other words, or on another level."""
    for variant in fields.get("edition", ()):
        if unknown := set(variant) - _VARIED - _SPAN:
            raise ValueError(f"an edition has unknown {sorted(unknown)}")
        if not _SPAN & set(variant):
            raise ValueError("an edition needs 'from' or 'until'")
        if _within(variant.get("from"), variant.get("until"), edition):
            return {**fields, **variant}
    return fields


def _within(first: str | None, last: str | None, edition: Edition) -> bool:
    not_before = first is None or named(first) <= edition
    return not_before and (last is None or edition <= named(last))


def _unread(rule: Rule, edition: Edition) -> Rule:
    """The rule as it is observed where nobody could read what an edition says of it."""
    return replace(
        rule,
        level=Level.INFO,
        statement=f"What {edition} says of this could not be read; observed: {rule.statement}",
        statement_zh=f"未能读到 {edition} 对此的说明，仅记录：{rule.statement_zh}",
        unread=True,
    )


def _where_promised(rule: Rule, fields: Mapping[str, Any], edition: Edition) -> Rule:
    """The rule as an edition has it that may not promise it: *info* then, and who does."""
    since, until = fields.get("since"), fields.get("until")
    if _within(since, until, edition):
        return rule
    family = editions_of(edition.product)
    promising = next(each for each in family if _within(since, until, each))
    if not _within(since, None, edition):
        said, said_zh = "promises this, {0} does not yet", "开始承诺，{0} 尚未承诺"
    else:
        promising = next(each for each in reversed(family) if _within(since, until, each))
        said, said_zh = "promised this, {0} no longer does", "曾经承诺，{0} 不再承诺"
    then = load_rules(promising)[rule.id] if promising != default(edition.product) else rule
    return replace(
        rule,
        level=Level.INFO,
        statement=f"{promising} {said.format(edition)}: {then.statement}",
        statement_zh=f"{promising} {said_zh.format(edition)}：{then.statement_zh}",
        promised_by=str(promising),
    )


def _source(document: Mapping[str, Any], section: str, edition: Edition | None = None) -> Source:
    """A section of the document that a file of rules is about, in an edition."""
    names = [document.get(each, "") for each in ("document", "document_zh", "address")]
    if edition is not None:
        names = [each.replace("{edition}", str(edition)) for each in names]
        names[2] = names[2] or address_of(document.get("page", ""), edition)
    return Source(names[0], section, *names[1:])
