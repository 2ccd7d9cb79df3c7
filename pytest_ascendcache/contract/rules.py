"""The rules, loaded from one TOML file per document below ``rules/``."""

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

    ``MUST``: a document states it. ``SHOULD``: a document recommends it, or no user could accept
    the opposite. ``INFO``: the document leaves it open; it is observed and reported, but never
    fails.
    """

    MUST = "must"
    SHOULD = "should"
    INFO = "info"


class Capability(str, Enum):
    """What a toolchain can do beyond compiling. A rule that needs more is not applicable.

    ``lacking`` is the reason to report if a toolchain does not have it.
    """

    lacking: str

    def __new__(cls, value: str, lacking: str = "") -> Capability:
        member = str.__new__(cls, value)
        member._value_ = value
        member.lacking = lacking
        return member

    OPERATOR_CACHE = "operator-cache", "compiles no single operators into a cache"
    CANN_LAYOUT = "cann-layout", "does not lay its cache out as CANN does"
    RUN_KERNELS = "run-kernels", "kernels cannot be run on this machine"
    DEBUG_CONFIG = (
        "debug-config",
        "does not take --op_debug_config for single operators, and models cannot be written: "
        "pip install pytest-ascendcache[onnx]",
    )
    SINGLE_OP_DEBUG = "single-op-debug", "does not take --op_debug_config for single operators"
    KNOWLEDGE_BASE = "knowledge-base", "no way to change its tuning knowledge base is known"
    TOOLCHAIN_CHANGE = "toolchain-change", "no way to change one of its dependencies is known"
    IMPL_MODE_TABLES = (
        "impl-mode-tables",
        "its implementation mode tables (opp/built-in/op_impl/ai_core/tbe/impl_mode) are not "
        "found; export ASCEND_OPP_PATH=DIR",
    )
    FAULT_POINTS = (
        "fault-points",
        "its file operations cannot be watched: there is no strace, or ptrace is refused here",
    )
    VERSION_STAMP = "version-stamp", "no way to give it another version is known"
    INCREMENTAL_BUILD = "incremental-build", "runs no network with incremental build"
    REHEARSED_WAITS = (
        "rehearsed-waits",
        "cannot shorten the seconds it waits for other ranks; -o ascend_real_waits=true waits the "
        "two minutes",
    )
    GANG_LAUNCHER = "gang-launcher", "has no launcher of its own that starts several ranks"
    OP_COMPILER = (
        "op-compiler",
        "has no op_compiler; --ascend-toolchain=op-compiler:PATH judges one",
    )
    STATIC_KERNEL_CLIENT = "static-kernel-client", "runs no network with static kernels"


@dataclass(frozen=True)
class Source:
    """The source of a promise: a document and its section.

    ``document_zh`` is the document's name in Chinese; ``address`` is its page if it is public.
    """

    document: str
    section: str
    document_zh: str = ""
    address: str = ""

    def __str__(self) -> str:
        return f"{self.document}: {self.section}"


@dataclass(frozen=True)
class Rule:
    """One promise of the documents, with a short title and a full statement in two languages.

    ================  =============================================================================
    ``rests_on``      the ids of rules that this one takes for granted: what is not stored is not
                      reused either. Where an elementary check of one is broken, this one is not
                      judged
    ``explained_by``  the id of a rule whose every breach explains a breach of this one
    ``product``       the product whose documents promise it; empty if it has no editions
    ``differs``       whether the editions differ in it
    ``promised_by``   the edition that promises it, if the judging edition does not
    ``unread``        whether the judging edition's page on it could not be read
    ``lowered``       whether it is *info* for this edition or cache alone; harm that no user could
                      accept then fails a run all the same
    ================  =============================================================================

    The level is *info* if ``promised_by`` or ``unread`` is set.
    """

    id: str
    level: Level
    title_en: str
    title_zh: str
    statement: str
    source: Source
    capabilities: frozenset[Capability]
    statement_zh: str = ""
    rests_on: tuple[str, ...] = ()
    explained_by: str = ""
    product: str = ""
    differs: bool = False
    promised_by: str = ""
    unread: bool = False
    lowered: bool = False


class RuleFileError(ValueError):
    """A rule file is invalid."""


_SPREAD = {"since", "until", "unread", "edition"}
"""The fields that make a rule differ between editions."""
_FIELDS = {"id", "level", "title_en", "title_zh", "statement", "section"}
_OPTIONAL = {"capabilities", "statement_zh", "rests_on", "explained_by", "page", *_SPREAD}
_DOCUMENT = {"document", "document_zh", "address", "product", "page", "unread"}
_SPAN = {"from", "until"}
_VARIED = _FIELDS - {"id"} | {"statement_zh"}
_OTHER_FIELDS = {"id", "level", "statement", "section"}


@lru_cache(maxsize=32)
def load_rules(*judged_by: Edition) -> Mapping[str, Rule]:
    """All rules by id, in the order of the files, in these editions of the documents; of other
    products in the default edition. Raises ``RuleFileError``."""
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
    """The rules for a toolchain's cache, given by name, in these editions of the documents. A file
    below ``other_caches/`` sets level, statement and source for a cache with its own documents.
    Raises ``RuleFileError``."""
    rules = dict(load_rules(*judged_by))
    for path in sorted((Path(__file__).parent / "other_caches").glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if content["toolchain"] != toolchain:
            continue
        for fields in content["rule"]:
            if fields.get("id") not in rules or set(fields) - {"statement_zh"} != _OTHER_FIELDS:
                raise RuleFileError(f"{path.name}: {fields} does not describe a known rule.")
            rule, level = rules[fields["id"]], Level(fields["level"])
            rules[fields["id"]] = replace(
                rule,
                level=level,
                lowered=rule.lowered or level is Level.INFO is not rule.level,
                statement=fields["statement"],
                statement_zh=fields.get("statement_zh", ""),
                source=_source(content, fields["section"]),
                differs=False,
                promised_by="",
                unread=False,
            )
    return MappingProxyType(rules)


@lru_cache(maxsize=512)
def foundations(rule: str) -> frozenset[str]:
    """The ids of all rules that a rule rests on, directly or through further rules."""
    rules, found = load_rules(), {rule}
    left = [rule]
    while left and (known := rules.get(left.pop())):
        more = set(known.rests_on) - found
        found |= more
        left += more
    return frozenset(found - {rule})


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
        unread = fields.get("unread", document.get("unread", ()))
        rule = Rule(
            id=fields["id"],
            level=Level(varied["level"]),
            title_en=varied["title_en"],
            title_zh=varied["title_zh"],
            statement=varied["statement"],
            statement_zh=varied.get("statement_zh", ""),
            source=_source({**document, **own_page}, varied["section"], edition),
            capabilities=frozenset(map(Capability, fields.get("capabilities", ()))),
            rests_on=tuple(fields.get("rests_on", ())),
            explained_by=fields.get("explained_by", ""),
            product=document.get("product", ""),
            # An empty list in the rule replaces the document's.
            differs=bool(unread or (_SPREAD - {"unread"}) & set(fields)),
        )
        if edition is None:
            return rule
        if edition in map(named, unread):
            return _unread(rule, edition)
        return _where_promised(rule, fields, edition)
    except (ValueError, NoEditionError) as error:
        raise RuleFileError(f"{origin}: rule '{name}': {error}.") from None


def _in_edition(fields: Mapping[str, Any], edition: Edition) -> Mapping[str, Any]:
    """A rule's fields, with those that the edition words or ranks differently replaced."""
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
    """The rule on level *info*, because the edition's page could not be read."""
    return replace(
        rule,
        level=Level.INFO,
        statement=f"What {edition} says of this could not be read; observed: {rule.statement}",
        statement_zh=f"未能读到 {edition} 对此的说明，仅记录：{rule.statement_zh}",
        unread=True,
        lowered=rule.level is not Level.INFO,
    )


