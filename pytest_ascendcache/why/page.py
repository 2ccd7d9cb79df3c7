"""The answer of a study: sentences for a terminal in both languages, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.why.package_command import PackageInterface
from pytest_ascendcache.why.request import InputKind, MissCause, SingleChange
from pytest_ascendcache.why.study import MissAnswer, Study
from pytest_ascendcache.words.layout import wrapped

_SHOWN = 4
_INDENT = 3


def page(found: Study, language: Language) -> list[str]:
    """The lines for a terminal."""
    lines = wrapped(
        text(
            "why_served",
            language,
            served=found.served,
            count=found.operators,
            place=found.request.consulted[0],
        )
    )
    for number, cause in enumerate(found.causes, 1):
        said = sentence(cause, found, language)
        lines += wrapped(f"{number}  {_who(cause, found, language)}{said}")
        lines += wrapped(_shown(cause, language), _INDENT)
        lines += wrapped(
            text(f"why_do_{cause.change.kind.value}", language, **_values(cause.change, language)),
            _INDENT,
        )
    for line in _left(found, language):
        lines += wrapped(line)
    return [*lines, *wrapped(text("why_runs", language, runs=found.runs))]


def _left(found: Study, language: Language) -> Iterator[str]:
    if found.answer is MissAnswer.SERVED:
        is_packaged = isinstance(found.request.interface, PackageInterface)
        yield text("why_packaged" if is_packaged else "why_nothing", language)
    elif found.untold:
        yield text(
            "why_untold", language, count=len(found.untold), names=_names(found.untold, language)
        )
    if found.is_near and found.untold:
        yield text("why_near", language)
    if found.is_blind:
        yield text("why_blind", language)
    if found.is_out_of_budget:
        yield text("why_budget", language)
    if found.unread:
        yield text("why_unread", language, count=found.unread)
    for each in found.differences if found.untold else ():
        key = "why_unproven" if each.apply is None else "why_tried"
        yield text(key, language, **_values(each, language))


def sentence(cause: MissCause, found: Study, language: Language) -> str:
    """The cause in one sentence."""
    change = cause.change
    key = f"why_{change.kind.value}"
    if change.about and change.kind is InputKind.DEBUG_CONFIG:
        listed = len(change.about.split(","))
        key += "_all" if len(cause.operators) == found.operators > listed else "_list"
    return text(key, language, **_values(change, language))


def _values(change: SingleChange, language: Language) -> dict[str, str]:
    unset = text("why_default" if change.kind is InputKind.OPTION else "why_unset", language)
    return {
        "name": change.name,
        "here": translated(change.here, language) or unset,
        "there": change.there or unset,
        "about": change.about,
    }


def _who(cause: MissCause, found: Study, language: Language) -> str:
    missed = found.operators - found.served
    if len(cause.operators) == found.operators == missed:
        names = text("why_all", language)
    else:
        names = _names(cause.operators, language)
    return names + text("why_colon", language)


def _names(names: Sequence[str], language: Language) -> str:
    shown = text("why_comma", language).join(names[:_SHOWN])
    if len(names) <= _SHOWN:
        return shown
    return text("why_more", language, names=shown, count=len(names) - _SHOWN)


def _shown(cause: MissCause, language: Language) -> str:
    key = "why_proven" if cause.is_proven else "why_inferred"
    if cause.change.kind in (InputKind.NEW, InputKind.UNSTABLE):
        key = "why_refilled"
    if cause.change.kind is InputKind.FATAL:
        key = "why_succeeds"
    return text(key, language, count=len(cause.operators), runs=cause.runs)


def as_json(found: Study) -> str:
    """The study as a JSON document."""
    document = {
        "schema": 1,
        "command": [
            str(found.request.program),
            *found.request.interface.arguments(found.request.options),
        ],
        "cache": str(found.request.cache),
        "consulted": str(found.request.consulted[0]),
        "answer": found.answer.value,
        "operators": found.operators,
        "served": found.served,
        "runs": found.runs,
        "is_out_of_budget": found.is_out_of_budget,
        "unread": found.unread,
        "untold": list(found.untold),
        "causes": [
            {
                **_plain(cause.change),
                "operators": list(cause.operators),
                "is_proven": cause.is_proven,
                "runs": cause.runs,
                "en": sentence(cause, found, Language.ENGLISH),
                "zh": sentence(cause, found, Language.CHINESE),
            }
            for cause in found.causes
        ],
        "unproven_differences": [_plain(each) for each in found.differences if each.apply is None],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _plain(change: SingleChange) -> dict[str, str]:
    return {name: value for name, value in vars(change).items() if name != "apply"}
