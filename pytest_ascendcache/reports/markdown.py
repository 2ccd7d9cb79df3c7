"""What GitHub shows of a run: the summary of a job, and an annotation for each cause."""

from __future__ import annotations

from pytest_ascendcache.language import Language, text, translated
from pytest_ascendcache.reports.answer import answer, harm_of, judged_by, promise, promising, where
from pytest_ascendcache.reports.cause import Cause
from pytest_ascendcache.reports.causes import causes_of
from pytest_ascendcache.reports.files import Document

_SHOWN = 5
_LONGEST = 500
_ROOM = 300_000
"""Characters of all sections: GitHub rejects a summary of more than 1 MiB."""


def summary(report: Document, language: Language = Language.ENGLISH) -> str:
    """The answer, totals, and every cause with its harm and repeat command, as Markdown."""
    toolchain = report["toolchain"]
    causes = causes_of(report)
    counts = report["totals"]
    words = [text(f"v_{verdict}", language) for verdict in counts["rules"]]
    lines = [
        f"## {text('title', language)}{text('t_colon', language)}"
        f"{_plain(toolchain['name'])} {_plain(toolchain['version'])}",
        "",
        f"**{_plain(answer(report, causes).sentence(language))}**",
        "",
        "| | " + " | ".join(words) + " |",
        "|---|" + "---:|" * len(words),
        *(
            f"| {text(what, language).lower()} | "
            + " | ".join(str(each) for each in counts[what].values())
            + " |"
            for what in ("rules", "checks")
        ),
        "",
    ]
    if editions := judged_by(report, language):
        lines += [_plain(editions), ""]
    for notice in report.get("edition_notices", ()):
        lines += [f"**{_plain(translated(notice, language))}**", ""]
    if missing := report.get("checks_without_verdict"):
        lines += [f"**{text('t_incomplete', language, count=missing)}**", ""]
    if news := report.get("baseline"):
        lines += [
            f"{text('baseline', language)} `{_code(news['file'])}`: "
            f"{text('new', language)} {len(news['new'])}, "
            f"{text('fixed', language)} {len(news['fixed'])}, "
            f"{text('same', language)} {news['same']}",
            "",
        ]
    room = _ROOM
    for cause in causes:
        section = _section(cause, report, language)
        room -= sum(map(len, section))
        if room < 0:
            lines += [text("more_than_shown", language), ""]
            break
        lines += section
    return "\n".join(lines) + "\n"


def workflow_commands(report: Document, language: Language = Language.ENGLISH) -> list[str]:
    """A workflow command of GitHub for each cause: rule and harm, what is wrong and the runs that
    show it, what to do, and the repeat command."""
    lines = []
    for cause in causes_of(report):
        kind = "warning" if cause.verdict == "warn" else "error"
        harm = harm_of(cause, language)
        title = f"{text(f'v_{cause.verdict}', language)}{text('t_colon', language)}{cause.rule}"
        title = _escaped(f"{title} ({harm})" if harm else title)
        title = title.replace(":", "%3A").replace(",", "%2C")
        said = cause.sentence(language)[:_LONGEST]
        history = cause.history.lines(language) if cause.history is not None else []
        seen = [] if cause.is_seen else [translated(cause.reason, language)[:_LONGEST]]
        told = [f"{said} ({where(cause, language)})", *history, *seen, cause.next(language)]
        message = "\n".join(dict.fromkeys([*told, cause.repeat]))
        lines.append(f"::{kind} title={title}::{_escaped(message)}")
    return lines


def _section(cause: Cause, report: Document, language: Language) -> list[str]:
    rule = promising(cause, report)
    source = rule["source"]
    statement, document = promise(rule, language)
    colon, semicolon = text("t_colon", language), text("t_semicolon", language)
    place = f"{_plain(document)}{colon}{_plain(source['section'])}"
    if address := source.get("address"):
        place = f"[{place}]({address})"
    harm = harm_of(cause, language)
    lines = [
        f"<details><summary><b>{text(f'v_{cause.verdict}', language)}</b>"
        f"{f' <b>{harm}</b>' if harm else ''} <code>{cause.rule}</code>{colon}"
        f"{_plain(cause.sentence(language))} ({where(cause, language)})</summary>",
        "",
        f"**{_plain(cause.next(language))}**",
        "",
        *(_block("\n".join(cause.history.lines(language))) if cause.history else ()),
        f"{_plain(statement)} ({text('l_' + rule['level'], language)}{semicolon}{place})",
        "",
    ]
    seen = cause.also if cause.is_seen else (cause.reason, *cause.also)
    lines += [f"- {_plain(translated(each, language))}" for each in seen[:_SHOWN]]
    lines += ["", *(f"- `{name}`: {count}" for name, count in cause.rules.items())]
    lines += ["", f"- `{_code(cause.checks[0]['check'])}`", "", *_block(cause.repeat)]
    if cause.script:
        lines += [f"{text('script_title', language)}{text('t_colon', language)}", ""]
        lines += _block(cause.script)
    return [*lines, "</details>", ""]


def _block(text: str) -> list[str]:
    """A code block by indentation, which no text can end as it can end a fence."""
    return ["      " + _printable(line) for line in text.splitlines()] + [""]


def _code(text: str) -> str:
    return _printable(text).replace("`", "'")


def _plain(text: str) -> str:
    escaped = _printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + each if each in "\\`*_[]|" else each for each in escaped)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