def _where_promised(rule: Rule, fields: Mapping[str, Any], edition: Edition) -> Rule:
    """The rule, but on level *info* if this edition does not promise it."""
    since, until = fields.get("since"), fields.get("until")
    if _within(since, until, edition):
        return rule
    promising, *later = (
        each for each in editions_of(edition.product) if _within(since, until, each)
    )
    phrase, phrase_zh = "promises this, {0} does not yet", "开始承诺，{0} 尚未承诺"
    if _within(since, None, edition):
        promising = [promising, *later][-1]
        phrase, phrase_zh = "promised this, {0} no longer does", "曾经承诺，{0} 不再承诺"
    then = load_rules(promising)[rule.id] if promising != default(edition.product) else rule
    return replace(
        rule,
        level=Level.INFO,
        statement=f"{promising} {phrase.format(edition)}: {then.statement}",
        statement_zh=f"{promising} {phrase_zh.format(edition)}：{then.statement_zh}",
        promised_by=str(promising),
        lowered=then.level is not Level.INFO,
    )


def _source(document: Mapping[str, Any], section: str, edition: Edition | None = None) -> Source:
    """The source of a rule: a section of its file's document, in an edition."""
    names = [document.get(each, "") for each in ("document", "document_zh", "address")]
    if edition is not None:
        names = [each.replace("{edition}", str(edition)) for each in names]
        names[2] = names[2] or address_of(document.get("page", ""), edition)
    return Source(names[0], section, *names[1:])
